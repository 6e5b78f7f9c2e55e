#!/usr/bin/env python3
"""Counts the cache misses of a running program, where no hardware counter can be asked.

    scripts/misses.py [--steps N] [--after S] --per SYMBOL [--times N] [--second KIB] -- PROGRAM ARGS...

Starts the program, waits S seconds, steps through N instructions of its busiest thread as steps.py
does, and reads from the registers which cache lines each of them touches. Those go through two caches
that forget what was used least recently. Of the second half of the trace it says, divided by how often
a function whose name has SYMBOL in it was entered, and by --times (what each of those does so many
times): which source lines had to wait for the second cache, which for what lies behind it, and which
prefetches went there. It does not say how long that took: a processor works on while it waits.

The caches have seen nothing before the trace, so let it be long: of two million steps, some three
minutes, the second half is trustworthy for what a few hundred transactions touch again.

    CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release -p atoll-bench --example bench
    scripts/misses.py --steps 2000000 --per 'Client>::prepare' --times 16 -- \\
        target/release/examples/bench ycsb --scheme no-wait --rows 65536 --threads 1 --seconds 900

Needs what steps.py needs, and capstone (a Python package) to know what instructions touch.
"""

import argparse
import collections
import ctypes
import os
import signal
import sys

import capstone

import steps
from capstone import x86

LINE_BITS = 6
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
             "fs_base gs_base ds es fs gs").split()
NUMBER = {name: at for at, name in enumerate(REGISTERS)}
READ, PREFETCH = "read or written", "prefetched"


class Touches:
    """What the instructions of a process touch."""

    def __init__(self, process):
        self.memory = open(f"/proc/{process}/mem", "rb", 0)
        self.decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.decoder.detail = True
        self.known = {}

    def of(self, address):
        """Base, index, scale, displacement, segment, bytes and kind of each access."""
        if address not in self.known:
            self.memory.seek(address)
            code = self.memory.read(16)
            self.known[address] = list(self.decode(next(self.decoder.disasm(code, address, 1))))
        return self.known[address]

    def decode(self, one):
        register = lambda number: NUMBER.get(one.reg_name(number), -1) if number else -1
        stack = NUMBER["rsp"]
        if one.mnemonic in ("push", "call"):
            yield stack, -1, 1, -8, -1, 8, READ
        if one.mnemonic in ("pop", "ret"):
            yield stack, -1, 1, 0, -1, 8, READ
        if one.mnemonic in ("lea", "nop"):
            return
        kind = PREFETCH if one.mnemonic.startswith("prefetch") else READ
        for operand in one.operands:
            if operand.type == x86.X86_OP_MEM:
                place = operand.mem
                # The pointer to instructions already points behind this one.
                ahead = one.size if place.base and one.reg_name(place.base) == "rip" else 0
                segment = NUMBER["fs_base"] if place.segment == x86.X86_REG_FS else -1
                yield (register(place.base), register(place.index), place.scale, place.disp + ahead,
                       segment, max(1, operand.size), kind)


def trace(thread, process, count):
    """Address of each instruction, and (instruction, line, kind) of each access."""
    registers = (ctypes.c_ulonglong * steps.REGISTERS)()
    touches, addresses, accesses = Touches(process), [], []
    steps.ptrace(steps.SEIZE, thread)
    steps.ptrace(steps.INTERRUPT, thread)
    os.waitpid(thread, steps.WAIT_ALL)
    for step in range(count):
        steps.ptrace(steps.GETREGS, thread, ctypes.addressof(registers))
        at = registers[steps.RIP]
        addresses.append(at)
        for base, index, scale, displacement, segment, size, kind in touches.of(at):
            first = displacement
            first += registers[base] if base >= 0 else 0
            first += registers[index] * scale if index >= 0 else 0
            first += registers[segment] if segment >= 0 else 0
            first %= 1 << 64
            last = first + (size - 1 if kind == READ else 0)
            accesses += ((step, line, kind) for line in range(first >> LINE_BITS, (last >> LINE_BITS) + 1))
        steps.ptrace(steps.SINGLESTEP, thread)
        if not os.WIFSTOPPED(os.waitpid(thread, steps.WAIT_ALL)[1]):
            return addresses, accesses
    steps.ptrace(steps.DETACH, thread)
    return addresses, accesses


class Cache:
    def __init__(self, kib, ways):
        self.ways = ways
        self.sets = [collections.OrderedDict() for _ in range((kib << 10 >> LINE_BITS) // ways)]

    def has(self, line):
        """Whether it had the line, which it has from now on."""
        lines = self.sets[line % len(self.sets)]
        if line in lines:
            lines.move_to_end(line)
            return True
        lines[line] = None
        if len(lines) > self.ways:
            lines.popitem(last=False)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--after", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--per", required=True, metavar="SYMBOL")
    parser.add_argument("--times", type=int, default=1, metavar="N")
    parser.add_argument("--second", type=int, default=1024, metavar="KIB")
    parser.add_argument("command", nargs="+", metavar="PROGRAM ARGS")
    args = parser.parse_args()
    with steps.running(args.command, args.after) as (symbols, process):
        addresses, accesses = trace(steps.busiest(process), process, args.steps)
    places = [symbols.place(at) for at in addresses]
    starts = dict(zip(symbols.starts, symbols.names))
    entries = [step for step, at in enumerate(places) if args.per in starts.get(at, "")]
    if len(entries) < 4:
        sys.exit(f"functions with {args.per!r} in their names were entered {len(entries)} times only")
    begin, end = entries[len(entries) // 2], entries[-1]
    per = (len(entries) - 1 - len(entries) // 2) * args.times
    first, second = Cache(48, 12), Cache(args.second, 16)
    behind_first, behind_second, prefetched = (collections.Counter() for _ in range(3))
    for step, line, kind in accesses:
        in_first = first.has(line)
        in_second = in_first or second.has(line)
        if begin <= step < end and not in_first:
            behind_first[places[step]] += kind == READ
            behind_second[places[step]] += kind == READ and not in_second
            prefetched[places[step]] += kind == PREFETCH and not in_second
    for what, counted in (("waited for the second cache", behind_first - behind_second),
                          ("waited for what lies behind it", behind_second),
                          ("prefetched from there", prefetched)):
        print(f"{sum(counted.values()) / per:.2f} lines {what}")
        lines = symbols.lines([at for at in counted if at])
        by_line = collections.Counter()
        for at, count in counted.items():
            by_line[steps.short(lines[at], 4) if at in lines else symbols.name(at)] += count
        for name, count in (x for x in by_line.most_common(12) if x[1]):
            print(f"{count / per:10.3f}  {name}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
