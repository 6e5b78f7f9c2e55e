//! Durabilities of single transactions, in a database that flushes by itself once an hour.

use std::time::{Duration, Instant};

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Durability, SchemeKind, TransactionOptions};

use super::scene::{create, options, row};

const HOUR: Duration = Duration::from_secs(3600);
/// After this the flush was forgotten.
const PATIENCE: Duration = Duration::from_secs(60);

fn database(medium: &CrashMedium) -> Database {
    let durability = Durability::Group(HOUR);
    let options = DatabaseOptions { durability, ..options(SchemeKind::default()) };
    let db = Database::open_on(medium, options).unwrap();
    create(&db, "t");
    db.flush().unwrap();
    db
}

/// Inserts a row; `late` is the durability that the transaction asks for at its end.
fn insert(db: &Database, id: i64, early: Option<Durability>, late: Option<Durability>) {
    let options = TransactionOptions { durability: early, ..TransactionOptions::default() };
    let mut transaction = db.begin_with(&options).unwrap();
    transaction.insert(&db.table("t").unwrap(), &row(id, 0)).unwrap();
    if late != early {
        transaction.set_durability(late);
    }
    transaction.commit().unwrap();
}

/// The number of rows that survive if the power fails now.
fn durable(medium: &CrashMedium) -> u64 {
    let crashed = medium.crash(medium.events(), || false);
    let db = Database::open_on(&crashed, options(SchemeKind::default())).unwrap();
    db.table("t").unwrap().row_count()
}

#[test]
fn a_bound_that_is_shorter_than_the_databases_is_kept_without_anything_else_happening() {
    let medium = CrashMedium::default();
    let db = database(&medium);
    // The second and third round show that the deadline is checked again and again.
    for round in 0..3 {
        insert(&db, 2 * round, None, None);
        assert_eq!(durable(&medium), 2 * round as u64, "no transaction has asked for it");
        let bound = Durability::Group(Duration::from_millis(1));
        insert(&db, 2 * round + 1, Some(bound), Some(bound));
        let begin = Instant::now();
        while durable(&medium) < 2 * round as u64 + 2 {
            assert!(begin.elapsed() < PATIENCE, "round {round}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn what_a_transaction_asks_for_last_counts() {
    let medium = CrashMedium::default();
    let db = database(&medium);
    assert_eq!(db.durability(), Some(Durability::Group(HOUR)));
    insert(&db, 0, Some(Durability::Strict), None);
    assert_eq!(durable(&medium), 0);
    insert(&db, 1, None, Some(Durability::Strict));
    assert_eq!(durable(&medium), 2);
}

#[test]
fn a_durability_is_read_as_it_is_written_by_people_and_by_itself() {
    let group = |millis| Durability::Group(Duration::from_millis(millis));
    for (text, wanted) in [
        ("strict", Durability::Strict),
        ("none", Durability::None),
        ("group", group(10)),
        ("group:5", group(5)),
        ("group:5ms", group(5)),
        ("group 5ms", group(5)),
        ("group 60000 ms", group(60_000)),
    ] {
        let read: Durability = text.parse().unwrap();
        assert_eq!(read, wanted, "{text}");
        assert_eq!(read.to_string().parse(), Ok(wanted), "{text}");
    }
    for wrong in ["", "Strict", "group:", "group:0", "group:60001", "group 5 s", "group:5msms"] {
        let error = wrong.parse::<Durability>().unwrap_err().to_string();
        assert!(error.contains("strict, group (") && error.contains("or none"), "{error}");
    }
}
