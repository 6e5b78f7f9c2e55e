"""PostgreSQL, Atoll and DuckDB behind one interface: `load(tables)`, `answer(sql)`, `close()`."""

import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time

from . import answers
from .answers import Answer, Failure
from .sqltypes import OIDS

#: PostgreSQL's codes of errors, by what sort of mistake they say there was.
SORTS = {
    "22003": "overflow", "22008": "overflow", "22012": "division by zero", "22P02": "invalid text",
    "22007": "invalid text", "22025": "invalid text", "42883": "type", "42804": "type",
    "42846": "type", "42725": "type", "42P18": "type", "42P22": "type", "22013": "window",
    "22014": "window", "22016": "window",
}  # fmt: skip
#: What the messages of Atoll speak of, in this order.
MESSAGES = (
    ("division by zero", r"divi\w+ by zero|divide by zero"),
    ("overflow", r"overflow|out of range|range|too (large|big|small)|precision|does not fit"),
    ("invalid text", r"invalid|parse|is not a|neither true|cannot cast string|syntax for type"),
    ("type", r"type|coerc|operator|signature|function|cast|compar"),
)


class Server:
    """A PostgreSQL of our own in a temporary folder, reached through a socket there.

    It runs as an unprivileged user where we are root, since it refuses root. `more` are settings
    for it, such as "shared_buffers=1GB".
    """

    def __init__(self, more=()):
        programs = find_programs()
        self.folder = tempfile.mkdtemp(prefix="atoll-differential-")
        self.user = unprivileged() if os.geteuid() == 0 else None
        self.process = None
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        try:
            data = os.path.join(self.folder, "data")
            self._run(
                [f"{programs}/initdb", "--locale=C", "--encoding=UTF8", "--auth=trust",
                 "--username=postgres", "--no-sync", f"--pgdata={data}"]
            ).check_returncode()  # fmt: skip
            settings = (
                "fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=",
                f"unix_socket_directories={self.folder}", "timezone=UTC", "log_timezone=UTC",
                "autovacuum=off", "jit=off", "max_parallel_workers_per_gather=0",
                "shared_buffers=64MB", "max_wal_size=4GB", "datestyle=ISO", *more,
            )  # fmt: skip
            arguments = [word for setting in settings for word in ("-c", setting)]
            with open(os.path.join(self.folder, "log"), "wb") as log:
                self.process = subprocess.Popen(
                    [f"{programs}/postgres", "-D", data, *arguments],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._as_user(),
                )  # fmt: skip
            self._wait()
        except BaseException:
            self.close()
            raise

    def _as_user(self):
        options = {"cwd": self.folder, "env": {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}}
        if self.user:
            options |= {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return options

    def _run(self, command):
        return subprocess.run(command, stdout=subprocess.DEVNULL, check=False, **self._as_user())

    def _wait(self):
        import psycopg

        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address()).close()
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    with open(os.path.join(self.folder, "log")) as log:
                        text = log.read()
                    raise SystemExit(f"PostgreSQL did not start: {error}\n{text}") from error
                time.sleep(0.05)

    def address(self):
        return f"host={self.folder} user=postgres dbname=postgres"

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(3)  # SIGQUIT: at once, there is nothing to keep
            self.process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


def find_programs():
    """The folder with initdb and postgres, the newest there is."""
    found = shutil.which("initdb")
    folders = [os.path.dirname(os.path.realpath(found))] if found else []
    debian = glob.glob("/usr/lib/postgresql/*/bin")
    folders += sorted(debian, key=lambda p: int(re.sub(r"\D", "", p) or 0), reverse=True)
    for folder in folders:
        if os.path.exists(f"{folder}/postgres") and os.path.exists(f"{folder}/initdb"):
            return folder
    raise SystemExit(
        "PostgreSQL is missing: install Debian's package with `apt-get install postgresql`"
    )


def unprivileged():
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise SystemExit("PostgreSQL refuses root, and there is neither a user postgres nor nobody")


