"""Backups of a server at work, by SQL and by command, and what is restored from them."""

import subprocess
import threading
import time

import psycopg
import pytest
from server_process import Serving, atoll


def connected(server):
    return psycopg.connect(server.dsn, autocommit=True)


def ann_of(server):
    dsn = f"host=127.0.0.1 port={server.port} dbname=bank user=ann password=x"
    return psycopg.connect(dsn, autocommit=True)


def backed_up(folder, port, runtime):
    command = [atoll(), "--runtime-dir", runtime, "backup", "bank", folder, "--port", str(port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_server_at_work_is_backed_up_and_restored(tmp_path):
    archive, backup = tmp_path / "logs", tmp_path / "monday's"
    with Serving(tmp_path, "--archive", archive) as server, connected(server) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 'x'")
        stopped, last = threading.Event(), [0]

        def write():
            with connected(server) as writer:
                while not stopped.is_set():
                    writer.execute("INSERT INTO t VALUES (%s)", (last[0] + 1,))
                    last[0] += 1

        writer = threading.Thread(target=write)
        writer.start()
        while last[0] < 20:
            time.sleep(0.01)
        before = last[0]
        done = backed_up(backup, server.port, server.runtime)
        stopped.set()
        writer.join()
        assert (done.returncode, done.stdout) == (0, f"bank is backed up in {backup}\n"), done
        # Restore points are a second apart.
        time.sleep(2.1)
        [(moment,)] = connection.execute("SELECT now()")
        time.sleep(2.1)
        connection.execute("INSERT INTO t VALUES (-1)")
        connection.execute("BACKUP TO '%s'" % (tmp_path / "tuesday"))
        connection.execute(
            f"RESTORE FROM '{tmp_path}/monday''s' ARCHIVE '{archive}' TO '{tmp_path / 'past'}' "
            f"UNTIL '{moment}'"
        )
        connection.execute("INSERT INTO t VALUES (-2)")
    counts = {}
    for name in ("monday's", "tuesday", "past"):
        with Serving(tmp_path, data=tmp_path / name) as copy, connected(copy) as connection:
            found = [row[0] for row in connection.execute("SELECT id FROM t ORDER BY id")]
            counts[name] = found
            ann_of(copy).close()
    assert before <= len(counts["monday's"]) <= last[0]
    assert counts["monday's"] == [*range(1, len(counts["monday's"]) + 1)]
    assert counts["tuesday"] == [-1, *range(1, last[0] + 1)]
    assert counts["past"] == [*range(1, last[0] + 1)]


def test_a_backup_that_cannot_be_made_is_refused(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    with Serving(tmp_path) as server, connected(server) as connection:
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 'x'")
        for statement, state in [
            (f"BACKUP TO '{full}'", "58P01"),
            ("BACKUP TO 'relative'", "42602"),
            ("BACKUP TO '/proc/nowhere'", "58030"),
            ("BACKUP TO ", "42601"),
            (f"RESTORE FROM '{full}' ARCHIVE '{full}' TO '{tmp_path / 'new'}'", "58P01"),
            (f"RESTORE FROM '/x' ARCHIVE '/x' TO '{tmp_path / 'new'}' UNTIL 'noon'", "22007"),
        ]:
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(statement)
            assert raised.value.sqlstate == state, (statement, raised.value)
            assert "{" not in str(raised.value)
        assert [one.name for one in full.iterdir()] == ["file"]
        with ann_of(server) as ann, pytest.raises(psycopg.Error) as raised:
            ann.execute(f"BACKUP TO '{tmp_path / 'stolen'}'")
        assert raised.value.sqlstate == "42501" and not (tmp_path / "stolen").exists()
        with pytest.raises(psycopg.Error) as raised, connection.transaction():
            connection.execute(f"BACKUP TO '{tmp_path / 'inside'}'")
        assert raised.value.sqlstate == "25001"
        done = backed_up(full, server.port, server.runtime)
        assert done.returncode == 1 and done.stderr.startswith("error: "), done
        assert server.run("psql", "-X", "-At", "-c", "SELECT 1") == "1\n"
        runtime, port = server.runtime, server.port
    done = backed_up(full, port, runtime)
    assert done.returncode == 1 and "atoll serve bank" in done.stderr
