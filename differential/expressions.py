"""Makes expressions of a wanted type, of bounded depth, that PostgreSQL accepts.

What keeps an answer unambiguous is kept by construction:

1. A quotient of numerics, or a sum whose digits depend on the order, stands at the top of a
   select item only (`loose`), where `compare` allows for it.
2. PostgreSQL computes what is constant while it plans, whether or not it is reached. What may
   fail therefore reads a column, unless there are no columns (`_may_fail`).
3. PostgreSQL does not compute the operands of a strict operator that has a constant NULL. An
   operand that may fail therefore stands beside no literal NULL (`operands`).
"""

from . import conditions, functions, values
from .sqltypes import (
    ALL, CASTS, FLOATS, INTEGER_RANGES, INTEGERS, MOMENTS, NUMBERS, SQL_NAMES, arithmetic,
)  # fmt: skip
from .tree import COLUMN, EITHER_ZERO, FALLIBLE, NULL, QUOTIENT, Expr, cast_name


class Scope:
    """What an expression may use: columns (as expressions), and whether it may fail."""

    def __init__(self, rng, columns=(), fallible=True, leaves=None):
        self.rng, self.columns, self.fallible = rng, list(columns), fallible
        #: Makes further leaves of a type: aggregates, window functions.
        self.leaves = leaves
        self.by_type = {}
        for column in self.columns:
            self.by_type.setdefault(column.type, []).append(column)

    def safe(self):
        """The same without what may fail."""
        return Scope(self.rng, self.columns, False, self.leaves)


def column(alias, of):
    return Expr(of.type, f"{alias}.{of.name}", own=COLUMN, scale=of.scale, shape="column")


def null(type_, scale=0):
    return Expr(type_, f"CAST(NULL AS {SQL_NAMES[type_]})", own=NULL, scale=scale, shape="literal")


def literal(rng, type_):
    """A literal that is surely of the type."""
    if rng.random() < 0.06:
        return null(type_)
    if type_ in INTEGERS:
        number = int(values.random_text(rng, type_))
        # A number alone is int4 if it fits, with its sign, and otherwise int8.
        low, high = INTEGER_RANGES["int4"]
        plain = type_ == "int4" or type_ == "int8" and not low <= number <= high
        if plain and rng.random() < 0.8:
            return Expr(type_, f"({number})" if number < 0 else str(number), shape="literal")
        return typed_literal(rng, type_, str(number))
    if type_ == "numeric":
        if rng.random() < 0.7:
            return number_literal(rng)
        scale = rng.choice((2, 10, 0))
        digits = (9 if scale == 2 else 38, scale)
        text = values.quote(values.random_text(rng, "numeric", scale))
        return Expr("numeric", f"CAST({text} AS {cast_name('numeric', digits)})", scale=scale,
                    shape="literal")  # fmt: skip
    if type_ == "bool":
        return Expr("bool", rng.choice(("TRUE", "FALSE", "true", "false")), shape="literal")
    text = values.random_text(rng, type_)
    if type_ == "text" and rng.random() < 0.7:
        # Alone it would take the type of the other side.
        return Expr("text", f"CAST({values.quote(text)} AS text)", shape="literal")
    return typed_literal(rng, type_, text)


def number_literal(rng):
    """Digits with a point or an exponent."""
    text = rng.choice((
        "0.5", "1.5", "2.5", "0.1", "1.0", "2.00", "0.001", ".5", "5.", "1e3", "1e-3", "1.5e2",
        "100.25", "0.0", "3.3333333333", "1e10", "9223372036854775808", "123456789012.5",
        f"{rng.randrange(10**6) / 100:.2f}",
    ))  # fmt: skip
    mantissa, _, exponent = text.partition("e")
    scale = max(0, len(mantissa.partition(".")[2]) - int(exponent or 0))
    text = f"(-{text})" if rng.random() < 0.3 else text
    return Expr("numeric", text, scale=scale, shape="literal")


def typed_literal(rng, type_, text):
    name, quoted = SQL_NAMES[type_], values.quote(text)
    forms = [f"CAST({quoted} AS {name})", f"{quoted}::{name}"]
    if type_ in ("date", "timestamp", "timestamptz", "time", "uuid", "bool"):
        forms.append(f"{name} {quoted}")
    return Expr(type_, rng.choice(forms), shape="literal")


def quoted(rng, type_, scale=2):
    """A literal in quotes, which takes its type from the other side."""
    text = values.quote(values.random_text(rng, type_, scale))
    return Expr(type_, text, scale=scale, shape="quoted")


