//! Any damage to the files of databases that were closed and of some that were not: every
//! acknowledged commit is there, or an error names the damaged file.
//!
//! One damage looks like a write that a crash has torn: damage of the last flush of a log
//! (`BLOCK-4`). It loses the transactions of that flush, completely, and nothing else.

use std::ops::Range;

use atoll::machine::medium::Open;
use atoll::machine::{CrashMedium, Medium};
use atoll::{Database, Error, SchemeKind};
use atoll_log::control::ControlFile;
use atoll_log::files::file_number;
use atoll_log::scan::Scan;

use super::scene::{Rows, create, options, row, rows, work};

const TABLES: [&str; 2] = ["table_0", "table_1"];
/// Number of bits of each file that are flipped, one at a time.
const BITS: u64 = 40;
/// Number of positions at which each file is truncated, besides those that are always tried.
const CUTS: u64 = 3;

#[derive(Debug, Clone, Copy)]
enum Harm {
    Flip { at: u64, bit: u64 },
    CutTo(u64),
    Remove,
}

impl Harm {
    fn some(size: u64, draw: &mut impl FnMut(u64) -> u64) -> Vec<Self> {
        let mut harms = vec![Self::Remove, Self::CutTo(0), Self::CutTo(size.saturating_sub(1))];
        harms.extend((0..CUTS).map(|_| Self::CutTo(draw(size))));
        // Half of them where most files have contents.
        let flips = (0..BITS).map(|number| {
            let at = draw(if number % 2 == 0 { size } else { size.min(16 << 10) });
            Self::Flip { at, bit: draw(8) }
        });
        harms.extend(flips);
        harms
    }

    fn apply(self, medium: &CrashMedium, name: &str) {
        match self {
            Self::Flip { at, bit } => medium.damage(name, at, 1 << bit),
            Self::CutTo(size_bytes) => medium.truncate(name, size_bytes),
            Self::Remove => {
                let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
                medium.folder(folder).unwrap().remove(file).unwrap();
            }
        }
    }
}

/// A database with some changes, and its contents before and after its last transaction.
fn scene() -> (CrashMedium, Database, [[Rows; 2]; 2]) {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let tables = TABLES.map(|name| create(&db, name));
    let mut expected = [Rows::new(), Rows::new()];
    for round in 0..4 {
        for (table, rows) in tables.iter().zip(&mut expected) {
            work(&db, table, rows, round);
        }
        if round < 3 {
            db.checkpoint().unwrap();
        }
    }
    let before = expected.clone();
    let new = row(5_000, 0);
    db.transaction(|tx| tables.iter().try_for_each(|table| tx.insert(table, &new))).unwrap();
    expected.iter_mut().for_each(|rows| drop(rows.insert(5_000, new.clone())));
    (medium, db, [before, expected])
}

/// The last flush of each log, as a range of positions.
fn last_flushes(medium: &CrashMedium) -> Vec<Range<u64>> {
    let (_, control) = ControlFile::open(medium, Open::Read).unwrap();
    let logs = (0..control.tablespaces).map(|number| {
        let folder = medium.folder(&format!("node-{number}")).unwrap();
        let start = control.checkpoints[0].parts[number].start;
        let mut scan = Scan::open(folder, number as u8, control.file_bytes, start).unwrap();
        let mut durable = 0;
        while let Some((header, _)) = scan.read_next().unwrap() {
            durable = header.durable;
        }
        durable..scan.at()
    });
    logs.collect()
}

/// Whether a harm affects the last flush of a log.
fn is_to_last_flush(name: &str, harm: Harm, flushes: &[Range<u64>]) -> bool {
    let Some((folder, file)) = name.split_once('/') else { return false };
    let number: usize = folder.strip_prefix("node-").unwrap().parse().unwrap();
    match (file_number(file), harm) {
        (Some(file), Harm::Flip { at, .. }) => {
            let file_bytes = options(SchemeKind::default()).logs.file_bytes;
            flushes[number].contains(&(file * file_bytes + at))
        }
        // A log with missing bytes can be distinguished from one that has ended.
        _ => false,
    }
}

/// The contents of all files.
fn contents(medium: &CrashMedium) -> Vec<Vec<u8>> {
    let files = medium.all_files().into_iter().map(|(name, size)| {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", &name));
        let mut bytes = vec![0; size as usize];
        let file = medium.folder(folder).unwrap().open(file, Open::Read).unwrap();
        file.read_at(0, &mut bytes).unwrap();
        bytes
    });
    files.collect()
}

/// Harms every file in many ways; returns how often the last transaction was lost.
fn harm_all(medium: &CrashMedium, states: &[[Rows; 2]; 2], may_lose_last: bool) -> u64 {
    let [before, after] = states;
    let flushes = last_flushes(medium);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most.max(1)
    };
    let (mut lost, mut refused) = (0, 0);
    for (name, size) in medium.all_files() {
        let mut harms = Harm::some(size, &mut draw);
        // Every byte of the last flushes, which the random positions may miss.
        for (number, flush) in flushes.iter().enumerate() {
            let file_bytes = options(SchemeKind::default()).logs.file_bytes;
            let file = name.strip_prefix(&format!("node-{number}/")).and_then(file_number);
            let within = flush.clone().filter(|at| Some(at / file_bytes) == file);
            harms.extend(within.step_by(7).map(|at| Harm::Flip { at: at % file_bytes, bit: 3 }));
        }
        for harm in harms {
            let harmed = medium.copy();
            harm.apply(&harmed, &name);
            let harmed_files = contents(&harmed);
            let what = format!("{name}: {harm:?}");
            match Database::open_on(&harmed, options(SchemeKind::default())) {
                Ok(db) => {
                    let found = TABLES.map(|name| rows(&db, name));
                    let may_lose = may_lose_last && is_to_last_flush(&name, harm, &flushes);
                    if may_lose && found == *before {
                        lost += 1;
                    } else {
                        assert!(found == *after, "{what}: {found:?}");
                    }
                }
                Err(Error::Log(error)) => {
                    let text = error.to_string();
                    let node = name.strip_prefix("node-").and_then(|rest| rest.split_once('/'));
                    let log = node.filter(|(_, file)| file_number(file).is_some());
                    let log = log.map(|(number, _)| format!("log of tablespace {number} "));
                    let is_named =
                        text.contains(&name) || log.is_some_and(|log| text.contains(&log));
                    assert!(is_named, "{what}: {text}");
                    assert!(contents(&harmed) == harmed_files, "{what}: it was changed");
                    refused += 1;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    eprintln!("refused {refused}, lost {lost}");
    assert!(refused > 10, "{refused}");
    lost
}

#[test]
fn harm_to_a_database_that_was_closed_is_told_or_helped() {
    let (medium, db, states) = scene();
    db.close().unwrap();
    assert_eq!(harm_all(&medium, &states, false), 0);
}

#[test]
fn harm_to_a_database_that_was_not_closed_is_told_or_takes_the_last_flush() {
    for keeps in [true, false] {
        let (medium, db, states) = scene();
        let crashed = medium.crash(medium.events(), || keeps);
        drop(db);
        assert!(harm_all(&crashed, &states, true) > 0, "what the documents tell of never happens");
    }
}
