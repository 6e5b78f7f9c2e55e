"""Small tables with keys and indexes of every kind, by seed, for changes and transactions."""

from dataclasses import dataclass, replace

from .pieces import Value

SQL_NAMES = {
    "int2": "smallint", "int4": "int", "int8": "bigint", "numeric": "decimal(8, 2)",
    "text": "text", "bool": "boolean", "date": "date", "varchar": "varchar(8)",
    "bpchar": "char(6)", "timestamptz": "timestamptz", "time": "time", "uuid": "uuid",
    "interval": "interval", "json": "json", "jsonb": "jsonb", "ints": "integer[]",
    "texts": "text[]", "mood": "mood", "small": "small", "word": "word",
}  # fmt: skip
#: Types that a story begins with.
TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN small AS integer CHECK (VALUE < 100)",
    "CREATE DOMAIN word AS varchar(8) DEFAULT 'new' CHECK (VALUE <> 'no')",
)
OWN_TYPES = ("mood", "small", "word")
#: Types without an order, and those of which there is no least value.
UNORDERED = ("json",)
NO_LEAST = ("bool", "uuid", "json", "jsonb")
#: Types of which a change takes no subquery that compares them with its rows.
ALONE = ("json", "jsonb", "interval")
#: Schemas beside `public`.
SCHEMAS = ("s1", "s2")
#: Few values of each type, so that rows meet; those behind the bar are rare.
POOLS = {
    "int2": "0 1 2 3 4 5 | -1 32767 -32768",
    "int4": "0 1 2 3 4 5 6 7 8 9 10 11 | -1 2147483647 -2147483648",
    "int8": "0 1 2 3 4 5 6 7 8 | 5000000000 9223372036854775807",
    "numeric": "0.00 1.00 1.50 2.25 3.00 | -1.25 999999.99",
    "bool": "true false |",
    "date": "2024-01-01 2024-01-02 2024-02-29 | 1969-12-31",
    "varchar": "a b ab B abc | é eight.by 8äöü.xyz",
    "bpchar": "a b ab B abc | é sixsix 6äöü.x",
    "timestamptz": "2024-01-01T00:00:00+00 2024-01-01T12:30:00+00 2024-02-29T00:00:00.5+00 "
    "| 1969-12-31T23:59:59.999999+00",
    "time": "10:00:00 10:00:00.5 12:30:00 | 00:00:00 23:59:59.999999",
    "interval": ("0|1 day|90 minutes|1 month|-1 day|0.5 seconds", "1 year 2 months 3 days 04:05:06"),
    "json": ('{"a": 1}|{"a" : 2, "b": [1, null]}|[1, 2]', 'null|"x"|{"a": 1, "a": 2}'),
    "jsonb": ('{"a": 1}|{"b": [1, null], "a": 2}|[1, 2]|[]', '{"a": {"b": "é"}}|["a", 1.50]'),
    "ints": ("{1}|{1,2}|{2,1}|{}|{1,NULL}", "{2147483647,-2147483648,0}"),
    "texts": ("{a}|{a,b}|{}|{NULL}", '{"a b","{","\\"",NULL}|{é,""}'),
    "mood": ("sad|ok|happy", "sad"),
    "small": ("0|1|2|3|4|5|6|7", "-1|99"),
    "word": ("a|b|ab|B|abc", "é|8äöü.xyz"),
    "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12 "
    "00000000-0000-0000-0000-000000000001 | ffffffff-ffff-ffff-ffff-ffffffffffff",
}
TEXTS = (
    ["a", "b", "c", "ab", "B", "abc"],
    ["", "é", "it's", "exactly 12 by", "a text that is longer than twelve bytes", "b" * 300],
)
#: The columns beside the key that a table may have.
COLUMNS = (
    ("a", "int4"), ("b", "text"), ("c", "numeric"), ("d", "int8"), ("e", "bool"), ("f", "date"),
    ("g", "int2"), ("h", "int4"), ("i", "text"), ("j", "varchar"), ("l", "bpchar"),
    ("m", "timestamptz"), ("n", "time"), ("o", "uuid"),
    ("span", "interval"), ("doc", "json"), ("docb", "jsonb"), ("ints", "ints"), ("tags", "texts"),
    ("feels", "mood"), ("few", "small"), ("said", "word"),
)  # fmt: skip
KEYS = (
    ("int4",), ("int4",), ("int4",), ("int8",), ("text",), ("int4", "int4"), ("text", "int4"),
    ("int2", "int4", "text"), ("date", "int8"), ("numeric",), ("uuid",), ("varchar",),
    ("bpchar", "timestamptz"), ("time", "int4"), ("mood", "int4"), ("small",), ("word", "int2"),
    ("ints", "int4"),
)  # fmt: skip


