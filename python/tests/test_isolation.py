"""Snapshots of a database that others change, that end, or that are built on each other."""

import gc
import os
import signal
import threading

import numpy
import pyarrow
import pytest

import atolldb
from conftest import POINTS, ROWS, eventually


def test_a_snapshot_never_changes(board, connection):
    snapshot = connection.snapshot()
    points = snapshot["points"]
    array, arrow = points["x"].to_numpy(), pyarrow.table(points)
    untouched = pyarrow.table(points).combine_chunks()
    total = snapshot.sql("SELECT sum(x) FROM points").fetchall()
    for round in range(5):
        left = f"[at for at in range({ROWS}) if at % 5 >= {round}]"
        board.run(f"change('UPDATE points SET x = {round}.5, note = NULL', {left})")
        board.run(f"change('DELETE FROM points', range({round}, {ROWS}, 5))")
        board.run(f"db.sql(\"INSERT INTO points VALUES ({ROWS + round}, 1.0, 'new')\")")
    assert numpy.array_equal(array, numpy.arange(ROWS) / 2)
    assert arrow.combine_chunks().equals(untouched)
    assert pyarrow.table(points).combine_chunks().equals(untouched)
    assert snapshot.sql("SELECT sum(x) FROM points").fetchall() == total
    later = connection.snapshot()
    assert later.epoch > snapshot.epoch
    # Every row of before was deleted in one of the rounds.
    assert later["points"].num_rows < 10


def test_an_open_transaction_is_not_seen(board, connection):
    board.run("db.sql('BEGIN')")
    board.run("for at in range(10): db.sql(f'UPDATE points SET x = -1.0 WHERE id = {at}')")
    board.run("db.sql(\"INSERT INTO points VALUES (-5, 0.0, 'open')\")")
    snapshot = connection.snapshot()
    points = snapshot["points"]
    assert points.num_rows == ROWS
    assert numpy.array_equal(points["x"].to_numpy(), numpy.arange(ROWS) / 2)
    assert snapshot.bytes_patched > 0
    board.run("db.sql('COMMIT')")
    assert points["x"].to_numpy()[0] == 0
    assert connection.snapshot()["points"].num_rows == ROWS + 1


def test_snapshots_of_several_owners_at_once(new_owner, runtime_dir):
    for name, value in [("left", 1), ("right", 2)]:
        owner = new_owner()
        owner.run("db = atolldb.create(memory_limit=64 << 20)")
        owner.run(f"db.create_table('t', {{'id': [1], '{name}': [{value}]}}, primary_key='id')")
        owner.run(f"db.publish('{name}', runtime_dir)")
    left = atolldb.attach("left", runtime_dir).snapshot()
    right = atolldb.attach("right", runtime_dir).snapshot()
    assert left["t"]["left"].to_numpy(copy=True).tolist() == [1]
    assert right["t"]["right"].to_numpy(copy=True).tolist() == [2]
    with atolldb.derive([left, right], memory_limit=64 << 20) as both:
        # Where two have a table of the same name, it is the earlier one's.
        assert both.sql("SELECT * FROM t").column_names == ["id", "left"]
        assert len(both.bases) == 2 and both.tables == ["t"]


DERIVE = """
base = atolldb.attach({of!r}, runtime_dir).snapshot()
derived = base.derive(memory_limit=64 << 20)
columns = {{"id": [0, 1, 2], "v": ["a", "b", {table!r}]}}
derived.create_table({table!r}, columns, primary_key="id")
derived.publish({name!r}, runtime_dir)
"""


def test_a_chain_outlives_its_owners(board, new_owner, runtime_dir):
    middle = new_owner()
    middle.run(DERIVE.format(of="board", table="second", name="middle"))
    snapshot = atolldb.attach("middle", runtime_dir).snapshot()
    assert sorted(snapshot.tables) == ["points", "second"]
    total = sum(i / 2 for i in range(ROWS))

    def check():
        assert snapshot.sql("SELECT sum(x) FROM points").fetchall() == [(total,)]
        assert snapshot["points"]["x"].to_numpy()[-1] == (ROWS - 1) / 2
        joined = "SELECT v FROM second JOIN points USING (id) ORDER BY id"
        assert snapshot.sql(joined).fetchall() == [("a",), ("b",), ("second",)]

    check()
    board.run(f"change('UPDATE points SET x = 0.0', range({ROWS}))")
    middle.kill()
    check()
    board.kill()
    check()
    # It can be built upon still.
    with snapshot.derive(memory_limit=64 << 20) as last:
        last.create_table("third", snapshot.sql("SELECT * FROM second"), primary_key="id")
        last.publish("last", runtime_dir)
        end = atolldb.attach("last", runtime_dir).snapshot()
        assert sorted(end.tables) == ["points", "second", "third"]
        assert end["points"]["x"].to_numpy()[3] == 1.5
        assert end["third"]["v"].to_arrow().to_pylist() == ["a", "b", "second"]


