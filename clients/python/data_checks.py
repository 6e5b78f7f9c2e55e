"""Tools that load tables: ADBC, ConnectorX, polars, pandas and DuckDB; the argument says which."""

import contextlib
import datetime
import decimal
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import psycopg
import pyarrow as pa
from checks import DATABASE, PLACE, check, equal, main, refused, url

TOOL = sys.argv.pop(1)
UTC = datetime.UTC
#: One row of values, and one of NULLs, of a table that every tool reads.
SALES = """CREATE TABLE sales (id bigint PRIMARY KEY, small smallint, n int, price numeric(12,2),
  f real, d double precision, name text, code varchar(8), ok boolean, day date, at timestamp,
  zoned timestamptz, blob bytea)"""
ROW = {
    "id": 1, "small": 7, "n": -5, "price": decimal.Decimal("1234567.89"), "f": 1.5, "d": 0.1,
    "name": "Grüße 🦀", "code": "abc", "ok": True, "day": datetime.date(2024, 2, 29),
    "at": datetime.datetime(2024, 2, 29, 12, 30, 15, 123456),
    "zoned": datetime.datetime(2024, 3, 31, 1, 59, 59, 1, tzinfo=UTC), "blob": b"\x00\xff",
}  # fmt: skip
FRAME = {"id": [1, 2, 3], "name": ["a", None, "c"], "price": [1.5, 2.5, None]}


def connect():
    return psycopg.connect(**PLACE, dbname=DATABASE, autocommit=True)


def fill():
    with connect() as connection:
        connection.execute(SALES)
        marks = ", ".join(["%s"] * len(ROW))
        connection.execute(f"INSERT INTO sales VALUES ({marks})", list(ROW.values()))
        connection.execute("INSERT INTO sales (id) VALUES (2)")
        connection.execute("CREATE TABLE many (id bigint PRIMARY KEY, v double precision, t text)")
        connection.execute(
            "INSERT INTO many SELECT n, n * 0.5, 'row ' || n FROM generate_series(1, 100000) g(n)"
        )


def rows(statement):
    with connect() as connection:
        return connection.execute(statement).fetchall()


def tool(name):
    """Marks the checks of one tool; those of others are not run."""
    return check if name == TOOL else lambda _: lambda function: function


adbc, connectorx, polars, pandas, duckdb = map(
    tool, ["adbc", "connectorx", "polars", "pandas", "duckdb"]
)


def adbc_connection():
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(url())


@adbc("values of each type")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, small, n, f, d, name, code, ok, day, at, zoned, blob FROM sales ORDER BY id"
        )
        table = cursor.fetch_arrow_table()
        wanted = {key: value for key, value in ROW.items() if key != "price"}
        equal(table.to_pylist(), [wanted, {key: 2 if key == "id" else None for key in wanted}])
        equal(
            [str(field.type) for field in table.schema],
            [
                "int64",
                "int16",
                "int32",
                "float",
                "double",
                "string",
                "string",
                "bool",
                "date32[day]",
                "timestamp[us]",
                "timestamp[us, tz=UTC]",
                "binary",
            ],
        )


@adbc("numeric as text")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT price FROM sales ORDER BY id")
        equal(cursor.fetch_arrow_table().to_pydict(), {"price": ["1234567.89", None]})


@adbc("arrays")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ARRAY[1, NULL, 3] AS a, ARRAY['x', 'y'] AS b")
        equal(cursor.fetch_arrow_table().to_pydict(), {"a": [[1, None, 3]], "b": [["x", "y"]]})


@adbc("many rows, and an empty result")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM many")
        table = cursor.fetch_arrow_table()
        equal((table.num_rows, sum(table["id"].to_pylist())), (100000, 5000050000))
        cursor.execute("SELECT * FROM many WHERE id < 0")
        table = cursor.fetch_arrow_table()
        equal((table.num_rows, table.schema.names), (0, ["id", "v", "t"]))


@adbc("parameters")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT t FROM many WHERE id = $1 OR t = $2 ORDER BY id", (5, "row 7"))
        equal(cursor.fetchall(), [("row 5",), ("row 7",)])


@adbc("executemany")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE adbc_batch (id bigint PRIMARY KEY, v text)")
        cursor.executemany(
            "INSERT INTO adbc_batch VALUES ($1, $2)", [(at, f"v{at}") for at in range(50)]
        )
        connection.commit()
    equal(rows("SELECT count(*), max(id) FROM adbc_batch"), [(50, 49)])


