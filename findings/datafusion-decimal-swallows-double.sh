#!/usr/bin/env bash
# Expected: with parse_float_as_decimal a literal such as 0.0 is a decimal,
# and beside a double it is converted to a double.
#
# Seen with datafusion 55.0.0 (Python): it is the double that becomes a decimal, Decimal128(30, 15), in
# comparisons and arithmetic alike. 3e-17 > 0.0 is false, and a double of 1e20 beside 0.1 is an error
# about its precision. Small probabilities, p-values and exchange rates vanish without a word.
#
# What to do: leave the option off, or write the literal as CAST(0 AS DOUBLE).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import datafusion, pyarrow as pa

config = datafusion.SessionConfig().set("datafusion.sql_parser.parse_float_as_decimal", "true")
context = datafusion.SessionContext(config)
context.register_record_batches("t", [pa.table({"p": [3e-17, 4.9e-16, 1e-3]}).to_batches()])
context.register_record_batches("large", [pa.table({"p": [1e20]}).to_batches()])

print(datafusion.__version__)
found = context.sql("SELECT p FROM t WHERE p > 0.0").to_pydict()["p"]
print("p > 0.0 of 3e-17, 4.9e-16, 1e-3:", found)
try:
    large = context.sql("SELECT p > 0.1 AS c FROM large").to_pydict()["c"]
except Exception as error:
    large = str(error).splitlines()[0]
print("1e20 > 0.1:", large)
assert found == [1e-3]
assert "too large to store in a Decimal128 of precision 30" in str(large), large
P
