"""Answers of databases, in a form in which they can be compared.

A value is a Python value that equals another only if SQL could not tell them apart: integers,
`Decimal`s (compared by value), texts, bytes; floats as `Float`, whose equality is that of
bits, but for NaN; dates and timestamps as counts of days and microseconds since 1970.
"""

import math
import struct
import uuid
from dataclasses import dataclass, field
from decimal import Decimal

from . import sqltypes

DAY_US = 86_400_000_000
_EPOCH_DAYS = 719_468  # from 0000-03-01


@dataclass
class Failure:
    """An error: what sort of mistake (see `SORTS`), the database's own code, its message."""

    sort: str
    code: str
    message: str


@dataclass
class Answer:
    """Types and rows, or a failure. `texts` are the values as PostgreSQL wrote them, `tag` what
    was done: "UPDATE 2"."""

    types: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    failure: Failure | None = None
    texts: list = field(default_factory=list)
    tag: str = ""


class Float(float):
    """A float that equals another with the same bits; all NaNs are one."""

    def __eq__(self, other):
        return bits(self) == bits(other)

    def __ne__(self, other):
        return bits(self) != bits(other)

    def __hash__(self):
        return hash(bits(self))


def bits(value):
    return b"NaN" if math.isnan(value) else struct.pack("d", value)


def single(value):
    """The nearest float of 32 bits."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def days(year, month, day):
    """Days since 1970-01-01 in the Gregorian calendar, before its time too."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    era, of_era = divmod(year, 400)
    of_year = (153 * month + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _EPOCH_DAYS


def day_of_text(text):
    if text in ("infinity", "-infinity"):
        return text
    before = text.endswith(" BC")
    year, month, day = text.removesuffix(" BC").split("-")
    return days(1 - int(year) if before else int(year), int(month), int(day))


def moment_of_text(text):
    if text in ("infinity", "-infinity"):
        return text
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").split(" ")
    return day_of_text(day + era) * DAY_US + clock_of_text(clock)


def clock_of_text(text):
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    within = (int(hours) * 60 + int(minutes)) * 60 + int(whole)
    return within * 10**6 + int(f"{fraction:0<6}")


def interval_of_text(text):
    """Months, days and microseconds of PostgreSQL's own style."""
    parts = text.split(" ")
    counts = {"year": 0, "mon": 0, "day": 0}
    for count, unit in zip(parts[::2], parts[1::2], strict=False):
        counts[unit.removesuffix("s")] = int(count)
    micros = 0
    if len(parts) % 2:
        clock = parts[-1].lstrip("+-")
        micros = clock_of_text(clock) * (-1 if parts[-1].startswith("-") else 1)
    return (counts["year"] * 12 + counts["mon"], counts["day"], micros)


def array_of_text(read):
    """How to read an array of one dimension, whose elements are read by `read`."""

    def array(text):
        items, item, at, is_quoted = [], "", 1, False
        while text != "{}" and at < len(text):
            letter = text[at]
            if letter == '"':
                at, is_quoted, item = at + 1, True, ""
                while text[at] != '"':
                    at += text[at] == "\\"
                    item += text[at]
                    at += 1
            elif letter in ",}":
                items.append(None if item == "NULL" and not is_quoted else read(item))
                item, is_quoted = "", False
            else:
                item += letter
            at += 1
        return tuple(items)

    return array


#: How to read PostgreSQL's text of a value of each type.
READERS = {
    "int2": int,
    "int4": int,
    "int8": int,
    "numeric": Decimal,
    "float4": lambda text: Float(single(float(text))),
    "float8": lambda text: Float(text),
    "bool": lambda text: text == "t",
    "date": day_of_text,
    "timestamp": moment_of_text,
    # The zone of all sessions is UTC.
    "timestamptz": lambda text: moment_of_text(text.replace("+00", "", 1)),
    "time": clock_of_text,
    "interval": interval_of_text,
    "uuid": uuid.UUID,
    "text": str,
    "bytea": lambda text: bytes.fromhex(text[2:]),
    "int4[]": array_of_text(int),
    "text[]": array_of_text(str),
}


def of_texts(types, texts):
    """PostgreSQL's answer from the texts of its values."""
    readers = [READERS.get(t, str) for t in types]
    rows = [
        tuple(None if v is None else read(v) for read, v in zip(readers, row, strict=True))
        for row in texts
    ]
    return Answer(types=types, rows=rows, texts=texts)


def of_arrow(table):
    """The answer in an Arrow table."""
    import pyarrow

    types = [sqltypes.of_arrow(column.type) for column in table.columns]
    columns = []
    for type_, column in zip(types, table.columns, strict=True):
        if type_ == "date":
            column = column.cast(pyarrow.int32())
        elif str(column.type).startswith("timestamp"):
            column = column.cast(pyarrow.timestamp("us", column.type.tz)).cast(pyarrow.int64())
        elif type_ == "time":
            column = column.cast(pyarrow.int64())
        listed = column.to_pylist()
        if type_ == "uuid":
            listed = [uuid.UUID(bytes=v) if isinstance(v, bytes) else v for v in listed]
        if type_ == "interval":
            listed = [None if v is None else (v[0], v[1], v[2] // 1000) for v in listed]
        if type_.endswith("[]"):
            listed = [None if v is None else tuple(v) for v in listed]
        if type_ in sqltypes.FLOATS:
            listed = [None if v is None else Float(v) for v in listed]
        columns.append(listed)
    rows = list(zip(*columns, strict=True)) if columns else []
    return Answer(types=types, rows=rows)
