//! Invalid input and a bad environment: the error names the input and the problem, and nothing has
//! changed.
#![allow(clippy::unwrap_used)]

#[path = "../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use atoll::{
    AbortReason, COLUMNS_MAX, Column, DataType, Database, DatabaseOptions, Error, IndexSpec,
    LeaseError, NameState, Request, Result, RuntimeDir, Schema, SchemeKind, StorageError, Table,
    TableOptions, Transaction, TransactionOptions, TxnError, TxnResult, Value,
};

const NOBODY: u32 = 65_534;

fn database() -> Database {
    let options = DatabaseOptions { memory_limit_bytes: Some(64 << 20), ..Default::default() };
    Database::create(options).unwrap()
}

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("price", DataType::Decimal { precision: 4, scale: 2 }),
        Column::nullable("note", DataType::Text),
        Column::new("code", DataType::FixedBinary(3)),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn row(id: i64) -> Vec<Value> {
    vec![id.into(), Value::Decimal(1_250), "a note".into(), vec![1u8, 2, 3].into()]
}

/// A database with one table of rows 0 to 9.
fn filled() -> (Database, Table) {
    let db = database();
    let table = db.create_table("goods", schema()).unwrap();
    db.transaction(|tx| (0..10).try_for_each(|id| tx.insert(&table, &row(id)))).unwrap();
    (db, table)
}

fn text<T>(result: Result<T>) -> String {
    result.err().expect("it must fail").to_string()
}

/// The message of an operation that must fail and leave the transaction open.
fn refused<T>(tx: &mut Transaction, body: impl FnOnce(&mut Transaction) -> TxnResult<T>) -> Error {
    let stop = body(tx).err().expect("it must fail");
    assert!(tx.is_open(), "{stop} ended the transaction");
    match stop {
        TxnError::Error(error) => error,
        TxnError::Abort(reason) => panic!("aborted: {reason}"),
    }
}

#[test]
fn memory_is_ready_when_a_database_is_opened_as_far_as_its_limit_goes() {
    let of = |limit_mib: u64, ready_mib: u64| {
        let (limit, ready_bytes) = (Some(limit_mib << 20), ready_mib << 20);
        DatabaseOptions { memory_limit_bytes: limit, ready_bytes, ..<_>::default() }
    };
    let committed = |db: &Database| db.counters().memory_committed_bytes >> 20;
    let db = Database::create(of(64, 32)).unwrap();
    assert!((32..48).contains(&committed(&db)), "{}", committed(&db));
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let db = Database::open(folder.path(), of(64, 65)).unwrap();
        assert!((48..=64).contains(&committed(&db)), "{}", committed(&db));
        db
    };
    let table = open().create_table("goods", schema()).unwrap();
    drop(table);
    let db = open();
    let table = db.table("goods").unwrap();
    db.transaction(|tx| (0..1000).try_for_each(|id| tx.insert(&table, &row(id)))).unwrap();
}

#[test]
fn an_index_has_no_more_columns_than_a_table_may_have() {
    let db = database();
    let index = |columns: usize| IndexSpec {
        name: "by_note".into(),
        columns: vec!["note".into(); columns],
        unique: false,
        nulls_not_distinct: false,
    };
    let options = |columns| TableOptions { indexes: vec![index(columns)], ..Default::default() };
    db.create_table_with("most", schema(), &options(COLUMNS_MAX)).unwrap();
    let refused = db.create_table_with("more", schema(), &options(COLUMNS_MAX + 1)).map(|_| ());
    assert_eq!(text(refused), "index \"by_note\" has 1600 columns at most");
}

#[test]
fn an_unknown_name_lists_those_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (database(), database());
    one.publish("orders", Some(dir.path())).unwrap();
    two.publish("stock", Some(dir.path())).unwrap();
    let error = text(atoll::attach("order", Some(dir.path())));
    assert!(error.contains("\"order\"") && error.contains("orders") && error.contains("stock"));
    drop(one);
    let error = text(atoll::attach("orders", Some(dir.path())));
    assert!(error.contains("stock"), "{error}");
}

