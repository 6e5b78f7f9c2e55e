#!/usr/bin/env python3
"""`atoll serve` and PostgreSQL side by side with pgbench, in turns, with the same durability.

    scripts/server_peers.py target/release/atoll [--seconds 10] [--rounds 2] [--clients 1,8,64]

Prints for each script and number of clients the transactions per second of both, the processor
time of each server per transaction, and the ratios. PostgreSQL is that of the system
(`scripts/setup.sh postgres`) unless `--postgresql` names the folder of the programs of another; as
root it runs as the user postgres. Durability: `fsync` on and `synchronous_commit` on beside
`--durability strict`, on the same disk.

`--ceiling` runs a third server for select-only, one that only sends replies that were written
beforehand: `cargo build --release --manifest-path peers/canned/Cargo.toml`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def fields(pid):
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()


def cpu_seconds(pid):
    """The processor time of a process and of its children, those included that have ended."""
    total = sum(int(ticks) for ticks in fields(pid)[11:15])
    for other in Path("/proc").iterdir():
        if other.name.isdigit():
            try:
                found = fields(other.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if found[1] == str(pid):
                total += sum(int(ticks) for ticks in found[11:15])
    return total / TICKS


class Atoll:
    name = "Atoll"

    def __init__(self, program, folder):
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        command = [program, "--runtime-dir", runtime, "serve", "bench", "--port", "6432"]
        command += ["--data", folder / "atoll", "--listen", "none"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("listening"):
            sys.exit("atoll does not listen")
        self.environment = {"PGHOST": str(runtime), "PGPORT": "6432", "PGDATABASE": "bench"}
        self.pid = self.process.pid

    def stop(self):
        self.process.terminate()
        self.process.wait()


class PostgreSQL:
    name = "PostgreSQL"

    def __init__(self, folder, programs):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not found and not programs:
            sys.exit("PostgreSQL is missing: scripts/setup.sh postgres")
        self.bin = Path(programs or found[-1].parent).resolve()
        self.data = folder / "postgresql"
        self.data.mkdir(mode=0o700)
        is_root = os.geteuid() == 0
        if is_root:
            shutil.chown(self.data, "postgres")
            folder.chmod(0o755)
        self.prefix = ["runuser", "-u", "postgres", "--"] if is_root else []
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "bench", "--no-sync")
        options = f"-k {self.data} -p 6433 -c listen_addresses= -c max_connections=200"
        self.run("pg_ctl", "-D", self.data, "-o", options, "-l", self.data / "log", "-w", "start")
        self.pid = int((self.data / "postmaster.pid").read_text().split("\n")[0])
        place = {"PGHOST": str(self.data), "PGPORT": "6433", "PGUSER": "bench"}
        self.environment = {**place, "PGDATABASE": "postgres"}

    def run(self, program, *arguments):
        command = [*self.prefix, str(self.bin / program), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")


class Canned:
    """Only pgbench and the system take time."""

    name = "Ceiling"

    def __init__(self, program, folder, scale):
        socket = folder / ".s.PGSQL.6434"
        command = [program, socket, str(scale)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("listening"):
            sys.exit("the ceiling does not listen")
        self.environment = {"PGHOST": str(folder), "PGPORT": "6434", "PGDATABASE": "bench"}
        self.pid = self.process.pid

    def stop(self):
        self.process.terminate()
        self.process.wait()


def pgbench(server, *arguments):
    environment = {**os.environ, **server.environment}
    done = subprocess.run(["pgbench", *arguments], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}: {done.stderr}")
    return done.stdout


def measure(server, script, clients, seconds):
    before = cpu_seconds(server.pid)
    jobs = str(min(clients, os.cpu_count()))
    shown = pgbench(
        server, "-n", "-M", "prepared", "-b", script, "-c", str(clients), "-j", jobs,
        "-T", str(seconds),
    )
    # Sessions of PostgreSQL are processes, which end a moment later.
    time.sleep(0.3)
    spent = cpu_seconds(server.pid) - before
    count = int(re.search(r"actually processed: (\d+)", shown)[1])
    failed = int(re.search(r"failed transactions: (\d+)", shown)[1])
    rate = float(re.search(r"tps = ([\d.]+)", shown)[1])
    return {"tps": rate, "cpu_us": spent / count * 1e6, "failed": failed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--scripts", default="select-only,simple-update,tpcb-like")
    parser.add_argument("--postgresql", help="folder with initdb, pg_ctl and postgres")
    parser.add_argument("--ceiling", help="the program atoll-canned")
    parser.add_argument("--json", help="writes the figures to this file")
    given = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="atoll-peers-") as folder:
        folder = Path(folder)
        servers = [Atoll(given.program, folder), PostgreSQL(folder, given.postgresql)]
        ceiling = [Canned(given.ceiling, folder, given.scale)] if given.ceiling else []
        try:
            for server in servers:
                pgbench(server, "-i", "-q", "-s", str(given.scale))
            print(f"{'script':14} {'clients':>7} {'tps Atoll':>10} {'PostgreSQL':>11} {'ratio':>6} "
                  f"{'µs Atoll':>9} {'PostgreSQL':>11} {'ratio':>6} failed  of the ceiling")
            for script in given.scripts.split(","):
                for clients in map(int, given.clients.split(",")):
                    best = {}
                    for _ in range(given.rounds):
                        for server in servers + (ceiling if script == "select-only" else []):
                            found = measure(server, script, clients, given.seconds)
                            known = best.setdefault(server.name, found)
                            if found["tps"] > known["tps"]:
                                best[server.name] = found
                    own, peer = best["Atoll"], best["PostgreSQL"]
                    print(f"{script:14} {clients:7} {own['tps']:10.0f} {peer['tps']:11.0f} "
                          f"{own['tps'] / peer['tps']:6.2f} {own['cpu_us']:9.1f} "
                          f"{peer['cpu_us']:11.1f} {own['cpu_us'] / peer['cpu_us']:6.2f} "
                          f"{own['failed']:6}", end="")
                    if top := best.get("Ceiling"):
                        print(f"  {own['tps'] / top['tps']:.2f} of {top['tps']:.0f}, "
                              f"{top['cpu_us']:.1f} µs", end="")
                    print(flush=True)
                    results.append({"script": script, "clients": clients, **best})
        finally:
            for server in servers + ceiling:
                server.stop()
    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
