"""Python's database interface, version 2.0 (PEP 249), over a database of this process.

>>> from atolldb import dbapi
>>> connection = dbapi.connect("folder")            # or dbapi.connect() for one in memory
>>> cursor = connection.cursor()
>>> cursor.execute("SELECT balance FROM account WHERE id = ?", (1,)).fetchone()

Connections to one folder share the database. The first statement begins a transaction, unless
``autocommit`` is set. A definition (``CREATE TABLE``) is never part of one: it runs by itself, and
is refused while one is open.
"""

from __future__ import annotations

import datetime
import itertools
import re
import time

import atolldb

from . import errors

apilevel = "2.0"
#: Threads may share the module and connections; statements of a connection take turns.
threadsafety = 2
paramstyle = "qmark"


class Warning(Exception):  # noqa: A001 - the name is that of the specification
    """Important warnings; none is raised."""


class Error(Exception):
    """Base class of errors."""

    #: The error of Atoll, with its kind and its place in the statement.
    cause: errors.Error | None = None


class InterfaceError(Error):
    """A wrong use of this module."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value of the wrong type or out of range."""


class OperationalError(DatabaseError):
    """A conflict with another transaction, a limit, or a failure of the system."""


class IntegrityError(DatabaseError):
    """A rule of a table is broken: a key that exists already, NULL where none may be."""


class InternalError(DatabaseError):
    """A fault in Atoll."""


class ProgrammingError(DatabaseError):
    """A wrong statement, or a table that does not exist."""


class NotSupportedError(DatabaseError):
    """A feature of SQL that Atoll does not support."""


#: By the class of the SQLSTATE, its first two characters; "24" to "57" are states of a session,
#: of its transaction and of the machine.
_OF_STATE = {
    "0A": NotSupportedError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "26": ProgrammingError,
    "3B": ProgrammingError,
    "42": ProgrammingError,
}


def _translated(error):
    """The exception of this module for one of the package."""
    if isinstance(error, errors.Closed):
        kind = InterfaceError
    elif isinstance(error, errors.DuplicateKey):
        kind = IntegrityError
    elif isinstance(error, errors.SqlError):
        kind = _OF_STATE.get(error.sqlstate[:2], OperationalError)
    elif isinstance(error, errors.InvalidValue):
        kind = DataError
    else:
        kind = OperationalError
    translated = kind(str(error))
    translated.cause = error
    translated.sqlstate = getattr(error, "sqlstate", None)
    return translated


class _Type:
    """A group of column types, equal to the code of each of them."""

    def __init__(self, *codes):
        self._codes = frozenset(codes)

    def __eq__(self, other):
        return other in self._codes if isinstance(other, str) else self is other

    def __hash__(self):
        return hash(self._codes)


STRING = _Type("Utf8", "LargeUtf8", "Utf8View")
BINARY = _Type("Binary", "LargeBinary", "BinaryView", "FixedSizeBinary")
NUMBER = _Type("Int16", "Int32", "Int64", "Float32", "Float64", "Decimal128", "Boolean")
DATETIME = _Type("Date32", "Timestamp")
ROWID = _Type()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks):  # noqa: N802 - the names are those of the specification
    """The date of a time in seconds since the epoch."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks):  # noqa: N802
    """The time of day of a time in seconds since the epoch."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks):  # noqa: N802
    """The timestamp of a time in seconds since the epoch."""
    return Timestamp(*time.localtime(ticks)[:6])


_DEFINITION = re.compile(r"\s*(CREATE|ALTER|DROP)\s", re.IGNORECASE)


def connect(folder=None, *, autocommit=False, database=None, **options):
    """A connection to the database in ``folder``, to ``database``, or to a new one in memory.

    ``options`` are those of :func:`atolldb.open` and :func:`atolldb.create`. A folder that is open
    already is shared and has the options that it was opened with; asking for other ones is an error.
    """
    try:
        if database is not None:
            if folder is not None or options:
                raise InterfaceError("a database that is given has its folder and options already")
            return Connection(database, False, autocommit)
        if folder is None or folder == ":memory:":
            return Connection(atolldb.create(**options), True, autocommit)
        return Connection(atolldb.open(folder, **options), True, autocommit)
    except errors.InvalidValue as error:
        raise InterfaceError(str(error)) from error
    except errors.Error as error:
        raise _translated(error) from error