#: The share of large tables among those that can be.
LARGE = 0.04


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A table: `uniques` are lists of names of columns, `indexes` as well; `rows` are lists of
    `Value`s."""

    name: str
    columns: tuple
    key: tuple
    is_hashed: bool = False
    is_keyless: bool = False
    uniques: tuple = ()
    indexes: tuple = ()
    rows: tuple = ()

    def bare(self):
        """The name without a schema."""
        return self.name.rpartition(".")[2]

    def column(self, name):
        return next(column for column in self.columns if column.name == name)

    def unique_columns(self):
        """The columns in the key or in a unique index."""
        return {name for names in (self.key, *self.uniques) for name in names}

    def _columns(self):
        for column in self.columns:
            is_null = "" if column.nullable else " NOT NULL"
            yield f"{column.name} {SQL_NAMES[column.type]}{is_null}"

    def _key(self):
        # Without a primary key rows are still told apart, so that answers have one order.
        return f"{'UNIQUE' if self.is_keyless else 'PRIMARY KEY'} ({', '.join(self.key)})"

    def for_atoll(self):
        using = " USING HASH" if self.is_hashed and not self.is_keyless else ""
        parts = [*self._columns(), f"{self._key()}{using}"]
        parts += [f"UNIQUE ({', '.join(names)})" for names in self.uniques]
        parts += [
            f"INDEX {self.bare()}_i{at} ({', '.join(names)})" for at, names in enumerate(self.indexes)
        ]
        yield f"CREATE TABLE {self.name} ({', '.join(parts)})"
        yield from self._inserts()

    def for_postgres(self):
        parts = [*self._columns(), self._key()]
        parts += [f"UNIQUE ({', '.join(names)})" for names in self.uniques]
        yield f"CREATE TABLE {self.name} ({', '.join(parts)})"
        for at, names in enumerate(self.indexes):
            yield f"CREATE INDEX {self.bare()}_i{at} ON {self.name} ({', '.join(names)})"
        yield from self._inserts()

    def _inserts(self):
        if self.rows:
            rows = ", ".join(f"({', '.join(v.literal() for v in row)})" for row in self.rows)
            yield f"INSERT INTO {self.name} VALUES {rows}"

    def smaller(self):
        """Tables with less."""
        for at in range(len(self.uniques)):
            yield replace(self, uniques=self.uniques[:at] + self.uniques[at + 1 :])
        for at in range(len(self.indexes)):
            yield replace(self, indexes=self.indexes[:at] + self.indexes[at + 1 :])
        if self.is_keyless:
            yield replace(self, is_keyless=False)
        if self.is_hashed:
            yield replace(self, is_hashed=False)
        step = len(self.rows)
        while step:
            for at in range(0, len(self.rows), step):
                yield replace(self, rows=self.rows[:at] + self.rows[at + step :])
            step //= 2

    def without_column(self, name):
        """The table without a column that is in no key and no index."""
        used = {n for names in (self.key, *self.uniques, *self.indexes) for n in names}
        if name in used or len(self.columns) == 1:
            return None
        at = [column.name for column in self.columns].index(name)
        columns = self.columns[:at] + self.columns[at + 1 :]
        rows = tuple(row[:at] + row[at + 1 :] for row in self.rows)
        return replace(self, columns=columns, rows=rows)


def value(rng, type_, *, nulls=0.0, rare=0.06):
    """A value of a type."""
    if rng.random() < nulls:
        return Value(type_, None)
    if type_ == "text":
        usual, unusual = TEXTS
    elif isinstance(POOLS[type_], tuple):
        usual, unusual = (texts.split("|") for texts in POOLS[type_])
    else:
        usual, _, unusual = POOLS[type_].partition("|")
        usual, unusual = usual.split(), unusual.split()
    pool = unusual if unusual and rng.random() < rare else usual
    return Value(type_, rng.choice(pool))


def can_be_key(type_):
    """Whether an index may have columns of the type in Atoll."""
    return type_ not in ("json", "jsonb")


def make_table(rng, name):
    """A table with rows."""
    types = rng.choice(KEYS)
    key = tuple("k" if len(types) == 1 else f"k{at + 1}" for at in range(len(types)))
    columns = [Column(n, t, False) for n, t in zip(key, types, strict=True)]
    others = sorted(rng.sample(COLUMNS, rng.randrange(2, 6)))
    columns += [Column(n, t, rng.random() < 0.75) for n, t in others]
    if rng.random() < 0.2:
        rng.shuffle(columns)
    names = [n for n, t in others if can_be_key(t)]
    mixed = [*names, *key]
    uniques = [
        tuple(rng.sample(names if size == 1 and names else mixed, min(size, len(mixed))))
        for size in rng.choices((1, 2), k=rng.choice((0, 0, 1, 1, 2)))
    ]
    indexes = [
        tuple(rng.sample(mixed, min(size, len(mixed))))
        for size in rng.choices((1, 2, 3), k=rng.choice((0, 1, 1, 2)))
    ]
    uniques = tuple(u for at, u in enumerate(uniques) if u not in uniques[:at])
    table = Table(
        name, tuple(columns), key, rng.random() < 0.25, rng.random() < 0.15, uniques,
        tuple(i for at, i in enumerate(indexes) if i not in indexes[:at]),
    )  # fmt: skip
    if key == ("k",) and types[0] in ("int4", "int8") and rng.random() < LARGE:
        table = replace(table, uniques=())
        return replace(table, rows=tuple(_many_rows(rng, table)))
    return replace(table, rows=tuple(_rows(rng, table)))


def _many_rows(rng, table):
    """Rows of several segments."""
    for key in range(rng.randrange(1100, 1500)):
        yield tuple(
            Value(c.type, str(key)) if c.name == "k"
            else value(rng, c.type, nulls=0.2 if c.nullable else 0)
            for c in table.columns
        )  # fmt: skip


def _rows(rng, table):
    """Rows that may stand beside each other."""
    rows, taken = [], set()
    for _ in range(rng.randrange(4, 16)):
        row = {
            c.name: value(rng, c.type, nulls=0.2 if c.nullable else 0) for c in table.columns
        }  # fmt: skip
        keys = {
            (names, tuple(row[n].text for n in names))
            for names in (table.key, *table.uniques)
            if all(row[n].text is not None for n in names)
        }
        if not keys & taken:
            taken |= keys
            rows.append(tuple(row[c.name] for c in table.columns))
    return rows


def make(rng):
    """Two or three tables, in some stories in several schemas."""
    uses_schemas = rng.random() < 0.35
    tables = []
    for at in range(rng.choice((2, 2, 3))):
        name = f"t{at + 1}"
        if uses_schemas:
            name = rng.choice(("", "public.", "s1.", "s1.")) + name
        tables.append(make_table(rng, name))
    if uses_schemas and rng.random() < 0.5:
        # One of the same name in another schema.
        bare = tables[0].bare()
        other = "public." if tables[0].name.startswith("s1.") else "s1."
        tables.append(make_table(rng, other + bare))
    return tables
