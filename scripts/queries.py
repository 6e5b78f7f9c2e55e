#!/usr/bin/env python3
"""Times eight analytical queries, shaped like those of TPC-H, with one program or two in turn.

    scripts/queries.py target/release/atoll                # milliseconds of each query
    scripts/queries.py OLD NEW --pairs 7                   # side by side, and the ratio

Each run owns a database in memory, makes the same tables with generated rows and asks every query
a few times; the least time of a run counts. Programs take turns, the first of a pair by turns too,
and the ratio is the median over the pairs, so that a machine that others use as well does no harm
to one of them alone. Answers are compared.
"""

import argparse
import json
import statistics
import subprocess
import time

TABLES = """
CREATE TABLE customer (c_custkey bigint PRIMARY KEY, c_nation integer, c_segment text);
INSERT INTO customer SELECT k, CAST(k * 7919 % 25 AS integer),
  CASE k % 5 WHEN 0 THEN 'BUILDING' WHEN 1 THEN 'MACHINERY' WHEN 2 THEN 'FURNITURE'
    WHEN 3 THEN 'HOUSEHOLD' ELSE 'AUTOMOBILE' END
  FROM generate_series(1, {customers}) AS g(k);
CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey bigint, o_date date, o_priority text,
  o_total double precision);
INSERT INTO orders SELECT k, k * 6151 % {customers} + 1,
  DATE '1992-01-01' + CAST(k * 97 % 2400 AS integer),
  CASE k % 3 WHEN 0 THEN '1-URGENT' WHEN 1 THEN '3-MEDIUM' ELSE '5-LOW' END,
  CAST(k * 31 % 400000 AS double precision) + 0.25
  FROM generate_series(1, {orders}) AS g(k);
CREATE TABLE lineitem (l_id bigint PRIMARY KEY, l_orderkey bigint, l_part bigint, l_supplier bigint,
  l_quantity double precision, l_price double precision, l_discount double precision,
  l_tax double precision, l_flag text, l_status text, l_shipped date, l_mode text);
INSERT INTO lineitem SELECT k, k / 4 + 1, k * 7907 % 20000, k * 104729 % 1000,
  CAST(k * 13 % 50 + 1 AS double precision), CAST(k * 2741 % 100000 AS double precision) + 900.5,
  CAST(k % 11 AS double precision) / 100, CAST(k % 9 AS double precision) / 100,
  CASE k % 4 WHEN 0 THEN 'A' WHEN 1 THEN 'R' ELSE 'N' END, CASE k % 2 WHEN 0 THEN 'F' ELSE 'O' END,
  DATE '1992-01-02' + CAST(k * 89 % 2500 AS integer),
  CASE k % 7 WHEN 0 THEN 'AIR' WHEN 1 THEN 'MAIL' WHEN 2 THEN 'SHIP' WHEN 3 THEN 'RAIL'
    WHEN 4 THEN 'TRUCK' WHEN 5 THEN 'FOB' ELSE 'REG AIR' END
  FROM generate_series(0, {lines}) AS g(k);
"""

