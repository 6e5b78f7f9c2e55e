"""Views in lists and in queries, of a database and of snapshots."""

import atolldb


def test_views_are_no_tables_and_are_read_as_tables():
    with atolldb.create(memory_limit=64 << 20) as db:
        db.sql("CREATE TABLE t (id int PRIMARY KEY, a int)")
        db.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
        db.sql("CREATE VIEW v AS SELECT id, a + 1 AS b FROM t WHERE a > 10")
        assert (db.tables, db.views) == (["t"], ["v"])
        assert db.sql("SELECT * FROM v").fetchall() == [(2, 21)]
        with db.snapshot() as snapshot:
            db.sql("DROP TABLE t CASCADE")
            assert (db.tables, db.views) == ([], [])
            assert (snapshot.tables, snapshot.views) == (["t"], ["v"])
            assert snapshot.sql("SELECT b FROM v").fetchall() == [(21,)]
