//! A database against a model: random changes to a table with every type, in transactions that
//! commit or roll back; snapshots are taken and dropped in between, also while a transaction is
//! open. Under schemes that store in place, at commit, and at commit with version chains.
//!
//! A snapshot equals the model after the last commit before it, and does not change.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use atoll::{
    AbortReason, Column, DataType, Database, DatabaseOptions, Interval, Schema, SchemeKind,
    Snapshot, Table, Transaction, TxnError, TxnResult, Value, encode_list,
};
use proptest::prelude::*;

const KEYS: i64 = 24;

fn types() -> Vec<DataType> {
    vec![
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Bool,
        DataType::Date,
        DataType::Timestamp,
        DataType::Decimal { precision: 12, scale: 3 },
        DataType::Decimal { precision: 38, scale: 0 },
        DataType::Text,
        DataType::Binary,
        DataType::FixedBinary(3),
        DataType::FixedBinary(40),
        DataType::Varchar(20_000),
        DataType::Char(20_000),
        DataType::TimestampTz,
        DataType::Time,
        DataType::Uuid,
        DataType::Enum(labels()),
        DataType::Interval,
        DataType::Json,
        DataType::Jsonb,
        DataType::Int16.array().unwrap(),
        DataType::Varchar(30).array().unwrap(),
    ]
}

fn labels() -> atoll::Labels {
    atoll::Labels::new("mood", &["sad", "ok", "happy"].map(str::to_owned)).unwrap()
}

/// Two key columns, an integer and a text that is sometimes long; then every type, nullable and
/// not.
fn schema() -> Schema {
    let mut columns = vec![Column::new("id", DataType::Int64), Column::new("name", DataType::Text)];
    for (at, data_type) in types().into_iter().enumerate() {
        columns.push(Column::nullable(format!("n{at}"), data_type));
        columns.push(Column::new(format!("v{at}"), data_type));
    }
    Schema::new(columns, &["id", "name"]).unwrap()
}

fn key(id: i64) -> [Value; 2] {
    [id.into(), format!("key {id}{}", " that is long".repeat((id % 3) as usize)).into()]
}

/// A value of a type, computed from a number; different numbers usually give different values.
fn value(data_type: DataType, seed: u64) -> Value {
    let long =
        |seed: u64| (seed % 7 * 9 + seed % 5 * u64::from(seed.is_multiple_of(11)) * 900) as usize;
    let bytes = |len: usize| (0..len).map(|at| (seed as usize * 31 + at) as u8).collect::<Vec<_>>();
    match data_type.stored_as() {
        _ if data_type == DataType::Time => Value::Int64((seed % 86_400_000_001) as i64),
        _ if let Some(element) = data_type.element() => {
            let of = |at| if at % 5 == 3 { Value::Null } else { item(element, seed ^ at) };
            let items: Vec<Value> = (0..seed % 7 * (seed % 3)).map(of).collect();
            Value::Binary(encode_list(element, &items))
        }
        DataType::Interval => Value::Interval(Interval {
            months: seed as i16 as i32,
            days: seed as i8 as i32,
            nanos: (seed as i64 - 500) * 1000,
        }),
        DataType::Int16 => Value::Int16(seed as i16),
        _ if matches!(data_type, DataType::Enum(_)) => Value::Int32((seed % 3) as i32),
        DataType::Int32 => Value::Int32((seed << 3) as i32),
        DataType::Int64 => match seed % 16 {
            0 => Value::Int64(i64::MIN),
            1 => Value::Int64(i64::MAX),
            _ => Value::Int64((seed as i64).wrapping_mul(-77)),
        },
        DataType::Float32 => Value::Float32(seed as i16 as f32 / 8.0),
        DataType::Float64 => match seed % 16 {
            0 => Value::Float64(f64::NEG_INFINITY),
            1 => Value::Float64(-0.0),
            _ => Value::Float64(seed as i16 as f64 / -3.0),
        },
        DataType::Bool => Value::Bool(seed.is_multiple_of(3)),
        DataType::Date => Value::Date(seed as i16 as i32),
        DataType::Timestamp => Value::Timestamp(seed as i64 - 5000),
        DataType::Decimal { .. } => Value::Decimal(i128::from(seed as i32) - 1000),
        DataType::Text => Value::Text("ä€x".repeat(long(seed))),
        DataType::Binary => Value::Binary(bytes(long(seed))),
        DataType::FixedBinary(width) => Value::Binary(bytes(width as usize)),
        other => unreachable!("no type is stored as {other}"),
    }
}

