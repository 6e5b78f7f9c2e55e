"""The parts of the comparison of changes and sessions that need no PostgreSQL."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from differential import answers, changes, interleavings, schemas, serial, stories  # noqa: E402
from differential.answers import Answer, Failure  # noqa: E402
from differential.databases import AtollSession  # noqa: E402
from differential.interleavings import Play  # noqa: E402
from differential.pieces import Value, maybe, statement  # noqa: E402
from differential.sessions import Event, shown  # noqa: E402


def test_values_are_literals_or_parameters():
    made = statement(
        "SELECT", "SELECT a FROM t WHERE b = ", Value("text", "it's", True), " AND c > ",
        Value("date", "2024-01-01"), " AND d = ", Value("int4", "-1", True),
    )  # fmt: skip
    sql, values = made.render()
    assert sql == "SELECT a FROM t WHERE b = $1 AND c > '2024-01-01' AND d = $2"
    assert [value.python() for value in values] == ["it's", -1]
    [plain] = made.smaller()
    assert plain.render()[0].endswith("b = 'it''s' AND c > '2024-01-01' AND d = -1")
    assert Value("int4", None, True).python() is None
    assert Value("int4", None).literal() == "NULL"


def test_a_statement_becomes_smaller_in_each_place():
    made = statement("UPDATE", "SET a = ", [maybe("f(", maybe("b", " + "), "c)", instead=["d"])],
                     maybe(" WHERE e"))  # fmt: skip
    smaller = [s.render()[0] for s in made.smaller()]
    assert smaller == ["SET a = d WHERE e", "SET a = f(c) WHERE e", "SET a = f(b + c)"]


def test_stories_are_made_by_seed_and_can_be_played():
    atoll = AtollSession()
    for seed in range(20):
        story, again = (stories.make(random.Random(seed)) for _ in range(2))
        assert story == again
        atoll.create(story.scheme)
        for sql in story.setup():
            if not sql.startswith("--"):
                atoll.must(sql)
        failed = 0
        for step in story.steps:
            sql, values = step.statement.render()
            failure = atoll.answer(sql, values).failure
            assert not failure or failure.sort != "crash", sql
            failed += bool(failure and failure.code == "syntax" and not step.insists)
        assert failed < 6
    atoll.close()


def test_stories_use_all_types_schemas_and_kinds_of_definitions():
    texts = []
    for seed in range(400):
        story = stories.make(random.Random(seed))
        texts += story.setup()
        texts += [step.statement.text() for step in story.steps]
    whole = "\n".join(texts)
    for name in schemas.SQL_NAMES.values():
        assert f" {name}" in whole, name
    for words in ("s1.t", "SET search_path", "SET LOCAL search_path", "ADD VALUE", "DROP TYPE",
                  "ALTER DOMAIN", "DROP DOMAIN", "CREATE VIEW", "DROP SCHEMA", "ALTER SCHEMA",
                  "SET SCHEMA", "RENAME TO", "DROP TABLE", "INCLUDING ALL", "nextval"):  # fmt: skip
        assert words in whole, words


def test_arrays_are_read():
    texts = answers.READERS["text[]"]
    assert texts("{}") == ()
    assert texts('{a,NULL,"NULL","b,\\"\\\\ c",""}') == ("a", None, "NULL", 'b,"\\ c', "")
    assert answers.READERS["int4[]"]("{1,NULL,-3}") == (1, None, -3)


def test_a_statement_is_made_again_with_other_values():
    rng = random.Random(1)
    generator = changes.Generator(rng, schemas.make(rng), parameters=1)
    made = [generator.any().render() for _ in range(300)]
    texts = [sql for sql, _ in made]
    assert any(texts.count(sql) > 1 for sql, values in made if values)


def difference(many, postgres, atoll):
    made = statement("UPDATE", "UPDATE t SET k = k + 1", many=many)
    return stories.Difference("Atoll fails", "UPDATE", postgres, atoll, statement=made)


def test_the_order_of_rows_excuses_duplicates_of_several_rows_only():
    two, one = Answer(tag="UPDATE 2"), Answer(tag="UPDATE 1")
    duplicate = Answer(failure=Failure("other", "23505", "has a row with key k = 2 already"))
    postgres = Answer(failure=Failure("other", "23505", ""))
    assert stories.deliberate(difference(True, two, duplicate)) == "order-of-rows"
    assert stories.deliberate(difference(True, postgres, two)) == "order-of-rows"
    assert stories.deliberate(difference(True, one, duplicate)) is None
    assert stories.deliberate(difference(False, two, duplicate)) is None


def test_a_parameter_without_a_type_is_text_in_postgresql_only():
    message = 'column "k" is of type bigint but expression is of type text'
    theirs = Answer(failure=Failure("type", "42804", message))
    ours = Answer(tag="INSERT 0 1")
    told = difference(False, theirs, ours)
    assert stories.deliberate(told) is None
    rng = random.Random(1)
    generator = changes.Generator(rng, schemas.make(rng), parameters=1)
    told.statement = next(one for one in iter(generator.any, None) if one.render()[1] and not one.many)
    assert stories.deliberate(told) == "parameter-types"


def test_the_text_of_a_parameter_of_another_type_is_refused_in_postgresql_only():
    made = statement("UPDATE", "UPDATE t SET a = ", Value("numeric", "0.00", True))
    for text, wanted in (("0.00", "parameter-types"), ("0.01", None)):
        message = f'invalid input syntax for type smallint: "{text}"'
        theirs = Answer(failure=Failure("type", "22P02", message))
        told = stories.Difference("PostgreSQL fails", "UPDATE", theirs, Answer(), statement=made)
        assert stories.deliberate(told) == wanted


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        (Answer(tag="UPDATE 1"), Answer(tag="UPDATE 2"), "tag"),
        (Answer(rows=[(1,)]), Answer(rows=[(2,)]), "rows"),
        (Answer(rows=[(1,), (2,)]), Answer(rows=[(2,), (1,)]), ""),
        (Answer(failure=Failure("", "23505", "")), Answer(), "PostgreSQL fails"),
        (Answer(), Answer(failure=Failure("crash", "", "")), "crash"),
    ],
)
def test_answers_to_changes_are_compared(theirs, ours, what):
    made = statement("SELECT", "SELECT k FROM t")
    assert stories.compare(made, theirs, ours)[0] == what
    ordered = stories.compare(replace(made, ordered=True), theirs, ours)[0]
    assert ordered == (what or "rows")


def events(*steps):
    """A record of steps that are written as (session, statement, sent, done, tag)."""
    return [Event(s, sql, sent, done, Answer(tag=tag)) for s, sql, sent, done, tag in steps]


def test_records_of_sessions_are_compared():
    update = "UPDATE r SET v = 1 WHERE k = 1"
    at_once = events((0, update, 0, 0, "UPDATE 1"), (1, "COMMIT", 1, 1, "COMMIT"))
    waits = events((0, update, 0, 1, "UPDATE 1"), (1, "COMMIT", 1, 1, "COMMIT"))
    other = events((0, update, 0, 0, "UPDATE 0"), (1, "COMMIT", 1, 1, "COMMIT"))
    stuck = [Event(0, update, 0), *at_once[1:]]
    play = Play((), ())
    what = interleavings.difference_of
    assert what(at_once, at_once) is None
    assert what(at_once, waits) == ("Atoll waits", "UPDATE v by k =")
    assert what(waits, at_once) == ("PostgreSQL waits", "UPDATE v by k =")
    assert what(at_once, other) == ("answer", "UPDATE v by k =")
    assert what(at_once, stuck)[0] == "Atoll never returns"
    found = interleavings.Difference(*what(at_once, waits), at_once, waits, [], [])
    assert interleavings.deliberate(play, found) is None
    assert interleavings.deliberate(replace(play, is_wild=True), found) == "waits-while-it-looks"


#: Each reads what the other writes.
SKEW = ((0, "SELECT v FROM r WHERE k = 1"), (1, "SELECT v FROM r WHERE k = 2"),
        (0, "UPDATE r SET v = 7 WHERE k = 2"), (1, "UPDATE r SET v = 8 WHERE k = 1"),
        (0, "COMMIT"), (1, "COMMIT"))  # fmt: skip


@pytest.mark.parametrize("level", ["READ COMMITTED", "SERIALIZABLE"])
def test_an_order_of_transactions_is_missed_only_where_there_is_none(level):
    begins = tuple((number, f"BEGIN ISOLATION LEVEL {level}") for number in (0, 1))
    play = Play(((1, 1, 10), (2, 1, 20)), begins + SKEW)
    what, _, _ = serial.fault(play, "DL_DETECT", 0.2)
    assert bool(what) == (level == "READ COMMITTED")


@pytest.mark.parametrize("scheme", stories.SCHEMES)
def test_serializable_transactions_have_an_order(scheme):
    def perform(number):
        return serial.fault(serial.SerialMaker(random.Random(f"{scheme} {number}")).make(), scheme)

    with ThreadPoolExecutor(8) as pool:
        for what, happened, _ in pool.map(perform, range(24)):
            assert what is None, "\n".join([what, *shown(happened)])
