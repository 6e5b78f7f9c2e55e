"""asyncpg: introspection of types, prepared statements, COPY of records, cursors, notifications."""

import asyncio
import datetime
import decimal
import io
import json
import uuid

import asyncpg
from checks import DATABASE, PLACE, SOCKETS, check, equal, main, refused, url

PLACE = {**PLACE, "database": DATABASE, "timeout": 10}
UTC = datetime.UTC
VALUES = {
    "bool": [True, False],
    "int2": [-32768, 32767],
    "int4": [-(2**31), 2**31 - 1],
    "int8": [-(2**63), 2**63 - 1],
    "float4": [1.5, float("inf")],
    "float8": [0.1, -1e300, float("-inf"), 5e-324],
    "numeric": [decimal.Decimal("12345.678900"), decimal.Decimal("-0.01"), decimal.Decimal(0)],
    "numeric(30,10)": [decimal.Decimal("12345678901234567890.0123456789")],
    "text": ["", "Grüße, 東京 🦀", "line\nbreak"],
    "varchar(12)": ["twelve chars"],
    "bytea": [b"", bytes(range(256))],
    "date": [datetime.date(1, 1, 2), datetime.date(9999, 12, 30)],
    "time": [datetime.time(0), datetime.time(23, 59, 59, 999999)],
    "timestamp": [datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "timestamptz": [datetime.datetime(2024, 3, 31, 1, 59, 59, 1, tzinfo=UTC)],
    "interval": [datetime.timedelta(days=3, seconds=4, microseconds=5), -datetime.timedelta(1)],
    "uuid": [uuid.UUID(int=0), uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")],
    "json": ['{"a": [1, null]}'],
    "jsonb": ['{"a": [1, null]}'],
    "int4[]": [[], [1, None, 3], [[1, 2], [3, 4]]],
    "text[]": [["a", 'b"c', "NULL", None, ""]],
    "uuid[]": [[uuid.UUID(int=1)]],
    "numeric[]": [[decimal.Decimal("1.5"), None]],
    "timestamptz[]": [[datetime.datetime(2024, 1, 1, tzinfo=UTC)]],
    "bytea[]": [[b"\x00", b""]],
}


async def connect(**more):
    return await asyncpg.connect(**{**PLACE, **more})


def call(function):
    """Runs a check with a connection of its own, for 15 seconds at most."""

    async def work():
        connection = await connect()
        try:
            await asyncio.wait_for(function(connection), 15)
        finally:
            connection.terminate()

    asyncio.run(work())


@check("URL, and the Unix socket")
async def _(connection):
    for place in ({"dsn": url()}, {**PLACE, "host": SOCKETS}):
        other = await asyncpg.connect(**place)
        equal(await other.fetchval("SELECT current_user"), PLACE["user"])
        await other.close()


@check("a wrong password is refused")
async def _(connection):
    with refused(asyncpg.InvalidPasswordError, "28P01"):
        await connect(password="wrong")


@check("settings of the start")
async def _(connection):
    other = await connect(server_settings={"application_name": "shop", "jit": "off"})
    equal(await other.fetchval("SHOW application_name"), "shop")
    equal(await other.fetchval("SHOW jit"), "off")
    await other.close()
    assert connection.get_server_version().major >= 15
    assert connection.get_settings().server_encoding == "UTF8"


def trip(kind, values):
    @check(f"round trip of {kind}")
    async def _(connection):
        await connection.execute(f'CREATE TABLE "{kind}" (id serial PRIMARY KEY, v {kind})')
        for value in [*values, None]:
            await connection.execute(f'INSERT INTO "{kind}" (v) VALUES ($1)', value)
        seen = [row["v"] for row in await connection.fetch(f'SELECT v FROM "{kind}" ORDER BY id')]
        if kind == "jsonb" or kind == "json":
            seen = [json.dumps(json.loads(value)) if value else None for value in seen]
        equal(seen, [*values, None])
        if "json" not in kind:
            for value in values:
                equal(await connection.fetchval(f"SELECT $1::{kind}", value), value)


for kind, values in VALUES.items():
    trip(kind, values)


@check("the last and the first day stand for infinity")
async def _(connection):
    days = [datetime.date.min, datetime.date.max]
    for day, text in zip(days, ("-infinity", "infinity"), strict=True):
        equal(await connection.fetchval("SELECT $1::date", day), day)
        equal(await connection.fetchval("SELECT ($1::date)::text", day), text)


@check("codecs of json and jsonb")
async def _(connection):
    document = {"name": "Ada", "tags": ["x", None, 1.5]}
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads
        )
        equal(await connection.fetchval(f"SELECT $1::{kind}", document), document)


@check("enums by introspection")
async def _(connection):
    await connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    await connection.execute("CREATE TABLE people (name text PRIMARY KEY, current mood NOT NULL)")
    await connection.execute("INSERT INTO people VALUES ($1, $2)", "ann", "happy")
    equal(
        await connection.fetchval("SELECT current FROM people WHERE current = $1", "happy"), "happy"
    )
    with refused(asyncpg.InvalidTextRepresentationError, "22P02"):
        await connection.execute("INSERT INTO people VALUES ($1, $2)", "bob", "furious")


@check("arrays of enums by introspection")
async def _(connection):
    await connection.execute("CREATE TYPE colour AS ENUM ('red', 'green')")
    await connection.execute("CREATE TABLE painted (id int PRIMARY KEY, colours colour[])")
    await connection.execute("INSERT INTO painted VALUES (1, $1)", ["red", "green"])
    equal(await connection.fetchval("SELECT colours FROM painted"), ["red", "green"])


@check("domains by introspection")
async def _(connection):
    await connection.execute("CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)")
    await connection.execute("CREATE TABLE rates (id int PRIMARY KEY, rate percent)")
    await connection.execute("INSERT INTO rates VALUES ($1, $2)", 1, 50)
    equal(await connection.fetchval("SELECT rate FROM rates"), 50)
    with refused(asyncpg.CheckViolationError, "23514"):
        await connection.execute("INSERT INTO rates VALUES ($1, $2)", 2, 101)


@check("records")
async def _(connection):
    row = await connection.fetchrow("SELECT 1::int AS a, 'x' AS b, NULL::text AS c")
    equal(dict(row), {"a": 1, "b": "x", "c": None})
    equal((row["b"], row[0], list(row.keys())), ("x", 1, ["a", "b", "c"]))


@check("status of execute")
async def _(connection):
    equal(
        await connection.execute("CREATE TABLE counted (id int PRIMARY KEY, v int)"), "CREATE TABLE"
    )
    equal(
        await connection.execute(
            "INSERT INTO counted SELECT n, 0 FROM generate_series(1, 5) AS g(n)"
        ),
        "INSERT 0 5",
    )
    equal(await connection.execute("UPDATE counted SET v = $1 WHERE id > $2", 7, 2), "UPDATE 3")
    equal(await connection.execute("DELETE FROM counted WHERE v = $1", 7), "DELETE 3")
    equal(await connection.execute("SELECT * FROM counted; DELETE FROM counted"), "DELETE 2")


@check("prepared statements and their types")
async def _(connection):
    await connection.execute(
        "CREATE TABLE items (id bigint PRIMARY KEY, name varchar(20), price numeric)"
    )
    insert = await connection.prepare("INSERT INTO items VALUES ($1, $2, $3) RETURNING id, price")
    equal([kind.name for kind in insert.get_parameters()], ["int8", "varchar", "numeric"])
    equal(
        [(one.name, one.type.name) for one in insert.get_attributes()],
        [("id", "int8"), ("price", "numeric")],
    )
    equal(
        tuple(await insert.fetchrow(1, "one", decimal.Decimal("1.50"))),
        (1, decimal.Decimal("1.50")),
    )
    select = await connection.prepare(
        "SELECT name FROM items WHERE id = $1 AND price > $2 LIMIT $3"
    )
    equal([kind.name for kind in select.get_parameters()], ["int8", "numeric", "int8"])
    equal(await select.fetchval(1, decimal.Decimal(1), 10), "one")
    await insert.fetch(2, "two", None)
    equal(insert.get_statusmsg(), "INSERT 0 1")
    assert "Plan" in (await select.explain(1, decimal.Decimal(1), 1))[0]


@check("executemany")
async def _(connection):
    await connection.execute("CREATE TABLE batch (id int PRIMARY KEY, v text)")
    await connection.executemany(
        "INSERT INTO batch VALUES ($1, $2)", [(at, f"v{at}") for at in range(3000)]
    )
    equal(await connection.fetchval("SELECT count(*) FROM batch"), 3000)
    with refused(asyncpg.UniqueViolationError, "23505"):
        await connection.executemany("INSERT INTO batch VALUES ($1, $2)", [(3000, "a"), (1, "b")])
    # All or nothing.
    equal(await connection.fetchval("SELECT count(*) FROM batch"), 3000)
    rows = await connection.fetchmany(
        "INSERT INTO batch VALUES ($1, $2) RETURNING id", [(5001, "x"), (5002, "y")]
    )
    equal([row["id"] for row in rows], [5001, 5002])


@check("a changed table under a cached statement")
async def _(connection):
    await connection.execute("CREATE TABLE changing (id int)")
    await connection.execute("INSERT INTO changing VALUES (1)")
    equal(dict(await connection.fetchrow("SELECT * FROM changing")), {"id": 1})
    other = await connect()
    await other.execute("ALTER TABLE changing ADD COLUMN v text DEFAULT 'new'")
    await other.close()
    equal(dict(await connection.fetchrow("SELECT * FROM changing")), {"id": 1, "v": "new"})


@check("errors with SQLSTATE and details")
async def _(connection):
    await connection.execute(
        "CREATE TABLE err (id int CONSTRAINT err_key PRIMARY KEY, v int NOT NULL)"
    )
    await connection.execute("INSERT INTO err VALUES (1, 1)")
    try:
        await connection.execute("INSERT INTO err VALUES ($1, $2)", 1, 2)
    except asyncpg.UniqueViolationError as error:
        equal(
            (error.constraint_name, error.table_name, error.detail),
            ("err_key", "err", "Key (id)=(1) already exists."),
        )
    else:
        raise AssertionError("no error")
    for statement, kind in (
        ("SELECT 1/0", asyncpg.DivisionByZeroError),
        ("SELECT * FROM missing", asyncpg.UndefinedTableError),
        ("SELECT missing FROM err", asyncpg.UndefinedColumnError),
        ("SELEC 1", asyncpg.PostgresSyntaxError),
        ("INSERT INTO err VALUES (2, NULL)", asyncpg.NotNullViolationError),
    ):
        with refused(kind):
            await connection.execute(statement)
        with refused(kind):
            await connection.fetch(statement)
    with refused(asyncpg.DataError):
        await connection.execute("INSERT INTO err VALUES ($1, $2)", "text", 2)


@check("transactions of each level")
async def _(connection):
    for level in ("serializable", "repeatable_read", "read_committed", "read_uncommitted"):
        async with connection.transaction(isolation=level):
            seen = await connection.fetchval("SHOW transaction_isolation")
            equal(seen, level.replace("_", " "))
    async with connection.transaction(isolation="serializable", readonly=True, deferrable=True):
        with refused(asyncpg.ReadOnlySQLTransactionError, "25006"):
            await connection.execute("CREATE TABLE not_made (id int)")
            # The savepoint of nothing: the transaction has failed and ends by rolling back.


@check("nested transactions")
async def _(connection):
    await connection.execute("CREATE TABLE nested (id int PRIMARY KEY)")
    async with connection.transaction():
        await connection.execute("INSERT INTO nested VALUES (1)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO nested VALUES (2)")
                await connection.execute("INSERT INTO nested VALUES (1)")
        except asyncpg.UniqueViolationError:
            pass
        async with connection.transaction():
            await connection.execute("INSERT INTO nested VALUES (3)")
    equal([row[0] for row in await connection.fetch("SELECT id FROM nested ORDER BY id")], [1, 3])


@check("cursors")
async def _(connection):
    async with connection.transaction():
        seen = 0
        query = "SELECT n FROM generate_series(1, 5000) AS g(n) WHERE n > $1 ORDER BY n"
        async for row in connection.cursor(query, 10, prefetch=300):
            seen += row["n"]
        equal(seen, 12502500 - 55)
        cursor = await connection.cursor(query, 0)
        equal((await cursor.fetchrow())["n"], 1)
        equal(len(await cursor.fetch(50)), 50)
        await cursor.forward(9)
        equal((await cursor.fetchrow())["n"], 61)


@check("copy_records_to_table")
async def _(connection):
    await connection.execute(
        "CREATE TABLE copied (id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz,"
        " tags text[], b bytea, u uuid, j jsonb, d date, f float8, ok bool, span interval)"
    )
    now = datetime.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC)
    records = [
        (at, f"n{at}" if at % 3 else None, decimal.Decimal(at) / 4, now, ["a", None], b"\x00\xff",
         uuid.UUID(int=at), json.dumps({"at": at}), now.date(), at / 7, at % 2 == 0,
         datetime.timedelta(days=at))
        for at in range(2000)
    ]  # fmt: skip
    equal(await connection.copy_records_to_table("copied", records=records), "COPY 2000")
    seen = await connection.fetch("SELECT * FROM copied ORDER BY id")
    equal([tuple(row) for row in seen], records)
    with refused(asyncpg.UniqueViolationError, "23505"):
        await connection.copy_records_to_table("copied", records=records[:1])
    status = await connection.copy_records_to_table(
        "copied", records=[(9999, "few")], columns=["id", "name"]
    )
    equal(status, "COPY 1")


