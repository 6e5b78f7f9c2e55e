"""SQL from Rust: Atoll beside SQLite and PostgreSQL, in turns, in memory.

    .venv/bin/python scripts/sql_peers.py ATOLL ATOLL-PEERS [--rounds N] [--seconds S]

ATOLL is the program, ATOLL-PEERS that of peers/. Single statements that are prepared once, and
TPC-C as SQL statements with one and with two threads. SQLite is in the same process as its client;
PostgreSQL is a server without flushes, made here for the purpose and reached by a Unix socket.
Prints the medians of the rounds and how many times the peer's speed Atoll has.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from differential.databases import Server  # noqa: E402

SETTINGS = ("shared_buffers=1GB", "autovacuum=off", "checkpoint_timeout=1h")
THREADS = (1, 2)


def report(*command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def statements(rounds, atoll, peers, url):
    runs = {
        "Atoll": (atoll, "--json", "bench", "statements", "--rounds", "1"),
        "SQLite": (peers, "statements", "--peer", "sqlite", "--rounds", "1"),
        "PostgreSQL": (peers, "statements", "--peer", "postgres", "--url", url, "--rounds", "1",
                       "--statements", "5000"),
    }  # fmt: skip
    times = {}
    for _ in range(rounds):
        for name, command in runs.items():
            for kind in report(*command)["kinds"]:
                times.setdefault((kind["name"], name), []).append(kind["nanoseconds"] / 1000)
    print(f"{'microseconds':22}" + "".join(f"{name:>12}" for name in runs) + "  times as fast")
    for kind in dict.fromkeys(kind for kind, _ in times):
        median = [statistics.median(times[kind, name]) for name in runs]
        ratios = ", ".join(f"{other / median[0]:.2f}" for other in median[1:])
        print(f"{kind:22}" + "".join(f"{one:12.2f}" for one in median) + f"  {ratios}")


def tpcc(rounds, seconds, atoll, peers, url):
    some = ("--warehouses", "1", "--seconds", str(seconds))
    rates = {}
    for _ in range(rounds):
        for threads in THREADS:
            many = (*some, "--threads", str(threads))
            runs = {
                "Atoll": (atoll, "--json", "bench", "tpcc", "--sql", "--scheme", "dl_detect", *many),
                "SQLite": (peers, "tpcc", "--peer", "sqlite", *many),
                "PostgreSQL": (peers, "tpcc", "--peer", "postgres", "--url", url, *many),
                "Atoll's own": (atoll, "--json", "bench", "tpcc", "--scheme", "dl_detect", *many),
            }
            for name, command in runs.items():
                rate = report(*command)["throughput_txn_s"]
                rates.setdefault((threads, name), []).append(rate)
    names = list(dict.fromkeys(name for _, name in rates))
    print(f"\n{'TPC-C by SQL, txn/s':22}" + "".join(f"{name:>12}" for name in names)
          + "  times as fast")  # fmt: skip
    for threads in THREADS:
        median = [statistics.median(rates[threads, name]) for name in names]
        ratios = ", ".join(f"{median[0] / other:.2f}" for other in median[1:])
        print(f"{f'{threads} thread(s)':22}" + "".join(f"{one:12.0f}" for one in median)
              + f"  {ratios}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("atoll")
    parser.add_argument("peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    server = Server(SETTINGS)
    try:
        url = server.address()
        statements(given.rounds, given.atoll, given.peers, url)
        tpcc(given.rounds, given.seconds, given.atoll, given.peers, url)
    finally:
        server.close()


if __name__ == "__main__":
    main()
