//! Files into tables: whole or not at all.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int16Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use atoll_sql::{Cause, Format, Input, LoadOptions, SqlErrorKind, SqlSession, copy_from};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::{database, error, rows, session, tag};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, name text, price decimal(9,2), day date)";

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn parquet_file(folder: &TempDir, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    compressed_parquet_file(folder, columns, Compression::UNCOMPRESSED)
}

fn compressed_parquet_file(
    folder: &TempDir,
    columns: Vec<(&str, ArrayRef)>,
    compression: Compression,
) -> PathBuf {
    let path = folder.path().join("data.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let out = std::fs::File::create(&path).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties)).unwrap();
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
        ("1,a,1,\n,b,2,\n", "line 2, column \"id\" must not be NULL"),
        ("1,a,1,\n\"\",b,2,\n", "line 2, column \"id\": \"\" is not an integer"),
        ("1,a,1,\n2,\"b,2,\n3,c,1,\n", "line 2, field 2: the quote that opens here never"),
        ("1,\"5\" pipe\",1,\n", "line 1, field 2: text follows the closing quote"),
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
    let wanted = "line 9001: table \"t\" has a row with key id = 77 already";
    assert_eq!(error.message(), wanted);
    assert_eq!(error.cause(), Some(Cause::DuplicateKey));
    assert!(error.hint().unwrap().contains("ON_CONFLICT skip"), "{error:?}");
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
    let input = Input::open(&path).unwrap();
    let (format, options) = (Format::csv(), LoadOptions::default());
    let loaded =
        copy_from(&db, "t", &input, &format, &options, None, &mut |p| seen.push(p)).unwrap();
    assert_eq!((loaded.inserted, loaded.skipped, loaded.replaced), (20_000, 0, 0));
    assert!(seen.len() >= 3);
    assert!(seen.windows(2).all(|pair| pair[0].bytes_done <= pair[1].bytes_done));
    let last = seen.last().unwrap();
    assert_eq!((last.bytes_done, last.rows), (content.len() as u64, 20_000));
    assert_eq!(last.bytes_total, content.len() as u64);
}

#[test]
fn quoted_fields_are_text_and_plain_ones_may_be_null() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.csv", "1,,NULL\n2,\"\",\"NULL\"\n3,\" \",null\n4,\"NULL\",\"\"\n");
    let table = "CREATE TABLE t (id int PRIMARY KEY, a text, b text)";
    for (options, wanted) in [
        ("FORMAT csv", ["1|NULL|NULL", "2||NULL", "3| |null", "4|NULL|"]),
        ("FORMAT csv, NULL 'NULL'", ["1||NULL", "2||NULL", "3| |null", "4|NULL|"]),
    ] {
        let mut session = session(table);
        tag(&mut session, &format!("COPY t FROM '{}' WITH ({options})", path.display()));
        assert_eq!(rows(&mut session, "SELECT id, a, b FROM t ORDER BY id"), wanted);
        let empty = "SELECT id FROM t WHERE a IS NULL OR b IS NULL ORDER BY id";
        assert_eq!(rows(&mut session, empty), ["1"], "{options}");
    }
}

#[test]
fn an_empty_text_in_a_column_that_must_not_be_null_is_quoted() {
    let folder = TempDir::new().unwrap();
    let mut session = session("CREATE TABLE t (id int, part text, PRIMARY KEY (id, part))");
    let path = file(&folder, "a.csv", "1,\"\"\n2,x\n");
    assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", path.display())), "COPY 2");
    let path = file(&folder, "b.csv", "3,x\n4,\n");
    let null = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert_eq!(null.message(), "line 2, column \"part\" must not be NULL");
    assert!(null.hint().unwrap().contains("\"\""), "{null:?}");
    assert_eq!(count(&mut session), "2");
}

#[test]
fn a_blank_line_in_a_file_of_one_column_is_no_row_that_gets_lost() {
    let folder = TempDir::new().unwrap();
    let mut session = session("CREATE TABLE t (id text PRIMARY KEY)");
    let path = file(&folder, "a.csv", "a\nb\n\n\n");
    assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", path.display())), "COPY 2");
    let path = file(&folder, "b.csv", "c\n\n\nd\n");
    let blank = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert_eq!(blank.message(), "line 2, column \"id\" must not be NULL");
}

