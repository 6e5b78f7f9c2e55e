"""psycopg 3: text and binary, pipelines, cursors of both sides, COPY, notifications, errors."""

import datetime
import decimal
import ipaddress
import json
import threading
import time
import uuid

import psycopg
from checks import DATABASE, PLACE, SOCKETS, check, equal, main, refused, with_connection
from psycopg import errors, rows, sql
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb
from psycopg.types.numeric import Int8
from psycopg.types.range import Range

ZONE = datetime.timezone(datetime.timedelta(hours=2))
VALUES = {
    "boolean": [True, False],
    "smallint": [-32768, 32767],
    "integer": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "real": [1.5, -0.25, float("inf")],
    "double precision": [0.1, -1e300, float("-inf"), 5e-324],
    "numeric(20,4)": [decimal.Decimal("1234567890123456.7891"), decimal.Decimal("-0.0001")],
    "text": ["", "Grüße, 東京 🦀", "quote ' and \\ backslash", "line\nbreak\ttab"],
    "varchar(12)": ["twelve chars"],
    "bytea": [b"", bytes(range(256))],
    "date": [datetime.date(1970, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "time": [datetime.time(0), datetime.time(23, 59, 59, 999999)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "timestamptz": [datetime.datetime(2024, 3, 31, 1, 59, 59, 1, tzinfo=ZONE)],
    "interval": [datetime.timedelta(days=3, seconds=4, microseconds=5), -datetime.timedelta(1)],
    "uuid": [uuid.UUID(int=0), uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")],
    "integer[]": [[], [1, None, 3], [[1, 2], [3, 4]]],
    "text[]": [["a", 'b"c', "NULL", None, ""]],
    "numeric(6,2)[]": [[decimal.Decimal("1.50"), None]],
    "timestamptz[]": [[datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)]],
}
DOCUMENT = {"name": "Ada", "tags": ["x", None, 1.5], "nested": {"deep": True}, "ünï": "\u00e9"}


def connect(**more):
    return psycopg.connect(**PLACE, dbname=DATABASE, connect_timeout=10, **more)


def cursors(connection):
    """A cursor for each form of results."""
    for binary in (False, True):
        yield binary, connection.cursor(binary=binary)


@check("server version and parameters")
def _(connection):
    assert connection.info.server_version // 10000 >= 15, connection.info.server_version
    equal(connection.info.parameter_status("server_encoding"), "UTF8")
    equal(connection.info.parameter_status("standard_conforming_strings"), "on")
    equal(connection.info.parameter_status("integer_datetimes"), "on")
    equal(connection.info.encoding, "utf-8")


@check("the Unix socket with a password role")
def _():
    with psycopg.connect(**{**PLACE, "host": SOCKETS}, dbname=DATABASE) as connection:
        equal(connection.execute("SELECT current_user").fetchone(), (PLACE["user"],))


@check("a wrong password is refused")
def _():
    try:
        psycopg.connect(**{**PLACE, "password": "wrong"}, dbname=DATABASE)
    except psycopg.OperationalError as error:
        assert "password authentication failed" in str(error), error
    else:
        raise AssertionError("connected")


@check("an unknown database is refused")
def _():
    try:
        psycopg.connect(**PLACE, dbname="nowhere")
    except psycopg.OperationalError as error:
        assert 'database "nowhere" does not exist' in str(error), error
    else:
        raise AssertionError("connected")


@check("application_name and options of the start")
def _():
    with connect(application_name="shop", options="-c statement_timeout=1234") as connection:
        equal(connection.execute("SHOW application_name").fetchone(), ("shop",))
        equal(connection.execute("SHOW statement_timeout").fetchone(), ("1234ms",))


def trip(kind, values, form):
    """A check that values of a type, as parameters in this form, come back in both forms."""

    @check(f"round trip of {kind} in {form}")
    def _(connection):
        table = sql.Identifier(f"{kind} {form}")
        mark = sql.SQL("%b" if form == "binary" else "%t")
        create = sql.SQL("CREATE TABLE {} (id serial PRIMARY KEY, v {})")
        connection.execute(create.format(table, sql.SQL(kind)))
        insert = sql.SQL("INSERT INTO {} (v) VALUES ({})").format(table, mark)
        for value in [*values, None]:
            connection.execute(insert, [value])
        for binary, cursor in cursors(connection):
            cursor.execute(sql.SQL("SELECT v FROM {} ORDER BY id").format(table))
            seen = [row[0] for row in cursor.fetchall()]
            assert seen == [*values, None], f"binary={binary}: {seen}"


for kind, values in VALUES.items():
    trip(kind, values, "text")
    trip(kind, values, "binary")


@check("json and jsonb")
def _(connection):
    connection.execute("CREATE TABLE documents (id int PRIMARY KEY, j json, b jsonb)")
    connection.execute(
        "INSERT INTO documents VALUES (1, %s, %s)", [Json(DOCUMENT), Jsonb(DOCUMENT)]
    )
    connection.execute("INSERT INTO documents VALUES (2, %b, %b)", [Json([]), Jsonb(None)])
    for _, cursor in cursors(connection):
        cursor.execute("SELECT j, b FROM documents ORDER BY id")
        equal(cursor.fetchall(), [(DOCUMENT, DOCUMENT), ([], None)])
    cursor = connection.execute(
        "SELECT b->>'name', b#>>'{nested,deep}' FROM documents WHERE b @> %s",
        [Jsonb({"name": "Ada"})],
    )
    equal(cursor.fetchall(), [("Ada", "true")])
    equal(json.loads(json.dumps(DOCUMENT)), DOCUMENT)


@check("parameters whose place gives no type")
def _(connection):
    now = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    values = [1, 2**40, 2**70, 1.5, decimal.Decimal("1.50"), True, now, uuid.UUID(int=5)]
    for binary, cursor in cursors(connection):
        cursor.execute("SELECT " + ", ".join(["%s"] * len(values)), values)
        seen = cursor.fetchone()
        assert list(seen) == values, f"binary={binary}: {seen}"
        cursor.execute("SELECT %s, %s", ["text", None])
        equal(cursor.fetchone(), ("text", None))


@check("columns are described")
def _(connection):
    cursor = connection.execute(
        "SELECT 1::int AS a, 'x'::varchar(7) AS b, 1.5::numeric(9,3) AS c, now() AS d, ARRAY[1] e"
    )
    equal([column.name for column in cursor.description], ["a", "b", "c", "d", "e"])
    equal([column.type_code for column in cursor.description], [23, 1043, 1700, 1184, 1007])
    equal((cursor.description[2].precision, cursor.description[2].scale), (9, 3))
    equal(cursor.description[1].display_size, 7)


@check("status messages and counts of rows")
def _(connection):
    connection.execute("CREATE TABLE counted (id int PRIMARY KEY)")
    said = [
        ("INSERT INTO counted VALUES (1), (2), (3), (4), (5)", "INSERT 0 5", 5),
        ("UPDATE counted SET id = id + 10 WHERE id > 2", "UPDATE 3", 3),
        ("DELETE FROM counted WHERE id = 1", "DELETE 1", 1),
        ("SELECT * FROM counted", "SELECT 4", 4),
    ]
    for statement, status, count in said:
        cursor = connection.execute(statement)
        equal((cursor.statusmessage, cursor.rowcount), (status, count))


@check("functions that give rows, in a transaction")
def _(connection):
    connection.execute("CREATE TABLE seeded (id int PRIMARY KEY, name text)")
    connection.execute("INSERT INTO seeded SELECT n, 'n' || n FROM generate_series(1, 5) AS g(n)")
    connection.execute("INSERT INTO seeded SELECT generate_series(6, 9), 'x'")
    equal(connection.execute("SELECT count(*) FROM seeded").fetchone(), (9,))


@check("RETURNING, ON CONFLICT and executemany")
def _(connection):
    connection.execute("CREATE TABLE stock (sku text PRIMARY KEY, amount int NOT NULL)")
    cursor = connection.cursor()
    cursor.executemany(
        "INSERT INTO stock VALUES (%s, %s) RETURNING sku",
        [(f"s{at}", at) for at in range(20)],
        returning=True,
    )
    seen = []
    for _ in range(20):
        seen.append(cursor.fetchone()[0])
        cursor.nextset()
    equal(seen, [f"s{at}" for at in range(20)])
    cursor.execute(
        "INSERT INTO stock VALUES ('s3', 100), ('new', 1) ON CONFLICT (sku) "
        "DO UPDATE SET amount = stock.amount + excluded.amount RETURNING sku, amount"
    )
    equal(cursor.fetchall(), [("s3", 103), ("new", 1)])
    cursor.execute("INSERT INTO stock VALUES ('s4', 0) ON CONFLICT DO NOTHING")
    equal(cursor.rowcount, 0)


@check("several statements in one text")
def _(connection):
    cursor = connection.execute("SELECT 1; SELECT 'two'; SELECT 3.0")
    seen = [cursor.fetchone()[0]]
    while cursor.nextset():
        seen.append(cursor.fetchone()[0])
    equal(seen, [1, "two", decimal.Decimal("3.0")])


@check("rows as dicts and as objects")
def _(connection):
    with connection.cursor(row_factory=rows.dict_row) as cursor:
        equal(cursor.execute("SELECT 1 AS a, 'x' AS b").fetchone(), {"a": 1, "b": "x"})
    with connection.cursor(row_factory=rows.namedtuple_row) as cursor:
        equal(cursor.execute("SELECT 1 AS a").fetchone().a, 1)


ERRORS = [
    ("SELECT 1/0", errors.DivisionByZero, "22012"),
    ("SELECT * FROM missing", errors.UndefinedTable, "42P01"),
    ("SELECT missing FROM err", errors.UndefinedColumn, "42703"),
    ("SELEC 1", errors.SyntaxError, "42601"),
    ("INSERT INTO err VALUES (1, 1, 1)", errors.UniqueViolation, "23505"),
    ("INSERT INTO err VALUES (2, NULL, 1)", errors.NotNullViolation, "23502"),
    ("INSERT INTO err VALUES (2, 5, 99)", errors.ForeignKeyViolation, "23503"),
    ("INSERT INTO err VALUES (2, -1, 1)", errors.CheckViolation, "23514"),
    ("SELECT 'x'::int", errors.InvalidTextRepresentation, "22P02"),
    ("SELECT 2147483647::int + 1::int", errors.NumericValueOutOfRange, "22003"),
    ("SELECT '2024-13-01'::date", errors.DatetimeFieldOverflow, "22008"),
    ("SELECT no_such_function(1)", errors.UndefinedFunction, "42883"),
    ("CREATE TABLE err (id int)", errors.DuplicateTable, "42P07"),
    ("INSERT INTO short VALUES ('longer than three')", errors.StringDataRightTruncation, "22001"),
    ("SELECT 1 WHERE 'text'", errors.InvalidTextRepresentation, "22P02"),
    ("SELECT a.v FROM err a, err b WHERE v = 1", errors.AmbiguousColumn, "42702"),
    ("SELECT v, count(*) FROM err", errors.GroupingError, "42803"),
    ("SELECT (SELECT id FROM two)", errors.CardinalityViolation, "21000"),
    ("DROP TABLE err_parent", errors.DependentObjectsStillExist, "2BP01"),
    ("SET no_such_setting = 1", errors.UndefinedObject, "42704"),
    ("ROLLBACK TO SAVEPOINT missing", errors.InvalidSavepointSpecification, "3B001"),
]


@check("errors with their SQLSTATE")
def _(connection):
    connection.execute("CREATE TABLE err_parent (id int PRIMARY KEY)")
    connection.execute(
        "CREATE TABLE err (id int PRIMARY KEY, v int NOT NULL CONSTRAINT positive CHECK (v > 0),"
        " parent int REFERENCES err_parent)"
    )
    connection.execute("CREATE TABLE short (v varchar(3)); CREATE TABLE two (id int)")
    connection.execute("INSERT INTO err_parent VALUES (1); INSERT INTO two VALUES (1), (2)")
    connection.execute("INSERT INTO err VALUES (1, 1, 1)")
    connection.commit()
    wrong = []
    for statement, kind, state in ERRORS:
        try:
            connection.execute(statement).fetchall()
            wrong.append(f"{statement}: no error")
        except psycopg.Error as error:
            if error.sqlstate != state or not isinstance(error, kind):
                wrong.append(f"{statement}: {error.sqlstate} instead of {state}")
        connection.rollback()
    assert not wrong, "; ".join(wrong)


@check("errors name the constraint, the table and the column")
def _(connection):
    connection.execute(
        "CREATE TABLE named (id int CONSTRAINT named_key PRIMARY KEY, v int NOT NULL,"
        " CONSTRAINT small CHECK (v < 10))"
    )
    connection.execute("INSERT INTO named VALUES (1, 1)")
    seen = []
    for values in ("1, 2", "2, NULL", "2, 11"):
        try:
            with connection.transaction():
                connection.execute(f"INSERT INTO named VALUES ({values})")
        except psycopg.IntegrityError as error:
            about = error.diag
            seen.append(
                (about.schema_name, about.table_name, about.column_name, about.constraint_name)
            )
            if values == "1, 2":
                assert "(id)=(1)" in about.message_detail, about.message_detail
    equal(
        seen,
        [
            ("public", "named", None, "named_key"),
            ("public", "named", "v", None),
            ("public", "named", None, "small"),
        ],
    )


@check("errors have a position")
def _(connection):
    try:
        connection.execute("SELECT id,\n  missing FROM pg_class")
    except errors.UndefinedColumn as error:
        equal(error.diag.statement_position, "8")
    connection.rollback()
    try:
        connection.execute("SELECT 1 FRO x y")
    except errors.SyntaxError as error:
        assert error.diag.statement_position is not None
    else:
        raise AssertionError("no error")


@check("a failed transaction refuses statements until its end")
def _(connection):
    with refused(errors.DivisionByZero, "22012"):
        connection.execute("SELECT 1/0")
    equal(connection.info.transaction_status.name, "INERROR")
    with refused(errors.InFailedSqlTransaction, "25P02"):
        connection.execute("SELECT 1")
    connection.rollback()
    equal(connection.execute("SELECT 1").fetchone(), (1,))


@check("nested transactions and savepoints")
def _(connection):
    connection.execute("CREATE TABLE nested (id int PRIMARY KEY)")
    with connection.transaction():
        connection.execute("INSERT INTO nested VALUES (1)")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO nested VALUES (2)")
                with connection.transaction("inner"):
                    connection.execute("INSERT INTO nested VALUES (3)")
                connection.execute("INSERT INTO nested VALUES (1)")
        except errors.UniqueViolation:
            pass
        connection.execute("INSERT INTO nested VALUES (4)")
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO nested VALUES (5)")
    equal(connection.execute("SELECT id FROM nested ORDER BY id").fetchall(), [(1,), (4,)])


@check("levels of isolation, read only, deferrable")
def _(connection):
    levels = psycopg.IsolationLevel
    for level in (levels.READ_COMMITTED, levels.REPEATABLE_READ, levels.SERIALIZABLE):
        connection.isolation_level = level
        seen = connection.execute("SHOW transaction_isolation").fetchone()[0]
        equal(seen, level.name.lower().replace("_", " "))
        connection.rollback()
    connection.read_only, connection.deferrable = True, True
    with refused(errors.ReadOnlySqlTransaction, "25006"):
        connection.execute("CREATE TABLE not_made (id int)")
    connection.rollback()


@check("serialization failures are errors that are tried again")
def _(connection):
    connection.execute("CREATE TABLE oncall (name text PRIMARY KEY, on_call boolean)")
    connection.execute("INSERT INTO oncall VALUES ('ann', true), ('bob', true)")
    connection.commit()
    with connect() as other:
        for each in (connection, other):
            each.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        failures = 0

        # One of two that read both rows and change one each fails, here or in its thread.
        def leave(of, name):
            nonlocal failures
            try:
                count = of.execute("SELECT count(*) FROM oncall WHERE on_call").fetchone()[0]
                meeting.wait(timeout=10)
                if count > 1:
                    of.execute("UPDATE oncall SET on_call = false WHERE name = %s", [name])
                of.commit()
            except (errors.SerializationFailure, errors.DeadlockDetected):
                failures += 1
                of.rollback()

        meeting = threading.Barrier(2)
        threads = [
            threading.Thread(target=leave, args=arguments)
            for arguments in ((connection, "ann"), (other, "bob"))
        ]
        [thread.start() for thread in threads]
        [thread.join(30) for thread in threads]
        equal(failures, 1)
    equal(connection.execute("SELECT count(*) FROM oncall WHERE on_call").fetchone(), (1,))


@check("a deadlock has one victim")
def _(connection):
    connection.execute("CREATE TABLE dead (id int PRIMARY KEY, v int)")
    connection.execute("INSERT INTO dead VALUES (1, 0), (2, 0)")
    connection.commit()
    with connect() as other:
        victims, meeting = [], threading.Barrier(2)

        def change(of, first, second):
            try:
                of.execute("UPDATE dead SET v = v + 1 WHERE id = %s", [first])
                meeting.wait(timeout=10)
                of.execute("UPDATE dead SET v = v + 1 WHERE id = %s", [second])
                of.commit()
            except errors.DeadlockDetected:
                victims.append(first)
                of.rollback()

        threads = [
            threading.Thread(target=change, args=arguments)
            for arguments in ((connection, 1, 2), (other, 2, 1))
        ]
        [thread.start() for thread in threads]
        [thread.join(30) for thread in threads]
        equal(len(victims), 1)


@check("SELECT FOR UPDATE, NOWAIT and SKIP LOCKED")
def _(connection):
    connection.execute("CREATE TABLE jobs (id int PRIMARY KEY, state text)")
    connection.execute("INSERT INTO jobs VALUES (1, 'new'), (2, 'new'), (3, 'new')")
    connection.commit()
    connection.execute("SELECT * FROM jobs WHERE id = 1 FOR UPDATE")
    with connect() as other:
        with refused(errors.LockNotAvailable, "55P03"):
            other.execute("SELECT * FROM jobs WHERE id = 1 FOR UPDATE NOWAIT")
        other.rollback()
        cursor = other.execute("SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
        equal(cursor.fetchall(), [(2,)])


@check("statement_timeout and lock_timeout")
def _(connection):
    connection.execute("CREATE TABLE waits (id int PRIMARY KEY)")
    connection.execute("INSERT INTO waits VALUES (1)")
    connection.commit()
    connection.execute("SET statement_timeout = '200ms'")
    with refused(errors.QueryCanceled, "57014"):
        connection.execute("SELECT pg_sleep(20)")
    connection.rollback()
    connection.execute("DELETE FROM waits WHERE id = 1")
    with connect() as other:
        other.execute("SET lock_timeout = '200ms'")
        with refused(errors.LockNotAvailable, "55P03"):
            other.execute("DELETE FROM waits WHERE id = 1")


@check("a running statement is cancelled")
def _(connection):
    for cancel in (connection.cancel, lambda: connection.cancel_safe(timeout=5)):
        timer = threading.Timer(0.3, cancel)
        timer.start()
        with refused(errors.QueryCanceled, "57014"):
            connection.execute(
                "SELECT count(*) FROM generate_series(1, 200000000) AS g(n), "
                "generate_series(1, 200000000) AS h(m)"
            )
        timer.join()
        connection.rollback()
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check("idle_in_transaction_session_timeout")
def _(connection):
    connection.execute("SET idle_in_transaction_session_timeout = '200ms'")
    connection.commit()
    connection.execute("SELECT 1")
    time.sleep(1)
    with refused(psycopg.Error, "25P03"):
        connection.execute("SELECT 1")
    assert connection.closed
    with connect() as again:
        equal(again.execute("SELECT 1").fetchone(), (1,))


@check("pg_terminate_backend ends a client, which connects again")
def _(connection):
    victim = connect()
    connection.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
    time.sleep(0.3)
    with refused(psycopg.OperationalError):
        victim.execute("SELECT 1")
    assert victim.closed
    with connect() as again:
        equal(again.execute("SELECT 1").fetchone(), (1,))


@check("prepared statements")
def _(connection):
    connection.prepare_threshold = 1
    connection.execute("CREATE TABLE prepared (id int PRIMARY KEY, v text)")
    for at in range(10):
        connection.execute("INSERT INTO prepared VALUES (%s, %s)", [at, f"v{at}"])
        cursor = connection.execute("SELECT v FROM prepared WHERE id = %s", [at], prepare=True)
        equal(cursor.fetchone(), (f"v{at}",))
    names = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0]
    assert names >= 2, names


@check("a prepared statement whose table has changed")
def _(connection):
    connection.autocommit = True
    connection.execute("CREATE TABLE changing (id int)")
    connection.execute("INSERT INTO changing VALUES (1)")
    for _ in range(2):
        connection.execute("SELECT * FROM changing", prepare=True)
    with connect() as other:
        other.execute("ALTER TABLE changing ADD COLUMN v text DEFAULT 'new'")
    # "cached plan must not change result type"
    with refused(errors.FeatureNotSupported, "0A000"):
        connection.execute("SELECT * FROM changing", prepare=True)


@check("DISCARD ALL and DEALLOCATE ALL")
def _(connection):
    connection.autocommit = True
    connection.execute("SELECT 1", prepare=True)
    connection.execute("SET application_name = 'discarded'")
    connection.execute("DEALLOCATE ALL")
    connection.execute("DISCARD ALL")
    equal(connection.execute("SHOW application_name").fetchone(), ("",))
    equal(connection.execute("SELECT 1", prepare=True).fetchone(), (1,))


@check("pipelines")
def _(connection):
    connection.execute("CREATE TABLE piped (id int PRIMARY KEY, v text)")
    connection.commit()
    with connection.pipeline() as pipeline:
        cursors = [
            connection.execute("INSERT INTO piped VALUES (%s, %s) RETURNING id", [at, f"v{at}"])
            for at in range(500)
        ]
        pipeline.sync()
        equal([cursor.fetchone()[0] for cursor in cursors], list(range(500)))
        count = connection.execute("SELECT count(*) FROM piped")
        equal(count.fetchone(), (500,))
    connection.commit()


@check("an error aborts the rest of a pipeline")
def _(connection):
    connection.autocommit = True
    connection.execute("CREATE TABLE piped_wrong (id int PRIMARY KEY)")
    with refused(errors.UniqueViolation, "23505"):
        with connection.pipeline():
            connection.execute("INSERT INTO piped_wrong VALUES (1)")
            connection.execute("INSERT INTO piped_wrong VALUES (1)")
            connection.execute("INSERT INTO piped_wrong VALUES (2)")
    equal(connection.execute("SELECT count(*) FROM piped_wrong").fetchone(), (0,))


@check("a large result comes row by row")
def _(connection):
    with connection.cursor() as cursor:
        total = count = 0
        for n, text in cursor.stream(
            "SELECT n, repeat('x', 100) FROM generate_series(1, 200000) AS g(n)"
        ):
            total, count = total + n, count + len(text)
        equal((total, count), (20000100000, 20000000))
    rows = connection.cursor(binary=True)
    rows.execute("SELECT n, n * 1.5, 'row ' || n FROM generate_series(1, 300000) AS g(n)")
    equal((rows.rowcount, rows.fetchall()[-1][2]), (300000, "row 300000"))


@check("cursors of the server")
def _(connection):
    connection.execute("CREATE TABLE many AS SELECT n AS id FROM generate_series(1, 5000) AS g(n)")
    for binary in (False, True):
        with connection.cursor("walk", binary=binary) as cursor:
            cursor.itersize = 700
            cursor.execute("SELECT id FROM many WHERE id > %s ORDER BY id", [10])
            equal(cursor.fetchone(), (11,))
            equal(len(cursor.fetchmany(100)), 100)
            cursor.scroll(9)
            equal(cursor.fetchone(), (121,))
            equal(sum(1 for _ in cursor), 4879)


@check("cursors of the server that scroll")
def _(connection):
    with connection.cursor("scrolled", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 100) AS g(n)")
        cursor.scroll(50, mode="absolute")
        equal(cursor.fetchone(), (51,))
        cursor.scroll(-10)
        equal(cursor.fetchone(), (42,))


@check("cursors of the server that outlive their transaction")
def _(connection):
    with connection.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 100) AS g(n)")
        connection.commit()
        equal(len(cursor.fetchall()), 100)


COPIED = [
    (1, "plain", decimal.Decimal("1.50"), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)),
    (2, "tab\tnew\nline \\ back", None, None),
    (3, "", decimal.Decimal("-99999999.99"), datetime.datetime(1999, 12, 31, 23, tzinfo=ZONE)),
    (4, None, decimal.Decimal("0.00"), None),
]


def copied(connection, form):
    table = f"copied_{form}"
    connection.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, t text, n numeric(12,2), at timestamptz)"
    )
    types = ["int4", "text", "numeric", "timestamptz"]
    options = "(FORMAT binary)" if form == "binary" else ""
    cursor = connection.cursor()
    with cursor.copy(f"COPY {table} FROM STDIN {options}") as copy:
        copy.set_types(types)
        for row in COPIED:
            copy.write_row(row)
    equal((cursor.rowcount, cursor.statusmessage), (4, "COPY 4"))
    with cursor.copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT {options}") as copy:
        copy.set_types(types)
        equal(list(copy.rows()), COPIED)


