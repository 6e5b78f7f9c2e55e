//! The driver through its C interface, as a driver manager uses it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use adbc_core::constants as name;
use adbc_core::error::{Error, Status};
use adbc_core::options::{
    AdbcVersion, ObjectDepth, OptionConnection, OptionDatabase, OptionStatement, OptionValue,
};
use adbc_core::{Connection as _, Database as _, Driver as _, Optionable, Statement as _};
use adbc_driver_manager::{
    ManagedConnection as Connection, ManagedDatabase as Database, ManagedDriver,
    ManagedStatement as Statement,
};
use adbc_ffi::FFI_AdbcDriverInitFunc;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, FixedSizeBinaryArray, Int16Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use atoll_adbc::AtollDriverInit;

fn driver() -> ManagedDriver {
    let entry: FFI_AdbcDriverInitFunc = AtollDriverInit;
    ManagedDriver::load_static(&entry, AdbcVersion::V110).unwrap()
}

fn database() -> Database {
    driver().new_database().unwrap()
}

fn connection() -> Connection {
    database().new_connection().unwrap()
}

fn statement(connection: &mut Connection, text: &str) -> Statement {
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(text).unwrap();
    statement
}

fn run(connection: &mut Connection, text: &str) -> Result<i64, Error> {
    Ok(statement(connection, text).execute_update()?.unwrap())
}

fn batches(statement: &mut Statement) -> Result<(Arc<Schema>, Vec<RecordBatch>), Error> {
    let rows = statement.execute()?;
    Ok((rows.schema(), rows.map(Result::unwrap).collect()))
}

/// The first column of a query, of integers.
fn numbers(connection: &mut Connection, text: &str) -> Vec<i64> {
    let (_, batches) = batches(&mut statement(connection, text)).unwrap();
    let column = |batch: &RecordBatch| {
        let wide = arrow_cast::cast(batch.column(0), &DataType::Int64).unwrap();
        wide.as_primitive::<Int64Type>().values().to_vec()
    };
    batches.iter().flat_map(column).collect()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn ints(values: Vec<i32>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

fn state(error: &Error) -> String {
    error.sqlstate.iter().map(|one| *one as u8 as char).collect()
}

fn set(connection: &mut Connection, key: OptionConnection, value: &str) -> Result<(), Error> {
    connection.set_option(key, OptionValue::from(value))
}

fn ingest(
    connection: &mut Connection,
    table: &str,
    mode: &str,
    rows: RecordBatch,
) -> Result<i64, Error> {
    let mut statement = connection.new_statement().unwrap();
    statement.set_option(OptionStatement::TargetTable, table.into())?;
    statement.set_option(OptionStatement::IngestMode, mode.into())?;
    statement.bind(rows)?;
    Ok(statement.execute_update()?.unwrap())
}

#[test]
fn a_query_clears_the_target_and_the_reverse() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    let mut statement = statement(&mut connection, "SELECT * FROM t");
    statement.set_option(OptionStatement::TargetTable, "t".into()).unwrap();
    statement
        .set_option(OptionStatement::IngestMode, name::ADBC_INGEST_OPTION_MODE_APPEND.into())
        .unwrap();
    statement.bind(batch(vec![("a", ints(vec![1, 2]))])).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(2));
    let unset = statement.execute_update().unwrap_err();
    assert_eq!(unset.status, Status::InvalidState, "{unset}");
    statement.set_sql_query("SELECT a FROM t ORDER BY a").unwrap();
    assert!(statement.get_option_string(OptionStatement::TargetTable).is_err());
    let (_, found) = batches(&mut statement).unwrap();
    assert_eq!(found[0].column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
}

#[test]
fn ingestion_is_all_or_nothing() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY, b bigint NOT NULL)").unwrap();
    run(&mut connection, "INSERT INTO t VALUES (3, 3)").unwrap();
    let append = name::ADBC_INGEST_OPTION_MODE_APPEND;
    let rows = |keys: Vec<i32>| {
        let count = keys.len();
        batch(vec![("a", ints(keys)), ("b", Arc::new(Int64Array::from(vec![0; count])))])
    };
    let twice = ingest(&mut connection, "t", append, rows(vec![1, 2, 3])).unwrap_err();
    assert_eq!((twice.status, state(&twice).as_str()), (Status::Integrity, "23505"));
    assert_eq!(numbers(&mut connection, "SELECT a FROM t"), [3]);

    set(&mut connection, OptionConnection::AutoCommit, "false").unwrap();
    assert_eq!(ingest(&mut connection, "t", append, rows(vec![1])).unwrap(), 1);
    ingest(&mut connection, "t", append, rows(vec![2, 3])).unwrap_err();
    let doomed = statement(&mut connection, "SELECT 1").execute_update().unwrap_err();
    assert_eq!(state(&doomed), "25P02");
    let ended = connection.commit().unwrap_err();
    assert_eq!(state(&ended), "40000");
    assert_eq!(numbers(&mut connection, "SELECT a FROM t"), [3]);
    connection.rollback().unwrap();
    assert_eq!(ingest(&mut connection, "t", append, rows(vec![1, 2])).unwrap(), 2);
    connection.rollback().unwrap();
    assert_eq!(numbers(&mut connection, "SELECT a FROM t"), [3]);

    // What does not fit changes nothing, and ends no transaction.
    run(&mut connection, "INSERT INTO t VALUES (9, 9)").unwrap();
    let extra = batch(vec![("a", ints(vec![1])), ("c", ints(vec![1]))]);
    let extra = ingest(&mut connection, "t", append, extra).unwrap_err();
    assert_eq!(extra.status, Status::AlreadyExists, "{extra}");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let other = batch(vec![("a", text), ("b", ints(vec![1]))]);
    assert_eq!(
        ingest(&mut connection, "t", append, other).unwrap_err().status,
        Status::AlreadyExists
    );
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let null = batch(vec![("a", ints(vec![1])), ("b", null)]);
    assert_eq!(state(&ingest(&mut connection, "t", append, null).unwrap_err()), "23502");
    connection.commit().unwrap();
    assert_eq!(numbers(&mut connection, "SELECT a FROM t ORDER BY a"), [3, 9]);
}