#[test]
fn a_byte_order_mark_is_part_of_no_value() {
    let folder = TempDir::new().unwrap();
    for (content, options) in [
        ("\u{feff}id,name\n7,a\n", "HEADER"),
        ("\u{feff}\"id\",\"name\"\n7,a\n", "HEADER"),
        ("\u{feff}7,a\n", "HEADER FALSE"),
    ] {
        let path = file(&folder, "bom.csv", content);
        let mut session = session("CREATE TABLE t (id int PRIMARY KEY, name text)");
        tag(&mut session, &format!("COPY t FROM '{}' WITH ({options})", path.display()));
        assert_eq!(rows(&mut session, "SELECT * FROM t"), ["7|a"]);
    }
    let mut session = session("\u{feff}CREATE TABLE t (id int PRIMARY KEY)");
    tag(&mut session, "\u{feff}INSERT INTO t VALUES (1)");
}

#[test]
fn keys_that_exist_are_skipped_or_replaced_if_that_is_wanted() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.csv", "id,name\n1,new\n2,b\n2,again\n3,c\n");
    let before = "CREATE TABLE t (id int PRIMARY KEY, name text, n int);
        INSERT INTO t VALUES (1, 'old', 7)";
    for (option, wanted, all) in [
        ("skip", "COPY 2, 2 skipped", ["1|old|7", "2|b|NULL", "3|c|NULL"]),
        (
            "REPLACE",
            "COPY 4, 2 of them replaced others",
            ["1|new|NULL", "2|again|NULL", "3|c|NULL"],
        ),
    ] {
        let mut session = session(before);
        let sql = format!(
            "COPY t FROM '{}' WITH (FORMAT csv, HEADER, ON_CONFLICT {option})",
            path.display()
        );
        assert_eq!(tag(&mut session, &sql), wanted);
        assert_eq!(rows(&mut session, "SELECT * FROM t ORDER BY id"), all);
        // In a transaction, too.
        tag(&mut session, "BEGIN");
        assert!(tag(&mut session, &sql).contains(option.to_lowercase().as_str()));
        tag(&mut session, "COMMIT");
    }
    let mut session = session(before);
    for (options, kind, wanted) in [
        ("ON_CONFLICT maybe", SqlErrorKind::Syntax, "ON_CONFLICT is fail, skip or replace"),
        ("ON_CONFLICT", SqlErrorKind::Syntax, "ON_CONFLICT is fail, skip or replace"),
        ("ON_ERROR ignore", SqlErrorKind::Unsupported, "WITH (ON_ERROR) is not supported"),
        ("TRUNCATE_TIMESTAMPS 3", SqlErrorKind::Syntax, "is true or false, not 3"),
    ] {
        let sql = format!("COPY t FROM '{}' WITH ({options})", path.display());
        let error = error(&mut session, &sql);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(wanted), "{error}");
        assert!(error.position().is_some());
    }
}

#[test]
fn values_that_a_unique_index_has_are_told_and_skipped_but_never_replaced() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.csv", "2,b@x,1990-05-01\n3,a@x,\n4,,\n5,,\n2,c@x,\n");
    let before = "CREATE TABLE t (id int PRIMARY KEY, mail text, born date, UNIQUE (mail),
        UNIQUE (born, mail)); INSERT INTO t VALUES (1, 'a@x', NULL)";
    let copy = |option: &str| format!("COPY t FROM '{}' {option}", path.display());
    let taken = "line 2: table \"t\" has a row with mail = 'a@x' already, and its index \
                 \"t_mail_key\" is unique";
    for option in ["", "WITH (ON_CONFLICT replace)"] {
        let mut session = session(before);
        let error = error(&mut session, &copy(option));
        assert_eq!((error.message(), error.cause()), (taken, Some(Cause::DuplicateKey)));
        assert_eq!(count(&mut session), "1");
    }
    let mut session = session(before);
    assert_eq!(tag(&mut session, &copy("WITH (ON_CONFLICT skip)")), "COPY 3, 2 skipped");
    let ids = rows(&mut session, "SELECT id FROM t ORDER BY id");
    assert_eq!(ids, ["1", "2", "4", "5"]);
}

