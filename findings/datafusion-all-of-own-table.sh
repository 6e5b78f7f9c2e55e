#!/usr/bin/env bash
# Expected: SELECT id FROM t WHERE id <= ALL (SELECT id FROM t) gives the one smallest id.
#
# Seen with datafusion 55.0.0 (Python): it gives all rows. The comparison becomes an EXISTS over the
# subquery, and the value of the outer query, t.id, is then read as the subquery's own t.id, so each
# row is compared with itself. With two aliases the answer is right; so it is with IN.
#
# What Atoll does: the column of the subquery gets a name of its own (rules/subqueries.rs).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
context.register_record_batches("t", [pa.table({"id": [1, 2, 3]}).to_batches()])

def ask(sql):
    return context.sql(sql).to_pydict()["id"]

print(datafusion.__version__)
own = ask("SELECT id FROM t WHERE id <= ALL (SELECT id FROM t) ORDER BY id")
aliased = ask("SELECT x.id FROM t x WHERE x.id <= ALL (SELECT y.id FROM t y) ORDER BY id")
print("one table twice:", own)
print("with aliases:", aliased)
assert own == [1, 2, 3]
assert aliased == [1]
P
