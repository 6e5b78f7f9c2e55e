//! ADAPTIVE under many schedules: a row on which transactions conflict is locked early, and is
//! validated again when they do not conflict any more. No transaction is stuck during either
//! change.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use atoll::machine::Machine;
use atoll_bench::keys::Random;
use atoll_storage::{Column, DataType, Schema, Table, TableId, Value};
use atoll_torture::hands::directory;
use atoll_torture::machine::{Stepped, step};
use atoll_torture::stage::{Ended, Part, play};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::scheme::Place;
use atoll_txn::schemes::adaptive::Adaptive;
use atoll_txn::{Begin, Engine, EngineOptions, OpError, Pool, SchemeOptions, TableOptions};

type Here = Pool<Adaptive<Stepped>, Stepped>;

/// All writers use row 0 at first; each of the other rows belongs to one writer.
const WRITERS: i64 = 3;
/// Transactions of each writer on the common row.
const HOT: i64 = 30;
/// Transactions of each writer on its own row afterwards: more than the hottest row needs to cool
/// down.
const CALM: i64 = 600;
const SEEDS: u64 = 12;
const STEPS_MAX: u64 = 20_000_000;

/// State that the writers share.
#[derive(Default)]
struct Said {
    /// Number of writers that still use the common row together.
    meeting: Cell<i64>,
    writing: Cell<i64>,
    /// Whether the common row was ever locked early.
    moved: Cell<bool>,
    added: Cell<i64>,
    aborts: Cell<u64>,
    /// Aborts of the first writer when only it used the row.
    aborts_when_calm: Cell<u64>,
}

/// An engine with `rows` rows, all 0.
fn engine(rows: i64) -> (Arc<Here>, Arc<Table<Stepped>>) {
    let directory = directory().unwrap();
    let scheme = Adaptive::new(&SchemeOptions::default());
    let engine =
        Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default())));
    let columns = ["id", "count"].map(|name| Column::new(name, DataType::Int64));
    let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
    let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
    let mut worker = Attached::new(&engine).unwrap();
    worker.begin(Begin::default()).unwrap();
    for id in 0..rows {
        worker.insert(&table, &[id.into(), 0i64.into()]).unwrap();
    }
    worker.commit().unwrap();
    (engine, table)
}

fn is_moved(engine: &Here) -> bool {
    engine.engine().scheme().is_pessimistic(Place::row(TableId(0), 0))
}

struct Actor {
    worker: Attached<Adaptive<Stepped>, Stepped>,
    table: Arc<Table<Stepped>>,
}

impl Actor {
    fn new(engine: &Arc<Here>, table: &Arc<Table<Stepped>>) -> Self {
        Self { worker: Attached::new(engine).unwrap(), table: Arc::clone(table) }
    }

    /// Adds 1 to a row; returns the number of retries.
    fn add(&mut self, id: i64, linger: bool) -> u64 {
        let mut aborts = 0;
        loop {
            let done = self.try_to_add(id, linger);
            match done {
                Ok(()) => return aborts,
                Err(OpError::Abort(reason)) if reason.is_conflict() => aborts += 1,
                Err(stop) => panic!("{stop}"),
            }
            Stepped::wait(0);
        }
    }

    fn try_to_add(&mut self, id: i64, linger: bool) -> Result<(), OpError> {
        self.worker.begin(Begin::default())?;
        let add = &mut |row: &mut atoll_txn::RowEdit<'_, Stepped>| {
            let count = row.i64(1) + 1;
            row.set_i64(1, count);
        };
        assert!(self.worker.update_with(&self.table, &[id.into()], add)?);
        if linger {
            (0..3).for_each(|_| Stepped::wait(0));
        }
        self.worker.commit()
    }

    /// The sum of all rows.
    fn sum(&mut self) -> Result<i64, OpError> {
        self.worker.begin(Begin { read_only: true, hurried: true, ..Begin::default() })?;
        let mut sum = 0;
        for id in 0..WRITERS {
            let row = self.worker.read(&self.table, &[Value::from(id)], &[1])?;
            let Some([Value::Int64(count)]) = row.as_deref() else { panic!("row {id}: {row:?}") };
            sum += count;
        }
        self.worker.commit()?;
        Ok(sum)
    }
}