@check("COPY in text, in and out")
def _(connection):
    copied(connection, "text")


@check("COPY in binary, in and out")
def _(connection):
    copied(connection, "binary")


@check("COPY in csv, with a header")
def _(connection):
    connection.execute("CREATE TABLE csv (id int, name text, price numeric(8,2))")
    text = 'id,name,price\n1,"with, comma",1.50\n2,"with ""quotes""",\n3,,2.00\n'
    with connection.cursor().copy("COPY csv FROM STDIN (FORMAT csv, HEADER)") as copy:
        copy.write(text)
    equal(
        connection.execute("SELECT * FROM csv ORDER BY id").fetchall(),
        [(1, "with, comma", decimal.Decimal("1.50")), (2, 'with "quotes"', None),
         (3, None, decimal.Decimal("2.00"))],
    )  # fmt: skip
    with connection.cursor().copy("COPY csv TO STDOUT WITH CSV HEADER") as copy:
        equal(b"".join(copy).decode(), text)


@check("a wrong row ends COPY with its line")
def _(connection):
    connection.execute("CREATE TABLE copied_wrong (id int PRIMARY KEY)")
    connection.commit()
    try:
        with connection.cursor().copy("COPY copied_wrong FROM STDIN") as copy:
            copy.write("1\n2\nthree\n")
    except errors.InvalidTextRepresentation as error:
        assert "line 3" in (error.diag.context or ""), error.diag.context
    else:
        raise AssertionError("no error")
    connection.rollback()
    try:
        with connection.cursor().copy("COPY copied_wrong FROM STDIN") as copy:
            copy.write("1\n")
            raise KeyError("the program gives up")
    except KeyError:
        connection.rollback()
    equal(connection.execute("SELECT count(*) FROM copied_wrong").fetchone(), (0,))