/// An element of an array.
fn item(element: DataType, seed: u64) -> Value {
    match element {
        DataType::Int16 => Value::Int16(seed as i16),
        _ => Value::Text("ä\0x".repeat((seed % 9) as usize)),
    }
}

fn cell(column: usize, seed: u64) -> Value {
    let data_type = types()[(column - 2) / 2];
    let seed = seed.wrapping_mul(2_654_435_761).wrapping_add(column as u64 * 97) >> 4;
    if column.is_multiple_of(2) && seed.is_multiple_of(4) {
        Value::Null
    } else {
        value(data_type, seed)
    }
}

fn row(id: i64, seed: u64) -> Vec<Value> {
    let columns = 2 + 2 * types().len();
    key(id).into_iter().chain((2..columns).map(|at| cell(at, seed))).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(i64, u64),
    /// Several rows at once; the seed of each is greater by one.
    InsertRows(Vec<i64>, u64),
    Update(i64, Vec<usize>, u64),
    Delete(i64),
    Commit,
    Rollback,
    TakeSnapshot,
    DropSnapshot(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let seed = 0..100_000u64;
    prop_oneof![
        4 => (0..KEYS, seed.clone()).prop_map(|(id, seed)| Step::Insert(id, seed)),
        3 => (prop::collection::vec(0..KEYS, 1..20), seed.clone())
            .prop_map(|(ids, seed)| Step::InsertRows(ids, seed)),
        6 => (0..KEYS, prop::collection::vec(2..2 + 2 * types().len(), 1..6), seed)
            .prop_map(|(id, columns, seed)| Step::Update(id, columns, seed)),
        2 => (0..KEYS).prop_map(Step::Delete),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        2 => Just(Step::TakeSnapshot),
        1 => (0..8usize).prop_map(Step::DropSnapshot),
    ]
}

type Model = BTreeMap<i64, Vec<Value>>;

/// The value of a slot of an array.
fn shown(array: &dyn Array, data_type: DataType, slot: usize) -> Value {
    if array.is_null(slot) {
        return Value::Null;
    }
    if let DataType::Enum(_) = data_type {
        return Value::Int32(array.as_dictionary::<Int32Type>().keys().value(slot));
    }
    match data_type.stored_as() {
        _ if data_type == DataType::Time => {
            Value::Int64(array.as_primitive::<Time64MicrosecondType>().value(slot))
        }
        DataType::Int16 => Value::Int16(array.as_primitive::<Int16Type>().value(slot)),
        DataType::Int32 => Value::Int32(array.as_primitive::<Int32Type>().value(slot)),
        DataType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(slot)),
        DataType::Float32 => Value::Float32(array.as_primitive::<Float32Type>().value(slot)),
        DataType::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(slot)),
        DataType::Bool => Value::Bool(array.as_boolean().value(slot)),
        DataType::Date => Value::Date(array.as_primitive::<Date32Type>().value(slot)),
        DataType::Timestamp => {
            Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(slot))
        }
        DataType::Decimal { .. } => {
            Value::Decimal(array.as_primitive::<Decimal128Type>().value(slot))
        }
        DataType::Text => Value::Text(array.as_string_view().value(slot).to_owned()),
        DataType::Binary if let Some(element) = data_type.element() => {
            let items = array.as_list::<i32>().value(slot);
            let items: Vec<Value> =
                (0..items.len()).map(|at| shown(items.as_ref(), element, at)).collect();
            Value::Binary(encode_list(element, &items))
        }
        DataType::Interval => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(slot);
            let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
            Value::Interval(Interval { months, days, nanos })
        }
        DataType::Binary => Value::Binary(array.as_binary_view().value(slot).to_vec()),
        DataType::FixedBinary(_) => {
            Value::Binary(array.as_fixed_size_binary().value(slot).to_vec())
        }
        other => unreachable!("no type is stored as {other}"),
    }
}