#[test]
fn a_key_is_shown_as_it_is_written() {
    let mut session = session(
        "CREATE TABLE t (day date, name text, at timestamp, price decimal(9,2),
        PRIMARY KEY (day, name, at, price));
        INSERT INTO t VALUES ('2024-05-01', 'it''s', '2024-05-01 10:00:00.5', 1.5)",
    );
    let again = "INSERT INTO t VALUES ('2024-05-01', 'it''s', '2024-05-01 10:00:00.5', 1.5)";
    let error = error(&mut session, again);
    assert_eq!(
        (error.kind(), error.cause()),
        (SqlErrorKind::Constraint, Some(Cause::DuplicateKey))
    );
    assert_eq!(
        error.message(),
        "table \"t\" has a row with key day = '2024-05-01', name = 'it''s', \
         at = '2024-05-01 10:00:00.5', price = 1.50 already"
    );
}

#[test]
fn fine_timestamps_are_refused_unless_they_may_be_cut() {
    let folder = TempDir::new().unwrap();
    let csv =
        file(&folder, "a.csv", "1,2024-01-01 10:00:00.123456\n2,1969-12-31 23:59:59.999999999Z\n");
    let nanos = TimestampNanosecondArray::from(vec![1_704_103_200_123_456_000, -1]);
    let parquet = parquet_file(
        &folder,
        vec![("id", Arc::new(Int64Array::from(vec![1, 2]))), ("at", Arc::new(nanos))],
    );
    for (path, place) in [(csv, "line 2, column"), (parquet, "row 2: column")] {
        let mut session = session("CREATE TABLE t (id bigint PRIMARY KEY, at timestamp)");
        let copy = format!("COPY t FROM '{}'", path.display());
        let fine = error(&mut session, &copy);
        assert_eq!(fine.cause(), Some(Cause::FineTimestamp), "{fine}");
        let wanted = "23:59:59.999999999";
        assert!(fine.message().contains(place) && fine.message().contains(wanted), "{fine}");
        assert!(fine.hint().unwrap().contains("TRUNCATE_TIMESTAMPS"), "{fine:?}");
        assert_eq!(count(&mut session), "0");
        let cut = format!("{copy} WITH (TRUNCATE_TIMESTAMPS)");
        assert_eq!(tag(&mut session, &cut), "COPY 2");
        assert_eq!(
            rows(&mut session, "SELECT at FROM t ORDER BY id"),
            ["2024-01-01T10:00:00.123456", "1969-12-31T23:59:59.999999"]
        );
    }
}

#[test]
fn parquet_of_every_compression_is_read() {
    let folder = TempDir::new().unwrap();
    for compression in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let ids: Vec<i64> = (0..1000).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(Int64Array::from(ids)))];
        let path = compressed_parquet_file(&folder, columns, compression);
        let mut session = session("CREATE TABLE t (id bigint PRIMARY KEY)");
        let copy = format!("COPY t FROM '{}'", path.display());
        assert_eq!(tag(&mut session, &copy), "COPY 1000", "{compression:?}");
    }
}

/// Compresses as `gzip` does.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_are_read_whatever_their_name() {
    let folder = TempDir::new().unwrap();
    let content: String = (0..20_000).map(|id| format!("{id},name {id}\n")).collect();
    let gzip = gzip(content.as_bytes());
    let zstd = zstd::encode_all(content.as_bytes(), 1).unwrap();
    for (name, bytes) in [("a.csv.gz", &gzip), ("a.csv.zst", &zstd), ("a.csv", &gzip)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut session = session("CREATE TABLE t (id bigint PRIMARY KEY, name text)");
        let copy = format!("COPY t FROM '{}'", path.display());
        assert_eq!(tag(&mut session, &copy), "COPY 20000", "{name}");
        // Without its end nothing is loaded.
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut session = self::session("CREATE TABLE t (id bigint PRIMARY KEY, name text)");
        let error = error(&mut session, &copy);
        assert!(error.message().contains(name) && error.message().contains("truncated"), "{error}");
        assert_eq!(count(&mut session), "0");
    }
    let mut session = session("CREATE TABLE t (id bigint PRIMARY KEY, name text)");
    let path = parquet_file(&folder, vec![("id", Arc::new(Int64Array::from(vec![1])))]);
    let packed = folder.path().join("b.parquet.gz");
    std::fs::write(&packed, self::gzip(&std::fs::read(path).unwrap())).unwrap();
    assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", packed.display())), "COPY 1");
    let other = file(&folder, "c.csv.xz", "\u{fd}");
    std::fs::write(&other, [0xfd, b'7', b'z', b'X', b'Z', 0, 0]).unwrap();
    let error = error(&mut session, &format!("COPY t FROM '{}'", other.display()));
    assert!(error.message().contains("xz data"), "{error}");
}