@check("COPY of many rows")
def _(connection):
    connection.execute("CREATE TABLE bulk (id bigint PRIMARY KEY, v double precision, t text)")
    with connection.cursor().copy("COPY bulk FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int8", "float8", "text"])
        for at in range(100_000):
            copy.write_row((at, at / 7, f"row {at}"))
    connection.commit()
    equal(
        connection.execute("SELECT count(*), sum(id) FROM bulk").fetchone(), (100_000, 4999950000)
    )


@check("notifications")
def _(connection):
    connection.autocommit = True
    connection.execute("LISTEN orders")
    with connect() as other:
        other.execute("NOTIFY orders, 'first'")
        other.execute("SELECT pg_notify('orders', %s)", ["second"])
        other.commit()
        notices = list(connection.notifies(timeout=5, stop_after=2))
        equal(
            [(one.channel, one.payload) for one in notices],
            [("orders", "first"), ("orders", "second")],
        )
        equal(notices[0].pid, other.info.backend_pid)


@check("notices of the server")
def _(connection):
    notices = []
    connection.add_notice_handler(lambda notice: notices.append((notice.severity, notice.sqlstate)))
    connection.execute("DROP TABLE IF EXISTS never_there")
    equal(notices, [("NOTICE", "00000")])


@check("two phases are refused")
def _(connection):
    # The class that psycopg makes of 55000.
    with refused(psycopg.NotSupportedError):
        connection.tpc_begin(connection.xid(1, "gid", "branch"))
        connection.execute("CREATE TABLE two_phases (id int)")
        connection.tpc_prepare()


