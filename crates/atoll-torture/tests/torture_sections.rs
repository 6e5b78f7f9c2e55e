//! A transaction that stores in several sections may be aborted between two of them. Under many
//! schedules, no transaction commits that has then seen a part of it.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use atoll::machine::Machine;
use atoll_storage::{Column, DataType, Schema, Table};
use atoll_torture::hands::directory;
use atoll_torture::machine::{Stepped, step};
use atoll_torture::stage::{Ended, Part, play};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{Begin, Engine, EngineOptions, OpError, Pool, Row, RowEdit, Scheme, TableOptions};

/// Rows that always hold the same number, each stored in a section of its own.
const SAME: i64 = 12;
/// The row that conflicts with a transaction that has read it.
const OTHER: i64 = SAME;
const ROUNDS: u32 = 12;
const SEEDS: u64 = 250;
const STEPS_MAX: u64 = 2_000_000;

/// Reads of a reader that waits for a number, with a step after each.
const LOOKS: usize = 150;

/// State that the actors share.
#[derive(Default)]
struct Said {
    /// Something is being stored: it is time to conflict.
    now: Cell<bool>,
    reading: Cell<bool>,
    added_to_all: Cell<i64>,
    added_to_other: Cell<i64>,
}

struct Actor<S: Scheme<Stepped>> {
    worker: Attached<S, Stepped>,
    table: Arc<Table<Stepped>>,
}

impl<S: Scheme<Stepped>> Actor<S> {
    fn new(engine: &Arc<Pool<S, Stepped>>, table: &Arc<Table<Stepped>>) -> Self {
        Self { worker: Attached::new(engine).unwrap(), table: Arc::clone(table) }
    }

    fn add(&mut self, id: i64) -> Result<(), OpError> {
        let body = &mut |row: &mut RowEdit<'_, Stepped>| {
            let number = row.i64(1);
            row.set_i64(1, number + 1);
        };
        assert!(self.worker.update_with(&self.table, &[id.into()], body)?);
        Ok(())
    }

    fn number(&mut self, id: i64) -> Result<i64, OpError> {
        let mut number = 0;
        let body = &mut |row: &Row<'_, Stepped>| number = row.i64(1);
        assert!(self.worker.read_with(&self.table, &[id.into()], body)?);
        Ok(number)
    }

    fn add_to_all(&mut self) -> Result<(), OpError> {
        self.worker.begin(Begin::default())?;
        (0..SAME).try_for_each(|id| self.add(id))?;
        self.number(OTHER)?;
        self.worker.commit()
    }

    fn add_to_other(&mut self) -> Result<(), OpError> {
        self.worker.begin(Begin::default())?;
        self.add(OTHER)?;
        self.worker.commit()
    }

    /// Reads the last row, which is stored last; then reads the first row while it holds another
    /// number, unless the read is repeated.
    fn numbers(&mut self, said: &Said) -> Result<[i64; 2], OpError> {
        self.worker.begin(Begin::default())?;
        let last = self.number(SAME - 1)?;
        let (mut first, mut is_first_look) = (0, true);
        let body = &mut |row: &Row<'_, Stepped>| {
            first = row.i64(1);
            if !std::mem::take(&mut is_first_look) {
                return;
            }
            let wait_for = |is_it: &dyn Fn(i64) -> bool| {
                (0..LOOKS).any(|_| {
                    step();
                    is_it(row.i64(1))
                });
            };
            wait_for(&|number| number != last);
            first = row.i64(1);
            said.now.set(true);
            wait_for(&|number| number == last);
            // The old value is back before its writer has released the row.
            (0..LOOKS).for_each(|_| step());
        };
        assert!(self.worker.read_with(&self.table, &[0i64.into()], body)?);
        self.worker.commit()?;
        Ok([first, last])
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

struct Sections(u64);

impl SchemeVisitor<Stepped> for Sections {
    type Output = ();

    fn visit<S: Scheme<Stepped>>(self, scheme: S) {
        let Self(seed) = self;
        let options =
            EngineOptions { accounting: false, rows_in_section: 1, ..EngineOptions::default() };
        let engine =
            Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory().unwrap()), options)));
        let columns = ["id", "number"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
        let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
        let mut first = Actor::new(&engine, &table);
        first.worker.begin(Begin::default()).unwrap();
        for id in 0..=OTHER {
            first.worker.insert(&table, &[id.into(), 0i64.into()]).unwrap();
        }
        first.worker.commit().unwrap();

        let said = Rc::new(Said { reading: Cell::new(true), ..Said::default() });
        let [mut writer, mut adder, mut reader] = [0; 3].map(|_| Actor::new(&engine, &table));
        let writes: Part = Box::new({
            let said = Rc::clone(&said);
            move || {
                while said.reading.get() {
                    let added = i64::from(has_committed(writer.add_to_all()));
                    said.added_to_all.set(said.added_to_all.get() + added);
                }
            }
        });
        let gets_in_the_way: Part = Box::new({
            let (said, engine) = (Rc::clone(&said), Arc::clone(&engine));
            move || {
                while said.reading.get() {
                    if !said.now.take() {
                        Stepped::wait(0);
                    } else if seed % 2 == 0 {
                        let added = i64::from(has_committed(adder.add_to_other()));
                        said.added_to_other.set(said.added_to_other.get() + added);
                    } else {
                        // Schemes that order transactions beforehand abort on this.
                        let memory = engine.memory();
                        let taking = engine.taking();
                        let cut = memory.cut();
                        drop(taking);
                        memory.release(cut.epoch);
                    }
                }
            }
        });
        let reads: Part = Box::new({
            let said = Rc::clone(&said);
            move || {
                for _ in 0..ROUNDS {
                    let same = reader.numbers(&said).map(|[first, last]| {
                        assert_eq!(first, last, "{}, seed {seed}", S::NAME);
                    });
                    has_committed(same);
                }
                said.reading.set(false);
            }
        });
        let played = play(seed, STEPS_MAX, false, vec![writes, gets_in_the_way, reads]);
        assert_eq!(played.ended, Ended::Well, "{}, seed {seed}", S::NAME);
        first.worker.begin(Begin::default()).unwrap();
        let numbers = [0, SAME - 1, OTHER].map(|id| first.number(id).unwrap());
        let [to_all, to_other] = [said.added_to_all.get(), said.added_to_other.get()];
        assert_eq!(numbers, [to_all, to_all, to_other], "{}, seed {seed}", S::NAME);
        first.worker.commit().unwrap();
    }
}

#[test]
fn nobody_commits_what_is_rolled_back_between_two_sections() {
    for kind in SchemeKind::ALL.iter().copied() {
        (0..SEEDS).for_each(|seed| kind.visit(&SchemeOptions::default(), Sections(seed)));
    }
}
