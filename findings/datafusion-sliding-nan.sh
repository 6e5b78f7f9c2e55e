#!/usr/bin/env bash
# Expected: a NaN or an infinity counts in a moving window while it is inside,
# and the sums behind it are those of their own values.
#
# Seen with datafusion 55.0.0 (Python): the sum of a moving window is kept by subtracting what leaves
# it. Infinity minus infinity is NaN, and so is everything behind: one infinity or one missing reading
# stored as NaN spoils every later sum and average of the partition.
#
# What to do: filter such values out, or sum over a self-join. Atoll adds up what is in the window.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import math
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
table = pa.table({"id": [1, 2, 3, 4, 5], "x": [1.0, math.inf, 2.0, 3.0, 4.0]})
context.register_record_batches("t", [table.to_batches()])
print(datafusion.__version__)
sums = context.sql(
    "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING) AS s FROM t ORDER BY id"
).to_pydict()["s"]
print("1, inf, 2, 3, 4, two at a time:", sums)
assert sums[:3] == [1.0, math.inf, math.inf]
assert all(math.isnan(s) for s in sums[3:]), "right would be 5 and 7"
P