def ingested():
    return pa.table({
        "id": pa.array([1, 2, 3], pa.int64()), "n": pa.array([1, None, 3], pa.int32()),
        "f": pa.array([0.5, None, 1.5], pa.float64()), "t": pa.array(["a", None, "c"]),
        "b": pa.array([b"\x00", None, b""], pa.binary()), "ok": pa.array([True, None, False]),
        "day": pa.array([datetime.date(2024, 1, 1), None, None], pa.date32()),
        "at": pa.array([datetime.datetime(2024, 1, 1, 12), None, None], pa.timestamp("us")),
        "zoned": pa.array([datetime.datetime(2024, 1, 1, 12, tzinfo=UTC), None, None],
                          pa.timestamp("us", tz="UTC")),
    })  # fmt: skip


@adbc("ingest, which makes the table")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        equal(cursor.adbc_ingest("ingested", ingested(), mode="create"), 3)
        connection.commit()
        equal(cursor.adbc_ingest("ingested", ingested(), mode="append"), 3)
        connection.commit()
        cursor.execute("SELECT * FROM ingested ORDER BY id")
        seen = cursor.fetch_arrow_table().to_pylist()
        equal(seen[::2], ingested().to_pylist())


@adbc("ingest, which replaces the table")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("replaced", pa.table({"a": [1]}), mode="create")
        cursor.adbc_ingest("replaced", pa.table({"b": ["x", "y"]}), mode="replace")
        cursor.adbc_ingest("replaced", pa.table({"b": ["z"]}), mode="create_append")
        connection.commit()
    equal(rows("SELECT b FROM replaced ORDER BY b"), [("x",), ("y",), ("z",)])


@adbc("ingest of decimals and lists")
def _():
    table = pa.table({
        "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(12, 2)),
        "tags": pa.array([["a", None], []], pa.list_(pa.string())),
        "ns": pa.array([[1, 2], None], pa.list_(pa.int32())),
    })  # fmt: skip
    with adbc_connection() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("listed", table, mode="create")
        connection.commit()
    equal(
        rows("SELECT price, tags, ns FROM listed"),
        [(decimal.Decimal("1.50"), ["a", None], [1, 2]), (None, [], None)],
    )


@adbc("ingest of many rows")
def _():
    with adbc_connection() as connection, connection.cursor() as cursor:
        table = pa.table({"id": range(200000), "v": [at / 7 for at in range(200000)]})
        cursor.adbc_ingest("bulk", table, mode="create")
        connection.commit()
    equal(rows("SELECT count(*), sum(id) FROM bulk"), [(200000, 19999900000)])


@adbc("metadata")
def _():
    with adbc_connection() as connection:
        info = connection.adbc_get_info()
        equal(info["vendor_name"], "PostgreSQL")
        equal(
            connection.adbc_get_table_types(),
            [
                "partitioned_table",
                "foreign_table",
                "toast_table",
                "materialized_view",
                "view",
                "table",
            ],
        )
        schema = connection.adbc_get_table_schema("sales")
        equal(schema.names, list(ROW))
        found = (
            connection.adbc_get_objects(depth="all", table_name_filter="sales")
            .read_all()
            .to_pylist()
        )
        catalog = next(one for one in found if one["catalog_name"] == DATABASE)
        [tables] = [
            one["db_schema_tables"]
            for one in catalog["catalog_db_schemas"]
            if one["db_schema_name"] == "public"
        ]
        equal([column["column_name"] for column in tables[0]["table_columns"]], list(ROW))
        equal(
            [
                (one["constraint_type"], one["constraint_column_names"])
                for one in tables[0]["table_constraints"]
            ],
            [("PRIMARY KEY", ["id"])],
        )
        equal(connection.adbc_current_catalog, DATABASE)
        equal(connection.adbc_current_db_schema, "public")


@adbc("statistics")
def _():
    with connect() as connection:
        connection.execute("ANALYZE sales")
    with adbc_connection() as connection:
        reader = connection.adbc_get_statistics(
            db_schema_filter="public", table_name_filter="sales", approximate=True
        )
        assert reader.read_all().num_rows >= 1


