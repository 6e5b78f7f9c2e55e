"""What open transactions cost the others: the speed of an UPDATE by key while 1,000 other
transactions are open, each of which has changed a row and read another, and without them.

    .venv/bin/python scripts/open_transactions.py
"""

import statistics
import time

import atolldb
import pyarrow

OPEN = 1_000
ROWS = 100_000
TURNS = 12
SECONDS = 0.5


class Side:
    """A database with so many open transactions, and a session that works beside them."""

    def __init__(self, count):
        self.database = atolldb.create()
        ids = pyarrow.array(range(ROWS), pyarrow.int64())
        table = pyarrow.table({"id": ids, "v": ids})
        self.database.create_table("t", table, primary_key="id")
        self.session = self.database.session()
        self.others = [self.database.session() for _ in range(count)]
        for number, other in enumerate(self.others):
            other.sql("BEGIN")
            other.sql("UPDATE t SET v = v + 1 WHERE id = ?", [ROWS - 1 - number])
            other.sql("SELECT v FROM t WHERE id = ?", [ROWS // 2 + number])

    def speed(self):
        """Statements a second."""
        count, key, end = 0, 0, time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            for _ in range(200):
                key = (key + 7919) % (ROWS // 2)
                self.session.sql("UPDATE t SET v = v + 1 WHERE id = ?", [key])
            count += 200
        return count / SECONDS


def main():
    alone, beside = Side(0), Side(OPEN)
    speeds = []
    for turn in range(TURNS):
        pair = [alone, beside] if turn % 2 == 0 else [beside, alone]
        measured = {side: side.speed() for side in pair}
        speeds.append((measured[alone], measured[beside]))
    ratios = sorted(with_them / without for without, with_them in speeds)
    without, with_them = (statistics.median(column) for column in zip(*speeds, strict=True))
    print(f"{without:,.0f} a second alone, {with_them:,.0f} beside {OPEN:,} open transactions")
    print(f"ratio of pairs: median {statistics.median(ratios):.3f}, {ratios[0]:.2f}–{ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