#[test]
fn ingestion_has_four_modes() {
    let mut connection = connection();
    let rows = |keys: Vec<i32>| batch(vec![("a b", ints(keys.clone())), ("c", ints(keys))]);
    let modes = [
        name::ADBC_INGEST_OPTION_MODE_APPEND,
        name::ADBC_INGEST_OPTION_MODE_CREATE,
        name::ADBC_INGEST_OPTION_MODE_REPLACE,
        name::ADBC_INGEST_OPTION_MODE_CREATE_APPEND,
    ];
    let [append, create, replace, create_append] = modes;
    let missing = ingest(&mut connection, "T", append, rows(vec![1])).unwrap_err();
    assert_eq!((missing.status, state(&missing).as_str()), (Status::NotFound, "42P01"));
    let twice = ingest(&mut connection, "T", create, rows(vec![1, 1])).unwrap_err();
    assert!(twice.message.contains("atoll.ingest.primary_key"), "{twice}");
    assert_eq!(ingest(&mut connection, "T", create, rows(vec![1, 2])).unwrap(), 2);
    let exists = ingest(&mut connection, "T", create, rows(vec![3])).unwrap_err();
    assert_eq!((exists.status, state(&exists).as_str()), (Status::AlreadyExists, "42P07"));
    assert_eq!(ingest(&mut connection, "T", create_append, rows(vec![3])).unwrap(), 1);
    let drop = ingest(&mut connection, "T", replace, rows(vec![4])).unwrap_err();
    assert_eq!((drop.status, state(&drop).as_str()), (Status::NotImplemented, "0A000"));
    assert_eq!(ingest(&mut connection, "u", replace, rows(vec![4])).unwrap(), 1);
    assert_eq!(ingest(&mut connection, "v", create_append, rows(vec![])).unwrap(), 0);
    let keys = numbers(&mut connection, "SELECT \"a b\" FROM \"T\" ORDER BY 1");
    assert_eq!(keys, [1, 2, 3]);
    let key = OptionConnection::Other("atoll.ingest.primary_key".into());
    set(&mut connection, key, "c, a b").unwrap();
    ingest(&mut connection, "w", create, rows(vec![1])).unwrap();
    let same = "INSERT INTO w VALUES (2, 1)";
    run(&mut connection, same).unwrap();
    assert_eq!(state(&run(&mut connection, same).unwrap_err()), "23505");
}

