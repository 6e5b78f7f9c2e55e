//! A process that owns a database is killed, again and again, and what it had acknowledged on its
//! output is there every time.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll::{Database, SchemeKind};
use atoll_bench::crash::judge::judge;
use atoll_bench::crash::run::How;
use atoll_bench::crash::scene::{self, Tables};
use atoll_bench::keys::Random;

/// Where the process that is killed has its database, and the first transaction's number.
const FOLDER: &str = "ATOLL_TEST_KILLED_FOLDER";
const FIRST: &str = "ATOLL_TEST_KILLED_FIRST";
const SCHEME: &str = "ATOLL_TEST_KILLED_SCHEME";
const THREADS: i64 = 3;
/// Kills of one database.
const ROUNDS: u64 = 10;

fn open(folder: &Path, scheme: SchemeKind) -> Database {
    Database::open(folder, scene::options(scheme, &How::default())).unwrap()
}

/// What the killed process does; no test unless it is started as that.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let next = AtomicI64::new(std::env::var(FIRST).unwrap().parse().unwrap());
    let scheme: SchemeKind = std::env::var(SCHEME).unwrap().parse().unwrap();
    let db = open(Path::new(&folder), scheme);
    let tables = match Tables::find(&db) {
        Ok(tables) => tables,
        Err(_) => Tables::create(&db).unwrap(),
    };
    writeln!(std::io::stdout(), "ready").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (db, tables, next) = (&db, &tables, &next);
            scope.spawn(move || {
                let mut random = Random::new(u64::from(std::process::id()) << 8 | thread);
                let mut session = db.session().unwrap();
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    scene::act(&mut session, tables, id, &mut random).unwrap();
                    writeln!(std::io::stdout(), "done {id}").unwrap();
                    if random.below(40) == 0 {
                        db.checkpoint().unwrap();
                    }
                }
            });
        }
    });
}

/// Starts a process, kills it after a while and returns what it has acknowledged.
fn kill(folder: &Path, scheme: SchemeKind, first: i64, after: Duration) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .env(SCHEME, scheme.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")), "it could not begin");
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let told = lines.map_while(Result::ok);
    told.filter_map(|line| line.strip_prefix("done ")?.parse().ok()).collect()
}

#[test]
fn what_was_acknowledged_is_there_after_every_kill() {
    let rounds: u64 =
        std::env::var("ATOLL_TEST_KILLS").map_or(200, |rounds| rounds.parse().unwrap());
    let mut random = Random::new(7);
    let mut all = 0;
    for database in 0..rounds.div_ceil(ROUNDS) {
        let folder = tempfile::tempdir().unwrap();
        let scheme = SchemeKind::ALL[database as usize % SchemeKind::ALL.len()];
        let (mut acknowledged, mut begun) = (Vec::new(), 0);
        for round in 0..ROUNDS {
            let after = Duration::from_micros(random.below(30_000));
            let told = kill(folder.path(), scheme, begun + 1, after);
            // Of each thread, one transaction at most was not acknowledged.
            begun += told.len() as i64 + THREADS;
            all += told.len();
            acknowledged.extend(told);
            let db = open(folder.path(), scheme);
            let wrong = judge(&db, &acknowledged, begun).unwrap();
            assert_eq!(wrong, None, "{scheme} round {round}: {:?}", db.recovery());
        }
    }
    assert!(all as u64 > rounds, "{all} transactions in {rounds} rounds");
}
