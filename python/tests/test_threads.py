"""Threads: each has a session of its own, and more of them are to be had."""

import threading

import pytest

import atolldb


@pytest.fixture
def db():
    with atolldb.create(memory_limit=128 << 20) as db:
        db.sql("CREATE TABLE t (id bigint PRIMARY KEY, x bigint)")
        yield db


def in_thread(body):
    """Runs `body` in a thread of its own and returns what it returns."""
    done = []

    def run():
        try:
            done.append((body(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = done[0]
    if error is not None:
        raise error
    return result


def ids(db):
    return [at for (at,) in in_thread(lambda: db.sql("SELECT id FROM t ORDER BY id")).fetchall()]


def test_a_rollback_takes_nothing_of_another_thread_along(db):
    db.sql("BEGIN")
    db.sql("INSERT INTO t VALUES (1, 1)")
    in_thread(lambda: db.sql("INSERT INTO t VALUES (2, 2)"))
    in_thread(lambda: db.insert("t", {"id": [3], "x": [3]}))
    assert ids(db) == [2, 3]
    db.sql("ROLLBACK")
    assert ids(db) == [2, 3]


def test_a_failed_statement_of_one_thread_fails_no_transaction_of_another(db):
    db.sql("BEGIN")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(atolldb.SqlError, match="no transaction is open"):
        in_thread(lambda: db.sql("COMMIT"))
    db.sql("INSERT INTO t VALUES (2, 2)")
    db.sql("COMMIT")
    assert ids(db) == [1, 2]


def test_threads_commit_transactions_beside_each_other(db):
    def run(first):
        for at in range(first, first + 50):
            db.sql("BEGIN")
            db.sql(f"INSERT INTO t VALUES ({at}, 0)")
            db.insert("t", {"id": [at + 1000], "x": [0]})
            db.sql("COMMIT" if at % 2 else "ROLLBACK")

    threads = [threading.Thread(target=run, args=[at * 50]) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    odd = [at for at in range(200) if at % 2]
    assert ids(db) == odd + [at + 1000 for at in odd]


def test_what_is_open_when_its_thread_ends_is_rolled_back(db):
    def begin():
        db.sql("BEGIN")
        db.sql("INSERT INTO t VALUES (1, 1)")

    in_thread(begin)
    # The row is locked by nobody any more.
    db.sql("INSERT INTO t VALUES (1, 2)")
    assert db.sql("SELECT x FROM t").fetchall() == [(2,)]


def test_rows_that_are_inserted_are_part_of_the_transaction_of_the_thread(db):
    db.sql("BEGIN")
    assert db.insert("t", {"id": [1, 2], "x": [1, 2]}) == 2
    assert ids(db) == []
    db.sql("ROLLBACK")
    assert ids(db) == []
    db.sql("BEGIN")
    db.insert("t", {"id": [1, 2], "x": [1, 2]})
    db.sql("INSERT INTO t VALUES (3, 3)")
    db.sql("COMMIT")
    assert ids(db) == [1, 2, 3]


def test_rows_that_cannot_be_inserted_fail_the_transaction(db):
    db.sql("INSERT INTO t VALUES (2, 2)")
    db.sql("BEGIN")
    with pytest.raises(atolldb.DuplicateKey):
        db.insert("t", {"id": [1, 2], "x": [1, 2]})
    with pytest.raises(atolldb.SqlError, match="earlier statement"):
        db.insert("t", {"id": [5], "x": [5]})
    assert db.sql("COMMIT").tag == "ROLLBACK"
    assert ids(db) == [2]


def test_a_table_is_not_made_inside_a_transaction(db):
    db.sql("BEGIN")
    with pytest.raises(atolldb.SqlError, match="inside a transaction"):
        db.create_table("u", {"id": [1]}, primary_key="id")
    db.sql("ROLLBACK")
    assert db.create_table("u", {"id": [1]}, primary_key="id") == 1


def test_sessions_besides_that_of_the_thread_have_transactions_of_their_own(db):
    with db.session() as one, db.session() as other:
        one.sql("BEGIN")
        one.insert("t", {"id": [1], "x": [1]})
        other.sql("BEGIN")
        other.sql("INSERT INTO t VALUES (2, 2)")
        db.sql("INSERT INTO t VALUES (3, 3)")
        assert one.in_transaction and other.in_transaction
        one.sql("ROLLBACK")
        other.sql("COMMIT")
        assert not one.in_transaction and not other.in_transaction
        assert other.sql("SELECT count(*) FROM t").fetchall() == [(2,)]
    assert ids(db) == [2, 3]


def test_leaving_a_session_rolls_back_what_is_open(db):
    with db.session() as session:
        session.sql("BEGIN")
        session.insert("t", {"id": [1], "x": [1]})
    assert ids(db) == []
    with pytest.raises(atolldb.Closed):
        session.sql("SELECT 1")
    session.close()
    assert "closed" in repr(session)


def test_closing_a_database_closes_its_sessions_of_all_threads(runtime_dir):
    db = atolldb.create(memory_limit=64 << 20)
    db.publish("db", runtime_dir)
    db.sql("CREATE TABLE t (id bigint PRIMARY KEY)")
    session = db.session()
    session.sql("BEGIN")
    ready, closed = threading.Event(), threading.Event()

    def begin():
        db.sql("BEGIN")
        ready.set()
        closed.wait()
        with pytest.raises(atolldb.Closed):
            db.sql("COMMIT")
        return "refused"

    results = []
    thread = threading.Thread(target=lambda: results.append(begin()))
    thread.start()
    ready.wait()
    db.close()
    # Nothing of it is left, so its name is free at once.
    with atolldb.create(memory_limit=64 << 20) as other:
        other.publish("db", runtime_dir)
    with pytest.raises(atolldb.Closed):
        session.sql("COMMIT")
    closed.set()
    thread.join()
    assert results == ["refused"]


def test_threads_take_turns_in_a_session_that_they_share(db):
    with db.session() as session:
        session.sql("BEGIN")

        def run(first):
            for at in range(first, first + 50):
                session.sql(f"INSERT INTO t VALUES ({at}, 0)")

        threads = [threading.Thread(target=run, args=[at * 50]) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ids(db) == []
        session.sql("COMMIT")
    assert ids(db) == list(range(200))


def test_data_may_be_read_from_the_very_database_that_it_goes_into(db):
    db.insert("t", {"id": [1], "x": [1]})

    class Rows:
        """Arrow data that asks the same session when it is read."""

        def __arrow_c_stream__(self, requested_schema=None):
            return db.sql("SELECT id + 10 AS id, x FROM t").__arrow_c_stream__(requested_schema)

    assert db.insert("t", Rows()) == 1
    assert ids(db) == [1, 11]
