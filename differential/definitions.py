"""Definitions of tables at work: columns, constraints, indexes, types, views and schemas that come
and go, and the search path.

The generator keeps a model of the tables, so that later statements use the new columns. The model
may be wrong where a definition fails, or is rolled back; then both databases refuse what follows.
"""

from dataclasses import replace

from . import changes, schemas
from .pieces import Statement

#: Names of columns that are added, few so that they meet.
NAMES = ("pp", "qq", "rr", "ss")
#: What a column of a type may become by itself.
WIDER = {
    "int2": ("int4", "int8", "numeric", "text"), "int4": ("int8", "numeric", "int2", "text"),
    "int8": ("int4", "numeric", "text"), "numeric": ("int4", "text"), "varchar": ("text", "bpchar"),
    "bpchar": ("text", "varchar"), "text": ("varchar",), "date": ("timestamptz", "text"),
    "bool": ("text",), "uuid": ("text",), "time": ("text", "interval"), "timestamptz": ("date",),
    "interval": ("text", "time"), "json": ("jsonb", "text"), "jsonb": ("json", "text"),
    "ints": ("texts", "text"), "texts": ("text", "texts"), "mood": ("text", "mood"),
    "small": ("int4", "int8", "text", "numeric"), "word": ("text", "varchar"),
}  # fmt: skip


