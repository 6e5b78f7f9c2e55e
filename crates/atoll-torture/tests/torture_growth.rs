//! A segment grows while transactions change its rows and snapshots are taken. Under many
//! schedules, no change is lost, and each snapshot shows a state between transactions.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use atoll::machine::Machine;
use atoll_bench::keys::Random;
use atoll_storage::undo::{Entry, Was};
use atoll_storage::{Column, DataType, Schema, Table, Value, reader};
use atoll_torture::hands::directory;
use atoll_torture::machine::Stepped;
use atoll_torture::stage::{Ended, Part, play};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{Begin, Engine, EngineOptions, OpError, Pool, Row, RowEdit, Scheme, TableOptions};

/// Rows that transactions change. Each moves one from one row to another, so the sum of their
/// numbers stays 0.
const CHANGED: i64 = 6;
/// Rows before and after the inserts, which make a segment of 128 rows grow.
const BEFORE: i64 = 120;
const AFTER: i64 = 150;
const AT_ONCE: i64 = 5;
const SEEDS: u64 = 120;
const STEPS_MAX: u64 = 2_000_000;

struct Actor<S: Scheme<Stepped>> {
    worker: Attached<S, Stepped>,
    table: Arc<Table<Stepped>>,
}

impl<S: Scheme<Stepped>> Actor<S> {
    fn new(engine: &Arc<Pool<S, Stepped>>, table: &Arc<Table<Stepped>>) -> Self {
        Self { worker: Attached::new(engine).unwrap(), table: Arc::clone(table) }
    }

    fn add(&mut self, id: i64, more: i64) -> Result<(), OpError> {
        let body = &mut |row: &mut RowEdit<'_, Stepped>| {
            let number = row.i64(1) + more;
            row.set_i64(1, number);
            row.set(2, &number.into());
        };
        assert!(self.worker.update_with(&self.table, &[id.into()], body)?);
        Ok(())
    }

    /// The number of a row, which it has twice.
    fn number(&mut self, id: i64) -> Result<i64, OpError> {
        let (mut number, mut same) = (0, Value::Null);
        let body = &mut |row: &Row<'_, Stepped>| {
            number = row.i64(1);
            same = row.value(2);
        };
        assert!(self.worker.read_with(&self.table, &[id.into()], body)?, "row {id}");
        assert_eq!(same, number.into(), "row {id}");
        Ok(number)
    }

    fn move_one(&mut self, from: i64, to: i64) -> Result<(), OpError> {
        self.worker.begin(Begin::default())?;
        self.add(from, -1)?;
        self.add(to, 1)?;
        self.worker.commit()
    }

    fn insert(&mut self, ids: std::ops::Range<i64>) -> Result<(), OpError> {
        self.worker.begin(Begin::default())?;
        for id in ids {
            self.worker.insert(&self.table, &[id.into(), 0i64.into(), 0i64.into()])?;
        }
        self.worker.commit()
    }
}

/// Returns whether it committed; otherwise there was a conflict.
fn has_committed(done: Result<(), OpError>) -> bool {
    match done {
        Ok(()) => return true,
        Err(OpError::Abort(reason)) if reason.is_conflict() => Stepped::wait(0),
        Err(stop) => panic!("{stop}"),
    }
    false
}

/// The numbers of the changed rows in a snapshot, and the rows that it shows.
fn shown<S: Scheme<Stepped>>(engine: &Pool<S, Stepped>) -> ([i64; CHANGED as usize], u32) {
    let memory = engine.memory();
    let taking = engine.taking();
    let cut = memory.cut();
    let patch: Vec<Entry> = taking.collect(cut.epoch);
    drop(taking);
    // Transactions go on meanwhile.
    (0..3).for_each(|_| Stepped::wait(0));
    let view = memory.access().view();
    let table = reader::tables(view, cut.root).unwrap().remove(0);
    let segment = table.segment(view, 0).unwrap();
    assert!(segment.filled <= segment.capacity);
    let values = table.column(view, &segment, 1).unwrap().values.offset;
    let mut numbers = std::array::from_fn(|slot| view.load_u64(values + slot as u64 * 8) as i64);
    let mut bits = vec![0; segment.presence.bytes as usize];
    view.read(segment.presence.offset, &mut bits);
    for entry in patch {
        let slot = entry.row.slot();
        assert!(slot < segment.capacity);
        match entry.was {
            Was::Value { column: 1, image, .. } if slot < numbers.len() => {
                numbers[slot] = i64::from_le_bytes(image[..8].try_into().unwrap());
            }
            Was::Presence(false) => bits[slot / 8] &= !(1 << (slot % 8)),
            _ => {}
        }
    }
    memory.release(cut.epoch);
    (numbers, bits.iter().map(|byte| byte.count_ones()).sum())
}

