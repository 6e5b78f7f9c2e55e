"""Files that other programs write, loaded with COPY."""

import csv
import datetime
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import atolldb

COLUMNS = "(column1 bigint PRIMARY KEY, name text, price double precision, day date)"


@pytest.fixture
def database():
    with atolldb.create(memory_limit=64 << 20) as database:
        yield database


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "name": ["ann", "", None, 'say "5"" pipe"\nand, more', "NULL"],
            "price": [0.1, 1e-300, np.nan, 9007199254740993.0, -0.0],
            "day": [datetime.date(2024, 5, day) for day in range(1, 6)],
        }
    )


def copy(database, path, options="HEADER"):
    return database.sql(f"COPY t FROM '{path}' WITH ({options})")


def rows(database):
    return database.sql("SELECT * FROM t ORDER BY 1").fetchall()


def text(name):
    return name if isinstance(name, str) else None


def expected(frame, name):
    return [
        (at, name(row.name_), None if np.isnan(row.price) else row.price, row.day)
        for at, row in enumerate(frame.rename(columns={"name": "name_"}).itertuples())
    ]


def test_what_pandas_writes(database, frame, tmp_path):
    path = tmp_path / "a.csv"
    database.sql(f"CREATE TABLE t {COLUMNS}")
    frame.to_csv(path)
    # Without quotes, pandas writes an empty text and a missing one in the same way.
    copy(database, path)
    assert rows(database) == expected(frame, lambda name: text(name) or None)


def test_what_pandas_writes_in_quotes(database, frame, tmp_path):
    path = tmp_path / "a.csv"
    database.sql(f"CREATE TABLE t {COLUMNS}")
    frame.to_csv(path, quoting=csv.QUOTE_NONNUMERIC, na_rep="NA")
    # pandas quotes what stands for a missing text, too.
    path.write_text(path.read_text().replace('"NA"', "NA"))
    copy(database, path, "HEADER, NULL 'NA'")
    assert rows(database) == expected(frame, text)


def test_compressed_files_of_pandas(database, frame, tmp_path):
    database.sql(f"CREATE TABLE t {COLUMNS}")
    for name in ["a.csv.gz", "b.csv"]:
        path = tmp_path / name
        frame.to_csv(path, compression="gzip")
        copy(database, path, "HEADER, ON_CONFLICT replace")
        assert len(rows(database)) == len(frame)
    whole = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[:-4])
    with pytest.raises(atolldb.SqlError, match="cut.csv.gz: its gzip data ends too early"):
        copy(database, tmp_path / "cut.csv.gz", "HEADER, ON_CONFLICT skip")
    frame.to_csv(tmp_path / "a.csv.xz", compression="xz")
    with pytest.raises(atolldb.SqlError, match="xz data"):
        copy(database, tmp_path / "a.csv.xz", "HEADER, ON_CONFLICT skip")


def test_what_r_writes(database, tmp_path):
    # write.csv(data): row names under an empty name, texts in quotes, NA without.
    path = tmp_path / "a.csv"
    path.write_text('"","name","price"\n"1","NA",1e+05\n"2",NA,NA\n"3","",0.1\n')
    database.sql("CREATE TABLE t (column1 int PRIMARY KEY, name text, price double precision)")
    copy(database, path, "HEADER, NULL 'NA'")
    assert rows(database) == [(1, "NA", 1e5), (2, None, None), (3, "", 0.1)]


def test_what_pyarrow_writes(database, tmp_path):
    table = pa.table({"id": [1, 2, 3], "name": ["a", "", None], "at": pa.array([0, 1, None])})
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    database.sql("CREATE TABLE t (id bigint PRIMARY KEY, name text, at bigint)")
    copy(database, tmp_path / "a.csv")
    # An empty text is quoted there, a missing one is not.
    assert rows(database) == [(1, "a", 0), (2, "", 1), (3, None, None)]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "lz4", "brotli", "zstd"])
def test_parquet_of_every_compression(database, tmp_path, compression):
    path = tmp_path / "a.parquet"
    table = pa.table({"id": range(10_000), "name": [f"name {at % 7}" for at in range(10_000)]})
    pq.write_table(table, path, compression=compression)
    database.sql("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    copy(database, path, "FORMAT parquet")
    found = database.sql("SELECT count(*), count(DISTINCT name), sum(id) FROM t").fetchall()
    assert found == [(10_000, 7, 49_995_000)]


def test_nanoseconds_of_pandas(database, tmp_path):
    path = tmp_path / "a.parquet"
    at = pd.to_datetime(["2024-05-01 10:00:00.123456789", "1969-12-31 23:59:59.999999999"])
    frame = pd.DataFrame({"id": [1, 2], "at": at.astype("datetime64[ns]")})
    frame.to_parquet(path, index=False)
    frame.to_csv(tmp_path / "a.csv", index=False)
    database.sql("CREATE TABLE t (id bigint PRIMARY KEY, at timestamp)")
    for name, options in [("a.parquet", "FORMAT parquet"), ("a.csv", "HEADER")]:
        with pytest.raises(atolldb.SqlError, match="finer than a microsecond") as caught:
            copy(database, tmp_path / name, options)
        assert "TRUNCATE_TIMESTAMPS" in caught.value.hint
        copy(database, tmp_path / name, f"{options}, TRUNCATE_TIMESTAMPS, ON_CONFLICT replace")
        assert [at for _, at in rows(database)] == [
            datetime.datetime(2024, 5, 1, 10, 0, 0, 123456),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        ]


def test_keys_that_are_there(database, tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt") as out:
        out.write("id,name\n1,new\n2,b\n")
    database.sql("CREATE TABLE t (id int PRIMARY KEY, name text)")
    database.sql("INSERT INTO t VALUES (1, 'old')")
    with pytest.raises(atolldb.DuplicateKey, match="line 2: .* with key id = 1 already"):
        copy(database, path)
    copy(database, path, "HEADER, ON_CONFLICT skip")
    assert rows(database) == [(1, "old"), (2, "b")]
    copy(database, path, "HEADER, ON_CONFLICT replace")
    assert rows(database) == [(1, "new"), (2, "b")]
