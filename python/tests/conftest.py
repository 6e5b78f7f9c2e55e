"""Processes that own databases, for the tests. Nothing is built here."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import atolldb

SCRIPT = Path(__file__).with_name("owner_process.py")


class Owner:
    """A process that runs code; its databases live as long as it does."""

    def __init__(self, runtime_dir):
        self.runtime_dir = runtime_dir
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # In tests that import without installing, the other process does as this one.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.run(f"runtime_dir = {str(runtime_dir)!r}")

    def run(self, code):
        """Runs code there; what it stores in `answer` comes back."""
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the owner process is gone"
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def kill(self):
        """Ends it at once, as an accident would."""
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def eventually(condition):
    """Waits until the condition holds; the owner hears of things on its own thread."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


@pytest.fixture
def runtime_dir(tmp_path_factory):
    """A directory for names, short enough for the path of a socket."""
    path = tmp_path_factory.mktemp("run")
    path.chmod(0o700)
    return path


@pytest.fixture
def new_owner(runtime_dir):
    """Starts owner processes, and ends them after the test."""
    owners = []

    def start():
        owners.append(Owner(runtime_dir))
        return owners[-1]

    yield start
    for owner in owners:
        if owner.process.poll() is None:
            owner.close()


#: A table of three segments, the last of them not full: id, x = id / 2, note (a text, some NULL).
ROWS = 20_000
POINTS = f"""
import pyarrow
db = atolldb.create(memory_limit=256 << 20)
db.create_table("points", pyarrow.table(
    {{
        "id": pyarrow.array(range({ROWS}), pyarrow.int64()),
        "x": pyarrow.array([i / 2 for i in range({ROWS})], pyarrow.float64()),
        "note": [None if i % 7 == 0 else f"note number {{i}}" for i in range({ROWS})],
    }},
    schema=pyarrow.schema([
        pyarrow.field("id", pyarrow.int64(), nullable=False),
        pyarrow.field("x", pyarrow.float64(), nullable=False),
        pyarrow.field("note", pyarrow.string()),
    ]),
), primary_key="id")
db.publish("board", runtime_dir)


def change(statement, ids):
    # A statement for each of these rows, all in one transaction.
    db.sql("BEGIN")
    for at in ids:
        db.sql(f"{{statement}} WHERE id = {{at}}")
    db.sql("COMMIT")
"""


@pytest.fixture
def board(new_owner):
    """An owner with the database "board" and its table `points`."""
    owner = new_owner()
    owner.run(POINTS)
    return owner


@pytest.fixture
def connection(board, runtime_dir):
    """A connection to "board"."""
    with atolldb.attach("board", runtime_dir) as connection:
        yield connection


@pytest.fixture
def snapshot(connection):
    """A snapshot of "board"."""
    return connection.snapshot()
