"""Stories: tables, and statements one after the other, many of them in transactions.

Both databases play the same story. They must give the same tags, rows and classes of errors, and
after each end of a transaction the same tables. A query outside a transaction also runs on a
snapshot of Atoll's, which must say the same. A story ends with the first difference, since the
tables differ from there on.
"""

import datetime
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from . import changes, errors, schemas
from .answers import Answer
from .databases import AtollSession, Postgres
from .definitions import Definitions
from .pieces import Statement
from .worker import BatchResult, Finding, show

#: Schemes of Atoll; the first is the usual one. Alone, a session sees no difference between them.
SCHEMES = (
    "DL_DETECT", "NO_WAIT", "WAIT_DIE", "TIMESTAMP", "MVCC", "OCC", "HSTORE", "SILO", "TICTOC",
    "ADAPTIVE",
)  # fmt: skip
BEGINS = (
    "BEGIN", "BEGIN", "BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED",
    "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "BEGIN READ ONLY",
)  # fmt: skip
DEFINITIONS = ("ALTER", "CREATE", "DROP", "TRUNCATE", "SET", "SEQUENCE")
CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "ROLLBACK TO", "RELEASE")
#: Statements of a story, about, and of a batch of stories.
LENGTH = 40
BATCH = 25 * LENGTH
TRIES_MAX = 400
#: The share of stories in which tables are altered.
DEFINING = 0.5
#: Values of an index that are looked up at the end of a story.
VALUES_MAX = 12


@dataclass(frozen=True)
class Step:
    """A statement; `insists` says that it is sent although the transaction has failed."""

    statement: Statement
    insists: bool = False


@dataclass(frozen=True)
class Story:
    """`in_folder`: Atoll's database is in a folder, and is opened again at the end."""

    tables: tuple
    steps: tuple
    scheme: str = SCHEMES[0]
    in_folder: bool = False

    def smaller(self):
        """Stories with less, the boldest first."""
        size = len(self.steps) // 2
        while size:
            for at in range(0, len(self.steps), size):
                yield replace(self, steps=self.steps[:at] + self.steps[at + size :])
            size //= 2
        if self.scheme != SCHEMES[0]:
            yield replace(self, scheme=SCHEMES[0])
        if self.in_folder:
            yield replace(self, in_folder=False)
        for at in range(len(self.tables)):
            yield replace(self, tables=self.tables[:at] + self.tables[at + 1 :])
        for at, table in enumerate(self.tables):
            for smaller in table.smaller():
                tables = (*self.tables[:at], smaller, *self.tables[at + 1 :])
                yield replace(self, tables=tables)
        for at, step in enumerate(self.steps):
            for smaller in step.statement.smaller():
                changed = replace(step, statement=smaller)
                yield replace(self, steps=(*self.steps[:at], changed, *self.steps[at + 1 :]))
        for at, table in enumerate(self.tables):
            for column in table.columns:
                smaller = table.without_column(column.name)
                if smaller:
                    tables = (*self.tables[:at], smaller, *self.tables[at + 1 :])
                    yield replace(self, tables=tables)

    def setup(self):
        lines = [] if self.scheme == SCHEMES[0] else [f"-- scheme {self.scheme}"]
        lines += ["-- in a folder"] * self.in_folder
        return lines + [*self.prelude(), *(sql for one in self.tables for sql in one.for_atoll())]

    def prelude(self):
        """Schemas and types that the tables use."""
        yield "CREATE SCHEMA s1"
        yield from schemas.TYPES

    def defines(self):
        """Whether it has definitions."""
        return any(step.statement.verb.startswith(DEFINITIONS) for step in self.steps)


@dataclass
class Difference:
    """What differs at the last statement that was played."""

    what: str
    verb: str
    postgres: Answer
    atoll: Answer
    detail: str = ""
    #: What was played, as texts, and the number of the last step.
    played: list = field(default_factory=list)
    at: int = 0
    statement: Statement | None = None

    def signature(self):
        sides = []
        for answer in (self.postgres, self.atoll):
            sides.append(errors.name(answer.failure) if answer.failure else "fine")
        return f"{self.what}: {self.verb}: PostgreSQL {sides[0]}, Atoll {sides[1]}"


