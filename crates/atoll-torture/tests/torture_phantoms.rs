//! One transaction inserts key after key, another looks for each key twice, and stores wait in
//! store buffers: the second lookup finds a key only if the first one did, in every schedule.
//! Without fences this fails.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use atoll::machine::Ordering;
use atoll_bench::keys::Random;
use atoll_storage::{Column, DataType, Schema, Table, Value};
use atoll_torture::buffers::ignore_fences;
use atoll_torture::hands::directory;
use atoll_torture::machine::{Stepped, step};
use atoll_torture::stage::{Ended, Part, play};
use atoll_txn::any::{AnyEngine, AnyTxn, Attached};
use atoll_txn::schemes::{SchemeKind, SchemeVisitor};
use atoll_txn::{Begin, Engine, EngineOptions, OpError, Pool, Scheme, SchemeOptions, TableOptions};

/// All schemes except HSTORE, with transactions that never run together in a partition, and OCC,
/// which reads nothing newer than its begin.
const PLANTED: [&str; 8] =
    ["dl-detect", "no-wait", "wait-die", "timestamp", "mvcc", "silo", "tictoc", "adaptive"];
const KEYS: i64 = 30;
const SEEDS: u64 = 200;
const STEPS_MAX: u64 = 4_000_000;

fn engine<S: Scheme<Stepped>>(scheme: S) -> (Arc<Pool<S, Stepped>>, Arc<Table<Stepped>>) {
    let directory = directory().unwrap();
    let engine =
        Pool::new(Arc::new(Engine::new(scheme, Arc::new(directory), EngineOptions::default())));
    let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
    let table = engine.create_table("t", schema, &TableOptions::default()).unwrap();
    (engine, table)
}

/// Retries until the transaction commits.
fn commit<S: Scheme<Stepped>, R>(
    worker: &mut Attached<S, Stepped>,
    mut body: impl FnMut(&mut Attached<S, Stepped>) -> Result<R, OpError>,
) -> R {
    loop {
        let done = worker.begin(Begin::default()).and_then(|()| body(worker));
        match done.and_then(|result| worker.commit().map(|()| result)) {
            Ok(result) => return result,
            Err(OpError::Abort(reason)) if reason.is_conflict() => (0..3).for_each(|_| step()),
            Err(stop) => panic!("{stop}"),
        }
    }
}

/// Runs a seed; returns how many keys appeared within a transaction that had found them absent.
struct Run(u64);

impl SchemeVisitor<Stepped> for Run {
    type Output = u64;

    fn visit<S: Scheme<Stepped>>(self, scheme: S) -> u64 {
        let (engine, table) = engine(scheme);
        // Groups of gap states and parts of the index are made when a key of theirs is first looked
        // for, which would order the stores as fences do. So other keys are looked for before; the
        // gaps of the test's own keys stay unread.
        let mut first = Attached::new(&engine).unwrap();
        commit(&mut first, |worker| {
            let mut others = (0..400).map(|at| [Value::Int64(10_000 + at)]);
            others.try_for_each(|key| worker.read(&table, &key, &[]).map(drop))
        });
        let (coming, appeared) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut random = Random::new(self.0);
        let mut writer = Attached::new(&engine).unwrap();
        let writes: Part = {
            let (table, coming) = (Arc::clone(&table), Rc::clone(&coming));
            Box::new(move || {
                for key in 0..KEYS {
                    coming.set(key);
                    (0..random.below(60)).for_each(|_| step());
                    commit(&mut writer, |worker| worker.insert(&table, &[Value::Int64(key)]));
                }
                coming.set(KEYS);
            })
        };
        let mut reader = Attached::new(&engine).unwrap();
        let reads: Part = {
            let (coming, appeared) = (Rc::clone(&coming), Rc::clone(&appeared));
            Box::new(move || {
                while coming.get() < KEYS {
                    let key = [Value::Int64(coming.get())];
                    let (first, second) = commit(&mut reader, |worker| {
                        let first = worker.read(&table, &key, &[])?;
                        (0..60).for_each(|_| step());
                        Ok((first, worker.read(&table, &key, &[])?))
                    });
                    appeared.set(appeared.get() + u64::from(first.is_none() && second.is_some()));
                }
            })
        };
        assert_eq!(play(self.0, STEPS_MAX, false, vec![writes, reads]).ended, Ended::Well);
        appeared.get()
    }
}

fn appeared(kind: SchemeKind) -> u64 {
    let options = SchemeOptions::default();
    (0..SEEDS).map(|seed| kind.visit(&options, Run(seed))).sum()
}

#[test]
fn no_key_appears_that_was_absent_and_without_fences_some_do() {
    for kind in SchemeKind::ALL.iter().copied() {
        assert_eq!(appeared(kind), 0, "{kind}");
    }
    for name in PLANTED {
        ignore_fences(Some(Ordering::SeqCst));
        let planted = appeared(name.parse().unwrap());
        ignore_fences(None);
        assert!(planted > 0, "{name}");
    }
}
