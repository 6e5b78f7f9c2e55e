#!/usr/bin/env python3
"""Loads the rows of `atoll bench load` into DuckDB, in memory, into a table with a primary key.

    scripts/load_duckdb.py [--rows N] [--from arrow|parquet|csv]

Prints seconds, rows per second and the growth of the process for each row, which includes what
DuckDB keeps for later. Needs duckdb, numpy and pyarrow.
"""

import argparse
import json
import os
import tempfile
import time

import duckdb
import numpy
import pyarrow
import pyarrow.csv
import pyarrow.parquet


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--from", dest="source", choices=["arrow", "parquet", "csv"], default="arrow")
    args = parser.parse_args()
    keys = numpy.random.default_rng(1).permutation(args.rows)
    pairs = pyarrow.table({"c0": keys, "c1": keys * 2})
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/pairs.{args.source}"
        if args.source == "parquet":
            pyarrow.parquet.write_table(pairs, file)
        elif args.source == "csv":
            pyarrow.csv.write_csv(pairs, file)
        db = duckdb.connect()
        db.execute("CREATE TABLE t (c0 BIGINT PRIMARY KEY, c1 BIGINT)")
        before, began = resident_bytes(), time.monotonic()
        db.execute("INSERT INTO t SELECT * FROM pairs" if args.source == "arrow" else f"COPY t FROM '{file}'")
        seconds, grown = time.monotonic() - began, resident_bytes() - before
        count = db.execute("SELECT count(*) FROM t").fetchone()[0]
        assert count == args.rows, f"{count} rows"
    print(json.dumps({
        "version": duckdb.__version__,
        "from": args.source,
        "rows": args.rows,
        "seconds": round(seconds, 3),
        "rows_s": round(args.rows / seconds),
        "row_bytes": round(grown / args.rows, 1),
    }))


if __name__ == "__main__":
    main()
