"""Classes of errors of changes and transactions, under one name for both databases."""

import re

#: PostgreSQL's codes.
CODES = {
    "23505": "duplicate", "23502": "null", "22003": "range", "22012": "division by zero",
    "42703": "unknown column", "42P01": "unknown table", "25P02": "failed transaction",
    "25006": "read-only", "3B001": "savepoint", "21000": "twice", "40P01": "deadlock",
    "40001": "serialization", "42601": "syntax",
}  # fmt: skip
#: Atoll's kinds, with what their messages say; the first that fits.
KINDS = (
    ("constraint", "second time", "twice"),
    ("query", "more than one row", "twice"),
    ("constraint", "must not be NULL", "null"),
    ("constraint", "", "duplicate"),
    ("type", "division by zero", "division by zero"),
    ("type", "out of range", "range"),
    ("aborted", "earlier statement", "failed transaction"),
    ("aborted", "deadlock", "deadlock"),
    ("aborted", "", "serialization"),
    ("syntax", "savepoint", "savepoint"),
)


def of_postgres(failure):
    return CODES.get(failure.code, failure.code)


def of_atoll(failure):
    for kind, pattern, name in KINDS:
        if kind == failure.code and re.search(pattern, failure.message):
            return name
    return failure.code