class Postgres:
    """A connection with a schema of its own."""

    def __init__(self, address, name):
        import psycopg

        self.connection = psycopg.connect(address, autocommit=True)
        self.schema = name
        self.connection.execute("SET statement_timeout = '20s'")
        self.connection.execute("SET extra_float_digits = 1")
        self.connection.execute("SET client_min_messages = error")

    def load(self, tables):
        self.empty()
        for table in tables:
            for statement in table.statements():
                self.must(statement)

    def empty(self):
        """Makes its schema anew, and uses it."""
        self.must(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        self.must(f"CREATE SCHEMA {self.schema}")
        self.use()

    @classmethod
    def with_database(cls, address, name):
        """A connection with a database of its own."""
        setup = cls(address, name)
        setup.must(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        setup.must(f"CREATE DATABASE {name}")
        setup.close()
        return cls(address.replace("dbname=postgres", f"dbname={name}"), name)

    def empty_database(self):
        """Drops all schemas of its database, and makes `public` anew."""
        self.must("RESET search_path")
        for schema in {"public", *(schema for schema, _ in self.tables("pg_namespace"))}:
            self.must(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        self.must("CREATE SCHEMA public")

    def tables(self, of="pg_tables"):
        """The names of all tables with their schemas; of all schemas, with `pg_namespace`."""
        columns = "schemaname, tablename" if of == "pg_tables" else "nspname, nspname"
        schema = columns.partition(",")[0]
        found = self.answer(
            f"SELECT {columns} FROM pg_catalog.{of} WHERE {schema} !~ '^pg_' "
            f"AND {schema} <> 'information_schema' ORDER BY 1, 2"
        )
        return found.rows

    def use(self):
        self.must(f"SET search_path = {self.schema}, public")

    def must(self, sql):
        answer = self.answer(sql)
        if answer.failure:
            raise RuntimeError(f"PostgreSQL refused a table: {answer.failure.message}\n{sql}")

    def answer(self, sql, values=()):
        """The answer to a statement; `values` are those of its parameters, with a `text` each."""
        from psycopg import pq

        if values:
            texts = [None if value.text is None else value.text.encode() for value in values]
            result = self.connection.pgconn.exec_params(sql.encode(), texts)
        else:
            result = self.connection.pgconn.exec_(sql.encode())
        if result.status == pq.ExecStatus.FATAL_ERROR:
            code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
            return Answer(failure=Failure(SORTS.get(code, "other"), code, message))
        columns = range(result.nfields)
        types = [OIDS.get(result.ftype(c), str(result.ftype(c))) for c in columns]
        values = result.get_value
        texts = [
            [None if (v := values(row, c)) is None else v.decode() for c in columns]
            for row in range(result.ntuples)
        ]
        answer = answers.of_texts(types, texts)
        answer.tag = (result.command_status or b"").decode()
        return answer

    def close(self):
        self.connection.close()


class Atoll:
    """A database in this process."""

    def __init__(self):
        self.database = None

    def load(self, tables):
        import atolldb

        self.close()
        self.database = atolldb.create(memory_limit=256 << 20)
        for table in tables:
            for statement in table.statements():
                try:
                    self.database.sql(statement)
                except atolldb.Error as error:
                    raise RuntimeError(f"Atoll refused a table: {error}\n{statement}") from error

    def answer(self, sql):
        return answered(lambda: self.database.sql(sql))

    def other_way(self, sql):
        """The answer by a way that `answer` has not taken, and the way's name: of a snapshot to what
        the short executor has run, and as a stream to what has run on a snapshot. None where it
        fails as a stream, since such an error has no class."""
        import atolldb
        import pyarrow

        try:
            plan = self.database.sql(f"EXPLAIN {sql}")
        except atolldb.Error:
            return None
        if plan.column_names == ["QUERY PLAN"]:
            return "on a snapshot", answered(lambda: self.database.snapshot().sql(sql))
        try:
            return "as a stream", answers.of_arrow(pyarrow.table(self.database.stream(sql)))
        except (atolldb.Error, pyarrow.ArrowException):
            return None

    def close(self):
        if self.database:
            self.database.close()
            self.database = None


class AtollSession:
    """A session on a database in this process: one of its own, or another one's."""

    def __init__(self, database=None):
        self.is_owner, self.folder = database is None, None
        self.database, self.session = database, database and database.session()

    def create(self, scheme, in_folder=False):
        """Makes the database anew, in memory or in a folder."""
        import atolldb

        self.close()
        if in_folder:
            self.folder = tempfile.TemporaryDirectory(prefix="atoll-differential-")
            self.reopen(scheme)
        else:
            self.database = atolldb.create(memory_limit=256 << 20, scheme=scheme)
            self.session = self.database.session()

    def reopen(self, scheme):
        """Closes the database in the folder, if it is open, and opens it."""
        import atolldb

        if self.session:
            self.session.close()
            self.database.close()
        self.database = atolldb.open(
            self.folder.name, durability="none", memory_limit=256 << 20, scheme=scheme
        )
        self.session = self.database.session()

    def must(self, sql):
        answer = self.answer(sql)
        if answer.failure:
            raise RuntimeError(f"Atoll refused a table: {answer.failure.message}\n{sql}")

    def answer(self, sql, values=()):
        python = [value.python() for value in values]
        return answered(lambda: self.session.sql(sql, python))

    def on_snapshot(self, sql, values=()):
        """The answer of a snapshot of what is committed."""
        python = [value.python() for value in values]
        return answered(lambda: self.database.snapshot().sql(sql, python))

    def close(self):
        if self.session:
            self.session.close()
            if self.is_owner:
                self.database.close()
            self.session = None
        if self.folder:
            self.folder.cleanup()
            self.folder = None


def answered(run):
    """The answer of Atoll to what `run` sends."""
    import atolldb

    try:
        result = run()
        answer = answers.of_arrow(result.to_arrow()) if result.column_names else Answer()
        answer.tag = result.tag
        return answer
    except atolldb.Error as error:
        message = getattr(error, "message", str(error))
        kind = getattr(error, "kind", type(error).__name__)
        code = getattr(error, "sqlstate", kind)
        return Answer(failure=Failure(sort_of(message, kind), code, message))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        # A panic, or a value that pyarrow cannot read: never right.
        message = f"{type(error).__name__}: {error}"
        return Answer(failure=Failure("crash", type(error).__name__, message))


class DuckDB:
    """DuckDB, whose opinion is shown beside a difference. Its texts of bytes differ."""

    def load(self, tables):
        import duckdb

        self.connection = duckdb.connect(":memory:")
        for table in tables:
            for statement in table.statements():
                try:
                    self.connection.execute(statement)
                except duckdb.Error:
                    return

    def answer(self, sql):
        import duckdb

        try:
            return answers.of_arrow(self.connection.sql(sql).to_arrow_table())
        except duckdb.Error as error:
            return Answer(failure=Failure("other", type(error).__name__, str(error)))

    def close(self):
        self.connection.close()


def sort_of(message, kind):
    """What sort of mistake a message of Atoll speaks of."""
    for sort, pattern in MESSAGES:
        if re.search(pattern, message, re.IGNORECASE):
            return sort
    return "type" if kind == "type" else kind
