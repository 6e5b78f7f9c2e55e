from contextlib import AbstractContextManager
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, Self, TypedDict, overload

import numpy
import pandas
import polars
import pyarrow

from .errors import (
    Closed as Closed,
    CopyWarning as CopyWarning,
    DuplicateKey as DuplicateKey,
    Error as Error,
    ForeignUser as ForeignUser,
    ForkedChild as ForkedChild,
    InvalidValue as InvalidValue,
    NameTaken as NameTaken,
    NotContiguous as NotContiguous,
    OutOfMemory as OutOfMemory,
    OwnerGone as OwnerGone,
    ReadOnly as ReadOnly,
    SnapshotExpired as SnapshotExpired,
    SnapshotLimit as SnapshotLimit,
    SqlError as SqlError,
    TableExists as TableExists,
    UnknownColumn as UnknownColumn,
    UnknownName as UnknownName,
    UnknownTable as UnknownTable,
    VersionMismatch as VersionMismatch,
)

__version__: str

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

_Data = _ArrowStream | _ArrowArray | Mapping[str, Sequence[Any] | numpy.ndarray[Any, Any]]

class SnapshotInfo(TypedDict):
    """A held snapshot, as ``snapshots()`` lists it; only a type, not an object of the package."""

    id: int
    pid: int
    command: str
    epoch: int
    age_s: float
    bytes_shared: int
    bytes_copied: int
    bytes_kept: int
    state: str

class Counters(TypedDict):
    """Counters and resources of a database, as ``counters`` returns them; only a type."""

    commits: int
    aborts: int
    extents_copied: int
    bytes_copied_on_write: int
    memory_allocated_bytes: int
    memory_committed_bytes: int
    memory_limit_bytes: int
    memory_kept_bytes: int
    snapshots: int
    epoch: int

class MemoryAccount(TypedDict):
    """Where the memory of a database is, as ``memory`` returns it; only a type."""

    tables_bytes: int
    kept_bytes: int
    free_bytes: int
    headers_bytes: int
    indexes_bytes: int
    heap_bytes: int
    heap_free_bytes: int
    process_bytes: int

def attach(name: str, runtime_dir: str | PathLike[str] | None = None) -> Connection:
    """Attach to the database that a process has published under ``name``."""

def create(
    memory_limit: int | None = None,
    *,
    snapshot_age_max: float | None = None,
    snapshot_bytes_max: int | None = None,
    scheme: str | None = None,
) -> Database:
    """A new, empty database. ``memory_limit`` is in bytes, ``snapshot_age_max`` in seconds;
    ``scheme`` is the concurrency-control scheme; ``atoll sql --help`` lists all of them."""

def open(
    folder: str | PathLike[str],
    *,
    durability: str | None = None,
    memory_limit: int | None = None,
    snapshot_age_max: float | None = None,
    snapshot_bytes_max: int | None = None,
    scheme: str | None = None,
) -> Database:
    """The database in a folder, which is created if need be. ``durability`` says what a commit
    survives when it returns: "strict" (the default), "group" or "none".

    A folder that is open in this process already is shared; its database is closed with the last of
    its objects, and an argument that is given must be that of the database."""

def derive(
    snapshots: Sequence[Snapshot],
    *,
    memory_limit: int | None = None,
    snapshot_age_max: float | None = None,
    snapshot_bytes_max: int | None = None,
    scheme: str | None = None,
) -> Database:
    """A new database that also shows the tables of these snapshots."""

def set_query_limits(
    *,
    memory: int | None = None,
    spill: int | None = None,
    spill_folder: str | PathLike[str] | None = None,
) -> None:
    """Limit the memory of all queries of this process together, with results that are kept.
    ``memory`` is in bytes, by default an eighth of the memory that the process may use. Data that
    does not fit is spilled to files in a folder of ``spill_folder``, ``spill`` bytes at most, or
    raises ``OutOfMemory``. A limit that is not given has its default."""

