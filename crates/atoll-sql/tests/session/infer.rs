//! Tables made for files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use atoll::{DataType, Database};
use atoll_sql::{
    Created, Format, Input, LoadOptions, Loaded, SqlError, SqlErrorKind, SqlSession, copy_from,
    create_table_from,
};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use super::{database, rows};

/// Makes table `a` of a file.
fn create(db: &Database, path: &Path, format: &Format, key: &[&str]) -> Result<Created, SqlError> {
    create_table_from(db, "a", &Input::open(path)?, format, &LoadOptions::default(), key)
}

fn load(db: &Database, path: &Path, format: &Format) -> Result<Loaded, SqlError> {
    copy_from(db, "a", &Input::open(path)?, format, &LoadOptions::default(), None, &mut |_| {})
}

/// Makes a table of a CSV text, loads it, and returns the names and types of its columns and its
/// rows in the order of the first.
fn loaded(content: &str, key: &str) -> (Vec<(String, DataType)>, Vec<String>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, content).unwrap();
    let db = database();
    let created = create(&db, &path, &Format::csv(), &[key]).unwrap();
    let columns = created.table.schema().columns().iter();
    let columns: Vec<_> = columns.map(|column| (column.name.clone(), column.data_type)).collect();
    load(&db, &path, &Format::csv()).unwrap();
    let mut session = SqlSession::on_database(db);
    let all = rows(&mut session, "SELECT * FROM a ORDER BY 1");
    (columns, all)
}

fn refused(content: &str, key: &str) -> SqlError {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, content).unwrap();
    let db = database();
    let error = create(&db, &path, &Format::csv(), &[key]).err().unwrap();
    assert!(db.tables().is_empty());
    error
}

fn column(name: &str, data_type: DataType) -> (String, DataType) {
    (name.to_owned(), data_type)
}

#[test]
fn a_table_made_for_a_csv_file_takes_all_of_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(
        &path,
        "Id,dep,code,ratio,flag,at\n1,2013-01-01,007,1,true,2013-01-01T10:00:00Z\n\
         2,NA,UA,2.5,NA,2013-01-01 11:00:00\n",
    )
    .unwrap();
    let db = database();
    let format = Format::Csv { header: true, delimiter: b',', null: "NA".to_owned() };
    let table = create(&db, &path, &format, &["id"]).unwrap().table;
    let types: Vec<DataType> =
        table.schema().columns().iter().map(|column| column.data_type).collect();
    assert_eq!(
        types,
        [
            DataType::Int64,
            DataType::Date,
            DataType::Text,
            DataType::Float64,
            DataType::Bool,
            DataType::Timestamp
        ]
    );
    assert!(!table.schema().columns()[0].nullable);
    assert_eq!(load(&db, &path, &format).unwrap().inserted, 2);
    let mut session = SqlSession::on_database(db);
    assert_eq!(
        rows(&mut session, "SELECT * FROM a ORDER BY \"Id\""),
        ["1|2013-01-01|007|1.0|true|2013-01-01T10:00:00", "2|NULL|UA|2.5|NULL|2013-01-01T11:00:00"]
    );
}

#[test]
fn a_key_that_the_file_has_not_is_an_error_and_makes_no_table() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "id,name\n1,a\n").unwrap();
    let db = database();
    let error = create(&db, &path, &Format::csv(), &["idd"]).err().unwrap();
    assert_eq!(error.kind(), SqlErrorKind::UnknownColumn);
    assert_eq!(error.hint(), Some("did you mean id?"));
    assert!(db.tables().is_empty());
}

#[test]
fn codes_keep_every_character() {
    let (columns, all) = loaded(
        "id,phone,code,n,flag\n1,+4915112345678,NAN,9007199254740993,-true\n\
         2,+33,INF,0.5,true\n3,+1,Nan,-1,false\n",
        "id",
    );
    let number = DataType::Decimal { precision: 17, scale: 1 };
    assert_eq!(
        columns,
        [
            column("id", DataType::Int64),
            column("phone", DataType::Text),
            column("code", DataType::Text),
            column("n", number),
            column("flag", DataType::Text),
        ]
    );
    assert_eq!(
        all,
        [
            "1|+4915112345678|NAN|9007199254740993.0|-true",
            "2|+33|INF|0.5|true",
            "3|+1|Nan|-1.0|false"
        ]
    );
}

