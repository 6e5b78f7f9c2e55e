"""Statements as trees that can be rendered, and made smaller by `minimise`."""

import re
from dataclasses import dataclass, field, replace

from .sqltypes import SQL_NAMES

# What an expression may do or contain, its own and that of its parts.
FALLIBLE = 1  # may fail, for some values
COLUMN = 2  # reads a column
QUOTIENT = 4  # is a quotient of numerics, whose digits are chosen differently
FLOAT_SUM = 8  # is a sum or average of floats, which depends on the order
AGGREGATE = 16
WINDOW = 32
EITHER_ZERO = 64  # is one of several equal values: 0.0 or -0.0
NULL = 128  # is the literal NULL; not handed on
SUM_OF_REAL = 256
BARE_INTEGER = 512  # is digits and nothing else; of columns only, see `column_flags`
# How a statement is rendered: as it is; so that PostgreSQL fails where a numeric has more digits
# than Atoll's; so that PostgreSQL computes nothing while it plans. See `deliberate`.
PLAIN, STRICT, LATE = "plain", "strict", "late"
#: The functions of these: the numeric, or an error; any value.
HELD, COMPUTED_LATE = "held_by_atoll", "computed_late"


class Expr:
    """An expression: a form with `{}` for each of its parts.

    `shape` says what it is where that matters: "literal", "column", "case", "list" "in"
    (some parts may be left out), "quoted" (it takes its type from its place), "ordered" (a window
    that needs the ids in its order). A numeric of Atoll has `scale` digits behind the point and
    38 in all.
    """

    __slots__ = ("args", "flags", "form", "own", "scale", "shape", "type")

    def __init__(self, type_, form, args=(), *, own=0, scale=0, shape=""):
        self.type, self.form, self.args = type_, form, tuple(args)
        self.own, self.scale, self.shape = own, scale, shape
        self.flags = own & ~NULL
        for arg in self.args:
            self.flags |= arg.flags

    def render(self, mode=PLAIN):
        if not self.args:
            # Beside a constant NULL nothing is computed, so that nothing would fail.
            late = mode == LATE or (mode == STRICT and self.is_null())
            late = late and self.shape == "literal"
            return f"{COMPUTED_LATE}({self.form})" if late else self.form
        args = [arg.render(mode) for arg in self.args]
        if mode == LATE and self.own & FALLIBLE:
            # A literal in quotes takes its type from here, and an interval is not computed.
            args = (text if arg.shape in ("quoted", "literal", "interval")
                    else f"{COMPUTED_LATE}({text})"
                    for arg, text in zip(self.args, args, strict=True))  # fmt: skip
        if mode != STRICT or self.type != "numeric":
            return self.form.format(*args)
        if self.shape in ("list", "case"):
            # Its branches get its digits.
            args = (held(text, self.scale) if arg.type == "numeric" and arg.shape != "quoted"
                    else text for arg, text in zip(self.args, args, strict=True))  # fmt: skip
        return held(self.form.format(*args), self.scale)

    def with_args(self, args, form=None):
        return Expr(
            self.type, form or self.form, args, own=self.own, scale=self.scale, shape=self.shape
        )

    def is_null(self):
        return bool(self.own & NULL)

    def walk(self):
        yield self
        for arg in self.args:
            yield from arg.walk()


def held(text, scale):
    """The numeric that a text makes, if Atoll can hold it with so many digits behind the point."""
    return f"{HELD}({text}, {min(scale, 38)})"


def cast_name(type_, digits=None):
    """The name of a type in a cast; digits are (precision, scale) of a numeric."""
    return f"numeric({digits[0]}, {digits[1]})" if digits else SQL_NAMES[type_]


@dataclass
class From:
    """A table in FROM: `join` is how it is joined to those before it, "" for the first."""

    table: str
    alias: str
    join: str = ""
    on: Expr | None = None

    def render(self, mode):
        text = f"{self.table} AS {self.alias}" if self.table != self.alias else self.table
        if not self.join:
            return text
        if self.join == ",":
            return f", {text}"
        on = f" ON {self.on.render(mode)}" if self.on else ""
        return f" {self.join} {text}{on}"


@dataclass
class Order:
    expr: Expr
    how: str = ""

    def render(self, mode):
        return f"{self.expr.render(mode)}{self.how}"


@dataclass
class Select:
    """A SELECT, and the set operations behind it: (operator, Select)."""

    items: list
    sources: list = field(default_factory=list)
    where: Expr | None = None
    group: list = field(default_factory=list)
    having: Expr | None = None
    distinct: bool = False
    order: list = field(default_factory=list)
    limit: int | None = None
    offset: int | None = None
    others: list = field(default_factory=list)
    #: ORDER BY leaves no choice, so that the order of the rows is compared too.
    total_order: bool = False

    def copy(self, **changes):
        return replace(self, **changes)

    def head(self, mode, scales):
        texts = [e.render(mode) for e in self.items]
        if mode == STRICT:
            texts = [
                held(text, scales[at]) if e.type == "numeric" and e.shape != "quoted" else text
                for at, (e, text) in enumerate(zip(self.items, texts, strict=True))
            ]
        items = ", ".join(f"{text} AS c{at + 1}" for at, text in enumerate(texts))
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{items}"
        if self.sources:
            text += " FROM " + "".join(source.render(mode) for source in self.sources)
        if self.where:
            text += f" WHERE {self.where.render(mode)}"
        if self.group:
            text += " GROUP BY " + ", ".join(e.render(mode) for e in self.group)
        if self.having:
            text += f" HAVING {self.having.render(mode)}"
        return text

    def render(self, mode=PLAIN):
        # What stands in one column has one type.
        scales = [max(s.items[at].scale for s in self.selects()) for at in range(len(self.items))]
        text = self.head(mode, scales)
        for operator, other in self.others:
            text += f" {operator} {other.head(mode, scales)}"
        if self.order:
            text += " ORDER BY " + ", ".join(o.render(mode) for o in self.order)
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        if self.offset is not None:
            text += f" OFFSET {self.offset}"
        return text

    def selects(self):
        yield self
        for _, other in self.others:
            yield from other.selects()

    def expressions(self):
        """Every expression of the statement, outermost ones only."""
        for select in self.selects():
            yield from select.items
            yield from (source.on for source in select.sources if source.on)
            yield from select.group
            yield from (order.expr for order in select.order)
            yield from filter(None, (select.where, select.having))

    def walk(self):
        for expr in self.expressions():
            yield from expr.walk()

    def is_one_of_equals(self):
        """Whether a 0.0 of the answer may as well be -0.0."""
        return any(s.group or s.distinct or s.others for s in self.selects()) or any(
            expr.own & EITHER_ZERO for expr in self.walk()
        )

    def column_flags(self):
        """For each column of the answer the flags of what stands in it."""
        flags = [0] * len(self.items)
        selects = list(self.selects())
        for at in range(len(flags)):
            items = [select.items[at] for select in selects]
            for item in items:
                flags[at] |= item.flags
            if any(re.fullmatch(r"[()\s-]*\d+\)*", item.render()) for item in items):
                flags[at] |= BARE_INTEGER
        return flags
