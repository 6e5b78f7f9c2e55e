"""`atoll serve` with the clients that people have: psycopg, psql, pgbench."""

import datetime
import decimal
import os
import socket
import subprocess
import threading
import time
import uuid

import psycopg
import pytest
from psycopg import sql
from server_process import Serving, atoll, certificate

import atolldb


@pytest.fixture
def server(tmp_path):
    with Serving(tmp_path) as serving:
        yield serving


def test_psql_connects_queries_and_shows_errors(server):
    psql = lambda *arguments: server.run("psql", "-X", "-At", *arguments)  # noqa: E731
    assert psql("-c", "SELECT 1 + 1, 'x'") == "2|x\n"
    psql("-c", "CREATE TABLE t (id int PRIMARY KEY, a text)", "-c", "INSERT INTO t VALUES (1, 'ä')")
    assert psql("-c", "SELECT * FROM t") == "1|ä\n"
    script = "\\set VERBOSITY verbose\nSELECT nonsense FROM t;\n\\conninfo\n"
    shown = server.run("psql", "-X", input=script)
    assert "ERROR:  42703" in shown and "LINE 1: SELECT nonsense FROM t;" in shown
    assert 'connected to database "bank"' in shown


def test_copy_of_psql_in_both_directions(server, tmp_path):
    psql = lambda *arguments: server.run("psql", "-X", "-At", *arguments)  # noqa: E731
    psql("-c", "CREATE TABLE t (id int PRIMARY KEY, a text)")
    given = tmp_path / "given.csv"
    given.write_text('id,a\n1,"x, y"\n2,\n')
    assert psql("-c", f"\\copy t FROM '{given}' CSV HEADER") == "COPY 2\n"
    taken = tmp_path / "taken.csv"
    assert psql("-c", f"\\copy (SELECT * FROM t ORDER BY id) TO '{taken}' CSV HEADER") == "COPY 2\n"
    assert taken.read_text() == given.read_text()
    assert psql("-c", "COPY t TO STDOUT") == "1\tx, y\n2\t\\N\n"


def test_what_psql_writes_another_process_reads_from_a_snapshot(server):
    server.run("psql", "-X", "-c", "CREATE TABLE t (id int PRIMARY KEY)")
    attached = atolldb.attach(server.name, runtime_dir=str(server.runtime))
    before = attached.snapshot()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO t SELECT * FROM generate_series(1, 1000)")
        assert before.sql("SELECT count(*) FROM t").to_arrow().column(0)[0].as_py() == 0
    after = attached.snapshot()
    assert after.sql("SELECT sum(id) FROM t").to_arrow().column(0)[0].as_py() == 500_500
    assert before.sql("SELECT count(*) FROM t").to_arrow().column(0)[0].as_py() == 0


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    with Serving(tmp_path) as first:
        with psycopg.connect(first.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'x'")
        stopped, last = threading.Event(), [0]

        def write():
            try:
                with psycopg.connect(first.dsn, autocommit=True) as connection:
                    while not stopped.is_set():
                        connection.execute("INSERT INTO t VALUES (%s)", (last[0] + 1,))
                        last[0] += 1
            except psycopg.Error:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        while last[0] < 50:
            time.sleep(0.01)
        first.kill()
        stopped.set()
        writer.join()
    with Serving(tmp_path) as second, psycopg.connect(second.dsn) as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]
        # One may have been committed without an answer.
        assert ids in ([*range(1, last[0] + 1)], [*range(1, last[0] + 2)])
        psycopg.connect(tcp(second, "ann", "x")).close()


def test_values_of_python_go_there_and_back(server):
    values = (
        -5,
        2**40,
        1.5,
        True,
        decimal.Decimal("12.34"),
        "äö",
        b"\x00\xff",
        datetime.date(1999, 12, 31),
        datetime.datetime(2024, 2, 29, 12, 30, 1, 500),
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
        datetime.time(1, 2, 3),
        datetime.timedelta(days=2, seconds=3),
        uuid.UUID(int=7),
        [1, 2, None],
        ["p", "f, g"],
        {"a": [1, None]},
    )
    columns = (
        "a int, b bigint, c double precision, d boolean, e numeric(9, 2), f text, g bytea, h date, "
        "i timestamp, j timestamptz, k time, l interval, m uuid, n int[], o text[], p jsonb"
    )
    given = (*values[:-1], psycopg.types.json.Jsonb(values[-1]))
    for binary in (False, True):
        with psycopg.connect(server.dsn) as connection:
            connection.execute("DROP TABLE IF EXISTS v")
            connection.execute(f"CREATE TABLE v (id int PRIMARY KEY, {columns})")
            cursor = connection.cursor(binary=binary)
            places = ", ".join(["%b" if binary else "%s"] * len(given))
            cursor.execute(f"INSERT INTO v VALUES (1, {places})", given)
            cursor.execute(f"INSERT INTO v VALUES (2, {places})", [None] * len(given))
            rows = cursor.execute("SELECT * FROM v ORDER BY id").fetchall()
            assert rows == [(1, *values), (2, *[None] * len(values))]
            # The same by COPY.
            with cursor.copy("COPY v TO STDOUT (FORMAT binary)") as copy:
                data = b"".join(bytes(piece) for piece in copy)
            cursor.execute("DELETE FROM v")
            with cursor.copy("COPY v FROM STDIN (FORMAT binary)") as copy:
                copy.write(data)
            assert cursor.execute("SELECT * FROM v ORDER BY id").fetchall() == rows


