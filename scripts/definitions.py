"""What definitions of a table at work cost, beside PostgreSQL: CREATE INDEX while another session
updates rows, and what that session loses; other names, a column with a constant, DROP TABLE.

    .venv/bin/python scripts/definitions.py [ROWS [ROUNDS]]
"""

import pathlib
import statistics
import sys
import threading
import time

import atolldb
import psycopg

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from differential.databases import Server  # noqa: E402

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
#: Seconds in which the writer is alone.
ALONE = 2.0
CREATE = "CREATE TABLE t (id bigint PRIMARY KEY, k bigint NOT NULL, v bigint NOT NULL)"
FILL = (
    f"INSERT INTO t SELECT n, (n * 7919) % {ROWS * 10 + 1}, n"
    f" FROM generate_series(1::bigint, {ROWS}) AS g(n)"
)
INDEX = "CREATE INDEX CONCURRENTLY t_k ON t (k)"
STEPS = (
    ("RENAME COLUMN", "ALTER TABLE t RENAME COLUMN v TO w"),
    ("ADD CHECK that all rows keep", "ALTER TABLE t ADD CHECK (w > 0)"),
    ("DROP INDEX", "DROP INDEX t_k"),
    ("ADD COLUMN with a constant", "ALTER TABLE t ADD COLUMN c int DEFAULT 7"),
    ("DROP TABLE", "DROP TABLE t"),
)


class Atoll:
    name = "Atoll"

    def __init__(self, _server):
        self.database = atolldb.create()

    def session(self):
        session = self.database.session()
        return lambda sql, *values: session.sql(sql, list(values) or None)

    update = "UPDATE t SET v = v + 1 WHERE id = $1"


class Postgres:
    name = "PostgreSQL"

    def __init__(self, server):
        self.server = server

    def session(self):
        connection = psycopg.connect(self.server.address(), autocommit=True)
        connection.prepare_threshold = 0
        return lambda sql, *values: connection.execute(sql, list(values) or None)

    update = "UPDATE t SET v = v + 1 WHERE id = %s"


class Writer(threading.Thread):
    """Updates one row after the other."""

    def __init__(self, side):
        super().__init__()
        self.run_sql, self.update = side.session(), side.update
        self.count, self.ended = 0, False

    def run(self):
        key = 0
        while not self.ended:
            key = (key + 7919) % ROWS
            self.run_sql(self.update, key + 1)
            self.count += 1

    def rate(self, work):
        """Statements a second while `work` runs, and the seconds that it takes."""
        before, begun = self.count, time.perf_counter()
        work()
        taken = time.perf_counter() - begun
        return (self.count - before) / taken, taken


def play(side):
    """The seconds of each step, and the writer's rates."""
    run = side.session()
    run(CREATE)
    run(FILL)
    if side.name == "PostgreSQL":
        run("VACUUM ANALYZE t")
    begun = time.perf_counter()
    run("CREATE INDEX quiet ON t (k)")
    quiet = time.perf_counter() - begun
    run("DROP INDEX quiet")
    writer = Writer(side)
    writer.start()
    try:
        alone, _ = writer.rate(lambda: time.sleep(ALONE))
        beside, taken = writer.rate(lambda: run(INDEX))
    finally:
        writer.ended = True
        writer.join()
    found = {"CREATE INDEX, no writer": quiet, "CREATE INDEX CONCURRENTLY": taken}
    for what, sql in STEPS:
        begun = time.perf_counter()
        run(sql)
        found[what] = time.perf_counter() - begun
    return found, alone, beside


def main():
    server = Server(["shared_buffers=2GB", "maintenance_work_mem=1GB"])
    sides = [Atoll, Postgres]
    plays = {side: [] for side in sides}
    try:
        for turn in range(ROUNDS):
            for side in sides if turn % 2 == 0 else reversed(sides):
                plays[side].append(play(side(server)))
    finally:
        server.close()
    print(f"{ROWS:,} rows, medians of {ROUNDS} rounds by turns; milliseconds")
    for what in plays[Atoll][0][0]:
        ours, theirs = (
            statistics.median(found[what] for found, _, _ in plays[side]) * 1000 for side in sides
        )
        print(f"{what:32} {ours:12,.2f} {theirs:12,.2f}  {theirs / ours:8.2f}×")
    for side in sides:
        alone = statistics.median(alone for _, alone, _ in plays[side])
        kept = statistics.median(beside / alone for _, alone, beside in plays[side])
        print(f"{side.name}: {alone:,.0f} updates a second alone, {kept:.0%} beside CREATE INDEX")


if __name__ == "__main__":
    main()
