"""What goes wrong is told by the right exception, with what to do about it."""

import copy
import pickle

import pytest

import atolldb
from conftest import ROWS


@pytest.fixture
def database():
    with atolldb.create(memory_limit=64 << 20) as database:
        database.create_table("t", {"id": [1, 2], "v": ["a", "b"]}, primary_key="id")
        yield database


def test_an_unknown_name_lists_the_known_ones(board, runtime_dir):
    with pytest.raises(atolldb.UnknownName, match="board"):
        atolldb.attach("bored", runtime_dir)
    with pytest.raises(LookupError):
        atolldb.attach("bored", runtime_dir)
    with pytest.raises(ValueError, match="not a database name"):
        atolldb.attach("../board", runtime_dir)


def test_a_name_can_be_taken_once(board, runtime_dir, database):
    with pytest.raises(atolldb.NameTaken, match=str(board.process.pid)):
        database.publish("board", runtime_dir)
    database.publish("mine", runtime_dir)
    assert database.name == "mine"
    with pytest.raises(atolldb.NameTaken, match="mine"):
        database.publish("again", runtime_dir)


def test_a_runtime_dir_that_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(atolldb.Error, match="chmod 700"):
        atolldb.attach("board", tmp_path)


def test_arguments_of_the_wrong_type(database):
    with pytest.raises(TypeError):
        atolldb.attach(7)
    with pytest.raises(TypeError):
        database.sql(None)
    with pytest.raises(TypeError, match="int"):
        database.create_table("u", 7, primary_key="id")
    with pytest.raises(TypeError):
        database.create_table("u", {"id": [1]}, primary_key=7)
    with pytest.raises(TypeError):
        atolldb.derive([database])
    with pytest.raises(ValueError, match="seconds"):
        atolldb.create(snapshot_age_max=-1)
    assert database.tables == ["t"]


def test_unknown_tables_and_columns_are_key_errors(snapshot):
    with pytest.raises(KeyError) as caught:
        snapshot["nowhere"]
    assert isinstance(caught.value, atolldb.UnknownTable)
    assert str(caught.value) == 'table "nowhere" does not exist'
    with pytest.raises(atolldb.UnknownColumn, match="it has id, x, note"):
        snapshot["points"]["y"]
    with pytest.raises(KeyError):
        snapshot["points"][["id", "y"]]
    with pytest.raises(ValueError):
        snapshot["points"].select([])


def test_a_duplicate_leaves_nothing_behind(database):
    with pytest.raises(atolldb.DuplicateKey, match="with key id = 3 already"):
        database.create_table("u", {"id": [3, 4, 3]}, primary_key="id")
    assert database.tables == ["t"]
    with pytest.raises(atolldb.DuplicateKey, match="with key id = 2 already"):
        database.insert("t", {"id": [9, 2], "v": ["x", "y"]})
    assert database.sql("SELECT count(*) FROM t").fetchall() == [(2,)]
    pairs = {"a": ["x", "x"], "b": [1, 2]}
    assert database.create_table("pairs", pairs, primary_key=["a", "b"]) == 2
    with pytest.raises(atolldb.TableExists):
        database.create_table("t", {"id": [1]}, primary_key="id")
    with pytest.raises(ValueError):
        database.create_table("u", {"id": [1]}, primary_key="nothing")


def test_a_bad_statement_shows_its_place(database):
    with pytest.raises(atolldb.SqlError) as caught:
        database.sql("SELECT id\nFROM t\nWHERE wrong = 1")
    error = caught.value
    assert (error.line, error.column) == (3, 7) and error.kind == "unknown column"
    assert "WHERE wrong = 1" in str(error) and "^" in str(error)
    assert "\n" not in error.message
    with pytest.raises(atolldb.SqlError) as caught:
        database.sql("SELEKT 1")
    assert caught.value.kind == "syntax" and caught.value.line == 1
    with pytest.raises(atolldb.SqlError) as caught:
        database.sql("INSERT INTO t VALUES (1, 'again')")
    assert caught.value.kind == "constraint"
    assert isinstance(caught.value, atolldb.DuplicateKey)