class _Closing:
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

class Connection(_Closing):
    """A connection to a database that another process owns."""

    @property
    def name(self) -> str: ...
    @property
    def owner_pid(self) -> int: ...
    def snapshot(self) -> Snapshot:
        """Take a snapshot. Nothing is copied."""
    def snapshots(self) -> list[SnapshotInfo]:
        """The held snapshots, their holders and their costs."""
    def close(self) -> None:
        """Close the connection. Snapshots taken from it remain valid; they cannot be refreshed."""

class Schema:
    """Names and Arrow types of columns."""

    @property
    def names(self) -> list[str]: ...
    @property
    def types(self) -> list[str]: ...
    @property
    def nullable(self) -> list[bool]: ...
    def to_arrow(self) -> pyarrow.Schema: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

class Snapshot(_Closing):
    """A frozen, consistent view of a database."""

    @property
    def database(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def take_ns(self) -> int: ...
    @property
    def attach_ns(self) -> int: ...
    @property
    def bytes_copied_attach(self) -> int:
        """Always 0: its memory is the owner's own."""
    @property
    def bytes_patched(self) -> int:
        """Bytes copied since, because a transaction was open when it was taken."""
    @property
    def tables(self) -> list[str]: ...
    @property
    def views(self) -> list[str]: ...
    @property
    def bases(self) -> list[Snapshot]: ...
    def refresh(self) -> None:
        """Show the newest state of the database instead. If no new snapshot can be taken, the one
        before stays. What came from that one stays as it is, and keeps its memory until it is gone.
        """
    def check(self) -> None:
        """Raise ``SnapshotExpired`` when the snapshot is over a limit of its owner."""
    def table(self, name: str) -> Table: ...
    def __getitem__(self, name: str, /) -> Table: ...
    def __contains__(self, name: str, /) -> bool: ...
    def sql(self, query: str, parameters: Sequence[Any] | None = None) -> Result:
        """Run a query. Threads may query one snapshot at the same time."""
    def stream(self, query: str, parameters: Sequence[Any] | None = None) -> Stream:
        """As ``sql``, for a query with many rows: they are returned as they are read."""
    def derive(
        self,
        *,
        memory_limit: int | None = None,
        snapshot_age_max: float | None = None,
        snapshot_bytes_max: int | None = None,
        scheme: str | None = None,
    ) -> Database:
        """A new database that also shows the tables of this snapshot."""
    def release(self) -> None:
        """Release it; tables, arrays and results from it stay readable."""

class Table:
    """A table of a snapshot, or some of its columns."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def primary_key(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    def select(self, columns: Sequence[str]) -> Table: ...
    @overload
    def __getitem__(self, name: str, /) -> Column: ...
    @overload
    def __getitem__(self, names: list[str], /) -> Table: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_arrow(self, *, views: bool = True) -> pyarrow.Table:
        """``views=False`` copies texts and bytes into the types that all of pyarrow knows."""
    def to_pandas(self, **options: Any) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...

class Column:
    """A column of a table of a snapshot."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def nullable(self) -> bool: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __array__(
        self, dtype: Any | None = None, copy: bool | None = None
    ) -> numpy.ndarray[Any, Any]: ...
    def to_arrow(self) -> pyarrow.ChunkedArray[Any]: ...
    def to_polars(self) -> polars.Series: ...
    def to_numpy(
        self, copy: bool | None = None, *, masked: bool = False
    ) -> numpy.ndarray[Any, Any]:
        """One NumPy array: read-only over the snapshot's memory, or with ``copy`` a separate one.

        Where rows between others were deleted, or several threads inserted, the values are copied
        with a ``CopyWarning`` that says why; ``copy=False`` raises ``NotContiguous`` instead.
        """

