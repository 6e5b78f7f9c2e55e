//! Sessions on several threads run random transactions of SQL on a small table, and every result is
//! checked by the checker of histories of `atoll-txn`.
//!
//! Each change stores a version that no other has, and returns the version that it replaced. Above
//! READ COMMITTED, and under schemes that do not give it, a history must be serializable, ranges
//! and absent rows included. At READ COMMITTED the changes of a transaction must become visible at
//! once and replace what was committed last, each query must show what was committed at one moment,
//! and no `SET n = n + 1` may be lost. A statement that fails must have changed nothing.
//!
//! Transactions are random but fixed; the threads meet as they happen to.
//!
//! Planted by hand, each of these was found in the first rounds: an `UPDATE` at READ COMMITTED that
//! computes from a row before it holds it; a query at READ COMMITTED that passes by the rows that
//! others hold and does not start again; a `ROLLBACK TO` that leaves one change; a failing
//! statement alone that is not undone; a scheme that grants the reads of gaps, or of rows that
//! others have changed, without a lock.

#![allow(clippy::unwrap_used)]

mod actor;
mod plan;
mod record;

use std::collections::BTreeMap;

use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_sql::SqlSession;
use atoll_txn::TimestampKind;
use atoll_txn::history::{End, Item, Left, Over, Recorder, check};

use actor::{Actor, Tally};
use plan::{KEYS, PLACES, Random};
use record::{Record, item};

const THREADS: u32 = 4;
/// Transactions of each thread.
const PLANS: usize = 40;
/// Databases under each scheme; `ATOLL_TORTURE_ROUNDS` sets another number, and
/// `ATOLL_TORTURE_SCHEME` chooses one scheme.
const ROUNDS: u64 = 30;

/// A database with every second row, and what is in it.
fn database(scheme: SchemeKind) -> (Database, BTreeMap<Item, Left>) {
    let lock_timeout = atoll_sql::lock_timeout(scheme);
    let options = DatabaseOptions { scheme, lock_timeout, ..DatabaseOptions::default() };
    let db = Database::create(options).unwrap();
    let mut session = SqlSession::on_database(db.clone());
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, version bigint NOT NULL, before bigint NOT NULL, \
         place int NOT NULL, INDEX by_place (place))",
        "CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL)",
    ] {
        session.execute(sql).unwrap();
    }
    let mut initial = BTreeMap::new();
    for key in 0..KEYS {
        session.execute_with("INSERT INTO counter VALUES ($1, 0)", (key,)).unwrap();
        if key % 2 == 0 {
            let (version, place) = (key + 1, key % PLACES);
            let sql = "INSERT INTO t VALUES ($1, $2, 0, $3)";
            session.execute_with(sql, (key, version, place)).unwrap();
            initial.insert(item(key), Left { version: version as u64, place: place.into() });
        }
    }
    (db, initial)
}

/// Looks at everything in the end, by both indexes.
fn look(db: &Database, recorder: &Recorder, counted: &BTreeMap<i32, i64>) {
    let mut session = SqlSession::on_database(db.clone());
    let mut record = Record::begin(recorder, THREADS, false);
    for (over, column) in [(Over::Key, "id"), (Over::Place, "place")] {
        let sql = format!("SELECT id, version FROM t WHERE {column} BETWEEN 0 AND {KEYS}");
        let rows: Vec<(i32, i64)> = session.query(&sql, ()).unwrap();
        let found = rows.into_iter().map(|(key, version)| (key, version as u64)).collect();
        record.scanned(over, &(0..=KEYS), &found);
    }
    record.end(End::Committed).unwrap();
    let rows: Vec<(i32, i64)> = session.query("SELECT id, n FROM counter", ()).unwrap();
    let expected = |key: &i32| counted.get(key).copied().unwrap_or(0);
    let wrong: Vec<_> = rows.iter().filter(|(key, n)| *n != expected(key)).collect();
    assert!(wrong.is_empty(), "{wrong:?} differ from what was counted: {counted:?}");
}

fn round(scheme: SchemeKind, seed: u64) -> Tally {
    let (db, initial) = database(scheme);
    let recorder = Recorder::new(1);
    let (mut tally, mut counted) = (Tally::default(), BTreeMap::new());
    std::thread::scope(|scope| {
        let start = |thread: u32| {
            let (db, recorder) = (db.clone(), &recorder);
            scope.spawn(move || {
                let mut actor = Actor {
                    session: SqlSession::on_database(db),
                    recorder,
                    thread,
                    reads_committed: scheme.releases_reads(),
                    random: Random::new(seed << 8 | u64::from(thread)),
                    tally: Tally::default(),
                    counted: BTreeMap::new(),
                };
                let done = actor.run(PLANS);
                (done, actor.tally, actor.counted)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        for thread in threads {
            let (done, its, of_it) = thread.join().unwrap();
            done.unwrap_or_else(|fault| panic!("{scheme}, seed {seed}: {fault}"));
            tally.add(its);
            for (key, times) in of_it {
                *counted.entry(key).or_default() += times;
            }
        }
    });
    look(&db, &recorder, &counted);
    let strict = scheme.is_strict(TimestampKind::default());
    if let Err(anomaly) = check(&recorder.history(initial), strict) {
        panic!("{scheme}, seed {seed}: {anomaly}");
    }
    tally
}

fn torture(scheme: SchemeKind, rounds: u64) {
    let mut tally = Tally::default();
    (0..rounds).for_each(|seed| tally.add(round(scheme, seed)));
    // Else the plans would be too few or too much alike to show anything.
    let Tally { committed, failed, rolled_back_to, ranges, .. } = tally;
    let least = rounds * u64::from(THREADS) * PLANS as u64 / 4;
    assert!(committed > least, "{scheme}: {tally:?}");
    assert!(failed > 0 && rolled_back_to > 0 && ranges > 0, "{scheme}: {tally:?}");
    println!("{scheme}: {tally:?}");
}

#[test]
fn histories_of_sql_have_an_explanation_under_every_scheme() {
    let set = |name: &str| std::env::var(name).ok();
    let rounds = set("ATOLL_TORTURE_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let only: Option<SchemeKind> = set("ATOLL_TORTURE_SCHEME").map(|name| name.parse().unwrap());
    let schemes = SchemeKind::ALL.iter().filter(|scheme| only.is_none_or(|only| only == **scheme));
    schemes.for_each(|scheme| torture(*scheme, rounds));
}
