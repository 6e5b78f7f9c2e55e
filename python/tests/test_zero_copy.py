"""Arrays and Arrow data lie in the owner's memory, and keep it."""

import gc
import os
import threading
import warnings

import numpy
import pyarrow
import pytest

import atolldb
from conftest import ROWS, eventually


def store_ranges():
    """Address ranges of this process that are mappings of a store."""
    ranges = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "memfd:atoll" in line:
                start, end = line.split()[0].split("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges


def in_store(address, length=1):
    """Whether bytes lie in mappings of a store, which may be several side by side."""
    at = address
    ranges = sorted(store_ranges())
    for start, end in ranges:
        if start <= at < end:
            at = end
    return at >= address + length


def address_of(array):
    return array.__array_interface__["data"][0]


def test_a_numpy_array_lies_in_the_memory_of_the_owner(snapshot):
    x = snapshot["points"]["x"].to_numpy()
    assert x.dtype == numpy.float64 and len(x) == ROWS
    assert not x.flags.owndata and not x.flags.writeable
    assert in_store(address_of(x), x.nbytes)
    assert numpy.array_equal(x, numpy.arange(ROWS) / 2)


def test_a_copy_lies_elsewhere_and_can_be_written(snapshot):
    x = snapshot["points"]["x"].to_numpy(copy=True)
    assert not in_store(address_of(x)) and x.flags.writeable
    x[0] = 7
    assert snapshot["points"]["x"].to_numpy()[0] == 0


def test_asarray_shares_memory_where_it_can(snapshot):
    x = numpy.asarray(snapshot["points"]["x"])
    assert in_store(address_of(x))
    single = numpy.asarray(snapshot["points"]["x"], dtype=numpy.float32)
    assert single.dtype == numpy.float32 and not in_store(address_of(single))
    notes = numpy.asarray(snapshot["points"]["note"])
    assert notes[0] is None and notes[1] == "note number 1"


def test_an_array_cannot_be_made_writable(snapshot):
    x = snapshot["points"]["x"].to_numpy()
    with pytest.raises(ValueError):
        x.flags.writeable = True
    with pytest.raises(ValueError):
        x[0] = 1.0


def test_arrow_buffers_lie_in_the_memory_of_the_owner(snapshot):
    table = pyarrow.table(snapshot["points"])
    assert table.num_rows == ROWS
    assert [len(chunk) for chunk in table["x"].chunks] == [8192, 8192, ROWS - 2 * 8192]
    for chunk in table["id"].chunks + table["x"].chunks:
        assert in_store(chunk.buffers()[1].address, len(chunk) * 8)
    for chunk in table["note"].chunks:
        views = chunk.buffers()[1]
        assert in_store(views.address, len(chunk) * 16)
        blocks = chunk.buffers()[2:]
        assert blocks and all(in_store(block.address, block.size) for block in blocks)


def test_a_column_alone_lies_there_too(snapshot):
    chunks = pyarrow.chunked_array(snapshot["points"]["x"]).chunks
    assert all(in_store(chunk.buffers()[1].address) for chunk in chunks)


def test_an_array_keeps_the_snapshot_that_it_came_from(board, connection):
    snapshot = connection.snapshot()
    x = snapshot["points"]["x"].to_numpy()
    del snapshot
    gc.collect()
    assert len(connection.snapshots()) == 1
    board.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    board.run(f"change('UPDATE points SET x = -2.0', range({ROWS}))")
    assert numpy.array_equal(x, numpy.arange(ROWS) / 2)
    del x
    gc.collect()
    eventually(lambda: connection.snapshots() == [])


def test_views_of_an_array_keep_the_snapshot_too(board, connection):
    part = connection.snapshot()["points"]["x"].to_numpy()[8000:9000:2]
    gc.collect()
    board.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    assert numpy.array_equal(part, numpy.arange(8000, 9000, 2) / 2)


def test_a_released_snapshot_stays_under_its_arrays(board, connection):
    snapshot = connection.snapshot()
    x = snapshot["points"]["x"].to_numpy()
    snapshot.release()
    with pytest.raises(atolldb.Closed):
        snapshot.tables
    board.run(f"change('UPDATE points SET x = -1.0', range({ROWS}))")
    assert x[2] == 1.0


def test_a_snapshot_copies_nothing(snapshot):
    assert snapshot.bytes_copied_attach == 0
    assert snapshot.bytes_patched == 0
    assert 0 < snapshot.take_ns < snapshot.attach_ns


def test_deleted_rows_are_gaps_that_arrow_leaves_out(board, connection):
    board.run("change('DELETE FROM points', [100, 9000])")
    column = connection.snapshot()["points"]["id"]
    expected = [i for i in range(ROWS) if i not in (100, 9000)]
    assert pyarrow.chunked_array(column).to_pylist() == expected
    chunks = pyarrow.chunked_array(column).chunks
    assert len(chunks) == 5 and all(in_store(chunk.buffers()[1].address) for chunk in chunks)
    with pytest.raises(atolldb.NotContiguous, match="rows between others were deleted"):
        column.to_numpy(copy=False)
    with pytest.warns(atolldb.CopyWarning, match='"id" was copied: rows between others were del'):
        assert column.to_numpy().tolist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column.to_numpy(copy=True).tolist() == expected
    assert numpy.asarray(column).tolist() == expected


def filled_by_two(database, name, rows):
    """A column of a table that two threads have filled at the same time."""
    begun = threading.Barrier(2, timeout=60)
    database.create_table(name, {"id": [-1]}, primary_key="id")

    def insert(begin):
        with database.session() as session:
            session.sql("BEGIN")
            begun.wait()
            session.insert(name, {"id": list(range(begin, begin + rows))})
            session.sql("COMMIT")

    threads = [threading.Thread(target=insert, args=(at,)) for at in (0, rows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return database[name]["id"]


def test_blocks_that_are_not_full_are_told_as_what_they_are():
    rows = 9_000
    with atolldb.create(memory_limit=256 << 20) as database:
        for attempt in range(100):
            column = filled_by_two(database, f"t{attempt}", rows)
            try:
                column.to_numpy(copy=False)
            except atolldb.NotContiguous as error:
                # Both threads had a processor at once, so each has filled blocks of its own.
                assert "are not all full" in str(error)
                break
        with pytest.warns(atolldb.CopyWarning, match="are not all full, as after inserts by sev"):
            assert sorted(column.to_numpy()) == list(range(-1, 2 * rows))


def test_many_deleted_rows_are_left_out_too(board, connection):
    board.run(f"change('DELETE FROM points', range(0, {ROWS}, 3))")
    table = pyarrow.table(connection.snapshot()["points"])
    expected = [i for i in range(ROWS) if i % 3]
    assert table["id"].to_pylist() == expected
    assert table["x"].to_pylist() == [i / 2 for i in expected]
    assert table["note"].to_pylist() == [
        None if i % 7 == 0 else f"note number {i}" for i in expected
    ]
    assert len(table["id"].chunks) == 3


def test_an_emptied_table_has_no_rows_in_any_form(board, connection):
    board.run(f"change('DELETE FROM points', range({ROWS}))")
    table = connection.snapshot()["points"]
    assert table.num_rows == 0 == len(table)
    assert pyarrow.table(table).num_rows == 0
    assert len(table["x"].to_numpy()) == 0
    assert len(table["x"].to_numpy(copy=True)) == 0


def test_snapshots_leave_no_descriptors_behind(connection):
    def held():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    connection.snapshot()["points"]["x"].to_numpy()
    before = held()
    for round in range(100):
        snapshot = connection.snapshot()
        table = snapshot["points"]
        x = table["x"].to_numpy()
        assert x[-1] == (ROWS - 1) / 2 and table.num_rows == ROWS
        if round % 2:
            snapshot.release()
        del snapshot, table, x
    assert held() == before
    eventually(lambda: connection.snapshots() == [])


def test_two_reads_are_identical(snapshot):
    first = pyarrow.table(snapshot["points"])
    second = pyarrow.table(snapshot["points"])
    assert first.equals(second)
    for one, other in zip(first["x"].chunks, second["x"].chunks, strict=True):
        assert one.buffers()[1].address == other.buffers()[1].address