@check("enums")
def _(connection):
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    info = EnumInfo.fetch(connection, "mood")
    assert info is not None, "the type is not found"
    equal(list(info.labels), ["sad", "ok", "happy"])
    register_enum(info, connection)
    connection.execute("CREATE TABLE people (name text PRIMARY KEY, current mood)")
    connection.execute(
        "INSERT INTO people VALUES ('ann', %s), ('bob', %s)", [info.enum.happy, info.enum.sad]
    )
    for _, cursor in cursors(connection):
        cursor.execute("SELECT current FROM people ORDER BY current")
        equal(cursor.fetchall(), [(info.enum.sad,), (info.enum.happy,)])
    with refused(errors.InvalidTextRepresentation, "22P02"):
        connection.execute("INSERT INTO people VALUES ('eve', 'furious')")


@check("lists as ANY")
def _(connection):
    connection.execute("CREATE TABLE listed (id int PRIMARY KEY, name text, at date)")
    rows = [(n, f"n{n}", datetime.date(2024, 1, 1 + n)) for n in range(1, 10)]
    connection.cursor().executemany("INSERT INTO listed VALUES (%s, %s, %s)", rows)
    cursor = connection.execute(
        "SELECT id FROM listed WHERE id = ANY(%s) OR name = ANY(%s) ORDER BY id",
        [[1, 2, 99], ["n5", "x"]],
    )
    equal(cursor.fetchall(), [(1,), (2,), (5,)])
    cursor = connection.execute("SELECT count(*) FROM listed WHERE NOT id = ALL(%s)", [[]])
    equal(cursor.fetchone(), (0,))
    cursor = connection.execute(
        "SELECT count(*) FROM listed WHERE at BETWEEN %s AND %s",
        [datetime.date(2024, 1, 3), datetime.date(2024, 1, 5)],
    )
    equal(cursor.fetchone(), (3,))


