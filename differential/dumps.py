"""Dumps between Atoll and PostgreSQL: `python -m differential.dumps target/release/atoll`.

Each script of `schemas/` goes into Atoll. What Atoll dumps is loaded into PostgreSQL; what pg_dump
then writes is loaded into Atoll again, and both databases of Atoll must have the same rows, and the
same definitions but for what PostgreSQL has no word for. Then the other way: the script goes into
PostgreSQL, and its dump into Atoll.
"""

import glob
import os
import subprocess
import sys
import tempfile

from .databases import Server, find_programs


class Failed(Exception):
    """A program has failed, with what it said."""


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0 or "ERROR" in done.stderr:
        raise Failed(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Databases:
    """Atoll's folders and PostgreSQL's databases of a test."""

    def __init__(self, atoll, server, folder):
        self.atoll, self.server, self.folder = atoll, server, folder
        self.programs = find_programs()
        self.count = 0

    def file(self, text):
        self.count += 1
        path = os.path.join(self.folder, f"{self.count}.sql")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def into_atoll(self, text):
        """A new folder with what a script makes, and its dump."""
        self.count += 1
        data, name = os.path.join(self.folder, f"data{self.count}"), f"dumps{self.count}"
        common = ["--runtime-dir", os.path.join(os.path.dirname(self.folder), "run")]
        run([self.atoll, "sql", name, "--data", data, "-f", self.file(text), *common])
        return run([self.atoll, "dump", "--data", data, *common])

    def into_postgresql(self, text):
        """What pg_dump writes of a new database with what a script makes."""
        self.count += 1
        name = f"{os.path.basename(self.folder)}_{self.count}"
        at = ["-h", self.server.folder, "-U", "postgres"]
        run([f"{self.programs}/createdb", *at, name])
        psql = [f"{self.programs}/psql", *at, "-qX", "-v", "ON_ERROR_STOP=1", "-d", name]
        run([*psql, "-f", self.file(text)])
        return run([f"{self.programs}/pg_dump", *at, name])


def data_of(dump, numbers=True):
    """The parts of a dump with rows, and with where sequences are."""
    lines, kept, is_inside = dump.splitlines(), [], False
    for line in lines:
        is_inside |= line.startswith("COPY ")
        if is_inside or numbers and "setval" in line:
            kept.append(line)
        is_inside &= line != "\\."
    return kept


def check(databases, script):
    first = databases.into_atoll(script)
    if databases.into_atoll(first) != first:
        raise Failed("the dump of a loaded dump is another one")
    of_postgresql = databases.into_postgresql(first)
    again = databases.into_atoll(of_postgresql)
    if data_of(again) != data_of(first):
        raise Failed(f"other rows came back from PostgreSQL:\n{first}\n{again}")
    other_way = databases.into_atoll(databases.into_postgresql(script))
    # A sequence of Atoll is ahead by the numbers that it has set aside.
    if data_of(other_way, numbers=False) != data_of(first, numbers=False):
        raise Failed(f"PostgreSQL's rows are others:\n{first}\n{other_way}")


def main():
    atoll = os.path.abspath(sys.argv[1])
    scripts = sorted(glob.glob(os.path.join(os.path.dirname(__file__), "schemas", "*.sql")))
    server, failed = Server(), 0
    try:
        with tempfile.TemporaryDirectory(prefix="atoll-dumps-") as folder:
            os.mkdir(os.path.join(folder, "run"), 0o700)
            for path in scripts:
                with open(path, encoding="utf-8") as file:
                    script = file.read()
                try:
                    check(Databases(atoll, server, tempfile.mkdtemp(dir=folder)), script)
                    print(f"{os.path.basename(path)}: as it was")
                except Failed as error:
                    failed += 1
                    print(f"{os.path.basename(path)}: {error}")
    finally:
        server.close()
    return 1 if failed or not scripts else 0


if __name__ == "__main__":
    sys.exit(main())
