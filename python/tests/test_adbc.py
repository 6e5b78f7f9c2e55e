"""The ADBC driver, as its driver manager, pandas and polars use it."""

import datetime
import decimal
import subprocess
import sys
import threading
import time

import adbc_driver_manager
import pandas
import polars
import pyarrow
import pytest
from adbc_driver_manager import dbapi as manager

import atolldb
from atolldb import adbc, dbapi


@pytest.fixture
def connection():
    with adbc.connect() as connection:
        yield connection


@pytest.fixture
def cursor(connection):
    with connection.cursor() as cursor:
        yield cursor


def items(connection):
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE item (id int PRIMARY KEY, name text, price decimal(8,2), day date, "
            "seen timestamp, raw bytea, share double precision, is_new boolean)"
        )


ROW = (
    1, "Käse", decimal.Decimal("12.50"), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 5), b"\x00\xff", 0.1, True,
)


def one(connection, text):
    with connection.cursor() as cursor:
        return cursor.execute(text).fetchone()


def test_values_come_back_as_they_were_given(connection, cursor):
    items(connection)
    insert = "INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    cursor.execute(insert, ROW)
    assert cursor.rowcount == 1
    cursor.executemany(insert, [(2, *ROW[1:]), (3,) + (None,) * 7])
    assert cursor.rowcount == 2
    cursor.execute("SELECT * FROM item ORDER BY id")
    assert cursor.rowcount == 3
    assert cursor.fetchall() == [ROW, (2, *ROW[1:]), (3,) + (None,) * 7]
    for column, value in zip(cursor.description, ROW, strict=True):
        found = cursor.execute(f"SELECT id FROM item WHERE {column[0]} = ? AND id = 1", (value,))
        assert found.fetchall() == [(1,)], column
        # By its name as well, which is a number.
        for name in ["1", "$1", ":1"]:
            found.execute(f"SELECT id FROM item WHERE {column[0]} = $1 AND id = 1", {name: value})
            assert found.fetchall() == [(1,)], name
    with pytest.raises(manager.ProgrammingError, match="parameters a"):
        cursor.execute("SELECT id FROM item WHERE id = $1", {"a": 1})


def test_many_rows_of_values_run_a_query_each(connection, cursor):
    items(connection)
    cursor.executemany("INSERT INTO item (id) VALUES (?)", [(n,) for n in range(5)])
    rows = pyarrow.table({"0": pyarrow.array([4, 9, 3], pyarrow.int8())})
    cursor.execute("SELECT id FROM item WHERE id >= ? ORDER BY id", rows)
    assert [id for (id,) in cursor.fetchall()] == [4, 3, 4]
    for data in [rows, rows.to_reader(), polars.DataFrame({"0": [4, 9, 3]})]:
        cursor.executemany("UPDATE item SET name = 'x' WHERE id >= ?", data)
        assert cursor.rowcount == 3


def test_lists_are_values_beside_any(connection, cursor):
    cursor.execute("CREATE TABLE item (id int PRIMARY KEY)")
    cursor.execute("INSERT INTO item VALUES (1), (2), (3)")
    lists = pyarrow.array([[3, None, 1], [], None, [2]], pyarrow.list_(pyarrow.int32()))
    data = pyarrow.RecordBatch.from_arrays([lists], ["0"])
    cursor.execute("SELECT id FROM item WHERE id = ANY(?) ORDER BY id", data)
    assert [key for key, in cursor.fetchall()] == [1, 3, 2]


def test_executemany_is_atomic(connection, cursor):
    items(connection)
    with pytest.raises(manager.IntegrityError, match="values 3") as raised:
        cursor.executemany("INSERT INTO item (id) VALUES (?)", [(1,), (2,), (1,)])
    assert raised.value.sqlstate == "23505"
    with pytest.raises(manager.OperationalError) as raised:
        cursor.execute("SELECT 1")
    assert raised.value.sqlstate == "25P02"
    with pytest.raises(manager.OperationalError, match="rolled back") as raised:
        connection.commit()
    assert raised.value.sqlstate == "40000"
    assert one(connection, "SELECT count(*) FROM item") == (0,)


