//! Enums: definitions in transactions and folders, snapshots, parameters, files.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_schema::DataType as ArrowType;
use atoll::{DataType, Database, DatabaseOptions};
use atoll_sql::{Outcome, SqlSession};

use super::{database, error, rows, session, tag};

const MOODS: &str = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
     CREATE TABLE t (id int PRIMARY KEY, m mood, n mood NOT NULL DEFAULT 'ok');
     INSERT INTO t VALUES (1, 'happy', 'sad'), (2, NULL, 'ok'), (3, 'sad', 'happy')";

/// The labels of a dictionary.
fn labels(array: &ArrayRef) -> Vec<String> {
    let labels = array.as_dictionary::<Int32Type>().values();
    labels.as_string::<i32>().iter().flatten().map(str::to_owned).collect()
}

#[test]
fn a_snapshot_has_dictionaries_of_the_labels() {
    let mut session = session(MOODS);
    tag(&mut session, "DELETE FROM t WHERE id = 1");
    let Ok(Outcome::Rows(found)) = session.execute("SELECT m, n FROM t ORDER BY n DESC") else {
        panic!()
    };
    let array = found.batches()[0].column(1).clone();
    assert_eq!(array.as_dictionary::<Int32Type>().keys().values(), &[2, 1]);
    assert_eq!(labels(&array), ["sad", "ok", "happy"]);
}

