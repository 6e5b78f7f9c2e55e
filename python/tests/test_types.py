"""Values of every type go in and come out the same, through every library."""

import datetime
from decimal import Decimal

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest

import atolldb

TABLE = pyarrow.table(
    {
        "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
        "small": pyarrow.array([-32768, None, 32767], pyarrow.int16()),
        "whole": pyarrow.array([1, 2, 3], pyarrow.int32()),
        "single": pyarrow.array([0.5, None, -1.25], pyarrow.float32()),
        "double": pyarrow.array([0.1, 1e300, None], pyarrow.float64()),
        "yes": pyarrow.array([True, None, False]),
        "day": pyarrow.array([datetime.date(2013, 1, 1), None, datetime.date(1960, 5, 6)]),
        "moment": pyarrow.array(
            [datetime.datetime(2013, 1, 1, 5, 17, 0, 123456), None, datetime.datetime(1969, 1, 1)],
            pyarrow.timestamp("us"),
        ),
        "price": pyarrow.array(
            [Decimal("12.34"), None, Decimal("-0.05")], pyarrow.decimal128(12, 2)
        ),
        "name": pyarrow.array(["Zürich", None, "a text longer than twelve bytes"]),
        "raw": pyarrow.array([b"\x00\xff", b"", None], pyarrow.binary()),
        "key16": pyarrow.array([bytes(16), None, bytes(range(16))], pyarrow.binary(16)),
    }
)
ROWS = [tuple(row.values()) for row in TABLE.to_pylist()]


@pytest.fixture(scope="module")
def database():
    with atolldb.create(memory_limit=128 << 20) as database:
        assert database.create_table("t", TABLE, primary_key="id") == 3
        yield database


def stored(table):
    """The same values in the types that the database stores them in."""
    types = {"name": pyarrow.string_view(), "raw": pyarrow.binary_view()}
    fields = [
        pyarrow.field(field.name, types.get(field.name, field.type), field.name != "id")
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))


def test_pyarrow_gets_back_what_it_gave(database):
    table = pyarrow.table(database["t"])
    assert table.schema.equals(stored(TABLE).schema)
    assert table.to_pylist() == TABLE.to_pylist()
    assert database["t"].to_arrow().equals(table)
    assert database["t"].schema.to_arrow().equals(table.schema)


def test_a_requested_schema_is_honoured(database):
    wanted = pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.large_string())])
    table = pyarrow.table(database["t"].select(["id", "name"]), schema=wanted)
    assert table.schema.types == wanted.types
    assert table["name"].to_pylist() == TABLE["name"].to_pylist()


def test_texts_can_be_had_in_the_types_that_all_of_pyarrow_knows(database):
    table = database["t"].to_arrow(views=False)
    assert table.schema.field("name").type == pyarrow.large_string()
    assert table.schema.field("raw").type == pyarrow.large_binary()
    assert table.to_pylist() == TABLE.to_pylist()
    assert table.sort_by("name")["id"].to_pylist() == [1, 3, 2]
    result = database.sql("SELECT name FROM t").to_arrow(views=False)
    assert result.schema.field("name").type == pyarrow.large_string()


def test_polars_duckdb_and_pandas_read_the_same(database):
    table = database["t"]
    assert table.to_polars().rows() == ROWS
    assert polars.DataFrame(table["name"].to_polars()).rows() == [(row[9],) for row in ROWS]
    t, direct = pyarrow.table(table), table
    assert duckdb.sql("SELECT * FROM t ORDER BY id").fetchall() == ROWS
    assert duckdb.sql("SELECT * FROM direct ORDER BY id").fetchall() == ROWS
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["name"].tolist()[::2] == [ROWS[0][9], ROWS[2][9]] and frame["name"].isna()[1]
    assert frame["id"].tolist() == [1, 2, 3] and frame["double"].tolist()[:2] == [0.1, 1e300]
    assert t.num_rows == direct.num_rows == 3