class Connection:
    """A session on a database, see :func:`connect`."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database, is_own, autocommit):
        self._database, self._is_own = database, is_own
        self._session = database.session()
        self._autocommit = autocommit

    def _open_session(self):
        if self._session is None:
            raise _translated(errors.Closed("the connection is closed"))
        return self._session

    def _run(self, method, *arguments):
        session = self._open_session()
        try:
            return getattr(session, method)(*arguments)
        except errors.Error as error:
            raise _translated(error) from error
        except TypeError as error:
            raise ProgrammingError(str(error)) from error

    def _in_transaction(self):
        """Whether a transaction is open."""
        session = self._open_session()
        try:
            return session.in_transaction
        except errors.Error as error:
            raise _translated(error) from error

    def _begin(self, operation):
        """Begins a transaction for a statement, unless one is open or each statement is one."""
        if not (self._autocommit or self._in_transaction() or _DEFINITION.match(operation)):
            self._run("sql", "BEGIN")

    @property
    def database(self):
        """The :class:`atolldb.Database`."""
        return self._database

    @property
    def isolation(self):
        """The isolation level of the transactions that follow: "read committed", "repeatable read"
        or "serializable". A database whose scheme has no other level says "serializable"."""
        return self._run("sql", "SHOW default_transaction_isolation").fetchone()[0]

    @isolation.setter
    def isolation(self, level):
        quoted = level.replace("'", "''")
        self._run("sql", f"SET default_transaction_isolation = '{quoted}'")

    @property
    def autocommit(self):
        """Whether each statement is a transaction by itself."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value):
        if value and not self._autocommit:
            self.commit()
        self._autocommit = bool(value)

    def cursor(self):
        """A new cursor."""
        self._open_session()
        return Cursor(self)

    def execute(self, operation, parameters=()):
        """Run a statement with a new cursor, which is returned."""
        return self.cursor().execute(operation, parameters)

    def commit(self):
        """Commit the open transaction, if there is one."""
        if self._in_transaction() and self._run("sql", "COMMIT").tag != "COMMIT":
            raise OperationalError(
                "the transaction was rolled back, because a statement of it had failed"
            )

    def rollback(self):
        """Roll back the open transaction, if there is one."""
        if self._in_transaction():
            self._run("sql", "ROLLBACK")

    def close(self):
        """Close the connection; an open transaction is rolled back."""
        session, self._session = self._session, None
        if session is None:
            raise InterfaceError("the connection is closed already")
        session.close()
        if self._is_own:
            self._database.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __del__(self):
        if getattr(self, "_session", None) is not None:
            self.close()


class Cursor:
    """Runs statements and reads their results."""

    def __init__(self, connection):
        self.connection = connection
        self.arraysize = 1
        self.description = None
        self.rowcount = -1
        self._rows = None
        self._is_open = True

    def _check(self):
        if not self._is_open:
            raise InterfaceError("the cursor is closed")

    def execute(self, operation, parameters=()):
        """Run a statement with values for its parameters, which are written ``?``."""
        self._check()
        self._rows = self.description = None
        self.rowcount = -1
        self.connection._begin(operation)
        result = self.connection._run("sql", operation, parameters)
        if result.column_names:
            names, types = result.column_names, result.schema.types
            self.description = [
                (name, _code(kind), None, None, None, None, None)
                for name, kind in zip(names, types, strict=True)
            ]
            self._rows = iter(result)
            self.rowcount = result.num_rows
        else:
            self.rowcount = result.rows_affected
        return self

    def executemany(self, operation, parameters):
        """Run a statement once for each list of values, all of them or none."""
        self._check()
        self._rows = self.description = None
        self.connection._begin(operation)
        self.rowcount = self.connection._run("executemany", operation, parameters)
        return self

    def _result(self):
        self._check()
        if self._rows is None:
            raise ProgrammingError("there is no result: the last statement returned no rows")
        return self._rows

    def fetchone(self):
        """The next row as a tuple; None behind the last."""
        return next(self._result(), None)

    def fetchmany(self, size=None):
        """The next rows, at most ``size`` of them, by default ``arraysize``."""
        rows = self._result()
        size = self.arraysize if size is None else size
        return list(itertools.islice(rows, size))

    def fetchall(self):
        """All rows that are left."""
        return list(self._result())

    def __iter__(self):
        return self._result()

    def close(self):
        """Close the cursor."""
        self._is_open = False
        self._rows = None

    def setinputsizes(self, sizes):
        """Has no effect: parameters have the types of what they stand beside."""

    def setoutputsize(self, size, column=None):
        """Has no effect: values have any size."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()


def _code(kind):
    """The type code of a column: the name of its Arrow type, without parameters."""
    return kind.split("(")[0]
