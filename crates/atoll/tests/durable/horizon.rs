//! The durable horizon across crashes during recovery: blocks that a recovery has cut off, or that
//! precede a checkpoint, cannot show any more how far the logs were durable. The control file
//! records it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use atoll::machine::CrashMedium;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, LogsOptions, Planted, Schema,
    SchemeKind, Session, Table, TableOptions, TransactionOptions, Value,
};
use atoll_storage::key::mix;

const TABLESPACES: usize = 3;
/// Number of histories that are tried.
const SEEDS: u64 = 4;

fn open(medium: &CrashMedium) -> Database {
    open_under(medium, SchemeKind::default())
}

fn open_under(medium: &CrashMedium, scheme: SchemeKind) -> Database {
    let options = DatabaseOptions {
        scheme,
        tablespaces: Some(TABLESPACES),
        memory_limit_bytes: Some(64 << 20),
        // Makes a run depend on the seed only.
        logs: LogsOptions {
            file_bytes: 64 << 10,
            ring_bytes: 2 << 20,
            in_turns: true,
            planted: Planted::Nothing,
        },
        ..DatabaseOptions::default()
    };
    Database::open_on(medium, options).unwrap()
}

/// A table in each tablespace.
fn create(db: &Database) -> Vec<Table> {
    let tables = (0..TABLESPACES).map(|number| {
        let columns = vec![Column::new("id", DataType::Int64)];
        let options = TableOptions { tablespace: Some(number as u32), ..TableOptions::default() };
        let schema = Schema::new(columns, &["id"]).unwrap();
        db.create_table_with(&format!("table_{number}"), schema, &options).unwrap()
    });
    tables.collect()
}

fn find(db: &Database) -> Vec<Table> {
    (0..TABLESPACES).map(|number| db.table(&format!("table_{number}")).unwrap()).collect()
}

/// Whether there is a row, for a client that waits until what it has read is durable.
fn has(session: &mut Session, table: &Table, id: i64) -> bool {
    let found = session.transaction(|tx| Ok(tx.read(table, &[Value::Int64(id)])?.is_some()));
    found.unwrap()
}

/// Inserts a row into each of these tables, after having read another one.
fn insert(
    session: &mut Session,
    (to, id): (&[&Table], i64),
    seen: Option<(&Table, i64)>,
    durability: Durability,
) {
    let durability = Some(durability);
    let options = TransactionOptions { durability, ..TransactionOptions::default() };
    let done = session.transaction_with(&options, |tx| {
        if let Some((table, id)) = seen {
            assert!(tx.read(table, &[Value::Int64(id)])?.is_some());
        }
        to.iter().try_for_each(|table| tx.insert(table, &[Value::Int64(id)]))
    });
    done.unwrap();
}

/// The medium after a crash: of what was not synced, nothing survives, or about half, or all.
fn crash(medium: &CrashMedium, events: usize, halves: u64) -> CrashMedium {
    let mut turn = 0;
    medium.crash(events, || {
        turn += 1;
        mix((events as u64) << 40 | halves << 32 | turn) % 2 < halves
    })
}

/// A medium after a crash: a row of the second table was acknowledged, and a later commit of the
/// first table is lost; its flush had written the idle watermark of the third log.
fn with_proof_behind_what_is_lost() -> CrashMedium {
    let medium = CrashMedium::default();
    let db = open(&medium);
    let of = create(&db);
    let mut session = db.session().unwrap();
    (0..5).for_each(|id| insert(&mut session, (&[&of[0]], id), None, Durability::Strict));
    insert(&mut session, (&[&of[1]], 0), None, Durability::None);
    insert(&mut session, (&[&of[0]], 5), Some((&of[1], 0)), Durability::None);
    // Waits for the row only; the flush of the first log includes more.
    assert!(has(&mut session, &of[1], 0));
    crash(&medium, medium.events(), 0)
}

