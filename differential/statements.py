"""Makes statements: what stands around the expressions.

Where a WHERE or ON holds several conditions, a database may compute them in any order, and before
or after a join. So nothing there may fail, but for a single condition over a single table.
"""

from . import correlated, expressions, subqueries, windows
from .expressions import Scope
from .sqltypes import ALL, FLOATS, INTEGERS, NUMBERS, comparable
from .tree import (
    AGGREGATE,
    EITHER_ZERO,
    FLOAT_SUM,
    QUOTIENT,
    SUM_OF_REAL,
    Expr,
    From,
    Order,
    Select,
)
from .wrong import make_wrong

#: What a statement reads; t3 is small or empty.
TABLES = ("t1", "t1", "t1", "t2", "t2", "t3")


def make(rng, tables):
    """A statement over the tables."""
    maker = rng.choices([m for m, _ in MAKERS], [w for _, w in MAKERS])[0]
    statement = maker(rng, tables)
    if rng.random() < 0.02:
        statement = make_wrong(rng, statement)
    return statement


def filtered(scope, tables, depth):
    """A condition of WHERE that cannot fail."""
    if scope.rng.random() < 0.25:
        return subqueries.condition(scope.safe(), tables)
    return expressions.generate(scope.safe(), "bool", depth)


def columns_of(sources, tables):
    by_name = {table.name: table for table in tables}
    return [
        expressions.column(source.alias, column)
        for source in sources
        for column in by_name[source.table].columns
    ]


def ids_of(sources):
    return [Expr("int4", f"{s.alias}.id", shape="column", own=expressions.COLUMN) for s in sources]


def constant(rng, _tables):
    """SELECT without FROM."""
    scope = Scope(rng)
    depth = rng.choice((1, 2, 2, 3))
    return Select(items_of(scope, rng.choice((1, 1, 2)), depth))


def items_of(scope, count, depth, loose=True):
    return [
        expressions.generate(scope, scope.rng.choice(ALL + NUMBERS), depth, loose)
        for _ in range(count)
    ]


def single(rng, tables):
    """One table, few rows where something may fail."""
    source = From(rng.choice(TABLES), "a")
    columns = columns_of([source], tables)
    scope = Scope(rng, columns, fallible=rng.random() < 0.75)
    select = Select(items_of(scope, rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2, 3))), [source])
    if scope.fallible and rng.random() < 0.8:
        select.where = few_rows(rng, source, tables)
        if rng.random() < 0.2:
            # One condition: PostgreSQL computes those of an AND in an order of its own.
            select.where = Expr("bool", "({} IS TRUE)", [expressions.generate(scope, "bool", 2)])
    elif rng.random() < 0.7:
        select.where = filtered(scope, tables, 3)
    if not scope.fallible and rng.random() < 0.15:
        select.items.append(subqueries.condition(scope, tables, 1))
    if rng.random() < 0.1:
        select.distinct = not any(e.flags & (QUOTIENT | FLOAT_SUM) for e in select.items)
    elif rng.random() < 0.25:
        limited(rng, select)
    return select


