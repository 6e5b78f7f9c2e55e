//! Files into tables: whole or not at all.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int16Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use atoll_sql::{Format, SqlErrorKind, SqlSession, copy_from};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use super::{database, error, rows, session, tag};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, name text, price decimal(9,2), day date)";

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn parquet_file(folder: &TempDir, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let path = folder.path().join("data.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let out = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn count(session: &mut SqlSession) -> String {
    rows(session, "SELECT count(*) FROM t").join("")
}

#[test]
fn a_csv_file_with_a_header_is_loaded_by_names() {
    let folder = TempDir::new().unwrap();
    let path = file(
        &folder,
        "a.csv",
        "day,id,name\n2024-01-01,1,\"a, \"\"b\"\"\"\n,2,\n2024-01-03,3,\"two\nlines\"\n",
    );
    let mut session = session(TABLE);
    let sql = format!("COPY t FROM '{}' WITH (FORMAT csv, HEADER)", path.display());
    assert_eq!(tag(&mut session, &sql), "COPY 3");
    assert_eq!(
        rows(&mut session, "SELECT id, name, price, day FROM t ORDER BY id"),
        ["1|a, \"b\"|NULL|2024-01-01", "2|NULL|NULL|NULL", "3|two\nlines|NULL|2024-01-03"]
    );
}

#[test]
fn the_options_of_a_csv_file_are_obeyed() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "data.txt", "1;NA;2.50\r\n2;;3\r\n");
    let mut session = session(TABLE);
    let sql = format!(
        "COPY t (id, name, price) FROM '{}' WITH (FORMAT csv, DELIMITER ';', NULL 'NA')",
        path.display()
    );
    assert_eq!(tag(&mut session, &sql), "COPY 2");
    assert_eq!(
        rows(&mut session, "SELECT id, name, price FROM t ORDER BY id"),
        ["1|NULL|2.50", "2||3.00"]
    );
}

#[test]
fn malformed_csv_names_its_place_and_leaves_the_table_empty() {
    let folder = TempDir::new().unwrap();
    let mut session = session(TABLE);
    let cases = [
        ("1,a,1.00,\n2,b,x,\n", "line 2, column \"price\": \"x\" is not a decimal number"),
        ("1,a,1.00,\n99999999999,b,1,\n", "line 2, column \"id\": \"99999999999\" is out of range"),
        ("1,a,1.00,\n2,b\n", "line 2 has 2 fields, not 4"),
        ("1,a,1.005,\n", "line 1, column \"price\": \"1.005\" has more digits"),
        ("1,a,1,2024-02-30\n", "line 1, column \"day\": \"2024-02-30\" is not a date"),
        ("1,\"a\nb\",1,\n2,b,1,never\n", "line 3, column \"day\""),
        ("1,a,1,\n1,b,2,\n", "line 2: "),
        ("1,a,1,\n,b,2,\n", "line 2, column \"id\": \"\" is not an integer"),
    ];
    for (content, expected) in cases {
        let path = file(&folder, "bad.csv", content);
        let error = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(count(&mut session), "0", "{content}");
    }
}

#[test]
fn a_key_that_is_twice_in_a_file_leaves_the_table_empty() {
    let folder = TempDir::new().unwrap();
    let mut content = String::new();
    for id in (0..9000).chain([77]) {
        content.push_str(&format!("{id},n,1,\n"));
    }
    let path = file(&folder, "twice.csv", &content);
    let mut session = session(TABLE);
    let error = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert_eq!(error.kind(), SqlErrorKind::Constraint);
    assert!(error.message().starts_with("line 9001: "), "{error}");
    assert_eq!(count(&mut session), "0");
}

#[test]
fn files_that_cannot_be_loaded_say_why() {
    let folder = TempDir::new().unwrap();
    let mut session = session(TABLE);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let cases = [
        (format!("COPY t FROM '{}'", at("none.csv")), "cannot read"),
        (format!("COPY t FROM '{}' WITH (FORMAT csv)", folder.path().display()), "a directory"),
        (format!("COPY t FROM '{}'", at("data.bin")), "does not tell its format"),
        (format!("COPY t FROM '{}' WITH (FORMAT orc)", at("a")), "no format \"orc\""),
        (format!("COPY t FROM '{}' WITH (QUOTE '|')", at("a.csv")), "not supported"),
        (format!("COPY u FROM '{}'", at("a.csv")), "table \"u\" does not exist"),
        (format!("COPY t (id, nme) FROM '{}'", at("a.csv")), "column \"nme\" does not exist"),
    ];
    for (sql, expected) in cases {
        let error = error(&mut session, &sql);
        assert!(error.message().contains(expected), "{sql}: {error}");
    }
    let text = file(&folder, "text.parquet", "not parquet");
    let wrong = error(&mut session, &format!("COPY t FROM '{}'", text.display()));
    assert!(wrong.message().contains("is not a Parquet file"), "{wrong}");
    let header = file(&folder, "h.csv", "id,nam\n1,a\n");
    let unknown = error(&mut session, &format!("COPY t FROM '{}' WITH (HEADER)", header.display()));
    assert!(unknown.message().contains("column \"nam\" does not exist"), "{unknown}");
    assert_eq!(unknown.hint(), Some("did you mean name?"));
    let forgot = file(&folder, "f.csv", "id,name,price,day\n1,a,1,\n");
    let hint = error(&mut session, &format!("COPY t FROM '{}'", forgot.display()));
    assert!(hint.hint().unwrap().contains("HEADER"));
    let bytes = folder.path().join("latin.csv");
    std::fs::write(&bytes, b"1,ok,1,\n2,\xff,1,\n").unwrap();
    let utf8 = error(&mut session, &format!("COPY t FROM '{}'", bytes.display()));
    assert!(utf8.message().contains("line 2: the text is not UTF-8"), "{utf8}");
    assert_eq!(count(&mut session), "0");
}