#[test]
fn a_created_table_has_the_types_of_its_data() {
    let mut connection = connection();
    let bytes = FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap();
    let money = Decimal128Array::from(vec![1]).with_precision_and_scale(12, 3).unwrap();
    let rows = batch(vec![
        ("small", Arc::new(Int16Array::from(vec![1])) as ArrayRef),
        ("large", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("money", Arc::new(money)),
        ("bytes", Arc::new(bytes)),
        ("nothing", arrow_array::new_null_array(&DataType::Null, 1)),
        (
            "dictionary",
            Arc::new(vec!["a"].into_iter().collect::<arrow_array::DictionaryArray<Int32Type>>()),
        ),
        (
            "moment",
            arrow_array::new_null_array(
                &DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("UTC".into())),
                1,
            ),
        ),
        ("day", arrow_array::new_null_array(&DataType::Date32, 1)),
        ("real", arrow_array::new_null_array(&DataType::Float32, 1)),
        ("double", arrow_array::new_null_array(&DataType::Float64, 1)),
        ("truth", arrow_array::new_null_array(&DataType::Boolean, 1)),
        ("blob", arrow_array::new_null_array(&DataType::LargeBinary, 1)),
    ]);
    ingest(&mut connection, "t", name::ADBC_INGEST_OPTION_MODE_CREATE, rows).unwrap();
    let schema = connection.get_table_schema(None, Some("public"), "t").unwrap();
    let types: Vec<String> =
        schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    let expected = [
        "Int16",
        "Decimal128(20, 0)",
        "Decimal128(12, 3)",
        "FixedSizeBinary(16)",
        "Utf8View",
        "Utf8View",
        "Timestamp(µs, \"UTC\")",
        "Date32",
        "Float32",
        "Float64",
        "Boolean",
        "BinaryView",
    ];
    assert_eq!(types, expected);
    let required = schema.fields().iter().filter(|field| !field.is_nullable());
    let required: Vec<&str> = required.map(|field| field.name().as_str()).collect();
    assert_eq!(required, ["small", "large", "money", "bytes", "dictionary"]);
    // The same types without rows, with rows of NULLs, and when nothing is run.
    for text in ["SELECT * FROM t", "SELECT * FROM t WHERE small > 1", "SELECT * FROM t LIMIT 0"] {
        let mut statement = statement(&mut connection, text);
        let described = statement.execute_schema().unwrap();
        let (found, _) = batches(&mut statement).unwrap();
        for schema in [&described, found.as_ref()] {
            let types = schema.fields().iter().map(|field| field.data_type().to_string());
            assert_eq!(types.collect::<Vec<_>>(), expected, "{text}");
        }
    }
    let missing = connection.get_table_schema(None, None, "nothing").unwrap_err();
    assert_eq!((missing.status, state(&missing).as_str()), (Status::NotFound, "42P01"));
    assert!(connection.get_table_schema(Some("other"), None, "t").is_err());
}

