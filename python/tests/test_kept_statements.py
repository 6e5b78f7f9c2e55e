"""Statements whose answers once differed from PostgreSQL's, with the answers that it gave."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from differential import kept  # noqa: E402
from differential.databases import Atoll  # noqa: E402

ENTRIES = kept.read(kept.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.sql[:60] for entry in ENTRIES])
def test_the_answer_is_that_of_postgresql(entry):
    atoll = Atoll()
    atoll.load([])
    for statement in entry.setup:
        atoll.database.sql(statement)
    answer = atoll.answer(entry.sql)
    atoll.close()
    difference = entry.difference(answer)
    assert difference is None, f"{difference.what} {difference.detail}\n{entry.text()}\n{answer}"


def test_a_kept_statement_can_fail():
    entry = kept.read("SELECT 1 AS c1;\n-- types: int8\n-- row: [\"2\"]\n")[0]
    atoll = Atoll()
    atoll.load([])
    assert entry.difference(atoll.answer(entry.sql)).what == "values"
    atoll.close()


def test_entries_are_read_as_they_were_written():
    for entry in ENTRIES:
        again = kept.read(entry.text())[0]
        assert (again.setup, again.sql, again.flags) == (entry.setup, entry.sql, entry.flags)
        assert (again.answer.types, again.answer.rows) == (entry.answer.types, entry.answer.rows)
