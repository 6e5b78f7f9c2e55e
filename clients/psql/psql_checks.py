"""Checks of psql: its options, its commands and what it shows of a database."""

import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from programs import FOLDER, IS_18, check, equal, has, print_version, run


def script(text, *options, status=0):
    """Runs a script without alignment and titles; both of its outputs."""
    return run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *options, text=text, status=status)


def gives(name, text, expected, *options):
    """A check of what a script writes."""
    check(name, lambda: equal(expected, script(text, *options)[0]))


def shows(name, command, *parts):
    """A check of a command whose output has parts."""

    def body():
        output, _ = run("psql", "-X", "-v", "ON_ERROR_STOP=1", text=command + "\n")
        for part in parts:
            has(part, output)

    check(name, body)


def scripts():
    gives(
        "values of all kinds",
        "SELECT 1, 'x', NULL, true, 1.50, '{1,2}'::int[];",
        "1|x||t|1.50|{1,2}\n",
    )
    check(
        "options -c in turns",
        lambda: equal("1\n2\n", run("psql", "-XAt", "-c", "SELECT 1", "-c", "SELECT 2")[0]),
    )
    check(
        "all results of one text",
        lambda: equal("1\n2\n", run("psql", "-XAt", "-c", "SELECT 1; SELECT 2")[0]),
    )
    gives(
        "tags of commands",
        """
        CREATE TABLE tag (a int); INSERT INTO tag VALUES (1), (2);
        UPDATE tag SET a = 3; DELETE FROM tag; DROP TABLE tag;""",
        "CREATE TABLE\nINSERT 0 2\nUPDATE 2\nDELETE 2\nDROP TABLE\n",
        "-v",
        "QUIET=0",
    )
    gives(
        "variables",
        "\\set who 'o''hara'\nSELECT :'who' AS \"q\";\n\\echo :{?who}\n",
        "o'hara\nTRUE\n",
    )
    gives(
        "gset and if",
        """SELECT 1 AS one, 'b' AS two \\gset
        \\if :one
        SELECT :'two';
        \\else
        SELECT 'never';
        \\endif\n""",
        "b\n",
    )
    gives(
        "gexec", "SELECT format('SELECT %s', n) FROM generate_series(1, 2) s(n) \\gexec\n", "1\n2\n"
    )
    gives(
        "gdesc",
        "SELECT 1 AS a, 'x'::varchar(3) AS b, 2.5::numeric(4, 1) AS c \\gdesc\n",
        "a|integer\nb|character varying(3)\nc|numeric(4,1)\n",
    )
    gives(
        "crosstabview",
        "SELECT * FROM (VALUES ('a', 'x', 1), ('b', 'y', 2)) v(r, c, n) \\crosstabview\n",
        "a|1|\nb||2\n",
    )
    gives(
        "FETCH_COUNT",
        "\\set FETCH_COUNT 7\nSELECT n FROM generate_series(1, 50) s(n);\n",
        "".join(f"{n}\n" for n in range(1, 51)),
    )
    gives(
        "transactions",
        """CREATE TABLE tx (a int); BEGIN; INSERT INTO tx VALUES (1); SAVEPOINT s;
        INSERT INTO tx VALUES (2); ROLLBACK TO s; COMMIT; SELECT * FROM tx;""",
        "1\n",
    )
    gives(
        "AUTOCOMMIT off",
        """\\set AUTOCOMMIT off
        CREATE TABLE auto (a int); COMMIT; INSERT INTO auto VALUES (1); ROLLBACK;
        SELECT count(*) FROM auto;""",
        "0\n",
    )
    gives(
        "ON_ERROR_ROLLBACK",
        """\\set ON_ERROR_STOP 0
        \\set ON_ERROR_ROLLBACK on
        BEGIN; SELECT 1 / 0; SELECT 'goes on'; COMMIT;""",
        "goes on\n",
    )
    check("single transaction of a file", single_transaction)
    check("error with its place", error_place)
    check("verbose error", verbose)
    check(
        "notice",
        lambda: has(
            'NOTICE:  table "nowhere" does not exist, skipping',
            script("DROP TABLE IF EXISTS nowhere;")[1],
        ),
    )
    check("copy from and to a file", copy)
    gives(
        "copy of the script",
        """CREATE TABLE copied (a int, b text);
COPY copied FROM STDIN;
1\tx
2\t\\N
\\.
COPY copied TO STDOUT (FORMAT csv);
""",
        "1,x\n2,\n",
    )
    shows(
        "aligned and expanded",
        "SELECT 1 AS a, 'ü' AS b;\n\\x\nSELECT 1 AS a;",
        " a | b \n---+---\n 1 | ü\n(1 row)",
        "-[ RECORD 1 ]\na | 1",
    )
    check(
        "csv and html",
        lambda: equal(
            'a,b\n1,"x,y"\n', run("psql", "-X", "--csv", "-c", "SELECT 1 AS a, 'x,y' AS b")[0]
        ),
    )
    check("cancellation", cancellation)
    gives(
        "watch",
        "SELECT 'again' \\watch c=2 i=0.1\n" if IS_18 else "SELECT 'again';\n",
        "again\nagain\n\n" if IS_18 else "again\n",
    )
    if IS_18:
        gives("bind", "SELECT $1::int + 1, $2 \\bind 4 x \\g\n", "5|x\n")
        gives(
            "named statement",
            """SELECT $1::int * 2 \\parse twice
            \\bind_named twice 21 \\g
            \\close_prepared twice\n""",
            "42\n",
        )
        gives(
            "pipeline",
            """\\startpipeline
            SELECT $1::int \\bind 1 \\sendpipeline
            SELECT $1::int \\bind 2 \\sendpipeline
            \\endpipeline\n""",
            "1\n2\n",
        )