@pytest.mark.parametrize("autocommit", [False, True])
def test_ingestion(autocommit):
    table = pyarrow.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
    with adbc.connect(autocommit=autocommit) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("t", table) == 3
        assert cursor.adbc_ingest("t", table.slice(0, 0), mode="append") == 0
        more = pyarrow.table({"name": ["d"], "id": pyarrow.array([4], pyarrow.uint8())})
        assert cursor.adbc_ingest("t", more.to_reader(), mode="append") == 1
        assert cursor.adbc_ingest("t", more.to_batches()[0].slice(1), mode="create_append") == 0
        # The same text again, behind an ingestion.
        for _ in range(2):
            cursor.execute("SELECT id, name FROM t ORDER BY id")
            assert cursor.fetchall() == [(1, "a"), (2, None), (3, "c"), (4, "d")]
            cursor.adbc_ingest("t", more.slice(1), mode="append")
        if not autocommit:
            connection.commit()
        with pytest.raises(manager.ProgrammingError, match="exists already"):
            cursor.adbc_ingest("t", table)
        with pytest.raises(manager.NotSupportedError, match="dropped"):
            cursor.adbc_ingest("t", table, mode="replace")
        with pytest.raises(manager.ProgrammingError, match="does not exist"):
            cursor.adbc_ingest("u", table, mode="append")
        with pytest.raises(manager.NotSupportedError, match="temporary"):
            cursor.adbc_ingest("u", table, temporary=True)
        with pytest.raises(manager.ProgrammingError, match="schema"):
            cursor.adbc_ingest("u", table, db_schema_name="other")
        cursor.adbc_ingest("v", table, catalog_name="atoll", db_schema_name="public")
        twice = pyarrow.table({"id": [7, 1]})
        with pytest.raises(manager.IntegrityError):
            cursor.adbc_ingest("t", twice, mode="append")
        if not autocommit:
            connection.rollback()
        assert one(connection, "SELECT count(*) FROM t") == (4,)


def test_ingestion_names_the_key():
    table = pyarrow.table({"a": [1, 1], "b": [1, 2]})
    with adbc.connect() as connection, connection.cursor() as cursor:
        with pytest.raises(manager.IntegrityError, match="atoll.ingest.primary_key"):
            cursor.adbc_ingest("t", table)
        assert connection.adbc_get_objects().read_all()["catalog_db_schemas"][0].as_py() == [
            {"db_schema_name": "public", "db_schema_tables": []}
        ]
        options = {"atoll.ingest.primary_key": "a,b"}
        with connection.cursor(adbc_stmt_kwargs=options) as own:
            assert own.adbc_ingest("t", table) == 2
    with adbc.connect(primary_key=["a", "b"]) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("t", table) == 2


def test_types_are_known_without_rows(connection, cursor):
    items(connection)
    schema = connection.adbc_get_table_schema("item")
    assert [str(field.type) for field in schema] == [
        "int32", "string_view", "decimal128(8, 2)", "date32[day]", "timestamp[us]", "binary_view",
        "double", "bool",
    ]
    assert [field.nullable for field in schema] == [False] + [True] * 7
    query = "SELECT * FROM item"
    assert cursor.execute(query).fetch_arrow_table().schema.types == schema.types
    assert cursor.adbc_execute_schema(query).types == schema.types
    cursor.execute("INSERT INTO item (id) VALUES (1)")
    nulls = cursor.execute("SELECT name, price, raw FROM item").fetch_arrow_table()
    assert nulls.schema.types == [schema.field(n).type for n in ("name", "price", "raw")]
    taken = cursor.adbc_prepare("UPDATE item SET price = $1 WHERE id = $2")
    assert [str(one) for one in taken.types] == ["decimal128(8, 2)", "int32"]
    with pytest.raises(manager.ProgrammingError):
        connection.adbc_get_table_schema("nothing")


def test_several_statements_run_or_raise(connection, cursor):
    cursor.execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); SELECT * FROM t")
    assert cursor.fetchall() == [(1,)]
    with pytest.raises(manager.IntegrityError, match="statement 2"):
        cursor.execute("SELECT 1; INSERT INTO t VALUES (1)")
    connection.rollback()


