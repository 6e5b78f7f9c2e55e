"""Statements as pieces of text, of which some can be left away and values can be parameters.

A piece is a text, a `Value`, a `Maybe`, or a list of pieces. `Statement.smaller` proposes statements
with one `Maybe` replaced by what may stand instead, so a generator says where it can be made
smaller, and nothing has to be parsed.
"""

import datetime
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal

from .values import quote

#: Python's values for parameters, from the texts of values.
PYTHON = {
    "int2": int, "int4": int, "int8": int, "numeric": Decimal, "text": str,
    "bool": lambda text: text == "true", "date": datetime.date.fromisoformat,
    "varchar": str, "bpchar": str, "timestamptz": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat, "uuid": uuid.UUID, "interval": str, "json": str,
    "jsonb": str, "ints": str, "texts": str, "mood": str, "small": int, "word": str,
}  # fmt: skip
_BARE = ("int2", "int4", "int8", "numeric", "bool", "small")


@dataclass(frozen=True)
class Value:
    """A value of a type by its text, None for NULL; written out, or a parameter. One that is
    `fixed` says what the statement is: it stays when the statement runs with other values."""

    type: str
    text: str | None
    is_parameter: bool = False
    is_fixed: bool = False

    def literal(self):
        if self.text is None:
            return "NULL"
        return self.text if self.type in _BARE else quote(self.text)

    def python(self):
        return None if self.text is None else PYTHON[self.type](self.text)


@dataclass(frozen=True)
class Maybe:
    """Pieces in whose place others may stand, or nothing."""

    pieces: tuple
    instead: tuple = ()


def maybe(*pieces, instead=()):
    return Maybe(pieces, tuple(instead))


@dataclass(frozen=True)
class Statement:
    """A statement. `verb` is what it does; `ordered`, whether the order of its rows is certain;
    `many`, whether it may change a unique column of several rows, one after the other."""

    verb: str
    pieces: tuple
    ordered: bool = False
    many: bool = False
    is_query: bool = False

    def render(self):
        """Its text and the values of its parameters `$1`, `$2`, …"""
        texts, values = [], []
        _render(self.pieces, texts, values)
        return "".join(texts), values

    def text(self):
        """Its text, with the parameters in a remark, to be read."""
        sql, values = self.render()
        if not values:
            return sql
        return f"{sql}  -- {', '.join(value.literal() for value in values)}"

    def smaller(self):
        plain = self.with_values(lambda value: replace(value, is_parameter=False))
        if plain != self:
            yield plain
        for pieces in _smaller(self.pieces):
            yield replace(self, pieces=pieces)

    def with_values(self, change):
        """The statement with `change(value)` in place of each value."""
        return replace(self, pieces=_changed(self.pieces, change))


def statement(verb, *pieces, **options):
    return Statement(verb, pieces, **options)


def joined(separator, lists):
    """The lists of pieces with a text between them."""
    pieces = []
    for at, one in enumerate(lists):
        pieces += [separator] * (at > 0) + [one]
    return pieces


def _render(pieces, texts, values):
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        elif isinstance(piece, Value):
            if piece.is_parameter:
                values.append(piece)
                texts.append(f"${len(values)}")
            else:
                texts.append(piece.literal())
        else:
            _render(piece.pieces if isinstance(piece, Maybe) else piece, texts, values)


def _changed(pieces, change):
    def changed(piece):
        if isinstance(piece, Value):
            return change(piece)
        if isinstance(piece, Maybe):
            return Maybe(_changed(piece.pieces, change), _changed(piece.instead, change))
        return piece if isinstance(piece, str) else list(_changed(piece, change))

    return tuple(changed(piece) for piece in pieces)


def _smaller(pieces):
    for at, piece in enumerate(pieces):
        before, behind = tuple(pieces[:at]), tuple(pieces[at + 1 :])
        if isinstance(piece, Maybe):
            yield before + piece.instead + behind
            for inner in _smaller(piece.pieces):
                yield (*before, Maybe(inner, piece.instead), *behind)
        elif isinstance(piece, list | tuple):
            for inner in _smaller(piece):
                yield (*before, list(inner), *behind)
