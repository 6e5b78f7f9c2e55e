"""pg8000, a client in pure Python with its own protocol: native and DB-API interfaces."""

import datetime
import decimal
import io
import uuid

import pg8000
import pg8000.dbapi
import pg8000.native
from checks import DATABASE, PLACE, SOCKETS, check, equal, main, refused, with_connection

UTC = datetime.UTC
VALUES = {
    "boolean": [True, False],
    "integer": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "double precision": [0.1, -1e300, float("inf"), 5e-324],
    "numeric(20,4)": [decimal.Decimal("1234567890123456.7891"), decimal.Decimal("-0.0001")],
    "text": ["", "Grüße, 東京 🦀", "quote ' and \\ backslash", "line\nbreak"],
    "varchar(12)": ["twelve chars"],
    "bytea": [b"", bytes(range(256))],
    "date": [datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)],
    "time": [datetime.time(23, 59, 59, 999999)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "timestamptz": [datetime.datetime(2024, 3, 31, 1, 59, 59, 1, tzinfo=UTC)],
    "interval": [datetime.timedelta(days=3, seconds=4, microseconds=5)],
    "uuid": [uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")],
    "json": [{"a": [1, None]}],
    "jsonb": [{"a": [1, None]}],
    "integer[]": [[], [1, None, 3]],
    "text[]": [["a", 'b"c', "NULL", None, ""]],
    "numeric(6,2)[]": [[decimal.Decimal("1.50"), None]],
    "uuid[]": [[uuid.UUID(int=1)]],
}


def connect(**more):
    place = {**PLACE, "database": DATABASE, "timeout": 30, **more}
    return pg8000.native.Connection(**place)


def state(error):
    return error.args[0].get("C") if error.args and isinstance(error.args[0], dict) else None


def dbapi():
    return pg8000.dbapi.connect(**PLACE, database=DATABASE)


@check("the Unix socket")
def _():
    place = {**PLACE, "unix_sock": f"{SOCKETS}/.s.PGSQL.{PLACE['port']}"}
    del place["host"], place["port"]
    with pg8000.native.Connection(**place, database=DATABASE) as connection:
        equal(connection.run("SELECT current_user"), [[PLACE["user"]]])


@check("a wrong password is refused")
def _():
    with refused(pg8000.DatabaseError, "28P01", of=state):
        connect(password="wrong")


def trip(kind, values):
    @check(f"round trip of {kind}")
    def _(connection):
        connection.run(f'CREATE TABLE "{kind}" (id serial PRIMARY KEY, v {kind})')
        for value in [*values, None]:
            connection.run(f'INSERT INTO "{kind}" (v) VALUES (:v)', v=value)
        equal(
            [row[0] for row in connection.run(f'SELECT v FROM "{kind}" ORDER BY id')],
            [*values, None],
        )


for kind, values in VALUES.items():
    trip(kind, values)


@check("columns and counts of rows")
def _(connection):
    connection.run("CREATE TABLE counted (id int PRIMARY KEY, v text)")
    connection.run("INSERT INTO counted VALUES (1, 'a'), (2, 'b')")
    equal(connection.row_count, 2)
    connection.run("SELECT id, v AS name FROM counted")
    equal(
        [(column["name"], column["type_oid"]) for column in connection.columns],
        [("id", 23), ("name", 25)],
    )


@check("parameters whose place gives no type")
def _(connection):
    equal(
        connection.run("SELECT :a, :b || '!', coalesce(:c, 'none')", a="x", b="y", c=None),
        [["x", "y!", "none"]],
    )
    equal(connection.run("SELECT CAST(:n AS int) + 1", n=2), [[3]])


@check("prepared statements")
def _(connection):
    connection.run("CREATE TABLE prepared (id int PRIMARY KEY, v text)")
    insert = connection.prepare("INSERT INTO prepared VALUES (:id, :v) RETURNING id")
    equal([insert.run(id=at, v=f"v{at}")[0][0] for at in range(50)], list(range(50)))
    insert.close()


@check("transactions and errors")
def _(connection):
    connection.run("CREATE TABLE err (id int CONSTRAINT err_key PRIMARY KEY)")
    connection.run("START TRANSACTION")
    connection.run("INSERT INTO err VALUES (1)")
    try:
        connection.run("INSERT INTO err VALUES (:id)", id=1)
    except pg8000.DatabaseError as error:
        told = error.args[0]
        equal((told["C"], told["S"], told["V"]), ("23505", "ERROR", "ERROR"))
    with refused(pg8000.DatabaseError, "25P02", of=state):
        connection.run("SELECT 1")
    connection.run("ROLLBACK")
    equal(connection.run("SELECT count(*) FROM err"), [[0]])


@check("errors name the constraint")
def _(connection):
    connection.run("CREATE TABLE named (id int CONSTRAINT named_key PRIMARY KEY)")
    connection.run("INSERT INTO named VALUES (1)")
    try:
        connection.run("INSERT INTO named VALUES (1)")
    except pg8000.DatabaseError as error:
        told = error.args[0]
        equal(
            [told.get(key) for key in "DstnM"],
            [
                "Key (id)=(1) already exists.",
                "public",
                "named",
                "named_key",
                'duplicate key value violates unique constraint "named_key"',
            ],
        )


@check("COPY in both directions")
def _(connection):
    connection.run("CREATE TABLE copied (id int, t text)")
    connection.run("COPY copied FROM STDIN WITH (FORMAT CSV)", stream=io.StringIO('1,"a,b"\n2,\n'))
    out = io.BytesIO()
    connection.run("COPY copied TO STDOUT WITH (FORMAT CSV, HEADER)", stream=out)
    equal(out.getvalue(), b'id,t\n1,"a,b"\n2,\n')
    connection.run("COPY copied FROM STDIN", stream=["3\tx\n", "4\t\\N\n"])
    equal(connection.run("SELECT t FROM copied WHERE id > 2 ORDER BY id"), [["x"], [None]])


@check("notifications and notices")
def _(connection):
    connection.run("LISTEN orders")
    connection.run("NOTIFY orders, 'first'")
    connection.run("SELECT 1")
    equal([one[1:] for one in connection.notifications], [("orders", "first")])
    connection.run("DROP TABLE IF EXISTS never_there")
    equal(connection.notices[-1][b"M"], b'table "never_there" does not exist, skipping')


@check("the DB-API, with executemany and fetchmany")
def _():
    connection = dbapi()
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE api (id int PRIMARY KEY, v text)")
    cursor.executemany("INSERT INTO api VALUES (%s, %s)", [(at, f"v{at}") for at in range(100)])
    connection.commit()
    cursor.execute("SELECT id FROM api WHERE v LIKE %s ORDER BY id", ("v1%",))
    equal(len(cursor.fetchmany(5)), 5)
    equal(len(cursor.fetchall()), 6)
    with refused(pg8000.dbapi.DatabaseError, "42703", of=state):
        cursor.execute("SELECT missing FROM api")
    connection.rollback()
    connection.autocommit = True
    cursor.execute("VACUUM")
    connection.close()


@check("two phases are refused")
def _():
    connection = dbapi()
    connection.tpc_begin(connection.xid(1, "gid", "branch"))
    connection.cursor().execute("CREATE TABLE two_phases (id int)")
    with refused(pg8000.DatabaseError, "55000", of=state):
        connection.tpc_prepare()
    connection.close()


@check("many rows")
def _(connection):
    rows = connection.run("SELECT n, 'row ' || n FROM generate_series(1, 50000) AS g(n) ORDER BY 1")
    equal((len(rows), rows[-1]), (50000, [50000, "row 50000"]))


main("pg8000", pg8000.__version__, with_connection(connect))
