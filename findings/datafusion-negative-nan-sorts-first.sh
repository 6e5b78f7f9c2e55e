#!/usr/bin/env bash
# Expected: whatever way a NaN comes to be, ORDER BY puts all NaN in one place,
# and -0.0 and 0.0 are equal there, so the second key decides between them.
#
# Seen with datafusion 55.0.0 (Python) on x86-64: equality takes zeros for equal, but the order goes by
# bits. inf - inf gives a NaN with its sign bit set, which sorts before -Infinity, while numpy's NaN
# sorts last; -0.0 comes before 0.0 whatever the second key says, and rank() tells the zeros apart.
#
# What to do: ORDER BY x + 0.0, which makes one zero of two; and nullif(isnan) before sorting.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import math, platform
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
inf = math.inf
table = pa.table({"id": [1, 2, 3, 4], "x": [math.nan, inf, 0.0, -0.0], "y": [0.0, inf, 0.0, 0.0]})
context.register_record_batches("t", [table.to_batches()])
print(datafusion.__version__, platform.machine())
order = context.sql("SELECT id FROM t ORDER BY x - y, id").to_pydict()["id"]
zeros = [i for i in context.sql("SELECT id FROM t ORDER BY x, id").to_pydict()["id"] if i > 2]
ranks = context.sql("SELECT id, rank() OVER (ORDER BY x) AS r FROM t ORDER BY id").to_pydict()["r"]
print("by x - y:", order, "zeros:", zeros, "ranks of the zeros:", ranks[2:])
assert order[0] == 2 and order[-1] == 1, "one NaN first, one last"
assert zeros == [4, 3] and ranks[2:] == [2, 1]
P
