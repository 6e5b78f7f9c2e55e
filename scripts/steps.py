#!/usr/bin/env python3
"""Counts the instructions of a running program, where no hardware counter can be asked.

    scripts/steps.py [--steps N] [--after S] [--per SYMBOL] [--lines SYMBOL] -- PROGRAM ARGS...

Starts the program, waits S seconds, stops its busiest thread and steps through N instructions. Says
for each function how many of them were its own; with --per, the mean and the median from one
entry of a function whose name ends with SYMBOL to the next; with --lines, for the source lines of
the functions whose names contain SYMBOL. Give it a program with debug information, and a run of
many seconds: a step takes some ten microseconds, and a program that ends meanwhile is counted with
its end.

    CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release -p atoll-bench --example bench
    scripts/steps.py --per Row::copy --lines visit -- target/release/examples/bench ycsb \\
        --scheme no-wait --rows 8192 --columns 1 --threads 1 --theta 0 --reads 1 --seconds 30

Needs x86_64 and binutils (nm, readelf, addr2line).
"""

import argparse
import bisect
import collections
import contextlib
import ctypes
import os
import re
import signal
import statistics
import subprocess
import sys
import time

SEIZE, INTERRUPT, GETREGS, SINGLESTEP, DETACH = 0x4206, 0x4207, 12, 9, 17
# Position of the instruction pointer among the registers, as words.
RIP, REGISTERS = 16, 27
WAIT_ALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, thread, data=None):
    if libc.ptrace(request, thread, None, data) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def busiest(process):
    """The thread that has run most for a while."""

    def ran():
        times = {}
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat") as stat:
                times[int(thread)] = int(stat.read().rsplit(")", 1)[1].split()[11])
        return times

    before = ran()
    time.sleep(0.4)
    return max(((now - before.get(thread, now), thread) for thread, now in ran().items()))[1]


def step(thread, count):
    """Addresses of so many instructions, or of fewer if the thread ends."""
    registers = (ctypes.c_ulonglong * REGISTERS)()
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    os.waitpid(thread, WAIT_ALL)
    addresses = []
    for _ in range(count):
        ptrace(GETREGS, thread, ctypes.addressof(registers))
        addresses.append(registers[RIP])
        ptrace(SINGLESTEP, thread)
        if not os.WIFSTOPPED(os.waitpid(thread, WAIT_ALL)[1]):
            return addresses
    # Who is still held by its tracer when it is killed keeps the process from ending.
    ptrace(DETACH, thread)
    return addresses


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


class Symbols:
    def __init__(self, program, process):
        """The names in a program, and where the process has it."""
        self.program = os.path.realpath(program)
        lines = (line.split(" ", 2) for line in said_by("nm", "-C", "-n", program))
        named = [(int(at, 16), name) for at, kind, name in (x for x in lines if len(x) == 3 and x[0])
                 if kind in "tTwW"]
        self.starts, self.names = [at for at, _ in named], [name for _, name in named]
        with open(f"/proc/{process}/maps") as maps:
            code = next(x.split() for x in maps if self.program in x and "r-xp" in x)
        self.low, self.high = (int(x, 16) for x in code[0].split("-"))
        offset = int(code[2], 16)
        loads = (x.split() for x in said_by("readelf", "-lW", program) if x.strip().startswith("LOAD"))
        self.base = next(int(x[2], 16) & ~0xFFF for x in loads if int(x[1], 16) & ~0xFFF == offset)

    def place(self, address):
        """An address as the program's file has it; 0 outside of it."""
        return address - self.low + self.base if self.low <= address < self.high else 0

    def name(self, place):
        at = bisect.bisect_right(self.starts, place) - 1
        return self.names[at] if place and at >= 0 else "(elsewhere: libraries, the kernel's page)"

    def lines(self, places):
        """Function and source line of each place, innermost first."""
        found, place = collections.defaultdict(list), None
        wanted = [hex(place) for place in places]
        for line in said_by("addr2line", "-i", "-f", "-C", "-a", "-e", self.program, *wanted):
            if line.startswith("0x"):
                place = int(line, 16)
            else:
                found[place].append(line)
        return found


def short(frames, depth=3):
    pairs = list(zip(frames[::2], frames[1::2]))[:depth]
    brief = lambda name: re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", name)).split("::")[-1]
    return " < ".join(f"{brief(name)} {line.split('/')[-1].split(' ')[0]}" for name, line in pairs)


@contextlib.contextmanager
def running(command, after):
    """A program that has run for so many seconds: its symbols and its process, which ends with this."""
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(after)
        if program.poll() is not None:
            sys.exit(f"{command[0]} has ended already, with status {program.returncode}")
        yield Symbols(command[0], program.pid), program.pid
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--after", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--per", metavar="SYMBOL")
    parser.add_argument("--lines", metavar="SYMBOL")
    parser.add_argument("command", nargs="+", metavar="PROGRAM ARGS")
    args = parser.parse_args()
    with running(args.command, args.after) as (symbols, process):
        places = [symbols.place(at) for at in step(busiest(process), args.steps)]
    per = 1
    if args.per:
        starts = {at for at, name in zip(symbols.starts, symbols.names) if name.endswith(args.per)}
        entries = [at for at, place in enumerate(places) if place in starts]
        per = len(entries) - 1
        if per < 1:
            sys.exit(f"no function whose name ends with {args.per!r} was entered twice")
        # From the first entry to the last, so that every run is a whole one.
        median = statistics.median(b - a for a, b in zip(entries, entries[1:]))
        places = places[entries[0] : entries[-1]]
        print(f"{len(places) / per:.1f} instructions per {args.per}, median {median:.1f}")
    else:
        print(f"{len(places)} instructions")
    own = collections.Counter(places)
    counted = collections.Counter()
    if args.lines:
        chosen = [at for at in own if args.lines in symbols.name(at)]
        for at, frames in symbols.lines(chosen).items():
            counted[short(frames)] += own[at]
    else:
        for at, n in own.items():
            counted[symbols.name(at)] += n
    for name, n in counted.most_common(40):
        print(f"{n / per:10.1f}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