def test_the_end_of_the_owner_is_told_clearly(board, connection):
    held = connection.snapshot()
    board.kill()
    with pytest.raises(atolldb.OwnerGone, match="board"):
        connection.snapshot()
    assert held["points"]["x"].to_numpy()[4] == 2.0
    with pytest.raises(atolldb.Error, match="board"):
        atolldb.attach("board", board.runtime_dir)


def test_a_closed_database_has_no_name(board, runtime_dir):
    board.run("db.close()")
    with pytest.raises(atolldb.UnknownName):
        atolldb.attach("board", runtime_dir)


def expired(snapshot):
    """Waits until the snapshot has expired."""

    def is_expired():
        try:
            snapshot.check()
        except atolldb.SnapshotExpired:
            return True
        return False

    eventually(is_expired)


@pytest.fixture
def short_lived(new_owner):
    """An owner whose snapshots live for 0.2 seconds."""
    owner = new_owner()
    owner.run(POINTS.replace("256 << 20", "256 << 20, snapshot_age_max=0.2"))
    return owner


def test_an_expired_snapshot_says_so(short_lived, runtime_dir):
    snapshot = atolldb.attach("board", runtime_dir).snapshot()
    points = snapshot["points"]
    held = points["x"].to_numpy()
    expired(snapshot)
    with pytest.raises(atolldb.SnapshotExpired, match="take a new one"):
        snapshot["points"]
    with pytest.raises(atolldb.SnapshotExpired):
        snapshot.sql("SELECT 1 FROM points")
    with pytest.raises(atolldb.SnapshotExpired):
        points["x"].to_numpy()
    with pytest.raises(atolldb.SnapshotExpired):
        pyarrow.table(points)
    # Memory that somebody reads is given to no one else.
    short_lived.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    assert numpy.array_equal(held, numpy.arange(ROWS) / 2)


def test_nothing_is_built_on_an_expired_snapshot(short_lived, runtime_dir):
    snapshot = atolldb.attach("board", runtime_dir).snapshot()
    derived = snapshot.derive(memory_limit=64 << 20)
    expired(snapshot)
    with pytest.raises(atolldb.SnapshotExpired):
        derived.publish("late", runtime_dir)
    with pytest.raises(atolldb.SnapshotExpired):
        derived.snapshot()
    with pytest.raises(atolldb.SnapshotExpired):
        snapshot.derive()


def test_snapshots_that_keep_too_much_expire(new_owner, runtime_dir):
    owner = new_owner()
    owner.run(POINTS.replace("256 << 20", "256 << 20, snapshot_bytes_max=1"))
    snapshot = atolldb.attach("board", runtime_dir).snapshot()
    owner.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    expired(snapshot)


def test_a_stopped_owner_can_be_interrupted(board, connection):
    # Waiting for an owner holds no lock of Python's: other threads go on.
    os.kill(board.process.pid, signal.SIGSTOP)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(attempt(connection)))
    thread.start()
    counted = sum(1 for _ in range(100_000))
    os.kill(board.process.pid, signal.SIGCONT)
    thread.join()
    assert counted == 100_000 and len(ended) == 1


def attempt(connection):
    try:
        return connection.snapshot()
    except atolldb.OwnerGone as error:
        return error


def count_above(snapshot, x):
    return snapshot.sql("SELECT count(*) FROM points WHERE x > ?", (x,)).fetchall()[0][0]


def test_a_refreshed_snapshot_shows_the_newest_state_and_what_was_read_stays(board, runtime_dir):
    # The connection is gone at once.
    snapshot = atolldb.attach("board", runtime_dir).snapshot()
    gc.collect()
    first, told = snapshot.epoch, (snapshot.database, snapshot.take_ns)
    table, x = snapshot["points"], snapshot["points"]["x"].to_numpy()
    result = snapshot.sql("SELECT x FROM points WHERE id = 4")
    derived = snapshot.derive(memory_limit=64 << 20)
    board.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    assert count_above(snapshot, -1) == ROWS
    assert snapshot.refresh() is None
    assert snapshot.epoch > first and snapshot.database == told[0] == "board"
    assert snapshot.take_ns > 0 and snapshot.attach_ns > snapshot.take_ns
    assert count_above(snapshot, -1) == 0 and snapshot["points"]["x"].to_numpy()[4] == -1.0
    # What came from the one before.
    assert numpy.array_equal(x, numpy.arange(ROWS) / 2)
    assert table["x"].to_numpy()[4] == 2.0
    assert result.fetchall() == [(2.0,)]
    assert derived.sql("SELECT max(x) FROM points").fetchall() == [((ROWS - 1) / 2,)]
    derived.close()