@check("optional filters")
def _(connection):
    connection.execute("CREATE TABLE filtered (id int PRIMARY KEY, city text)")
    connection.execute("INSERT INTO filtered VALUES (1, 'Rome'), (2, NULL)")
    for city, wanted in ((None, [1, 2]), ("Rome", [1])):
        cursor = connection.execute(
            "SELECT id FROM filtered WHERE (%(city)s::text IS NULL OR city = %(city)s) ORDER BY id",
            {"city": city},
        )
        equal([row[0] for row in cursor], wanted)
    cursor = connection.execute(
        "SELECT id FROM filtered WHERE city IS NOT DISTINCT FROM %s", [None]
    )
    equal(cursor.fetchall(), [(2,)])


@check("dates and intervals as parameters")
def _(connection):
    now = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.UTC)
    cursor = connection.execute(
        "SELECT %s + %s, %s::timestamptz - interval '1 month', %s::date - %s::date",
        [now, datetime.timedelta(hours=5), now, now.date(), datetime.date(2024, 2, 1)],
    )
    equal(cursor.fetchone(), (now.replace(hour=17), now.replace(month=2), 29))


@check("the zone of the session")
def _(connection):
    connection.execute("CREATE TABLE zoned (at timestamptz)")
    connection.execute("SET TIME ZONE 'Europe/Berlin'")
    connection.execute("INSERT INTO zoned VALUES ('2024-07-01 12:00')")
    equal(connection.info.timezone.key, "Europe/Berlin")
    for _, cursor in cursors(connection):
        at = cursor.execute("SELECT at FROM zoned").fetchone()[0]
        equal((at.hour, at.utcoffset()), (12, datetime.timedelta(hours=2)))
    equal(connection.execute("SELECT at::text FROM zoned").fetchone(), ("2024-07-01 12:00:00+02",))