#[test]
fn several_statements_all_run_or_raise() {
    let mut connection = connection();
    let text = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2); SELECT a FROM t \
                ORDER BY a; -- end";
    assert_eq!(numbers(&mut connection, text), [1, 2]);
    let error = run(&mut connection, "INSERT INTO t VALUES (3); SELECT nothing; SELECT 1");
    let error = error.unwrap_err();
    assert!(error.message.starts_with("statement 2: "), "{error}");
    assert_eq!(numbers(&mut connection, "SELECT a FROM t ORDER BY a"), [1, 2, 3]);
    assert!(run(&mut connection, " ; -- nothing").is_err());
    let mut several = statement(&mut connection, "SELECT $1; SELECT $1");
    several.bind(batch(vec![("0", ints(vec![1]))])).unwrap();
    assert_eq!(several.execute_update().unwrap_err().status, Status::InvalidArguments);
}

#[test]
fn each_row_of_values_runs_the_statement() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY, b text)").unwrap();
    let mut insert = connection.new_statement().unwrap();
    // The values may come before the text.
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("z")]));
    insert.bind(batch(vec![("1", texts), ("0", ints(vec![1, 2, 3]))])).unwrap();
    insert.set_sql_query("INSERT INTO t VALUES (?, ?)").unwrap();
    insert.prepare().unwrap();
    assert_eq!(insert.execute_update().unwrap(), Some(3));
    assert!(insert.execute_update().is_err(), "the values were used");

    let mut select = statement(&mut connection, "SELECT a, b FROM t WHERE a >= $1 ORDER BY a");
    let one = batch(vec![("$1", ints(vec![3, 2]))]);
    let two = batch(vec![("$1", ints(vec![9, 1]))]);
    let stream = RecordBatchIterator::new([Ok(one.clone()), Ok(two)], one.schema());
    select.bind_stream(Box::new(stream)).unwrap();
    let (_, found) = batches(&mut select).unwrap();
    let column =
        |batch: &RecordBatch| batch.column(0).as_primitive::<Int32Type>().values().to_vec();
    let keys: Vec<i32> = found.iter().flat_map(column).collect();
    assert_eq!(keys, [3, 2, 3, 1, 2, 3]);

    let mut update = statement(&mut connection, "UPDATE t SET b = 'y' WHERE a <= :1");
    update.set_sql_query("UPDATE t SET b = 'y' WHERE a <= $1").unwrap();
    update.bind(batch(vec![(":1", ints(vec![1, 2]))])).unwrap();
    update
        .set_option(OptionStatement::Other("adbc.statement.bind_by_name".into()), "true".into())
        .unwrap();
    assert_eq!(update.execute_update().unwrap(), Some(3));
    update.bind(batch(vec![("other", ints(vec![1]))])).unwrap();
    assert_eq!(update.execute_update().unwrap_err().status, Status::InvalidArguments);

    // No row: nothing is run, and the columns are known.
    select.bind(batch(vec![("0", ints(vec![]))])).unwrap();
    let (schema, found) = batches(&mut select).unwrap();
    assert_eq!((schema.fields().len(), found.len()), (2, 0));

    let mut wrong = statement(&mut connection, "INSERT INTO t (a) VALUES (?)");
    wrong.bind(batch(vec![("0", ints(vec![7, 8, 1]))])).unwrap();
    let error = wrong.execute_update().unwrap_err();
    assert!(error.message.starts_with("values 3: "), "{error}");
    assert_eq!(numbers(&mut connection, "SELECT count(*) FROM t"), [3]);
}

#[test]
fn rows_for_null_are_joined_with_others() {
    let mut connection = connection();
    let mut select = statement(&mut connection, "SELECT ? + 1 AS n");
    let values: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1)]));
    select.bind(batch(vec![("0", values)])).unwrap();
    let (schema, found) = batches(&mut select).unwrap();
    assert_eq!(schema.field(0).data_type(), found[1].column(0).data_type());
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert!(found[0].column(0).is_null(0));
}

