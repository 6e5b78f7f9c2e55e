"""The database interface of Python, version 2.0, as its own suite of tests asks for it."""

import datetime
import decimal
import threading

import dbapi20
import pytest

import atolldb
from atolldb import dbapi


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = dbapi
    connect_args = ()
    # Tables have a primary key, and text has no greatest length.
    ddl1 = "CREATE TABLE %sbooze (name text PRIMARY KEY)" % dbapi20.DatabaseAPI20Test.table_prefix
    ddl2 = "CREATE TABLE %sbarflys (name text PRIMARY KEY, drink text)" % (
        dbapi20.DatabaseAPI20Test.table_prefix
    )
    lower_func = None

    def setUp(self):
        self.connect_kw_args = {"database": atolldb.create()}

    def tearDown(self):
        self.connect_kw_args["database"].close()

    def executeDDL1(self, cursor):  # noqa: N802 - the name is the suite's
        self.define(cursor, self.ddl1)

    def executeDDL2(self, cursor):  # noqa: N802
        self.define(cursor, self.ddl2)

    @staticmethod
    def define(cursor, ddl):
        """Definitions are not part of transactions."""
        cursor.connection.rollback()
        cursor.execute(ddl)

    def test_nextset(self):
        # It is optional: a statement has one result.
        assert not hasattr(self._connect().cursor(), "nextset")

    def test_setoutputsize(self):
        with self._connect().cursor() as cursor:
            cursor.setoutputsize(1000)
            cursor.setoutputsize(2000, 0)


def table(connection):
    connection.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name text, price decimal(8,2), day date, "
        "seen timestamp, raw bytea, share double precision, is_new boolean)"
    )


def test_values_come_back_as_they_were_given():
    row = (
        1, "Käse", decimal.Decimal("12.50"), datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, 30, 0, 5), b"\x00\xff", 0.1, True,
    )
    with dbapi.connect() as connection:
        table(connection)
        cursor = connection.cursor()
        cursor.executemany(
            "INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [row, (2,) + (None,) * 7]
        )
        assert cursor.rowcount == 2
        assert cursor.description is None
        cursor.execute("SELECT * FROM item ORDER BY id")
        assert cursor.fetchall() == [row, (2,) + (None,) * 7]
        kinds = [column[1] for column in cursor.description]
        expected = [
            dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.DATETIME, dbapi.BINARY,
            dbapi.NUMBER, dbapi.NUMBER,
        ]
        assert kinds == expected
        for column, value in zip(cursor.description, row, strict=True):
            found = cursor.execute(f"SELECT id FROM item WHERE {column[0]} = ?", (value,))
            assert found.fetchall() == [(1,)], column


def test_lists_are_values_beside_any():
    with dbapi.connect() as connection:
        table(connection)
        insert = "INSERT INTO item (id, name) VALUES (?, ?)"
        connection.cursor().executemany(insert, [(1, "a"), (2, None), (3, "c")])

        def found(condition, values):
            statement = f"SELECT id FROM item WHERE {condition} ORDER BY id"
            return [key for key, in connection.execute(statement, (values,)).fetchall()]

        assert found("id = ANY(?)", [3, 1, 9, None]) == [1, 3]
        assert found("id = ANY(?)", []) == []
        assert found("id <> ALL(?)", [1]) == [2, 3]
        assert found("name = ANY(?)", ["c", "x"]) == [3]
        with pytest.raises(dbapi.ProgrammingError, match="parameter 1 is a object"):
            connection.execute("SELECT 1 = ANY(?)", ([object()],))