def make(rng):
    """A story of statements alone and of transactions."""
    tables = tuple(schemas.make(rng))
    generator = changes.Generator(rng, tables)
    defines = Definitions(rng, generator) if rng.random() < DEFINING else None
    steps = []
    while len(steps) < LENGTH:
        if defines and rng.random() < 0.7:
            steps += [Step(defines.any()) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.3:
            steps += [Step(generator.any()) for _ in range(rng.randrange(1, 4))]
        else:
            steps += _transaction(rng, generator, defines)
    scheme = SCHEMES[0] if rng.random() < 0.7 else rng.choice(SCHEMES)
    return Story(tables, tuple(steps), scheme, rng.random() < 0.05)


def _transaction(rng, generator, defines):
    begin = rng.choice(BEGINS)
    yield _control("BEGIN", begin)
    names = []
    savepoints = rng.choice((0, 0, 0.15, 0.4))
    for _ in range(rng.randrange(1, 12)):
        if defines and rng.random() < 0.15:
            yield Step(defines.any(is_inside=True))
            continue
        if rng.random() >= savepoints:
            only_reads = begin.endswith("ONLY") and rng.random() < 0.8
            made = generator.select() if only_reads else generator.any()
            yield Step(made, rng.random() < 0.15)
            continue
        roll = rng.random()
        if roll < 0.5 or not names:
            names.append(rng.choice("aab"))
            yield _control("SAVEPOINT", f"SAVEPOINT {names[-1]}")
        else:
            name = rng.choice(names) if rng.random() < 0.95 else "nothing"
            if roll < 0.85:
                yield _control("ROLLBACK TO", f"ROLLBACK TO SAVEPOINT {name}")
            else:
                yield _control("RELEASE", f"RELEASE SAVEPOINT {name}")
    yield _control(*rng.choice((("COMMIT", "COMMIT"),) * 3 + (("ROLLBACK", "ROLLBACK"),)))


def _control(verb, text):
    return Step(Statement(verb, (text,)), True)


class Stage:
    """Both databases, and how they play a story."""

    def __init__(self, address, name):
        self.postgres, self.atoll = Postgres.with_database(address, name), AtollSession()

    def load(self, story):
        self.postgres.empty_database()
        self.atoll.create(story.scheme, story.in_folder)
        for sql in story.prelude():
            self.postgres.must(sql)
            self.atoll.must(sql)
        for table in story.tables:
            for sql in table.for_postgres():
                self.postgres.must(sql)
            for sql in table.for_atoll():
                self.atoll.must(sql)

    def play(self, story, result=None, beat=lambda sql: None):
        """The first difference, or None; counts in `result` what agrees."""
        self.load(story)
        failed, played = False, []
        is_open, has_path = False, False
        for at, step in enumerate(story.steps):
            statement = step.statement
            if failed and not step.insists:
                continue
            sql, values = statement.render()
            beat(sql)
            played.append(statement.text())
            theirs = self.postgres.answer(sql, values)
            ours = self.atoll.answer(sql, values)
            what, detail = compare(statement, theirs, ours)
            has_path |= statement.verb == "SET"
            is_frozen = statement.is_query and not is_open and not has_path
            if not what and is_frozen and not ours.failure:
                frozen = self.atoll.on_snapshot(sql, values)
                what, _ = compare(statement, theirs, frozen)
                what, ours = (f"snapshot {what}", frozen) if what else (what, ours)
            if what:
                self.postgres.answer("ROLLBACK")
                return Difference(
                    what, statement.verb, theirs, ours, detail, played, at, statement
                )
            if result:
                _count(result, statement, theirs, ours)
            if theirs.failure and is_open:
                failed = True
            elif statement.verb in ("ROLLBACK TO", "COMMIT", "ROLLBACK"):
                failed = False
            if statement.verb == "BEGIN":
                is_open = True
            elif statement.verb in ("COMMIT", "ROLLBACK"):
                is_open = False
            if not is_open and statement.verb not in ("SELECT", "LOCK"):
                different = self.tables_differ(story, statement.verb)
                if different:
                    different.played, different.at = played, at
                    return different
        return self._end(story, played)

    def _end(self, story, played):
        self.postgres.answer("ROLLBACK")
        self.atoll.answer("ROLLBACK")
        different = self.tables_differ(story, "end") or self.indexes_differ(story)
        if not different and story.in_folder:
            self.atoll.reopen(story.scheme)
            different = self.tables_differ(story, "reopen") or self.indexes_differ(story)
        if different:
            different.played, different.at = played, len(story.steps)
        return different

    def tables_differ(self, story, verb):
        if story.defines():
            names = [f'{schema}."{name}"' for schema, name in self.postgres.tables()]
        else:
            names = [f"{'' if '.' in one.name else 'public.'}{one.name}" for one in story.tables]
        for name in names:
            sql = f"SELECT * FROM {name}"
            theirs, ours = self.postgres.answer(sql), self.atoll.on_snapshot(sql)
            if ours.failure or Counter(theirs.rows) != Counter(ours.rows):
                return Difference("table", verb, theirs, ours, name)
        return None

    def indexes_differ(self, story):
        """Compares what each index finds with what the table has."""
        if story.defines():
            return None  # They may have other columns now.
        for table in story.tables:
            whole = self.atoll.on_snapshot(f"SELECT * FROM {table.name}").rows
            names = [column.name for column in table.columns]
            for way in {table.key, *table.uniques, *table.indexes}:
                at = names.index(way[0])
                type_ = table.column(way[0]).type
                if type_ in ("interval", "ints", "texts", "mood"):
                    continue  # Python has another order.
                values = {row[at]: None for row in whole if row[at] is not None}
                for value in list(values)[:VALUES_MAX]:
                    literal = _literal(type_, value)
                    for condition in (f"= {literal}", f">= {literal}"):
                        sql = f"SELECT * FROM {table.name} WHERE {way[0]} {condition}"
                        ours = self.atoll.answer(sql)
                        wanted = [
                            row for row in whole if row[at] == value
                            or row[at] is not None and condition[0] == ">"
                            and _sortable(row[at]) > _sortable(value)
                        ]  # fmt: skip
                        if ours.failure or Counter(ours.rows) != Counter(wanted):
                            theirs = Answer(ours.types, wanted)
                            return Difference("index", "end", theirs, ours, f"{way}: {sql}")
        return None


def _sortable(value):
    return value.encode() if isinstance(value, str) else value


def _literal(type_, value):
    if type_ == "date":
        return f"'{datetime.date(1970, 1, 1) + datetime.timedelta(value)}'"
    if type_ == "timestamptz":
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return f"'{epoch + datetime.timedelta(microseconds=value)}'"
    if type_ == "time":
        return f"'{datetime.timedelta(microseconds=value)}'"
    if type_ == "uuid":
        return f"'{value}'"
    if type_ in ("text", "varchar", "bpchar", "word"):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower()


def compare(statement, theirs, ours):
    """What differs, and a detail; two empty texts if nothing. Where both fail, the classes of their
    errors are only counted: of several mistakes either may be found first."""
    if ours.failure and ours.failure.sort == "crash":
        return "crash", ours.failure.message
    if theirs.failure or ours.failure:
        if theirs.failure and ours.failure:
            return "", ""
        return ("PostgreSQL fails", "") if theirs.failure else ("Atoll fails", "")
    if theirs.tag != ours.tag and statement.verb != "BEGIN":
        return "tag", f"{theirs.tag}, not {ours.tag}"
    same = theirs.rows == ours.rows if statement.ordered else (
        Counter(theirs.rows) == Counter(ours.rows)
    )  # fmt: skip
    return ("", "") if same else ("rows", "")


def deliberate(difference):
    """The name of a difference on purpose, or None."""
    statement = difference.statement
    if statement is None:
        return None
    sides = [
        difference.postgres.failure and errors.name(difference.postgres.failure),
        difference.atoll.failure and errors.name(difference.atoll.failure),
    ]
    if statement.many and set(sides) == {None, "duplicate"}:
        fine = difference.atoll if difference.postgres.failure else difference.postgres
        rows = int(fine.tag.rpartition(" ")[2])
        return "order-of-rows" if rows > 1 else None
    theirs = difference.postgres.failure
    if theirs and theirs.code == "42804" and "is of type text" in theirs.message:
        # It has no type from its place, as an argument of coalesce among others.
        return "parameter-types" if statement.render()[1] else None
    if theirs and theirs.code == "22P02":
        # The text of a parameter that has another type than its place.
        values = statement.render()[1]
        is_value = any(theirs.message.endswith(f'"{value.text}"') for value in values)
        return "parameter-types" if is_value else None
    return None


def _count(result, statement, theirs, ours):
    if not theirs.failure:
        rows = theirs.tag.rpartition(" ")[2]
        result.counts[f"{statement.verb}{' of no row' if rows == '0' else ''}"] += 1
        return
    pair = (errors.name(theirs.failure), errors.name(ours.failure))
    if pair[0] == pair[1]:
        result.counts[f"both fail: {pair[0]}"] += 1
        return
    result.counts[f"both fail: {pair[0]} / {pair[1]}"] += 1
    example = (statement.text(), theirs.failure.message, ours.failure.message)
    if len(example[0]) < len(result.pairs.get(pair, example)[0]) or pair not in result.pairs:
        result.pairs[pair] = example


def minimise(story, stage, signature, beat):
    """The smallest story found that differs in the same way."""

    def still(smaller):
        try:
            difference = stage.play(smaller, beat=beat)
        except RuntimeError:  # The tables cannot stand like this.
            return None
        return difference if difference and difference.signature() == signature else None

    difference = still(story)
    if difference:  # Not what comes behind it.
        story = replace(story, steps=story.steps[: difference.at + 1])
    found, tries, progress = difference, 0, True
    while progress and tries < TRIES_MAX:
        progress = False
        for smaller in story.smaller():
            tries += 1
            difference = still(smaller)
            if difference:
                story, found, progress = smaller, difference, True
                break
            if tries >= TRIES_MAX:
                break
    return story, found


class Worker:
    """Plays batches of stories; the seed and the number of a batch say what they are."""

    def __init__(self, address, number, options, beat):
        self.options, self.beat = options, beat
        self.stage = Stage(address, f"stories{number}")
        self.seen = Counter()

    def run(self, batch, count):
        result = BatchResult(batch, Counter(), [])
        for number in range(max(1, count // LENGTH)):
            story = make(random.Random(f"story {self.options.seed} {batch} {number}"))
            difference = self.stage.play(
                story, result, lambda sql: self.beat(batch, sql)
            )  # fmt: skip
            if difference:
                self._differs(story, difference, result)
        return result

    def _differs(self, story, difference, result):
        if not result.wants(deliberate(difference), difference, self.seen, self.options.each):
            return
        signature = difference.signature()
        original = difference.played[-1]
        if self.options.minimise:
            story, found = minimise(story, self.stage, signature, lambda sql: self.beat(-1, sql))
            difference = found or difference
        detail = [f"-- {difference.detail}"] if difference.detail else []
        theirs, ours = (
            answer.tag or show(answer) if not answer.types else show(answer)
            for answer in (difference.postgres, difference.atoll)
        )
        result.findings.append(Finding(
            difference.played[-1], original, signature, theirs, ours, "", "", result.batch,
            [*story.setup(), *detail, *difference.played[:-1]],
        ))  # fmt: skip