#[test]
fn a_snapshot_lends_the_keys_in_place() {
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    session.execute_script(MOODS).into_iter().for_each(|done| drop(done.unwrap()));
    let snapshot = db.snapshot().unwrap();
    let table = snapshot.table("t").unwrap();
    let field = table.arrow_schema().field(2).clone();
    assert_eq!(field.extension_type_name(), Some(atoll::ENUM));
    assert_eq!(field.extension_type_metadata(), Some("mood\u{1}sad\u{1}ok\u{1}happy"));
    let segment = table.segment(0).unwrap();
    let array = segment.array(2).unwrap();
    assert_eq!(labels(&array), ["sad", "ok", "happy"]);
    let (one, other) = (array.to_data(), segment.array(2).unwrap().to_data());
    assert_eq!(one.buffers()[0].as_ptr(), other.buffers()[0].as_ptr());
    // The definition is in the snapshot, whatever becomes of the type.
    tag(&mut session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'");
    tag(&mut session, "ALTER TYPE mood ADD VALUE 'calm' BEFORE 'ok'");
    assert_eq!(labels(&segment.array(2).unwrap()), ["sad", "ok", "happy"]);
    let mut before = SqlSession::on_snapshot(snapshot);
    assert_eq!(rows(&mut before, "SELECT m FROM t ORDER BY m"), ["sad", "happy", "NULL"]);
    assert_eq!(rows(&mut before, "SELECT 'sad'::mood < 'ok'"), ["true"]);
    assert_eq!(rows(&mut session, "SELECT m FROM t ORDER BY m"), ["blue", "happy", "NULL"]);
    assert_eq!(rows(&mut session, "SELECT n FROM t ORDER BY n"), ["blue", "ok", "happy"]);
}

#[test]
fn a_transaction_defines_types_and_takes_them_back() {
    let mut session = session(MOODS);
    for sql in [
        "BEGIN",
        "CREATE TYPE size AS ENUM ('s', 'm')",
        "CREATE TABLE u (id int PRIMARY KEY, s size)",
        "INSERT INTO u VALUES (1, 'm')",
        "ALTER TYPE size ADD VALUE 'xs' BEFORE 's'",
        "INSERT INTO u VALUES (2, 'xs')",
        "ALTER TYPE size RENAME VALUE 'm' TO 'medium'",
        "ALTER TYPE mood ADD VALUE 'glad'",
        "SAVEPOINT s",
        "ALTER TYPE mood ADD VALUE 'first' BEFORE 'sad'",
        "INSERT INTO t VALUES (5, 'first')",
        "ALTER TYPE mood RENAME TO moods",
    ] {
        session.execute(sql).unwrap();
    }
    assert_eq!(rows(&mut session, "SELECT s FROM u ORDER BY s"), ["xs", "medium"]);
    let moods = "SELECT m FROM t WHERE m IS NOT NULL ORDER BY m";
    assert_eq!(rows(&mut session, moods), ["first", "sad", "happy"]);
    session.execute("ROLLBACK TO SAVEPOINT s").unwrap();
    assert_eq!(rows(&mut session, moods), ["sad", "happy"]);
    // As in PostgreSQL, a label behind the others can be used when it is there for all.
    let failed = error(&mut session, "INSERT INTO t VALUES (4, 'glad')");
    assert_eq!(failed.sqlstate(), "55P04", "{failed}");
    session.execute("ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, moods), ["sad", "happy"]);
    let failed = error(&mut session, "INSERT INTO t VALUES (4, 'glad')");
    assert_eq!(failed.message(), "invalid input value for enum mood: \"glad\"");
    assert_eq!(failed.sqlstate(), "22P02");
    assert_eq!(error(&mut session, "SELECT 's'::size").sqlstate(), "42704");
    tag(&mut session, "CREATE TYPE size AS ENUM ('other')");
}

#[test]
fn types_and_values_survive_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let mut session = SqlSession::on_database(open());
    session.execute_script(MOODS).into_iter().for_each(|done| drop(done.unwrap()));
    tag(&mut session, "CREATE INDEX t_m ON t (m)");
    drop(session);
    // Recovered from the log, with what was altered in between, and from a checkpoint.
    for (sql, wanted) in [
        ("ALTER TYPE mood ADD VALUE 'last'", "sad happy last"),
        ("ALTER TYPE mood ADD VALUE 'calm' BEFORE 'happy'", "sad happy last"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "blue happy last"),
        ("ALTER TYPE mood RENAME TO \"My mood\"", "blue happy last"),
    ] {
        let db = open();
        let mut session = SqlSession::on_database(db.clone());
        tag(&mut session, sql);
        session.execute("INSERT INTO t VALUES (4, 'last') ON CONFLICT DO NOTHING").unwrap();
        drop((session, db));
        let db = open();
        let mut session = SqlSession::on_database(db.clone());
        let found = rows(&mut session, "SELECT m FROM t WHERE m IS NOT NULL ORDER BY m");
        assert_eq!(found.join(" "), wanted, "{sql}");
        db.checkpoint().unwrap();
    }
    let mut session = SqlSession::on_database(open());
    let sql = "SELECT m FROM t WHERE m >= 'calm'::\"My mood\" ORDER BY m";
    assert_eq!(rows(&mut session, sql), ["happy", "last"]);
    let column = &session_column(&mut session);
    assert_eq!(column, "\"My mood\"");
}

/// The type of a column of `t`, as a result names it.
fn session_column(session: &mut SqlSession) -> String {
    let Ok(Outcome::Rows(found)) = session.execute("SELECT m FROM t WHERE id = 1") else {
        panic!()
    };
    let (_, types) = found.rows().unwrap();
    types[0].to_string()
}

#[test]
fn parameters_take_the_enum_of_their_place() {
    let mut session = session(MOODS);
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2, $3)").unwrap();
    session.execute_with(&insert, (4, "ok", "happy")).unwrap();
    session.execute_with(&insert, (5, None::<&str>, "sad")).unwrap();
    let failed = session.execute_with(&insert, (6, "angry", "sad")).unwrap_err();
    assert!(failed.message().contains("invalid input value for enum mood: \"angry\""), "{failed}");
    assert_eq!(failed.sqlstate(), "22P02");
    assert!(session.execute_with(&insert, (6, 1, "sad")).is_err());
    let found = session.prepare("SELECT id FROM t WHERE m >= $1 ORDER BY id").unwrap();
    let ids = |session: &mut SqlSession, label: &str| {
        let Ok(Outcome::Rows(found)) = session.execute_with(&found, (label,)) else { panic!() };
        found.typed::<(i32,)>().unwrap().into_iter().map(|(id,)| id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut session, "ok"), [1, 4]);
    // Prepared before the labels were altered.
    tag(&mut session, "ALTER TYPE mood ADD VALUE 'so-so' AFTER 'sad'");
    assert_eq!(ids(&mut session, "ok"), [1, 4]);
    assert_eq!(ids(&mut session, "so-so"), [1, 4]);
    session.execute_with(&insert, (6, "so-so", "ok")).unwrap();
    assert_eq!(ids(&mut session, "so-so"), [1, 4, 6]);
    session.execute_with("UPDATE t SET m = $1 WHERE m = $2", ("happy", "so-so")).unwrap();
    assert_eq!(ids(&mut session, "happy"), [1, 6]);
    let Ok(Outcome::Rows(found)) = session.execute("SELECT m FROM t WHERE id IN (1, 2) ORDER BY 1")
    else {
        panic!()
    };
    let labels: Vec<(Option<String>,)> = found.typed().unwrap();
    assert_eq!(labels, [(Some("happy".to_owned()),), (None,)]);
    assert!(found.typed::<(Option<i32>,)>().is_err());
    let any = "SELECT id FROM t WHERE m::text = ANY($1) ORDER BY id";
    let Ok(Outcome::Rows(found)) = session.execute_with(any, (vec!["sad", "ok"],)) else {
        panic!()
    };
    assert_eq!(found.typed::<(i32,)>().unwrap(), [(3,), (4,)]);
}