#[test]
fn what_a_statement_takes_is_known() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY, b decimal(9,2))").unwrap();
    let types = |connection: &mut Connection, text: &str| -> Vec<(String, DataType)> {
        let schema = statement(connection, text).get_parameter_schema().unwrap();
        let one = |field: &Arc<Field>| (field.name().clone(), field.data_type().clone());
        schema.fields().iter().map(one).collect()
    };
    let expected =
        [("$1".to_owned(), DataType::Int32), ("$2".to_owned(), DataType::Decimal128(9, 2))];
    assert_eq!(types(&mut connection, "INSERT INTO t VALUES (?, ?)"), expected);
    assert_eq!(types(&mut connection, "SELECT 1 FROM t WHERE a = $1 AND b < $2"), expected);
    assert_eq!(types(&mut connection, "SELECT 1").len(), 0);
    assert_eq!(types(&mut connection, "SELECT ?").len(), 1);
    let mut returning = statement(&mut connection, "DELETE FROM t WHERE a = ? RETURNING b");
    let described = returning.execute_schema().unwrap();
    assert_eq!(described.field(0).data_type(), &DataType::Decimal128(9, 2));
    for text in ["INSERT INTO t VALUES (1, 1)", "CREATE TABLE u (a int PRIMARY KEY)"] {
        assert_eq!(statement(&mut connection, text).execute_schema().unwrap().fields().len(), 0);
    }
    assert_eq!(numbers(&mut connection, "SELECT count(*) FROM t"), [0]);
    let long = "SELECT a, rank() OVER (ORDER BY b) AS r FROM t WHERE a > $1 ORDER BY a LIMIT 5";
    let mut long = statement(&mut connection, long);
    let described = long.execute_schema().unwrap();
    assert_eq!(described.fields().len(), 2);
    let wrong = statement(&mut connection, "SELECT nothing FROM t").execute_schema();
    assert_eq!(state(&wrong.unwrap_err()), "42703");
}

