"""The types of SQL that the statements use, and what the databases call them."""

#: Short name of a type, and how it is written in SQL.
SQL_NAMES = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "numeric": "numeric",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "time": "time",
    "uuid": "uuid",
    "text": "text",
    "bytea": "bytea",
}
INTEGERS = ("int2", "int4", "int8")
#: In the order in which PostgreSQL widens them: the common type of several is the last of them.
NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
FLOATS = ("float4", "float8")
#: Of two, the later one is their common type.
MOMENTS = ("date", "timestamp", "timestamptz")
ALL = tuple(SQL_NAMES)

INTEGER_RANGES = {
    "int2": (-(2**15), 2**15 - 1),
    "int4": (-(2**31), 2**31 - 1),
    "int8": (-(2**63), 2**63 - 1),
}

#: PostgreSQL's numbers of types.
OIDS = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 700: "float4",
    701: "float8", 705: "text", 1042: "text", 1043: "text", 1082: "date", 1083: "time", 1114: "timestamp",
    1184: "timestamptz", 1186: "interval", 1700: "numeric", 2950: "uuid", 114: "json", 3802: "jsonb",
    1007: "int4[]", 1009: "text[]",
}  # fmt: skip

#: Casts that PostgreSQL has, from each type; each type to itself too.
CASTS = {
    "int2": ("int4", "int8", "numeric", "float4", "float8", "text"),
    "int4": ("int2", "int8", "numeric", "float4", "float8", "text", "bool"),
    "int8": ("int2", "int4", "numeric", "float4", "float8", "text"),
    "numeric": ("int2", "int4", "int8", "float4", "float8", "text"),
    "float4": ("int2", "int4", "int8", "numeric", "float8", "text"),
    "float8": ("int2", "int4", "int8", "numeric", "float4", "text"),
    "bool": ("int4", "text"),
    "date": ("timestamp", "timestamptz", "text"),
    "timestamp": ("date", "timestamptz", "time", "text"),
    "timestamptz": ("date", "timestamp", "time", "text"),
    "time": ("text",),
    "uuid": ("text",),
    "text": ALL,
    "bytea": ("text",),
}


def common(types):
    """The type of a CASE, COALESCE, UNION … whose branches have these types, or None."""
    types = set(types)
    if len(types) == 1:
        return types.pop()
    if types <= set(NUMBERS):
        return max(types, key=NUMBERS.index)
    return max(types, key=MOMENTS.index) if types <= set(MOMENTS) else None


def arithmetic(left, right):
    """The type of a sum, difference or product of numbers of two types."""
    if left == right:
        return left
    if {left, right} & set(FLOATS):
        return "float8"
    return max(left, right, key=NUMBERS.index)


def comparable(left, right):
    """Whether values of two types can be compared."""
    return common((left, right)) is not None


def of_arrow(arrow_type):
    """The short name of an Arrow type; the type's own text where there is none."""
    text = str(arrow_type)
    names = {
        "int16": "int2", "int32": "int4", "int64": "int8", "float": "float4", "double": "float8",
        "bool": "bool", "date32[day]": "date", "timestamp[us]": "timestamp",
        "timestamp[us, tz=UTC]": "timestamptz", "time64[us]": "time",
        "month_day_nano_interval": "interval",
    }  # fmt: skip
    if text.startswith("list"):
        return f"{of_arrow(arrow_type.value_type)}[]"
    if text.startswith("decimal"):
        return "numeric"
    if text in ("string", "large_string", "string_view") or text.startswith("dictionary"):
        return "text"
    if text.startswith(("fixed_size_binary[16]", "extension<arrow.uuid")):
        return "uuid"
    if text.startswith(("binary", "large_binary", "fixed_size_binary")):
        return "bytea"
    return names.get(text, text)