def test_rows_come_out_as_python_objects(database):
    result = database.sql("SELECT * FROM t ORDER BY id")
    assert result.fetchall() == ROWS
    assert result.column_names == TABLE.column_names
    assert result.num_rows == len(result) == 3 and result.tag == "SELECT 3"
    assert result.to_arrow().num_rows == 3
    assert result.to_polars()["small"].to_list() == [-32768, None, 32767]
    assert result.to_pandas()["whole"].tolist() == [1, 2, 3]
    assert duckdb.sql("SELECT max(id) FROM result").fetchall() == [(3,)]


def test_numpy_types(database):
    table = database["t"]
    types = {
        "id": "int64",
        "small": "int16",
        "whole": "int32",
        "single": "float32",
        "double": "float64",
        "moment": "datetime64[us]",
        "key16": "V16",
    }
    for name, dtype in types.items():
        array = table[name].to_numpy(masked=True)
        assert array.dtype == numpy.dtype(dtype), name
        assert array.tolist() == [
            value if not isinstance(value, float) else pytest.approx(value)
            for value in TABLE[name].to_pylist()
        ] or name == "key16"


def test_null_in_numpy(database):
    table = database["t"]
    single = table["single"].to_numpy()
    assert single[0] == 0.5 and numpy.isnan(single[1]) and not single.flags.writeable
    assert numpy.isnan(table["double"].to_numpy(copy=True)[2])
    for name in ["small", "moment", "key16"]:
        with pytest.raises(ValueError, match="masked=True"):
            table[name].to_numpy()
    for name in ["small", "yes", "key16"]:
        with pytest.raises(ValueError, match="masked=True"):
            table[name].to_numpy(copy=True)
    masked = table["small"].to_numpy(masked=True)
    assert isinstance(masked, numpy.ma.MaskedArray)
    assert masked.mask.tolist() == [False, True, False] and masked.sum() == -1
    assert not masked.data.flags.owndata
    whole = table["whole"].to_numpy(masked=True)
    assert isinstance(whole, numpy.ma.MaskedArray) and whole.sum() == 6
    moments = table["moment"].to_numpy(copy=True)
    assert numpy.isnat(moments[1]) and moments[0] == numpy.datetime64("2013-01-01T05:17:00.123456")


def test_dates_are_widened(database):
    days = database["t"]["day"].to_numpy()
    assert days.dtype == numpy.dtype("datetime64[D]")
    assert days[0] == numpy.datetime64("2013-01-01") and numpy.isnat(days[1])
    with pytest.raises(ValueError):
        numpy.asarray(database["t"]["day"], copy=False)


def test_what_numpy_lays_out_otherwise_is_copied_only_when_asked(database):
    table = database["t"]
    for name in ["yes", "price", "name", "raw"]:
        with pytest.raises(atolldb.NotContiguous, match="copy=True"):
            table[name].to_numpy()
    for name in ["price", "name", "raw"]:
        assert table[name].to_numpy(copy=True).tolist() == TABLE[name].to_pylist()
    assert table["yes"].to_numpy(copy=True, masked=True).tolist() == [True, None, False]
    assert numpy.asarray(table["price"])[2] == Decimal("-0.05")


def load(data, **options):
    """The rows of a table that was made from this data."""
    with atolldb.create(memory_limit=64 << 20) as database:
        database.create_table("t", data, primary_key=options.pop("key", "id"))
        return database.sql("SELECT * FROM t ORDER BY 1").to_arrow()


def test_data_comes_from_every_library():
    columns = {"id": [1, 2], "v": ["a", None]}
    expected = [{"id": 1, "v": "a"}, {"id": 2, "v": None}]
    given = pyarrow.table(columns)
    assert load(columns).to_pylist() == expected
    assert load(given.to_batches()[0]).to_pylist() == expected
    assert load(polars.DataFrame(columns)).to_pylist() == expected
    assert load(pandas.DataFrame(columns)).to_pylist() == expected
    assert load(duckdb.sql("SELECT * FROM given")).to_pylist() == expected
    arrays = {"id": numpy.arange(2), "v": numpy.array([1.5, 2.5])}
    assert load(arrays).to_pylist() == [{"id": 0, "v": 1.5}, {"id": 1, "v": 2.5}]


