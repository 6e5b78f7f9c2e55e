//! After its warm-up, a session does not allocate while it reads and changes rows, also with
//! indexes in which rows move and with scans of them, alone or in conflict with other transactions.
//! Long texts, indexes over texts, and values wider than the space on the stack are not tested
//! here.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;

use atoll::{
    Column, DataType, Database, DatabaseOptions, Index, IndexSpec, Range, Request, Schema,
    SchemeKind, Table, TableOptions, Transaction, TransactionOptions, TxnResult, Value, Visit,
    Want,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of the thread.
struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROWS: i64 = 5000;

fn database(scheme: SchemeKind) -> (Database, Table) {
    database_with(scheme, &[])
}

/// With indexes, each over one column; the index over the key is unique.
fn database_with(scheme: SchemeKind, indexed: &[&str]) -> (Database, Table) {
    let options = DatabaseOptions { scheme, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("count", DataType::Int64),
        Column::new("bytes", DataType::FixedBinary(100)),
        Column::nullable("short", DataType::Text),
    ];
    let index = |column: &&str| IndexSpec {
        name: (*column).to_owned(),
        columns: vec![(*column).to_owned()],
        unique: *column == "id",
        nulls_not_distinct: false,
    };
    let indexes = indexed.iter().map(index).collect();
    let options = TableOptions { indexes, ..TableOptions::default() };
    let schema = Schema::new(columns, &["id"]).unwrap();
    let table = db.create_table_with("t", schema, &options).unwrap();
    for from in (0..ROWS).step_by(500) {
        let fill = |tx: &mut Transaction| {
            (from..from + 500).try_for_each(|id| {
                let bytes = Value::Binary(vec![1; 100]);
                tx.insert(&table, &[id.into(), 0i64.into(), bytes, Value::Text("a".into())])
            })
        };
        db.transaction(fill).unwrap();
    }
    (db, table)
}

/// Sixteen accesses: reads, changes of each kind of column, and missing keys.
fn sixteen(tx: &mut Transaction, table: &Table, keys: &[Value; 16]) -> TxnResult<()> {
    let mut bytes = [0; 100];
    for (at, key) in keys.iter().enumerate() {
        let key = std::slice::from_ref(key);
        if at % 2 == 0 {
            tx.read_with(table, key, |row| row.bytes(2, &mut bytes))?;
        } else {
            tx.update_with(table, key, |row| {
                let count = row.i64(1) + 1;
                row.set_i64(1, count);
                row.set_bytes(2, &[count as u8; 100]);
            })?;
        }
    }
    Ok(())
}

/// The same accesses in one call.
fn sixteen_together(tx: &mut Transaction, table: &Table, keys: &[Value; 16]) -> TxnResult<()> {
    let mut bytes = [0; 100];
    let wants = |at: usize| Want { columns: &[1, 2], update: at % 2 == 1 };
    tx.visit(table, keys, wants, |_, row| match row {
        Visit::Absent => {}
        Visit::Read(row) => assert!(row.bytes(2, &mut bytes), "it is never NULL"),
        Visit::Update(row) => {
            let count = row.i64(1) + 1;
            row.set_i64(1, count);
            row.set_bytes(2, &[count as u8; 100]);
        }
    })
}

/// Keys of a transaction; one of them has no row.
fn keys(round: i64) -> [Value; 16] {
    std::array::from_fn(|at| {
        let at = at as i64;
        Value::Int64(if at == 6 { ROWS + 1 } else { (round * 1013 + at * 61) % ROWS })
    })
}

#[test]
fn a_session_that_has_warmed_up_allocates_nothing() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let mut session = db.session().unwrap();
        let mut row = a_row();
        let run = |rounds: std::ops::Range<i64>| {
            for round in rounds {
                let keys = keys(round);
                let body = |tx: &mut Transaction| {
                    if round % 2 == 0 {
                        tx.prefetch(&table, &keys, |_| &[1, 2]);
                        sixteen(tx, &table, &keys)?;
                    } else {
                        sixteen_together(tx, &table, &keys)?;
                    }
                    // A row is deleted and inserted again, one is inserted, and one is deleted.
                    tx.delete(&table, &keys[..1])?;
                    row[0] = keys[0].clone();
                    tx.insert(&table, &row)?;
                    row[0] = Value::Int64(100_000 + round);
                    tx.insert(&table, &row)?;
                    row[0] = Value::Int64(100_000 + round - 5);
                    tx.delete(&table, &row[..1])?;
                    Ok(())
                };
                session.transaction(body).unwrap();
            }
        };
        expect_few(scheme, 0, run);
    }
}

/// Runs transactions with these numbers; after the warm-up they may allocate at most `most` times.
fn expect_few(scheme: SchemeKind, most: u64, mut run: impl FnMut(std::ops::Range<i64>)) {
    run(0..2000);
    let before = COUNT.with(Cell::get);
    run(2000..4000);
    let allocated = COUNT.with(Cell::get) - before;
    println!("{scheme}: {allocated} allocations");
    assert!(allocated <= most, "{scheme}: {allocated} allocations in 2000 transactions");
}

/// Allocations of splits and merges of leaves, which occur once in some dozens of changes: each
/// allocates space for the keys around the place for a moment.
const OF_LEAVES: u64 = 100;

/// Groups of rows with the same count.
const GROUPS: i64 = 50;

