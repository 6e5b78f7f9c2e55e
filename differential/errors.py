"""Classes of errors of changes and transactions, by the SQLSTATE that both databases give."""

CODES = {
    "23505": "duplicate", "23502": "null", "22003": "range", "22012": "division by zero",
    "42703": "unknown column", "42P01": "unknown table", "25P02": "failed transaction",
    "25006": "read-only", "3B001": "savepoint", "21000": "twice", "40P01": "deadlock",
    "40001": "serialization", "42601": "syntax", "55P03": "held",
}  # fmt: skip


def name(failure):
    """The name of a failure's class, or its code."""
    return CODES.get(failure.code, failure.code)
