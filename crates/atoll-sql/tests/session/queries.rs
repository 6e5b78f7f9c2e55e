//! Larger tables: several segments, holes in them, pruning as EXPLAIN tells it.

use atoll::{Column, DataType, Database, Schema, Value};
use atoll_sql::SqlSession;

use super::{database, rows, tag};

/// Rows of a segment.
const SEGMENT: i64 = 8192;

/// A table `t (id bigint, v integer, name text)` with this many rows, keys rising.
fn filled(count: i64) -> Database {
    let db = database();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("v", DataType::Int32),
        Column::new("name", DataType::Text),
    ];
    let table = db.create_table("t", Schema::new(columns, &["id"]).unwrap()).unwrap();
    let mut transaction = db.begin().unwrap();
    for id in 0..count {
        let v = (id % 10 != 0).then_some(i32::try_from(id % 100).unwrap());
        let row = [Value::Int64(id), v.into(), format!("row {id} of the table").into()];
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    db
}

fn explained(session: &mut SqlSession, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}")).join("\n")
}

#[test]
fn every_row_of_every_segment_is_read_once() {
    let count = 3 * SEGMENT + 100;
    let mut session = SqlSession::on_database(filled(count));
    let expected = format!("{count}|{}|{}", count * (count - 1) / 2, count - (count + 9) / 10);
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(id), count(v) FROM t"),
        [expected.as_str()]
    );
    assert_eq!(
        rows(&mut session, "SELECT count(DISTINCT name) FROM t WHERE id >= 0"),
        [count.to_string()]
    );
}

#[test]
fn deleted_rows_are_left_out_wherever_they_lie() {
    let mut session = SqlSession::on_database(filled(2 * SEGMENT));
    // A run at the start, a run in the middle, and single rows that make many short runs.
    let gone: Vec<i64> =
        (0..50).chain(4000..4100).chain((SEGMENT..SEGMENT + 200).step_by(2)).collect();
    for id in &gone {
        tag(&mut session, &format!("DELETE FROM t WHERE id = {id}"));
    }
    let left: Vec<i64> = (0..2 * SEGMENT).filter(|id| !gone.contains(id)).collect();
    let sum: i64 = left.iter().sum();
    assert_eq!(
        rows(&mut session, "SELECT count(*), sum(id) FROM t"),
        [format!("{}|{sum}", left.len())]
    );
    assert_eq!(
        rows(&mut session, "SELECT count(*) FROM t WHERE length(name) > 0"),
        [left.len().to_string()]
    );
    assert_eq!(rows(&mut session, "SELECT min(id) FROM t"), ["50"]);
}

#[test]
fn a_filter_on_the_key_reads_one_segment() {
    let mut session = SqlSession::on_snapshot(filled(4 * SEGMENT).snapshot().unwrap());
    let sql = "SELECT v FROM t WHERE id = 9001";
    let plan = explained(&mut session, sql);
    assert!(plan.contains("segments_scanned=1, segments_pruned=3"), "{plan}");
    assert_eq!(rows(&mut session, sql), ["1"]);
    let between = "SELECT count(*) FROM t WHERE id BETWEEN 8000 AND 9000 AND v IS NOT NULL";
    let plan = explained(&mut session, between);
    assert!(plan.contains("segments_scanned=2, segments_pruned=2"), "{plan}");
    assert_eq!(rows(&mut session, between), ["900"]);
    let none = "SELECT count(*) FROM t WHERE id < 0";
    let plan = explained(&mut session, "SELECT v FROM t WHERE id < 0");
    assert!(plan.contains("segments_scanned=0, segments_pruned=4"), "{plan}");
    assert_eq!(rows(&mut session, none), ["0"]);
    let open = "SELECT count(*) FROM t WHERE name LIKE 'row 1%'";
    assert!(explained(&mut session, open).contains("segments_scanned=4, segments_pruned=0"));
}

#[test]
fn explain_analyze_counts_the_segments() {
    let mut session = SqlSession::on_database(filled(4 * SEGMENT));
    let plan =
        rows(&mut session, "EXPLAIN ANALYZE SELECT sum(v) FROM t WHERE id > 30000").join("\n");
    assert!(plan.contains("segments_pruned=3"), "{plan}");
    assert!(plan.contains("segments_scanned=1"), "{plan}");
}

#[test]
fn a_limit_reads_no_more_segments_than_it_needs() {
    let mut session = SqlSession::on_database(filled(4 * SEGMENT));
    let sql = "SELECT id FROM t LIMIT 10";
    let plan = explained(&mut session, sql);
    assert!(plan.contains("segments_scanned=1, segments_pruned=3"), "{plan}");
    assert_eq!(rows(&mut session, sql).len(), 10);
    assert_eq!(rows(&mut session, "SELECT id FROM t LIMIT 9000").len(), 9000);
    assert_eq!(rows(&mut session, "SELECT id FROM t WHERE v = 7 LIMIT 5").len(), 5);
}

#[test]
fn an_empty_table_has_no_rows_and_a_schema() {
    let mut session = SqlSession::on_database(filled(0));
    assert_eq!(rows(&mut session, "SELECT count(*), sum(v) FROM t"), ["0|NULL"]);
    let outcome = session.execute("SELECT id, name FROM t").unwrap();
    match outcome {
        atoll_sql::Outcome::Rows(result) => {
            assert_eq!(result.row_count(), 0);
            assert_eq!(result.schema().fields().len(), 2);
        }
        _ => panic!("a query returns rows"),
    }
}

#[test]
fn a_subquery_without_a_row_is_null_on_a_snapshot_too() {
    let db = filled(3);
    let queries = [
        ("SELECT (SELECT count(*) FROM t WHERE false HAVING count(*) > 1)", "NULL"),
        ("SELECT (SELECT count(*) FROM t HAVING count(*) > 5) IS NULL", "true"),
        ("SELECT COALESCE((SELECT id FROM t WHERE id = 9), 0)", "0"),
        ("SELECT (SELECT 7 WHERE false) IS NOT NULL", "false"),
        ("SELECT (SELECT name FROM t WHERE id > 7 ORDER BY id LIMIT 1)", "NULL"),
        ("SELECT (SELECT id FROM t WHERE id = 1)", "1"),
    ];
    let mut reader = SqlSession::on_snapshot(db.snapshot().unwrap());
    let mut owner = SqlSession::on_database(db);
    for (sql, answer) in queries {
        for session in [&mut reader, &mut owner] {
            assert_eq!(rows(session, sql), [answer], "{sql}");
        }
    }
}
