"""The parts of the comparison with PostgreSQL that need no PostgreSQL."""

import random
import sys
from decimal import Decimal
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from differential import deliberate, minimise, statements, tables  # noqa: E402
from differential.answers import (  # noqa: E402
    Answer,
    Failure,
    Float,
    day_of_text,
    moment_of_text,
    of_texts,
)
from differential.compare import compare  # noqa: E402
from differential.tree import (  # noqa: E402
    FLOAT_SUM,
    LATE,
    QUOTIENT,
    STRICT,
    SUM_OF_REAL,
    Expr,
    Select,
)


def answer(type_, *values):
    return Answer(types=[type_], rows=[(value,) for value in values])


def differ(theirs, ours, flags=0, **options):
    difference = compare(theirs, ours, [flags], **options)
    return difference and difference.what


def test_rows_are_compared_as_multisets_unless_they_are_ordered():
    some, other = answer("int4", 1, 2, 2), answer("int4", 2, 1, 2)
    assert differ(some, other) is None
    assert differ(some, other, ordered=True) == "values"
    assert differ(some, answer("int4", 1, 1, 2)) == "values"
    assert differ(some, answer("int4", 1, 2)) == "rows"
    assert differ(some, answer("int8", 1, 2, 2)) == "types"
    assert differ(answer("int4", None), answer("int4", 0)) == "values"


def test_floats_are_compared_bit_by_bit():
    nan, zero, below = Float("nan"), Float(0.0), Float(-0.0)
    assert differ(answer("float8", nan), answer("float8", Float("-nan"))) is None
    assert differ(answer("float8", zero), answer("float8", below)) == "values"
    assert differ(answer("float8", zero), answer("float8", below), either_zero=True) is None
    near = Float(1 + 2**-52)
    assert differ(answer("float8", Float(1.0)), answer("float8", near)) == "values"
    assert differ(answer("float8", Float(1.0)), answer("float8", near), FLOAT_SUM) is None
    far = answer("float8", Float(1 + 1e-9))
    assert differ(answer("float8", Float(1.0)), far, FLOAT_SUM) == "values"
    assert differ(answer("float8", Float(1.0)), far, SUM_OF_REAL) is None


def test_numerics_are_compared_by_value_and_quotients_by_their_digits():
    def numeric(text):
        return answer("numeric", Decimal(text))

    assert differ(numeric("1.50"), numeric("1.5")) is None
    third, longer = numeric("0.3333333333333333"), numeric("0.33333333333333333333")
    assert differ(longer, third) == "values"
    assert differ(longer, third, QUOTIENT) is None
    assert differ(numeric("0.333333333333"), third, QUOTIENT) == "values"
    assert differ(numeric("12345678901234567890"), numeric("12345678901234567891")) == "values"


def test_an_error_on_one_side_is_a_difference_and_a_crash_always():
    rows = answer("int4", 1)
    failed = Answer(failure=Failure("overflow", "22003", "integer out of range"))
    crashed = Answer(failure=Failure("crash", "PanicException", "…"))
    assert differ(failed, failed) is None
    assert differ(rows, failed) == "atoll failed" and differ(failed, rows) == "postgres failed"
    assert differ(failed, crashed) == "atoll crashed"


def test_dates_are_read_in_every_era():
    assert day_of_text("1970-01-01") == 0 and day_of_text("2000-03-01") == 11_017
    assert day_of_text("0001-01-01") == -719_162
    assert day_of_text("0001-12-31 BC") == -719_163
    assert moment_of_text("1969-12-31 23:59:59.5") == -500_000
    assert of_texts(["timestamp"], [[None]]).rows == [(None,)]


def test_only_the_types_of_the_table_may_differ():
    bare = Select([Expr("int4", "7", shape="literal")])
    other = Select([Expr("int4", "({} + {})", bare.items * 2)])
    difference = compare(answer("int4", 7), answer("int8", 7), [0])
    assert deliberate.types_allowed(difference, bare.column_flags()) == "integer-literal"
    assert deliberate.types_allowed(difference, other.column_flags()) is None


def test_statements_depend_on_the_seed_alone():
    def some(seed):
        rng = random.Random(seed)
        made = tables.make(rng)
        return [s for t in made for s in t.statements()] + [
            statements.make(rng, made).render() for _ in range(200)
        ]

    assert some(1) == some(1) and some(1) != some(2)


def test_a_statement_is_rendered_so_that_its_limits_are_met():
    half = Expr("numeric", "1.5", scale=1, shape="literal")
    product = Expr("numeric", "({} * {})", [half, half], scale=2)
    select = Select([product])
    assert select.render() == "SELECT (1.5 * 1.5) AS c1"
    assert "held_by_atoll((1.5 * 1.5), 2)" in select.render(STRICT)
    assert select.render(LATE) == "SELECT (computed_late(1.5) * computed_late(1.5)) AS c1"


@pytest.mark.parametrize("seed", range(40))
def test_a_statement_shrinks_to_what_matters(seed):
    rng = random.Random(seed)
    made = tables.make(rng)
    statement = statements.make(rng, made)
    while " * " not in statement.render():
        statement = statements.make(rng, made)
    small = minimise.minimise(statement, lambda s: " * " in s.render())
    assert " * " in small.render()
    # Below an aggregate or a quotient the types stay, and so perhaps a cast.
    assert len(list(small.walk())) <= 8, small.render()


def test_tables_shrink_to_the_rows_that_matter():
    made = tables.make(random.Random(3))
    statement = Select(
        [Expr("int4", "a.k", shape="column")], [statements.From("t1", "a")]
    )

    def still(some):
        return any(row[0] == "3" for row in some[0].rows)

    [small] = minimise.minimise_tables(made, statement, still)
    assert [column.name for column in small.columns] == ["id", "k"]
    assert [row[0] for row in small.rows] == ["3"]