#[test]
fn a_name_that_is_taken_or_cannot_be_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (db, other) = (database(), database());
    db.publish("orders", Some(dir.path())).unwrap();
    let error = other.publish("orders", Some(dir.path())).unwrap_err();
    assert!(matches!(&error, Error::Lease(LeaseError::NameTaken { pid, .. })
        if *pid == std::process::id()));
    let error = db.publish("again", Some(dir.path())).unwrap_err();
    assert!(matches!(&error, Error::Published(name) if name == "orders"), "{error}");
    let long = "x".repeat(65);
    for bad in ["", ".hidden", "-x", "a/b", "../up", "with space", "\u{e4}", "a\0b", &long] {
        for error in [
            other.publish(bad, Some(dir.path())).unwrap_err(),
            atoll::attach(bad, Some(dir.path())).err().unwrap(),
        ] {
            assert!(matches!(error, Error::Lease(LeaseError::BadName { .. })), "{bad:?}: {error}");
        }
    }
    // After all these errors it can still be published.
    assert_eq!(other.name(), None);
    other.publish("stock", Some(dir.path())).unwrap();
    assert_eq!(other.name().as_deref(), Some("stock"));
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = database();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below"), dir.path().join("x".repeat(200))] {
        let error = text(db.publish("orders", Some(&path)));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name), "{error}");
        assert_eq!(db.name(), None);
    }
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = text(db.publish("orders", Some(&open)));
    assert!(error.contains("0777") && error.contains("chmod 700"), "{error}");
}

#[test]
fn garbage_in_the_runtime_directory_is_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = database();
    db.publish("orders", Some(dir.path())).unwrap();
    std::fs::write(dir.path().join("text.sock"), "not a socket").unwrap();
    std::fs::write(dir.path().join("text.lock"), [0xff; 100]).unwrap();
    std::fs::create_dir(dir.path().join("folder.sock")).unwrap();
    std::os::unix::fs::symlink("/nowhere", dir.path().join("link.sock")).unwrap();
    std::fs::write(dir.path().join("no name at all.sock"), "").unwrap();
    // A socket of another program, of another kind, that never answers.
    let stream = dir.path().join("stream.sock");
    let _listener = std::os::unix::net::UnixListener::bind(stream).unwrap();
    for name in ["text", "folder", "link", "stream"] {
        let error = atoll::attach(name, Some(dir.path())).err().unwrap();
        assert!(matches!(error, Error::Lease(_)), "{name}: {error}");
        assert!(error.to_string().len() > 20, "{name}: {error}");
    }
    let listed = RuntimeDir::open(Some(dir.path())).unwrap().list().unwrap();
    let orders = listed.iter().find(|listed| listed.name == "orders").unwrap();
    assert_eq!(orders.state, NameState::Alive);
    assert_eq!(atoll::attach("orders", Some(dir.path())).unwrap().name(), "orders");
    // A name with garbage in its files can be taken.
    let other = database();
    other.publish("text", Some(dir.path())).unwrap();
    atoll::attach("text", Some(dir.path())).unwrap().snapshot().unwrap();
}

