#!/usr/bin/env bash
# Expected: EXCEPT ALL takes one row of the left side away for each equal row
# of the right side, and INTERSECT ALL keeps as many as both have, as the SQL standard says.
#
# Seen with datafusion 55.0.0 (Python): both are carried out as semi and anti joins that do not count.
# {1, 1, 2} EXCEPT ALL {1} is {2}, not {1, 2}; {1, 1, 2} INTERSECT ALL {1} is {1, 1}, not {1}.
#
# What to do: number equal rows with row_number() OVER (PARTITION BY …) on both sides and compare
# those numbers too, without ALL. Atoll refuses both forms.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0
"$work/venv/bin/python" - <<'P'
import datafusion

context = datafusion.SessionContext()
three = "SELECT * FROM (VALUES (1), (1), (2)) AS v(x)"

def ask(op):
    return sorted(context.sql(f"{three} {op} SELECT 1").to_pydict()["x"])

print(datafusion.__version__)
except_all, intersect_all = ask("EXCEPT ALL"), ask("INTERSECT ALL")
print("EXCEPT ALL:", except_all, "INTERSECT ALL:", intersect_all)
assert except_all == [2] and intersect_all == [1, 1]
P
