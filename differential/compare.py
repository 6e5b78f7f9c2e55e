"""Whether Atoll's answer agrees with PostgreSQL's.

Both fail: they agree. One fails: a difference. Otherwise names of types and values must be the
same, values exactly but for what `tree` marks as a quotient or a sum of floats.
"""

from collections import Counter
from dataclasses import dataclass
from decimal import Context, Decimal

from .answers import Float
from .sqltypes import FLOATS
from .tree import FLOAT_SUM, QUOTIENT, SUM_OF_REAL

#: Digits of a quotient that must be the same: of all, or behind the point.
QUOTIENT_DIGITS = 15
QUOTIENT_STEP = Decimal("1.5e-16")
#: How much sums of floats in another order may differ, as a part of them.
SUM_PART = 1e-12
EXACT = Context(prec=200)


@dataclass
class Difference:
    """What differs: "postgres failed", "atoll failed", "types", "rows" or "values"."""

    what: str
    postgres: object
    atoll: object
    detail: str = ""


def compare(postgres, atoll, flags, *, either_zero=False, ordered=False):
    """The difference of two answers, or None. `flags` has the flags of each column."""
    if postgres.failure or atoll.failure:
        if atoll.failure and atoll.failure.sort == "crash":
            return Difference("atoll crashed", postgres, atoll)
        if postgres.failure and atoll.failure:
            return None
        what = "postgres failed" if postgres.failure else "atoll failed"
        return Difference(what, postgres, atoll)
    if len(postgres.rows) != len(atoll.rows):
        detail = f"{len(postgres.rows)} rows, not {len(atoll.rows)}"
        return Difference("rows", postgres, atoll, detail)
    ours, theirs = (_prepared(a, either_zero) for a in (atoll, postgres))
    if not _same(theirs, ours, flags, ordered):
        return Difference("values", postgres, atoll)
    if postgres.types != atoll.types:
        pairs = {p for p in zip(postgres.types, atoll.types, strict=True) if p[0] != p[1]}
        detail = ", ".join(sorted(f"{theirs}, not {ours}" for theirs, ours in pairs))
        return Difference("types", postgres, atoll, detail)
    return None


def _prepared(answer, either_zero):
    """Rows with all that does not matter taken away."""
    if either_zero and any(t in FLOATS for t in answer.types):
        return [
            tuple(Float(0.0) if isinstance(v, Float) and v == -0.0 else v for v in row)
            if any(isinstance(v, Float) for v in row) else row
            for row in answer.rows
        ]  # fmt: skip
    return answer.rows


def _same(theirs, ours, flags, ordered):
    loose = QUOTIENT | FLOAT_SUM | SUM_OF_REAL
    if ordered:
        if theirs == ours:
            return True
    elif Counter(theirs) == Counter(ours):
        return True
    if not any(f & loose for f in flags) and not _has_floats_for(theirs, ours):
        return False
    if not ordered:
        exact = [at for at, f in enumerate(flags) if not f & loose]
        rough = [at for at, f in enumerate(flags) if f & loose]
        theirs, ours = (_sorted(rows, exact, rough) for rows in (theirs, ours))
    return all(
        _close(a, b, f) for x, y in zip(theirs, ours, strict=True)
        for a, b, f in zip(x, y, flags, strict=True)
    )  # fmt: skip


def _has_floats_for(theirs, ours):
    """Whether a number stands on one side as a float, on the other not: types differ then."""
    kinds = [{type(v) for row in rows for v in row} for rows in (theirs, ours)]
    return (Float in kinds[0]) != (Float in kinds[1])


def _sorted(rows, exact, rough):
    def key(row):
        return [_text(row[at]) for at in exact], [_number(row[at]) for at in rough]

    return sorted(rows, key=key)


def _text(value):
    if isinstance(value, Decimal):
        return f"{_number(value)[1]:e}"
    return f"{float(value) + 0.0:e}" if isinstance(value, int | Float) else repr(value)


def _number(value):
    """A number in an order in which NULL is last and NaN just before."""
    if value is None:
        return (2, 0.0)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return (3, 0.0)
    return (1, 0.0) if number != number else (0, number)


def _close(theirs, ours, flags):
    if theirs is None or ours is None:
        return theirs is ours
    if isinstance(theirs, Float) or isinstance(ours, Float):
        if not isinstance(theirs, int | Float | Decimal) or not isinstance(
            ours, int | Float | Decimal
        ):
            return False
        a, b = float(theirs), float(ours)
        if a == b or (a != a and b != b):
            return flags & (FLOAT_SUM | QUOTIENT | SUM_OF_REAL) or Float(a) == Float(b)
        part = 1e-5 if flags & SUM_OF_REAL else SUM_PART if flags & (FLOAT_SUM | QUOTIENT) else 0
        return part > 0 and abs(a - b) <= part * max(abs(a), abs(b))
    if flags & QUOTIENT and isinstance(theirs, Decimal | int) and isinstance(ours, Decimal | int):
        theirs, ours = Decimal(theirs), Decimal(ours)
        if not (theirs.is_finite() and ours.is_finite()):
            return theirs == ours
        gap = abs(EXACT.subtract(theirs, ours))
        most = max(abs(theirs), abs(ours))
        return gap <= QUOTIENT_STEP or gap <= EXACT.scaleb(most, -QUOTIENT_DIGITS)
    return theirs == ours
