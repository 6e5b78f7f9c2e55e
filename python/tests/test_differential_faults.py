"""A planted fault is found and made small. Atoll stands for PostgreSQL, a harmed Atoll for it."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from differential import runner, statements, tables  # noqa: E402
from differential.databases import Atoll  # noqa: E402
from differential.worker import BatchResult, Worker  # noqa: E402


class Harmed(Atoll):
    """Atoll with one word of a statement taken for another."""

    def __init__(self, word, other):
        super().__init__()
        self.word, self.other = word, other

    def answer(self, sql):
        return super().answer(sql.replace(self.word, self.other))


def worker(word, other):
    made = Worker.__new__(Worker)
    made.options = runner.arguments(["--minimise"])
    made.beat = lambda *_: None
    made.postgres, made.scratch = Atoll(), Atoll()
    made.atoll, made.small = Harmed(word, other), Harmed(word, other)
    made.seen = Counter()
    return made


def first_finding(word, other, most):
    """What is found in so many statements at most, or None."""
    rng = random.Random(1)
    made = tables.make(rng)
    at_work = worker(word, other)
    for database in (at_work.postgres, at_work.atoll):
        database.load(made)
    result = BatchResult(0, Counter(), [])
    for _ in range(most):
        at_work._one(made, statements.make(rng, made), result)
        if result.findings:
            return result.findings[0]
    return None


@pytest.mark.parametrize(
    ("word", "other"), [("max(", "min("), (" < ", " <= "), (" LEFT JOIN t", " JOIN t")]
)
def test_a_fault_is_found_and_made_small(word, other):
    finding = first_finding(word, other, 3000)
    assert word in finding.sql, finding.sql
    assert finding.sql.count("(") <= 5 and len(finding.sql) < 140, finding.sql


def test_nothing_is_found_where_nothing_is_wrong():
    assert first_finding(" INNER JOIN ", " JOIN ", 1000) is None
