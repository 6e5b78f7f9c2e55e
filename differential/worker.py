"""One process of a run: makes statements, compares answers, minimises what differs.

The seed and the number of a batch say what the batch is, so that neither the number of processes
nor what happened before changes a statement.
"""

import os
import random
import re
import signal
import traceback
from collections import Counter
from dataclasses import dataclass, field

from . import deliberate, kept, statements, tables
from .compare import compare
from .databases import Atoll, DuckDB, Postgres
from .minimise import minimise, minimise_tables

#: Statements that share a set of tables.
BATCH = 250


@dataclass
class Finding:
    """A difference, smaller than it was found."""

    sql: str
    original: str
    signature: str
    postgres: str
    atoll: str
    duckdb: str
    entry: str
    batch: int
    setup: list = field(default_factory=list)


@dataclass
class BatchResult:
    """What a batch gave: counts by what happened, and differences."""

    batch: int
    counts: Counter
    findings: list
    #: One statement for each pair of sorts of errors that are not the same.
    pairs: dict = field(default_factory=dict)

    def wants(self, deliberate, difference, seen, most):
        """Counts a difference, on purpose if `deliberate` is its name; whether it is a finding, of
        which no more than `most` have its signature. `seen` counts those of all batches."""
        if deliberate:
            self.counts[f"deliberate: {deliberate}"] += 1
            return False
        signature = difference.signature()
        self.counts[f"DIFFERENT: {signature}"] += 1
        seen[signature] += 1
        return seen[signature] <= most


class Worker:
    """The databases of a process, and what it has seen."""

    def __init__(self, address, number, options, beat):
        self.options, self.beat = options, beat
        self.postgres = Postgres(address, f"worker{number}")
        self.scratch = Postgres(address, f"worker{number}_small")
        self.atoll, self.small = Atoll(), Atoll()
        self.seen = Counter()

    def run(self, batch, count):
        rng = random.Random(f"{self.options.seed} {batch}")
        made = tables.make(rng)
        self.postgres.load(made)
        self.beat(batch, "loading tables")
        self.atoll.load(made)
        result = BatchResult(batch, Counter(), [])
        for _ in range(count):
            statement = statements.make(rng, made)
            self.beat(batch, statement.render())
            self._one(made, statement, result)
        return result

    def differ(self, statement, postgres, atoll, result=None):
        """The difference of two databases' answers, None also if it is deliberate."""
        sql = statement.render()
        theirs, ours = postgres.answer(sql), atoll.answer(sql)

        def compared(answer):
            return compare(
                theirs, answer, statement.column_flags(),
                either_zero=statement.is_one_of_equals(), ordered=statement.total_order,
            )  # fmt: skip

        difference = compared(ours)
        if difference is None and not ours.failure:
            way, other = atoll.other_way(sql) or ("", None)
            difference = other and compared(other)
            if other and result is not None:
                result.counts[f"again {way}"] += 1
        if difference is None:
            if result is not None:
                count_agreement(result, theirs, ours, sql)
            return None
        name = deliberate.reason(statement, difference, postgres, atoll)
        if name:
            if result is not None:
                result.counts[f"deliberate: {name}"] += 1
            return None
        return difference

    def _one(self, made, statement, result):
        difference = self.differ(statement, self.postgres, self.atoll, result)
        if difference is None:
            return
        result.counts[f"DIFFERENT: {difference.what}"] += 1
        signature = signature_of(difference)
        self.seen[signature] += 1
        known = difference.what not in ("values", "rows")
        if self.seen[signature] > (self.options.each if known else 20 * self.options.each):
            return
        original = statement
        if self.options.minimise:
            statement = minimise(statement, lambda s: self._still(s, signature))
        result.findings.append(self._finding(made, statement, original, result.batch))

    def _still(self, statement, signature):
        self.beat(-1, statement.render())
        difference = self.differ(statement, self.postgres, self.atoll)
        return difference is not None and signature_of(difference) == signature

    def _finding(self, made, statement, original, batch):
        sql = statement.render()
        difference = self.differ(statement, self.postgres, self.atoll)
        if difference is None:  # It comes and goes: told as it was.
            return Finding(sql, original.render(), "unsteady", "", "", "", "", batch)
        signature = signature_of(difference)
        small = None
        if self.options.minimise:
            small = minimise_tables(
                made, statement, lambda some: self._still_with(some, statement, signature)
            )
        small = small if small is not None else made
        setup = [s for table in small for s in table.statements()]
        self.scratch.load(small)
        self.small.load(small)
        theirs, ours = self.scratch.answer(sql), self.small.answer(sql)
        entry = kept.of(setup, statement, theirs).text()
        return Finding(
            sql, original.render(), signature, show(theirs), show(ours),
            opinion(small, sql, statement, theirs, ours), entry, batch, setup,
        )  # fmt: skip

    def _still_with(self, small, statement, signature):
        self.beat(-1, statement.render())
        self.scratch.load(small)
        self.small.load(small)
        difference = self.differ(statement, self.scratch, self.small)
        return difference is not None and signature_of(difference) == signature