def test_narrow_and_encoded_values_are_widened():
    table = pyarrow.table(
        {
            "id": pyarrow.array([1, 2], pyarrow.uint8()),
            "big": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
            "word": pyarrow.array(["x", "y"]).dictionary_encode(),
            "moment": pyarrow.array([1_000, None], pyarrow.timestamp("ns")),
            "zoned": pyarrow.array([0, None], pyarrow.timestamp("s", "Europe/Berlin")),
        }
    )
    loaded = load(table)
    assert loaded.schema.field("id").type == pyarrow.int16()
    assert loaded["big"].to_pylist() == [Decimal(2**64 - 1), None]
    assert loaded["word"].to_pylist() == ["x", "y"]
    assert loaded["moment"].to_pylist()[0] == datetime.datetime(1970, 1, 1, 0, 0, 0, 1)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert loaded["zoned"].to_pylist()[0] == epoch


def test_a_value_goes_in_exactly_or_not_at_all():
    with pytest.raises(ValueError, match="finer than a microsecond"):
        load({"id": pyarrow.array([1001], pyarrow.timestamp("ns"))})
    with pytest.raises(ValueError, match="which no table has"):
        load({"id": [1], "v": [[[1, 2]]]})
    with pytest.raises(ValueError, match="NULL"):
        load({"id": [1, None]})
    with atolldb.create(memory_limit=64 << 20) as database:
        database.sql("CREATE TABLE t (id smallint PRIMARY KEY, v text)")
        assert database.insert("t", {"id": [7]}) == 1
        for bad in [{"id": [40_000]}, {"id": ["x"]}, {"v": ["x"]}, {"id": [1], "w": [1]}]:
            with pytest.raises(ValueError):
                database.insert("t", bad)
        assert database.sql("SELECT id, v FROM t").fetchall() == [(7, None)]


def test_null_of_no_type_is_none(database):
    assert database.sql("SELECT NULL, 1").fetchall() == [(None, 1)]
    assert database.sql("SELECT NULL AS a").to_polars()["a"].to_list() == [None]


def test_integers_go_into_floating_columns_exactly():
    with atolldb.create(memory_limit=64 << 20) as database:
        database.sql("CREATE TABLE t (id int PRIMARY KEY, d double precision, r real)")
        wide = 2**53
        assert database.insert("t", {"id": [1, 2], "d": [wide, None], "r": [3, -4]}) == 2
        arrays = {"id": numpy.array([3]), "d": numpy.array([5], "u8"), "r": numpy.array([6], "i1")}
        assert database.insert("t", arrays) == 1
        database.sql("INSERT INTO t VALUES (4, 7, 8)")
        database.sql("INSERT INTO t SELECT id + 10, id AS d, id AS r FROM t WHERE id = 4")
        rows = database.sql("SELECT * FROM t ORDER BY id").fetchall()
        assert rows == [
            (1, float(wide), 3.0), (2, None, -4.0), (3, 5.0, 6.0), (4, 7.0, 8.0), (14, 4.0, 4.0)
        ]  # fmt: skip
        for bad in [{"d": [wide + 1]}, {"d": [2**63 - 1]}, {"r": [2**24 + 1]}]:
            with pytest.raises(ValueError, match="exactly as"):
                database.insert("t", {"id": [9], **bad})


