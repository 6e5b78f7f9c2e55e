#!/usr/bin/env bash
# Expected: max and min of a group of doubles are what they are without
# GROUP BY, infinities and NaN included.
#
# Seen with datafusion 55.0.0 (Python): without GROUP BY the answers are -inf and NaN. With GROUP BY
# the greatest of a group that holds only -Infinity is -1.7976931348623157e308, a number that is not
# in the table, and a NaN in a group is left out. The accumulator of a group starts at the type's
# least finite value and compares by IEEE 754. Sums of money and sensor readings with gaps meet it.
#
# What to do: treat infinities before grouping, or take the extremes with ORDER BY … LIMIT 1.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import math
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
table = pa.table({"k": [1, 2, 2], "x": [-math.inf, math.nan, 3.5]})
context.register_record_batches("t", [table.to_batches()])

def ask(sql):
    return context.sql(sql).to_pydict()

print(datafusion.__version__)
alone = ask("SELECT max(x) AS m FROM t WHERE k = 1")["m"][0]
grouped = ask("SELECT k, max(x) AS m FROM t GROUP BY k ORDER BY k")["m"]
nan_alone = ask("SELECT max(x) AS m FROM t WHERE k = 2")["m"][0]
print("max of -Infinity alone:", alone, "by group:", grouped[0])
print("max of NaN and 3.5 alone:", nan_alone, "by group:", grouped[1])
assert alone == -math.inf and grouped[0] == -1.7976931348623157e308
assert math.isnan(nan_alone) and grouped[1] == 3.5
P
