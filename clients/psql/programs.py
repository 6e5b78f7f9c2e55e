"""Runs programs of PostgreSQL, and prints the lines of `clients/README.md`."""

import re
import subprocess
import sys
from pathlib import Path

#: The name of the client, and the folder of its programs.
CLIENT, FOLDER = sys.argv[1], Path(sys.argv[2])
IS_18 = CLIENT.endswith("18")


class Failed(Exception):
    """A program ended with a status that was not expected."""


def run(name, *arguments, text=None, status=0, seconds=60):
    """What a program writes to its standard output and to that of errors."""
    done = subprocess.run(
        [FOLDER / name, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    if done.returncode != status:
        raise Failed(f"status {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout, done.stderr


def print_version(program):
    output, _ = run(program, "--version")
    print(f"version {CLIENT} {re.search(r'[0-9]+[.][0-9]+', output)[0]}", flush=True)


def check(name, body):
    """Runs a check and prints its line."""
    try:
        body()
    except (AssertionError, Failed, subprocess.TimeoutExpired) as error:
        print(f"not ok {name}: {' '.join(str(error).split())}", flush=True)
    else:
        print(f"ok {name}", flush=True)


def equal(expected, seen):
    assert seen == expected, f"expected {expected!r}, saw {seen!r}"


def has(part, whole):
    assert part in whole, f"expected {part!r} in {whole!r}"
