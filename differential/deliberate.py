"""Differences on purpose. `DIFFERENCES.md` tells them with their reasons; here each is recognised.

`reason` gives the name of the row of that table, or None: then a difference is a bug. A rule
looks at as much as it can, so that it takes nothing else with it.
"""

import re

from .tree import QUOTIENT, STRICT, SUM_OF_REAL

#: Makes the function that fails where Atoll's numeric does, for statements rendered `strict`.
#: It is not immutable, so that it is computed only where the statement comes to it.
STRICT_FUNCTION = f"""
CREATE OR REPLACE FUNCTION public.{STRICT}(n numeric, scale int) RETURNS numeric
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF n = 'NaN' OR n = 'Infinity' OR n = '-Infinity'
        OR abs(round(n, scale)) >= 10::numeric ^ (38 - scale)
    THEN
        RAISE numeric_value_out_of_range;
    END IF;
    RETURN n;
END $$
"""
_DIGITS = re.compile(r"38 digits|more digits than|is not a decimal number|numeric", re.IGNORECASE)
_BARE_INTEGER = re.compile(r"\(?-?\d+\)?")


def reason(statement, difference, postgres):
    """The name of the deliberate difference that this is, or None."""
    for rule in RULES:
        name = rule(statement, difference, postgres)
        if name:
            return name
    return None


def wide_numeric(statement, difference, postgres):
    """A numeric of more than 38 digits, NaN or an infinity, somewhere in the statement."""
    if difference.what != "atoll failed" or not _DIGITS.search(difference.atoll.failure.message):
        return None
    if any(e.type == "numeric" and e.scale > 38 for e in statement.walk()):
        return "numeric-38"
    strict = postgres.answer(statement.render(strict=True))
    return "numeric-38" if strict.failure and strict.failure.code == "22003" else None


def types_of_columns(statement, difference, _postgres):
    """Each column of another type is a bare integer, or a sum of reals."""
    if difference.what != "types":
        return None
    names = set()
    pairs = zip(difference.postgres.types, difference.atoll.types, strict=True)
    flags = statement.column_flags()
    for at, (theirs, ours) in enumerate(pairs):
        if theirs == ours:
            continue
        items = [select.items[at] for select in statement.selects()]
        if (theirs, ours) == ("int4", "int8") and all(
            _BARE_INTEGER.fullmatch(item.form) for item in items
        ):
            names.add("integer-literal")
        elif (theirs, ours) == ("float4", "float8") and flags[at] & SUM_OF_REAL:
            names.add("sum-real")
        else:
            return None
    return ", ".join(sorted(names))


RULES = (wide_numeric, types_of_columns)
#: Allowed for in `compare` and not counted.
ALLOWED = {QUOTIENT: "quotient-digits"}