#[test]
fn parquet_columns_are_found_by_name_and_converted() {
    let folder = TempDir::new().unwrap();
    let names: DictionaryArray<Int32Type> =
        vec![Some("x"), None, Some("a value of more than twelve bytes")].into_iter().collect();
    let path = parquet_file(
        &folder,
        vec![
            ("name", Arc::new(names)),
            ("extra", Arc::new(LargeStringArray::from(vec!["p", "q", "r"]))),
            ("at", Arc::new(TimestampNanosecondArray::from(vec![1000, 2000, 3000]))),
            ("ID", Arc::new(Int16Array::from(vec![1, 2, 3]))),
        ],
    );
    let mut session =
        session("CREATE TABLE t (id bigint PRIMARY KEY, extra text, name text, at timestamp)");
    assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", path.display())), "COPY 3");
    assert_eq!(
        rows(&mut session, "SELECT * FROM t ORDER BY id"),
        [
            "1|p|x|1970-01-01T00:00:00.000001",
            "2|q|NULL|1970-01-01T00:00:00.000002",
            "3|r|a value of more than twelve bytes|1970-01-01T00:00:00.000003"
        ]
    );
}

#[test]
fn parquet_values_that_do_not_fit_name_their_row_and_leave_the_table_empty() {
    let folder = TempDir::new().unwrap();
    let path = parquet_file(
        &folder,
        vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("v", Arc::new(Int64Array::from(vec![5, 70000]))),
        ],
    );
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY, v smallint)");
    let range = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert!(
        range.message().starts_with("row 2: column \"v\": 70000 is out of range for smallint"),
        "{range}"
    );
    assert_eq!(count(&mut session), "0");
    let partly = format!("COPY t (id) FROM '{}'", path.display());
    assert_eq!(tag(&mut session, &partly), "COPY 2");
    let missing = parquet_file(&folder, vec![("v", Arc::new(StringArray::from(vec!["1"])))]);
    let error = error(&mut session, &format!("COPY t FROM '{}'", missing.display()));
    assert!(error.message().contains("the file has no column \"id\""), "{error}");
}

#[test]
fn a_parquet_column_that_the_table_has_not_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = parquet_file(
        &folder,
        vec![
            ("id", Arc::new(Int64Array::from(vec![1]))),
            ("w", Arc::new(Int64Array::from(vec![5]))),
        ],
    );
    let mut session = session("CREATE TABLE t (id int PRIMARY KEY)");
    let error = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert!(error.message().contains("column \"w\", which table \"t\" has not"), "{error}");
}

#[test]
fn a_copy_inside_a_transaction_is_part_of_it() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.csv", "1,a,1,\n");
    let mut session = session(TABLE);
    tag(&mut session, "BEGIN");
    assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", path.display())), "COPY 1");
    tag(&mut session, "ROLLBACK");
    assert_eq!(count(&mut session), "0");
}

#[test]
fn progress_ends_at_the_whole_file() {
    let folder = TempDir::new().unwrap();
    let mut content = String::from("id\n");
    (0..20_000).for_each(|id| content.push_str(&format!("{id}\n")));
    let path = file(&folder, "a.csv", &content);
    let db = database();
    let mut session = SqlSession::on_database(db.clone());
    tag(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    let mut seen = Vec::new();
    let loaded = copy_from(&db, "t", &path, Format::csv(), &mut |p| seen.push(p)).unwrap();
    assert_eq!(loaded, 20_000);
    assert!(seen.len() >= 3);
    assert!(seen.windows(2).all(|pair| pair[0].bytes_done <= pair[1].bytes_done));
    let last = seen.last().unwrap();
    assert_eq!((last.bytes_done, last.rows), (content.len() as u64, 20_000));
    assert_eq!(last.bytes_total, content.len() as u64);
}
