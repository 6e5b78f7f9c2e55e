"""Makes statements with subqueries that use columns of the query around them: as values, as arrays,
and as lateral tables.

A subquery that stands for a value has one row at most, so that no answer depends on which row fails
first: it finds a row by its key, aggregates, or has a limit. No alias is the name of a column, which
would hide it in Atoll.
"""

from . import expressions, subqueries
from .expressions import Scope
from .sqltypes import ALL, FLOATS, INTEGERS
from .tree import COLUMN, EITHER_ZERO, Expr, From, Select

OPERATORS = ("=", "=", "=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM")
TABLES = ("t1", "t2", "t2", "t3")
#: Types whose arrays have the same text in both databases.
ELEMENTS = (*INTEGERS, "text", "date")


def columns_of(name, alias, tables):
    table = next(table for table in tables if table.name == name)
    return [expressions.column(alias, column) for column in table.columns]


def named(columns, name):
    return next(column for column in columns if column.form.endswith(f".{name}"))


def correlation(rng, outer, inner):
    """A condition of a subquery, over columns of it and of the query around it."""
    chance = rng.random()
    if chance < 0.15:
        return rng.choice([c for c in outer if c.type == "bool"])
    if chance < 0.3:
        return expressions.generate(Scope(rng, [*outer, *inner], fallible=False), "bool", 2)
    known = [c for c in inner if c.form[2:] in ("id", "k", "b", "i2", "t", "d")]
    one = rng.choice(known if rng.random() < 0.6 else inner)
    same = [c for c in outer if c.type == one.type]
    operator = rng.choice(OPERATORS)
    return Expr("bool", f"({{}} {operator} {{}})", [one, rng.choice(same)])