@check("copy_records_to_table with a condition")
async def _(connection):
    await connection.execute("CREATE TABLE copied_some (id int PRIMARY KEY)")
    await connection.copy_records_to_table(
        "copied_some", records=[(at,) for at in range(10)], where="id > 6"
    )
    equal(await connection.fetchval("SELECT count(*) FROM copied_some"), 3)


@check("copy_from_query and copy_to_table")
async def _(connection):
    await connection.execute("CREATE TABLE source (id int PRIMARY KEY, name text)")
    await connection.execute("INSERT INTO source VALUES (1, 'a,b'), (2, NULL), (3, 'c\"d')")
    out = io.BytesIO()
    status = await connection.copy_from_query(
        "SELECT id, name FROM source WHERE id < $1 ORDER BY id",
        10,
        output=out,
        format="csv",
        header=True,
    )
    equal((status, out.getvalue()), ("COPY 3", b'id,name\n1,"a,b"\n2,\n3,"c""d"\n'))
    await connection.execute("CREATE TABLE target (id int PRIMARY KEY, name text)")
    out.seek(0)
    await connection.copy_to_table("target", source=out, format="csv", header=True)
    equal(
        await connection.fetch("SELECT * FROM target ORDER BY id"),
        await connection.fetch("SELECT * FROM source ORDER BY id"),
    )
    binary = io.BytesIO()
    await connection.copy_from_table("source", output=binary, format="binary")
    binary.seek(0)
    await connection.execute("DELETE FROM target")
    equal(await connection.copy_to_table("target", source=binary, format="binary"), "COPY 3")


