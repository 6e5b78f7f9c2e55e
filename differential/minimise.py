"""Makes a statement smaller, then its tables, while its difference stays.

`candidates` proposes smaller statements, the boldest first; the first that still differs in the
same way takes the statement's place, and all begins again. PostgreSQL decides what is valid.
"""

import re

from .sqltypes import SQL_NAMES
from .tree import Expr, Order

TRIES_MAX = 1500


def minimise(statement, still):
    """The smallest statement found for which `still` holds."""
    tries = 0
    size = weight(statement)
    seen = set()
    progress = True
    while progress and tries < TRIES_MAX:
        progress = False
        for candidate in candidates(statement):
            smaller = weight(candidate)
            text = candidate.render()
            if smaller >= size or text in seen:
                continue
            seen.add(text)
            tries += 1
            if still(candidate):
                statement, size, progress = candidate, smaller, True
                break
            if tries >= TRIES_MAX:
                break
    return statement


def weight(statement):
    """Fewer expressions are better, then shorter text; a literal is better than a column."""
    nodes = list(statement.walk())
    columns = sum(node.shape == "column" for node in nodes)
    parts = sum(len(s.sources) + len(s.items) + 1 for s in statement.selects())
    return parts + len(nodes) + 0.5 * columns, len(statement.render())


def candidates(statement):
    """Statements that are smaller in one place."""
    yield from _without_parts(statement)
    for at, (operator, other) in enumerate(statement.others):
        for smaller in _smaller_select(other):
            others = list(statement.others)
            others[at] = (operator, smaller)
            yield statement.copy(others=others)
    yield from _smaller_select(statement)


def _without_parts(statement):
    if statement.others:
        yield statement.copy(others=[], total_order=False)
        for _, other in statement.others:
            yield other
        for at in range(len(statement.others)):
            yield statement.copy(others=statement.others[:at] + statement.others[at + 1 :])
    if len(statement.items) > 1:
        for at in range(len(statement.items)):
            yield _without_column(statement, at)
    if statement.limit is not None or statement.offset is not None:
        yield statement.copy(limit=None, offset=None)
        yield statement.copy(offset=None)
    if statement.order:
        if statement.limit is None:
            yield statement.copy(order=[], total_order=False)
        for at in range(len(statement.order)):
            order = statement.order[:at] + statement.order[at + 1 :]
            yield statement.copy(order=order, total_order=False)


def _without_column(statement, at):
    def cut(select):
        return select.copy(items=select.items[:at] + select.items[at + 1 :])

    return cut(statement).copy(others=[(op, cut(other)) for op, other in statement.others])


def _smaller_select(select):
    if select.where:
        yield select.copy(where=None)
    if select.having:
        yield select.copy(having=None)
    if select.distinct:
        yield select.copy(distinct=False)
    if select.group:
        yield select.copy(group=[])
        for at in range(len(select.group)):
            yield select.copy(group=select.group[:at] + select.group[at + 1 :])
    if select.sources:
        yield select.copy(sources=[])
    for at, source in enumerate(select.sources):
        if len(select.sources) > 1 and (at or select.sources[1].join):
            rest = select.sources[:at] + select.sources[at + 1 :]
            if at == 0:
                rest = [type(source)(rest[0].table, rest[0].alias), *rest[1:]]
            yield select.copy(sources=rest)
        if source.join not in ("", ",", "CROSS JOIN", "JOIN"):
            inner = type(source)(source.table, source.alias, "JOIN", source.on)
            yield _with_source(select, at, inner)
        if source.on:
            for smaller in smaller_expressions(source.on, select):
                new = type(source)(source.table, source.alias, source.join, smaller)
                yield _with_source(select, at, new)
    for name in ("items", "group"):
        exprs = getattr(select, name)
        for at, expr in enumerate(exprs):
            for smaller in smaller_expressions(expr, select):
                yield select.copy(**{name: exprs[:at] + [smaller] + exprs[at + 1 :]})
    # An expression in several places becomes smaller in all of them.
    for at, key in enumerate(select.group):
        for smaller in smaller_expressions(key, select):
            items = [replaced(item, key, smaller) for item in select.items]
            group = select.group[:at] + [smaller] + select.group[at + 1 :]
            yield select.copy(items=items, group=group)
    for name in ("where", "having"):
        if getattr(select, name):
            for smaller in smaller_expressions(getattr(select, name), select):
                yield select.copy(**{name: smaller})
    for at, order in enumerate(select.order):
        for how in {"", " DESC"} - {order.how}:
            if len(how) < len(order.how):
                changed = [*select.order[:at], Order(order.expr, how), *select.order[at + 1 :]]
                yield select.copy(order=changed)


def _with_source(select, at, source):
    return select.copy(sources=select.sources[:at] + [source] + select.sources[at + 1 :])


def replaced(expr, old, new):
    """The expression with every part that reads like `old` replaced."""
    if expr.render() == old.render():
        return new
    if not expr.args:
        return expr
    return expr.with_args([replaced(arg, old, new) for arg in expr.args])


def smaller_expressions(expr, select):
    """Expressions that are smaller in one place, from the outside to the inside."""
    yield from instead_of(expr, select)
    for at, arg in enumerate(expr.args):
        if expr.shape == "ordered" and arg.form.endswith(".id"):
            continue
        for smaller in smaller_expressions(arg, select):
            # Of another type a quotient or a sum would have another type as well, which its
            # flags would not say.
            if smaller.type != arg.type and (" / " in expr.form or expr.shape == "aggregate"):
                continue
            yield expr.with_args(expr.args[:at] + (smaller,) + expr.args[at + 1 :])


