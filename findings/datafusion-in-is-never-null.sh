#!/usr/bin/env bash
# Expected: x IN (SELECT ...) is NULL where x is NULL or where nothing matches and the subquery has a
# NULL, so that IS NULL finds such rows, NOT does not, and CASE takes its last branch.
#
# Seen with datafusion 55.0.0 (Python): inside another expression the IN is answered by a join that
# only knows whether there is a match, so it is never NULL: IS NULL finds no row, and NOT (... AND ...)
# gives rows that it must not. A NOT IN that names a column of the outer query fails or loses rows.
#
# What Atoll does: such comparisons become EXISTS, once for TRUE and once for NULL
# (rules/subqueries.rs).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
left = pa.table({"id": [1, 2, 3], "v": [10, None, 7]})
context.register_record_batches("a", [left.to_batches()])
context.register_record_batches("b", [pa.table({"v": [10, 15, None]}).to_batches()])

def ask(condition):
    return context.sql(f"SELECT id FROM a WHERE {condition} ORDER BY id").to_pydict()["id"]

print(datafusion.__version__)
unknown = ask("(v IN (SELECT v FROM b)) IS NULL")
negated = ask("NOT (v IN (SELECT v FROM b) AND id > 1)")
print("IS NULL:", unknown, "of [2, 3]")
print("NOT (... AND id > 1):", negated, "of [1]")
assert unknown == []
assert negated == [1, 2, 3]
P