class Definitions:
    """Makes definitions and changes the tables of a generator of statements."""

    def __init__(self, rng, generator):
        self.rng, self.generator = rng, generator
        generator.tables = list(generator.tables)
        self.count, self.named = 0, set()

    def any(self, is_inside=False):
        """A definition as a statement; `is_inside` a transaction."""
        self.named = set()
        if self.rng.random() < 0.4:
            return self.choose({
                self.types: 2 if is_inside else 4, self.domains: 4, self.views: 4, self.schemas: 3,
                self.path: 3, self.tables: 5, self.sequences: 2,
            })(is_inside)  # fmt: skip
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

    def condition(self, column):
        """A condition of CHECK for a column."""
        own = changes.CONDITIONS.get(column.type)
        if own and (column.type in schemas.UNORDERED or self.rng.random() < 0.5):
            return f"{column.name} IS NULL OR {self.rng.choice(own).format(*[column.name] * 2)}"
        return f"{column.name} IS NULL OR {column.name} <> {self.literal(column.type)}"

    def check(self, table):
        if self.rng.random() < 0.4:
            return f"DROP CONSTRAINT IF EXISTS {self.name('c')}", table
        column = self.column(table)
        return f"ADD CONSTRAINT {self.name('c')} CHECK ({self.condition(column)})", table

    def indexed(self, table):
        """Columns of an index."""
        chosen = [self.column(table) for _ in range(2)]
        can_be = [column.name for column in chosen if schemas.can_be_key(column.type)]
        return tuple(dict.fromkeys(can_be or table.key))

    def unique(self, table):
        if self.rng.random() < 0.4:
            return f"DROP CONSTRAINT IF EXISTS {self.name('u')}", table
        names = self.indexed(table)
        text = f"ADD CONSTRAINT {self.name('u')} UNIQUE ({', '.join(names)})"
        return text, replace(table, uniques=(*table.uniques, names))

    # Other statements.

    def index(self, table):
        if self.rng.random() < 0.3:
            return Statement("DROP INDEX", (f"DROP INDEX IF EXISTS {self.name('x')}",)), table
        names = self.indexed(table)
        unique = "UNIQUE " if self.rng.random() < 0.3 else ""
        text = f"CREATE {unique}INDEX {self.name('x')} ON {table.name} ({', '.join(names)})"
        if unique:
            table = replace(table, uniques=(*table.uniques, names))
        return Statement("CREATE INDEX", (text,)), table

    def truncate(self, table):
        return Statement("TRUNCATE TABLE", (f"TRUNCATE {table.name}",)), table

    # Other objects.

    def prefix(self):
        return self.rng.choice(("", "", "", "s1.", "public.", "s2."))

    def types(self, is_inside):
        """An enum comes, goes, or gets labels. PostgreSQL uses no label of an open transaction."""
        label = self.rng.choice(("angry", "glad", "ok", "so so"))
        texts = [
            "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
            "CREATE TYPE s1.mood AS ENUM ('ok', 'happy', 'angry')",
            f"DROP TYPE {self.prefix()}mood{self.rng.choice(('', ' CASCADE', ' RESTRICT'))}",
            f"ALTER TYPE mood RENAME VALUE 'happy' TO '{label}'",
            f"ALTER TYPE mood RENAME VALUE '{label}' TO 'happy'",
        ]
        if not is_inside:
            place = self.rng.choice(("", " BEFORE 'sad'", " AFTER 'ok'", " AFTER 'none'"))
            maybe = self.rng.choice(("", " IF NOT EXISTS"))
            texts += [f"ALTER TYPE mood ADD VALUE{maybe} '{label}'{place}"] * 4
        return Statement("ALTER TYPE", (self.rng.choice(texts),))

    def domains(self, _):
        name, condition = self.rng.choice((
            ("small", "VALUE <> 5"), ("small", "VALUE >= -10"), ("small", "VALUE < 3"),
            ("word", "VALUE <> 'ab'"), ("word", "length(VALUE) < 20"), ("word", "VALUE > 'a'"),
        ))  # fmt: skip
        default = "7" if name == "small" else "'b'"
        rule = f"r{self.rng.randrange(3)}"
        kept = self.rng.choice(("", " IF EXISTS"))
        text = self.rng.choice((
            f"ALTER DOMAIN {name} ADD CONSTRAINT {rule} CHECK ({condition})",
            f"ALTER DOMAIN {name} ADD CONSTRAINT {rule} CHECK ({condition})",
            f"ALTER DOMAIN {name} DROP CONSTRAINT{kept} {rule}",
            f"ALTER DOMAIN {name} SET DEFAULT {default}", f"ALTER DOMAIN {name} DROP DEFAULT",
            f"ALTER DOMAIN {name} SET NOT NULL", f"ALTER DOMAIN {name} DROP NOT NULL",
            f"DROP DOMAIN{kept} {name}{self.rng.choice(('', ' CASCADE'))}",
            "CREATE DOMAIN small AS bigint DEFAULT 3 CHECK (VALUE < 50)",
            "CREATE DOMAIN word AS text NOT NULL",
        ))  # fmt: skip
        return Statement("ALTER DOMAIN", (text,))

    def views(self, _):
        """A view comes, goes, or is read."""
        name = f"{self.rng.choice(('', '', 's1.'))}v{self.rng.randrange(2)}"
        roll = self.rng.random()
        if roll < 0.15:
            words = self.rng.choice(("", " CASCADE"))
            return Statement("DROP VIEW", (f"DROP VIEW IF EXISTS {name}{words}",))
        if roll < 0.6:
            return Statement("SELECT", (f"SELECT * FROM {name}",), is_query=True)
        table = self.rng.choice(self.generator.tables)
        names = [column.name for column in table.columns]
        some = self.rng.sample(names, min(len(names), self.rng.randrange(1, 4)))
        items = self.rng.choice(("*", ", ".join(some), ", ".join(some)))
        column = self.rng.choice(table.columns)
        where = "" if self.rng.random() < 0.4 else f" WHERE {self.condition(column)}"
        replaces = self.rng.choice(("", " OR REPLACE"))
        text = f"CREATE{replaces} VIEW {name} AS SELECT {items} FROM {table.name}{where}"
        return Statement("CREATE VIEW", (text,))

    def schemas(self, _):
        name, other = self.rng.choice(("s1", "s2")), self.rng.choice(("s1", "s2"))
        text = self.rng.choice((
            f"CREATE SCHEMA {name}", f"CREATE SCHEMA IF NOT EXISTS {name}",
            f"CREATE SCHEMA IF NOT EXISTS {name}", f"DROP SCHEMA {name}",
            f"DROP SCHEMA IF EXISTS {name} CASCADE", f"ALTER SCHEMA {name} RENAME TO {other}",
        ))  # fmt: skip
        return Statement("CREATE SCHEMA", (text,))

    def path(self, is_inside):
        to = self.rng.choice(("s1, public", "s1", "public, s1", "s2, public", "public", "DEFAULT"))
        local = " LOCAL" if is_inside and self.rng.random() < 0.5 else ""
        return Statement("SET", (f"SET{local} search_path = {to}",))

    def sequences(self, _):
        name = f"{self.rng.choice(('', '', 's1.'))}q0"
        text = self.rng.choice((
            f"CREATE SEQUENCE {name} INCREMENT 3 MINVALUE 1 MAXVALUE 20 CYCLE",
            f"DROP SEQUENCE IF EXISTS {name}", f"SELECT nextval('{name}') AS c0",
            f"SELECT nextval('{name}') AS c0", f"SELECT setval('{name}', 10) AS c0",
        ))  # fmt: skip
        return Statement("SEQUENCE", (text,))

    def tables(self, _):
        """A table comes, goes, or gets another name."""
        at = self.rng.randrange(len(self.generator.tables))
        table = self.generator.tables[at]
        roll = self.rng.random()
        if roll < 0.15:
            words = self.rng.choice(("", "", " CASCADE"))
            if len(self.generator.tables) > 1 and self.rng.random() < 0.8:
                del self.generator.tables[at]
            return Statement("DROP TABLE", (f"DROP TABLE {table.name}{words}",))
        if roll < 0.5:
            new = schemas.make_table(self.rng, f"{self.prefix()}t{self.rng.randrange(1, 5)}")
            new = replace(new, rows=(), indexes=())
            if len(self.generator.tables) < 4:
                self.generator.tables.append(new)
            return Statement("CREATE TABLE", (next(new.for_postgres()),))
        if roll < 0.6:
            name = f"{self.prefix()}n{self.rng.randrange(2)}"
            text = self.rng.choice((
                f"CREATE TABLE {name} AS SELECT * FROM {table.name}",
                f"CREATE TABLE {name} (LIKE {table.name} INCLUDING ALL)",
                f"DROP TABLE IF EXISTS {name}",
            ))  # fmt: skip
            return Statement("CREATE TABLE", (text,))
        prefix = table.name[: -len(table.bare())]
        if roll < 0.8:
            bare = f"t{self.rng.randrange(1, 5)}"
            self.generator.tables[at] = replace(table, name=prefix + bare)
            return Statement("ALTER TABLE", (f"ALTER TABLE {table.name} RENAME TO {bare}",))
        schema = self.rng.choice(("s1", "public", "s2"))
        self.generator.tables[at] = replace(table, name=f"{schema}.{table.bare()}")
        return Statement("ALTER TABLE", (f"ALTER TABLE {table.name} SET SCHEMA {schema}",))