def test_transactions_savepoints_and_errors_of_psycopg(server):
    with psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.commit()
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("INSERT INTO t VALUES (1)")
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
            with pytest.raises(ZeroDivisionError), connection.transaction():
                connection.execute("INSERT INTO t VALUES (3)")
                raise ZeroDivisionError
        assert connection.execute("SELECT id FROM t").fetchall() == [(2,)]
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            connection.execute("SELECT 1 FROM missing")
        assert caught.value.diag.statement_position == "15"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")


def test_prepared_statements_pipelines_and_cursors_of_psycopg(server):
    with psycopg.connect(server.dsn, prepare_threshold=0) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        connection.cursor().executemany(
            "INSERT INTO t VALUES (%s, %s)", [(at, f"a{at}") for at in range(1000)]
        )
        connection.commit()
        with connection.pipeline():
            found = [connection.execute("SELECT a FROM t WHERE id = %s", (at,)) for at in range(50)]
        assert [one.fetchone()[0] for one in found] == [f"a{at}" for at in range(50)]
        with connection.cursor("named") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT id FROM t WHERE id >= %s ORDER BY id", (10,))
            assert [column.name for column in cursor.description] == ["id"]
            assert [row[0] for row in cursor] == list(range(10, 1000))
        connection.commit()
        # A pipeline that fails is rolled back.
        with pytest.raises(psycopg.errors.UniqueViolation), connection.pipeline():
            connection.execute("INSERT INTO t VALUES (2000)")
            connection.execute("INSERT INTO t VALUES (1)")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)


def test_a_query_is_cancelled(server):
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        timer = threading.Timer(0.3, connection.cancel)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(
                "SELECT count(*) FROM generate_series(1, 10000000) a, generate_series(1, 1000000) b"
            )
        assert connection.execute("SELECT 1").fetchone() == (1,)


def tcp(server, user, password, **more):
    place = {"host": "127.0.0.1", "port": server.port, "dbname": server.name}
    return psycopg.conninfo.make_conninfo(**place, user=user, password=password, **more)


