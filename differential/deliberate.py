"""Differences on purpose. `DIFFERENCES.md` tells them with their reasons; here each is recognised.

`reason` gives the name of the row of that table, or None: then a difference is a bug. A rule
looks at as much as it can, so that it takes nothing else with it; most ask a database once more.
"""

import re
import struct

from .compare import compare
from .tree import (
    AGGREGATE,
    BARE_INTEGER,
    COMPUTED_LATE,
    FALLIBLE,
    HELD,
    LATE,
    QUOTIENT,
    STRICT,
    SUM_OF_REAL,
    WINDOW,
    Expr,
    Select,
)

#: The functions of statements that are rendered otherwise than plainly. They are not immutable,
#: so that PostgreSQL computes them only where the statement comes to them.
FUNCTIONS = f"""
CREATE FUNCTION public.{HELD}(n numeric, scale int) RETURNS numeric
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF n = 'NaN' OR n = 'Infinity' OR n = '-Infinity'
        OR abs(round(n, scale)) >= 10::numeric ^ (38 - scale)
    THEN
        RAISE numeric_value_out_of_range;
    END IF;
    RETURN n;
END $$;
CREATE FUNCTION public.{COMPUTED_LATE}(value anyelement) RETURNS anyelement
LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN value; END $$;
"""
_DIGITS = re.compile(r"38 digits|more digits than|is not a decimal number|numeric", re.IGNORECASE)
#: A value, and the digits behind the point that it would need to have.
_HELD = re.compile(
    r"-?(?P<whole>\d+)(\.\d+)? has more digits than decimal\(\d+,(?P<scale>\d+)\) holds"
)
#: A product of two whole numerics.
_PRODUCT = re.compile(r"more than 38 digits: (-?\d+) \* (-?\d+)$")


def reason(statement, difference, postgres, atoll):
    """The name of the deliberate difference that this is, or None."""
    for rule in RULES:
        name = rule(statement, difference, postgres, atoll)
        if name:
            return name
    return None


def wide_numeric(statement, difference, postgres, _atoll):
    """A numeric of more than 38 digits, NaN or an infinity, somewhere in the statement."""
    if difference.what != "atoll failed" or not _DIGITS.search(difference.atoll.failure.message):
        return None
    if any(e.type == "numeric" and e.scale > 38 for e in statement.walk()):
        return "numeric-38"
    if re.match(r"(NaN|-?Infinity) is not a decimal", difference.atoll.failure.message):
        return "numeric-38"
    held = _HELD.search(difference.atoll.failure.message)
    if held and len(held["whole"]) + int(held["scale"]) > 38:
        return "numeric-38"
    product = _PRODUCT.search(difference.atoll.failure.message)
    if product and len(str(int(product[1]) * int(product[2])).lstrip("-")) > 38:
        return "numeric-38"
    for part in (statement, *sums(statement), *branches(statement)):
        strict = postgres.answer(part.render(STRICT))
        if strict.failure and strict.failure.code == "22003":
            return "numeric-38"
    return None


def sums(statement):
    """Each aggregate alone, since it is computed whether or not what stands around it needs it.

    A sum is that of amounts, since the numbers may be added in any order.
    """
    for select in statement.selects():
        for root in (*select.items, *filter(None, [select.having])):
            for expr in root.walk():
                if not expr.own & AGGREGATE or expr.type != "numeric":
                    continue
                form = re.sub(r"^(sum|avg)\((.*?)\{\}\)", r"sum(\2abs({}))", expr.form)
                alone = expr.with_args(expr.args, form)
                yield select.copy(
                    items=[alone], having=None, others=[], order=[], limit=None, offset=None
                )


def branches(statement):
    """What gives several numerics the same digits, alone.

    A CASE or COALESCE of a condition, since a row may be dropped before it is computed; the
    value and the default of lag and lead.
    """
    for select in statement.selects():
        conditions = [select.where, *(source.on for source in select.sources)]
        for root in filter(None, conditions):
            for expr in root.walk():
                if expr.type == "numeric" and expr.shape in ("list", "case"):
                    yield Select([expr], select.sources)
        for root in select.items:
            for expr in root.walk():
                if expr.type == "numeric" and expr.form.startswith(("lag(", "lead(")):
                    value = Expr("numeric", "COALESCE({})", expr.args[:1], scale=expr.scale,
                                 shape="list")  # fmt: skip
                    yield Select([value], select.sources)


def types_of_columns(statement, difference, _postgres, _atoll):
    """Each column of another type is a bare integer, or a sum of reals."""
    return types_allowed(difference, statement.column_flags(), statement.render())


def types_allowed(difference, flags, text=""):
    """The same, of the flags of the columns."""
    if difference.what != "types":
        return None
    names = set()
    pairs = zip(difference.postgres.types, difference.atoll.types, flags, strict=True)
    for theirs, ours, flag in pairs:
        if (theirs, ours) == ("int4", "int8") and flag & BARE_INTEGER:
            names.add("integer-literal")
        elif (theirs, ours) == ("int4", "int8") and "nth_value" in text:
            names.add("integer-literal")
        elif (theirs, ours) == ("float4", "float8") and (flag & SUM_OF_REAL or "sum(" in text):
            names.add("sum-real")
        elif theirs != ours:
            return None
    return ", ".join(sorted(names))


