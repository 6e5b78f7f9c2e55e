"""Transactions as a ``with`` block."""

from __future__ import annotations

from .errors import SqlError


class Transaction:
    """Statements that count together: the end of the ``with`` block commits, an exception rolls back.

    >>> with db.transaction() as tx:
    ...     tx.sql("UPDATE account SET balance = balance - ? WHERE id = ?", (30, 1))
    ...     tx.sql("UPDATE account SET balance = balance + ? WHERE id = ?", (30, 2))

    Inside a block, ``with tx.savepoint():`` marks a part that can fail by itself.
    """

    __slots__ = ("_begin", "_savepoints", "_session")

    def __init__(self, session, isolation=None, read_only=False):
        self._session = session
        level = f" ISOLATION LEVEL {isolation.replace('_', ' ')}" if isolation else ""
        self._begin = f"BEGIN{level}{' READ ONLY' if read_only else ''}"
        self._savepoints = 0

    def __enter__(self):
        try:
            self._session.sql(self._begin)
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is not None:
                self._session.sql("ROLLBACK")
            elif self._session.sql("COMMIT").tag != "COMMIT":
                raise SqlError(
                    "the transaction was rolled back, because a statement of it had failed",
                    kind="aborted",
                )
        finally:
            self._session.close()

    def sql(self, statement, parameters=None):
        """Run one SQL statement, with values for its parameters."""
        return self._session.sql(statement, parameters)

    def executemany(self, statement, parameters):
        """Run a statement once for each list of values; the number of rows changed."""
        return self._session.executemany(statement, parameters)

    def insert(self, name, data):
        """Insert ``data`` into a table; the number of rows."""
        return self._session.insert(name, data)

    def savepoint(self):
        """A part of the transaction, as a ``with`` block: an exception undoes it alone."""
        self._savepoints += 1
        return _Savepoint(self._session, f"atoll_{self._savepoints}")


class _Savepoint:
    __slots__ = ("_name", "_session")

    def __init__(self, session, name):
        self._session, self._name = session, name

    def __enter__(self):
        self._session.sql(f"SAVEPOINT {self._name}")
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self._session.sql(f"ROLLBACK TO {self._name}")
        self._session.sql(f"RELEASE {self._name}")