@check("notifications")
async def _(connection):
    heard = asyncio.Queue()
    await connection.add_listener("orders", lambda *about: heard.put_nowait(about[1:]))
    other = await connect()
    await other.execute("NOTIFY orders, 'first'")
    await other.fetchval("SELECT pg_notify('orders', $1)", "second")
    for wanted in ("first", "second"):
        pid, channel, payload = await asyncio.wait_for(heard.get(), 5)
        equal((pid, channel, payload), (other.get_server_pid(), "orders", wanted))
    await connection.remove_listener("orders", lambda *about: None)
    await other.close()


@check("notices of the server")
async def _(connection):
    heard = []
    connection.add_log_listener(
        lambda _, message: heard.append((message.severity, message.message))
    )
    await connection.execute("DROP TABLE IF EXISTS never_there")
    await asyncio.sleep(0.1)
    equal(heard, [("NOTICE", 'table "never_there" does not exist, skipping')])


@check("a timeout cancels the statement")
async def _(connection):
    try:
        await connection.fetchval("SELECT pg_sleep(20)", timeout=0.3)
    except TimeoutError:
        pass
    else:
        raise AssertionError("no timeout")
    equal(await connection.fetchval("SELECT 1"), 1)


@check("a cancelled task cancels the statement")
async def _(connection):
    task = asyncio.create_task(connection.fetchval("SELECT pg_sleep(20)"))
    await asyncio.sleep(0.3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    equal(await connection.fetchval("SELECT 1"), 1)


@check("a pool, which resets its connections")
async def _(connection):
    await connection.execute("CREATE TABLE pooled (id int PRIMARY KEY, v int)")
    await connection.execute("INSERT INTO pooled SELECT n, 0 FROM generate_series(1, 5) AS g(n)")
    async with asyncpg.create_pool(**PLACE, min_size=2, max_size=5) as pool:

        async def work(at):
            async with pool.acquire() as own, own.transaction():
                await own.execute("UPDATE pooled SET v = v + 1 WHERE id = $1", 1 + at % 5)

        await asyncio.gather(*(work(at) for at in range(100)))
        async with pool.acquire() as own:
            await own.execute("SET application_name = 'left'; LISTEN left_over")
            pid = own.get_server_pid()
        for _ in range(5):
            async with pool.acquire() as own:
                if own.get_server_pid() == pid:
                    equal(await own.fetchval("SHOW application_name"), "")
        equal(await pool.fetchval("SELECT sum(v) FROM pooled"), 100)


@check("a pool connects again to a server that has ended its clients")
async def _(connection):
    async with asyncpg.create_pool(**PLACE, min_size=1, max_size=1) as pool:
        pid = await pool.fetchval("SELECT pg_backend_pid()")
        await connection.fetchval("SELECT pg_terminate_backend($1)", pid)
        await asyncio.sleep(0.3)
        equal(await pool.fetchval("SELECT 1"), 1)


@check("many rows")
async def _(connection):
    rows = await connection.fetch(
        "SELECT n, n * 1.5::float8 AS f, 'row ' || n AS t FROM generate_series(1, 200000) AS g(n)"
    )
    equal((len(rows), rows[-1]["t"], rows[-1]["f"]), (200000, "row 200000", 300000.0))


@check("large values")
async def _(connection):
    blob, text = bytes(range(256)) * 20_000, "é" * 2_000_000
    await connection.execute("CREATE TABLE large (b bytea, t text)")
    await connection.execute("INSERT INTO large VALUES ($1, $2)", blob, text)
    equal(tuple(await connection.fetchrow("SELECT b, t FROM large")) == (blob, text), True)


@check("lists as ANY and unnest")
async def _(connection):
    await connection.execute("CREATE TABLE listed (id int PRIMARY KEY, name text)")
    await connection.execute(
        "INSERT INTO listed SELECT * FROM unnest($1::int[], $2::text[])",
        [1, 2, 3],
        ["a", "b", None],
    )
    rows = await connection.fetch("SELECT id FROM listed WHERE id = ANY($1) ORDER BY id", [1, 3, 9])
    equal([row["id"] for row in rows], [1, 3])
    rows = await connection.fetch("SELECT id FROM listed WHERE name = ANY($1::text[])", ["b"])
    equal([row["id"] for row in rows], [2])
    equal(await connection.fetchval("SELECT array_agg(id ORDER BY id DESC) FROM listed"), [3, 2, 1])


@check("parameters whose place gives no type")
async def _(connection):
    equal(await connection.fetchval("SELECT $1", "text"), "text")
    equal(await connection.fetchval("SELECT $1 || '!'", "text"), "text!")
    equal(await connection.fetchval("SELECT coalesce($1, 5)", None), 5)
    equal(await connection.fetchval("SELECT $1::int + 1", 2), 3)


@check("a query of a shop, with parameters")
async def _(connection):
    await connection.execute(
        """CREATE TABLE customers (id serial PRIMARY KEY, name text NOT NULL, city text);
        CREATE TABLE orders (id bigserial PRIMARY KEY, customer int REFERENCES customers,
          at timestamptz NOT NULL DEFAULT now(), total numeric(10,2) NOT NULL)"""
    )
    for name, city in (("Ann", "Rome"), ("Bob", None), ("Eve", "Oslo")):
        key = await connection.fetchval(
            "INSERT INTO customers (name, city) VALUES ($1, $2) RETURNING id", name, city
        )
        await connection.executemany(
            "INSERT INTO orders (customer, total, at) VALUES ($1, $2, $3)",
            [(key, decimal.Decimal(at * key) / 2, datetime.datetime(2024, at, 1, tzinfo=UTC))
             for at in range(1, 7)],
        )  # fmt: skip
    rows = await connection.fetch(
        """WITH recent AS (SELECT * FROM orders WHERE at >= $1 AND at < $1 + $2::interval)
        SELECT c.name, count(*) AS n, sum(total) AS total, max(at) AS last,
          rank() OVER (ORDER BY sum(total) DESC) AS place
        FROM customers c JOIN recent r ON r.customer = c.id
        WHERE c.city IS NOT NULL OR $3 GROUP BY c.id, c.name HAVING sum(total) > $4
        ORDER BY place LIMIT $5""",
        *(datetime.datetime(2024, 2, 1, tzinfo=UTC), datetime.timedelta(days=90), True),
        *(decimal.Decimal("5"), 10),
    )
    equal(
        [tuple(row) for row in rows],
        [("Eve", 3, decimal.Decimal("13.50"), datetime.datetime(2024, 4, 1, tzinfo=UTC), 1),
         ("Bob", 3, decimal.Decimal("9.00"), datetime.datetime(2024, 4, 1, tzinfo=UTC), 2)],
    )  # fmt: skip


@check("a composite type is refused")
async def _(connection):
    # Atoll has none; PostgreSQL has, and asyncpg reads its rows as records.
    try:
        await connection.execute("CREATE TYPE pair AS (a int, b text)")
    except asyncpg.FeatureNotSupportedError:
        return
    equal(tuple(await connection.fetchval("SELECT row(1, 'x')::pair")), (1, "x"))


main("asyncpg", asyncpg.__version__, call)
