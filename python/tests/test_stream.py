"""Rows of queries that are computed while they are read."""

import gc
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import pytest

import atolldb

ROWS = 300_000


@pytest.fixture
def db():
    with atolldb.create() as db:
        ids = pyarrow.array(range(ROWS), pyarrow.int64())
        db.create_table("t", pyarrow.table({"id": ids, "v": ids}), primary_key="id")
        yield db


def test_rows_and_batches(db):
    with db.stream("SELECT id, v * 2 AS twice FROM t ORDER BY id") as stream:
        assert stream.column_names == ["id", "twice"]
        assert next(stream) == (0, 0)
        db.sql("UPDATE t SET v = 0 WHERE id = 1")
        assert sum(row[1] for row in stream) == ROWS * (ROWS - 1)
        assert next(stream, None) is None
    with pytest.raises(atolldb.errors.Error, match="closed"):
        next(stream)
    reader = db.stream("SELECT v + 1 FROM t WHERE id > $1", [9]).to_reader()
    assert reader.schema.types == [pyarrow.int64()]
    assert sum(batch.num_rows for batch in reader) == ROWS - 10
    with db.session() as session, db.snapshot() as snapshot:
        for source in (session, snapshot):
            assert list(source.stream("SELECT v FROM t WHERE id = ?", [7])) == [(7,)]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(db.stream("SELECT id FROM t")).height == ROWS


def test_a_stream_feeds_a_table(db):
    db.create_table("u", db.stream("SELECT id, v % 10 AS last FROM t"), primary_key="id")
    assert db.sql("SELECT sum(last) FROM u").fetchone() == (ROWS // 10 * 45,)


def test_errors(db):
    stream = db.stream("SELECT 1 / (id - 200000) FROM t")
    with pytest.raises(atolldb.errors.Error, match="zero") as raised:
        list(stream)
    assert raised.value.sqlstate == "22012"
    assert list(stream) == []
    with pytest.raises(atolldb.errors.Error, match="nothing"):
        db.stream("SELECT nothing FROM t")
    with pytest.raises(pyarrow.ArrowException, match="zero"):
        db.stream("SELECT 1 / (id - 200000) FROM t").to_reader().read_all()
    given = db.stream("SELECT id FROM t")
    given.to_reader().read_next_batch()
    with pytest.raises(atolldb.errors.Error, match="read elsewhere"):
        next(given)
    half = db.stream("SELECT id FROM t")
    next(half)
    with pytest.raises(atolldb.errors.Error, match="one by one"):
        half.to_reader()


def test_a_stream_that_is_dropped_ends_its_query(db):
    stream = db.stream("SELECT a.v * b.v FROM t AS a, t AS b")
    next(stream)
    assert len(db.snapshots()) == 1
    del stream
    gc.collect()
    end = time.monotonic() + 60
    while db.snapshots() and time.monotonic() < end:
        time.sleep(0.01)
    assert db.snapshots() == []


def test_a_forked_child_is_refused_and_its_parent_goes_on():
    # In a process of its own: a child of pytest would run its exit handlers.
    program = """
import os, pyarrow, atolldb
db = atolldb.create()
ids = pyarrow.array(range(300000), pyarrow.int64())
db.create_table("t", pyarrow.table({"id": ids}), primary_key="id")
stream = db.stream("SELECT id + 1 FROM t")
next(stream)
pid = os.fork()
if pid == 0:
    try:
        list(stream)
    except atolldb.errors.ForkedChild:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sum(1 for _ in stream))
"""
    run = [sys.executable, "-W", "ignore", "-c", program]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.split()) == (0, ["7", "299999"]), ended.stderr


def test_ctrl_c_ends_a_stream(db):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        stream = db.stream("SELECT sum(a.v % 7 + b.v % 5) FROM t AS a, t AS b WHERE a.v <> b.v % 2")
        main = threading.main_thread().ident
        threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        with pytest.raises(Stop):
            next(stream)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert db.sql("SELECT count(*) FROM t").fetchone() == (ROWS,)


def test_ten_million_rows_take_little_memory():
    rows = 10_000_000
    ids = pyarrow.array(range(rows), pyarrow.int64())
    with atolldb.create() as db:
        db.create_table("t", pyarrow.table({"id": ids, "v": ids}), primary_key="id")
        # What the store has in memory is read once before.
        query = "SELECT id + v AS a, id * 2 AS b, id - v AS c, v FROM t"
        db.sql("SELECT sum(id + v) FROM t")
        forget_peak()
        before = peak()
        count = total = 0
        for batch in db.stream(query).to_reader():
            count += batch.num_rows
            total += batch.column(0)[0].as_py()
        assert count == rows and total > 0
        assert peak() - before < 64 << 20
        # The same rows, kept.
        kept = db.sql(query)
        assert kept.num_rows == rows and peak() - before > 200 << 20


def forget_peak():
    """Begins to measure anew the most memory that the process has had."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak():
    """The most memory that the process has had since, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
