"""Makes conditions over the rows of a subquery: IN, EXISTS, and comparisons with ANY and ALL."""

from . import expressions
from .expressions import Scope
from .sqltypes import ALL, NUMBERS, comparable
from .tree import Expr

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
TABLES = ("t1", "t2", "t2", "t3", "t3")


def condition(scope, tables, depth=2):
    """A condition that cannot fail, with one subquery or more, which may be NULL."""
    rng = scope.rng
    if depth == 0 or rng.random() < 0.45:
        return predicate(scope, tables)
    inner = condition(scope, tables, depth - 1)
    form = rng.choice(
        ("(NOT {})", "({} IS NULL)", "({} IS NOT TRUE)", "({} IS FALSE)", "({} AND {})",
         "({} OR {})", "COALESCE({}, {})", "CASE WHEN {} THEN {} ELSE {} END")
    )  # fmt: skip
    others = [
        expressions.generate(scope, "bool", 1)
        if rng.random() < 0.7 or form.startswith("CASE")
        else condition(scope, tables, depth - 1)
        for _ in range(form.count("{}") - 1)
    ]
    return Expr("bool", form, [inner, *others])


def predicate(scope, tables):
    rng = scope.rng
    name = rng.choice(TABLES)
    table = next(table for table in tables if table.name == name)
    columns = [expressions.column("s", column) for column in table.columns]
    where, parts = source(scope, table, columns)
    if rng.random() < 0.25:
        return Expr("bool", f"({rng.choice(('', 'NOT '))}EXISTS (SELECT 1 {where}))", parts)
    type_ = rng.choice([*ALL, *NUMBERS, "int4", "int4"])
    value = expressions.generate(scope, type_, rng.choice((0, 0, 1)))
    fitting = [c for c in columns if c.type == type_ or rng.random() < 0.3]
    fitting = [c for c in fitting if comparable(c.type, value.type)]
    if not fitting or value.shape == "quoted":
        return Expr("bool", f"(EXISTS (SELECT 1 {where}))", parts)
    word = rng.choice(("IN", "IN", "NOT IN", "NOT IN", None))
    if word is None:
        word = f"{rng.choice(COMPARISONS)} {rng.choice(('ANY', 'SOME', 'ALL'))}"
    return Expr("bool", f"({{}} {word} (SELECT {{}} {where}))", [value, rng.choice(fitting), *parts])


def source(scope, table, columns):
    """FROM and WHERE of a subquery, which may name columns of the query around it."""
    rng = scope.rng
    parts = []
    if rng.random() < 0.4:
        outer = rng.choice(scope.columns) if scope.columns else None
        same = [c for c in columns if outer and c.type == outer.type]
        if same and outer.type == "bool" and rng.random() < 0.5:
            parts.append(outer)
        elif same:
            operator = rng.choice(("=", "=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"))
            parts.append(Expr("bool", f"({{}} {operator} {{}})", [rng.choice(same), outer]))
    if rng.random() < 0.4:
        parts.append(expressions.generate(Scope(rng, columns, fallible=False), "bool", 1))
    where = " WHERE " + " AND ".join("{}" for _ in parts) if parts else ""
    return f"FROM {table.name} AS s{where}", parts
