"""Runs statements by seed in several processes, and reports what differs.

A process that dies, or stays with one statement for too long, is a difference as well: its
statement is reported, and another process goes on with the next batch.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections import Counter

from . import deliberate, interleavings, kept, report, serial, stories, worker
from .databases import Postgres, Server

#: Seconds that a statement may take before its process is ended.
STUCK_S = 120


def arguments(given=None):
    parser = argparse.ArgumentParser(
        prog="python -m differential",
        description="Compares Atoll with PostgreSQL: the answers to generated queries, what "
        "generated changes and transactions do, and how sessions beside each other fare. "
        "Without a number for any of them, 100,000 queries.",
    )
    add = parser.add_argument
    add("--seed", type=int, default=1)
    add("--statements", type=int, metavar="N", default=0, help="queries")
    add("--transactions", type=int, metavar="N", default=0,
        help="statements that change rows, and queries between them, most in transactions")  # fmt: skip
    add("--interleavings", type=int, metavar="N", default=0,
        help="schedules of two or three sessions, as many at READ COMMITTED beside PostgreSQL as "
        "SERIALIZABLE under every scheme, and the scenarios of anomalies")  # fmt: skip
    add("--jobs", type=int, default=os.cpu_count())
    add("--minimise", action="store_true", help="make the statements that differ smaller")
    add("--each", type=int, default=5, help="differences to show of each signature and process")
    add("--keep", action="store_true", help="append the differences to differential/kept.txt; "
        "with --kept move those there that have ceased to differ")  # fmt: skip
    add("--findings", metavar="FILE", help="write the differences there, grouped, as Markdown")
    add("--kept", metavar="FILE", help="only ask both databases for the statements kept there")
    options = parser.parse_args(given)
    if not (options.statements or options.transactions or options.interleavings):
        options.statements = 100_000
    return options


class Process:
    """A worker's process, what it has to do, and where it says what it is at."""

    def __init__(self, make, address, number, options, batches):
        self.number, self.batches = number, batches
        self.beat_file = tempfile.TemporaryFile()
        self.connection, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(
            target=worker.main,
            args=(make, address, number, options, batches, theirs, self.beat_file.fileno()),
            daemon=True,
        )
        self.process.start()
        theirs.close()
        self.last, self.since = b"", time.monotonic()

    def at(self):
        """The batch and the statement that it is at."""
        size = int.from_bytes(os.pread(self.beat_file.fileno(), 4, 0), "little")
        text = os.pread(self.beat_file.fileno(), size, 4)
        if text != self.last:
            self.last, self.since = text, time.monotonic()
        batch, _, sql = text.decode(errors="replace").partition("\n")
        return int(batch or -1), sql

    def is_stuck(self):
        self.at()
        return time.monotonic() - self.since > STUCK_S

    def end(self):
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()
        self.beat_file.close()


def run(options, address, make, left, size):
    """Runs so many statements or schedules in batches of a size; gives the total of the counts, and
    the findings."""
    batches = []
    while left > 0:
        batches.append((len(batches), min(left, size)))
        left -= size
    jobs = max(1, min(options.jobs, len(batches)))
    counts, findings, pairs, done = Counter(), [], {}, set()
    processes = [Process(make, address, n, options, batches[n::jobs]) for n in range(jobs)]
    started = last_told = time.monotonic()
    while processes:
        ready = multiprocessing.connection.wait([p.connection for p in processes], timeout=2)
        for process in list(processes):
            ended = None
            if process.connection in ready:
                try:
                    result = process.connection.recv()
                    if result is None:
                        process.end()
                        processes.remove(process)
                        continue
                    if isinstance(result, str):
                        for other in processes:
                            other.end()
                        raise SystemExit(f"a mistake in the runner itself:\n{result}")
                    done.add(result.batch)
                    counts += result.counts
                    findings += result.findings
                    for pair, example in result.pairs.items():
                        pairs.setdefault(pair, example)
                except EOFError:
                    ended = "died"
            elif process.is_stuck():
                ended = f"was stuck for {STUCK_S} s"
            if ended:
                processes.remove(process)
                batch, sql = process.at()
                process.end()
                code = process.process.exitcode
                text = f"the process {ended} (exit code {code})"
                counts[f"DIFFERENT: {ended}"] += 1
                findings.append(
                    worker.Finding(sql, sql, f"process {ended}", "", text, "", "", batch)
                )
                rest = [b for b in process.batches if b[0] not in done][1:]
                if rest:
                    processes.append(Process(make, address, process.number, options, rest))
        if time.monotonic() - last_told > 15:
            last_told = time.monotonic()
            seconds = last_told - started
            told = sum(counts.values())
            different = sum(v for k, v in counts.items() if k.startswith("DIFFERENT"))
            print(f"   {told:,} in {seconds:.0f} s, {different:,} differ", flush=True)
    return counts, findings, pairs


def main(given=None):
    options = arguments(given)
    started = time.monotonic()
    # So that PostgreSQL is stopped then as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server()
    try:
        setup = Postgres(server.address(), "setup")
        setup.must(deliberate.FUNCTIONS)
        setup.close()
        if options.kept:
            checked = list(kept.check(options.kept, server.address()))
            if options.keep:
                kept.move(options.kept, checked)
            return report.show_kept(checked)
        counts, findings, pairs = Counter(), [], {}
        for make, number, size in (
            (worker.Worker, options.statements, worker.BATCH),
            (stories.Worker, options.transactions, stories.BATCH),
            (interleavings.Worker, options.interleavings, interleavings.BATCH),
            (serial.Worker, options.interleavings, interleavings.BATCH),
        ):
            if number:
                ran = run(options, server.address(), make, number, size)
                counts += ran[0]
                findings += ran[1]
                pairs = ran[2] | pairs
    finally:
        server.close()
    groups = report.grouped(findings)
    report.show(options, counts, groups, pairs, time.monotonic() - started)
    if options.findings:
        with open(options.findings, "w", encoding="utf-8") as file:
            file.write(report.markdown(options, counts, groups, pairs))
    if options.keep and groups:
        with open(kept.FILE, "a", encoding="utf-8") as file:
            for group in groups:
                if group[0].entry:
                    file.write("\n" + group[0].entry)
    return 1 if any(name.startswith("DIFFERENT") for name in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