@adbc("errors with SQLSTATE, and rollback")
def _():
    from adbc_driver_postgresql import dbapi

    with adbc_connection() as connection:
        with connection.cursor() as cursor, refused(dbapi.Error, "42P01"):
            cursor.execute("SELECT * FROM missing")
        connection.rollback()
        with connection.cursor() as cursor, refused(dbapi.Error, "23505"):
            cursor.execute("INSERT INTO sales (id) VALUES (1)")
        connection.rollback()


@adbc("a running statement is cancelled")
def _():
    import threading

    with adbc_connection() as connection, connection.cursor() as cursor:
        timer = threading.Timer(0.3, cursor.adbc_cancel)
        timer.start()
        with refused(Exception):
            cursor.execute(
                "SELECT count(*) FROM generate_series(1, 200000000) AS g(n), "
                "generate_series(1, 200000000) AS h(m)"
            )
            cursor.fetchall()
        timer.join()


@adbc("levels of isolation")
def _():
    with adbc_connection() as connection:
        option = "adbc.connection.transaction.isolation_level"
        levels = "adbc.connection.transaction.isolation."
        for level in ("serializable", "repeatable_read", "read_committed"):
            connection.adbc_connection.set_options(**{option: levels + level})
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('transaction_isolation')")
                equal(cursor.fetchone(), (level.replace("_", " "),))
            connection.rollback()


def read_by_connectorx(statement, **more):
    import connectorx as cx

    return cx.read_sql(url(), statement, return_type="arrow", **more)


@connectorx("values of each type")
def _():
    for protocol in ("binary", "csv", "cursor", "simple"):
        table = read_by_connectorx(
            "SELECT id, small, n, f, d, name, code, ok, day, at, zoned, blob "
            "FROM sales ORDER BY id",
            protocol=protocol,
        )
        wanted = {key: value for key, value in ROW.items() if key != "price"}
        seen = table.to_pylist()
        assert seen == [wanted, {key: 2 if key == "id" else None for key in wanted}], (
            protocol,
            seen,
        )


@connectorx("numeric")
def _():
    table = read_by_connectorx("SELECT price FROM sales ORDER BY id")
    equal(
        [float(value) if value else None for value in table["price"].to_pylist()],
        [1234567.89, None],
    )


@connectorx("partitions")
def _():
    table = read_by_connectorx("SELECT * FROM many", partition_on="id", partition_num=4)
    equal((table.num_rows, sum(table["id"].to_pylist())), (100000, 5000050000))


@connectorx("aggregates and joins")
def _():
    table = read_by_connectorx(
        "SELECT m.id % 3 AS rest, count(*) AS n, sum(v) AS total, max(t) AS last FROM many m "
        "LEFT JOIN sales s ON s.id = m.id GROUP BY 1 ORDER BY 1"
    )
    equal(table["n"].to_pylist(), [33333, 33334, 33333])


@connectorx("arrays and json")
def _():
    table = read_by_connectorx(
        "SELECT ARRAY[1, 2]::int8[] AS a, '{\"a\": 1}'::jsonb AS j, "
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid AS u"
    )
    equal((table["a"].to_pylist(), table["j"].to_pylist()), ([[1, 2]], ['{"a":1}']))


@connectorx("an empty result")
def _():
    equal(read_by_connectorx("SELECT id, t FROM many WHERE id < 0").num_rows, 0)


@connectorx("errors")
def _():
    with refused(BaseException):
        read_by_connectorx("SELECT * FROM missing")
    equal(read_by_connectorx("SELECT 1 AS one").num_rows, 1)


@connectorx("pandas frames")
def _():
    import connectorx as cx

    frame = cx.read_sql(url(), "SELECT id, name, price, ok FROM sales ORDER BY id")
    equal((frame["id"].tolist(), frame["price"].tolist()[0]), ([1, 2], 1234567.89))


@polars("read_database_uri")
def _():
    import polars as pl

    for engine in ("connectorx", "adbc"):
        frame = pl.read_database_uri("SELECT * FROM many ORDER BY id", url(), engine=engine)
        equal((frame.height, frame["id"].sum(), frame["t"][-1]), (100000, 5000050000, "row 100000"))


@polars("read_database_uri in partitions")
def _():
    import polars as pl

    frame = pl.read_database_uri(
        "SELECT id, v FROM many", url(), partition_on="id", partition_num=3
    )
    equal(frame["v"].sum(), 2500025000.0)