#[test]
fn both_ways_to_rows_give_the_same() {
    let mut session = session(MOODS);
    tag(&mut session, "CREATE INDEX t_n ON t (n)");
    tag(&mut session, "INSERT INTO t SELECT id + 10, m, n FROM t");
    for sql in [
        "SELECT * FROM t ORDER BY n, id",
        "SELECT id FROM t WHERE n > 'sad' AND m < 'happy' ORDER BY id",
        "SELECT id FROM t WHERE n = 'ok' ORDER BY id",
        "SELECT max(n), min(m), count(m) FROM t",
        "SELECT n, count(*) FROM t GROUP BY n ORDER BY n DESC",
        "SELECT coalesce(m, n), m IS NOT DISTINCT FROM n FROM t ORDER BY id",
        "SELECT CASE n WHEN 'ok' THEN 'sad' ELSE n END FROM t ORDER BY id",
        "SELECT n::text || '!' FROM t WHERE n IN ('ok', 'sad') ORDER BY id",
    ] {
        let outside = rows(&mut session, &format!("{sql} LIMIT 1000"));
        tag(&mut session, "BEGIN");
        tag(&mut session, "UPDATE t SET id = id WHERE id = 1");
        let inside = rows(&mut session, sql);
        tag(&mut session, "ROLLBACK");
        // On a snapshot, whatever could be done otherwise.
        let on_snapshot =
            format!("SELECT * FROM ({sql}) AS q, (SELECT count(*) OVER () FROM t LIMIT 1) AS w");
        let on_snapshot = rows(&mut session, &on_snapshot);
        let cut = |row: &String| row.rsplit_once('|').map_or("", |(row, _)| row).to_owned();
        let mut on_snapshot: Vec<String> = on_snapshot.iter().map(cut).collect();
        assert_eq!(inside, outside, "{sql}");
        let mut sorted = inside.clone();
        sorted.sort();
        on_snapshot.sort();
        assert_eq!(sorted, on_snapshot, "{sql}");
    }
}