#[test]
fn without_autocommit_statements_are_a_transaction() {
    let database = database();
    let (mut one, mut two) =
        (database.new_connection().unwrap(), database.new_connection().unwrap());
    let refused = one.commit().unwrap_err();
    assert_eq!(refused.status, Status::InvalidState);
    set(&mut one, OptionConnection::AutoCommit, "false").unwrap();
    assert_eq!(one.get_option_string(OptionConnection::AutoCommit).unwrap(), "false");
    one.commit().unwrap();
    // Definitions end a transaction that has changed nothing, and are refused in others.
    run(&mut one, "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    assert_eq!(numbers(&mut one, "SELECT count(*) FROM t"), [0]);
    run(&mut one, "CREATE TABLE u (a int PRIMARY KEY)").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
    let rows = || batch(vec![("a", ints(vec![1]))]);
    let create = name::ADBC_INGEST_OPTION_MODE_CREATE;
    let inside = ingest(&mut one, "v", create, rows()).unwrap_err();
    assert_eq!(state(&inside), "25001");
    assert_eq!(numbers(&mut two, "SELECT count(*) FROM t"), [0]);
    one.commit().unwrap();
    assert_eq!(numbers(&mut two, "SELECT count(*) FROM t"), [1]);
    assert_eq!(ingest(&mut one, "v", create, rows()).unwrap(), 1);
    one.rollback().unwrap();
    assert_eq!(numbers(&mut two, "SELECT count(*) FROM v"), [0]);
    run(&mut one, "INSERT INTO t VALUES (2)").unwrap();
    set(&mut one, OptionConnection::AutoCommit, "true").unwrap();
    assert_eq!(numbers(&mut two, "SELECT count(*) FROM t"), [2]);

    // In SQL as well.
    run(&mut two, "BEGIN").unwrap();
    run(&mut two, "INSERT INTO t VALUES (2)").unwrap_err();
    assert_eq!(state(&run(&mut two, "COMMIT").unwrap_err()), "40000");
    run(&mut two, "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (3)").unwrap();
    run(&mut two, "INSERT INTO t VALUES (1)").unwrap_err();
    run(&mut two, "ROLLBACK TO s; INSERT INTO t VALUES (4); COMMIT").unwrap();
    assert_eq!(numbers(&mut one, "SELECT a FROM t ORDER BY a"), [1, 2, 4]);
}

#[test]
fn isolation_and_reading_only_are_options() {
    let database = database();
    let mut connection = database.new_connection().unwrap();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    let level = || OptionConnection::IsolationLevel;
    let serializable = name::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE;
    set(&mut connection, level(), serializable).unwrap();
    assert_eq!(connection.get_option_string(level()).unwrap(), serializable);
    set(&mut connection, OptionConnection::AutoCommit, "false").unwrap();
    let (_, shown) =
        batches(&mut statement(&mut connection, "SHOW transaction_isolation")).unwrap();
    assert_eq!(shown[0].column(0).as_string::<i32>().value(0), "serializable");
    run(&mut connection, "INSERT INTO t VALUES (1)").unwrap();
    let open = set(&mut connection, level(), name::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT);
    assert_eq!(open.unwrap_err().status, Status::InvalidState);
    connection.commit().unwrap();
    let snapshot = set(&mut connection, level(), name::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT);
    assert_eq!(snapshot.unwrap_err().status, Status::NotImplemented);
    assert_eq!(set(&mut connection, level(), "none").unwrap_err().status, Status::InvalidArguments);

    let options = [(OptionConnection::ReadOnly, OptionValue::from("true"))];
    let mut reading = database.new_connection_with_opts(options).unwrap();
    let refused = run(&mut reading, "INSERT INTO t VALUES (2)").unwrap_err();
    assert_eq!(state(&refused), "25006");
    let append = name::ADBC_INGEST_OPTION_MODE_APPEND;
    let rows = batch(vec![("a", ints(vec![2]))]);
    assert_eq!(state(&ingest(&mut reading, "t", append, rows).unwrap_err()), "25006");
    set(&mut reading, OptionConnection::AutoCommit, "false").unwrap();
    assert_eq!(numbers(&mut reading, "SELECT count(*) FROM t"), [1]);
    run(&mut connection, "INSERT INTO t VALUES (2)").unwrap();
    connection.commit().unwrap();
    assert_eq!(numbers(&mut reading, "SELECT count(*) FROM t"), [1]);
    reading.commit().unwrap();
    assert_eq!(numbers(&mut reading, "SELECT count(*) FROM t"), [2]);
}

#[test]
fn options_are_not_ignored() {
    let mut connection = connection();
    for (key, value) in [
        (OptionConnection::CurrentCatalog, "other"),
        (OptionConnection::CurrentSchema, "other"),
        (OptionConnection::AutoCommit, "yes"),
        (OptionConnection::Other("unknown".into()), "1"),
    ] {
        assert!(set(&mut connection, key.clone(), value).is_err(), "{key:?}");
    }
    set(&mut connection, OptionConnection::CurrentCatalog, "atoll").unwrap();
    assert_eq!(connection.get_option_string(OptionConnection::CurrentSchema).unwrap(), "public");
    let mut statement = connection.new_statement().unwrap();
    for (key, value) in [
        (OptionStatement::Temporary, "true"),
        (OptionStatement::Incremental, "true"),
        (OptionStatement::IngestMode, "adbc.ingest.mode.other"),
        (OptionStatement::Other("unknown".into()), "1"),
    ] {
        assert!(statement.set_option(key.clone(), value.into()).is_err(), "{key:?}");
    }
    statement.set_option(OptionStatement::Temporary, "false".into()).unwrap();
    for (key, value) in [
        (OptionDatabase::Username, "ann"),
        (OptionDatabase::Other("atoll.durability".into()), "group"),
        (OptionDatabase::Other("atoll.runtime_dir".into()), "/tmp"),
        (OptionDatabase::Other("atoll.scheme".into()), "none"),
        (OptionDatabase::Other("atoll.memory_limit".into()), "much"),
        (OptionDatabase::Uri, "open:0"),
        (OptionDatabase::Uri, "attach:a name that is free"),
    ] {
        let options = [(key.clone(), OptionValue::from(value))];
        assert!(driver().new_database_with_opts(options).is_err(), "{key:?}");
    }
}

#[test]
fn folders_are_shared() {
    let dir = tempfile::tempdir().unwrap();
    let open = |extra: Option<(&str, &str)>| {
        let uri = dir.path().display().to_string();
        let mut options = vec![(OptionDatabase::Uri, OptionValue::from(uri))];
        options.extend(extra.map(|(key, value)| (OptionDatabase::Other(key.into()), value.into())));
        driver().new_database_with_opts(options)
    };
    let one = open(Some(("atoll.durability", "group"))).unwrap();
    let mut connection = one.new_connection().unwrap();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY)").unwrap();
    let mut other = open(None).unwrap().new_connection().unwrap();
    run(&mut other, "INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(numbers(&mut connection, "SELECT a FROM t"), [1]);
    assert!(open(Some(("atoll.durability", "strict"))).is_err());
    drop((one, connection, other));
    let again = open(Some(("atoll.durability", "strict"))).unwrap();
    assert_eq!(numbers(&mut again.new_connection().unwrap(), "SELECT a FROM t"), [1]);
}

/// The names of the tables that match, with the numbers of their columns.
fn found_tables(
    connection: &Connection,
    catalog: Option<&str>,
    schema: Option<&str>,
    table: Option<&str>,
    types: Option<Vec<&str>>,
    column: Option<&str>,
) -> Vec<(String, i32)> {
    let depth = ObjectDepth::All;
    let rows = connection.get_objects(depth, catalog, schema, table, types, column).unwrap();
    let batches: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    let mut found = Vec::new();
    for batch in &batches {
        let schemas = batch.column(1).as_list::<i32>();
        let tables = schemas.values().as_struct().column(1).as_list::<i32>();
        let tables = tables.values().as_struct();
        let columns = tables.column(2).as_list::<i32>();
        for at in 0..tables.len() {
            let name = tables.column(0).as_string::<i32>().value(at).to_owned();
            found.push((name, columns.value_length(at)));
        }
    }
    found
}

#[test]
fn objects_are_filtered() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE items (a int, b text, UNIQUE (b), PRIMARY KEY (a))")
        .unwrap();
    run(&mut connection, "CREATE TABLE item_s (a int PRIMARY KEY)").unwrap();
    let tables = |catalog, schema, table, types, column| {
        found_tables(&connection, catalog, schema, table, types, column)
    };
    let both = [("items".to_owned(), 2), ("item_s".to_owned(), 1)];
    assert_eq!(tables(None, None, None, None, None), both);
    assert_eq!(tables(Some("at%"), Some("public"), Some("item_s"), None, None), [both[1].clone()]);
    assert_eq!(tables(None, None, Some("item__"), None, None), [both[1].clone()]);
    assert_eq!(tables(None, None, Some("i%"), Some(vec!["table"]), Some("b"))[0].1, 1);
    assert_eq!(tables(None, None, None, Some(vec!["view"]), None), []);
    run(&mut connection, "CREATE VIEW item_v AS SELECT a, b AS c FROM items").unwrap();
    let tables = |catalog, schema, table, types, column| {
        found_tables(&connection, catalog, schema, table, types, column)
    };
    let view = ("item_v".to_owned(), 2);
    assert_eq!(tables(None, None, None, Some(vec!["view"]), None), vec![view.clone()]);
    assert_eq!(tables(None, None, Some("item__"), None, None), [both[1].clone(), view]);
    let columns = connection.get_table_schema(None, None, "item_v").unwrap();
    let columns: Vec<_> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(columns, ["a", "c"]);
    assert_eq!(tables(Some(""), None, None, None, None), []);
    assert_eq!(tables(None, Some(""), None, None, None), []);
    let text = format!("SELECT * FROM items WHERE b LIKE '%{}'", "%_".repeat(10_000));
    assert_eq!(tables(None, None, Some(&text), None, None), []);
    for depth in [ObjectDepth::Catalogs, ObjectDepth::Schemas, ObjectDepth::Tables] {
        let rows = connection.get_objects(depth, None, None, None, None, None).unwrap();
        let rows: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
        assert_eq!(rows[0].num_rows(), 1);
        assert_eq!(rows[0].column(1).is_null(0), depth == ObjectDepth::Catalogs);
    }
    let types = connection.get_table_types().unwrap().next().unwrap().unwrap();
    assert_eq!(types.column(0).as_string::<i32>().value(0), "table");
    assert_eq!(connection.get_info(None).unwrap().next().unwrap().unwrap().num_rows(), 7);
    assert!(connection.get_statistic_names().is_err());
}

