//! Writes a database on the persistent memory of a machine with several nodes until it is cut off.
//! `tests/guest_pm.rs` runs this in a guest.
//!
//! `guest-writer judge ACKNOWLEDGED BEGUN` opens the database and checks that it contains every
//! transaction that an earlier run has acknowledged (numbers in a file), and that nothing is wrong.
//! `guest-writer write ACKNOWLEDGED BEGUN` does the same, and then commits until it is cut off, and
//! prints one line `done N` for each commit.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use atoll::machine::{MediumKind, lines};
use atoll::{Database, DatabaseOptions, SchemeKind};
use atoll_bench::keys::Random;
use atoll_torture::crash::judge::judge;
use atoll_torture::crash::plan::How;
use atoll_torture::crash::scene::{self, TABLESPACES, Tables};

type Outcome = Result<(), Box<dyn Error>>;

const NODES: usize = 2;
const THREADS: u64 = 2;
/// Limits of the guest's memory, and of the transactions of each thread with pauses between them,
/// so that neither memory is full when the guest is cut off, however fast it is.
const MEMORY_BYTES: u64 = 256 << 20;
const TRANSACTIONS: usize = 600;
const PAUSE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["judge", acknowledged, begun] => open(acknowledged, begun).map(drop),
        ["write", acknowledged, begun] => write(acknowledged, begun),
        _ => Err("usage: guest-writer judge|write ACKNOWLEDGED BEGUN".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAIL {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> DatabaseOptions {
    let node_folders = (0..NODES).map(|node| PathBuf::from(format!("/pmem{node}/tablespace")));
    let options = scene::options(SchemeKind::default(), &How::default());
    let memory_limit_bytes = Some(MEMORY_BYTES);
    DatabaseOptions { node_folders: node_folders.collect(), memory_limit_bytes, ..options }
}

/// Opens the database and judges it.
fn open(acknowledged: &str, begun: &str) -> Result<Database, Box<dyn Error>> {
    let acknowledged = std::fs::read_to_string(acknowledged)?;
    let acknowledged: Vec<u64> = acknowledged.lines().map(str::parse).collect::<Result<_, _>>()?;
    let db = Database::open(Path::new("/pmem0/db"), options())?;
    let recovery = db.recovery().ok_or("it was not opened in a folder")?;
    if recovery.media != [MediumKind::Pm.name(); TABLESPACES] {
        return Err(format!("the tablespaces are on {:?}", recovery.media).into());
    }
    println!("PASS on persistent memory, with {:?}", lines::write_back());
    if recovery.created {
        Tables::create(&db)?;
    }
    match judge(&db, &acknowledged, begun.parse()?)? {
        Some(wrong) => Err(format!("{wrong}: {:?}", db.recovery()).into()),
        None => {
            println!("PASS {} acknowledged transactions are there", acknowledged.len());
            Ok(db)
        }
    }
}

fn write(acknowledged: &str, begun: &str) -> Outcome {
    let db = open(acknowledged, begun)?;
    let tables = Tables::find(&db)?;
    let next = AtomicI64::new(begun.parse::<i64>()? + 1);
    let failed = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, tables, next) = (&db, &tables, &next);
                scope.spawn(move || -> atoll::Result<()> {
                    let mut random = Random::new(next.load(Ordering::Relaxed) as u64 + thread);
                    let mut session = db.session()?;
                    for _ in 0..TRANSACTIONS {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        scene::act(&mut session, tables, id, false, &mut random)?;
                        // There is no one left to report a failure to.
                        let _ = writeln!(std::io::stdout(), "done {id}");
                        if random.below(40) == 0 {
                            db.checkpoint()?;
                        }
                        std::thread::sleep(PAUSE);
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().find_map(|writer| writer.join().expect("no panic").err())
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    loop {
        std::thread::park(); // until the guest is cut off
    }
}