#[test]
fn a_fifo_is_read_once_and_whole() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || {
            let content: String = (0..50_000).map(|id| format!("{id}\n")).collect();
            std::fs::write(path, content).unwrap();
        }
    });
    let mut session = session("CREATE TABLE t (id bigint PRIMARY KEY)");
    let copy = format!("COPY t FROM '{}' WITH (FORMAT csv)", path.display());
    assert_eq!(tag(&mut session, &copy), "COPY 50000");
    writer.join().unwrap();
}

#[test]
fn a_file_takes_the_defaults_of_its_table_and_keeps_its_conditions() {
    const RULED: &str = "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL DEFAULT 'al' || \
                         'one', price decimal(9,2) DEFAULT 2 CHECK (price > 0))";
    let folder = TempDir::new().unwrap();
    let good = file(&folder, "good.csv", "id,price\n1,5\n2,\n");
    let bad = file(&folder, "bad.csv", "id,price\n3,5\n4,-1\n");
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    let parquet = parquet_file(&folder, vec![("id", ids)]);
    // In an empty table, which is loaded in bulk, and in one that transactions use.
    for first in ["", "INSERT INTO t VALUES (0, 'a', 1)", "DELETE FROM t WHERE id = 0"] {
        let mut session = session(RULED);
        if !first.is_empty() {
            tag(&mut session, first);
        }
        let load = |path: &PathBuf| format!("COPY t FROM '{}' WITH (HEADER)", path.display());
        let refused = error(&mut session, &load(&bad));
        assert_eq!(refused.cause(), Some(Cause::CheckViolation));
        assert!(refused.message().contains("line 3"), "{}", refused.message());
        assert_eq!(tag(&mut session, &load(&good)), "COPY 2");
        assert_eq!(tag(&mut session, &format!("COPY t FROM '{}'", parquet.display())), "COPY 2");
        assert_eq!(
            rows(&mut session, "SELECT id, name, price FROM t WHERE id > 0 ORDER BY id"),
            ["1|alone|5.00", "2|alone|NULL", "5|alone|2.00", "6|alone|2.00"]
        );
        let columns = format!("COPY t (id) FROM '{}'", file(&folder, "c.csv", "7\n").display());
        assert_eq!(tag(&mut session, &columns), "COPY 1");
        assert_eq!(rows(&mut session, "SELECT name, price FROM t WHERE id = 7"), ["alone|2.00"]);
    }
}

#[test]
fn loads_compute_generated_columns() {
    let folder = TempDir::new().unwrap();
    let mut session = session(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, \
         c int DEFAULT 7, d int GENERATED ALWAYS AS (c + 1) STORED NOT NULL CHECK (d < 100))",
    );
    let copy = |name: &str, content: &str, columns: &str, more: &str| {
        let path = file(&folder, name, content);
        format!("COPY t{columns} FROM '{}' WITH (FORMAT csv{more})", path.display())
    };
    // A table that no transaction has used, and then one that is used.
    for begin in ["", "BEGIN"] {
        tag(&mut session, "DELETE FROM t");
        if !begin.is_empty() {
            tag(&mut session, begin);
        }
        tag(&mut session, &copy("a.csv", "1,10,20\n2,,30\n", "", ""));
        tag(&mut session, &copy("b.csv", "3\n", " (id)", ""));
        tag(&mut session, &copy("c.csv", "a,id\n5,4\n", "", ", HEADER"));
        if !begin.is_empty() {
            tag(&mut session, "COMMIT");
        }
        assert_eq!(
            rows(&mut session, "SELECT id, a, b, c, d FROM t ORDER BY id"),
            ["1|10|20|20|21", "2|NULL|NULL|30|31", "3|NULL|NULL|7|8", "4|5|10|7|8"]
        );
    }
    let replace = ", ON_CONFLICT replace";
    tag(&mut session, &copy("d.csv", "1,11,50\n", "", replace));
    assert_eq!(rows(&mut session, "SELECT b, d FROM t WHERE id = 1"), ["22|51"]);
    assert_eq!(error(&mut session, &copy("e.csv", "9,9,99\n", "", "")).sqlstate(), "23514");
    for (columns, header, content) in [(" (id, b)", "", "9,9\n"), ("", ", HEADER", "id,b\n9,9\n")] {
        let refused = error(&mut session, &copy("f.csv", content, columns, header));
        assert_eq!(refused.sqlstate(), "42P10");
        assert_eq!(refused.detail(), Some("Generated columns cannot be used in COPY."));
    }
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![21, 22]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let path = parquet_file(&folder, vec![("id", ids.clone()), ("a", values.clone())]);
    tag(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert_eq!(rows(&mut session, "SELECT b, d FROM t WHERE id > 20 ORDER BY id"), ["2|8", "4|8"]);
    let path = parquet_file(&folder, vec![("id", ids), ("b", values)]);
    let refused = error(&mut session, &format!("COPY t FROM '{}'", path.display()));
    assert_eq!(refused.sqlstate(), "42P10");
}

