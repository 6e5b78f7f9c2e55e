#!/usr/bin/env bash
# Expected: CASE WHEN x <> 0 THEN 10 / x > 1 ELSE false END never divides by
# zero, since a branch is for the rows that reach it.
#
# Seen with datafusion 55.0.0 (Python): a CASE of numbers keeps its branches apart, but a CASE of truth
# values with fewer than three branches is rewritten into AND and OR before it runs, both sides of
# which are evaluated for a whole batch, and the query fails with a division by zero. The same
# division as a number inside the same CASE works.
#
# What to do: put the comparison around the CASE, not into it: (CASE WHEN x <> 0 THEN 10 / x END) > 1.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
context.register_record_batches("t", [pa.table({"x": [0, 5, 20, 7, 1, 2]}).to_batches()])

def ask(sql):
    try:
        return context.sql(sql).to_pydict()["c"]
    except Exception as error:
        return str(error).splitlines()[0]

print(datafusion.__version__)
truth = ask("SELECT CASE WHEN x <> 0 THEN 10 / x > 1 ELSE false END AS c FROM t")
number = ask("SELECT (CASE WHEN x <> 0 THEN 10 / x ELSE 0 END) > 1 AS c FROM t")
print("truth values inside:", truth)
print("numbers inside:", number)
assert "ivide by zero" in str(truth)
assert number == [False, True, False, False, True, True]
P
