#!/usr/bin/env bash
# Expected: a row with v = a and v = b is not in WHERE v IN (a, 7, 8, 9) AND v NOT IN (b, 10, 11, 12),
# and is in WHERE v IN (a, 7, 8, 9) AND v IN (b, 10, 11, 12).
#
# Seen with datafusion 55.0.0 (Python): the other way round. The simplifier merges two lists for the
# same value as sets of expressions: it takes `a` and `b` for different members because they are
# spelled differently, so NOT IN is dropped, and the intersection of the two lists is empty. The same
# happens to parameters, which are no constants when a statement is planned once for all values.
#
# What Atoll does: a list with a column or a parameter becomes comparisons joined by OR, or by AND
# (rules/common_type.rs, `in_list`).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check datafusion==55.0.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import datafusion, pyarrow as pa

context = datafusion.SessionContext()
rows = pa.table({"v": [1], "a": [1], "b": [1]})
context.register_record_batches("t", [rows.to_batches()])

def count(condition):
    return context.sql(f"SELECT v FROM t WHERE {condition}").to_arrow_table().num_rows

print(datafusion.__version__)
first, second = "v IN (a, 7, 8, 9)", "v {}IN (b, 10, 11, 12)"
print("IN alone:", count(first), "NOT IN alone:", count(second.format("NOT ")))
excluded = count(f"{first} AND {second.format('NOT ')}")
both = count(f"{first} AND {second.format('')}")
print("IN and NOT IN:", excluded, "IN and IN:", both)
assert count(first) == 1 and count(second.format("NOT ")) == 0
assert excluded == 1
assert both == 0
P
