"""Statements that change rows, and short queries, over the tables of `schemas`.

The generator leaves out what no database defines: which of several rows a join takes, the rows that
LIMIT takes without a whole order, and which of two failing operands is computed first.
"""

from . import schemas
from .pieces import Maybe, Statement, Value, joined, maybe, statement

NUMBERS = ("int2", "int4", "int8", "numeric")
#: What the types that are no numbers and no texts have of their own: conditions, with the value of
#: a column as `{}`, none of which can fail.
CONDITIONS = {
    "json": ("{} ->> 'a' = '1'", "json_typeof({}) = 'object'", "({} -> 'b' -> 1) IS NULL"),
    "jsonb": (
        """{} @> '{{"a": 1}}'""", "{} ->> 'a' = '1'", "{} -> 'a' = '2'", "jsonb_typeof({}) = 'array'",
        "{} -> -1 IS NOT NULL", "{} <> '[]'", """{} <@ '{{"a": 1, "b": 2}}'""",
    ),
    "ints": (
        "1 = ANY ({})", "2 <> ALL ({})", "{} @> '{{1}}'", "{} && '{{2,3}}'", "{}[1] > 1",
        "cardinality({}) = 1", "array_length({}, 1) IS NULL", "{} <@ ARRAY[1, 2]",
    ),
    "texts": (
        "'a' = ANY ({})", "{} @> ARRAY['b']", "{}[1] = 'a'", "array_to_string({}, ',') LIKE 'a%'",
        "cardinality({}) > 1", "array_position({}, 'b') = 2",
    ),
    "interval": (
        "{} > interval '1 day'", "extract(epoch FROM {}) > 3600", "{} * 2 > interval '1 month'",
        "{} + interval '1 hour' > '0 days'", "justify_hours({}) = {}",
    ),
    "mood": ("{} < 'happy'", "{} IN ('sad', 'ok')", "{}::text LIKE '%a%'", "{} >= 'ok'::mood"),
    "small": ("{} + 1 > 3", "{} % 2 = 0"),
    "word": ("{} LIKE 'a%'", "length({}) = 1", "{} || 'x' = 'ax'"),
}  # fmt: skip
#: Values of domains that their rules do not let in.
REFUSED = {"small": "100", "word": "no", "mood": "angry"}


class Scope:
    """The columns that an expression may use: those of tables under names."""

    def __init__(self, rng, *named, bare=False):
        self.rng, self.bare = rng, bare
        self.columns = [
            (column.name if bare else f"{name}.{column.name}", column)
            for name, table in named for column in table.columns
        ]  # fmt: skip

    def of(self, *types):
        return [named for named in self.columns if named[1].type in types]

    def any(self):
        return self.rng.choice(self.columns)