/// The idle watermark of a log is behind a commit that is lost, so a recovery cuts off both. If the
/// machine stops again before the idle log has a block of this incarnation, only the control file
/// has the horizon.
#[test]
fn what_was_told_survives_a_second_crash_when_the_first_recovery_cut_off_its_proof() {
    // The flusher thread may flush in between.
    let found = (0..100).find_map(|_| {
        let crashed = with_proof_behind_what_is_lost();
        let db = open(&crashed);
        (db.recovery().unwrap().dropped == 1).then_some((crashed, db))
    });
    let (crashed, db) = found.expect("the last commit is above the horizon");
    assert_eq!(db.recovery().unwrap().redone, 6);
    let events = crashed.events();
    for event in 0..=events {
        for halves in 0..=2 {
            let again = open(&crash(&crashed, event, halves));
            let (of, mut session) = (find(&again), again.session().unwrap());
            assert!(has(&mut session, &of[1], 0), "behind event {event} of {events}");
            assert!((0..5).all(|id| has(&mut session, &of[0], id)));
        }
    }
}

/// What one access after the other has read is durable when its reader's commit is, under every
/// scheme; these accesses use exact predictions.
#[test]
fn what_an_access_has_seen_is_there_when_what_followed_from_it_is() {
    const ROWS: i64 = 10_240;
    const NUMBER: usize = 1;
    /// In another segment than the row that matters: the first access takes another path.
    const FIRST: [Value; 1] = [Value::Int64(9000)];
    for scheme in SchemeKind::ALL.iter().copied() {
        let medium = CrashMedium::default();
        let db = open_under(&medium, scheme);
        let columns = ["id", "number"].map(|name| Column::new(name, DataType::Int64));
        let tables: [Table; 2] = std::array::from_fn(|number| {
            let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
            let tablespace = Some(number as u32);
            let options = TableOptions { tablespace, ..TableOptions::default() };
            db.create_table_with(&format!("table_{number}"), schema, &options).unwrap()
        });
        let rows: Vec<Value> = (0..ROWS).flat_map(|id| [id, 0].map(Value::Int64)).collect();
        db.transaction(|tx| tx.insert(&tables[0], &rows)).unwrap();
        let mut session = db.session().unwrap();
        let with = |durability| TransactionOptions {
            durability: Some(durability),
            ..TransactionOptions::default()
        };
        // Many commits of the first log, which no client waits for.
        for number in 1..50i64 {
            let put = session.transaction_with(&with(Durability::None), |tx| {
                tx.cursor(&tables[0], |rows| {
                    let mut bytes = [0; 8];
                    rows.get(&FIRST, NUMBER, &mut bytes)?;
                    rows.put(&[Value::Int64(5)], NUMBER, &number.to_le_bytes())
                })
            });
            assert!(put.unwrap());
        }
        let copied = session.transaction_with(&with(Durability::Strict), |tx| {
            let seen = tx.cursor(&tables[0], |rows| {
                let mut bytes = [0; 8];
                rows.get(&FIRST, NUMBER, &mut bytes)?;
                rows.get(&[Value::Int64(5)], NUMBER, &mut bytes)?;
                Ok(i64::from_le_bytes(bytes))
            })?;
            tx.insert(&tables[1], &[1i64.into(), seen.into()])?;
            Ok(seen)
        });
        assert_eq!(copied.unwrap(), 49, "{scheme}");
        let again = open_under(&crash(&medium, medium.events(), 0), scheme);
        let mut session = again.session().unwrap();
        let mut number = |table: &str, id: i64| {
            let table = again.table(table).unwrap();
            session.transaction(|tx| tx.read(&table, &[id.into()])).unwrap().unwrap()[1].clone()
        };
        assert_eq!([number("table_0", 5), number("table_1", 1)], [49, 49].map(Value::Int64));
    }
}

/// Behind a checkpoint the logs may be empty. GSNs continue all the same, so that the checkpoint
/// before and its logs stay usable.
#[test]
fn gsns_go_on_behind_a_checkpoint_that_left_nothing_to_read() {
    let medium = CrashMedium::default();
    let db = open(&medium);
    let of = create(&db);
    let mut session = db.session().unwrap();
    for round in 0..2 {
        for id in round * 5..round * 5 + 5 {
            insert(&mut session, (&[&of[0], &of[1]], id), None, Durability::Strict);
        }
        db.checkpoint().unwrap();
    }
    let crashed = crash(&medium, medium.events(), 2);
    let found = open(&crashed);
    assert_eq!(found.recovery().unwrap().redone, 0);
    insert(&mut found.session().unwrap(), (&[&find(&found)[1]], 10), None, Durability::Strict);
    let again = crash(&crashed, crashed.events(), 0);
    again.damage("node-0/step-000000000002", 9, 1);
    let last = open(&again);
    assert_eq!(last.recovery().unwrap().checkpoint, 1, "{:?}", last.recovery());
    let (of, mut session) = (find(&last), last.session().unwrap());
    assert!((0..10).all(|id| (0..2).all(|table| has(&mut session, &of[table], id))));
    assert!(has(&mut session, &of[1], 10));
}