fn writer(number: i64, engine: &Arc<Here>, mut actor: Actor, said: &Rc<Said>) -> Part {
    let (engine, said) = (Arc::clone(engine), Rc::clone(said));
    Box::new(move || {
        for _ in 0..HOT {
            said.aborts.set(said.aborts.get() + actor.add(0, true));
            said.added.set(said.added.get() + 1);
            said.moved.set(said.moved.get() || is_moved(&engine));
        }
        said.meeting.set(said.meeting.get() - 1);
        let mut left = CALM;
        while left > 0 {
            let alone = said.meeting.get() == 0;
            let aborts = actor.add(number, false);
            said.added.set(said.added.get() + 1);
            if alone {
                left -= 1;
                said.aborts_when_calm.set(said.aborts_when_calm.get() + aborts);
            }
        }
        said.writing.set(said.writing.get() - 1);
    })
}

#[test]
fn rows_move_to_early_locks_and_back_and_nobody_stops_for_it() {
    for seed in 0..SEEDS {
        let (engine, table) = engine(WRITERS);
        let said = Rc::new(Said::default());
        said.meeting.set(WRITERS);
        said.writing.set(WRITERS);
        let mut parts: Vec<Part> = (0..WRITERS)
            .map(|number| writer(number, &engine, Actor::new(&engine, &table), &said))
            .collect();
        let (mut reader, read) = (Actor::new(&engine, &table), Rc::clone(&said));
        parts.push(Box::new(move || {
            let mut before = 0;
            while read.writing.get() > 0 {
                let sum = reader.sum().expect("a reader of versions never aborts");
                assert!(sum >= before, "{sum} after {before}");
                before = sum;
                step();
            }
        }));
        let played = play(seed, STEPS_MAX, false, parts);
        assert_eq!(played.ended, Ended::Well, "seed {seed}");
        println!("seed {seed}: {} steps, {} aborts", played.steps, said.aborts.get());
        assert!(said.moved.get(), "seed {seed}: the row was left to validation all the time");
        assert!(!is_moved(&engine), "seed {seed}: it has not cooled down");
        assert!(said.aborts.get() > 0, "seed {seed}: no transactions conflicted");
        assert_eq!(said.aborts_when_calm.get(), 0, "seed {seed}");
        assert_eq!(Actor::new(&engine, &table).sum().unwrap(), said.added.get(), "seed {seed}");
    }
}

/// More rows than are stored in one section of the gate, so that other transactions run between
/// sections.
const MANY: i64 = 600;

#[test]
fn who_begins_to_read_while_a_large_commit_is_stored_sees_all_rows_as_they_were() {
    let mut between = 0;
    for seed in 0..150 {
        let (engine, table) = engine(MANY);
        let writing = Rc::new(Cell::new(true));
        let mut random = Random::new(seed);
        let mut writer = Actor::new(&engine, &table);
        let writes: Part = {
            let writing = Rc::clone(&writing);
            Box::new(move || {
                for round in 1..4i64 {
                    writer.worker.begin(Begin::default()).unwrap();
                    for id in 0..MANY {
                        let changes = [(1, Value::Int64(round))];
                        assert!(
                            writer.worker.update(&writer.table, &[id.into()], &changes).unwrap()
                        );
                    }
                    writer.worker.commit().unwrap();
                }
                writing.set(false);
            })
        };
        let mut reader = Actor::new(&engine, &table);
        let seen = Rc::new(Cell::new(0));
        let reads: Part = {
            let (writing, seen) = (Rc::clone(&writing), Rc::clone(&seen));
            Box::new(move || {
                while writing.get() {
                    let begin = Begin { read_only: true, ..Begin::default() };
                    reader.worker.begin(begin).unwrap();
                    let values = [0, 100, 300, MANY - 1].map(|id: i64| {
                        let row = reader.worker.read(&reader.table, &[id.into()], &[1]);
                        let row = row.expect("a reader of versions never aborts");
                        row.unwrap_or_else(|| panic!("seed {seed}: row {id} is not there"))
                    });
                    assert!(
                        values.iter().all(|value| *value == values[0]),
                        "seed {seed}: {values:?}"
                    );
                    reader.worker.commit().unwrap();
                    seen.set(seen.get() + 1);
                    // Most of the time no transaction reads.
                    (0..random.below(20_000)).for_each(|_| step());
                }
            })
        };
        let played = play(seed, STEPS_MAX, false, vec![writes, reads]);
        assert_eq!(played.ended, Ended::Well, "seed {seed}");
        between += seen.get();
    }
    assert!(between > 150, "no transaction read meanwhile");
}
