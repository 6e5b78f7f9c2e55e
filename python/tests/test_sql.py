"""Statements and how their results look."""

import pytest

import atolldb


@pytest.fixture
def database():
    with atolldb.create(memory_limit=64 << 20) as database:
        yield database


def test_statements_say_what_they_did(database):
    assert database.sql("CREATE TABLE t (id int PRIMARY KEY, v text)").tag == "CREATE TABLE"
    inserted = database.sql("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, '<b>')")
    assert inserted.tag == "INSERT 0 3" == repr(inserted) and inserted.rows_affected == 3
    assert inserted.num_rows == 0 and inserted.fetchall() == []
    assert database.sql("UPDATE t SET v = 'two' WHERE id = 2").rows_affected == 1
    assert database.sql("DELETE FROM t WHERE id = 1").tag == "DELETE 1"
    assert database.sql("SELECT id, v FROM t ORDER BY id").fetchall() == [(2, "two"), (3, "<b>")]


def test_a_transaction_spans_statements(database):
    database.sql("CREATE TABLE t (id int PRIMARY KEY)")
    database.sql("BEGIN")
    database.sql("INSERT INTO t VALUES (1)")
    database.sql("ROLLBACK")
    assert database.sql("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_a_result_looks_like_a_table(database):
    database.sql("CREATE TABLE t (id int PRIMARY KEY, name text)")
    database.sql("INSERT INTO t VALUES (1, 'one'), (20, NULL), (300, 'x<y')")
    result = database.sql("SELECT id, name FROM t ORDER BY id")
    assert repr(result) == (
        " id  name\n───  ────\n  1  one\n 20  NULL\n300  x<y\n(3 rows)"
    )
    html = result._repr_html_()
    assert html.startswith("<table>") and "x&lt;y" in html and "(3 rows)" in html


def test_a_long_result_is_cut(database):
    rows = {"id": list(range(1500)), "text": ["word " * 20] * 1500}
    database.create_table("t", rows, primary_key="id")
    lines = repr(database.sql("SELECT * FROM t ORDER BY id")).splitlines()
    assert len(lines) == 23 and lines[-1] == "(1,500 rows, 20 shown)"
    assert max(map(len, lines)) < 50 and "…" in lines[2]


def test_an_empty_result_has_its_columns(database):
    database.sql("CREATE TABLE t (id int PRIMARY KEY)")
    result = database.sql("SELECT id FROM t")
    assert result.fetchall() == [] and result.to_arrow().column_names == ["id"]
    assert repr(result).endswith("(0 rows)")


def test_a_database_shows_what_it_has(database):
    database.create_table("t", {"id": [1]}, primary_key="id")
    snapshot = database.snapshot()
    assert "t" in snapshot and "u" not in snapshot and "id" in snapshot["t"]
    assert repr(snapshot["t"]) == '<atolldb.Table "t": id bigint>'
    assert repr(snapshot["t"]["id"]) == '<atolldb.Column "id" bigint of "t">'
    assert database.counters["commits"] >= 1
    assert "epoch" in repr(snapshot) and "t" in database.tables
    assert database.snapshots()[0]["state"] == "live"