def few_rows(rng, source, tables):
    count = max(len(table.rows) for table in tables if table.name == source.table)
    ids = [str(rng.randrange(1, count + 2)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    name = f"{source.alias}.id"
    form = f"{name} = {ids[0]}" if len(ids) == 1 else f"{name} IN ({', '.join(ids)})"
    return Expr("bool", form, own=expressions.COLUMN)


def limited(rng, select):
    """ORDER BY that leaves no choice, perhaps with LIMIT."""
    columns = [e for item in select.items for e in item.walk() if e.shape == "column"]
    keys = rng.sample(columns, min(len(columns), rng.choice((0, 1, 1, 2))))
    select.order = [Order(e, direction(rng)) for e in keys]
    select.order += [Order(e, direction(rng)) for e in ids_of(select.sources)]
    select.total_order = True
    # What may fail is computed before or after LIMIT; a numeric may have too many digits.
    firm = all(
        not e.flags & expressions.FALLIBLE and (e.type != "numeric" or e.shape == "column")
        for e in select.items
    )
    if firm and rng.random() < 0.6:
        select.limit = rng.choice((0, 1, 2, 5))
        select.offset = rng.choice((None, None, 0, 1, 3))


def direction(rng):
    return rng.choice(("", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST"))


def joined_sources(rng, tables, most=3):
    """Tables that are joined, one after the other."""
    names = [rng.choice(("t1", "t2", "t2", "t2", "t3")) for _ in range(rng.choice((2, 2, most)))]
    sources = [From(names[0], "a")]
    for name, alias in zip(names[1:], "bc", strict=False):
        source = From(name, alias)
        source.join = rng.choice(
            ("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
             "CROSS JOIN", ",")
        )  # fmt: skip
        if source.join == "," and any(s.join.startswith(("RIGHT", "FULL")) for s in sources):
            source.join = "CROSS JOIN"
        if source.join not in ("CROSS JOIN", ","):
            source.on = join_condition(rng, tables, sources, source)
        sources.append(source)
    return sources


def join_condition(rng, tables, before, source):
    # A comma binds less than JOIN: what stands before the last comma cannot be seen from ON.
    visible = before
    for at, earlier in enumerate(before):
        if earlier.join == ",":
            visible = before[at:]
    left, right = columns_of(visible, tables), columns_of([source], tables)
    conditions = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        first = rng.choice([c for c in left if rng.random() < 0.3 or c.form[2:] in ("k", "id")])
        fitting = [c for c in right if comparable(c.type, first.type)]
        same = [c for c in fitting if c.form[2:] == first.form[2:]]
        second = rng.choice(same if rng.random() < 0.6 else fitting)
        conditions.append(Expr("bool", "{} = {}", [first, second]))
    if source.join != "FULL JOIN" and rng.random() < 0.35:
        scope = Scope(rng, left + right, fallible=False)
        extra = expressions.generate(scope, "bool", 2)
        conditions = [extra] if rng.random() < 0.3 else [*conditions, extra]
    if len(conditions) == 1:
        return conditions[0]
    return Expr("bool", " AND ".join("{}" for _ in conditions), conditions)


def join(rng, tables):
    sources = joined_sources(rng, tables)
    columns = columns_of(sources, tables)
    scope = Scope(rng, columns, fallible=rng.random() < 0.15)
    items = items_of(scope, rng.choice((1, 2, 3)), rng.choice((0, 1, 2)))
    if rng.random() < 0.6:
        items += rng.sample(ids_of(sources), 1)
    select = Select(items, sources)
    if rng.random() < 0.4:
        select.where = filtered(scope, tables, 2)
    if rng.random() < 0.12:
        select.distinct = not any(e.flags & (QUOTIENT | FLOAT_SUM) for e in items)
    elif rng.random() < 0.25:
        limited(rng, select)
    return select


def aggregate(rng, scope, type_, over=""):
    """An aggregate function of the type, or None; also the one of a window (`over`)."""
    own = 0 if over else AGGREGATE
    inner = Scope(rng, scope.columns, scope.fallible and rng.random() < 0.2)
    distinct = "DISTINCT " if not over and rng.random() < 0.15 else ""
    tame = {c.type: c for c in scope.columns if c.form.endswith((".x", ".x4", ".k"))}
    choices = ["extreme"] if type_ not in ("bool", "bytea") else ["logic"] * (type_ == "bool")
    choices += {"int8": ["count", "count", "sum"], "numeric": ["sum", "avg"]}.get(type_, [])
    choices += {"float8": ["sum", "avg"], "float4": ["sum"]}.get(type_, [])
    if not choices:
        return None
    what, scale = rng.choice(choices), 0
    name, argument = what, None
    if what == "count":
        if rng.random() < 0.4:
            return Expr("int8", "count(*)", own=own, shape="aggregate")
        argument = expressions.generate(inner, rng.choice(ALL), 1)
    elif what == "logic":
        name = rng.choice(("bool_and", "bool_or"))
        argument = expressions.generate(inner, "bool", 1)
    elif what == "extreme":
        name = rng.choice(("min", "max"))
        argument = expressions.generate(inner, type_, 1)
        own |= EITHER_ZERO if type_ in FLOATS else 0
        scale = argument.scale
    elif type_ == "numeric":
        kinds = ("int8", "numeric") if what == "sum" else (*INTEGERS, "numeric")
        argument = expressions.generate(inner, rng.choice(kinds), 1)
        scale = argument.scale
        if what == "avg":
            own, scale = own | QUOTIENT, max(16, scale)
    elif type_ == "int8":
        argument = expressions.generate(inner, rng.choice(("int2", "int4")), 1)
    else:
        argument = tame.get(type_)
        if argument is None:
            return None
        own |= SUM_OF_REAL if type_ == "float4" else FLOAT_SUM
        if what == "avg" and rng.random() < 0.3:
            argument = tame.get("float4") or argument
    if argument.is_null():
        return None
    own |= expressions.FALLIBLE if what == "sum" and type_ == "numeric" else 0
    form, args = f"{name}({distinct}{{}})", [argument]
    if not over and rng.random() < 0.12:
        form += " FILTER (WHERE {})"
        args.append(expressions.generate(inner.safe(), "bool", 1))
    return Expr(type_, form, args, own=own, scale=scale, shape="aggregate")


def grouped(rng, tables):
    """GROUP BY, HAVING and aggregates."""
    sources = [From(rng.choice(TABLES), "a")]
    if rng.random() < 0.25:
        sources = joined_sources(rng, tables, most=2)
    columns = columns_of(sources, tables)
    scope = Scope(rng, columns, fallible=rng.random() < 0.4)
    keys = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        known = [c for c in columns if c.form[2:] in ("k", "b", "i2", "t", "d")]
        key = rng.choice(known if rng.random() < 0.5 else columns)
        if rng.random() < 0.3:
            key = expressions.generate(scope.safe(), rng.choice(ALL), 2)
        if key.flags & expressions.COLUMN:
            keys.append(key)
    # Which of 0.0 and -0.0 stands for a group is not said; so floats are keys, and not more.
    if any(key.type in FLOATS for key in keys):
        keys = [k for k in keys if k.type in FLOATS or all(e.type not in FLOATS for e in k.walk())]
    firm = [key for key in keys if key.type not in (*FLOATS, "text") or key.shape == "column"]
    firm = [key for key in firm if key.type not in FLOATS]
    # The digits of a numeric that stands for its group are not said either: see the text of it.
    firm = [key for key in firm if key.type != "numeric" or key.shape == "column"]
    outer = Scope(
        rng, firm, rng.random() < 0.5, leaves=lambda t: aggregate(rng, scope, t)
    )
    items = [key for key in keys if rng.random() < 0.8]
    for _ in range(rng.choice((1, 1, 2, 3))):
        type_ = rng.choice(ALL + NUMBERS)
        made = aggregate(rng, scope, type_) if rng.random() < 0.6 else None
        if made is None:
            made = over_aggregates(outer, type_, rng.choice((0, 1, 2)))
        items.append(made)
    select = Select(items, sources, group=keys)
    if rng.random() < 0.4:
        select.where = filtered(scope, tables, 2)
    if keys and rng.random() < 0.25:
        firm = Scope(rng, outer.columns, False, lambda t: aggregate(rng, scope.safe(), t))
        having = over_aggregates(firm, "bool", 2)
        if not inexact(having):
            select.having = having
    return select


def over_aggregates(outer, type_, depth):
    """An expression over groups; the exact parts of it are exact."""
    made = expressions.generate(outer, type_, depth)
    if made.shape != "aggregate" and inexact(made):
        return expressions.generate(Scope(outer.rng, outer.columns, False), type_, 1)
    return made


def inexact(expr):
    return bool(expr.flags & (QUOTIENT | FLOAT_SUM | SUM_OF_REAL))


def windowed(rng, tables):
    sources = [From(rng.choice(TABLES), "a")]
    if rng.random() < 0.15:
        sources = joined_sources(rng, tables, most=2)
    columns = columns_of(sources, tables)
    scope = Scope(rng, columns, fallible=False)
    ids = ids_of(sources)
    items = [*ids] if rng.random() < 0.8 else []
    for _ in range(rng.choice((1, 1, 2))):
        made = windows.make(scope, ids, aggregate)
        if not inexact(made) and rng.random() < 0.15:
            fallback = expressions.generate(scope, made.type, 1)
            made = Expr(made.type, "COALESCE({}, {})", [made, fallback],
                        scale=max(made.scale, fallback.scale), shape="list")  # fmt: skip
        items.append(made)
    select = Select(items, sources)
    if rng.random() < 0.3:
        select.where = expressions.generate(scope, "bool", 2)
    return select


def united(rng, tables):
    """UNION, INTERSECT and EXCEPT."""
    types = [rng.choice(ALL + NUMBERS) for _ in range(rng.choice((1, 1, 2, 3)))]
    count = rng.choice((2, 2, 2, 3))
    words = ["UNION", "UNION ALL", "UNION", "UNION ALL", "INTERSECT", "EXCEPT"]
    operators = [rng.choice(words) for _ in range(count - 1)]
    # The right side of INTERSECT is not computed where the left is empty.
    fallible = rng.random() < 0.3 and all(word.startswith("UNION") for word in operators)
    parts = []
    for at in range(count):
        source = From(rng.choice(("t1", "t2", "t3")), "a")
        bare = rng.random() < 0.2
        columns = [] if bare else columns_of([source], tables)
        scope = Scope(rng, columns, fallible)
        items = [union_item(scope, t, first=at == 0, pair=count == 2) for t in types]
        part = Select(items, [] if bare else [source])
        if not bare:
            part.where = (
                few_rows(rng, source, tables) if fallible
                else expressions.generate(scope, "bool", 2) if rng.random() < 0.4 else None
            )  # fmt: skip
        parts.append(part)
    parts[0].others = list(zip(operators, parts[1:], strict=True))
    return parts[0]


def union_item(scope, type_, first, pair):
    rng = scope.rng
    if not first and type_ in NUMBERS and rng.random() < 0.3:
        type_ = rng.choice([t for t in NUMBERS if t != "numeric"] + ["numeric"])
    elif not first and type_ in ("date", "timestamp") and rng.random() < 0.3:
        type_ = rng.choice(("date", "timestamp"))
    if pair and not first and rng.random() < 0.08:
        return Expr(type_, "NULL", own=expressions.NULL, shape="quoted")
    return expressions.generate(scope, type_, rng.choice((0, 1, 2)))


#: How to make a statement, and how often.
MAKERS = [
    (constant, 14), (single, 28), (join, 14), (grouped, 16), (windowed, 11), (united, 9),
    (correlated.make, 14),
]  # fmt: skip
