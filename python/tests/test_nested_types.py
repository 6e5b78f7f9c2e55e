"""Columns of interval, json, jsonb and arrays, through every interface."""

import datetime
import decimal

import pyarrow
import pytest

import atolldb
from atolldb import dbapi

SPAN = datetime.timedelta(days=3, hours=4, microseconds=5)
DOC = {"b": [1, 2.5, None], "a": {"x": "ü"}}
CREATE = (
    "CREATE TABLE t (id integer PRIMARY KEY, v interval, j json, b jsonb, n integer[],"
    " d decimal(6,2)[], s text[])"
)
ROW = (1, SPAN, DOC, DOC, [1, None, 3], [decimal.Decimal("1.50")], ["a", "b c", None])


@pytest.fixture
def database():
    with atolldb.create(memory_limit=128 << 20) as database:
        database.sql(CREATE)
        database.sql("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", ROW)
        database.sql("INSERT INTO t (id) VALUES (2)")
        yield database


def test_values_come_back_as_objects_of_python_from_both_executors(database):
    empty = (2,) + (None,) * 6
    assert list(database.sql("SELECT * FROM t ORDER BY id")) == [ROW, empty]
    windows = (
        "SELECT id, v, j, b, n, d, s FROM (SELECT *, count(*) OVER () FROM t) s ORDER BY id"
    )
    assert list(database.sql(windows)) == [ROW, empty]
    found = database.sql("SELECT id FROM t WHERE v = ? AND b = ? AND n = ?", (SPAN, DOC, ROW[4]))
    assert list(found) == [(1,)]
    assert list(database.sql("SELECT b->>'a' FROM t WHERE b ? 'b'")) == [('{"x": "ü"}',)]
    assert list(database.sql("SELECT id FROM t WHERE b ? ?", ("b",))) == [(1,)]


def test_months_are_days_in_python(database):
    ((year, far),) = database.sql(
        "SELECT interval '1 year 1 mon 1 day', interval '200000000 mons'"
    )
    assert year == datetime.timedelta(days=365 + 30 + 1)
    assert far == "16666666 years 8 mons"


def test_snapshots_have_the_types_of_data_frames(database):
    table = database.snapshot()["t"].to_arrow()
    types = {field.name: field.type for field in table.schema}
    assert types["v"] == pyarrow.month_day_nano_interval()
    assert types["n"] == pyarrow.list_(pyarrow.int32())
    assert types["d"] == pyarrow.list_(pyarrow.decimal128(6, 2))
    assert table["n"].to_pylist() == [[1, None, 3], None]
    assert table["s"].to_pylist() == [["a", "b c", None], None]
    months, days, nanos = table["v"][0].as_py()
    assert (months, days, nanos) == (0, 3, (4 * 3600 * 10**6 + 5) * 1000)


def test_arrow_data_is_checked(database):
    with atolldb.create(memory_limit=128 << 20) as other:
        other.sql(CREATE)
        rows = database.sql("SELECT * FROM t ORDER BY id").to_arrow()
        other.insert("t", rows)
        assert list(other.sql("SELECT * FROM t WHERE id = 1")) == [ROW]


def test_a_list_is_an_array_for_the_database_api(database):
    connection = dbapi.connect(database=database)
    cursor = connection.cursor()
    cursor.execute("UPDATE t SET n = ?, s = ? WHERE id = 2", ([7, 8], ["x"]))
    cursor.execute("SELECT n, s, n[1] FROM t WHERE id = 2")
    assert cursor.fetchall() == [([7, 8], ["x"], 7)]