class Result:
    """The result of a statement."""

    @property
    def schema(self) -> Schema: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def tag(self) -> str: ...
    @property
    def rows_affected(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_arrow(self, *, views: bool = True) -> pyarrow.Table:
        """``views=False`` copies texts and bytes into the types that all of pyarrow knows."""
    def to_pandas(self, **options: Any) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def _repr_html_(self) -> str: ...

class Stream:
    """The rows of a query, computed while they are read, once: as tuples, or as Arrow data that
    another library takes batch by batch.

    They are rows of one snapshot, which is kept until the stream ends; a slow reader makes the
    query wait. Signals end the reading of tuples; another library reads to its end.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def column_names(self) -> list[str]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[Any, ...]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_reader(self) -> pyarrow.RecordBatchReader: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

class Transaction:
    """Statements that count together: the end of the ``with`` block commits, an exception rolls
    back."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def sql(self, statement: str, parameters: Sequence[Any] | None = None) -> Result: ...
    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> int: ...
    def insert(self, name: str, data: _Data) -> int: ...
    def savepoint(self) -> AbstractContextManager[object]:
        """A part of the transaction, as a ``with`` block: an exception undoes it alone."""

class Session(_Closing):
    """Sequential statements, with at most one open transaction at a time.

    Closing it, as the end of a ``with`` block does, rolls back an open transaction.
    """

    @property
    def in_transaction(self) -> bool: ...
    def sql(self, statement: str, parameters: Sequence[Any] | None = None) -> Result:
        """Run one SQL statement, with values for its parameters: ``?``, or ``$1``, ``$2``, …"""
    def stream(self, statement: str, parameters: Sequence[Any] | None = None) -> Stream:
        """As ``sql``, for a query with many rows: they are returned as they are read."""
    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> int:
        """Run a statement once for each list of values, all of them or none."""
    def insert(self, name: str, data: _Data) -> int:
        """Insert ``data`` into a table: in the open transaction, or in one of its own."""

class Database(_Closing):
    """A database that this process owns, perhaps built on snapshots of others.

    Each thread has a session of its own for ``sql``, ``insert`` and ``create_table``. A transaction
    that is open in it when the thread ends, or the database is closed, is rolled back.
    """

    @property
    def name(self) -> str | None: ...
    @property
    def tables(self) -> list[str]: ...
    @property
    def views(self) -> list[str]: ...
    @property
    def bases(self) -> list[Snapshot]: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def memory(self) -> MemoryAccount: ...
    def snapshots(self) -> list[SnapshotInfo]: ...
    def create_table(self, name: str, data: _Data, *, primary_key: str | Iterable[str]) -> int:
        """Create a table and load ``data`` into it in one transaction; not while one is open."""
    def insert(self, name: str, data: _Data) -> int:
        """Insert ``data`` into a table: in this thread's open transaction, or in one of its own."""
    def sql(self, statement: str, parameters: Sequence[Any] | None = None) -> Result:
        """Run one SQL statement in the session of this thread, with values for its parameters:
        ``?``, or ``$1``, ``$2``, …"""
    def stream(self, statement: str, parameters: Sequence[Any] | None = None) -> Stream:
        """As ``sql``, for a query with many rows: they are returned as they are read."""
    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]]) -> int:
        """Run a statement once for each list of values, all of them or none."""
    def transaction(self, *, isolation: str | None = None, read_only: bool = False) -> Transaction:
        """A transaction as a ``with`` block. ``isolation`` is "read committed" (the default),
        "repeatable read" or "serializable"."""
    def checkpoint(self) -> None:
        """Take a checkpoint of a database in a folder."""
    def session(self) -> Session:
        """One more session, for a transaction besides that of this thread."""
    def snapshot(self) -> Snapshot: ...
    def table(self, name: str) -> Table: ...
    def __getitem__(self, name: str, /) -> Table: ...
    def publish(self, name: str, runtime_dir: str | PathLike[str] | None = None) -> None:
        """Give the database a name by which other processes attach to it."""
    def close(self) -> None:
        """Close the database. Others in this process that share it keep it, with its name."""
    def _adbc_uri(self) -> str: ...

Derived = Database
