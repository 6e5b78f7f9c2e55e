"""What queries may take, and statements that a signal ends."""

import os
import signal
import threading

import pytest

import atolldb

LONG = "SELECT count(*) FROM t a, t b WHERE a.id + b.id = -1"


@pytest.fixture(autouse=True)
def ctrl_c():
    """A process that was started in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def db():
    with atolldb.create() as db:
        db.create_table("t", {"id": list(range(300_000))}, primary_key="id")
        yield db


@pytest.fixture
def limits(tmp_path):
    def limit(**limits):
        atolldb.set_query_limits(**{"spill_folder": tmp_path, **limits})

    yield limit
    atolldb.set_query_limits()


def interrupt_soon():
    """Sends what Ctrl-C does while the main thread runs a statement."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_ends_a_query_and_the_session_goes_on(db):
    snapshot = db.snapshot()
    for run in (db.sql, db.session().sql, snapshot.sql):
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            run(LONG)
        assert run("SELECT count(*) FROM t").fetchall() == [(300_000,)]


def test_ctrl_c_ends_a_change_which_is_rolled_back(db):
    db.sql("CREATE TABLE u (id bigint PRIMARY KEY)")
    insert = f"INSERT INTO u {LONG}"
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        db.sql(insert)
    assert db.sql("SELECT count(*) FROM u").fetchall() == [(0,)]
    db.sql("INSERT INTO u VALUES (1)")


def test_a_handler_of_signals_runs_while_a_statement_does(db):
    """One that raises nothing ends nothing; one that uses the session is told so."""
    seen = []

    def handle(number, frame):
        try:
            seen.append(db.sql("SELECT 1"))
        except atolldb.Error as error:
            seen.append(error)
        raise ValueError("enough")

    before = signal.signal(signal.SIGINT, handle)
    try:
        interrupt_soon()
        with pytest.raises(ValueError, match="enough"):
            db.sql(LONG)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(seen) == 1 and "cannot use it" in str(seen[0])
    assert db.sql("SELECT 1 AS a").fetchall() == [(1,)]


def test_ctrl_c_ends_a_wait_for_another_transaction(db):
    other = db.session()
    other.sql("BEGIN")
    other.sql("UPDATE t SET id = 1000000 WHERE id = 1")
    delete = "DELETE FROM t WHERE id = 1"
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        db.sql(delete)
    with pytest.raises(KeyboardInterrupt), db.transaction() as transaction:
        assert transaction.sql("DELETE FROM t WHERE id = 2").rows_affected == 1
        interrupt_soon()
        transaction.sql(delete)
    other.sql("ROLLBACK")
    assert db.sql("SELECT count(*) FROM t WHERE id < 3").fetchall() == [(3,)]
    assert db.sql(delete).rows_affected == 1


def test_a_thread_that_is_not_the_main_one_is_not_interrupted(db):
    done = []
    query = "SELECT count(*) FROM t a, t b WHERE a.id + b.id = -1 AND a.id < 1000"
    thread = threading.Thread(target=lambda: done.append(db.sql(query).fetchall()))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        thread.join()
    thread.join()
    assert done == [[(0,)]]


def test_a_result_larger_than_the_memory_of_queries_raises_and_names_the_limit(db, limits):
    limits(memory=16 << 20)
    with pytest.raises(MemoryError, match="query memory, 16 MiB") as caught:
        db.sql("SELECT a.id + 1, b.id + 1 FROM t a, t b")
    assert isinstance(caught.value, atolldb.SqlError)
    assert caught.value.kind == "out of memory" and "set_query_limits" in caught.value.hint
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(300_000,)]


def test_results_that_are_kept_count(db, limits):
    limits(memory=4 << 20)
    query = "SELECT id + 1 AS a FROM t"
    kept = db.sql(query)
    with pytest.raises(atolldb.OutOfMemory):
        db.sql(query)
    del kept
    assert db.sql(query).num_rows == 300_000


def test_what_does_not_fit_is_spilled_to_a_folder_of_this_users(db, limits, tmp_path):
    query = (
        "SELECT count(*) FROM (SELECT v, lag(v) OVER (ORDER BY v) AS before FROM"
        " (SELECT id * 7919 % 300000 AS v, id + 1, id + 2, id + 3 FROM t)) WHERE before >= v"
    )
    limits(memory=8 << 20, spill=4096)
    with pytest.raises(atolldb.OutOfMemory, match="spill files"):
        db.sql(query)
    limits(memory=8 << 20)
    assert db.sql(query).fetchall() == [(0,)]
    [folder] = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert list(folder.iterdir()) == []