#[test]
fn empty_texts_are_told_from_fields_without_a_value() {
    let (columns, all) = loaded("id,a,b,c\n1,,\"\",\n2,\"\",x,\"5\"\n", "id");
    let types: Vec<DataType> = columns.into_iter().map(|(_, data_type)| data_type).collect();
    assert_eq!(types, [DataType::Int64, DataType::Text, DataType::Text, DataType::Int64]);
    assert_eq!(all, ["1|NULL||NULL", "2||x|5"]);
}

#[test]
fn columns_without_a_name_get_one_and_others_keep_theirs() {
    // As pandas and R write their row names.
    let (columns, all) = loaded("\"\",\"Name\",name\n\"0\",x,y\n\"1\",z,\n", "column1");
    assert_eq!(
        columns,
        [
            column("column1", DataType::Int64),
            column("Name", DataType::Text),
            column("name", DataType::Text)
        ]
    );
    assert_eq!(all, ["0|x|y", "1|z|NULL"]);
    for key in ["ID", "id", "Id"] {
        let (columns, _) = loaded("ID,v\n1,2\n", key);
        assert_eq!(columns[0].0, "ID");
    }
    let ambiguous = refused("Name,name\n1,2\n", "NAME");
    assert_eq!(ambiguous.hint(), Some("did you mean Name or name?"));
    let twice = refused("a,b,a\n1,2,3\n", "b");
    assert_eq!(twice.message(), "line 1 names column \"a\" twice");
}

#[test]
fn a_quoted_column_is_loaded_again_by_its_header() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "Id,,Name,name\n1,2,x,y\n").unwrap();
    let db = database();
    let created = create(&db, &path, &Format::csv(), &["ID"]).unwrap();
    assert_eq!(created.named, ["column2"]);
    load(&db, &path, &Format::csv()).unwrap();
    std::fs::write(&path, "NAME,id\nz,2\n").unwrap();
    let ambiguous = load(&db, &path, &Format::csv()).err().unwrap();
    assert!(ambiguous.message().contains("column \"NAME\" does not exist"), "{ambiguous}");
    std::fs::write(&path, "name,ID,\nz,2,9\n").unwrap();
    let other = load(&db, &path, &Format::csv()).err().unwrap();
    assert!(other.message().contains("column \"column3\" does not exist"), "{other}");
    std::fs::write(&path, "ID,,name\n2,9,z\n").unwrap();
    load(&db, &path, &Format::csv()).unwrap();
    let mut session = SqlSession::on_database(db);
    let sql = "SELECT \"Id\", column2, \"Name\", name FROM a ORDER BY 1";
    assert_eq!(rows(&mut session, sql), ["1|2|x|y", "2|9|NULL|z"]);
}

#[test]
fn too_many_columns_are_refused_before_anything_else_is_looked_at() {
    let names: Vec<String> = (1..=1700).map(|at| format!("c{at}")).collect();
    // What follows is malformed, and is not reached.
    let error = refused(&format!("{}\n1,\"", names.join(",")), "c1");
    let wanted = "the file has 1700 columns and a table at most 1600; the first too many is \
                  \"c1601\"";
    assert_eq!((error.message(), error.kind()), (wanted, SqlErrorKind::Schema));

    let folder = TempDir::new().unwrap();
    let columns =
        names.iter().map(|name| (name.as_str(), Arc::new(Int64Array::from(vec![1])) as ArrayRef));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path: PathBuf = folder.path().join("a.parquet");
    let out = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let db = database();
    let error = create(&db, &path, &Format::Parquet, &["c1"]).err().unwrap();
    assert_eq!(error.message(), wanted);

    let mut session = SqlSession::on_database(db);
    let list: Vec<String> = names.iter().map(|name| format!("{name} int")).collect();
    let sql = format!("CREATE TABLE a ({}, PRIMARY KEY (c1))", list.join(", "));
    let error = session.execute(&sql).err().unwrap();
    for part in ["at most 1600", "1700", "c1601"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_key_without_a_value_is_found_before_the_table_is_made() {
    let error = refused("id,n\n1,2\n,3\n", "id");
    assert_eq!(error.message(), "line 3, column \"id\" must not be NULL");
    let error = refused("id\n1\n\n2\n", "id");
    assert_eq!(error.message(), "line 3, column \"id\" must not be NULL");
    let error = refused("id,n\n1,\"2\n3,4\n", "id");
    assert_eq!(error.message(), "line 2, field 2: the quote that opens here never closes");
}
