"""Small tables with every type, by seed. They are written as SQL, the same for every database."""

from dataclasses import dataclass

from . import values
from .sqltypes import SQL_NAMES


@dataclass(frozen=True)
class Column:
    """A column. `tame` are numbers whose sums are exact in any order."""

    name: str
    type: str
    sql: str
    scale: int = 0
    tame: bool = False


def _plain(name, type_, **options):
    return Column(name, type_, SQL_NAMES[type_], **options)


#: The columns of every table. `k` has few values, for groups and joins; `s` has texts that
#: may stand for numbers; `x` and `x4` have floats whose sums are exact.
COLUMNS = (
    Column("id", "int4", "int PRIMARY KEY"),
    _plain("k", "int4", tame=True),
    _plain("i2", "int2"),
    _plain("i4", "int4"),
    _plain("i8", "int8"),
    _plain("f4", "float4"),
    _plain("f8", "float8"),
    _plain("x4", "float4", tame=True),
    _plain("x", "float8", tame=True),
    _plain("b", "bool"),
    _plain("d", "date"),
    _plain("ts", "timestamp"),
    _plain("tz", "timestamptz"),
    _plain("c", "time"),
    _plain("u", "uuid"),
    Column("n2", "numeric", "decimal(9, 2)", 2),
    Column("n10", "numeric", "decimal(38, 10)", 10),
    Column("n0", "numeric", "decimal(38, 0)", 0),
    _plain("t", "text"),
    _plain("s", "text"),
    Column("v", "text", "varchar(30)"),
    _plain("y", "bytea"),
)


@dataclass
class Table:
    """A table: its columns, and rows of texts (None is NULL) in their order."""

    name: str
    columns: list
    rows: list

    def statements(self):
        columns = ", ".join(f"{column.name} {column.sql}" for column in self.columns)
        yield f"CREATE TABLE {self.name} ({columns})"
        if self.rows:
            rows = ", ".join(
                "(" + ", ".join("NULL" if v is None else values.quote(v) for v in row) + ")"
                for row in self.rows
            )
            yield f"INSERT INTO {self.name} VALUES {rows}"

    def only(self, names, rows):
        """The table with some of its columns and rows."""
        at = [i for i, column in enumerate(self.columns) if column.name in names]
        return Table(
            self.name, [self.columns[i] for i in at], [[row[i] for i in at] for row in rows]
        )


def _value(rng, column, row, nulls):
    if column.name == "id":
        return str(row)
    if rng.random() < nulls:
        return None
    if column.name == "k":
        return str(rng.randrange(5))
    if column.tame:
        if rng.random() < 0.04:
            return rng.choice(("NaN", "Infinity", "-Infinity"))
        return str(rng.randrange(-40, 41) / 4)
    if column.name == "s":
        return rng.choice(values.NUMBER_TEXTS)
    return values.random_text(rng, column.type, column.scale)


def make(rng):
    """A few tables: one of middling size, one small, one that may be empty."""
    tables = []
    for name, most in (("t1", 24), ("t2", 9), ("t3", 3)):
        count = rng.randrange(most // 2, most + 1) if name != "t3" else rng.randrange(most + 1)
        nulls = rng.choice((0.05, 0.15, 0.3))
        rows = range(1, count + 1)
        rows = [[_value(rng, column, row, nulls) for column in COLUMNS] for row in rows]
        tables.append(Table(name, list(COLUMNS), rows))
    return tables