@check("composed statements")
def _(connection):
    name = 'Table "with" spaces'
    connection.execute(
        sql.SQL("CREATE TABLE {} ({} int PRIMARY KEY, {} text DEFAULT {})").format(
            sql.Identifier(name),
            sql.Identifier("Id"),
            sql.Identifier("select"),
            sql.Literal("it's"),
        )
    )
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES (%s)").format(
            sql.Identifier(name), sql.Identifier("Id")
        ),
        [1],
    )
    cursor = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))
    equal(cursor.fetchall(), [(1, "it's")])
    equal([column.name for column in cursor.description], ["Id", "select"])


@check("client cursors, which put values into the text")
def _(connection):
    cursor = psycopg.ClientCursor(connection)
    values = [
        1,
        "it's \\ here",
        None,
        datetime.date(2024, 1, 2),
        b"\x00\xff",
        decimal.Decimal("2.50"),
        [1, 2],
        True,
    ]
    cursor.execute("SELECT " + ", ".join(["%s"] * len(values)), values)
    equal(list(cursor.fetchone()), values)
    cursor.execute("SELECT %s::uuid, %s::jsonb", [uuid.UUID(int=7), Jsonb({"a": 1})])
    equal(cursor.fetchone(), (uuid.UUID(int=7), {"a": 1}))