def test_a_failed_statement_dooms_its_transaction():
    connection = dbapi.connect()
    table(connection)
    connection.execute("INSERT INTO item (id) VALUES (1)")
    connection.commit()
    connection.execute("INSERT INTO item (id) VALUES (2)")
    with pytest.raises(connection.IntegrityError) as raised:
        connection.execute("INSERT INTO item (id) VALUES (1)")
    assert isinstance(raised.value.cause, atolldb.DuplicateKey)
    with pytest.raises(dbapi.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(dbapi.OperationalError):
        connection.commit()
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (1,)
    with pytest.raises(dbapi.IntegrityError, match="values 2"):
        connection.cursor().executemany("INSERT INTO item (id) VALUES (?)", [(5,), (1,)])
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (1,)


def test_errors_have_the_classes_of_the_specification():
    connection = dbapi.connect()
    table(connection)
    connection.autocommit = True
    for statement, kind in [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT * FROM nothing", dbapi.ProgrammingError),
        ("SELECT nothing FROM item", dbapi.ProgrammingError),
        ("INSERT INTO item (id) VALUES ('x')", dbapi.DataError),
        ("INSERT INTO item (id) VALUES (NULL)", dbapi.IntegrityError),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", dbapi.NotSupportedError),
        ("SELECT ?", dbapi.ProgrammingError),
    ]:
        with pytest.raises(kind):
            connection.execute(statement)
    for values in [([object()],), {"name": 1}]:
        with pytest.raises(dbapi.ProgrammingError, match="a tuple or a list|is a object"):
            connection.execute("SELECT ?", values)
    connection.database.close()
    for call in [connection.rollback, connection.commit, lambda: connection.execute("SELECT 1")]:
        with pytest.raises(dbapi.InterfaceError, match="its database is") as raised:
            call()
        assert isinstance(raised.value.cause, atolldb.Closed)
    connection.close()
    with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
        connection.execute("SELECT 1")


def test_a_definition_is_part_of_its_transaction():
    connection = dbapi.connect()
    connection.execute("\n create table t (id int primary key)")
    connection.commit()
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("CREATE TABLE u (id int PRIMARY KEY)")
    connection.execute("DROP TABLE t")
    connection.rollback()
    assert connection.database.tables == ["t"]
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connection.execute("DROP TABLE t")
    connection.commit()
    assert connection.database.tables == []


def test_isolation_is_that_of_the_next_transactions():
    connection = dbapi.connect()
    assert connection.isolation == "read committed"
    connection.isolation = "SERIALIZABLE"
    assert connection.isolation == "serializable"
    assert connection.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    with pytest.raises(dbapi.DataError, match="default_transaction_isolation"):
        connection.isolation = "o'clock"
    assert dbapi.connect(scheme="SILO").isolation == "serializable"


def test_options_are_those_of_the_first_connection(tmp_path):
    one = dbapi.connect(tmp_path / "db", durability="group")
    with pytest.raises(dbapi.InterfaceError, match="is open in this process with another durability"):
        dbapi.connect(tmp_path / "db", durability="none")
    for same in [{}, {"durability": "group"}]:
        dbapi.connect(tmp_path / "db", **same).close()
    with pytest.raises(dbapi.InterfaceError, match="options already"):
        dbapi.connect(database=one.database, durability="none")
    one.close()


def test_connections_to_one_folder_share_its_database(tmp_path):
    one, two = dbapi.connect(tmp_path / "db"), dbapi.connect(str(tmp_path / "db"))
    table(one)
    one.execute("INSERT INTO item (id) VALUES (7)")
    assert two.execute("SELECT count(*) FROM item").fetchone() == (0,)
    one.commit()
    assert two.execute("SELECT count(*) FROM item").fetchone() == (1,)
    one.close()
    assert two.execute("SELECT id FROM item").fetchall() == [(7,)]
    two.close()
    with dbapi.connect(tmp_path / "db") as again:
        assert again.execute("SELECT id FROM item").fetchall() == [(7,)]
    again.close()


def test_a_writer_waits_for_another_connection():
    database = atolldb.create()
    connections = [dbapi.connect(database=database) for _ in range(8)]
    table(connections[0])
    connections[0].execute("INSERT INTO item (id, share) VALUES (1, 0)")
    connections[0].commit()

    def work(connection):
        for _ in range(50):
            connection.execute("UPDATE item SET share = share + ? WHERE id = ?", (1.0, 1))
            connection.commit()

    threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connections[0].execute("SELECT share FROM item").fetchall() == [(400.0,)]


def test_transactions_as_blocks_commit_or_leave_nothing():
    db = atolldb.create()
    db.sql("CREATE TABLE t (id int PRIMARY KEY, v int)")
    with db.transaction() as tx:
        assert tx.executemany("INSERT INTO t VALUES (?, ?)", [(at, at) for at in range(10)]) == 10
        with pytest.raises(atolldb.DuplicateKey), tx.savepoint():
            tx.sql("UPDATE t SET v = 100")
            tx.sql("INSERT INTO t VALUES (1, 1)")
        assert tx.sql("SELECT sum(v) FROM t").fetchone() == (45,)
        rows = [row for row in tx.sql("SELECT id FROM t WHERE v < $1 ORDER BY id DESC", [3])]
        assert rows == [(2,), (1,), (0,)]
    with pytest.raises(ZeroDivisionError), db.transaction(isolation="serializable") as tx:
        tx.sql("DELETE FROM t")
        raise ZeroDivisionError
    with pytest.raises(atolldb.SqlError, match="rolled back"), db.transaction() as tx:
        tx.sql("DELETE FROM t WHERE id = ?", (1,))
        with pytest.raises(atolldb.SqlError):
            tx.sql("SELECT nothing")
    with pytest.raises(atolldb.SqlError), db.transaction(read_only=True) as tx:
        tx.sql("DELETE FROM t")
    assert db.sql("SELECT count(*) FROM t").fetchall() == [(10,)]


def test_a_database_in_a_folder_is_there_again(tmp_path):
    with atolldb.open(tmp_path / "db", durability="group") as db:
        db.sql("CREATE TABLE t (id int PRIMARY KEY)")
        db.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        db.checkpoint()
        db.sql("DELETE FROM t WHERE id = 1")
    with atolldb.open(str(tmp_path / "db")) as db:
        assert db.sql("SELECT id FROM t").fetchall() == [(2,)]
    with pytest.raises(atolldb.InvalidValue):
        atolldb.open(tmp_path / "db", durability="sometimes")