fn is_less(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Int16(one), Value::Int16(other)) => one < other,
        (Value::Int32(one), Value::Int32(other)) | (Value::Date(one), Value::Date(other)) => {
            one < other
        }
        (Value::Int64(one), Value::Int64(other))
        | (Value::Timestamp(one), Value::Timestamp(other)) => one < other,
        (Value::Float32(one), Value::Float32(other)) => one < other,
        (Value::Float64(one), Value::Float64(other)) => one < other,
        (Value::Decimal(one), Value::Decimal(other)) => one < other,
        _ => panic!("{one:?} and {other:?} are not compared"),
    }
}

/// All contents of a snapshot; checks that no value is outside its zone.
fn contents(snapshot: &Snapshot) -> Model {
    let table = snapshot.table("t").unwrap();
    let mut out = Model::new();
    for number in 0..table.segment_count() {
        let segment = table.segment(number).unwrap();
        let columns = table.schema().columns();
        let arrays: Vec<_> = (0..columns.len()).map(|at| segment.array(at).unwrap()).collect();
        for slot in segment.runs().into_iter().flat_map(|(first, len)| first..first + len) {
            let row: Vec<Value> = arrays
                .iter()
                .zip(columns)
                .map(|(array, column)| shown(array.as_ref(), column.data_type, slot))
                .collect();
            for (at, value) in row.iter().enumerate() {
                if let Some((min, max)) = segment.zone(at).filter(|_| *value != Value::Null) {
                    assert!(
                        !is_less(value, &min) && !is_less(&max, value),
                        "{value:?} {min:?} {max:?}"
                    );
                }
            }
            let Value::Int64(id) = row[0] else { panic!("{row:?}") };
            assert!(out.insert(id, row).is_none(), "row {id} is there twice");
        }
    }
    out
}

/// Whether the transaction was rolled back because the database has moved a long value meanwhile.
fn is_over<R>(done: &TxnResult<R>) -> bool {
    use AbortReason::{Changed, Denied, TooLate};
    matches!(done, Err(TxnError::Abort(Changed | Denied | TooLate)))
}

/// Applies one step to an open transaction and to the model.
fn apply(tx: &mut Transaction, table: &Table, model: &mut Model, step: &Step) {
    match step {
        Step::Insert(id, seed) => {
            let row = row(*id, *seed);
            let done = tx.insert(table, &row);
            if is_over(&done) {
                return;
            }
            assert_eq!(done.is_ok(), !model.contains_key(id), "{done:?}");
            model.entry(*id).or_insert(row);
        }
        Step::InsertRows(ids, seed) => {
            let rows = ids.iter().zip(*seed..).map(|(id, seed)| row(*id, seed));
            let done = tx.insert(table, &rows.clone().flatten().collect::<Vec<_>>());
            if is_over(&done) {
                return;
            }
            // Up to the first row with an existing key, which may be that of a row before.
            let is_new = |(id, row): (&i64, _)| match model.entry(*id) {
                Entry::Vacant(place) => !place.insert(row).is_empty(),
                Entry::Occupied(_) => false,
            };
            let all_new = ids.iter().zip(rows).all(is_new);
            assert_eq!(done.is_ok(), all_new, "{done:?}");
        }
        Step::Update(id, columns, seed) => {
            let changes: Vec<_> = columns.iter().map(|at| (*at, cell(*at, *seed))).collect();
            let done = tx.update(table, &key(*id), &changes);
            if is_over(&done) {
                return;
            }
            assert_eq!(done.unwrap(), model.contains_key(id));
            if let Some(row) = model.get_mut(id) {
                changes.into_iter().for_each(|(at, value)| row[at] = value);
            }
        }
        Step::Delete(id) => {
            let done = tx.delete(table, &key(*id));
            if !is_over(&done) {
                assert_eq!(done.unwrap(), model.remove(id).is_some());
            }
        }
        other => panic!("{other:?} is no step of a transaction"),
    }
}

