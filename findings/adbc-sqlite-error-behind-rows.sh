#!/usr/bin/env bash
# Expected: an error of a row that comes behind others is one of the classes of Python's database
# interface (PEP 249), which `except Error` of the driver catches, and a cursor that is asked again
# does not take the error for the end of the rows.
#
# Seen with adbc-driver-sqlite 1.13.0 and adbc-driver-manager 1.13.0: the error arrives as an OSError,
# which no class of the module catches, and the next fetchone() returns None, as behind the last row.
# 3,072 of 5,000 rows were read. The manager asks the driver for the error of a stream
# (ErrorFromArrayStream), and this driver has none to tell. The same error before the first rows of
# the same query is a class of the module.
#
# What Atoll does: its driver tells the error of a stream with its SQLSTATE, and tells it again
# (crates/atoll-adbc/src/stream_errors.rs); `adbc_ffi` leaves the function out.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
  adbc-driver-sqlite==1.13.0 adbc-driver-manager==1.13.0 pyarrow==22.0.0
"$work/venv/bin/python" - <<'P'
import adbc_driver_manager
import adbc_driver_sqlite.dbapi as dbapi

print("adbc-driver-manager", adbc_driver_manager.__version__)
connection = dbapi.connect()
cursor = connection.cursor()
cursor.execute(
    "CREATE TABLE t AS WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000)"
    " SELECT x FROM c"
)

def read(failing):
    """The rows that were read, the error, and what the cursor says behind it."""
    rows = 0
    try:
        cursor.execute(f"SELECT abs(CASE x WHEN {failing} THEN -9223372036854775807 - 1 ELSE x END) FROM t")
        while cursor.fetchone() is not None:
            rows += 1
    except Exception as error:
        return rows, error, cursor.fetchone() if rows else None

rows, error, behind = read(4000)
print(f"row 4000: {rows} rows, then {type(error).__name__}: {error}; then {behind}")
assert rows == 3072 and type(error) is OSError and "integer overflow" in str(error)
assert not isinstance(error, dbapi.Error) and behind is None
rows, error, _ = read(1)
print(f"row 1: {rows} rows, then {type(error).__name__}: {error}")
assert rows == 0 and isinstance(error, dbapi.Error)
cursor.close()
connection.close()
P