def single_transaction():
    script(
        "CREATE TABLE single (a int PRIMARY KEY);\nINSERT INTO single VALUES (1), (1);\n",
        "-1",
        "-f",
        "-",
        status=3,
    )
    equal("0\n", script("SELECT count(*) FROM pg_class WHERE relname = 'single';")[0])


def error_place():
    _, errors = script("SELECT 1 +\n  missing;", status=3)
    has('ERROR:  column "missing" does not exist\nLINE 2:   missing;\n          ^', errors)


def verbose():
    _, errors = script("\\set VERBOSITY verbose\nSELECT 1 / 0;", status=3)
    has("ERROR:  22012: division by zero", errors)


def copy():
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        path.write_text('a,b\n1,"x ""y"""\n2,\n')
        script(f"""CREATE TABLE from_file (a int, b text);
            \\copy from_file FROM '{path}' WITH (FORMAT csv, HEADER)
            \\copy (SELECT b, a FROM from_file ORDER BY a DESC) TO '{path}' CSV\n""")
        equal(',2\n"x ""y""",1\n', path.read_text())


def cancellation():
    """Control-C ends the statement."""
    program = subprocess.Popen(
        [FOLDER / "psql", "-XAt"],
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
        text=True,
    )
    program.stdin.write("SELECT pg_sleep(15);\n")
    program.stdin.flush()
    time.sleep(1)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    has("canceling statement due to user request", errors)


SHOP = """
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'What we sell';
CREATE TYPE shop.size AS ENUM ('small', 'large');
CREATE TABLE shop.product (
    id bigserial PRIMARY KEY, code int GENERATED ALWAYS AS IDENTITY, name text NOT NULL UNIQUE,
    price numeric(9, 2) DEFAULT 0 CHECK (price >= 0), tags text[]);
COMMENT ON TABLE shop.product IS 'A thing';
CREATE TABLE shop.sale (
    product bigint REFERENCES shop.product ON DELETE CASCADE, at timestamptz DEFAULT now(),
    size shop.size, PRIMARY KEY (product, at));
CREATE INDEX sale_at ON shop.sale (at DESC);
CREATE VIEW shop.cheap AS SELECT id, name FROM shop.product WHERE price < 10;
CREATE ROLE shop_reader;
GRANT SELECT ON shop.product TO shop_reader;
"""


def commands():
    check("tables of the commands", lambda: script(SHOP))
    shows(
        "d of a table",
        "\\d shop.product",
        'Table "shop.product"',
        "bigint",
        "nextval('shop.product_id_seq'::regclass)",
        "generated always as identity",
        '"product_pkey" PRIMARY KEY, btree (id)',
        '"product_name_key" UNIQUE CONSTRAINT, btree (name)',
        "Check constraints:",
        'TABLE "shop.sale" CONSTRAINT "sale_product_fkey" FOREIGN KEY (product)',
    )
    shows(
        "d of a table that refers",
        "\\d shop.sale",
        "shop.size",
        "Foreign-key constraints:",
        "FOREIGN KEY (product) REFERENCES shop.product(id) ON DELETE CASCADE",
    )
    shows("d plus of a table", "\\d+ shop.product", "Storage", "numeric(9,2)")
    shows(
        "d of a partial index",
        "CREATE INDEX sale_big ON shop.sale (at) WHERE size IS NOT NULL;\n\\d shop.sale_big",
        "timestamp with time zone",
        "predicate (size IS NOT NULL)",
    )
    shows("d of a view", "\\d+ shop.cheap", 'View "shop.cheap"', "View definition:", "price <")
    shows(
        "d of a sequence",
        "\\d shop.product_id_seq",
        "Owned by: shop.product.id",
        "9223372036854775807",
    )
    shows("dt of a schema", "\\dt shop.*", "product | table", "sale    | table", "(2 rows)")
    shows("dt plus", "\\dt+ shop.*", "A thing", "permanent")
    shows(
        "di, dv and ds",
        "\\di shop.*\n\\dv shop.*\n\\ds shop.*",
        "sale_at",
        "cheap | view",
        "product_code_seq",
    )
    shows("dn", "\\dn", "shop")
    shows("dn plus", "\\dn+", "What we sell")
    shows("dT of an enum", "\\dT+ shop.size", "small", "large")
    shows("dp", "\\dp shop.product", "shop_reader=r/")
    shows("du", "\\du", "shop_reader", "Superuser")
    shows("l", "\\l", "UTF8")
    shows("dx, df, dd, db and dC of a fresh database", "\\dx\n\\df shop.*\n\\db", "pg_default")
    shows("df of the system", "\\df upper", "upper")
    shows("dconfig and show", "\\dconfig lock_timeout", "lock_timeout")
    shows("ddp, dRp, dew and dy", "\\ddp\n\\dRp\n\\dew\n\\dy", "(0 rows)")
    shows("conninfo", "\\conninfo", "Database" if IS_18 else "You are connected to database")
    shows("encoding and timing", "\\timing\n\\encoding\nSELECT 1;", "UTF8", "Time: ")
    shows("sv of a view", "\\sv shop.cheap", "CREATE OR REPLACE VIEW shop.cheap")
    check("list of databases", lambda: has("UTF8", run("psql", "-Xl")[0]))
    check(
        "password of a role",
        lambda: script("CREATE ROLE psql_login LOGIN;\nALTER ROLE psql_login PASSWORD 'x';\n"),
    )


if __name__ == "__main__":
    print_version("psql")
    scripts()
    commands()
