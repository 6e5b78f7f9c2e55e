"""SQLAlchemy's suite for dialects, over psycopg: every test is a check, for all its parameters.

What pytest prints goes to the standard error output.
"""

import os
import re
import sys
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from checks import DATABASE, PLACE, url


class Reporter:
    """Prints the lines of the checks of a class when its last test is at its end."""

    def __init__(self, out):
        self.out, self.kind, self.passed, self.failed = out, "", {}, {}

    def pytest_runtest_logreport(self, report):
        # "test_suite.py::ATest_postgresql+psycopg_15_18::test_a[1-2]"
        _, kind, test = report.nodeid.split("::", 2)
        if kind != self.kind:
            self.tell()
            self.kind = kind
        name = f"{kind.partition('_postgresql')[0]}.{test.partition('[')[0]}"
        if report.failed:
            lines = [line[1:] for line in report.longreprtext.splitlines() if line.startswith("E ")]
            told = " ".join(" ".join(lines).split())
            self.failed.setdefault(name, re.sub(r"\(Background on .*", "", told)[:400])
        elif report.passed and report.when == "call":
            self.passed[name] = None

    def pytest_sessionfinish(self):
        self.tell()

    def tell(self):
        for name in self.passed | self.failed:
            verdict = f"not ok {name}: {self.failed[name]}" if name in self.failed else f"ok {name}"
            print(verdict, file=self.out, flush=True)
        self.passed, self.failed = {}, {}


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(f"version sqlalchemy-suite {sqlalchemy.__version__}", file=out, flush=True)
    # What SQLAlchemy's tests expect to find.
    with psycopg.connect(**PLACE, dbname=DATABASE, autocommit=True) as connection:
        for schema in ("test_schema", "test_schema_2"):
            connection.execute(f"CREATE SCHEMA {schema}")
    os.chdir(Path(__file__).parent / "suite")
    options = ["--tb=short", "-p", "no:cacheprovider", "--dburi", url("postgresql+psycopg")]
    # A thousand combinations of arguments for queries that other tests make as well.
    options += ["-k", "not test_get_multi"]
    arguments = [*options, "test_suite.py", *sys.argv[1:]]
    status = pytest.main(arguments, plugins=[Reporter(out)])
    return 0 if status in (0, 1) else status


sys.exit(main())