/// Runs a peer as another user, which tries to attach.
fn attach_as_nobody(dir: &Path) -> String {
    // In a folder where another user may execute it.
    let binary = dir.join("peer");
    std::fs::copy(env!("CARGO_BIN_EXE_atoll-test-peer"), &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = Command::new(binary)
        .arg(dir)
        .uid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    child.stdin.take().unwrap().write_all(b"attach orders\n").unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn another_user_is_not_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    if std::os::unix::fs::chown(path, Some(NOBODY), None).is_err() {
        skipped::say("only root can act as another user");
        return;
    }
    std::os::unix::fs::chown(path, Some(0), None).unwrap();
    let db = database();
    db.publish("orders", Some(path)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let answer = attach_as_nobody(path);
    assert!(answer.starts_with("error:") && answer.contains("user 0"), "{answer}");
    // Not even with a folder and a socket that this user may access.
    std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
    let socket = path.join("orders.sock");
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    let answer = attach_as_nobody(path);
    assert!(answer.starts_with("error:") && answer.contains("user"), "{answer}");
    assert_eq!(db.counters().snapshots, 0);
}

#[test]
fn a_table_that_cannot_be_is_refused_and_leaves_nothing() {
    let db = database();
    db.create_table("goods", schema()).unwrap();
    let before = db.counters().memory_allocated_bytes;
    let error = db.create_table("goods", schema()).err().unwrap();
    assert!(matches!(&error, Error::Storage(StorageError::TableExists(name)) if name == "goods"));
    let long = "x".repeat(129);
    for bad in ["", "a\nb", "nul\0", &long] {
        let error = db.create_table(bad, schema()).err().unwrap();
        assert!(matches!(error, Error::Storage(StorageError::Schema(_))), "{bad:?}: {error}");
    }
    assert_eq!(db.counters().memory_allocated_bytes, before);
    assert_eq!(db.tables(), ["goods"]);
    let error = db.table("good").err().unwrap();
    assert_eq!(error.to_string(), "table \"good\" does not exist");
    let error = db.snapshot().unwrap().table("Goods").err().unwrap();
    assert_eq!(error.to_string(), "table \"Goods\" does not exist");
    db.create_table(&"y".repeat(128), schema()).unwrap();
}

#[test]
fn a_schema_that_cannot_be_says_why() {
    let int = |name: &str| Column::new(name, DataType::Int64);
    let decimal = |precision, scale| Column::new("a", DataType::Decimal { precision, scale });
    let many = |count: usize| (0..count).map(|at| int(&format!("c{at}"))).collect::<Vec<_>>();
    let cases: Vec<(Vec<Column>, &[&str], &str)> = vec![
        (vec![], &["a"], "columns"),
        (many(COLUMNS_MAX + 1), &["c0"], "1601"),
        (vec![int("a"), int("a")], &["a"], "named twice"),
        (vec![int("a")], &[], "primary key"),
        (vec![int("a")], &["b"], "\"b\""),
        (vec![int("a")], &["a", "a"], "named twice"),
        (vec![Column::nullable("a", DataType::Int64)], &["a"], "NOT NULL"),
        (vec![Column::new("a", DataType::Float64)], &["a"], "floating point"),
        (vec![decimal(0, 0)], &["a"], "precision"),
        (vec![decimal(39, 0)], &["a"], "precision"),
        (vec![decimal(4, 5)], &["a"], "behind the point"),
        (vec![Column::new("a", DataType::FixedBinary(0))], &["a"], "binary"),
        (vec![Column::new("a", DataType::FixedBinary(4_097))], &["a"], "binary"),
        (vec![int("")], &[""], "column name"),
        (vec![int(&"x".repeat(129))], &["x"], "column name"),
    ];
    for (columns, key, says) in cases {
        let error = Schema::new(columns, key).unwrap_err().to_string();
        assert!(error.contains(says), "{error} should say {says}");
    }
    Schema::new(many(COLUMNS_MAX), &["c1599"]).unwrap();
}

#[test]
fn a_row_that_does_not_fit_is_refused_and_the_transaction_goes_on() {
    let (db, table) = filled();
    let mut tx = db.begin().unwrap();
    let with = |at: usize, value: Value| {
        let mut row = row(77);
        row[at] = value;
        row
    };
    let cases = [
        (with(0, Value::Null), "\"id\" must not be NULL"),
        (with(0, Value::Int32(1)), "\"id\" holds bigint, not integer"),
        (with(0, "1".into()), "\"id\" holds bigint, not text"),
        (with(1, Value::Decimal(10_000)), "\"price\" holds decimal(4,2), not decimal"),
        (with(1, Value::Null), "\"price\" must not be NULL"),
        (with(2, vec![1u8].into()), "\"note\" holds text, not bytea"),
        (with(3, vec![1u8, 2].into()), "\"code\" holds binary(3), not bytea"),
        (row(77)[..3].to_vec(), "4 columns, the row has 3"),
        ([row(77), row(78)].concat()[..7].to_vec(), "4 columns, the row has 3"),
    ];
    for (row, says) in cases {
        let error = refused(&mut tx, |tx| tx.insert(&table, &row)).to_string();
        assert!(error.contains(says), "{error} should say {says}");
    }
    tx.insert(&table, &row(77)).unwrap();
    tx.commit().unwrap();
    assert_eq!(table.row_count(), 11);
}

#[test]
fn a_value_longer_than_the_format_allows_is_refused() {
    let (db, table) = filled();
    let mut tx = db.begin().unwrap();
    let mut long = row(77);
    long[2] = "x".repeat((256 << 20) + 1).into();
    let stop = tx.insert(&table, &long).unwrap_err();
    let TxnError::Error(error) = stop else { panic!("{stop}") };
    assert!(error.to_string().contains("\"note\": a value of 268435457 bytes"), "{error}");
    drop(tx);
    assert_eq!(table.row_count(), 10);
    db.transaction(|tx| tx.insert(&table, &row(77))).unwrap();
}

#[test]
fn a_key_that_exists_and_a_key_that_would_change_are_refused() {
    let (db, table) = filled();
    let mut tx = db.begin().unwrap();
    let error = refused(&mut tx, |tx| tx.insert(&table, &row(3)));
    assert_eq!(error.to_string(), "table \"goods\" has a row with key id = 3 already");
    tx.insert(&table, &row(20)).unwrap();
    let error = refused(&mut tx, |tx| tx.insert(&table, &row(20)));
    assert!(matches!(error, Error::DuplicateKey { .. }), "its own row: {error}");
    let error = refused(&mut tx, |tx| tx.update(&table, &[3i64.into()], &[(0, 4i64.into())]));
    assert!(matches!(&error, Error::KeyUpdate { table, column }
        if table == "goods" && column == "id"));
    // Setting the same key again is not a change.
    assert!(tx.update(&table, &[3i64.into()], &[(0, 3i64.into())]).unwrap());
    for bad in [vec![], vec![1i64.into(), 2i64.into()], vec![Value::Null], vec!["1".into()]] {
        refused(&mut tx, |tx| tx.read(&table, &bad));
        refused(&mut tx, |tx| tx.delete(&table, &bad));
        refused(&mut tx, |tx| tx.update(&table, &bad, &[(1, Value::Decimal(1))]));
    }
    refused(&mut tx, |tx| tx.update(&table, &[3i64.into()], &[(1, Value::Null)]));
    refused(&mut tx, |tx| tx.update(&table, &[3i64.into()], &[(3, vec![0u8; 4].into())]));
    assert!(!tx.update(&table, &[99i64.into()], &[(1, Value::Decimal(1))]).unwrap());
    assert!(!tx.delete(&table, &[99i64.into()]).unwrap());
    assert_eq!(tx.read(&table, &[99i64.into()]).unwrap(), None);
    tx.commit().unwrap();
    assert_eq!(table.row_count(), 11);
}

#[test]
fn an_aborted_transaction_does_nothing_more_and_says_so() {
    let (db, table) = filled();
    let mut holder = db.begin().unwrap();
    holder.update(&table, &[1i64.into()], &[(1, Value::Decimal(1))]).unwrap();
    let mut tx = db.begin().unwrap();
    tx.update(&table, &[2i64.into()], &[(1, Value::Decimal(2))]).unwrap();
    let stop = tx.update(&table, &[1i64.into()], &[(1, Value::Decimal(2))]).unwrap_err();
    assert!(matches!(stop, TxnError::Abort(AbortReason::Denied)), "{stop}");
    assert!(!tx.is_open());
    for stop in [
        tx.read(&table, &[1i64.into()]).unwrap_err(),
        tx.insert(&table, &row(50)).unwrap_err(),
        tx.update(&table, &[2i64.into()], &[(1, Value::Decimal(3))]).unwrap_err(),
        tx.delete(&table, &[2i64.into()]).unwrap_err(),
    ] {
        assert!(matches!(stop, TxnError::Abort(AbortReason::Finished)), "{stop}");
    }
    let stop = tx.commit().unwrap_err();
    assert!(matches!(stop, TxnError::Abort(AbortReason::Finished)), "{stop}");
    holder.commit().unwrap();
    let mut tx = db.begin().unwrap();
    let price = |tx: &mut Transaction, id: i64| tx.read(&table, &[id.into()]).unwrap().unwrap();
    assert_eq!(price(&mut tx, 1)[1], Value::Decimal(1));
    assert_eq!(price(&mut tx, 2)[1], Value::Decimal(1_250));
    assert_eq!(tx.read(&table, &[50i64.into()]).unwrap(), None);
}

#[test]
fn an_error_in_the_body_rolls_the_transaction_back() {
    let (db, table) = filled();
    let error = db.transaction(|tx| {
        tx.insert(&table, &row(20))?;
        tx.insert(&table, &row(3))
    });
    assert!(matches!(error, Err(Error::DuplicateKey { .. })));
    assert_eq!(table.row_count(), 10);
}

#[test]
fn a_body_that_passes_over_an_error_is_told_and_not_tried_for_ever() {
    let (db, table) = filled();
    let mut attempts = 0;
    let result = db.transaction(|tx| {
        attempts += 1;
        assert!(attempts < 100, "tried for ever");
        let mut row = row(77);
        row[2] = "x".repeat(100 << 20).into();
        // The allocation fails and the transaction has been rolled back, but the body ignores the
        // error.
        let _ = tx.insert(&table, &row);
        Ok(())
    });
    assert!(matches!(result, Err(Error::Aborted(AbortReason::Finished))));
    assert_eq!(attempts, 1);
    assert_eq!(table.row_count(), 10);
}

#[test]
fn a_body_that_panics_leaves_nothing_and_holds_nothing() {
    let (db, table) = filled();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.transaction(|tx| -> TxnResult<()> {
            tx.update(&table, &[1i64.into()], &[(1, Value::Decimal(1))])?;
            tx.insert(&table, &row(20))?;
            panic!("of the body");
        })
    }));
    assert!(panicked.is_err());
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.read(&table, &[1i64.into()]).unwrap().unwrap(), row(1));
    assert_eq!(tx.read(&table, &[20i64.into()]).unwrap(), None);
    assert!(tx.update(&table, &[1i64.into()], &[(1, Value::Decimal(2))]).unwrap());
    tx.commit().unwrap();
}