#[test]
fn files_are_loaded_by_their_labels() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(MOODS);
    let csv = folder.path().join("moods.csv");
    std::fs::write(&csv, "4,ok,happy\n5,,sad\n").unwrap();
    tag(&mut session, &format!("COPY t FROM '{}'", csv.display()));
    std::fs::write(&csv, "6,ok,happy\n7,angry,sad\n").unwrap();
    let failed = error(&mut session, &format!("COPY t FROM '{}'", csv.display()));
    assert!(failed.message().contains("line 2"), "{failed}");
    assert!(failed.message().contains("invalid input value for enum mood: \"angry\""), "{failed}");
    // A table that no transaction has used is loaded in bulk.
    tag(&mut session, "CREATE TABLE b (id int PRIMARY KEY, m mood)");
    let keys = Int32Array::from(vec![Some(1), Some(0), None]);
    let labels = Arc::new(StringArray::from(vec!["happy", "sad"]));
    let moods: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, labels));
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch = arrow_array::RecordBatch::try_from_iter([("id", ids), ("m", moods)]).unwrap();
    let parquet = folder.path().join("moods.parquet");
    let file = std::fs::File::create(&parquet).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    tag(&mut session, &format!("COPY b FROM '{}'", parquet.display()));
    assert_eq!(rows(&mut session, "SELECT m FROM b ORDER BY m"), ["sad", "happy", "NULL"]);
    assert_eq!(
        rows(&mut session, "SELECT id, m FROM t WHERE id > 3 ORDER BY id"),
        ["4|ok", "5|NULL"]
    );
}

#[test]
fn tables_are_made_of_queries_with_enums() {
    let mut session = session(MOODS);
    tag(&mut session, "CREATE TABLE c AS SELECT id, m, count(*) OVER () AS n FROM t");
    assert_eq!(rows(&mut session, "SELECT m FROM c WHERE m > 'sad'"), ["happy"]);
    let failed = error(&mut session, "DROP TYPE mood");
    assert_eq!(failed.sqlstate(), "2BP01");
    let detail = failed.detail().unwrap();
    assert!(detail.contains("column m of table c depends on type mood"), "{detail}");
    tag(&mut session, "CREATE TABLE d (LIKE t)");
    tag(&mut session, "INSERT INTO d SELECT * FROM t");
    tag(&mut session, "DROP TYPE mood CASCADE");
    assert_eq!(rows(&mut session, "SELECT * FROM d ORDER BY id"), ["1", "2", "3"]);
}

#[test]
fn labels_in_conditions_keep_their_names() {
    let mut session = session(MOODS);
    tag(&mut session, "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 'sad' OR id < 5)");
    tag(&mut session, "CREATE VIEW v AS SELECT id FROM t WHERE m = 'happy'::mood");
    for (sql, part) in [
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "constraint c on table t"),
        ("ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'", "view v"),
        ("ALTER TYPE mood RENAME TO moods", "view v"),
    ] {
        let failed = error(&mut session, sql);
        assert_eq!(failed.sqlstate(), "0A000", "{sql}");
        assert!(failed.message().contains(part), "{sql}: {failed}");
    }
    tag(&mut session, "DROP VIEW v");
    tag(&mut session, "ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'");
    tag(&mut session, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'");
    tag(&mut session, "INSERT INTO t (id) VALUES (9)");
    assert_eq!(rows(&mut session, "SELECT n FROM t WHERE id = 9"), ["fine"]);
    assert_eq!(rows(&mut session, "SELECT m FROM t WHERE id = 1"), ["glad"]);
}

#[test]
fn results_name_their_enum() {
    let mut session = session(MOODS);
    for sql in ["SELECT max(m) AS x FROM t", "SELECT m AS x FROM t UNION SELECT 'ok'"] {
        let Ok(Outcome::Rows(found)) = session.execute(sql) else { panic!() };
        let schema = found.schema();
        let field = schema.field(0);
        assert!(matches!(field.data_type(), ArrowType::Dictionary(..)), "{sql}");
        assert_eq!(field.extension_type_metadata(), Some("mood\u{1}sad\u{1}ok\u{1}happy"), "{sql}");
    }
    let described = session.describe("SELECT m, $1::mood FROM t WHERE n = $2").unwrap();
    let name = |at: usize| described.parameters[at].map(|one: DataType| one.to_string());
    assert_eq!((name(0), name(1)), (Some("mood".to_owned()), Some("mood".to_owned())));
}
