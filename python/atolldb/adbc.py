"""Arrow database connectivity (ADBC): what pandas, polars and others read and write with.

>>> from atolldb import adbc
>>> with adbc.connect("folder") as connection, connection.cursor() as cursor:
...     cursor.adbc_ingest("flights", table)             # creates it; the first column is its key
...     connection.commit()
...     delays = cursor.execute("SELECT * FROM flights WHERE dep_delay > 60").fetch_arrow_table()

The driver is in the shared object of this package, so a connection sees the databases that are open
in this process. Other programs open it as :data:`DRIVER` with the entry point :data:`ENTRYPOINT`.
"""

from __future__ import annotations

import os

import atolldb

from . import _atolldb

#: The shared object with the driver.
DRIVER = _atolldb.__file__
#: The function in it that a driver manager calls.
ENTRYPOINT = "AtollDriverInit"

_LEVEL = "adbc.connection.transaction.isolation_level"
_LEVELS = {
    level: f"adbc.connection.transaction.isolation.{level.replace(' ', '_')}"
    for level in ("read committed", "repeatable read", "serializable")
}


def _manager():
    try:
        import adbc_driver_manager.dbapi
    except ImportError as error:
        raise ImportError(
            "atolldb.adbc needs the package adbc-driver-manager, and pyarrow for Python's own "
            "values: pip install adbc-driver-manager pyarrow"
        ) from error
    return adbc_driver_manager.dbapi


def _uri(target):
    if target is None:
        return ":memory:"
    if isinstance(target, atolldb.Database):
        return target._adbc_uri()
    if isinstance(target, atolldb.Connection):
        return f"attach:{target.name}"
    path = os.fspath(target)
    if path.startswith("attach:") or path == ":memory:":
        return path
    return os.path.abspath(path)


def connect(
    target=None,
    *,
    autocommit=False,
    read_only=False,
    isolation=None,
    primary_key=None,
    views=True,
    durability=None,
    scheme=None,
    memory_limit=None,
    runtime_dir=None,
):
    """A connection of ``adbc_driver_manager.dbapi``.

    ``target`` is a folder, a database of this process, or ``None`` for a new database in memory; a
    connection of :func:`atolldb.attach`, or ``"attach:NAME"``, which can only be read. A folder that
    is open in this process already is shared.

    ``read_only`` runs the statements of a transaction on one snapshot. ``primary_key`` names the key
    of tables that ``adbc_ingest`` creates, a column or several; by default it is the first column.
    Without ``views``, texts and bytes have Arrow's older types in results. ``durability``,
    ``scheme`` and ``memory_limit`` are those of :func:`atolldb.open`, ``runtime_dir`` is that of
    :func:`atolldb.attach`.
    """
    manager = _manager()
    if primary_key is not None and not isinstance(primary_key, str):
        primary_key = ",".join(primary_key)
    given = {
        "uri": _uri(target),
        "atoll.ingest.primary_key": primary_key,
        "atoll.views": None if views else "false",
        "atoll.durability": durability,
        "atoll.scheme": scheme,
        "atoll.memory_limit": None if memory_limit is None else str(memory_limit),
        "atoll.runtime_dir": None if runtime_dir is None else os.fspath(runtime_dir),
    }
    modes = {}
    if read_only:
        modes["adbc.connection.readonly"] = "true"
    if isolation is not None:
        if isolation not in _LEVELS:
            raise ValueError(f"isolation is {isolation!r}; it is one of {', '.join(_LEVELS)}")
        modes[_LEVEL] = _LEVELS[isolation]
    return manager.connect(
        driver=DRIVER,
        entrypoint=ENTRYPOINT,
        db_kwargs={name: value for name, value in given.items() if value is not None},
        conn_kwargs=modes,
        autocommit=autocommit,
    )