def leaf(scope, type_):
    rng = scope.rng
    if scope.leaves and rng.random() < 0.7:
        made = scope.leaves(type_)
        if made:
            return made
    known = scope.by_type.get(type_)
    if known and rng.random() < 0.8:
        return rng.choice(known)
    if scope.columns and type_ in NUMBERS and rng.random() < 0.4:
        narrow = NUMBERS[: NUMBERS.index(type_)]
        known = [c for t in narrow if t != "numeric" for c in scope.by_type.get(t, ())]
        if known:
            return cast(rng, rng.choice(known), type_)
    return literal(rng, type_)


def generate(scope, type_, depth, loose=False):
    """An expression of the type. `loose`: it is a select item, see the module."""
    rng = scope.rng
    if depth <= 0 or rng.random() < 0.12:
        return leaf(scope, type_)
    for _ in range(4):
        makers = MAKERS[type_]
        maker = rng.choices([m for m, _ in makers], [w for _, w in makers])[0]
        made = maker(scope, type_, depth - 1, loose)
        if made and _may_fail(scope, made):
            return made
    return leaf(scope, type_)


def _may_fail(scope, made):
    if not made.own & FALLIBLE:
        return True
    if not scope.fallible:
        return False
    return not scope.columns and not scope.leaves or bool(made.flags & COLUMN)


def operands(rng, *made):
    """The operands, none of them a literal NULL where another may fail."""
    if any(one.flags & FALLIBLE for one in made):
        return [one if not one.is_null() else _instead(rng, one) for one in made]
    return list(made)


def _instead(rng, operand):
    made = operand
    while made.is_null():
        made = literal(rng, operand.type)
    return made


def cast(rng, expr, type_, digits=None):
    name = cast_name(type_, digits)
    if type_ == "text" and rng.random() < 0.15:
        name = f"varchar({rng.choice((1, 3, 10))})"
    form = rng.choice((f"CAST({{}} AS {name})", f"({{}})::{name}"))
    scale = 0
    if type_ == "numeric":
        scale = digits[1] if digits else 16 if expr.type in ("text", *FLOATS) else expr.scale
    own = FALLIBLE if _cast_fails(expr.type, type_, digits) else 0
    # A numeric made of a float or a text has 16 digits behind the point at most.
    if type_ == "numeric" and not digits and expr.type in ("text", *FLOATS):
        own |= QUOTIENT
    return Expr(type_, form, [expr], own=own, scale=scale)


def _cast_fails(source, target, digits):
    if source == target == "numeric":
        return digits is not None
    if source == target or target == "text":
        return False
    if source == "text" or target == "numeric" and (digits or source in FLOATS):
        return True
    if source in NUMBERS and target in INTEGERS:
        return NUMBERS.index(source) > NUMBERS.index(target)
    return target == "float4" and source in ("float8", "numeric") or (source == "numeric")


def make_cast(scope, type_, depth, loose):
    rng = scope.rng
    sources = [t for t in ALL if type_ in CASTS[t] and t != type_]
    if type_ != "text" and rng.random() < 0.75:
        sources = [t for t in sources if t != "text"] or sources
    if type_ == "numeric":
        sources.append("numeric")
    if not sources:
        return None
    source = rng.choice(sources)
    digits = None
    exact = not loose or source == "numeric" or rng.random() < 0.8
    if type_ == "numeric" and exact:
        if source in ("text", "numeric", *FLOATS) or rng.random() < 0.4:
            digits = rng.choice(((9, 2), (38, 10), (38, 0), (12, 4), (5, 1), (18, 6)))
    if not scope.fallible and _cast_fails(source, type_, digits):
        return None
    if source == "text" and rng.random() < 0.6:
        made = text_for(scope, type_, depth)
    else:
        made = generate(scope, source, depth)
    if type_ == "text" and made.flags & EITHER_ZERO:
        return None
    if source == "numeric" and type_ == "text":
        # The digits behind the point are a value's own in PostgreSQL, the type's in Atoll.
        if not scope.fallible:
            return None
        made = cast(rng, made, "numeric", rng.choice(((20, 4), (38, 10), (9, 2), (38, 0))))
    return cast(rng, made, type_, digits)


def text_for(scope, type_, depth):
    """A text that may well be a value of the type."""
    rng = scope.rng
    known = [c for c in scope.by_type.get("text", ()) if c.form.endswith(".s")]
    if scope.columns:
        if known and type_ in NUMBERS and rng.random() < 0.5:
            return rng.choice(known)
        source = generate(scope, type_, depth)
        return source if type_ == "text" else make_text(scope, source)
    pool = (
        values.NUMBER_TEXTS if type_ in NUMBERS
        else values.BOOL_TEXTS if type_ == "bool"
        else values.DATE_TEXTS if type_ == "date"
        else values.TIMESTAMP_TEXTS if type_ in ("timestamp", "timestamptz")
        else values.CLOCK_TEXTS if type_ == "time"
        else values.UUID_TEXTS if type_ == "uuid"
        else [values.random_text(rng, type_)]
    )  # fmt: skip
    return Expr("text", f"CAST({values.quote(rng.choice(pool))} AS text)", shape="literal")


