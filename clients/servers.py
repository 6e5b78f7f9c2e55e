"""The servers that clients are run against: `atoll serve`, and PostgreSQL as their judge.

Each has `environment()`, the place of a database that holds nothing yet, as PostgreSQL's variables;
`is_alive()`; `log`, the file with the statements that it got; and ends with its `with` block.
"""

import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

import psycopg
from psycopg import sql

ROLE, PASSWORD, DATABASE = "client", "correct horse", "clients"
#: Where Debian has the programs of PostgreSQL 15.
POSTGRES = "/usr/lib/postgresql/15/bin"


class Server:
    """A process with its files in `folder`, which is emptied first."""

    def __init__(self, folder):
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.log = self.folder / "log"
        self.process = None

    def environment(self):
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": ROLE,
            "PGPASSWORD": PASSWORD,
            "PGDATABASE": DATABASE,
            "PGSOCKET": str(self.sockets),
        }

    def is_alive(self):
        return self.process.poll() is None

    def add_role(self, **place):
        """The role of all clients: a superuser that proves its password."""
        with psycopg.connect(**place, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(
                    sql.Identifier(ROLE), sql.Literal(PASSWORD)
                )
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_alive():
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Atoll(Server):
    """`atoll serve` over a fresh folder; its log has each statement with its values."""

    def __init__(self, program, folder):
        super().__init__(folder)
        self.sockets = self.folder / "run"
        self.sockets.mkdir(mode=0o700)
        self.process = subprocess.Popen(
            [
                *(program, "--runtime-dir", self.sockets, "serve", DATABASE, "--port", "0"),
                *("--data", self.folder / "data", "--durability", "none"),
                *("--log-file", self.log, "--log-level", "debug", "--log-values"),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("w"),
            text=True,
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.process.wait()
            raise RuntimeError((self.folder / "stderr").read_text())
        self.port = int(line.rpartition(":")[2])
        self.add_role(host=str(self.sockets), port=self.port, dbname=DATABASE)


class Postgres(Server):
    """PostgreSQL 15, as another user where we are root, since it refuses root."""

    def __init__(self, folder):
        super().__init__(folder)
        if not Path(POSTGRES, "initdb").exists():
            raise RuntimeError(f"{POSTGRES} is missing: scripts/setup.sh postgres")
        self.sockets, self.port = self.folder / "run", free_port()
        self.sockets.mkdir()
        # PostgreSQL's user must reach the folder, which may be below one that it cannot enter.
        self.user = {}
        if os.geteuid() == 0:
            found = pwd.getpwnam("postgres")
            self.user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
            for path in (self.folder, self.sockets):
                os.chown(path, found.pw_uid, found.pw_gid)
        data = self.folder / "data"
        self._run(
            *("initdb", "--locale=C.UTF-8", "--encoding=UTF8", "--no-sync", "--username=postgres"),
            *("--auth-local=trust", "--auth-host=scram-sha-256", f"--pgdata={data}"),
        )
        settings = {
            **{"fsync": "off", "unix_socket_directories": self.sockets, "timezone": "UTC"},
            **{"listen_addresses": "127.0.0.1", "log_statement": "all", "logging_collector": "off"},
        }
        self.process = subprocess.Popen(
            [
                *(f"{POSTGRES}/postgres", "-D", data, "-p", str(self.port)),
                *(word for key, value in settings.items() for word in ("-c", f"{key}={value}")),
            ],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            **self.user,
        )
        place = {"host": str(self.sockets), "port": self.port, "user": "postgres"}
        self._wait(place)
        self.add_role(**place, dbname="postgres")
        with psycopg.connect(**place, dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def _run(self, program, *arguments):
        done = subprocess.run(
            [f"{POSTGRES}/{program}", *arguments],
            **{"capture_output": True, "text": True, "cwd": self.folder},
            **self.user,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def _wait(self, place):
        for _ in range(600):
            try:
                psycopg.connect(**place, dbname="postgres").close()
                return
            except psycopg.OperationalError:
                if not self.is_alive():
                    raise RuntimeError(self.log.read_text()) from None
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL has not started within 30 seconds")


def free_port():
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