def test_what_the_connection_says_of_itself(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Atoll"
    assert info["driver_version"] == atolldb.__version__
    assert info["driver_adbc_version"] == 1_001_000
    assert connection.adbc_get_table_types() == ["table", "view"]
    assert connection.adbc_current_catalog == "atoll"
    assert connection.adbc_current_db_schema == "public"
    with pytest.raises(manager.ProgrammingError):
        connection.adbc_current_db_schema = "other"
    with pytest.raises(manager.NotSupportedError):
        connection.adbc_get_statistics()
    items(connection)
    found = connection.adbc_get_objects(table_name_filter="it_m").read_all().to_pylist()
    (table,) = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("item", "table")
    assert [column["column_name"] for column in table["table_columns"]][:2] == ["id", "name"]
    assert table["table_columns"][2]["xdbc_type_name"] == "decimal(8,2)"
    (key,) = table["table_constraints"]
    assert (key["constraint_type"], key["constraint_column_names"]) == ("PRIMARY KEY", ["id"])


def test_errors_have_classes_and_states(connection, cursor):
    items(connection)
    for statement, kind, state in [
        ("SELEC 1", manager.ProgrammingError, "42601"),
        ("SELECT * FROM nothing", manager.ProgrammingError, "42P01"),
        ("SELECT nothing FROM item", manager.ProgrammingError, "42703"),
        ("INSERT INTO item (id) VALUES ('x')", manager.DataError, "22P02"),
        ("INSERT INTO item (id) VALUES (NULL)", manager.IntegrityError, "23502"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", manager.NotSupportedError, "0A000"),
        ("SELECT ?", manager.ProgrammingError, "42P02"),
    ]:
        with pytest.raises(kind) as raised:
            cursor.execute(statement)
        assert raised.value.sqlstate == state, statement
        connection.rollback()
    with pytest.raises(manager.ProgrammingError, match="(?s)SELECT nothing FROM item.*\\^"):
        cursor.execute("SELECT nothing FROM item")


def test_a_folder_is_shared_in_its_process(tmp_path):
    folder = tmp_path / "db"
    with atolldb.open(folder, durability="group") as db:
        db.sql("CREATE TABLE t (a int PRIMARY KEY, b text)")
        db.sql("INSERT INTO t VALUES (1, 'x')")
        with adbc.connect(folder) as connection, dbapi.connect(folder) as other:
            assert one(connection, "SELECT b FROM t") == ("x",)
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO t VALUES (2, 'y')")
            assert db.sql("SELECT count(*) FROM t").fetchone() == (1,)
            connection.commit()
            assert other.execute("SELECT count(*) FROM t").fetchone() == (2,)
            with pytest.raises(manager.ProgrammingError, match="another durability"):
                adbc.connect(folder, durability="strict")
            with pytest.raises(atolldb.InvalidValue, match="another durability"):
                atolldb.open(folder, durability="strict")
            again = atolldb.open(folder)
            db.close()
            assert one(connection, "SELECT count(*) FROM t") == (2,)
            again.close()
            with pytest.raises(atolldb.Closed):
                db.sql("SELECT 1")
        other.close()
    # All have gone, so another process owns it.
    check = f"import atolldb; print(atolldb.open({str(folder)!r}).tables)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.stdout == "['t']\n", done.stderr
    with adbc.connect(folder, durability="strict", autocommit=True) as connection:
        assert one(connection, "SELECT count(*) FROM t") == (2,)


def test_a_database_in_memory_is_shared():
    db = atolldb.create()
    db.sql("CREATE TABLE t (a int PRIMARY KEY)")
    with adbc.connect(db, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
            # A second connection of the same database.
            with connection.adbc_clone() as clone:
                assert one(clone, "SELECT a FROM t") == (1,)
        assert db.sql("SELECT a FROM t").fetchall() == [(1,)]
        db.close()
        assert one(connection, "SELECT a FROM t") == (1,)
    with pytest.raises(atolldb.Closed):
        adbc.connect(db)


def test_another_process_is_read(new_owner, runtime_dir):
    owner = new_owner()
    owner.run(
        "db = atolldb.create()\n"
        "db.sql('CREATE TABLE t (a int PRIMARY KEY, b text)')\n"
        "db.sql(\"INSERT INTO t VALUES (1, 'x')\")\n"
        "db.publish('board', runtime_dir)"
    )
    attached = atolldb.attach("board", runtime_dir)
    for target in ["attach:board", attached]:
        with adbc.connect(target, runtime_dir=runtime_dir) as connection:
            count = "SELECT count(*) FROM t"
            before = one(connection, count)[0]
            owner.run(f"db.sql('INSERT INTO t VALUES ({before + 1}, NULL)')")
            assert one(connection, count) == (before,)
            connection.commit()
            assert one(connection, count) == (before + 1,)
            assert connection.adbc_get_table_schema("t").names == ["a", "b"]
            assert connection.adbc_get_objects().read_all().num_rows == 1
            with pytest.raises(manager.NotSupportedError) as raised:
                one(connection, "DELETE FROM t")
            assert raised.value.sqlstate == "25006"
    with pytest.raises(manager.ProgrammingError) as raised:
        adbc.connect("attach:missing", runtime_dir=runtime_dir)
    assert raised.value.sqlstate == "3D000"


def test_isolation_and_read_only(tmp_path):
    with adbc.connect(tmp_path, isolation="serializable") as connection:
        assert one(connection, "SHOW transaction_isolation") == ("serializable",)
        with adbc.connect(tmp_path, read_only=True) as reading:
            with pytest.raises(manager.NotSupportedError):
                one(reading, "CREATE TABLE t (a int PRIMARY KEY)")
    with pytest.raises(ValueError, match="isolation is 'none'"):
        adbc.connect(isolation="none")


@pytest.mark.parametrize("of_connection", [False, True])
def test_a_statement_is_cancelled(connection, of_connection):
    with connection.cursor() as cursor:
        def cancel():
            time.sleep(0.3)
            if of_connection:
                connection.adbc_cancel()
            else:
                cursor.adbc_cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(manager.OperationalError) as raised:
            cursor.execute("SELECT count(*) FROM generate_series(1, 10000000000) AS a(x)")
        thread.join()
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.CANCELLED
        assert raised.value.sqlstate == "57014"
        connection.rollback()
        assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_data_that_fail_change_nothing(connection, cursor):
    def batches():
        yield pyarrow.record_batch({"a": [1]})
        raise ValueError("the source is gone")

    schema = pyarrow.schema({"a": pyarrow.int64()})
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(manager.DataError, match="the source is gone"):
        cursor.adbc_ingest("t", reader)

    def busy():
        # The connection is free while its data are read.
        assert one(connection, "SELECT 1") == (1,)
        yield pyarrow.record_batch({"a": [1]})

    reader = pyarrow.RecordBatchReader.from_batches(schema, busy())
    assert cursor.adbc_ingest("t", reader) == 1


def test_pandas_reads_and_writes():
    frame = pandas.DataFrame(
        {
            "id": [1, 2, 3],
            "name": ["a", None, "ç"],
            "at": pandas.to_datetime(["2024-01-01 00:00", None, "2024-01-03 10:00"]),
            "x": [0.5, None, -1.0],
        }
    )
    with adbc.connect() as connection:
        assert frame.to_sql("t", connection, index=False) == 3
        found = pandas.read_sql("SELECT * FROM t ORDER BY id", connection)
        pandas.testing.assert_frame_equal(found, frame, check_dtype=False)
        assert list(found["name"])[0] == "a"
        assert pandas.read_sql("t", connection).shape == (3, 4)
        more = frame.assign(id=[4, 5, 6])
        assert more.to_sql("t", connection, index=False, if_exists="append") == 3
        with pytest.raises(ValueError, match="already exists"):
            frame.to_sql("t", connection, index=False)
        empty = pandas.read_sql("SELECT * FROM t WHERE id > 9", connection)
        assert list(empty.columns) == ["id", "name", "at", "x"]
        assert empty["at"].dtype.kind == "M"
        text = "SELECT count(*) AS n FROM t WHERE name LIKE '%" + "_%" * 5000 + "'"
        assert pandas.read_sql(text, connection)["n"][0] == 0
        arrow = pandas.read_sql("SELECT name FROM t", connection, dtype_backend="pyarrow")
        assert list(arrow["name"])[0] == "a"
        with connection.cursor() as cursor:
            assert len(cursor.execute("SELECT * FROM t").fetch_df()) == 6
        fewer = more.to_sql("t", connection, index=False, if_exists="delete_rows")
        assert fewer == 3
        assert one(connection, "SELECT min(id) FROM t") == (4,)


def test_polars_reads_and_writes():
    frame = polars.DataFrame(
        {
            "id": [1, 2, 3],
            "name": ["a", None, "ç"],
            "kind": polars.Series(["u", "u", "v"], dtype=polars.Categorical),
            "nothing": polars.Series([None] * 3, dtype=polars.Null),
            "day": [datetime.date(2024, 1, 1), None, None],
        }
    )
    with adbc.connect() as connection:
        assert frame.write_database("t", connection, engine="adbc") == 3
        found = polars.read_database("SELECT * FROM t ORDER BY id", connection)
        assert found.rows() == frame.rows()
        assert found.schema["name"] == polars.String
        assert found.schema["day"] == polars.Date
        more = frame.with_columns(id=polars.col("id") + 3)
        written = more.write_database("t", connection, engine="adbc", if_table_exists="append")
        assert written == 3
        values = {"parameters": [3]}
        query = "SELECT id FROM t WHERE id > ? ORDER BY id"
        found = polars.read_database(query, connection, execute_options=values)
        assert found["id"].to_list() == [4, 5, 6]
        with pytest.raises(manager.ProgrammingError):
            frame.write_database("t", connection, engine="adbc")
        with connection.cursor() as cursor:
            assert cursor.execute("SELECT * FROM t").fetch_polars().shape == (6, 5)
            assert cursor.adbc_ingest("u", frame) == 3


def test_results_without_views():
    with adbc.connect(views=False) as connection:
        items(connection)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO item (id, name) VALUES (1, 'x')")
            table = cursor.execute("SELECT name, raw FROM item").fetch_arrow_table()
        assert table.schema.types == [pyarrow.large_string(), pyarrow.large_binary()]
        assert connection.adbc_get_table_schema("item").field("name").type == pyarrow.large_string()
        # All functions of pyarrow know these types.
        frame = pandas.read_sql("SELECT name FROM item", connection, dtype_backend="pyarrow")
        assert list(frame["name"].dropna()) == ["x"]


def test_another_program_opens_the_driver(tmp_path):
    program = (
        "import atolldb, sys; from adbc_driver_manager import dbapi\n"
        "from atolldb.adbc import DRIVER, ENTRYPOINT\n"
        f"db = dict(uri={str(tmp_path / 'db')!r})\n"
        "c = dbapi.connect(DRIVER, entrypoint=ENTRYPOINT, db_kwargs=db)\n"
        "print(c.cursor().execute('SELECT 1 AS a').fetchone())\n"
        "c.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "(1,)\n", done.stderr


def test_the_driver_manager_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_manager", None)
    with pytest.raises(ImportError, match="pip install adbc-driver-manager"):
        adbc.connect()


def test_a_forked_child_connects_again(tmp_path):
    program = f"""
import os
from atolldb import adbc
connection = adbc.connect({str(tmp_path / "db")!r}, autocommit=True)
cursor = connection.cursor()
cursor.execute("CREATE TABLE t (a int PRIMARY KEY)")
child = os.fork()
if child == 0:
    try:
        cursor.execute("SELECT 1")
    except Exception as error:
        assert "forked" in str(error), error
        with adbc.connect(autocommit=True) as own, own.cursor() as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
cursor.execute("INSERT INTO t VALUES (1)")
cursor.close()
connection.close()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


def test_an_error_behind_the_first_rows_is_one_of_the_database(connection, cursor):
    numbers = pyarrow.array(range(1, 100001), pyarrow.int64())
    cursor.adbc_ingest("n", pyarrow.table({"id": numbers}))
    connection.commit()
    cursor.execute("SELECT 1 / (id - 90000) FROM n")
    with pytest.raises(manager.DataError, match="zero") as raised:
        cursor.fetchall()
    assert raised.value.sqlstate == "22012"
    # It is not taken for the end of the rows.
    with pytest.raises(manager.DataError, match="zero"):
        cursor.fetchone()
    cursor.execute("SELECT count(*) FROM n")
    assert cursor.fetchone() == (100000,)


def test_ingested_rows_take_defaults_and_keep_conditions(connection, cursor):
    cursor.execute(
        "CREATE TABLE t (id int PRIMARY KEY, label text NOT NULL DEFAULT 'none', "
        "n int CHECK (n < 10))"
    )
    for rows in ({"id": [1, 2], "n": [1, None]}, {"id": [3], "label": ["x"], "n": [9]}):
        cursor.adbc_ingest("t", pyarrow.table(rows), mode="append")
    connection.commit()
    with pytest.raises(manager.IntegrityError) as refused:
        cursor.adbc_ingest("t", pyarrow.table({"id": [4], "n": [10]}), mode="append")
    assert refused.value.sqlstate == "23514"
    connection.rollback()
    cursor.execute("SELECT id, label, n FROM t ORDER BY id")
    assert cursor.fetchall() == [(1, "none", 1), (2, "none", None), (3, "x", 9)]