def test_passwords_are_proved_on_tcp(server, tmp_path):
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name, password in [("ann", "geheim"), ("böb", "pässwörd")]:
            statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Literal(password)))
        # As \password of psql does it.
        made = connection.pgconn.encrypt_password(b"new", b"ann", b"scram-sha-256")
        connection.execute(f"ALTER USER ann PASSWORD '{made.decode()}'")
    for user, password in [("ann", "new"), ("böb", "pässwörd")]:
        with psycopg.connect(tcp(server, user, password)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    for user, password in [("ann", "geheim"), ("ghost", "x"), ("ann", "")]:
        with pytest.raises(psycopg.OperationalError, match="password|fe_sendauth"):
            psycopg.connect(tcp(server, user, password))
    # Verifiers are in one file, for its owner.
    data = tmp_path / "data"
    assert (data / "roles").stat().st_mode & 0o777 == 0o600
    others = [path for path in data.rglob("*") if path.is_file() and path.name != "roles"]
    assert others and not any(b"SCRAM" in path.read_bytes() for path in others)


def test_connections_are_encrypted(tmp_path):
    cert, key = certificate(tmp_path)
    options = ["--tls-cert", str(cert), "--tls-key", str(key)]
    with Serving(tmp_path, *options) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'x'")
        checked = {"sslmode": "verify-full", "sslrootcert": str(cert)}
        with psycopg.connect(tcp(server, "ann", "x", **checked)) as connection:
            assert connection.pgconn.ssl_in_use
            text = "x" * 1_000_000
            assert connection.execute("SELECT %s", (text,)).fetchone() == (text,)
            rows = connection.execute("SELECT * FROM generate_series(1, 100000)").fetchall()
            assert len(rows) == 100_000
    key.chmod(0o644)
    with pytest.raises(RuntimeError, match="others than its owner may read the key"):
        Serving(tmp_path, *options)


def test_wrong_arguments_are_told(tmp_path):
    def error(*arguments):
        command = [atoll(), "--runtime-dir", str(tmp_path), "serve", "x", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and not done.stdout
        return done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in error("--port", port)
    assert "no certificate to encrypt with" in error("--listen", "0.0.0.0", "--port", "0")
    assert "listen nowhere" in error("--listen", "none", "--socket-dir", "none")
    assert "--tls-key" in error("--tls-cert", "x")
    assert "address such as" in error("--listen", "nonsense")
    with Serving(tmp_path, data=False) as server:
        place = ["--port", str(server.port), "--socket-dir", str(server.runtime)]
        assert "another server listens on" in error(*place, "--listen", "none")


def test_the_server_ends_when_it_is_told_to(tmp_path):
    with Serving(tmp_path) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (1)")
        assert server.stop() == 0
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT 1")
        assert not list(server.runtime.glob(".s.PGSQL.*"))
    with Serving(tmp_path) as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_pgbench_runs_its_scripts(server, protocol):
    server.run("pgbench", "-i", "-s", "1", "-q")
    for script in ["tpcb-like", "simple-update", "select-only"]:
        shown = server.run("pgbench", "-n", "-M", protocol, "-b", script, "-c", "4", "-t", "50")
        assert "number of transactions actually processed: 200/200" in shown
        assert "number of failed transactions: 0 (0.000%)" in shown
    with psycopg.connect(server.dsn) as connection:
        sums = "SELECT sum(abalance) FROM pgbench_accounts", "SELECT sum(delta) FROM pgbench_history"
        assert len({connection.execute(one).fetchone() for one in sums}) == 1


def test_many_idle_clients_take_no_threads(tmp_path):
    with Serving(tmp_path, data=False) as server:
        clients = [psycopg.connect(server.dsn, autocommit=True) for _ in range(200)]
        for client in clients:
            client.execute("SELECT 1")
        status = f"/proc/{server.process.pid}/task"
        deadline = time.monotonic() + 30
        # Threads rest for some seconds before they end.
        while len(os.listdir(status)) > 60:
            assert time.monotonic() < deadline, "threads stay"
            time.sleep(0.2)
        for client in clients:
            assert client.execute("SELECT 2").fetchone() == (2,)
            client.close()


def test_a_program_has_settings_of_its_own(server):
    with psycopg.connect(server.dsn, options="-c app.id=7") as connection:
        ask = lambda query, *values: connection.execute(query, values).fetchone()[0]  # noqa: E731
        assert ask("SHOW app.id") == "7"
        assert ask("SELECT set_config(%s, %s, %s)", "app.user", "Ann", True) == "Ann"
        assert ask("SELECT current_setting(%s)", "app.user") == "Ann"
        connection.commit()
        assert ask("SELECT current_setting('app.user')") == ""
        assert ask("SELECT current_setting('app.none', true)") is None
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("SET work_memory = 5")


def test_slow_statements_and_errors_are_in_a_log_file_that_is_replaced(tmp_path):
    log = tmp_path / "bank.log"
    options = ("--log-file", str(log), "--log-min-duration", "0", "--log-rotate-size", "2000")
    with Serving(tmp_path, *options) as serving:
        with psycopg.connect(serving.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'geheim'")
            for id in range(20):
                connection.execute("INSERT INTO t VALUES (%s)", (id,))
            connection.execute("SELECT count(*) FROM t WHERE id > 5")
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT nonsense")
    lines = "".join(path.read_text() for path in sorted(tmp_path.glob("bank.log.*")))
    assert lines.count("INSERT INTO t VALUES ($1)") > 3
    lines += log.read_text()
    assert "SELECT count(*) FROM t WHERE id > ?" in lines and "plan=" in lines
    assert "42703" in lines and "geheim" not in lines
    assert log.stat().st_mode & 0o777 == 0o600


def test_notifications_reach_psycopg_and_psql(server):
    with psycopg.connect(server.dsn, autocommit=True) as hearer:
        hearer.execute("LISTEN jobs")
        with psycopg.connect(server.dsn) as sender:
            sender.execute("SELECT pg_notify('jobs', %s)", ("one",))
            sender.execute("NOTIFY jobs, 'two'")
            assert list(hearer.notifies(timeout=0.1)) == []
            sender.commit()
            pid = sender.info.backend_pid
            assert sender.execute("SELECT pg_backend_pid()").fetchone() == (pid,)
        heard = list(hearer.notifies(timeout=20, stop_after=2))
        assert [(one.pid, one.channel, one.payload) for one in heard] == [
            (pid, "jobs", "one"),
            (pid, "jobs", "two"),
        ]
    shown = server.run("psql", "-X", input="LISTEN a;\nNOTIFY a, 'said';\nSELECT 1;\n")
    assert 'Asynchronous notification "a" with payload "said" received' in shown


def test_advisory_locks_of_two_clients(server):
    with (
        psycopg.connect(server.dsn, autocommit=True) as one,
        psycopg.connect(server.dsn) as two,
    ):
        one.execute("SELECT pg_advisory_lock(%s)", (2**40,))
        get = lambda: two.execute("SELECT pg_try_advisory_xact_lock(%s)", (2**40,))  # noqa: E731
        assert get().fetchone() == (False,)
        assert one.execute("SELECT pg_advisory_unlock(%s)", (2**40,)).fetchone() == (True,)
        assert get().fetchone() == (True,)
        taken = one.execute("SELECT pg_try_advisory_lock(%s)", (2**40,)).fetchone()
        assert taken == (False,)
        two.commit()
        one.execute("SELECT pg_advisory_lock(%s)", (2**40,))