#[test]
fn a_transaction_whose_row_panicked_is_not_open_any_more() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
        let db = Database::create(options).unwrap();
        let table = db.create_table("goods", schema()).unwrap();
        db.transaction(|tx| tx.insert(&table, &row(1))).unwrap();
        let mut tx = db.begin().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tx.update_with(&table, &[1i64.into()], |row| {
                row.set(1, &Value::Decimal(7));
                panic!("of the body");
            })
        }));
        assert!(panicked.is_err() && !tx.is_open(), "{scheme}");
        assert!(tx.commit().is_err());
        let after = db.transaction(|tx| tx.read(&table, &[1i64.into()])).unwrap();
        assert_eq!(after.unwrap(), row(1), "{scheme}");
    }
}

#[test]
fn a_key_of_another_type_is_refused_even_if_its_bits_are_those_of_a_row() {
    let db = Database::create(DatabaseOptions::default()).unwrap();
    for (name, of, given) in [
        ("dates", Value::Date(7), [Value::Int32(7), Value::Int64(7)]),
        ("times", Value::Timestamp(7), [Value::Int64(7), Value::Date(7)]),
        ("shorts", Value::Int16(7), [Value::Int32(7), Value::Null]),
    ] {
        let data_type = match of {
            Value::Date(_) => DataType::Date,
            Value::Timestamp(_) => DataType::Timestamp,
            _ => DataType::Int16,
        };
        let columns = vec![Column::new("key", data_type)];
        let table = db.create_table(name, Schema::new(columns, &["key"]).unwrap()).unwrap();
        db.transaction(|tx| tx.insert(&table, std::slice::from_ref(&of))).unwrap();
        for wrong in given {
            let key = [wrong];
            assert!(db.transaction(|tx| tx.read(&table, &key)).is_err(), "{name} {key:?}");
            assert!(db.transaction(|tx| tx.delete(&table, &key)).is_err(), "{name} {key:?}");
        }
        let read = db.transaction(|tx| tx.read(&table, std::slice::from_ref(&of)));
        assert_eq!(read.unwrap(), Some(vec![of]), "{name}");
    }
}