fn check_rows(db: &Database, table: &Table, model: &Model) {
    db.transaction(|tx| {
        for id in 0..KEYS {
            assert_eq!(tx.read(table, &key(id))?.as_ref(), model.get(&id), "row {id}");
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(table.row_count(), model.len() as u64);
}

fn run(scheme: SchemeKind, steps: &[Step]) {
    let memory_limit_bytes = Some(256 << 20);
    let options = DatabaseOptions { scheme, memory_limit_bytes, ..Default::default() };
    let db = Database::create(options).unwrap();
    let table = db.create_table("t", schema()).unwrap();
    let (mut committed, mut open) = (Model::new(), Model::new());
    let (is_versioned, mut any_cut) = (scheme == "MVCC".parse().unwrap(), false);
    let mut tx = db.begin().unwrap();
    let mut snapshots: Vec<(Model, Snapshot)> = Vec::new();
    for step in steps {
        match step {
            Step::Commit => {
                match tx.commit() {
                    Ok(()) => committed.clone_from(&open),
                    // A scheme with timestamps that must be on one side of a cut; the end of a
                    // snapshot also begins an epoch, a moment later.
                    Err(TxnError::Abort(AbortReason::Cut)) if is_versioned && any_cut => {
                        open.clone_from(&committed);
                    }
                    // The database moves long values meanwhile.
                    error if is_over(&error) => open.clone_from(&committed),
                    Err(error) => panic!("{error}"),
                }
                check_rows(&db, &table, &committed);
                tx = db.begin().unwrap();
            }
            Step::Rollback => {
                tx.rollback();
                open.clone_from(&committed);
                check_rows(&db, &table, &committed);
                tx = db.begin().unwrap();
            }
            Step::TakeSnapshot => {
                let snapshot = db.snapshot().unwrap();
                any_cut = true;
                assert_eq!(contents(&snapshot), committed, "as it was taken");
                snapshots.push((committed.clone(), snapshot));
            }
            Step::DropSnapshot(at) if *at < snapshots.len() => drop(snapshots.swap_remove(*at)),
            Step::DropSnapshot(_) => {}
            other => apply(&mut tx, &table, &mut open, other),
        }
        if !tx.is_open() {
            open.clone_from(&committed);
            tx = db.begin().unwrap();
        }
    }
    tx.rollback();
    check_rows(&db, &table, &committed);
    for (model, snapshot) in &snapshots {
        // Read anew, not from a cache.
        assert_eq!(&contents(snapshot), model, "epoch {}", snapshot.epoch());
    }
    drop(snapshots);
    let counters = db.counters();
    assert_eq!((counters.memory_kept_bytes, counters.snapshots), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn snapshots_equal_the_model_at_their_cut(steps in prop::collection::vec(step(), 1..160)) {
        run("NO_WAIT".parse().unwrap(), &steps);
    }

    #[test]
    fn so_do_those_of_a_scheme_that_stores_at_commit(
        steps in prop::collection::vec(step(), 1..160)
    ) {
        run("SILO".parse().unwrap(), &steps);
    }

    #[test]
    fn so_do_those_of_a_scheme_with_versions(steps in prop::collection::vec(step(), 1..160)) {
        run("MVCC".parse().unwrap(), &steps);
    }
}