struct Growth(u64);

impl SchemeVisitor<Stepped> for Growth {
    type Output = ();

    fn visit<S: Scheme<Stepped>>(self, scheme: S) {
        let Self(seed) = self;
        let options = EngineOptions { accounting: false, ..EngineOptions::default() };
        let engine =
            Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory().unwrap()), options)));
        let mut columns = ["id", "number", "same"].map(|name| Column::new(name, DataType::Int64));
        columns[2].nullable = true;
        let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let mut inserter = Actor::new(&engine, &table);
        inserter.insert(0..BEFORE).unwrap();

        let inserting = Rc::new(Cell::new(true));
        let totals = Rc::new([const { Cell::new(0i64) }; CHANGED as usize]);
        let mover = |number: u64| -> Part {
            let (inserting, totals) = (Rc::clone(&inserting), Rc::clone(&totals));
            let mut actor = Actor::new(&engine, &table);
            let mut random = Random::new(seed * 10 + number);
            Box::new(move || {
                while inserting.get() {
                    let from = random.below(CHANGED as u64) as i64;
                    let to = (from + 1) % CHANGED;
                    if has_committed(actor.move_one(from, to)) {
                        let count = |id: i64, more| {
                            let total = &totals[id as usize];
                            total.set(total.get() + more);
                        };
                        count(from, -1);
                        count(to, 1);
                    }
                }
            })
        };
        let inserts: Part = Box::new({
            let inserting = Rc::clone(&inserting);
            move || {
                let mut next = BEFORE;
                while next < AFTER {
                    next +=
                        i64::from(has_committed(inserter.insert(next..next + AT_ONCE))) * AT_ONCE;
                }
                inserting.set(false);
            }
        });
        let snapshots: Part = Box::new({
            let (inserting, engine) = (Rc::clone(&inserting), Arc::clone(&engine));
            let counted = Arc::clone(&table);
            move || {
                // Not in each run, since a snapshot makes extents frozen, which are copied anyway.
                while inserting.get() && seed % 3 == 0 {
                    let (numbers, rows) = shown(&engine);
                    assert_eq!(numbers.iter().sum::<i64>(), 0, "{}, seed {seed}", S::NAME);
                    assert_eq!(i64::from(rows) % AT_ONCE, 0, "{}, seed {seed}", S::NAME);
                    let rows = counted.row_count() as i64;
                    assert!((BEFORE..=AFTER).contains(&rows), "{rows} rows, seed {seed}");
                    (0..40).for_each(|_| Stepped::wait(0));
                }
            }
        });
        let parts = vec![mover(0), mover(1), inserts, snapshots];
        let played = play(seed, STEPS_MAX, false, parts);
        assert_eq!(played.ended, Ended::Well, "{}, seed {seed}", S::NAME);

        let mut reader = Actor::new(&engine, &table);
        reader.worker.begin(Begin::default()).unwrap();
        let totals: Vec<i64> = totals.iter().map(Cell::get).collect();
        let numbers: Vec<i64> = (0..CHANGED).map(|id| reader.number(id).unwrap()).collect();
        assert_eq!(numbers, totals, "{}, seed {seed}", S::NAME);
        (CHANGED..AFTER).for_each(|id| assert_eq!(reader.number(id).unwrap(), 0));
        reader.worker.commit().unwrap();
        assert_eq!(table.segment_count(), 1, "the segment has grown");
    }
}

#[test]
fn no_change_of_a_row_is_lost_while_its_segment_grows() {
    for kind in SchemeKind::ALL.iter().copied() {
        (0..SEEDS).for_each(|seed| kind.visit(&SchemeOptions::default(), Growth(seed)));
    }
}