@check("raw cursors, with numbered parameters")
def _(connection):
    cursor = psycopg.RawCursor(connection)
    cursor.execute("SELECT $1::int + $2::int, $1::int", [1, 2])
    equal(cursor.fetchone(), (3, 1))


@check("addresses and ranges")
def _(connection):
    cursor = connection.execute("SELECT %s::inet", [ipaddress.ip_address("10.0.0.1")])
    equal(cursor.fetchone(), (ipaddress.ip_address("10.0.0.1"),))
    cursor = connection.execute("SELECT %s::int4range @> 5", [Range(1, 10)])
    equal(cursor.fetchone(), (True,))


@check("temporary tables")
def _(connection):
    connection.execute("CREATE TEMPORARY TABLE staged (id int PRIMARY KEY) ON COMMIT DROP")
    connection.execute("INSERT INTO staged VALUES (1), (2)")
    equal(connection.execute("SELECT count(*) FROM staged").fetchone(), (2,))
    connection.commit()
    with refused(errors.UndefinedTable, "42P01"):
        connection.execute("SELECT * FROM staged")


@check("materialized views")
def _(connection):
    connection.execute("CREATE TABLE measured (id int PRIMARY KEY)")
    connection.execute("CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM measured")
    connection.execute("INSERT INTO measured VALUES (1)")
    connection.execute("REFRESH MATERIALIZED VIEW counts")
    equal(connection.execute("SELECT n FROM counts").fetchone(), (1,))


