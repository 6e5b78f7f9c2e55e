"""The contract of `clients/README.md` for programs in Python."""

import contextlib
import inspect
import os
import sys
import traceback

PLACE = {
    "host": os.environ["PGHOST"],
    "port": int(os.environ["PGPORT"]),
    "user": os.environ["PGUSER"],
    "password": os.environ["PGPASSWORD"],
}
DATABASE = os.environ["PGDATABASE"]
SOCKETS = os.environ["PGSOCKET"]

_CHECKS = []


def url(scheme="postgresql"):
    """The place as an URL."""
    from urllib.parse import quote

    password = quote(PLACE["password"])
    return f"{scheme}://{PLACE['user']}:{password}@{PLACE['host']}:{PLACE['port']}/{DATABASE}"


def check(name):
    """Marks a function as a check with this name; functions run in their order in the file."""

    def mark(function):
        _CHECKS.append((name, function))
        return function

    return mark


def equal(seen, wanted):
    """Fails with both values unless they are equal."""
    assert seen == wanted, f"{seen!r} instead of {wanted!r}"


@contextlib.contextmanager
def refused(kind, state=None, of=lambda error: getattr(error, "sqlstate", None)):
    """Fails unless the body raises this kind of error, with this SQLSTATE."""
    try:
        yield
    except kind as error:
        assert state in (None, of(error)), f"SQLSTATE {of(error)} instead of {state}: {error}"
    else:
        raise AssertionError(f"no {kind.__name__} {state or ''}")


def report(name, function):
    """Runs one check and prints its line; the whole error goes to the standard error output."""
    try:
        function()
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        print(f"not ok {name}: {f'[{state}] ' if state else ''}{told[:400]}", flush=True)
        print(f"--- {name}", file=sys.stderr)
        traceback.print_exc()
    else:
        print(f"ok {name}", flush=True)


def main(client, version, call=lambda function: function()):
    """Prints the version and runs all checks, each by `call`; those named in arguments only."""
    print(f"version {client} {version}", flush=True)
    for name, function in _CHECKS:
        if not sys.argv[1:] or name in sys.argv[1:]:
            report(name, lambda function=function: call(function))


def with_connection(connect):
    """A `call` that gives a check a connection of its own, if it takes one."""

    def call(function):
        if not inspect.signature(function).parameters:
            return function()
        with contextlib.closing(connect()) as connection:
            return function(connection)

    return call