#[test]
fn more_partitions_than_there_can_be_are_refused_by_their_number() {
    let of = |partitions| {
        let options = DatabaseOptions {
            scheme: "HSTORE".parse().unwrap(),
            partitions: Some(partitions),
            memory_limit_bytes: Some(64 << 20),
            ..DatabaseOptions::default()
        };
        Database::create(options)
    };
    let refused = of(u32::MAX).err().unwrap();
    assert!(matches!(refused, Error::TooManyPartitions { given: u32::MAX, most: 4096 }));
    assert_eq!(
        refused.to_string(),
        "4294967295 partitions are too many; a database has 4096 at most"
    );
    of(4096).unwrap().session().unwrap();
}

#[test]
fn an_age_that_nothing_reaches_is_no_limit() {
    for age in [18_446_744_074, 1 << 55, u64::MAX].map(Duration::from_secs) {
        let options = DatabaseOptions {
            snapshot_age_max: Some(age),
            memory_limit_bytes: Some(64 << 20),
            ..DatabaseOptions::default()
        };
        let db = Database::create(options).unwrap();
        db.create_table("goods", schema()).unwrap();
        let snapshot = db.snapshot().unwrap();
        std::thread::sleep(Duration::from_millis(350));
        snapshot.check().unwrap();
    }
}