def make_text(scope, source):
    if source.type == "numeric":
        source = cast(scope.rng, source, "numeric", (38, scope.rng.choice((0, 2, 10))))
    return cast(scope.rng, source, "text")


def make_arithmetic(scope, type_, depth, loose):
    rng = scope.rng
    if type_ in INTEGERS:
        if not scope.fallible:
            return small_sum(scope, type_, depth)
        other = rng.choice([t for t in INTEGERS if INTEGERS.index(t) <= INTEGERS.index(type_)])
        pair, operators = [type_, other], "+ - * / % + - *"
    elif type_ == "numeric":
        other = rng.choice(("numeric", *INTEGERS))
        pair, operators = ["numeric", other], "+ - * % + - * /" if loose else "+ - * % + -"
        if not scope.fallible:
            return None
    elif type_ == "float4":
        pair, operators = ["float4", "float4"], "+ - * / + -"
    else:
        pair = [rng.choice(("float8", "float8", "float4")), rng.choice(NUMBERS)]
        if arithmetic(*pair) != "float8":
            pair[1] = "float8"
        operators = "+ - * / + -"
    if not scope.fallible:
        return None
    rng.shuffle(pair)
    left, right = operands(rng, *(generate(scope, t, depth) for t in pair))
    if rng.random() < 0.08 and not right.is_null():
        right = quoted(rng, right.type, right.scale if right.scale in (0, 2, 10) else 2)
        if pair[1] != type_ or pair[0] != type_:
            return None
    return binary(rng.choice(operators.split()), left, right, type_)


def binary(operator, left, right, type_):
    own, scale = FALLIBLE, 0
    if type_ == "numeric":
        scale = max(left.scale, right.scale)
        if operator == "*":
            scale = left.scale + right.scale
        elif operator == "/":
            scale, own = max(16, scale), FALLIBLE | QUOTIENT
    return Expr(type_, f"({{}} {operator} {{}})", [left, right], own=own, scale=scale)


def small_sum(scope, type_, depth):
    """A sum that cannot overflow: of a narrower type and a small number."""
    if type_ == "int2":
        return None
    rng = scope.rng
    narrow = generate(scope, rng.choice(INTEGERS[: INTEGERS.index(type_)]), min(depth, 1))
    if type_ == "int8":
        narrow = cast(rng, narrow, "int8")
    number = Expr("int4", str(rng.randrange(1, 9)), shape="literal")
    return Expr(type_, f"({{}} {rng.choice('+-')} {{}})", [narrow, number])


def make_minus(scope, type_, depth, loose):
    inner = generate(scope, type_, depth, loose)
    if inner.is_null():
        return None
    own = FALLIBLE if type_ in INTEGERS else 0
    if inner.form == "(-9223372036854775808)":
        return inner  # PostgreSQL takes both signs for a part of the number, a numeric then
    return Expr(type_, "(- {})", [inner], own=own, scale=inner.scale)


def make_case(scope, type_, depth, loose):
    """CASE, COALESCE, NULLIF, GREATEST and LEAST."""
    rng = scope.rng
    what = rng.choice(("case", "case", "case", "coalesce", "coalesce", "nullif", "extreme"))
    branches = [branch(scope, type_, depth, loose) for _ in range(rng.choice((2, 2, 3)))]
    if not any(b.type == type_ and b.shape != "quoted" for b in branches):
        branches[0] = generate(scope, type_, depth, loose)
    scale = max(b.scale for b in branches)
    if what == "nullif":
        first = generate(scope, type_, depth)
        second = generate(scope, type_, depth)
        return Expr(type_, "NULLIF({}, {})", operands(rng, first, second), scale=first.scale)
    if what == "extreme":
        if type_ == "bytea":
            return None
        name = rng.choice(("GREATEST", "LEAST"))
        branches = [branch(scope, type_, depth, False) for _ in branches]
        branches[0] = generate(scope, type_, depth)
        scale = max(b.scale for b in branches)
        own = EITHER_ZERO if type_ in FLOATS else 0
        form = f"{name}({', '.join('{}' for _ in branches)})"
        return Expr(type_, form, branches, own=own, scale=scale, shape="list")
    if what == "coalesce":
        form = f"COALESCE({', '.join('{}' for _ in branches)})"
        return Expr(type_, form, branches, scale=scale, shape="list")
    if rng.random() < 0.25:
        # CASE x WHEN a THEN …
        kind = rng.choice([t for t in ALL if t != "bytea"])
        args, form = [generate(scope, kind, depth)], "CASE {}"
        for b in branches[1:]:
            args += [generate(scope, kind, min(depth, 1)), b]
            form += " WHEN {} THEN {}"
    else:
        args, form = [], "CASE"
        for b in branches[1:]:
            args += [generate(scope, "bool", depth), b]
            form += " WHEN {} THEN {}"
    if rng.random() < 0.75:
        args, form = [*args, branches[0]], form + " ELSE {}"
    elif not any(b.type == type_ and b.shape != "quoted" for b in branches[1:]):
        return None
    return Expr(type_, form + " END", args, scale=scale, shape="case")


