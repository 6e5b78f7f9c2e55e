"""Schedules of SERIALIZABLE transactions of Atoll, under every scheme, without PostgreSQL.

Some order of the transactions that have committed, one after the other, must give each of them what
it has got, and the rows that are there at the end.
"""

import itertools
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from .databases import AtollSession
from .interleavings import BESIDE, Maker, on_atoll
from .sessions import shown
from .stories import SCHEMES
from .worker import BatchResult, Finding

#: Seconds after which a step counts as waiting.
PATIENCE = 0.03


class SerialMaker(Maker):
    """Makes plays in which each session has one SERIALIZABLE transaction of any statements."""

    def __init__(self, rng):
        super().__init__(rng)
        self.flavour = "wild"

    def _session(self):
        yield "BEGIN ISOLATION LEVEL SERIALIZABLE"
        is_set = False
        for _ in range(self.rng.randrange(1, 6)):
            if self.rng.random() < 0.15:
                yield "ROLLBACK TO SAVEPOINT a" if is_set else "SAVEPOINT a"
                is_set = True
            else:
                yield self.read() if self.rng.random() < 0.4 else self.write()
        yield self.rng.choice(("COMMIT",) * 5 + ("ROLLBACK",))


def fault(play, scheme, patience=PATIENCE):
    """What is wrong with what happened, or None; the events, and the rows at the end."""
    events, rows = on_atoll(play, patience, scheme)
    rows = rows.rows
    if any(event.done is None for event in events):
        return "a step never returns", events, rows
    transactions = {}
    for event in events:
        transactions.setdefault(event.session, []).append(event)
    if any(e.answer.failure and e.answer.failure.sort == "crash" for e in events):
        return "crash", events, rows
    committed = [
        steps for steps in transactions.values()
        if steps[-1].sql == "COMMIT" and steps[-1].answer.tag == "COMMIT"
    ]  # fmt: skip
    if any(_in_order(play, order, rows) for order in itertools.permutations(committed)):
        return None, events, rows
    return "no order of the transactions gives this", events, rows


def _in_order(play, order, rows):
    """Whether these transactions, one after the other, get the same answers and leave these rows."""
    alone = AtollSession()
    alone.create(None)
    try:
        for sql in play.for_atoll():
            alone.must(sql)
        for steps in order:
            for event in steps:
                answer = alone.answer(event.sql)
                if (answer.tag, Counter(answer.rows)) != (
                    event.answer.tag, Counter(event.answer.rows)
                ):  # fmt: skip
                    return False
        return Counter(alone.on_snapshot("SELECT * FROM r").rows) == Counter(rows)
    finally:
        alone.close()


class Worker:
    """Performs batches of schedules, some at the same time."""

    def __init__(self, address, number, options, beat):
        self.options, self.beat = options, beat

    def run(self, batch, count):
        self.beat(batch, f"serializable schedules of batch {batch}")
        result = BatchResult(batch, Counter(), [])

        def one(number):
            play = SerialMaker(random.Random(f"{self.options.seed} {batch} {number}")).make()
            scheme = SCHEMES[number % len(SCHEMES)]
            return play, scheme, *fault(play, scheme)

        with ThreadPoolExecutor(BESIDE) as pool:
            for play, scheme, what, events, rows in pool.map(one, range(count)):
                if not what:
                    result.counts["serializable schedules"] += 1
                    continue
                result.counts[f"DIFFERENT: {what}: {scheme}"] += 1
                record = "\n".join(["", *shown(events), f"rows {sorted(rows, key=str)}"])
                result.findings.append(Finding(
                    "", "", f"{what}: {scheme}", "", record, "", "", batch, list(play.for_atoll())
                ))  # fmt: skip
        return result
