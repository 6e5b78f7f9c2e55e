//! Tables made for files.

use atoll::DataType;
use atoll_sql::{Format, SqlErrorKind, SqlSession, copy_from, create_table_from};
use tempfile::TempDir;

use super::{database, rows};

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
    let table = create_table_from(&db, "a", &path, &format, &["id"]).unwrap();
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
    assert_eq!(copy_from(&db, "a", &path, format, &mut |_| {}).unwrap(), 2);
    let mut session = SqlSession::on_database(db);
    assert_eq!(
        rows(&mut session, "SELECT * FROM a ORDER BY id"),
        ["1|2013-01-01|007|1.0|true|2013-01-01T10:00:00", "2|NULL|UA|2.5|NULL|2013-01-01T11:00:00"]
    );
}

#[test]
fn a_key_that_the_file_has_not_is_an_error_and_makes_no_table() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "id,name\n1,a\n").unwrap();
    let db = database();
    let error = create_table_from(&db, "a", &path, &Format::csv(), &["idd"]).err().unwrap();
    assert_eq!(error.kind(), SqlErrorKind::UnknownColumn);
    assert_eq!(error.hint(), Some("did you mean id?"));
    assert!(db.tables().is_empty());
}