/// The transactions of a history by number: the tables in which a row was inserted, and the row
/// that was read.
type Done = BTreeMap<i64, (Vec<usize>, Option<i64>)>;

/// A few transactions of a random history, some of which are acknowledged, that is, noted on the
/// medium; returns also its range of events.
fn history(medium: &CrashMedium, seed: u64) -> (Done, Range<usize>) {
    let db = open(medium);
    let of = create(&db);
    let first = medium.events();
    let mut session = db.session().unwrap();
    let mut done = Done::new();
    let mut turn = seed << 32;
    let mut below = |end: u64| {
        turn += 1;
        (mix(turn) % end) as usize
    };
    for id in 0..10 {
        // Usually one log, so that the logs drift apart.
        let mut to = vec![below(3)];
        if below(4) == 0 {
            to.push((to[0] + 1) % TABLESPACES);
        }
        let seen = (id > 0).then(|| below(id as u64) as i64);
        let place = seen.map(|seen| (&of[done[&seen].0[0]], seen));
        let to_tables: Vec<&Table> = to.iter().map(|table| &of[*table]).collect();
        let is_told = below(6) == 0;
        let durability = if is_told { Durability::Strict } else { Durability::None };
        insert(&mut session, (&to_tables, id), place, durability);
        done.insert(id, (to, seen));
        if is_told {
            medium.note(id as u64);
        } else if below(2) == 0 {
            // Reads a row of a recent transaction.
            let looked = (id - below(3) as i64).max(0);
            assert!(has(&mut session, &of[done[&looked].0[0]], looked));
            medium.note(looked as u64);
        } else if below(6) == 0 {
            db.checkpoint().unwrap();
        }
    }
    let events = first..medium.events();
    (done, events)
}

/// Checks that the database contains some transactions completely, with all that they have read and
/// all that were acknowledged.
fn judge(medium: &CrashMedium, done: &Done, told: &[u64], what: &str) {
    let db = open(medium);
    let (of, mut session) = (find(&db), db.session().unwrap());
    let mut there = BTreeSet::new();
    for (id, (to, _)) in done {
        let parts = to.iter().filter(|table| has(&mut session, &of[**table], *id)).count();
        assert!(parts == 0 || parts == to.len(), "{what}: {id} is there in part");
        if parts > 0 {
            there.insert(*id);
        }
    }
    for id in told {
        assert!(there.contains(&(*id as i64)), "{what}: {id} was told and is lost");
    }
    for id in &there {
        let seen = done[id].1;
        assert!(seen.is_none_or(|seen| there.contains(&seen)), "{what}: {id} without {seen:?}");
    }
}

/// Crashes of small histories, mostly right after an acknowledgement, and every crash of the
/// recovery from each.
#[test]
fn nothing_told_is_lost_in_any_crash_of_any_recovery() {
    for seed in 0..SEEDS {
        let medium = CrashMedium::default();
        let (done, events) = history(&medium, seed);
        let news = |event: &usize| medium.notes(*event).len() > medium.notes(event - 1).len();
        for event in events.filter(|event| news(event) || mix(*event as u64).is_multiple_of(16)) {
            let told = medium.notes(event);
            let halves = u64::from(!news(&event));
            let crashed = crash(&medium, event, halves);
            let what = format!("seed {seed}, event {event}, {halves} halves");
            let db = open(&crashed);
            let opened = crashed.events();
            drop(db);
            for inner in 0..=opened {
                let again = crash(&crashed, inner, (inner / 2) as u64 % 2);
                judge(&again, &done, &told, &format!("{what}, recovery's event {inner}"));
            }
        }
    }
}