/// Moves rows to other groups, deletes and inserts one, and scans a range of keys and two groups,
/// in both directions.
fn move_and_scan(
    tx: &mut Transaction,
    (table, indexes): (&Table, &[Index; 2]),
    row: &mut [Value; 4],
    round: i64,
) -> TxnResult<()> {
    let [by_id, by_group] = indexes;
    let group = |at: i64| [Value::Int64((round + at) % GROUPS)];
    for at in 0..4 {
        let key = [Value::Int64((round * 1013 + at * 61) % ROWS)];
        tx.update_with(table, &key, |row| row.set_i64(1, (round + at) % GROUPS))?;
    }
    row[0] = Value::Int64((round * 389) % ROWS);
    [row[1]] = group(7);
    tx.delete(table, &row[..1])?;
    tx.insert(table, row)?;
    let mut seen = 0;
    let mut take = |group: i64| {
        seen += i64::from(group == (round + 7) % GROUPS);
        ControlFlow::Continue(())
    };
    let (from, to) = ([row[0].clone()], [Value::Int64((round * 389) % ROWS + 30)]);
    tx.scan(by_id, Range::between(&from, &to), |row| row.i64(1), &mut take)?;
    tx.scan(by_group, Range::prefix(&group(3)), |row| row.i64(1), &mut take)?;
    tx.scan(by_group, Range::prefix(&group(7)).descending(), |row| row.i64(1), &mut take)?;
    assert!(seen > 1, "the row that came back is in the range and in the group");
    Ok(())
}

fn a_row() -> [Value; 4] {
    let bytes = Value::Binary(vec![1; 100]);
    [Value::Int64(0), Value::Int64(0), bytes, Value::Text("short".into())]
}

fn indexed(scheme: SchemeKind) -> (Database, Table, [Index; 2]) {
    let (db, table) = database_with(scheme, &["id", "count"]);
    let indexes = ["id", "count"].map(|name| table.index(name).unwrap());
    // Moves the rows out of the one group in which all are loaded.
    let mut session = db.session().unwrap();
    for id in 0..ROWS {
        let spread = |tx: &mut Transaction| {
            tx.update_with(&table, &[id.into()], |row| row.set_i64(1, id % GROUPS)).map(|_| ())
        };
        session.transaction(spread).unwrap();
    }
    (db, table, indexes)
}

#[test]
fn scans_and_rows_that_move_in_an_index_allocate_for_leaves_alone() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table, indexes) = indexed(scheme);
        let mut session = db.session().unwrap();
        let mut row = a_row();
        expect_few(scheme, OF_LEAVES, |rounds| {
            for round in rounds {
                let body =
                    |tx: &mut Transaction| move_and_scan(tx, (&table, &indexes), &mut row, round);
                session.transaction(body).unwrap();
            }
        });
    }
}

struct Keys([Value; 16]);

impl Keys {
    const OPTIONS: &TransactionOptions =
        &TransactionOptions { partitions: Vec::new(), read_only: false, durability: None };
}

impl Request for Keys {
    fn options(&self) -> &TransactionOptions {
        Self::OPTIONS
    }
}

#[test]
fn lanes_that_have_warmed_up_allocate_nothing() {
    let (db, table) = database(SchemeKind::default());
    let mut lanes = db.lanes(4).unwrap();
    let (mut round, mut before) = (0, 0);
    lanes.run(
        || {
            round += 1;
            if round == 2000 {
                before = COUNT.with(Cell::get);
            }
            (round < 4000).then(|| Keys(keys(round)))
        },
        async |tx, Keys(keys)| {
            tx.fetch(&table, keys, |_| &[1, 2]).await;
            sixteen(tx, &table, keys)
        },
        |_, result| result.unwrap(),
    );
    // Memory that is freed when the run ends does not count.
    assert_eq!(COUNT.with(Cell::get) - before, 0);
}

/// Rows that all threads change.
const FEW: i64 = 4;

/// Two of these rows, in any order.
fn pair(round: i64) -> [Value; 2] {
    [round % FEW, (round + 1 + round / FEW % (FEW - 1)) % FEW].map(Value::Int64)
}

fn add(tx: &mut Transaction, table: &Table, key: &Value) -> TxnResult<()> {
    let found = tx.update_with(table, std::slice::from_ref(key), |row| {
        let count = row.i64(1) + 1;
        row.set_i64(1, count);
    })?;
    assert!(found.is_some());
    Ok(())
}

struct Pair([Value; 2]);

impl Request for Pair {
    fn options(&self) -> &TransactionOptions {
        Keys::OPTIONS
    }
}

#[test]
fn lanes_that_meet_allocate_nothing_either() {
    for scheme in SchemeKind::ALL.iter().copied() {
        let (db, table) = database(scheme);
        let mut lanes = db.lanes(4).unwrap();
        let (mut round, mut before) = (0, 0);
        lanes.run(
            || {
                round += 1;
                // By then each lane has used several chunks of older versions.
                if round == 15_000 {
                    before = COUNT.with(Cell::get);
                }
                (round < 30_000).then(|| Pair(pair(round)))
            },
            async |tx, Pair(keys)| {
                for key in keys {
                    add(tx, &table, key)?;
                    tx.fetch(&table, std::slice::from_ref(key), |_| &[1]).await;
                }
                Ok(())
            },
            |_, result| result.unwrap(),
        );
        assert_eq!(COUNT.with(Cell::get) - before, 0, "{scheme}");
        // Where transactions lock partitions, they wait for their turn instead of aborting.
        let (aborts, queue) = (lanes.aborts(), scheme.is_partitioned());
        assert!(if queue { aborts == 0 } else { aborts > 100 }, "{scheme}: {aborts} times");
    }
}
