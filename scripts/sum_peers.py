#!/usr/bin/env python3
"""A client sums a column of a server: a snapshot of Atoll beside binary COPY, in turns.

    scripts/sum_peers.py target/release/atoll [--rows 10000000] [--rounds 5] [--postgresql BIN]

The column is a bigint of a table that is at work. A client of Atoll on the same machine attaches,
takes a snapshot and sums it in place with NumPy; a client of either server gets it by `COPY … TO
STDOUT (FORMAT binary)` with psycopg and sums it with NumPy, all rows at once, since they have one
width. Prints the milliseconds of each, the median of the rounds, from the wish to the sum.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psycopg
from server_peers import Atoll, PostgreSQL

import atolldb

# The bytes before the first row and behind the last one, and the form of a row.
HEAD, TRAILER = 19, 2
ROW = np.dtype([("columns", ">i2"), ("length", ">i4"), ("value", ">i8")])


def attached(name, runtime):
    with atolldb.attach(name, runtime_dir=runtime).snapshot() as snapshot:
        chunks = snapshot["t"]["v"].to_arrow().chunks
        return sum(int(chunk.to_numpy(zero_copy_only=True).sum()) for chunk in chunks)


def copied(connection):
    with connection.cursor().copy("COPY (SELECT v FROM t) TO STDOUT (FORMAT binary)") as copy:
        data = b"".join(copy)
    rows = np.frombuffer(data, ROW, offset=HEAD, count=(len(data) - HEAD - TRAILER) // ROW.itemsize)
    return int(rows["value"].sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgresql", help="folder with initdb, pg_ctl and postgres")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atoll-peers-") as folder:
        folder = Path(folder)
        servers = [Atoll(given.program, folder), PostgreSQL(folder, given.postgresql)]
        try:
            ways = {}
            for server in servers:
                place = {name.removeprefix("PG"): value for name, value in server.environment.items()}
                connection = psycopg.connect(
                    host=place["HOST"], port=place["PORT"], dbname=place["DATABASE"],
                    user=place.get("USER"), autocommit=True,
                )
                connection.execute("CREATE TABLE t (id bigint PRIMARY KEY, v bigint NOT NULL)")
                connection.execute(
                    "INSERT INTO t SELECT i, i % 1000 FROM generate_series(1::bigint, %s) AS s (i)",
                    (given.rows,),
                )
                ways[f"COPY from {server.name}"] = lambda connection=connection: copied(connection)
            runtime = servers[0].environment["PGHOST"]
            ways["attach to Atoll"] = lambda: attached("bench", runtime)
            took = {way: [] for way in ways}
            wanted = None
            for _ in range(given.rounds + 1):
                for way, run in ways.items():
                    began = time.perf_counter()
                    found = run()
                    took[way].append((time.perf_counter() - began) * 1e3)
                    wanted = found if wanted is None else wanted
                    if found != wanted:
                        sys.exit(f"{way}: {found}, not {wanted}")
            # The first round warms caches.
            medians = {way: statistics.median(times[1:]) for way, times in took.items()}
            own = medians["attach to Atoll"]
            for way, median in medians.items():
                print(f"{way:22} {median:10.2f} ms  {median / own:8.1f}")
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
