//! Kills a process that owns a database, again and again, and checks each time that every commit
//! that it had acknowledged on its output is there.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use atoll::{Database, SchemeKind};
use atoll_bench::keys::Random;
use atoll_torture::crash::judge::judge;
use atoll_torture::crash::plan::How;
use atoll_torture::crash::scene::{self, Tables};

/// The folder of the database of the killed process, and the number of its first transaction.
const FOLDER: &str = "ATOLL_TEST_KILLED_FOLDER";
const FIRST: &str = "ATOLL_TEST_KILLED_FIRST";
const SCHEME: &str = "ATOLL_TEST_KILLED_SCHEME";
const THREADS: i64 = 3;
/// Number of kills for one database.
const ROUNDS: u64 = 10;
/// The lines that the process prints before it opens the database, and after.
const OPENING: &str = "opening";
const READY: &str = "ready";
/// Longest time for which it works.
const WORK: Duration = Duration::from_millis(30);

fn open(folder: &Path, scheme: SchemeKind) -> Database {
    Database::open(folder, scene::options(scheme, &How::default())).unwrap()
}

/// The body of the killed process; does nothing unless the process was started as that.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let next = AtomicI64::new(std::env::var(FIRST).unwrap().parse().unwrap());
    let scheme: SchemeKind = std::env::var(SCHEME).unwrap().parse().unwrap();
    writeln!(std::io::stdout(), "{OPENING}").unwrap();
    let db = open(Path::new(&folder), scheme);
    let tables = match Tables::find(&db) {
        Ok(tables) => tables,
        Err(_) => Tables::create(&db).unwrap(),
    };
    writeln!(std::io::stdout(), "{READY}").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (db, tables, next) = (&db, &tables, &next);
            scope.spawn(move || {
                let mut random = Random::new(u64::from(std::process::id()) << 8 | thread);
                let mut session = db.session().unwrap();
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    scene::act(&mut session, tables, id, false, &mut random).unwrap();
                    writeln!(std::io::stdout(), "done {id}").unwrap();
                    if random.below(40) == 0 {
                        db.checkpoint().unwrap();
                    }
                }
            });
        }
    });
}

/// The time at which a process is killed.
#[derive(Debug, Clone, Copy)]
enum When {
    /// After it has begun to open the database, whether or not it is open.
    Opening(Duration),
    /// After it has opened the database.
    Ready(Duration),
}

/// The output of a process that was killed.
struct Killed {
    /// An upper bound of the time to open the database; `None` when it was killed before.
    opened: Option<Duration>,
    /// The transactions that it acknowledged.
    told: Vec<u64>,
}

/// Starts a process on the existing database, and kills it.
fn kill(folder: &Path, scheme: SchemeKind, first: i64, when: When) -> Killed {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .env(SCHEME, scheme.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with(OPENING)), "it could not begin");
    let begun = Instant::now();
    let mut opened = None;
    match when {
        When::Opening(after) => std::thread::sleep(after),
        When::Ready(after) => {
            assert!(lines.any(|line| line == READY), "it could not open the database");
            opened = Some(begun.elapsed());
            std::thread::sleep(after);
        }
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
    let mut told = Vec::new();
    for line in lines {
        if line == READY {
            opened = Some(begun.elapsed());
        }
        told.extend(line.strip_prefix("done ").and_then(|id| id.parse::<u64>().ok()));
    }
    Killed { opened, told }
}

/// Copies the files that a process has left, so that the judge does not change them.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy(&path, &to),
            false => drop(std::fs::copy(&path, &to).unwrap()),
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_every_kill() {
    let rounds: u64 =
        std::env::var("ATOLL_TEST_KILLS").map_or(200, |rounds| rounds.parse().unwrap());
    let mut random = Random::new(7);
    let (mut all, mut early) = (0, 0);
    // The time of the last complete opening.
    let mut opening = WORK;
    for database in 0..rounds.div_ceil(ROUNDS) {
        let room = tempfile::tempdir().unwrap();
        let (folder, shown) = (room.path().join("db"), room.path().join("copy"));
        let scheme = SchemeKind::ALL[database as usize % SchemeKind::ALL.len()];
        let (mut acknowledged, mut begun) = (Vec::new(), 0);
        for round in 0..ROUNDS {
            let mut drawn =
                |most: Duration| Duration::from_micros(random.below(most.as_micros() as u64 + 1));
            let when = match round % 2 {
                0 => When::Ready(drawn(WORK)),
                _ => When::Opening(drawn(opening)),
            };
            let Killed { opened, told } = kill(&folder, scheme, begun + 1, when);
            early += u64::from(opened.is_none());
            if let (When::Ready(_), Some(took)) = (when, opened) {
                opening = took.min(4 * WORK);
            }
            // At most one transaction of each thread began without being acknowledged.
            begun += told.len() as i64 + THREADS;
            all += told.len();
            acknowledged.extend(told);
            // The next process works on the original files.
            copy(&folder, &shown);
            let db = open(&shown, scheme);
            let wrong = judge(&db, &acknowledged, begun).unwrap();
            assert_eq!(wrong, None, "{scheme} round {round}, {when:?}: {:?}", db.recovery());
            drop(db);
            std::fs::remove_dir_all(&shown).unwrap();
        }
        let db = open(&folder, scheme);
        let wrong = judge(&db, &acknowledged, begun).unwrap();
        assert_eq!(wrong, None, "{scheme}: {:?}", db.recovery());
    }
    assert!(all as u64 > rounds, "{all} transactions in {rounds} rounds");
    assert!(early > 0, "no process was killed before it was ready");
}
