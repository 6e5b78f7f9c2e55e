"""Short statements from Python: Atoll beside sqlite3, both in memory, in turns.

    .venv/bin/python scripts/statements.py [ROUNDS]

Prints the median time of each statement in microseconds, and the ratio of the medians. The floor is
a call with a text and a tuple that does nothing.
"""

import sqlite3
import statistics
import sys
import time

import atolldb

ROWS = 100_000
CALLS = 5_000


def atoll():
    db = atolldb.create()
    db.sql("CREATE TABLE t (id bigint PRIMARY KEY, v bigint, name text)")
    rows = ((at, at * at, f"name {at}") for at in range(ROWS))
    db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    run = db.session().sql
    return run, lambda text, values: run(text, values).fetchall()


def sqlite():
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE t (id integer PRIMARY KEY, v bigint, name text)")
    rows = ((at, at * at, f"name {at}") for at in range(ROWS))
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    db.execute("COMMIT")
    run = db.execute
    return run, lambda text, values: run(text, values).fetchall()


def nothing(text, values):
    pass


STATEMENTS = {
    "point SELECT": ("SELECT v FROM t WHERE id = ?", lambda at: (at * 7919 % ROWS,), True),
    "UPDATE": ("UPDATE t SET v = v + ? WHERE id = ?", lambda at: (1, at * 7919 % ROWS), False),
    "single INSERT": ("INSERT INTO t VALUES (?, ?, ?)", lambda at: (at, at, "a name"), False),
    "range of 100 rows": (
        "SELECT id, v FROM t WHERE id BETWEEN ? AND ?",
        lambda at: (at * 7919 % (ROWS - 100), at * 7919 % (ROWS - 100) + 99),
        True,
    ),
}


def timed(call, text, values):
    began = time.perf_counter()
    for one in values:
        call(text, one)
    return (time.perf_counter() - began) / len(values) * 1e6


def main(rounds):
    engines = {"atoll": atoll(), "sqlite3": sqlite()}
    print(f"{'':18} {'floor':>7} {'atoll':>7} {'sqlite3':>7} {'ratio':>6}   microseconds")
    fresh = ROWS
    for name, (text, make, reads) in STATEMENTS.items():
        times = {"floor": [], "atoll": [], "sqlite3": []}
        for _ in range(rounds):
            values = [make(fresh + at) for at in range(CALLS)]
            fresh += CALLS
            times["floor"].append(timed(nothing, text, values))
            for engine, (run, fetch) in engines.items():
                times[engine].append(timed(fetch if reads else run, text, values))
        median = {engine: statistics.median(each) for engine, each in times.items()}
        shown = " ".join(f"{median[engine]:7.2f}" for engine in ("floor", "atoll", "sqlite3"))
        print(f"{name:18} {shown} {median['atoll'] / median['sqlite3']:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