@check("large numbers of parameters")
def _(connection):
    values = list(range(20_000))
    marks = ", ".join(["(%s)"] * len(values))
    connection.execute("CREATE TABLE wide (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO wide VALUES {marks}", values)
    equal(connection.execute("SELECT count(*), max(id) FROM wide").fetchone(), (20_000, 19_999))


@check("large values")
def _(connection):
    blob, text = bytes(range(256)) * 20_000, "é" * 2_000_000
    connection.execute("CREATE TABLE large (id int PRIMARY KEY, b bytea, t text)")
    connection.execute("INSERT INTO large VALUES (1, %s, %s)", [blob, text])
    for binary, cursor in cursors(connection):
        seen = cursor.execute("SELECT b, t, length(b), length(t) FROM large").fetchone()
        assert seen == (blob, text, len(blob), len(text)), f"binary={binary}: {len(seen[0])}"


@check("a bank, by eight clients")
def _(connection):
    connection.execute("CREATE TABLE bank (id int PRIMARY KEY, balance numeric(12,2) NOT NULL)")
    connection.cursor().executemany(
        "INSERT INTO bank VALUES (%s, 100)", [[n] for n in range(1, 11)]
    )
    connection.commit()
    wrong = []

    def work(seed):
        try:
            with connect() as own:
                for at in range(40):
                    source, target = 1 + (seed + at) % 10, 1 + (seed * 3 + at * 7) % 10
                    while source != target:
                        try:
                            with own.transaction():
                                for of, amount in ((source, -1), (target, 1)):
                                    own.execute(
                                        "UPDATE bank SET balance = balance + %s WHERE id = %s",
                                        [decimal.Decimal(amount), of],
                                    )
                            break
                        except (errors.DeadlockDetected, errors.SerializationFailure):
                            continue
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(8)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert not wrong, wrong[0]
    equal(
        connection.execute("SELECT sum(balance) FROM bank").fetchone(),
        (decimal.Decimal("1000.00"),),
    )


@check("async connections")
def _():
    import asyncio

    async def work():
        place = {**PLACE, "dbname": DATABASE}
        async with await psycopg.AsyncConnection.connect(**place) as connection:
            cursor = await connection.execute("SELECT %s::int8", [Int8(5)])
            assert await cursor.fetchone() == (5,)
            task = asyncio.create_task(connection.execute("SELECT pg_sleep(20)"))
            await asyncio.sleep(0.3)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            else:
                raise AssertionError("not cancelled")

    asyncio.run(work())


main("psycopg", psycopg.__version__, with_connection(connect))