def test_midnights_go_into_dates():
    day = datetime.date(2024, 2, 29)
    midnight = datetime.datetime(2024, 2, 29)
    early = datetime.datetime(1969, 12, 31)
    with atolldb.create(memory_limit=64 << 20) as database:
        database.sql("CREATE TABLE t (id int PRIMARY KEY, day date)")
        assert database.insert("t", {"id": [1, 2, 3], "day": [midnight, None, early]}) == 3
        moments = numpy.array(["2024-02-29"], "M8[ns]")
        assert database.insert("t", {"id": [4], "day": moments}) == 1
        frame = pandas.DataFrame({"id": [5], "day": pandas.to_datetime(["2024-02-29"])})
        assert database.insert("t", frame) == 1
        assert database.insert("t", {"id": [6], "day": pyarrow.array([midnight], "date64")}) == 1
        database.sql("INSERT INTO t VALUES (7, timestamp '2024-02-29 00:00:00')")
        database.sql("INSERT INTO t SELECT 8, timestamp '2024-02-29 00:00:00'")
        rows = dict(database.sql("SELECT id, day FROM t").fetchall())
        assert rows == {1: day, 2: None, 3: early.date(), 4: day, 5: day, 6: day, 7: day, 8: day}
        noon = datetime.datetime(2024, 2, 29, 12)
        with pytest.raises(ValueError, match="2024-02-29 12:00:00 is not at midnight"):
            database.insert("t", {"id": [9], "day": [noon]})
        zoned = pyarrow.array([midnight], pyarrow.timestamp("s", "Europe/Berlin"))
        with pytest.raises(ValueError):
            database.insert("t", {"id": [9], "day": zoned})


def test_a_column_of_null_alone_is_text_and_told():
    for data in [
        {"id": [1, 2], "v": [None, None]},
        polars.DataFrame({"id": [1, 2], "v": [None, None]}),
        pyarrow.table({"id": [1, 2], "v": pyarrow.nulls(2)}),
    ]:
        with pytest.warns(UserWarning, match='column "v" holds only NULL; its type is text'):
            loaded = load(data)
        assert loaded["v"].to_pylist() == [None, None]
        assert loaded.schema.field("v").type == pyarrow.string_view()


def test_many_rows_go_through():
    count = 100_000
    table = pyarrow.table(
        {"id": numpy.arange(count), "v": numpy.sqrt(numpy.arange(count)), "s": ["x" * 20] * count}
    )
    with atolldb.create(memory_limit=256 << 20) as database:
        assert database.create_table("t", table, primary_key=["id"]) == count
        assert numpy.array_equal(database["t"]["v"].to_numpy(), table["v"].to_numpy())
        assert database["t"].num_rows == count
        assert database["t"].primary_key == ["id"]


def test_dates_beyond_datetime_are_text_and_never_none(database):
    far = pyarrow.table(
        {
            "id": [1, 2, 3],
            "d": pyarrow.array([2**31 - 1, -(2**31), 0], pyarrow.date32()),
            "ts": pyarrow.array([2**63 - 1, -62_135_596_800_000_001, None], pyarrow.timestamp("us")),
        }
    )
    database.create_table("far", far, primary_key="id")
    result = database.sql("SELECT d, ts FROM far ORDER BY id")
    assert result.fetchall() == [
        ("5881580-07-11", "294247-01-10 04:00:54.775807"),
        ("5877642-06-23 BC", "0001-12-31 23:59:59.999999 BC"),
        (datetime.date(1970, 1, 1), None),
    ]
    assert "5881580-07-11" in repr(result) and "NULL" in repr(result)
    assert result.to_arrow().column("d")[2].as_py() == datetime.date(1970, 1, 1)


def test_times_of_all_centuries_are_computed_and_now_fits_a_column(database):
    row = database.sql(
        "SELECT TIMESTAMP '9999-12-31 23:59:59' - INTERVAL '1 day' AS a,"
        " DATE '0001-01-01' + 1 AS b, EXTRACT(YEAR FROM TIMESTAMP '2300-01-01') AS c,"
        " now() > TIMESTAMP '2024-01-01' AS d"
    ).fetchall()[0]
    assert row == (
        datetime.datetime(9999, 12, 30, 23, 59, 59), datetime.date(1, 1, 2), 2300, True
    )  # fmt: skip
