"""psycopg2: text only, values put into statements by the client; cursors, COPY, notifications."""

import datetime
import decimal
import io
import select
import threading
import time
import uuid

import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool
from checks import DATABASE, PLACE, check, equal, main, refused, with_connection
from psycopg2 import errors, sql

UTC = datetime.UTC
VALUES = {
    "boolean": [True, False],
    "bigint": [-(2**63), 2**63 - 1],
    "double precision": [0.1, -1e300, float("inf"), 5e-324],
    "numeric(20,4)": [decimal.Decimal("1234567890123456.7891"), decimal.Decimal("-0.0001")],
    "text": ["", "Grüße, 東京 🦀", "quote ' and \\ backslash", "percent % sign", "line\nbreak"],
    "char(4)": ["ab  "],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "time": [datetime.time(23, 59, 59, 999999)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "timestamptz": [datetime.datetime(2024, 3, 31, 1, 59, 59, 1, tzinfo=UTC)],
    "interval": [datetime.timedelta(days=3, seconds=4, microseconds=5), -datetime.timedelta(1)],
    "integer[]": [[], [1, None, 3]],
    "text[]": [["a", 'b"c', "NULL", None, "", "{}"]],
    "numeric(6,2)[]": [[decimal.Decimal("1.50"), None]],
    "date[]": [[datetime.date(2024, 1, 1)]],
}


def connect(**more):
    return psycopg2.connect(**PLACE, dbname=DATABASE, connect_timeout=10, **more)


def pgcode(error):
    return error.pgcode


def trip(kind, values):
    @check(f"round trip of {kind}")
    def _(connection):
        cursor, table = connection.cursor(), sql.Identifier(kind)
        create = sql.SQL("CREATE TABLE {} (id serial PRIMARY KEY, v {})")
        cursor.execute(create.format(table, sql.SQL(kind)))
        for value in [*values, None]:
            cursor.execute(sql.SQL("INSERT INTO {} (v) VALUES (%s)").format(table), [value])
        cursor.execute(sql.SQL("SELECT v FROM {} ORDER BY id").format(table))
        equal([row[0] for row in cursor.fetchall()], [*values, None])


for kind, values in VALUES.items():
    trip(kind, values)


@check("bytea")
def _(connection):
    cursor, blob = connection.cursor(), bytes(range(256)) * 100
    cursor.execute("CREATE TABLE blobs (b bytea)")
    cursor.execute("INSERT INTO blobs VALUES (%s)", [psycopg2.Binary(blob)])
    cursor.execute("SELECT b, length(b) FROM blobs WHERE b = %s", [psycopg2.Binary(blob)])
    seen, length = cursor.fetchone()
    equal((bytes(seen) == blob, length), (True, len(blob)))


@check("uuid, json and jsonb")
def _(connection):
    psycopg2.extras.register_uuid(conn_or_curs=connection)
    cursor, document = connection.cursor(), {"name": "Ada", "tags": ["x", None, 1.5], "%": "%"}
    cursor.execute("CREATE TABLE documents (u uuid PRIMARY KEY, j json, b jsonb)")
    values = [uuid.UUID(int=7), psycopg2.extras.Json(document), psycopg2.extras.Json(document)]
    cursor.execute("INSERT INTO documents VALUES (%s, %s, %s)", values)
    cursor.execute("SELECT u, j, b FROM documents WHERE b ->> 'name' = %s", ["Ada"])
    equal(cursor.fetchone(), (uuid.UUID(int=7), document, document))
    cursor.execute("SELECT count(*) FROM documents WHERE u = ANY(%s)", [[uuid.UUID(int=7)]])
    equal(cursor.fetchone(), (1,))


@check("tuples for IN, lists for ANY")
def _(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE listed (id int PRIMARY KEY, name text)")
    cursor.execute("INSERT INTO listed VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    cursor.execute("SELECT id FROM listed WHERE id IN %s AND name = ANY(%s)", [(1, 2), ["b", "c"]])
    equal(cursor.fetchall(), [(2,)])
    cursor.execute("SELECT id FROM listed WHERE (id, name) IN %s", [((1, "a"), (2, "x"))])
    equal(cursor.fetchall(), [(1,)])


@check("execute_values and execute_batch")
def _(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE batch (id int PRIMARY KEY, v text, n numeric(9,2))")
    rows = [(at, f"v'{at}", decimal.Decimal(at) / 4) for at in range(5000)]
    found = psycopg2.extras.execute_values(
        cursor, "INSERT INTO batch VALUES %s RETURNING id", rows, page_size=1000, fetch=True
    )
    equal(len(found), 5000)
    psycopg2.extras.execute_batch(
        cursor, "UPDATE batch SET v = %s WHERE id = %s", [(f"w{at}", at) for at in range(500)]
    )
    # Rows as VALUES in a change, with types that their texts do not say.
    psycopg2.extras.execute_values(
        cursor,
        "UPDATE batch SET v = new.v FROM (VALUES %s) AS new (id, v) WHERE batch.id = new.id",
        [(at, f"u{at}") for at in range(10)],
    )
    cursor.execute("SELECT v, n FROM batch WHERE id IN (5, 20, 4999) ORDER BY id")
    equal(cursor.fetchall(), [("u5", decimal.Decimal("1.25")), ("w20", decimal.Decimal("5.00")),
                              ("v'4999", decimal.Decimal("1249.75"))])  # fmt: skip


@check("errors by their classes")
def _(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE parents (id int PRIMARY KEY)")
    cursor.execute(
        "CREATE TABLE err (id int PRIMARY KEY, v int NOT NULL CHECK (v > 0),"
        " parent int REFERENCES parents)"
    )
    cursor.execute("INSERT INTO parents VALUES (1); INSERT INTO err VALUES (1, 1, 1)")
    connection.commit()
    for statement, kind, state in (
        ("INSERT INTO err VALUES (1, 1, 1)", errors.UniqueViolation, "23505"),
        ("INSERT INTO err VALUES (2, NULL, 1)", errors.NotNullViolation, "23502"),
        ("INSERT INTO err VALUES (2, 0, 1)", errors.CheckViolation, "23514"),
        ("INSERT INTO err VALUES (2, 1, 2)", errors.ForeignKeyViolation, "23503"),
        ("DELETE FROM parents", errors.ForeignKeyViolation, "23503"),
        ("SELECT 1/0", errors.DivisionByZero, "22012"),
        ("SELECT * FROM missing", errors.UndefinedTable, "42P01"),
        ("SELECT 'x'::int", errors.InvalidTextRepresentation, "22P02"),
    ):
        with refused(kind, state, of=pgcode):
            cursor.execute(statement)
        with refused(errors.InFailedSqlTransaction, "25P02", of=pgcode):
            cursor.execute("SELECT 1")
        connection.rollback()


@check("errors name the constraint")
def _(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE named (id int CONSTRAINT named_key PRIMARY KEY)")
    cursor.execute("INSERT INTO named VALUES (1)")
    try:
        cursor.execute("INSERT INTO named VALUES (1)")
    except errors.UniqueViolation as error:
        equal((error.diag.constraint_name, error.diag.table_name), ("named_key", "named"))
        equal(error.diag.message_detail, "Key (id)=(1) already exists.")


@check("the connection as a context, and savepoints")
def _(connection):
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE contexts (id int PRIMARY KEY)")
        cursor.execute("INSERT INTO contexts VALUES (1)")
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO contexts VALUES (2)")
            cursor.execute("INSERT INTO contexts VALUES (1)")
    except errors.UniqueViolation:
        pass
    with connection, connection.cursor() as cursor:
        cursor.execute("SAVEPOINT a")
        with refused(errors.UniqueViolation):
            cursor.execute("INSERT INTO contexts VALUES (1)")
        cursor.execute("ROLLBACK TO SAVEPOINT a")
        cursor.execute("INSERT INTO contexts VALUES (3)")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM contexts ORDER BY id")
        equal(cursor.fetchall(), [(1,), (3,)])


@check("sessions of each level")
def _(connection):
    for level in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        connection.set_session(isolation_level=level)
        cursor = connection.cursor()
        cursor.execute("SHOW transaction_isolation")
        equal(cursor.fetchone(), (level.lower(),))
        connection.rollback()
    connection.set_session(isolation_level="SERIALIZABLE", readonly=True, deferrable=True)
    with refused(errors.ReadOnlySqlTransaction, "25006", of=pgcode):
        connection.cursor().execute("CREATE TABLE not_made (id int)")
    connection.rollback()
    connection.set_session(isolation_level="DEFAULT", readonly=False, autocommit=True)
    connection.cursor().execute("CREATE TABLE made (id int)")


@check("named cursors")
def _(connection):
    with connection.cursor("walk") as cursor:
        cursor.itersize = 500
        cursor.execute("SELECT n, 'row ' || n FROM generate_series(1, %s) AS g(n)", [3000])
        equal(sum(row[0] for row in cursor), 4501500)


@check("named cursors that scroll, and that are held")
def _(connection):
    with connection.cursor("scrolled", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 100) AS g(n)")
        cursor.scroll(50)
        equal(cursor.fetchone(), (51,))
        cursor.scroll(-10)
        equal(cursor.fetchone(), (42,))
    with connection.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 100) AS g(n)")
        connection.commit()
        equal(len(cursor.fetchall()), 100)


@check("COPY in both directions")
def _(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE copied (id int, t text, at timestamptz)")
    text = "1\tplain\t2024-01-02 00:00:00+00\n2\ttab\\tnew\\nline \\\\ back\t\\N\n3\t\\N\t\\N\n"
    cursor.copy_expert("COPY copied FROM STDIN", io.StringIO(text))
    equal(cursor.rowcount, 3)
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT", out)
    equal(out.getvalue(), text)
    cursor.copy_from(io.StringIO("4|x\n5|\n"), "copied", sep="|", null="", columns=("id", "t"))
    out = io.StringIO()
    cursor.copy_to(out, "copied", sep="|", null="-", columns=("id", "t"))
    equal(out.getvalue().splitlines()[-2:], ["4|x", "5|-"])


@check("rows as dicts and as objects")
def _(connection):
    with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute("SELECT 1 AS a, 'x' AS b")
        equal(dict(cursor.fetchone()), {"a": 1, "b": "x"})
    with connection.cursor(cursor_factory=psycopg2.extras.NamedTupleCursor) as cursor:
        cursor.execute("SELECT 1 AS a")
        equal(cursor.fetchone().a, 1)


@check("a callproc")
def _(connection):
    cursor = connection.cursor()
    cursor.callproc("lower", ["LOUD"])
    equal(cursor.fetchone(), ("loud",))


@check("notifications, waited for by select")
def _(connection):
    connection.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
    connection.cursor().execute("LISTEN orders")
    with connect() as other:
        other.cursor().execute("NOTIFY orders, 'first'; NOTIFY orders, 'second'")
    end = time.monotonic() + 5
    while len(connection.notifies) < 2 and time.monotonic() < end:
        if select.select([connection], [], [], 1)[0]:
            connection.poll()
    equal([one.payload for one in connection.notifies], ["first", "second"])


@check("notices")
def _(connection):
    connection.cursor().execute("DROP TABLE IF EXISTS never_there")
    equal(connection.notices, ['NOTICE:  table "never_there" does not exist, skipping\n'])


@check("a running statement is cancelled")
def _(connection):
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    with refused(errors.QueryCanceled, "57014", of=pgcode):
        connection.cursor().execute("SELECT pg_sleep(20)")
    timer.join()
    connection.rollback()


@check("a pool of threads")
def _(connection):
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE hits (id int PRIMARY KEY, n int)")
        cursor.execute("INSERT INTO hits VALUES (1, 0)")
    pool, wrong = psycopg2.pool.ThreadedConnectionPool(2, 8, **PLACE, dbname=DATABASE), []

    def work():
        own = pool.getconn()
        try:
            for _ in range(25):
                with own, own.cursor() as cursor:
                    cursor.execute("UPDATE hits SET n = n + 1 WHERE id = 1")
        except Exception as error:
            wrong.append(error)
        finally:
            pool.putconn(own)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join(30) for thread in threads]
    assert not wrong, wrong[0]
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM hits")
        equal(cursor.fetchone(), (200,))
    pool.closeall()


@check("two phases are refused")
def _(connection):
    connection.tpc_begin(connection.xid(1, "gid", "branch"))
    connection.cursor().execute("CREATE TABLE two_phases (id int)")
    with refused(psycopg2.Error, "55000", of=pgcode):
        connection.tpc_prepare()


main("psycopg2", psycopg2.__version__.split()[0], with_connection(connect))