QUERIES = {
    "Q1": """SELECT l_flag, l_status, sum(l_quantity), sum(l_price),
        sum(l_price * (1 - l_discount)), sum(l_price * (1 - l_discount) * (1 + l_tax)),
        avg(l_quantity), avg(l_price), count(*)
        FROM lineitem WHERE l_shipped <= DATE '1998-09-02'
        GROUP BY l_flag, l_status ORDER BY l_flag, l_status""",
    "Q3": """SELECT l_orderkey, sum(l_price * (1 - l_discount)) AS revenue, o_date
        FROM customer, orders, lineitem
        WHERE c_segment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_date < DATE '1995-03-15' AND l_shipped > DATE '1995-03-15'
        GROUP BY l_orderkey, o_date ORDER BY revenue DESC, o_date, l_orderkey LIMIT 10""",
    "Q4": """SELECT o_priority, count(*) FROM orders
        WHERE o_date >= DATE '1993-07-01' AND o_date < DATE '1993-10-01' AND EXISTS (
          SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_shipped > o_date)
        GROUP BY o_priority ORDER BY o_priority""",
    "Q5": """SELECT c_nation, sum(l_price * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_date >= DATE '1994-01-01' AND o_date < DATE '1995-01-01'
        GROUP BY c_nation ORDER BY revenue DESC, c_nation""",
    "Q6": """SELECT sum(l_price * l_discount) FROM lineitem
        WHERE l_shipped >= DATE '1994-01-01' AND l_shipped < DATE '1995-01-01'
          AND l_discount BETWEEN 0.045 AND 0.075 AND l_quantity < 24""",
    "Q12": """SELECT l_mode, sum(CASE WHEN o_priority = '1-URGENT' THEN 1 ELSE 0 END),
        sum(CASE WHEN o_priority <> '1-URGENT' THEN 1 ELSE 0 END)
        FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_mode IN ('MAIL', 'SHIP')
          AND l_shipped >= DATE '1994-01-01' AND l_shipped < DATE '1995-01-01'
        GROUP BY l_mode ORDER BY l_mode""",
    "Q14": """SELECT 100.0 * sum(CASE WHEN l_mode LIKE '%AIR' THEN l_price * (1 - l_discount)
          ELSE 0 END) / sum(l_price * (1 - l_discount)), count(DISTINCT l_part)
        FROM lineitem WHERE l_shipped >= DATE '1995-01-01' AND l_shipped < DATE '1996-01-01'""",
    "Q18": """SELECT o_custkey, o_orderkey, o_total, sum(l_quantity) FROM orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
            HAVING sum(l_quantity) > 130) AND o_orderkey = l_orderkey
        GROUP BY o_custkey, o_orderkey, o_total ORDER BY o_total DESC, o_orderkey LIMIT 100""",
    # What a short query takes is planning.
    "plan": "SELECT c_segment FROM customer WHERE c_custkey = 17 AND c_nation + 1 > c_nation",
}


class Run:
    """A program that owns the tables and answers one statement after the other."""

    def __init__(self, program, lines):
        command = [program, "sql", "queries", "--memory", "4G", "--json", "--color", "never"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        tables = TABLES.format(customers=lines // 40, orders=lines // 4, lines=lines - 1)
        for statement in tables.split(";")[:-1]:
            self.ask(statement)

    def ask(self, statement):
        """The answer to a statement, and milliseconds."""
        begin = time.perf_counter()
        self.process.stdin.write(" ".join(statement.split()) + ";\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        took = (time.perf_counter() - begin) * 1e3
        if not answer or "error" in json.loads(answer):
            raise SystemExit(f"{statement}\nfailed: {answer}")
        return answer, took

    def times(self, repeats):
        """Of each query the answer, and the least of so many times."""
        found = {}
        for name, query in QUERIES.items():
            asked = [self.ask(query) for _ in range(repeats * (20 if name == "plan" else 1))]
            found[name] = (asked[0][0], min(took for _, took in asked))
        return found

    def end(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.wait()


def alike(one, other):
    """Whether answers agree; sums of doubles depend on the order in which they are added."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", help="one program, or an old one and a new one")
    parser.add_argument("--lines", type=int, default=2_000_000, help="rows of lineitem")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3, help="of a query in a run")
    args = parser.parse_args()
    if len(args.programs) > 2:
        parser.error("one program or two")
    taken = [{name: [] for name in QUERIES} for _ in args.programs]
    answers = {}
    for pair in range(args.pairs):
        order = list(range(len(args.programs)))
        for at in order if pair % 2 == 0 else reversed(order):
            run = Run(args.programs[at], args.lines)
            for name, (answer, took) in run.times(args.repeats).items():
                taken[at][name].append(took)
                first = answers.setdefault(name, answer)
                if not alike(json.loads(first).get("rows"), json.loads(answer).get("rows")):
                    raise SystemExit(f"{name}: the answers differ\n{first}{answer}")
            run.end()
    print("query", *(f"{program} ms" for program in args.programs), "ratio", sep=" | ")
    for name in QUERIES:
        medians = [statistics.median(times[name]) for times in taken]
        row = [name, *(f"{median:.2f}" for median in medians)]
        if len(taken) == 2:
            ratios = [new / old for old, new in zip(taken[0][name], taken[1][name])]
            row.append(f"{statistics.median(ratios):.3f}")
        print(*row, sep=" | ")


if __name__ == "__main__":
    main()