#[test]
fn statements_are_cancelled() {
    let mut connection = connection();
    let long = "SELECT count(*) FROM generate_series(1, 10000000000) AS a(x)";
    for of_connection in [false, true] {
        let mut statement = statement(&mut connection, long);
        let cancel = match of_connection {
            true => connection.get_cancel_handle(),
            false => statement.get_cancel_handle(),
        };
        // A request before the statement runs does not count.
        cancel.try_cancel().unwrap();
        let error = std::thread::scope(|scope| {
            let running = scope.spawn(|| statement.execute().err().unwrap());
            while !running.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                cancel.try_cancel().unwrap();
            }
            running.join().unwrap()
        });
        assert_eq!((error.status, state(&error).as_str()), (Status::Cancelled, "57014"));
        assert_eq!(numbers(&mut connection, "SELECT 1"), [1]);
    }
}

#[test]
fn results_can_be_without_views() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a text PRIMARY KEY, b bytea)").unwrap();
    run(&mut connection, "INSERT INTO t VALUES ('é', '\\x01')").unwrap();
    let views = OptionConnection::Other("atoll.views".into());
    set(&mut connection, views, "false").unwrap();
    let mut statement = statement(&mut connection, "SELECT * FROM t");
    let schema = connection.get_table_schema(None, None, "t").unwrap();
    let (found, rows) = batches(&mut statement).unwrap();
    let described = statement.execute_schema().unwrap();
    for schema in [&schema, found.as_ref(), &described] {
        assert_eq!(schema.field(0).data_type(), &DataType::LargeUtf8);
        assert_eq!(schema.field(1).data_type(), &DataType::LargeBinary);
    }
    assert_eq!(rows[0].column(0).as_string::<i64>().value(0), "é");
}

#[test]
fn errors_have_states() {
    let mut connection = connection();
    run(&mut connection, "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL)").unwrap();
    for (text, expected, status) in [
        ("SELEC 1", "42601", Status::InvalidArguments),
        ("SELECT * FROM nothing", "42P01", Status::NotFound),
        ("SELECT nothing FROM t", "42703", Status::NotFound),
        ("INSERT INTO t VALUES ('x', 'y')", "22P02", Status::InvalidData),
        ("INSERT INTO t VALUES (1, NULL)", "23502", Status::Integrity),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "0A000", Status::NotImplemented),
        ("CREATE TABLE t (a int PRIMARY KEY)", "42P07", Status::AlreadyExists),
        ("CREATE TABLE u (a int NULL PRIMARY KEY)", "42P16", Status::InvalidArguments),
        ("SELECT ?", "42P02", Status::InvalidArguments),
        ("SELECT 1 / 0", "22012", Status::InvalidData),
        ("COMMIT", "25P01", Status::InvalidState),
    ] {
        let error = run(&mut connection, text).unwrap_err();
        assert_eq!((state(&error).as_str(), error.status), (expected, status), "{text}: {error}");
    }
}