def test_a_duplicate_names_columns_and_values_as_they_are_written(database):
    import datetime

    days = {"day": [datetime.date(2024, 5, 1)] * 2, "name": ["it's"] * 2}
    with pytest.raises(atolldb.DuplicateKey) as caught:
        database.create_table("u", days, primary_key=["day", "name"])
    wanted = "table \"u\" has a row with key day = '2024-05-01', name = 'it''s' already"
    assert str(caught.value) == wanted
    database.sql("CREATE TABLE v (id int PRIMARY KEY, mail text UNIQUE)")
    database.sql("INSERT INTO v VALUES (1, 'a@x')")
    with pytest.raises(atolldb.DuplicateKey, match="with mail = 'a@x' already") as caught:
        database.insert("v", {"id": [2], "mail": ["a@x"]})
    with pytest.raises(atolldb.DuplicateKey, match="with mail = 'a@x' already") as caught:
        database.sql("INSERT INTO v VALUES (2, 'a@x')")
    assert isinstance(caught.value, atolldb.SqlError) and caught.value.kind == "constraint"
    assert pickle.loads(pickle.dumps(caught.value)).kind == "constraint"


def test_a_snapshot_is_read_only(snapshot):
    for statement in ["DELETE FROM points", "CREATE TABLE u (id int PRIMARY KEY)"]:
        with pytest.raises(atolldb.ReadOnly):
            snapshot.sql(statement)
    assert snapshot["points"].num_rows == ROWS


def test_a_table_of_a_base_never_changes_and_can_be_hidden(database):
    with database.snapshot().derive(memory_limit=64 << 20) as derived:
        told = 'table "t" belongs to a snapshot that this database is built on'
        for sql in ["INSERT INTO t VALUES (9)", "UPDATE t SET v = 'x'", "DELETE FROM t"]:
            with pytest.raises(atolldb.ReadOnly, match=told) as caught:
                derived.sql(sql)
            assert caught.value.kind == "read-only"
        with pytest.raises(atolldb.ReadOnly, match=told):
            derived.insert("t", {"id": [9]})
        with pytest.raises(atolldb.Error, match='"u" does not exist'):
            derived.sql("DELETE FROM u WHERE id = 1")
        assert derived.create_table("t", derived["t"], primary_key="id") == 2
        derived.sql("DELETE FROM t WHERE id = 1")
        assert derived.sql("SELECT count(*) FROM t").fetchall() == [(1,)]
    assert database.sql("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_messages_about_data_name_no_library(database):
    for data in [{"id": [[1]]}, {"id": ["x"]}, {"id": [True]}, {"id": [1.5]}, {"id": [b"x"]}]:
        with pytest.raises(atolldb.InvalidValue) as caught:
            database.insert("t", data)
        text = str(caught.value)
        for insides in ["Utf8", "Int64", "List(", "Float64", "rror:", "Arrow"]:
            assert insides not in text, text


def test_memory_has_a_limit():
    with atolldb.create(memory_limit=32 << 20) as database:
        database.sql("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
        rows = {"id": range(100_000), "v": ["x" * 1000] * 100_000}
        with pytest.raises(atolldb.OutOfMemory) as caught:
            database.insert("t", {name: list(values) for name, values in rows.items()})
        assert isinstance(caught.value, MemoryError)
        assert database.sql("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_closed_things_say_so(board, runtime_dir, database):
    connection = atolldb.attach("board", runtime_dir)
    connection.close()
    connection.close()
    with pytest.raises(atolldb.Closed, match="attach again"):
        connection.snapshot()
    snapshot = database.snapshot()
    database.close()
    with pytest.raises(atolldb.Closed):
        database.sql("SELECT 1")
    assert snapshot.sql("SELECT v FROM t WHERE id = 2").fetchall() == [("b",)]
    with snapshot:
        pass
    with pytest.raises(atolldb.Closed):
        snapshot.table("t")


def test_a_base_in_this_very_process_cannot_be_handed_on(database, runtime_dir):
    with database.snapshot().derive(memory_limit=64 << 20) as derived:
        assert derived.sql("SELECT count(*) FROM t").fetchall() == [(2,)]
        with pytest.raises(atolldb.Error, match="attach to it by name"):
            derived.publish("derived", runtime_dir)


def test_errors_survive_pickling(database):
    with pytest.raises(atolldb.SqlError) as caught:
        database.sql("SELECT wrong FROM t")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.line == caught.value.line and str(again) == str(caught.value)
    assert copy.copy(caught.value).kind == caught.value.kind