@polars("read_database by psycopg, in batches")
def _():
    import polars as pl

    with connect() as connection:
        frame = pl.read_database("SELECT * FROM sales ORDER BY id", connection)
        equal(frame.row(0, named=True), ROW | {"zoned": frame["zoned"][0]})
        batches = pl.read_database(
            "SELECT * FROM many", connection, iter_batches=True, batch_size=30000
        )
        equal(sum(batch.height for batch in batches), 100000)


def written(engine):
    import polars as pl

    frame = pl.DataFrame(
        {
            **FRAME,
            "day": [datetime.date(2024, 1, at) for at in (1, 2, 3)],
            "at": [datetime.datetime(2024, 1, 1, 12)] * 3,
            "ok": [True, None, False],
        }
    )
    name = f"written_{engine}"
    place = url("postgresql+psycopg") if engine == "sqlalchemy" else url()
    frame.write_database(name, place, engine=engine)
    frame.write_database(name, place, engine=engine, if_table_exists="append")
    equal(rows(f"SELECT count(*), sum(price) FROM {name}"), [(6, 8.0)])
    frame.write_database(name, place, engine=engine, if_table_exists="replace")
    with connect() as connection:
        seen = pl.read_database(f"SELECT * FROM {name} ORDER BY id", connection)
    equal(seen.rows(), frame.rows())


@polars("write_database by ADBC")
def _():
    written("adbc")


@polars("write_database by SQLAlchemy")
def _():
    written("sqlalchemy")


@contextlib.contextmanager
def engine(driver="psycopg"):
    import sqlalchemy

    made = sqlalchemy.create_engine(url(f"postgresql+{driver}"))
    try:
        yield made
    finally:
        made.dispose()


@pandas("read_sql_query with parameters")
def _():
    import pandas as pd
    import sqlalchemy

    with engine() as own:
        frame = pd.read_sql_query(
            sqlalchemy.text("SELECT id, t FROM many WHERE id <= :top ORDER BY id"),
            own,
            params={"top": 5},
        )
        equal(frame["t"].tolist(), [f"row {at}" for at in range(1, 6)])
        frame = pd.read_sql_query("SELECT * FROM sales ORDER BY id", own, parse_dates=["day"])
        equal((frame["price"][0], frame["zoned"][0].to_pydatetime()), (1234567.89, ROW["zoned"]))


@pandas("read_sql_table")
def _():
    import pandas as pd

    with engine() as own:
        frame = pd.read_sql_table("sales", own, index_col="id", columns=["name", "price"])
        equal(frame.loc[1].tolist(), [ROW["name"], 1234567.89])


@pandas("read_sql in chunks")
def _():
    import pandas as pd

    with engine() as own, own.connect().execution_options(stream_results=True) as connection:
        chunks = pd.read_sql("SELECT * FROM many", connection, chunksize=20000)
        equal(sum(chunk["id"].sum() for chunk in chunks), 5000050000)


def to_sql(driver, method):
    import pandas as pd

    frame = pd.DataFrame(
        {
            **FRAME,
            "at": pd.to_datetime(["2024-01-01", None, "2024-01-03"], utc=True),
            "ok": [True, False, True],
        }
    )
    name = f"pandas_{driver}_{method}".lower()
    with engine(driver) as own:
        frame.to_sql(name, own, index=False, method=method)
        frame.to_sql(name, own, index=False, if_exists="append", method=method)
        equal(rows(f"SELECT count(*), sum(price), count(at) FROM {name}"), [(6, 8.0, 4)])
        frame.to_sql(name, own, if_exists="replace", method=method, chunksize=2)
        seen = pd.read_sql(f"SELECT * FROM {name} ORDER BY index", own)
        equal(seen["name"].tolist()[::2], ["a", "c"])
        frame.head(1).to_sql(name, own, if_exists="delete_rows", method=method)
        equal(rows(f"SELECT count(*) FROM {name}"), [(1,)])


for driver in ("psycopg", "psycopg2", "pg8000"):
    pandas(f"to_sql by {driver}")(lambda driver=driver: to_sql(driver, None))
pandas("to_sql of several rows in a statement")(lambda: to_sql("psycopg", "multi"))


@pandas("to_sql and read_sql by ADBC")
def _():
    import pandas as pd

    with adbc_connection() as connection:
        frame = pd.DataFrame(FRAME)
        frame.to_sql("pandas_adbc", connection, index=False)
        frame.to_sql("pandas_adbc", connection, index=False, if_exists="append")
        seen = pd.read_sql("SELECT * FROM pandas_adbc ORDER BY id", connection)
        equal((seen["id"].tolist(), seen["price"].sum()), ([1, 1, 2, 2, 3, 3], 8.0))


