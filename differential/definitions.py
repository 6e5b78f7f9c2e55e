"""Definitions of tables at work: columns, constraints and indexes that come and go.

The generator keeps a model of the tables, so that later statements use the new columns. The model
may be wrong where a definition fails, or is rolled back; then both databases refuse what follows.
"""

from dataclasses import replace

from . import schemas
from .pieces import Statement

#: Names of columns that are added, few so that they meet.
NAMES = ("pp", "qq", "rr", "ss")
#: What a column of a type may become by itself.
WIDER = {
    "int2": ("int4", "int8", "numeric", "text"), "int4": ("int8", "numeric", "int2", "text"),
    "int8": ("int4", "numeric", "text"), "numeric": ("int4", "text"), "varchar": ("text", "bpchar"),
    "bpchar": ("text", "varchar"), "text": ("varchar",), "date": ("timestamptz", "text"),
    "bool": ("text",), "uuid": ("text",), "time": ("text",), "timestamptz": ("date",),
}  # fmt: skip


class Definitions:
    """Makes definitions and changes the tables of a generator of statements."""

    def __init__(self, rng, generator):
        self.rng, self.generator = rng, generator
        generator.tables = list(generator.tables)
        self.count, self.named = 0, set()

    def any(self):
        """A definition as a statement."""
        self.named = set()
        at = self.rng.randrange(len(self.generator.tables))
        table = self.generator.tables[at]
        alone = {self.index: 3, self.truncate: 1}
        parts = {
            self.add: 5, self.drop: 2, self.rename: 3, self.retype: 4, self.default: 3,
            self.nullable: 3, self.check: 2, self.unique: 2,
        }  # fmt: skip
        if self.rng.random() < 0.2:
            made, new = self.choose(alone)(table)
            self.generator.tables[at] = new
            return made
        texts, before = [], table
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            # PostgreSQL has an order of its own for the parts, so each has a column of its own.
            if {one.name for one in table.columns} != {one.name for one in before.columns}:
                break
            # A column can be renamed by itself only.
            make = self.choose({p: w for p, w in parts.items() if not texts or p != self.rename})
            text, table = make(table)
            texts.append(text)
            if make == self.rename:
                break
        self.generator.tables[at] = table
        return Statement("ALTER TABLE", (f"ALTER TABLE {table.name} {', '.join(texts)}",))

    def choose(self, weights):
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def column(self, table, of_key=0.1):
        """A column that the statement has not named, if there is one; seldom one of the key."""
        free = [column for column in table.columns if column.name not in self.named]
        others = [column for column in free if column.name not in table.key]
        if not others or self.rng.random() < of_key:
            others = free or table.columns
        column = self.rng.choice(others)
        self.named.add(column.name)
        return column

    def literal(self, type_):
        return schemas.value(self.rng, type_, nulls=0.1).literal()

    def name(self, what):
        self.count += 1
        return f"{what}{self.rng.randrange(self.count + 1)}"

    # Parts of ALTER TABLE.

    def add(self, table):
        name, type_ = self.rng.choice(NAMES), self.rng.choice(list(schemas.SQL_NAMES))
        text = f"ADD COLUMN {name} {schemas.SQL_NAMES[type_]}"
        if self.rng.random() < 0.6:
            text += f" DEFAULT {self.literal(type_)}"
        is_null = self.rng.random() < 0.8
        column = schemas.Column(name, type_, is_null)
        if name in (one.name for one in table.columns):
            return text, table
        return text + ("" if is_null else " NOT NULL"), replace(
            table, columns=(*table.columns, column)
        )  # fmt: skip

    def drop(self, table):
        column = self.column(table, 0)
        if column.name in table.key:
            return f"ALTER {column.name} DROP DEFAULT", table
        columns = tuple(one for one in table.columns if one != column)
        keep = lambda ways: tuple(names for names in ways if column.name not in names)  # noqa: E731
        return f"DROP COLUMN {column.name}", replace(
            table, columns=columns, uniques=keep(table.uniques), indexes=keep(table.indexes)
        )  # fmt: skip

    def rename(self, table):
        column, name = self.column(table), self.rng.choice(NAMES)
        text = f"RENAME COLUMN {column.name} TO {name}"
        if name in (one.name for one in table.columns):
            return text, table
        new = lambda names: tuple(name if one == column.name else one for one in names)  # noqa: E731
        return text, replace(
            table, key=new(table.key), uniques=tuple(map(new, table.uniques)),
            indexes=tuple(map(new, table.indexes)),
            columns=tuple(
                replace(one, name=name) if one == column else one for one in table.columns
            ),
        )  # fmt: skip

    def retype(self, table):
        column = self.column(table)
        type_ = self.rng.choice(WIDER[column.type])
        columns = tuple(
            replace(one, type=type_) if one == column else one for one in table.columns
        )  # fmt: skip
        text = f"ALTER COLUMN {column.name} TYPE {schemas.SQL_NAMES[type_]}"
        return text, replace(table, columns=columns)

    def default(self, table):
        column = self.column(table)
        if self.rng.random() < 0.3:
            return f"ALTER {column.name} DROP DEFAULT", table
        return f"ALTER {column.name} SET DEFAULT {self.literal(column.type)}", table

    def nullable(self, table):
        column = self.column(table)
        is_null = self.rng.random() < 0.5
        columns = tuple(
            replace(one, nullable=is_null) if one == column else one for one in table.columns
        )  # fmt: skip
        text = f"ALTER {column.name} {'DROP' if is_null else 'SET'} NOT NULL"
        return text, replace(table, columns=columns) if column.name not in table.key else table

    def check(self, table):
        if self.rng.random() < 0.4:
            return f"DROP CONSTRAINT IF EXISTS {self.name('c')}", table
        column = self.column(table)
        condition = f"{column.name} IS NULL OR {column.name} <> {self.literal(column.type)}"
        return f"ADD CONSTRAINT {self.name('c')} CHECK ({condition})", table

    def unique(self, table):
        if self.rng.random() < 0.4:
            return f"DROP CONSTRAINT IF EXISTS {self.name('u')}", table
        names = tuple(dict.fromkeys(self.column(table).name for _ in range(2)))
        text = f"ADD CONSTRAINT {self.name('u')} UNIQUE ({', '.join(names)})"
        return text, replace(table, uniques=(*table.uniques, names))

    # Other statements.

    def index(self, table):
        if self.rng.random() < 0.3:
            return Statement("DROP INDEX", (f"DROP INDEX IF EXISTS {self.name('x')}",)), table
        names = tuple(dict.fromkeys(self.column(table).name for _ in range(2)))
        unique = "UNIQUE " if self.rng.random() < 0.3 else ""
        text = f"CREATE {unique}INDEX {self.name('x')} ON {table.name} ({', '.join(names)})"
        if unique:
            table = replace(table, uniques=(*table.uniques, names))
        return Statement("CREATE INDEX", (text,)), table

    def truncate(self, table):
        return Statement("TRUNCATE TABLE", (f"TRUNCATE {table.name}",)), table
