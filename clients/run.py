"""Runs clients of PostgreSQL against `atoll serve`, or against PostgreSQL itself.

See README.md for the programs' side. Each program gets a server of its own with an empty database,
so that what one of them leaves, or breaks, is not seen by another.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from servers import Atoll, Postgres

HERE = Path(__file__).resolve().parent
#: A line of a program about a check, and its first line.
LINE = re.compile(r"(?P<verdict>ok|not ok) (?P<name>[^:]+?)(?:: (?P<seen>.*))?")
VERSION = re.compile(r"version (?P<client>\S+) (?P<version>.+)")


@dataclass
class Client:
    """A program of a folder's `clients.toml`."""

    name: str
    folder: Path
    run: str
    seconds: int
    family: dict

    def environment(self, into):
        return {**os.environ, "INTO": str(into / self.folder.name)}


@dataclass
class Outcome:
    """What a program has printed, and how it ended."""

    version: str = "?"
    passed: list = field(default_factory=list)
    #: What was seen, by the name of the check.
    failed: dict = field(default_factory=dict)
    #: Why the program did not run, if a program of the system is missing.
    left_out: str = ""


def clients():
    """All clients, in the order of folders and files."""
    for path in sorted(HERE.glob("*/clients.toml")):
        family = tomllib.loads(path.read_text())
        for name, client in family["clients"].items():
            yield Client(name, path.parent, client["run"], client.get("seconds", 300), family)


def expected():
    """The lines `client | check | reason` of expected.txt: the reason by client and check."""
    known = {}
    for line in (HERE / "expected.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            client, check, reason = (part.strip() for part in line.split("|", 2))
            known[client, check] = reason
    return known


def install(client, into):
    """Installs the clients of a folder into INTO, if what they are installed from has changed."""
    family, target = client.family, into / client.folder.name
    digest = hashlib.sha256(family["install"].encode())
    for name in family["pins"]:
        whole = client.folder / name
        for path in sorted(whole.rglob("*")) if whole.is_dir() else [whole]:
            digest.update(path.read_bytes() if path.is_file() else b"")
    stamp = target / "installed.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    print(f"== installing the clients of {client.folder.name}", flush=True)
    target.mkdir(parents=True, exist_ok=True)
    environment = client.environment(into)
    script = f"set -euo pipefail\n{family['install']}"
    subprocess.run(["bash", "-c", script], cwd=client.folder, env=environment, check=True)
    stamp.write_text(digest.hexdigest())


def run(client, server, into, logs):
    """Runs the program of a client, and reads what it prints."""
    outcome = Outcome()
    output, errors = logs / f"{client.name}.out", logs / f"{client.name}.err"
    environment = {**client.environment(into), **server.environment()}
    with output.open("w") as out, errors.open("w") as err:
        program = subprocess.Popen(
            ["bash", "-c", f"exec {client.run}"],
            **{"cwd": client.folder, "env": environment, "stdin": subprocess.DEVNULL},
            **{"stdout": out, "stderr": err, "start_new_session": True},
        )
        try:
            status = program.wait(timeout=client.seconds)
            end = f"ended with status {status}" if status else ""
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, 9)
            program.wait()
            end = f"not at its end after {client.seconds} seconds"
    for line in output.read_text(errors="replace").splitlines():
        if about := VERSION.fullmatch(line):
            outcome.version = about["version"]
        elif check := LINE.fullmatch(line):
            if check["verdict"] == "ok":
                outcome.passed.append(check["name"])
            else:
                outcome.failed[check["name"]] = check["seen"] or ""
    if not server.is_alive():
        outcome.failed["the server survives"] = f"it ended with {server.process.returncode}"
    if end:
        outcome.failed["the program ends"] = f"{end}; {last_line(errors)}"
    elif not outcome.passed:
        outcome.failed["the program checks something"] = last_line(errors)
    return outcome


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def outcome_of(client, arguments):
    """Installs a client and runs it on a server of its own."""
    missing = [name for name in client.family.get("needs", []) if not shutil.which(name)]
    if missing:
        return Outcome(left_out=f"{', '.join(missing)} not installed")
    install(client, arguments.into)
    logs = arguments.logs / arguments.against
    logs.mkdir(parents=True, exist_ok=True)
    folder = arguments.servers / f"{arguments.against}-{client.name}"
    if arguments.against == "postgres":
        server = Postgres(folder)
    else:
        server = Atoll(arguments.atoll, folder)
    with server:
        outcome = run(client, server, arguments.into, logs)
    shutil.copy(server.log, logs / f"{client.name}.statements")
    shutil.rmtree(folder)
    return outcome


def print_table(outcomes):
    rows = [("client", "version", "passed", "failed", "missing")]
    for name, outcome in outcomes.items():
        failed, missing = str(len(outcome.failed)), ", ".join(outcome.failed)
        if outcome.left_out:
            failed, missing = "", f"left out: {outcome.left_out}"
        rows.append((name, outcome.version, str(len(outcome.passed)), failed, missing))
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())


def surprises(name, outcome, known):
    """The lines about failures that expected.txt does not name, and about named ones that pass."""
    for check, seen in outcome.failed.items():
        if (name, check) not in known:
            yield f"{name}: {check}: {seen}"
    for check in outcome.passed:
        if (name, check) in known:
            yield f"{name}: {check} passes: take it out of clients/expected.txt"


def main():
    target = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent / "target").resolve()
    parser = argparse.ArgumentParser(description="Clients of PostgreSQL against Atoll.")
    parser.add_argument("--against", choices=("atoll", "postgres"), default="atoll")
    parser.add_argument("--atoll", default=target / "release" / "atoll", help="the program")
    parser.add_argument("--only", nargs="+", default=[], help="clients, or folders of clients")
    parser.add_argument("--into", type=Path, default=target / "clients")
    parser.add_argument("--servers", type=Path, default=Path("/tmp/atoll-clients"))
    arguments = parser.parse_args()
    arguments.logs = arguments.into / "logs"
    chosen = [
        client
        for client in clients()
        if not arguments.only or {client.name, client.folder.name} & set(arguments.only)
    ]
    if not chosen:
        parser.error(f"no client is named so; there are {', '.join(c.name for c in clients())}")
    known = expected() if arguments.against == "atoll" else {}
    outcomes, wrong = {}, []
    for client in chosen:
        print(f"== {client.name}", flush=True)
        outcomes[client.name] = outcome = outcome_of(client, arguments)
        lines = list(surprises(client.name, outcome, known))
        print("".join(f"   {line}\n" for line in lines), end="", flush=True)
        wrong += lines
    print_table(outcomes)
    passed = sum(len(outcome.passed) for outcome in outcomes.values())
    print(f"\n{passed} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