def attached(*options):
    """A DuckDB with this database as `pg`."""
    import duckdb as db

    package = Path(importlib.util.find_spec("duckdb_extension_postgres_scanner").origin).parent
    [extension] = package.rglob("postgres_scanner.duckdb_extension")
    own = db.connect()
    own.execute(f"LOAD '{extension}'")
    place = " ".join(f"{key}='{value}'" for key, value in {**PLACE, "dbname": DATABASE}.items())
    text = place.replace("'", "''")
    own.execute(f"ATTACH '{text}' AS pg ({', '.join(['TYPE postgres', *options])})")
    return contextlib.closing(own)


@duckdb("ATTACH lists tables")
def _():
    with attached() as own:
        names = own.execute(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_catalog = 'pg' AND table_schema = 'public'"
        ).fetchall()
        assert {"sales", "many"} <= {name for (name,) in names}, names


@duckdb("values of each type")
def _():
    with attached("READ_ONLY") as own:
        names = [name for name in ROW if name != "zoned"]
        quoted = ", ".join(f'"{name}"' for name in names)
        seen = own.execute(f"SELECT {quoted} FROM pg.sales ORDER BY id").fetchall()
        equal(seen, [tuple(ROW[name] for name in names), (2, *[None] * (len(names) - 1))])
        seen = own.execute("SELECT epoch_us(zoned) FROM pg.sales ORDER BY id").fetchall()
        equal(seen[0][0], 1711850399000001)


@duckdb("many rows, with filters that the server computes")
def _():
    with attached() as own:
        equal(
            own.execute("SELECT count(*), sum(id) FROM pg.many").fetchall(), [(100000, 5000050000)]
        )
        equal(own.execute("SELECT t FROM pg.many WHERE id = 77").fetchall(), [("row 77",)])
        found = own.execute("SELECT count(*) FROM pg.many WHERE t LIKE 'row 1%' AND v > 10")
        equal(found.fetchone(), (11101,))


@duckdb("writes")
def _():
    with attached() as own:
        own.execute(
            "CREATE TABLE pg.made (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(9,2))"
        )
        own.execute("INSERT INTO pg.made VALUES (1, 'a', 1.50), (2, NULL, NULL)")
        own.execute(
            "INSERT INTO pg.made SELECT range + 10, 'r' || range, range / 4 FROM range(5000)"
        )
        own.execute("UPDATE pg.made SET name = 'b' WHERE id = 2")
        own.execute("DELETE FROM pg.made WHERE id = 1")
    equal(rows("SELECT count(*), min(name) FROM made"), [(5001, "b")])


@duckdb("CREATE TABLE AS")
def _():
    with attached() as own:
        own.execute("CREATE TABLE pg.taken AS SELECT range AS id, range / 2 AS half FROM range(10)")
        equal(own.execute("SELECT count(*), sum(half) FROM pg.taken").fetchall(), [(10, 22.5)])
        own.execute("DROP TABLE pg.taken")


@duckdb("transactions")
def _():
    with attached() as own:
        own.execute("CREATE TABLE pg.undone (id INTEGER)")
        own.execute("BEGIN")
        own.execute("INSERT INTO pg.undone VALUES (1)")
        equal(own.execute("SELECT count(*) FROM pg.undone").fetchone(), (1,))
        own.execute("ROLLBACK")
        equal(own.execute("SELECT count(*) FROM pg.undone").fetchone(), (0,))


@duckdb("postgres_query and postgres_execute")
def _():
    with attached() as own:
        equal(own.execute("SELECT * FROM postgres_query('pg', 'SELECT max(id) AS m FROM many')")
              .fetchall(), [(100000,)])  # fmt: skip
        own.execute("CALL postgres_execute('pg', 'CREATE TABLE executed (id int)')")
        equal(rows("SELECT count(*) FROM executed"), [(0,)])


@duckdb("joins with its own tables")
def _():
    with attached() as own:
        own.execute("CREATE TABLE here AS SELECT range AS id FROM range(10)")
        equal(own.execute("SELECT count(*) FROM here JOIN pg.many USING (id)").fetchone(), (9,))


PACKAGES = {"adbc": "adbc-driver-postgresql"}
fill()
main(TOOL, importlib.metadata.version(PACKAGES.get(TOOL, TOOL)))