class Generator:
    """Makes statements; `parameters` is the share of values that are parameters."""

    def __init__(self, rng, tables, parameters=None):
        self.rng, self.tables = rng, tables
        self.parameters = rng.choice((0, 0, 0.5, 1)) if parameters is None else parameters
        self.made = []

    def chance(self, of):
        return self.rng.random() < of

    def value(self, type_, **options):
        made = schemas.value(self.rng, type_, **options)
        return Value(type_, made.text, self.chance(self.parameters))

    # Conditions: nothing in them can fail.

    def condition(self, scope, depth=2):
        roll = self.rng.random()
        if depth and roll < 0.3:
            one, other = (self.condition(scope, depth - 1) for _ in range(2))
            word = self.rng.choice((" AND ", " AND ", " OR "))
            return ["(", maybe(one, word, instead=()), other, ")"]
        if depth and roll < 0.36:
            return ["NOT (", self.condition(scope, depth - 1), ")"]
        if roll < 0.45:
            name, _ = scope.any()
            return [f"{name} IS ", self.rng.choice(("", "NOT ")), "NULL"]
        name, column = scope.any()
        if column.type in CONDITIONS and (roll < 0.6 or column.type in schemas.UNORDERED):
            return [self.rng.choice(CONDITIONS[column.type]).format(*[name] * 2)]
        if roll < 0.55:
            others = [n for n, c in scope.of(column.type) if n != name]
            if others:
                return [f"{name} {self.comparison()} {self.rng.choice(others)}"]
        if roll < 0.65:
            values = [self.value(column.type) for _ in range(self.rng.randrange(1, 4))]
            word = self.rng.choice((" IN (", " IN (", " NOT IN ("))
            return [name, word, *joined(", ", values), ")"]
        if roll < 0.75:
            low, high = self.value(column.type), self.value(column.type)
            return [name, " BETWEEN ", low, " AND ", high]
        if column.type == "text" and roll < 0.85:
            return [f"{name} LIKE ", _fixed("text", self.rng.choice(("a%", "%b", "_", "%")))]
        if column.type == "bool" and roll < 0.85:
            return [self.rng.choice((name, f"{name} IS TRUE", f"{name} IS NOT FALSE"))]
        return [f"{name} {self.comparison()} ", self.value(column.type)]

    def comparison(self):
        return self.rng.choice(("=", "=", "=", "<", "<=", ">", ">=", "<>"))

    def key_is(self, table, name=None, columns=None):
        """The key, or the columns, equal values."""
        prefix = f"{name}." if name else ""
        columns = [table.column(n) for n in columns or table.key]
        return joined(
            " AND ", [[f"{prefix}{c.name} = ", self.value(c.type)] for c in columns]
        )  # fmt: skip

    def range_of(self, table, names, prefix=""):
        """Some of the first columns of an index equal values, the next is in a range."""
        fixed = self.rng.randrange(len(names))
        parts = [[f"{prefix}{n} = ", self.value(table.column(n).type)] for n in names[:fixed]]
        name, type_ = prefix + names[fixed], table.column(names[fixed]).type
        parts.append(
            self.rng.choice((
                [f"{name} > ", self.value(type_)], [f"{name} <= ", self.value(type_)],
                [f"{name} BETWEEN ", self.value(type_), " AND ", self.value(type_)],
                [f"{name} >= ", self.value(type_), f" AND {name} < ", self.value(type_)],
            ))
        )  # fmt: skip
        return joined(" AND ", parts)

    def ways(self, table):
        """The lists of columns by which an index finds rows."""
        return [table.key, *table.uniques, *table.indexes]

    def where(self, table, name=None, *, subqueries=True):
        """A condition by which a statement finds rows of one table."""
        prefix = f"{name}." if name else ""
        roll = self.rng.random()
        if roll < 0.3:
            return self.key_is(table, name)
        if roll < 0.38:
            types = [table.column(n) for n in table.key]
            if len(types) == 1:
                values = [self.value(types[0].type) for _ in range(self.rng.randrange(2, 5))]
                return [f"{prefix}{types[0].name} IN (", *joined(", ", values), ")"]
            one, other = self.key_is(table, name), self.key_is(table, name)
            return ["(", *one, ") OR (", *other, ")"]
        if roll < 0.48:
            return self.key_is(table, name, self.rng.choice(self.ways(table)))
        if roll < 0.63:
            found = self.range_of(table, self.rng.choice(self.ways(table)), prefix)
            if self.chance(0.3):
                rest = self.condition(Scope(self.rng, (name or table.name, table)), 1)
                found = [*found, maybe(" AND ", *rest)]
            return found
        scope = Scope(self.rng, (name or table.name, table))
        if subqueries and roll < 0.75:
            return self.subquery(table, name or table.name)
        return self.condition(scope)

    def subquery(self, table, name):
        """A condition with a subquery over another table."""
        other = self.rng.choice(self.tables)
        inner = Scope(self.rng, ("q", other))
        _, column = self.rng.choice(Scope(self.rng, (name, table)).columns)
        same = inner.of(column.type)
        rest = maybe(" AND ", *self.condition(inner, 1))
        if not same or column.type in schemas.ALONE:
            return ["EXISTS (SELECT 1 FROM ", other.name, " AS q WHERE ",
                    self.condition(inner, 1), ")"]  # fmt: skip
        match, _ = self.rng.choice(same)
        roll = self.rng.random()
        if roll < 0.5:
            no = self.rng.choice(("", "", "NOT "))
            return [f"{no}EXISTS (SELECT 1 FROM {other.name} AS q WHERE {match} = ",
                    f"{name}.{column.name}", rest, ")"]  # fmt: skip
        if roll < 0.8:
            inside = maybe(" WHERE ", *self.condition(inner, 1))
            no = self.rng.choice(("", "", "NOT "))
            return [f"{name}.{column.name} {no}IN (SELECT {match} FROM {other.name} AS q", inside,
                    ")"]  # fmt: skip
        most = self.rng.choice(("min", "max")) if column.type not in schemas.NO_LEAST else "count"
        if most == "count":
            return [f"(SELECT count(*) FROM {other.name} AS q WHERE {match} = ",
                    f"{name}.{column.name}) {self.comparison()} 1"]  # fmt: skip
        return [f"{name}.{column.name} {self.comparison()} ",
                f"(SELECT {most}({match}) FROM {other.name} AS q", maybe(
                    " WHERE ", *self.condition(inner, 1)), ")"]  # fmt: skip

    # Values of a type; they may fail, if `fails`.

    def expression(self, type_, scope, depth=1, *, fails=True, columns=False):
        """An expression; with `columns` it is a column where it becomes smallest."""
        same = scope.of(type_)
        roll = self.rng.random()
        is_value = not same or not columns and self.chance(0.4)
        leaf = self.value(type_) if is_value else self.rng.choice(same)[0]
        # Merged with another text, it is shown without its blanks.
        if depth == 0 or roll < 0.3 or type_ == "bpchar":
            return [leaf]
        first = self.rng.choice(same)[0] if same else self.value(type_)
        if isinstance(first, Value) and type_ not in NUMBERS:
            return [first]
        if roll < 0.4:
            return [maybe(f"coalesce({first}, " if same else "coalesce(", *(
                [] if same else [first, ", "]), self.value(type_), ")", instead=[leaf])]  # fmt: skip
        if roll < 0.52:
            then, other = (self.expression(type_, scope, depth - 1, fails=False) for _ in "12")
            if any(isinstance(one[0], str) for one in (then, other)):
                made = ["CASE WHEN ", *self.condition(scope, 1), " THEN ", *then, " ELSE ",
                        *other, " END"]  # fmt: skip
                return [maybe(*made, instead=[leaf])]
            return [leaf]
        if type_ in ("ints", "texts") and not isinstance(first, Value):
            other = _fixed(type_, self.rng.choice(("{}", "{1}" if type_ == "ints" else "{a}")))
            return [maybe(first, " || ", other, instead=[leaf])]
        if type_ == "jsonb" and not isinstance(first, Value):
            behind = self.rng.choice((""" || '[3]'""", " - 'a'", """ || '{"a": 7}'"""))
            return [maybe(f"({first}{behind})", instead=[leaf])]
        if type_ == "interval" and not isinstance(first, Value):
            by = self.rng.choice((" + interval '1 day'", " - interval '90 minutes'", " * 2"))
            return [maybe(f"({first}{by})", instead=[leaf])]
        if type_ == "text":
            word = _fixed("text", self.rng.choice("!x"))
            return [maybe(first, " || ", word, instead=[leaf])]
        if type_ in NUMBERS and not isinstance(first, Value):
            if fails and type_ != "numeric" and self.chance(0.06):
                other = self.rng.choice(scope.of("int2", "int4", "int8"))[0]
                return [maybe(f"{first} / ({other} - ", _fixed("int4", "3"), ")", instead=[leaf])]
            if fails and self.chance(0.05):
                return [maybe(f"{first} * ", _fixed("int4", "1000000000"), instead=[leaf])]
            if not fails and type_ != "numeric":
                return [leaf]  # A sum may be out of range.
            by = _fixed(type_, self.rng.choice("123"), self.chance(self.parameters))
            return [maybe(first, self.rng.choice((" + ", " - ")), by, instead=[leaf])]
        return [leaf]

    # Changes.

    def returning(self, table, name=None, share=0.4):
        if not self.chance(share):
            return ""
        if self.chance(0.4):
            return maybe(" RETURNING *")
        scope = Scope(self.rng, (name or table.name, table), bare=not name)
        items = []
        for at in range(self.rng.randrange(1, 4)):
            _, column = scope.any()
            made = self.expression(column.type, scope, fails=False, columns=True)
            items.append([*made, f" AS r{at}"])
        return maybe(" RETURNING ", *joined(", ", items))

    def insert(self):
        table = self.rng.choice(self.tables)
        columns = list(table.columns)
        listed, is_written = "", self.chance(0.75)
        if self.chance(0.4):
            columns = [c for c in columns if not c.nullable or self.chance(0.6)]
            if is_written and self.chance(0.05):
                columns.remove(self.rng.choice(columns))
            if self.chance(0.3):
                self.rng.shuffle(columns)
            listed = f" ({', '.join(c.name for c in columns)})" if columns else ""
            columns = columns or list(table.columns)
        name, alias = table.name, ""
        if self.chance(0.1):
            name, alias = "x", " AS x"
        if is_written:
            source = ["VALUES ", *joined(", ", self.rows(columns))]
        else:
            source = self.source(columns)
        conflict = self.conflict(table, name) if self.chance(0.5) else ""
        return statement(
            "INSERT", f"INSERT INTO {table.name}{alias}{listed} ", *source, conflict,
            self.returning(table, name if alias else None),
        )  # fmt: skip

    def rows(self, columns):
        """One or more rows that are written out, each of which may be left away."""
        count = self.rng.choice((1, 1, 1, 1, 2, 2, 3, 5))
        for _ in range(count):
            cells = []
            for column in columns:
                nulls = 0.2 if column.nullable else 0.01
                cell = self.value(column.type, nulls=nulls)
                if column.type in REFUSED and self.chance(0.03):
                    cell = Value(column.type, REFUSED[column.type], cell.is_parameter)
                if column.type in ("int4", "int8") and self.chance(0.04):
                    other = self.rng.choice(self.tables)
                    same = Scope(self.rng, ("q", other)).of(column.type)
                    if same:
                        cell = maybe(
                            f"(SELECT max({self.rng.choice(same)[0]}) FROM {other.name} AS q)",
                            instead=[cell],
                        )  # fmt: skip
                elif column.type in ("int4", "int8", "numeric") and self.chance(0.05):
                    if not cell.is_parameter:  # Its type would be that of the 1.
                        cell = maybe(cell, " + ", _fixed("int4", "1"), instead=[cell])
                cells.append(cell)
            yield ["(", *joined(", ", cells), ")"]

    def source(self, columns):
        """A query that delivers rows for these columns, in a certain order."""
        other = self.rng.choice(self.tables)
        scope = Scope(self.rng, ("s", other))
        items = joined(
            ", ", [[*self.cast(self.expression(c.type, scope), c)] for c in columns]
        )  # fmt: skip
        order = ", ".join(f"s.{n}" for n in other.key)
        where = maybe(" WHERE ", *self.where(other, "s"))
        return ["SELECT ", *items, f" FROM {other.name} AS s", where, f" ORDER BY {order}"]

    def cast(self, pieces, column):
        """A value alone gets the column's type, since it stands in a query."""
        if len(pieces) == 1 and isinstance(pieces[0], Value):
            return ["CAST(", *pieces, f" AS {schemas.SQL_NAMES[column.type]})"]
        return pieces

    def conflict(self, table, name):
        target = self.rng.choice([table.key, *table.uniques])
        listed = f" ({', '.join(target)})"
        roll = self.rng.random()
        if roll < 0.3:
            return maybe(" ON CONFLICT DO NOTHING")
        if roll < 0.45:
            return maybe(f" ON CONFLICT{listed} DO NOTHING")
        scope = Scope(self.rng, (name, table), ("excluded", table))
        assigned = self.assignments(table, scope, ())
        where = ""
        if self.chance(0.3):
            where = maybe(" WHERE ", *self.condition(scope, 1))
        return maybe(f" ON CONFLICT{listed} DO UPDATE SET ", *assigned, where)

    def assignments(self, table, scope, keys):
        """Columns with their new values: of the key only those in `keys`."""
        columns = [c for c in table.columns if c.name not in table.key or c.name in keys]
        columns = columns or list(table.columns)
        chosen = self.rng.sample(columns, min(len(columns), self.rng.choice((1, 1, 2, 3))))
        for name in keys:
            column = table.column(name)
            chosen = [c for c in chosen if c != column] + [column]
        made = []
        for at, column in enumerate(chosen):
            new = self.expression(column.type, scope)
            if column.nullable and self.chance(0.1):
                new = ["NULL"]
            one = [f"{column.name} = ", *new]
            made.append(maybe(*one, ", ") if at < len(chosen) - 1 else one)
        return made

    def update(self):
        table = self.rng.choice(self.tables)
        name, alias = table.name, ""
        if self.chance(0.2):
            name, alias = "x", " AS x"
        keys = (self.rng.choice(table.key),) if self.chance(0.15) else ()
        joins = self.chance(0.2)
        scope, source = Scope(self.rng, (name, table)), ""
        if joins:
            other = self.rng.choice(self.tables)
            scope = Scope(self.rng, (name, table), ("s", other))
            where = self.join(Scope(self.rng, (name, table)), other)
            where = [*where, maybe(" AND ", *self.condition(scope, 1))]
            source = f" FROM {other.name} AS s"
        else:
            where = self.where(table, name)
        assigned = self.assignments(table, scope, keys)
        text = _text(assigned)
        many = any(f"{n} = " in text for n in table.unique_columns())
        condition = [" WHERE ", *where]
        if not joins and self.chance(0.05):
            condition = []
        elif not joins:
            condition = [maybe(*condition)]
        returned = self.returning(table, name)
        if joins and returned and "RETURNING *" in _text([returned]):
            returned = maybe(f" RETURNING {name}.*")
        return statement(
            "UPDATE", f"UPDATE {table.name}{alias} SET ", *assigned, source, *condition, returned,
            many=many,
        )  # fmt: skip

    def join(self, scope, other):
        """At most one row of `s` for each row of the scope: its whole key is given."""
        parts = []
        for name in other.key:
            column = other.column(name)
            same = scope.of(column.type)
            if same and self.chance(0.8):
                parts.append([f"s.{name} = {self.rng.choice(same)[0]}"])
            else:
                parts.append([f"s.{name} = ", self.value(column.type)])
        return joined(" AND ", parts)

    def delete(self):
        table = self.rng.choice(self.tables)
        name, alias = table.name, ""
        if self.chance(0.2):
            name, alias = "x", " AS x"
        using = ""
        if self.chance(0.15):
            other = self.rng.choice(self.tables)
            scope = Scope(self.rng, (name, table), ("s", other))
            where = [*self.join(Scope(self.rng, (name, table)), other),
                     maybe(" AND ", *self.condition(scope, 1))]  # fmt: skip
            using = f" USING {other.name} AS s"
        else:
            where = self.where(table, name)
        returned = self.returning(table, name)
        if using and returned and "RETURNING *" in _text([returned]):
            returned = maybe(f" RETURNING {name}.*")
        if using or not self.chance(0.02):
            where = [" WHERE ", *where]
        else:
            where = []
        return statement("DELETE", f"DELETE FROM {table.name}{alias}", using, *where, returned)

    # Queries.

    def select(self):
        kind = self.rng.random()
        if kind < 0.4:
            return self.select_rows()
        if kind < 0.6:
            return self.select_join()
        if kind < 0.85:
            return self.select_groups()
        return self.select_rows(lock=True)

    def columns(self, scope):
        chosen = self.rng.sample(scope.columns, min(len(scope.columns), self.rng.randrange(1, 4)))
        items = []
        for at, (name, column) in enumerate(chosen):
            made = [name]
            if self.chance(0.15):
                made = self.expression(column.type, scope, columns=True)
            items.append([*made, f" AS c{at}"])
        return joined(", ", items)

    def order(self, table, prefix="", *, whole=True):
        """The columns of an index, then those of the key, all in one direction or in any."""
        names = list(self.rng.choice(self.ways(table)))
        names += [n for n in table.key if n not in names] if whole else []
        if self.chance(0.8):
            way = self.rng.choice(("", " DESC"))
            return ", ".join(f"{prefix}{n}{way}" for n in names)
        ways = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
        return ", ".join(f"{prefix}{n}{self.rng.choice(ways)}" for n in names)

    def select_rows(self, *, lock=False):
        table = self.rng.choice(self.tables)
        scope = Scope(self.rng, (table.name, table), bare=True)
        items = ["*"] if self.chance(0.3) else self.columns(scope)
        where = maybe(" WHERE ", *self.where(table, subqueries=not lock))
        tail, ordered = [], self.chance(0.6)
        if ordered:
            tail.append(f" ORDER BY {self.order(table)}")
            if self.chance(0.6):
                count = str(self.rng.randrange(0, 5))
                count = _fixed("int8", count, self.chance(self.parameters))
                tail.append(maybe(" LIMIT ", count))
                if self.chance(0.3):
                    tail.append(maybe(" OFFSET ", str(self.rng.randrange(0, 3))))
        tail.append(" FOR UPDATE" if lock else "")
        return statement(
            "LOCK" if lock else "SELECT", "SELECT ", *items, f" FROM {table.name}", where, *tail,
            ordered=ordered, is_query=not lock,
        )  # fmt: skip

    def joined_tables(self):
        one, other = self.rng.choice(self.tables), self.rng.choice(self.tables)
        left, right = Scope(self.rng, ("p", one)), Scope(self.rng, ("q", other))
        pairs = [
            (a, b) for a, c in left.columns for b, d in right.columns
            if c.type == d.type and c.type not in schemas.UNORDERED
        ]  # fmt: skip
        on = [f"{' = '.join(self.rng.choice(pairs))}"] if pairs else ["true"]
        scope = Scope(self.rng, ("p", one), ("q", other))
        word = self.rng.choice((" JOIN ", " JOIN ", " LEFT JOIN "))
        if word == " JOIN " and self.chance(0.3):
            on.append(maybe(" AND ", *self.condition(scope, 1)))
        tables = [f"{one.name} AS p{word}{other.name} AS q ON ", *on]
        return tables, scope, one, other, word

    def select_join(self):
        tables, scope, one, other, word = self.joined_tables()
        where = maybe(" WHERE ", *self.where(one, "p"))
        if self.chance(0.3):
            where = maybe(" WHERE ", *self.condition(scope, 1))
        tail, ordered = [], self.chance(0.4)
        if ordered:
            order = f"{self.order(one, 'p.')}, {', '.join(f'q.{n}' for n in other.key)}"
            tail.append(f" ORDER BY {order}")
            tail.append(maybe(" LIMIT ", str(self.rng.randrange(1, 6))))
        return statement(
            "SELECT", "SELECT ", *self.columns(scope), " FROM ", *tables, where, *tail,
            ordered=ordered, is_query=True,
        )  # fmt: skip

    def select_groups(self):
        table = self.rng.choice(self.tables)
        scope, tables = Scope(self.rng, ("p", table)), [f"{table.name} AS p"]
        if self.chance(0.3):
            tables, scope, table, _, _ = self.joined_tables()
        where = maybe(" WHERE ", *self.where(table, "p"))
        items = []
        for at in range(self.rng.randrange(1, 4)):
            name, column = scope.any()
            roll = self.rng.random()
            if roll < 0.3:
                items.append(f"count(*) AS g{at}")
            elif roll < 0.45:
                distinct = "" if column.type in schemas.UNORDERED else "DISTINCT "
                items.append(f"count({self.rng.choice(('', distinct))}{name}) AS g{at}")
            elif roll < 0.65 and column.type in (*NUMBERS, "interval"):
                items.append(f"sum({name}) AS g{at}")
            elif column.type == "bool":
                items.append(f"bool_and({name}) AS g{at}")
            elif column.type in schemas.NO_LEAST:
                items.append(f"count({name}) AS g{at}")
            else:
                items.append(f"{self.rng.choice(('min', 'max'))}({name}) AS g{at}")
        group = []
        name, column = scope.any()
        if self.chance(0.6) and column.type not in schemas.UNORDERED:
            items.insert(0, f"{name} AS k0")
            group = [f" GROUP BY {name}"]
            if self.chance(0.3):
                group.append(maybe(f" HAVING count(*) > {self.rng.randrange(0, 3)}"))
        return statement(
            "SELECT", f"SELECT {', '.join(items)} FROM ", *tables, where, *group, is_query=True,
        )  # fmt: skip

    def wrong(self):
        """A statement that fails whatever the rows are."""
        table = self.rng.choice(self.tables)
        key = table.column(table.key[0])
        word = self.rng.choice((
            f"SELECT nothing AS c0 FROM {table.name}",
            f"UPDATE {table.name} SET nothing = 1",
            f"DELETE FROM {table.name} WHERE nothing IS NULL",
            "SELECT 1 AS c0 FROM no_such_table",
            f"INSERT INTO {table.name} ({key.name}, nothing) VALUES (NULL, NULL)",
            f"SELEC {key.name} FROM {table.name}",
            f"INSERT INTO {table.name} ({key.name}) VALUES (NULL)",
        ))  # fmt: skip
        return Statement("WRONG", (word,))

    def any(self):
        """A statement of any kind, or an earlier one with other values."""
        if self.made and self.chance(0.2):
            return self.rng.choice(self.made).with_values(self.other)
        self.made.append(self.new())
        return self.made[-1]

    def other(self, value):
        if value.is_fixed or value.text is None:
            return value
        nulls = 0.05 if value.is_parameter else 0
        made = schemas.value(self.rng, value.type, nulls=nulls)
        return Value(value.type, made.text, value.is_parameter)

    def new(self):
        kinds = {
            self.insert: 28, self.update: 26, self.delete: 9, self.select: 34, self.wrong: 2
        }  # fmt: skip
        return self.rng.choices(list(kinds), list(kinds.values()))[0]()


def _fixed(type_, text, is_parameter=False):
    return Value(type_, text, is_parameter, True)


def _text(pieces):
    """The texts of pieces with everything in them."""
    texts = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        elif isinstance(piece, Maybe):
            texts.append(_text(piece.pieces))
        elif not isinstance(piece, Value):
            texts.append(_text(piece))
    return "".join(texts)