def test_the_lease_of_the_old_snapshot_ends_with_the_last_that_uses_it(board, connection):
    snapshot = connection.snapshot()
    first = snapshot.epoch
    x = snapshot["points"]["x"].to_numpy()
    snapshot.refresh()
    snapshot.refresh()
    held = [first, snapshot.epoch]
    # That between them is held by nothing.
    eventually(lambda: sorted(info["epoch"] for info in connection.snapshots()) == held)
    assert x[4] == 2.0
    del x
    gc.collect()
    eventually(lambda: [info["epoch"] for info in connection.snapshots()] == held[1:])
    snapshot.release()
    eventually(lambda: connection.snapshots() == [])


def test_a_snapshot_of_an_own_database_is_refreshed():
    db = atolldb.create(memory_limit=64 << 20)
    db.sql("CREATE TABLE t (id int PRIMARY KEY)")
    with db.snapshot() as snapshot:
        db.sql("INSERT INTO t VALUES (1)")
        assert len(snapshot["t"]) == 0
        snapshot.refresh()
        assert len(snapshot["t"]) == 1
        with db.transaction() as tx:
            tx.sql("INSERT INTO t VALUES (2)")
            snapshot.refresh()
            assert len(snapshot["t"]) == 1, "what has not committed is not shown"
        snapshot.refresh()
        assert len(snapshot["t"]) == 2 and len(db.snapshots()) == 1
        # The snapshot does not keep the database open.
        db.close()
        with pytest.raises(atolldb.Closed, match="database is closed"):
            snapshot.refresh()
        assert len(snapshot["t"]) == 2
    left = atolldb.create(memory_limit=64 << 20).snapshot()
    gc.collect()
    with pytest.raises(atolldb.Closed, match="database is closed"):
        left.refresh()


def test_a_refresh_that_fails_leaves_the_snapshot(board, runtime_dir):
    connection = atolldb.attach("board", runtime_dir)
    snapshot, other = connection.snapshot(), atolldb.attach("board", runtime_dir).snapshot()
    connection.close()
    with pytest.raises(atolldb.Closed, match="connection is closed"):
        snapshot.refresh()
    board.kill()
    epoch = other.epoch
    with pytest.raises(atolldb.OwnerGone, match="board"):
        other.refresh()
    assert other.epoch == epoch
    assert count_above(snapshot, -1) == count_above(other, -1) == ROWS
    assert other["points"]["x"].to_numpy()[4] == 2.0


def test_a_refresh_of_what_has_no_newer_state_is_refused(connection):
    snapshot = connection.snapshot()
    with snapshot.derive(memory_limit=64 << 20) as derived:
        [base] = derived.bases
        with pytest.raises(atolldb.InvalidValue, match="snapshot of the database itself"):
            base.refresh()
        assert base.epoch == snapshot.epoch and count_above(base, -1) == ROWS
    snapshot.release()
    with pytest.raises(atolldb.Closed, match="take a new one"):
        snapshot.refresh()
    assert "released" in repr(snapshot)


def test_an_expired_snapshot_is_refreshed(short_lived, runtime_dir):
    snapshot = atolldb.attach("board", runtime_dir).snapshot()
    expired(snapshot)
    snapshot.refresh()
    snapshot.check()


def test_threads_refresh_one_snapshot_and_it_never_goes_back(board, connection):
    snapshot = connection.snapshot()
    faults = []

    def work():
        try:
            last = 0
            for _ in range(50):
                snapshot.refresh()
                epoch = snapshot.epoch
                assert epoch >= last
                last = epoch
                assert snapshot["points"]["x"].to_numpy()[4] == 2.0
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    gc.collect()
    eventually(lambda: [info["epoch"] for info in connection.snapshots()] == [snapshot.epoch])


def test_threads_query_one_snapshot_at_once(snapshot):
    results, faults = [], []

    def work(number):
        try:
            for _ in range(10):
                rows = snapshot.sql(f"SELECT count(*) FROM points WHERE id % 4 = {number}")
                results.append((number, rows.fetchall()[0][0]))
                assert snapshot["points"]["x"].to_numpy()[number] == number / 2
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sorted(results) == sorted([(n, ROWS // 4) for n in range(4)] * 10)


def test_the_owner_sees_who_holds_snapshots(board, connection):
    snapshot = connection.snapshot()
    [info] = connection.snapshots()
    assert info["pid"] == os.getpid() and info["epoch"] == snapshot.epoch
    assert info["state"] == "live"
    assert board.run("answer = len(db.snapshots())") == 1
    snapshot.release()
    eventually(lambda: connection.snapshots() == [])