#[test]
fn a_procedure_that_swaps_its_transaction_for_another_is_told_and_nothing_is_committed_for_it() {
    let (db, table) = filled();
    let mut session = db.session().unwrap();
    let set = |tx: &mut Transaction, id: i64| tx.delete(&table, &[id.into()]);
    let told = session.transaction(|tx| {
        set(tx, 1)?;
        let mine = std::mem::replace(tx, db.begin()?);
        set(tx, 2)?;
        mine.commit()
    });
    assert!(matches!(told, Err(Error::Exchanged)), "{told:?}");
    let mut lanes = db.lanes(2).unwrap();
    let mut requests = vec![Asked::default()].into_iter();
    let mut results = Vec::new();
    lanes.run(
        || requests.next(),
        async |tx, _| {
            drop(std::mem::replace(tx, db.begin()?));
            set(tx, 3).map(drop)
        },
        |_, result| results.push(result),
    );
    assert!(matches!(results[..], [Err(Error::Exchanged)]), "{results:?}");
    // What it has committed itself stays; the swapped-in transaction does not.
    let there = |id: i64| db.transaction(|tx| Ok(tx.read(&table, &[id.into()])?.is_some()));
    assert_eq!([1, 2, 3].map(|id| there(id).unwrap()), [false, true, true]);
}

/// A request without options.
#[derive(Default)]
struct Asked(TransactionOptions);

impl Request for Asked {
    fn options(&self) -> &TransactionOptions {
        &self.0
    }
}

#[test]
fn values_that_are_too_long_for_an_index_are_refused_and_the_row_is_not_there() {
    const BYTES: usize = 1 << 27;
    let options = DatabaseOptions { memory_limit_bytes: Some(1 << 30), ..Default::default() };
    let db = Database::create(options).unwrap();
    let columns = vec![Column::new("id", DataType::Int64), Column::new("b", DataType::Binary)];
    let index = IndexSpec {
        name: "by_b".to_owned(),
        columns: vec!["b".to_owned()],
        unique: true,
        nulls_not_distinct: false,
    };
    let options = TableOptions { indexes: vec![index], ..TableOptions::default() };
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = db.create_table_with("t", schema, &options).unwrap();
    // A zero byte takes two bytes in an encoded key.
    let row = [1i64.into(), Value::Binary(vec![0; BYTES])];
    let refused = db.transaction(|tx| tx.insert(&table, &row)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "index \"by_b\": the values of a row take 268435458 bytes there; the most is 268435455"
    );
    assert_eq!(table.row_count(), 0);
    db.transaction(|tx| tx.insert(&table, &[1i64.into(), vec![7u8; 3].into()])).unwrap();
}
