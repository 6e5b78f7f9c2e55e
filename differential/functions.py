"""Makes calls of functions, and what is compared by patterns and by rows.

Letters beyond ASCII are neither raised nor lowered here: PostgreSQL's "C" locale leaves them. Floats
are left out where the last digit depends on the C library.
"""

from . import expressions, values
from .tree import FALLIBLE, Expr

#: `{}` and the types of what stands there; an int is a small literal of this choice.
COUNTS = (0, 1, 2, 3, 5, -1, -2, 40)
CALLS = {
    "text": [
        ("left({}, {})", "text", COUNTS), ("right({}, {})", "text", COUNTS),
        ("lpad({}, {}, {})", "text", COUNTS, "text"), ("rpad({}, {}, {})", "text", COUNTS, "text"),
        ("replace({}, {}, {})", "text", "text", "text"), ("reverse({})", "text"),
        ("repeat({}, {})", "text", (0, 1, 2, -1)),
        ("translate({}, {}, {})", "text", "text", "text"),
        ("split_part({}, {}, {})", "text", "text", (1, 2, 3, -1)),
        ("substring({} FROM {} FOR {})", "text", COUNTS, (0, 1, 2, 3, 100)),
        ("overlay({} PLACING {} FROM {})", "text", "text", (1, 2, 3, 100)),
        ("btrim({}, {})", "text", "text"), ("ltrim({}, {})", "text", "text"),
        ("rtrim({}, {})", "text", "text"), ("concat({}, {}, {})", "text", "int4", "bool"),
        ("concat_ws({}, {}, {})", "text", "date", "text"), ("md5({})", "text"),
        ("md5({})", "bytea"), ("quote_literal({})", "text"), ("quote_nullable({})", "text"),
        ("quote_ident({})", "text"), ("to_hex({})", "int4"), ("to_hex({})", "int8"),
        ("encode({}, 'hex')", "bytea"), ("encode({}, 'base64')", "bytea"),
        ("encode({}, 'escape')", "bytea"),
        ("format('%s|%L|%-5s', {}, {}, {})", "text", "text", "bool"),
        ("regexp_replace({}, '[ab]+', {}, 'g')", "text", "text"),
        ("regexp_substr({}, 'b.')", "text"), ("substring({} FROM 'a(.)')", "text"),
        ("to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')", "timestamp"),
        ("to_char({}, 'FMDay DDth FMMonth IYYY-IW-ID Q CC J')", "timestamp"),
        ("to_char({}, 'Dy Mon HH12 AM DDD WW W')", "date"), ("to_char({}, 'S999,999')", "int4"),
        ("to_char({}, 'FM0009MI')", "int2"), ("like_escape({}, '#')", "text"),
    ],
    "bool": [
        ("({} SIMILAR TO '(a|b)*[0-9_%]?')", "text"), ("({} SIMILAR TO '%(b|é){{1,2}}%')", "text"),
        ("({} LIKE 'a#%%' ESCAPE '#')", "text"), ("({} NOT LIKE '%!_%' ESCAPE '!')", "text"),
        ("({} ~ '^[ab]+')", "text"), ("({} !~ 'b$')", "text"),
        ("starts_with({}, {})", "text", "text"),
        ("(({}, {}) < ({}, {}))", "int4", "text", "int4", "text"),
        ("(({}, {}) >= ({}, {}))", "date", "int4", "date", "int8"),
        ("(({}, {}) = ({}, {}))", "int4", "bool", "int4", "bool"),
        ("(({}, {}) <> ({}, {}))", "text", "int4", "text", "int4"),
        ("(({}, {}) IN ((1, 2), ({}, {})))", "int4", "int4", "int4", "int4"),
        ("(({}, {}) IS NULL)", "int4", "text"), ("(({}, {}) IS NOT NULL)", "int4", "text"),
        ("(({}, {}) IS DISTINCT FROM ({}, {}))", "int4", "text", "int4", "text"),
        ("(({}, {}) OVERLAPS ({}, {}))", "date", "date", "timestamp", "timestamp"),
    ],
    "int4": [
        ("length({})", "text"), ("octet_length({})", "text"), ("octet_length({})", "bytea"),
        ("strpos({}, {})", "text", "text"), ("position({} IN {})", "bytea", "bytea"),
        ("ascii({})", "text"), ("regexp_count({}, '[ab]')", "text"),
        ("regexp_instr({}, 'b')", "text"), ("({} & {})", "int4", "int4"),
        ("({} | {})", "int2", "int4"), ("({} # {})", "int4", "int4"),
    ],
    "int8": [("({} & {})", "int8", "int4"), ("({} # {})", "int8", "int8")],
    "float8": [
        ("sign({})", "float8"), ("trunc({})", "float8"), ("floor({})", "float8"),
        ("ceil({})", "float8"), ("round({})", "float8"), ("date_part('year', {})", "timestamp"),
        ("date_part('second', {})", "timestamp"), ("date_part('dow', {})", "date"),
        ("date_part('epoch', {})", "timestamp"),
    ],
    "bytea": [
        ("substring({} FROM {})", "bytea", COUNTS), ("decode(md5({}), 'hex')", "text"),
        ("overlay({} PLACING {} FROM {})", "bytea", "bytea", (1, 2, 100)),
        ("convert_to({}, 'UTF8')", "text"), ("sha256({})", "bytea"),
    ],
    "timestamp": [
        ("date_trunc('month', {})", "timestamp"), ("date_trunc('week', {})", "timestamp"),
        ("date_trunc('hour', {})", "timestamp"),
    ],
    "date": [("to_date(to_char({}, 'YYYYMMDD'), 'YYYYMMDD')", "date")],
}  # fmt: skip
#: The same of calls that fail for some values.
FALLIBLE_CALLS = {
    "int2": [("mod({}, {})", "int2", "int2")],
    "int4": [("mod({}, {})", "int4", "int2"), ("gcd({}, {})", "int4", "int4"),
             ("lcm({}, {})", "int4", "int2"), ("get_byte({}, 0)", "bytea")],
    "int8": [("mod({}, {})", "int8", "int4"), ("lcm({}, {})", "int8", "int4")],
    "text": [("chr({})", "int2")],
    "float8": [("sqrt({})", "float8")],
    "date": [("make_date({}, {}, {})", (2020, 2021, -4, 0), (1, 2, 12, 13), (1, 29, 31))],
    "timestamp": [("make_timestamp({}, 2, {}, 23, 59, {})", (2020, 2021), (1, 29), (0, 59, 60))],
}  # fmt: skip
#: Fields of moments, with the digits behind the point of each.
FIELDS = {"year": 0, "month": 0, "day": 0, "hour": 0, "minute": 0, "second": 6, "milliseconds": 3,
          "microseconds": 0, "epoch": 6, "dow": 0, "isodow": 0, "doy": 0, "week": 0, "isoyear": 0,
          "quarter": 0, "decade": 0, "century": 0, "millennium": 0}  # fmt: skip


def make(scope, type_, depth, _loose):
    rng = scope.rng
    if type_ == "numeric":
        field, scale = rng.choice(list(FIELDS.items()))
        moment = expressions.generate(scope, "timestamp", depth)
        return Expr("numeric", f"extract({field} FROM {{}})", [moment], scale=scale)
    calls, own = CALLS.get(type_, ()), 0
    if scope.fallible and (not calls or rng.random() < 0.15):
        calls, own = FALLIBLE_CALLS.get(type_, calls), FALLIBLE
    if not calls:
        return None
    form, *wanted = rng.choice(calls)
    parts = [_part(scope, one, depth) for one in wanted]
    return Expr(type_, form, expressions.operands(rng, *parts), own=own)


def _part(scope, wanted, depth):
    if isinstance(wanted, tuple):
        number = scope.rng.choice(wanted)
        return Expr("int4", f"({number})" if number < 0 else str(number), shape="literal")
    if wanted == "text" and scope.rng.random() < 0.3:
        text = scope.rng.choice(values.TEXTS)
        return Expr("text", f"CAST({values.quote(text)} AS text)", shape="literal")
    return expressions.generate(scope, wanted, min(depth, 1))
