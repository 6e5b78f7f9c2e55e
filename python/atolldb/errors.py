"""Exception classes of the package. All of them are :class:`Error`."""

from __future__ import annotations


class Error(Exception):
    """Base class of the errors of Atoll; its text gives advice."""

    # KeyError would show its text in quotation marks.
    __str__ = Exception.__str__


class UnknownName(Error, LookupError):
    """No database is published under that name; the text lists those that are."""


class NameTaken(Error):
    """A living process has published a database under that name already."""


class OwnerGone(Error, ConnectionError):
    """The process that owns the database is gone, closed it, or does not answer."""


class VersionMismatch(Error):
    """The other process uses another version of Atoll."""


class ForeignUser(Error, PermissionError):
    """The database or the runtime directory belongs to another user."""


class SnapshotExpired(Error):
    """The snapshot is older, or keeps more memory, than its owner allows: take a new one."""


class SnapshotLimit(Error):
    """The held snapshots keep as much memory as they may: release one."""


class OutOfMemory(Error, MemoryError):
    """The database has reached its memory limit, or a query that of queries."""


class UnknownTable(Error, KeyError):
    """There is no table of that name."""


class TableExists(Error):
    """There is a table of that name already."""


class UnknownColumn(Error, KeyError):
    """The table has no column of that name."""


class DuplicateKey(Error):
    """A row with the same primary key, or with the same values of a unique index, exists already."""


class InvalidValue(Error, ValueError):
    """A value, name or schema that the database refuses."""


class NotContiguous(InvalidValue):
    """A column that cannot be one NumPy array over the snapshot's memory; ``copy=True`` copies."""


class CopyWarning(UserWarning):
    """An array that could not share the snapshot's memory and was copied; the text says why."""


class ForkedChild(Error, RuntimeError):
    """A database, session or connection of the parent of this forked process.

    Attach to the database by its name, read a snapshot that was taken before the fork, or make a
    database of your own. Processes that are started with "spawn" have none of this.
    """


class Closed(Error):
    """The object was closed or released before."""


class SqlError(Error):
    """A statement that failed. ``str()`` shows the offending line with a caret under the place."""

    def __init__(
        self,
        text: str,
        *,
        message: str | None = None,
        kind: str = "query",
        sqlstate: str = "42000",
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(text)
        #: One sentence about the error.
        self.message = text if message is None else message
        #: The kind of the error: "syntax", "unknown table", "unknown column",
        #: "unknown tablespace", "type", "constraint", "schema", "read-only", "unsupported",
        #: "aborted", "input", "query", "out of memory", "cancelled" or "database".
        self.kind = kind
        #: The code of the error in PostgreSQL, five characters: "23505", "40001".
        self.sqlstate = sqlstate
        #: Place in the statement, both from 1; None if unknown.
        self.line = line
        self.column = column
        #: Advice, or None.
        self.hint = hint


class ReadOnly(SqlError):
    """A change of a snapshot, or of a table that a database has from one: neither ever changes."""


class SqlOutOfMemory(SqlError, OutOfMemory):
    """A query that exceeds the limits of queries: see :func:`set_query_limits`."""


class SqlDuplicateKey(SqlError, DuplicateKey):
    """A statement that failed because of a :class:`DuplicateKey`."""