def planned_constants(statement, difference, postgres, _atoll):
    """PostgreSQL computes constants while it plans, whether or not they are reached.

    Asked so that it cannot, it answers as Atoll did, or fails as Atoll did.
    """
    if difference.what not in ("atoll failed", "postgres failed") or not at_run(difference):
        return None
    late = postgres.answer(statement.render(LATE))
    if difference.what == "atoll failed":
        same = late.failure and late.failure.code.startswith("22")
    else:
        same = not compare(
            late, difference.atoll, statement.column_flags(),
            either_zero=statement.is_one_of_equals(), ordered=statement.total_order,
        )  # fmt: skip
    return "constants" if same else None


def not_computed(statement, difference, postgres, atoll):
    """One of both skips an operand that does not decide the answer, and fails where it is alone."""
    if difference.what not in ("atoll failed", "postgres failed") or not at_run(difference):
        return None
    skips = atoll if difference.what == "postgres failed" else postgres
    if difference.what == "postgres failed" and not difference.atoll.rows:
        return "constants"  # no row is reached, so it can only be a constant
    for select in statement.selects():
        whole = [*select.items, *select.group, *filter(None, (select.where, select.having))]
        for expr in (e for root in whole for e in root.walk()):
            if expr.own & FALLIBLE and not expr.flags & (AGGREGATE | WINDOW):
                alone = skips.answer(Select([expr], select.sources).render())
                if alone.failure:
                    return "skipped-operand"
    return None


def at_run(difference):
    """Whether a value was wrong, not the statement."""
    failure = difference.postgres.failure or difference.atoll.failure
    return failure.code.startswith("22") if difference.postgres.failure else True


#: What Atoll says of a statement that it refuses, and PostgreSQL does not.
_REFUSED = re.compile(
    r"invalid window frame: start bound|begins behind its end is not|two columns have the name"
    r"|must appear in (the )?GROUP BY|HAVING uses|there is no operator for"
    r"|only supports signed numeric|requires a boolean expression|NOT takes a truth value"
    r"|AND and OR connect truth values"
    r"|cannot infer common argument type|cannot coerce arithmetic expression Utf8"
    r"|a condition is boolean, and|there is no function (bool_and|bool_or|every)\(text\)"
    r"|support Literal types"
    r"|a subquery that stands in the condition of an outer join|hides the table|LIKE compares texts"
)
#: What PostgreSQL says of an operator or a function that it has not, and Atoll has.
_EXTRA = re.compile(
    r"operator does not exist: (.* % |date [+-] bigint|bigint \+ date)"
    r"|invalid input syntax for type bytea|cannot cast type interval"
    r"|RANGE with offset PRECEDING/FOLLOWING is not supported for column type timestamp"
)


def refused(_statement, difference, _postgres, _atoll):
    """Atoll refuses what it cannot do; it must say so with one of a few words."""
    if difference.what == "atoll failed" and _REFUSED.search(difference.atoll.failure.message):
        return "refused"
    return None


def extra(_statement, difference, _postgres, _atoll):
    """Atoll has an operator or a function that PostgreSQL has not."""
    if difference.what == "postgres failed" and _EXTRA.search(difference.postgres.failure.message):
        return "extra"
    return None


def shortest_digits(_statement, difference, _postgres, _atoll):
    """A float as text may end with other digits, as long as they read back as the same float."""
    if difference.what != "values":
        return None
    theirs, ours = (sorted(map(_read_back, a.rows)) for a in (difference.postgres, difference.atoll))
    return "shortest-digits" if theirs == ours else None


_FLOAT = re.compile(r"\d+(\.\d+)?e[+-]\d+")


def _read_back(row):
    """The row with the floats in its texts rounded to what a real keeps of them."""
    def real(match):
        try:
            return str(struct.unpack("f", struct.pack("f", float(match[0])))[0])
        except OverflowError:
            return str(float(match[0]))
    return tuple(_FLOAT.sub(real, v) if isinstance(v, str) else str(v) for v in row)


def quotient(statement, difference, _postgres, _atoll):
    """Digits of a quotient behind the 15th, where the statement has one in a place of its own."""
    if difference.what != "values" or "/" not in statement.render():
        return None
    flags = [QUOTIENT] * len(difference.postgres.types)
    return None if compare(difference.postgres, difference.atoll, flags) else "quotient-digits"


def before_year_1(_statement, difference, _postgres, _atoll):
    """A timestamp before the year 1, which a statement has computed, cast from its text."""
    failure = difference.atoll.failure
    if failure and re.search(r' BC" is not a (date|timestamp)', failure.message):
        return "before-year-1"
    return None


RULES = (wide_numeric, before_year_1, types_of_columns, planned_constants, not_computed, refused,
         extra, shortest_digits, quotient)  # fmt: skip
