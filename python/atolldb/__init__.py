"""Atoll from Python: instant, isolated, zero-copy snapshots of a live database.

>>> import atolldb
>>> db = atolldb.attach("board")                    # a database that another process owns
>>> with db.snapshot() as snapshot:                 # takes microseconds, copies nothing
...     print(snapshot.sql("SELECT carrier, count(*) FROM flights GROUP BY carrier"))
...     delays = snapshot["flights"]["dep_delay"].to_numpy()   # shares memory with the owner

A snapshot never changes, whatever its owner does next. Arrays, tables and results that came from
it keep its memory. All tabular objects here support the Arrow PyCapsule interface, so
pyarrow, polars, DuckDB and pandas read it directly.

A process can build on a snapshot and publish its result in the same way:

>>> derived = snapshot.derive()
>>> derived.create_table("clusters", clusters, primary_key="faa")
>>> derived.publish("board-clusters")
"""

from ._atolldb import (
    Column,
    Connection,
    Database,
    Result,
    Schema,
    Session,
    Snapshot,
    Stream,
    Table,
    __version__,
    attach,
    create,
    derive,
    open,
    set_query_limits,
)
from .errors import (
    Closed,
    CopyWarning,
    DuplicateKey,
    Error,
    ForeignUser,
    ForkedChild,
    InvalidValue,
    NameTaken,
    NotContiguous,
    OutOfMemory,
    OwnerGone,
    ReadOnly,
    SnapshotExpired,
    SnapshotLimit,
    SqlError,
    TableExists,
    UnknownColumn,
    UnknownName,
    UnknownTable,
    VersionMismatch,
)

from ._transaction import Transaction

#: A database that was built on snapshots is a database like any other.
Derived = Database

__all__ = [
    "Closed",
    "Column",
    "Connection",
    "CopyWarning",
    "Database",
    "Derived",
    "DuplicateKey",
    "Error",
    "ForeignUser",
    "ForkedChild",
    "InvalidValue",
    "NameTaken",
    "NotContiguous",
    "OutOfMemory",
    "OwnerGone",
    "ReadOnly",
    "Result",
    "Schema",
    "Session",
    "Snapshot",
    "Stream",
    "SnapshotExpired",
    "SnapshotLimit",
    "SqlError",
    "Table",
    "TableExists",
    "UnknownColumn",
    "UnknownName",
    "UnknownTable",
    "VersionMismatch",
    "__version__",
    "attach",
    "create",
    "Transaction",
    "derive",
    "open",
    "set_query_limits",
]