/// Columns of a Parquet file can be taken as they are, but not past the rules of the table.
#[test]
fn whole_batches_are_under_the_rules_of_their_table() {
    let folder = TempDir::new().unwrap();
    let ints = |values: Vec<i32>| Arc::new(arrow_array::Int32Array::from(values)) as ArrayRef;
    let path = parquet_file(&folder, vec![("id", ints(vec![1, 2])), ("p", ints(vec![1, 3]))]);
    let copy = format!("COPY t FROM '{}' WITH (FORMAT parquet)", path.display());
    for (rule, state) in [
        ("p int CHECK (p < 3)", Some("23514")),
        ("p int REFERENCES parent", Some("23503")),
        ("p int, twice int GENERATED ALWAYS AS (p * 2) STORED", None),
        ("p int, later int DEFAULT 9", None),
    ] {
        let mut session = session("CREATE TABLE parent (id int PRIMARY KEY)");
        tag(&mut session, "INSERT INTO parent VALUES (1), (2)");
        tag(&mut session, &format!("CREATE TABLE t (id int PRIMARY KEY, {rule})"));
        // A table that no transaction has used is filled in another way.
        for is_used in [false, true] {
            if is_used {
                assert_eq!(rows(&mut session, "SELECT id FROM t WHERE id = 77").len(), 0);
            }
            match state {
                Some(state) => {
                    assert_eq!(error(&mut session, &copy).sqlstate(), state, "{rule}");
                    assert_eq!(count(&mut session), "0", "{rule}");
                }
                None => {
                    assert_eq!(tag(&mut session, &copy), "COPY 2", "{rule}");
                    let third = if rule.contains("twice") { ["2", "6"] } else { ["9", "9"] };
                    let found = rows(&mut session, "SELECT * FROM t ORDER BY id");
                    assert_eq!(found, [format!("1|1|{}", third[0]), format!("2|3|{}", third[1])]);
                    tag(&mut session, "DELETE FROM t");
                }
            }
        }
    }
}

#[test]
fn a_condition_chooses_the_rows_of_a_file() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.csv", "1,a,1.5\n2,b,2.5\n3,,3.5\n4,d,9.5\n");
    let mut session = session(TABLE);
    let copy = |rest: &str| format!("COPY t (id, name, price) FROM '{}' {rest}", path.display());
    let sql = copy("WITH (FORMAT csv) WHERE t.id > 1 AND lower(name) <> 'd'");
    assert_eq!(tag(&mut session, &sql), "COPY 1");
    assert_eq!(rows(&mut session, "SELECT id, name, day FROM t"), ["2|b|NULL"]);
    assert_eq!(tag(&mut session, &copy("(FORMAT csv) WHERE price = 1.5")), "COPY 1");
    // A default is there, and what is computed is not yet.
    tag(
        &mut session,
        "CREATE TABLE c (id int, d int DEFAULT 7, g int GENERATED ALWAYS AS (id) STORED)",
    );
    let lines = file(&folder, "c.csv", "1\n2\n");
    let copy_c = |rest: &str| format!("COPY c (id) FROM '{}' CSV WHERE {rest}", lines.display());
    assert_eq!(tag(&mut session, &copy_c("d = 7 AND g IS NULL AND id = 2")), "COPY 1");
    assert_eq!(rows(&mut session, "SELECT * FROM c"), ["2|7|2"]);
    for (rest, state) in [
        ("CSV WHERE nothing > 1", "42703"),
        ("CSV WHERE id", "42804"),
        ("CSV WHERE count(*) > 1", "42803"),
        ("CSV WHERE id IN (SELECT 1)", "0A000"),
        ("CSV WHERE id = 1 FROM t", "42601"),
        ("CSV WHERE", "42601"),
    ] {
        let failed = error(&mut session, &copy(rest));
        assert_eq!(failed.sqlstate(), state, "{rest}: {}", failed.message());
    }
    assert_eq!(count(&mut session), "2");
}