def branch(scope, type_, depth, loose):
    """A branch of a CASE of the type; it may be of a type that is widened to it."""
    rng = scope.rng
    if type_ in NUMBERS and rng.random() < 0.25:
        at = NUMBERS.index(type_)
        if at:
            return generate(scope, rng.choice(NUMBERS[:at]), depth)
    if type_ in MOMENTS[1:] and rng.random() < 0.2:
        return generate(scope, rng.choice(MOMENTS[: MOMENTS.index(type_)]), depth)
    if rng.random() < 0.06:
        return quoted(rng, type_)
    if rng.random() < 0.05:
        return Expr(type_, "NULL", own=NULL, shape="quoted")
    return generate(scope, type_, depth, loose)


def make_concat(scope, type_, depth, loose):
    parts = [generate(scope, type_, depth), generate(scope, type_, depth)]
    if type_ == "text" and scope.rng.random() < 0.2:
        # Beside a text any type will do.
        other = scope.rng.choice(("int4", "bool", "date", "float8", "timestamp"))
        parts[1] = generate(scope, other, depth)
        if parts[1].flags & EITHER_ZERO:
            return None
        scope.rng.shuffle(parts)
    return Expr(type_, "({} || {})", operands(scope.rng, *parts))


def make_temporal(scope, type_, depth, loose):
    """Differences of dates, and dates and timestamps moved by days and intervals."""
    rng = scope.rng
    if type_ == "int4":
        days = [generate(scope, "date", depth), generate(scope, "date", depth)]
        return Expr("int4", "({} - {})", operands(rng, *days))
    if not scope.fallible:
        return None
    if type_ == "date":
        days = Expr("int4", str(rng.choice((0, 1, 7, 31, 365, 1000))), shape="literal")
        if rng.random() < 0.5:
            days = cast(rng, generate(scope, "int2", min(depth, 1)), "int4")
        form, parts = f"({{}} {rng.choice('+-')} {{}})", [generate(scope, "date", depth), days]
        if rng.random() < 0.15:
            form, parts = "({} + {})", parts[::-1]
        return Expr("date", form, operands(rng, *parts), own=FALLIBLE)
    if type_ == "timestamp" and rng.random() < 0.15:
        parts = [generate(scope, "date", depth), generate(scope, "time", depth)]
        rng.shuffle(parts)
        return Expr("timestamp", "({} + {})", operands(rng, *parts), own=FALLIBLE)
    interval = Expr("interval", f"INTERVAL '{rng.choice(values.INTERVALS)}'", shape="interval")
    sources = ("date", "timestamp") if type_ == "timestamp" else (type_,)
    moment = generate(scope, rng.choice(sources), depth)
    form, parts = f"({{}} {rng.choice('+-')} {{}})", [moment, interval]
    if rng.random() < 0.15:
        form, parts = "({} + {})", parts[::-1]
    return Expr(type_, form, parts, own=FALLIBLE)


#: How to make an expression of each type, and how often.
MAKERS = {
    **{t: [(make_arithmetic, 5), (make_cast, 3), (make_case, 3), (make_minus, 1)] for t in NUMBERS},
    "bool": conditions.MAKERS + [(make_cast, 1), (make_case, 2)],
    "text": [(make_concat, 2), (make_cast, 4), (make_case, 3)],
    "date": [(make_temporal, 4), (make_cast, 2), (make_case, 3)],
    "timestamp": [(make_temporal, 4), (make_cast, 2), (make_case, 3)],
    "timestamptz": [(make_temporal, 4), (make_cast, 2), (make_case, 3)],
    "time": [(make_temporal, 3), (make_cast, 2), (make_case, 3)],
    "uuid": [(make_cast, 1), (make_case, 3)],
    "bytea": [(make_concat, 2), (make_case, 3), (make_cast, 1)],
}
MAKERS["int4"] = MAKERS["int4"] + [(make_temporal, 1)]
MAKERS = {type_: [*makers, (functions.make, 2)] for type_, makers in MAKERS.items()}
