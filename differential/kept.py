"""Statements that are kept as tests, with PostgreSQL's answer: `kept.txt`.

An entry is a few lines of SQL, the last of them the statement; then lines that begin with `--`:

    -- types: int4 text            what PostgreSQL calls the columns
    -- row: ["1", null]            each row, in JSON, as the texts that PostgreSQL writes
    -- error: 22003 overflow …     instead of both, where it fails
    -- allow: quotient, -, zero, order
                                   what `compare` allows for, if anything

Empty lines separate entries. A line that begins with `#` is a remark.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from . import answers
from .answers import Answer, Failure
from .compare import compare
from .databases import Atoll, Postgres
from .deliberate import types_allowed
from .tree import BARE_INTEGER, FLOAT_SUM, QUOTIENT, SUM_OF_REAL

FILE = Path(__file__).with_name("kept.txt")
_FLAGS = {"quotient": QUOTIENT, "sum": FLOAT_SUM, "real": SUM_OF_REAL,
          "integer": BARE_INTEGER}  # fmt: skip


@dataclass
class Entry:
    """A kept statement, what comes before it, and the answer that is expected."""

    setup: list
    sql: str
    answer: Answer
    flags: list = field(default_factory=list)
    either_zero: bool = False
    ordered: bool = False
    remark: str = ""

    def difference(self, answer):
        """How an answer differs from the one that is expected, or None."""
        difference = compare(
            self.answer, answer, self.flags, either_zero=self.either_zero, ordered=self.ordered
        )
        return None if difference and types_allowed(difference, self.flags) else difference

    def text(self):
        lines = [f"# {line}" for line in self.remark.splitlines()]
        lines += [f"{statement};" for statement in (*self.setup, self.sql)]
        failure = self.answer.failure
        if failure:
            lines.append(f"-- error: {failure.code} {failure.sort}: {failure.message}")
        else:
            lines.append(f"-- types: {' '.join(self.answer.types)}")
            lines += [f"-- row: {json.dumps(r, ensure_ascii=False)}" for r in self.answer.texts]
            names = [_name(flag) for flag in self.flags]
            extra = ["zero"] * self.either_zero + ["order"] * self.ordered
            if extra or any(name != "-" for name in names):
                lines.append(f"-- allow: {', '.join(names + extra)}")
        return "\n".join(lines) + "\n"


def _name(flags):
    found = [name for name, flag in _FLAGS.items() if flags & flag]
    return "+".join(found) or "-"


def of(setup, statement, answer, remark=""):
    """The entry of a statement's tree."""
    return Entry(
        setup, statement.render(), answer, statement.column_flags(),
        statement.is_one_of_equals(), statement.total_order, remark,
    )  # fmt: skip


def read(text):
    """The entries of a file."""
    return [_entry(block) for block in text.strip().split("\n\n") if ";\n" in block]


def _entry(block):
    sql, types, rows, failure, allowed, remark = [], [], [], None, [], []
    for line in block.splitlines():
        if line.startswith("#"):
            remark.append(line[1:].strip())
        elif line.startswith("-- types: "):
            types = line[10:].split()
        elif line.startswith("-- row: "):
            rows.append(json.loads(line[8:]))
        elif line.startswith("-- error: "):
            code, _, rest = line[10:].partition(" ")
            sort, _, message = rest.partition(": ")
            failure = Failure(sort, code, message)
        elif line.startswith("-- allow: "):
            allowed = line[10:].split(", ")
        else:
            assert line.endswith(";"), f"a line without its semicolon: {line}"
            sql.append(line[:-1])
    flags = [
        sum(_FLAGS[word] for word in name.split("+") if word != "-")
        for name in allowed if name not in ("zero", "order")
    ] or [0] * len(types)  # fmt: skip
    answer = Answer(failure=failure) if failure else answers.of_texts(types, rows)
    return Entry(sql[:-1], sql[-1], answer, flags, "zero" in allowed, "order" in allowed,
                 "\n".join(remark))  # fmt: skip


def check(path, address):
    """Asks both databases for the statements of a file; gives (entry, what is wrong or None)."""
    postgres, atoll = Postgres(address, "kept"), Atoll()
    for entry in read(Path(path).read_text(encoding="utf-8")):
        postgres.load([])
        atoll.load([])
        for statement in entry.setup:
            postgres.must(statement)
            atoll.database.sql(statement)
        theirs, wrong = postgres.answer(entry.sql), None
        if theirs.texts != entry.answer.texts or theirs.failure != entry.answer.failure:
            wrong = "PostgreSQL answers otherwise than is written"
        elif difference := entry.difference(atoll.answer(entry.sql)):
            wrong = f"{difference.what} {difference.detail}".strip()
        yield entry, wrong


def move(path, checked):
    """Moves entries that agree, all others stay in the file."""
    agreed = [entry.text() for entry, wrong in checked if not wrong]
    if agreed and Path(path).resolve() != FILE:
        left = [entry.text() for entry, wrong in checked if wrong]
        with FILE.open("a", encoding="utf-8") as file:
            file.write("".join("\n" + text for text in agreed))
        Path(path).write_text("\n".join(left), encoding="utf-8")
