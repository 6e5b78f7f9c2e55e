"""Columns of varchar(n), char(n), timestamptz, time and uuid, through every interface."""

import datetime
import uuid
from zoneinfo import ZoneInfo

import pyarrow
import pyarrow.parquet
import pytest

import atolldb
from atolldb import dbapi

UTC = datetime.timezone.utc
KEY = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
AT = datetime.datetime(2024, 7, 1, 8, 0, 0, 500000, tzinfo=UTC)
CREATE = (
    "CREATE TABLE t (id integer PRIMARY KEY, v varchar(5), c char(4), at timestamptz, day time,"
    " u uuid)"
)
ROW = (1, "Grüße", "ab  ", AT, datetime.time(10, 30, 0, 250000), KEY)


@pytest.fixture
def database():
    with atolldb.create(memory_limit=128 << 20) as database:
        database.sql(CREATE)
        database.sql("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ROW)
        database.sql("INSERT INTO t (id) VALUES (2)")
        yield database


def test_values_come_back_as_objects_of_python_from_both_executors(database):
    empty = (2,) + (None,) * 5
    assert list(database.sql("SELECT * FROM t ORDER BY id")) == [ROW, empty]
    windows = "SELECT id, v, c, at, day, u FROM (SELECT *, count(*) OVER () FROM t) s ORDER BY id"
    assert list(database.sql(windows)) == [ROW, empty]
    (found,) = database.sql("SELECT id FROM t WHERE u = ? AND at = ? AND day = ?", (KEY, AT, ROW[4]))
    assert found == (1,)
    assert list(database.sql("SELECT time '24:00'")) == [("24:00:00",)]
    shown = str(database.sql("SELECT u, at, day FROM t WHERE id = 1"))
    assert str(KEY)[:20] in shown and "2024-07-01 08:00:00.5+00" in shown and "10:30:00.25" in shown


def test_a_datetime_of_any_zone_is_an_instant(database):
    for zone in (ZoneInfo("America/New_York"), datetime.timezone(datetime.timedelta(hours=5.5))):
        local = AT.astimezone(zone)
        assert list(database.sql("SELECT id FROM t WHERE at = ?", (local,))) == [(1,)]
    ((alone,),) = database.sql("SELECT ?", (AT,))
    assert alone == AT and alone.tzinfo is not None


def test_snapshots_have_the_types_of_data_frames(database):
    table = database.snapshot()["t"].to_arrow()
    types = {field.name: field.type for field in table.schema}
    assert types["v"] == types["c"] == pyarrow.string_view()
    assert types["at"] == pyarrow.timestamp("us", "UTC")
    assert types["day"] == pyarrow.time64("us")
    assert types["u"] in (pyarrow.binary(16), getattr(pyarrow, "uuid", lambda: None)())
    # Blanks at the end of a char(n) are not stored.
    assert table["c"].to_pylist() == ["ab", None]
    assert table["at"].to_pylist() == [AT, None]
    assert table["day"].to_pylist() == [ROW[4], None]
    assert table["u"][0].as_py() in (KEY, KEY.bytes)


def test_arrow_data_fits_or_is_refused(database):
    table = database.snapshot()["t"].to_arrow()
    with database.snapshot() as snapshot:
        again = snapshot["t"].to_arrow()
    database.sql("DELETE FROM t")
    assert database.insert("t", again) == 2
    assert list(database.sql("SELECT * FROM t WHERE id = 1")) == [ROW]
    long = pyarrow.table({"id": pyarrow.array([3], pyarrow.int32()), "v": ["abcdef"]})
    with pytest.raises(atolldb.Error, match="value too long for type character varying"):
        database.insert("t", long)
    blanks = pyarrow.table({"id": pyarrow.array([3], pyarrow.int32()), "c": ["x      "]})
    database.insert("t", blanks)
    assert list(database.sql("SELECT c, c::text FROM t WHERE id = 3")) == [("x   ", "x")]
    fine = pyarrow.array([1], pyarrow.time64("ns"))
    with pytest.raises(atolldb.Error, match="finer than a microsecond"):
        database.insert("t", {"id": pyarrow.array([4], pyarrow.int32()), "day": fine})
    del table


def test_a_table_of_arrow_data_has_these_types(database):
    data = pyarrow.table(
        {
            "id": pyarrow.array([1], pyarrow.int64()),
            "at": pyarrow.array([AT], pyarrow.timestamp("us", "Europe/Berlin")),
            "day": pyarrow.array([ROW[4]], pyarrow.time64("us")),
        }
    )
    database.create_table("made", data, primary_key="id")
    assert list(database.sql("SELECT at, day FROM made")) == [(AT, ROW[4])]


def test_the_time_zone_of_a_session(database):
    with database.session() as session:
        session.sql("SET TIME ZONE 'Europe/Berlin'")
        assert list(session.sql("SELECT at::text FROM t WHERE id = 1")) == [
            ("2024-07-01 10:00:00.5+02",)
        ]
        # The object is the same instant.
        assert list(session.sql("SELECT at FROM t WHERE id = 1")) == [(AT,)]
    assert list(database.sql("SELECT at::text FROM t WHERE id = 1")) == [
        ("2024-07-01 08:00:00.5+00",)
    ]


def test_files_are_loaded(database, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "id,v,c,at,day,u\n"
        "3,abc  ,d   ,2024-07-01 10:00:00.5+02,10:30:00.25,A0EEBC999C0B4EF8BB6D6BB9BD380A11\n"
    )
    database.sql(f"COPY t FROM '{path}' WITH (FORMAT csv, HEADER)")
    wanted = (3, "abc  ", "d   ") + ROW[3:]
    assert list(database.sql("SELECT * FROM t WHERE id = 3")) == [wanted]
    path.write_text("id,v\n4,abcdef\n")
    with pytest.raises(atolldb.SqlError, match="value too long") as refused:
        database.sql(f"COPY t FROM '{path}' WITH (FORMAT csv, HEADER)")
    assert refused.value.sqlstate in ("22001", "58030")
    with database.snapshot() as snapshot:
        stored = snapshot["t"].to_arrow(views=False)
    pyarrow.parquet.write_table(stored, tmp_path / "rows.parquet")
    database.sql(CREATE.replace("TABLE t", "TABLE loaded"))
    database.sql(f"COPY loaded FROM '{tmp_path / 'rows.parquet'}'")
    every = "SELECT * FROM {} ORDER BY id"
    assert list(database.sql(every.format("loaded"))) == list(database.sql(every.format("t")))


def test_a_folder_keeps_them(tmp_path):
    for wanted in (None, [ROW]):
        with atolldb.open(tmp_path / "folder") as database:
            if wanted is None:
                database.sql(CREATE)
                database.sql("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ROW)
            assert list(database.sql("SELECT * FROM t")) == [ROW]
            with pytest.raises(atolldb.SqlError, match="too long"):
                database.sql("UPDATE t SET c = 'abcde'")


def test_python_s_interface_for_databases():
    with dbapi.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE)
        cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ROW)
        cursor.execute("SELECT * FROM t")
        assert cursor.fetchall() == [ROW]
        with pytest.raises(dbapi.DataError, match="too long"):
            cursor.execute("UPDATE t SET v = ?", ("abcdef",))
        connection.rollback()