def count_agreement(result, theirs, ours, sql):
    if not theirs.failure:
        result.counts["same rows" if theirs.rows else "both empty"] += 1
        return
    pair = (theirs.failure.sort, ours.failure.sort)
    same = "same sort" if pair[0] == pair[1] else f"{pair[0]} / {pair[1]}"
    result.counts[f"both fail: {same}"] += 1
    if pair[0] != pair[1]:
        known = result.pairs.get(pair)
        if known is None or len(sql) < len(known[0]):
            result.pairs[pair] = (sql, theirs.failure.message, ours.failure.message)


def signature_of(difference):
    """What differs, with the message of the failure but for what it is about."""
    failure = difference.atoll.failure or difference.postgres.failure
    if not failure:
        detail = difference.detail if difference.what == "types" else ""
        return f"{difference.what} {detail}".strip()
    message = re.sub(r"\"[^\"]*\"|'[^']*'", "…", failure.message.splitlines()[0])
    message = re.sub(r"-?\d[\d.,e+-]*", "N", message)
    return f"{difference.what}: {failure.sort}: {message[:60]}"


def show(answer, most=6):
    if answer.failure:
        return f"error {answer.failure.code}: {answer.failure.message}"
    rows = answer.texts or [[_shown(v) for v in row] for row in answer.rows]
    lines = [" | ".join("NULL" if v is None else str(v) for v in row) for row in rows[:most]]
    more = [f"… {len(rows)} rows"] if len(rows) > most else []
    return f"({', '.join(answer.types)}) " + ("; ".join(lines + more) or "no rows")


def _shown(value):
    return str(float(value)) if isinstance(value, float) else value


def opinion(made, sql, statement, theirs, ours):
    """Whose answer DuckDB gives."""
    try:
        duck = DuckDB()
        duck.load(made)
        answer = duck.answer(sql)
        duck.close()
    except Exception as error:
        return f"cannot say: {type(error).__name__}"
    if answer.failure:
        return "fails: " + answer.failure.message.splitlines()[0][:100]
    flags = statement.column_flags()
    for name, other in (("PostgreSQL", theirs), ("Atoll", ours)):
        difference = not other.failure and compare(other, answer, flags, either_zero=True)
        if not other.failure and (difference is None or difference.what == "types"):
            return f"as {name}"
    return "otherwise: " + show(answer, 3)


def main(make, address, number, options, batches, connection, beat_file):
    """What the process does: batches by their numbers, results through the connection. `make`
    gives what runs a batch, such as a `Worker`."""

    def beat(batch, sql):
        text = f"{batch}\n{sql}".encode()[:60_000]
        os.pwrite(beat_file, len(text).to_bytes(4, "little") + text, 0)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        worker = make(address, number, options, beat)
        for batch, count in batches:
            connection.send(worker.run(batch, count))
        connection.send(None)
    except Exception:
        connection.send(traceback.format_exc())