def conditions(rng, outer, inner, tables, depth=1):
    """Some conditions, joined by AND."""
    made = [correlation(rng, outer, inner) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.25:
        made.append(expressions.generate(Scope(rng, inner, fallible=False), "bool", 1))
    if depth and rng.random() < 0.2:
        made.append(exists(rng, [*outer, *inner], tables))
    return made


def exists(rng, outer, tables):
    """EXISTS two levels down, which may use the columns of both levels above it."""
    name = rng.choice(TABLES)
    inner = columns_of(name, "r", tables)
    made = conditions(rng, outer, inner, tables, depth=0)
    where = " AND ".join("{}" for _ in made)
    word = rng.choice(("", "NOT "))
    return Expr("bool", f"({word}EXISTS (SELECT 1 FROM {name} AS r WHERE {where}))", made)


def value(scope, tables):
    """A scalar subquery, or an array as a text."""
    rng, outer = scope.rng, scope.columns
    name = rng.choice(TABLES)
    inner = columns_of(name, "o", tables)
    made = conditions(rng, outer, inner, tables)
    source = f"FROM {name} AS o"
    chance = rng.random()
    if chance < 0.2:
        # A second table.
        other = rng.choice(("t2", "t3"))
        further = columns_of(other, "r", tables)
        join = rng.choice((", ", " JOIN ", " LEFT JOIN "))
        if join == ", ":
            source += f", {other} AS r"
            made.append(Expr("bool", "({} = {})", [named(further, "k"), named(inner, "k")]))
        else:
            source += f"{join}{other} AS r ON r.k = o.k"
        inner = [*inner, *further]
    where = " AND ".join("{}" for _ in made)
    if rng.random() < 0.3:
        return aggregate(rng, inner, source, where, made)
    if rng.random() < 0.25:
        item = rng.choice([c for c in inner if c.type in ELEMENTS])
        order = ", ".join(sorted({c.form for c in inner if c.form.endswith(".id")}))
        if rng.random() < 0.4:
            order = f"{rng.choice(inner).form}{rng.choice(('', ' DESC'))}, {order}"
        limit = rng.choice(("", "", " LIMIT 2"))
        form = f"CAST(ARRAY(SELECT {{}} {source} WHERE {where} ORDER BY {order}{limit}) AS text)"
        return Expr("text", form, [item, *made])
    item = rng.choice(inner)
    if rng.random() < 0.4 and " AS r" not in source:
        outer_id = rng.choice([c for c in outer if c.type in INTEGERS])
        form = f"(SELECT {{}} {source} WHERE o.id = {{}} AND {where})"
        return Expr(item.type, form, [item, outer_id, *made], scale=item.scale)
    order = ", ".join(sorted({c.form for c in inner if c.form.endswith(".id")}))
    if rng.random() < 0.5:
        order = f"{rng.choice(inner).form}{rng.choice(('', ' DESC'))}, {order}"
    limit = rng.choice(("LIMIT 1", "LIMIT 1", "LIMIT 1 OFFSET 1", "LIMIT 0"))
    form = f"(SELECT {{}} {source} WHERE {where} ORDER BY {order} {limit})"
    return Expr(item.type, form, [item, *made], scale=item.scale)


def aggregate(rng, inner, source, where, made):
    """An aggregate over the rows of a subquery."""
    if rng.random() < 0.4:
        what = rng.choice(("count(*)", "count({})", "count(DISTINCT {})"))
        items = [rng.choice(inner)] if "{}" in what else []
        having = rng.choice(("", "", " HAVING count(*) > 1"))
        form = f"(SELECT {what} {source} WHERE {where}{having})"
        return Expr("int8", form, [*items, *made])
    item = rng.choice([c for c in inner if c.type not in ("bool", "bytea", "uuid")])
    if item.type in ("int2", "int4") and rng.random() < 0.4:
        return Expr("int8", f"(SELECT sum({{}}) {source} WHERE {where})", [item, *made])
    name = rng.choice(("min", "max"))
    own = EITHER_ZERO if item.type in FLOATS else 0
    form = f"(SELECT {name}({{}}) {source} WHERE {where})"
    return Expr(item.type, form, [item, *made], own=own, scale=item.scale)


def lateral(rng, outer, tables, alias):
    """A lateral table, with its columns."""
    name = rng.choice(TABLES)
    inner = columns_of(name, "o", tables)
    operator = rng.choice(OPERATORS)
    one = rng.choice([c for c in inner if c.form[2:] in ("id", "k", "b", "i2", "t", "d")])
    other = rng.choice([c for c in outer if c.type == one.type])
    condition = f"{one.form} {operator} {other.form}"
    if rng.random() < 0.3:
        query = f"SELECT count(*) AS p, max(o.k) AS q FROM {name} AS o WHERE {condition}"
        types = (("p", "int8", 0), ("q", "int4", 0))
    else:
        first, second = rng.choice(inner), rng.choice(outer)
        query = f"SELECT {first.form} AS p, {second.form} AS q FROM {name} AS o WHERE {condition}"
        if rng.random() < 0.5:
            query += f" ORDER BY o.id{rng.choice(('', ' DESC'))} LIMIT {rng.choice((1, 2))}"
        types = (("p", first.type, first.scale), ("q", second.type, second.scale))
    columns = [
        Expr(type_, f"{alias}.{name}", own=COLUMN, scale=scale, shape="column")
        for name, type_, scale in types
    ]
    return From(f"LATERAL ({query})", alias), columns


def make(rng, tables):
    """A statement with such subqueries."""
    name = rng.choice(("t1", "t1", "t2", "t3"))
    sources = [From(name, "a")]
    columns = columns_of(name, "a", tables)
    if rng.random() < 0.25:
        other = rng.choice(("t2", "t3"))
        source = From(other, "e", rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN")))
        source.on = Expr("bool", "a.k = e.k")
        sources.append(source)
        columns += columns_of(other, "e", tables)
    for alias in "gh":
        if rng.random() < 0.3:
            source, further = lateral(rng, columns, tables, alias)
            source.join = rng.choice(("CROSS JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN"))
            if source.join != "CROSS JOIN":
                same = [c for c in columns if c.type == further[1].type]
                source.on = Expr("bool", "true")
                if same and rng.random() < 0.3:
                    source.on = Expr("bool", "{} = {}", [further[1], rng.choice(same)])
            sources.append(source)
            columns = columns + further
    scope = Scope(rng, columns, fallible=False)
    items = [value(scope, tables) for _ in range(rng.choice((0, 1, 1, 2)))]
    plain = rng.choice((0, 1, 2)) if items else 2
    items += [expressions.generate(scope, rng.choice(ALL), 1) for _ in range(plain)]
    select = Select(items, sources)
    chance = rng.random()
    if chance < 0.25:
        select.where = exists(rng, columns, tables)
    elif chance < 0.4:
        select.where = subqueries.condition(scope, tables, 1)
    elif chance < 0.55:
        made = value(scope, tables)
        select.where = Expr("bool", f"({{}} IS {rng.choice(('', 'NOT '))}NULL)", [made])
    return select