def instead_of(expr, select):
    """What may stand in place of the whole expression."""
    inside = sorted((e for e in expr.walk() if e is not expr), key=lambda e: len(e.render()))
    for part in inside:
        if part.type == expr.type:
            yield part
    for part in inside:
        if part.type != expr.type and part.type != "interval":
            yield part
    if expr.args or expr.shape == "column":
        yield from _literals(expr)
    yield from _fewer_parts(expr)
    if " OVER (" in expr.form:
        yield from _plainer_window(expr)


def _literals(expr):
    texts = {
        "int2": ("0", "1"), "int4": ("0", "1"), "int8": ("0", "1"), "float4": ("0", "1.5"),
        "float8": ("0", "1.5"), "bool": ("true", "false"), "text": ("a",),
        "date": ("2020-01-02",), "timestamp": ("2020-01-02 03:04:05",),
        "timestamptz": ("2020-01-02 03:04:05+00",), "time": ("03:04:05",),
        "uuid": ("00000000-0000-0000-0000-000000000001",), "bytea": ("\\x61",),
    }  # fmt: skip
    if expr.type == "numeric":
        for text in ("1.5", "0.0"):
            yield Expr("numeric", text, scale=1, shape="literal")
        return
    for text in texts.get(expr.type, ()):
        if expr.type == "int4":
            yield Expr("int4", text, shape="literal")
        elif expr.type == "bool":
            yield Expr("bool", text, shape="literal")
        else:
            yield Expr(expr.type, f"CAST('{text}' AS {SQL_NAMES[expr.type]})", shape="literal")


def _fewer_parts(expr):
    """A list or CASE with a part less."""
    count = len(expr.args)
    if expr.shape == "list" and count > 1 or expr.shape == "in" and count > 2:
        for at in range(1 if expr.shape == "in" else 0, count):
            form = re.sub(r", \{\}", "", expr.form, count=1)
            yield expr.with_args(expr.args[:at] + expr.args[at + 1 :], form)
    if expr.shape == "case":
        simple = expr.form.startswith("CASE {}")
        ended = " ELSE {}" in expr.form
        if ended:
            yield expr.with_args(expr.args[:-1], expr.form.replace(" ELSE {}", ""))
        for at in range(1 if simple else 0, count - 1, 2):
            if expr.form.count("WHEN") > 1:
                form = expr.form.replace(" WHEN {} THEN {}", "", 1)
                yield expr.with_args(expr.args[:at] + expr.args[at + 2 :], form)
    if " AND {}" in expr.form and expr.form.startswith(("({} AND", "{} AND")) and count > 2:
        yield expr.with_args(expr.args[:-1], expr.form.replace(" AND {}", "", 1))
    if " FILTER (WHERE {})" in expr.form:
        yield expr.with_args(expr.args[:-1], expr.form.replace(" FILTER (WHERE {})", ""))
    if "DISTINCT {}" in expr.form:
        yield expr.with_args(expr.args, expr.form.replace("DISTINCT {}", "{}"))


def _plainer_window(expr):
    """A window without its frame, with fewer keys, or with keys in plain order."""
    call, _, clauses = expr.form.partition(" OVER (")
    bare = re.sub(r" ?(ROWS|RANGE|GROUPS) BETWEEN.*", ")", clauses)
    if bare != clauses:
        yield expr.with_args(expr.args, f"{call} OVER ({bare}")
    first = call.count("{}")
    partition = re.match(r"PARTITION BY (\{\}(?:, \{\})*) ?", clauses)
    if partition:
        keys = partition[1].count("{}")
        rest = clauses[partition.end() :]
        yield expr.with_args(expr.args[:first] + expr.args[first + keys :], f"{call} OVER ({rest}")
        if keys > 1:
            kept = expr.args[: first + keys - 1] + expr.args[first + keys :]
            yield expr.with_args(kept, expr.form.replace("PARTITION BY {}, ", "PARTITION BY ", 1))
        first += keys
    key = r"\{\}[^,)]*?"
    ordered = re.search(rf"ORDER BY ({key}(?:, {key})*)( ROWS| RANGE| GROUPS|\))", clauses)
    if ordered:
        keys = ordered[1].split(", ")
        for at in range(len(keys)):
            if expr.shape == "ordered" and expr.args[first + at].form.endswith(".id"):
                continue
            left = keys[:at] + keys[at + 1 :]
            order = f"ORDER BY {', '.join(left)}" if left else ""
            changed = clauses[: ordered.start()] + order + clauses[ordered.end(1) :]
            args = expr.args[: first + at] + expr.args[first + at + 1 :]
            yield expr.with_args(args, f"{call} OVER ({changed}")
        plain = ", ".join("{}" for _ in keys)
        yield expr.with_args(expr.args, expr.form.replace(ordered[1], plain, 1))


def minimise_tables(tables, statement, still):
    """The fewest rows and columns for which `still(tables)` holds."""
    text = statement.render()
    used = {s.table for select in statement.selects() for s in select.sources}
    tables = [table for table in tables if table.name in used]
    names = {"id", *re.findall(r"\b[abcs]\.(\w+)", text)}
    tables = [table.only(names, table.rows) for table in tables]
    if not still(tables):
        return None
    for at, table in enumerate(tables):
        rows = table.rows
        step = max(1, len(rows) // 2)
        while rows and step:
            start = 0
            while start < len(rows):
                fewer = rows[:start] + rows[start + step :]
                attempt = [*tables[:at], table.only(names, fewer), *tables[at + 1 :]]
                if still(attempt):
                    rows = fewer
                else:
                    start += step
            step //= 2
        tables[at] = table.only(names, rows)
    return tables
