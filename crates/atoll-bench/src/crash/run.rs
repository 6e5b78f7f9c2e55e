//! One run, and its crashes.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::machine::medium::SECTOR_BYTES;
use atoll::{Database, Error, Planted, SchemeKind};

use super::judge::judge;
use super::report::Violation;
use super::scene::{self, Tables};
use crate::keys::Random;

/// How long a sync takes where nobody waits for it, so that others commit meanwhile.
const SYNC_TIME: Duration = Duration::from_micros(200);

/// What is asked of a run.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Threads.
    pub threads: u64,
    /// Transactions of each.
    pub transactions: u64,
    /// Crashes that are tried; 0: one behind every event.
    pub crashes: u64,
    /// Nobody waits for a flush, so that the logs are apart, and nothing is acknowledged.
    pub lazy: bool,
    /// Bytes that the medium writes whole or not at all, see [`CrashMedium::with_unit`].
    pub unit: u64,
    /// What is wrong with the database.
    pub planted: Planted,
}

impl Default for How {
    fn default() -> Self {
        let (unit, planted) = (SECTOR_BYTES, Planted::Nothing);
        Self { threads: 3, transactions: 12, crashes: 50, lazy: false, unit, planted }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Crashes tried, those in recoveries included.
    pub crashes: u64,
    /// Of those, in a recovery.
    pub in_recovery: u64,
    /// Transactions acknowledged.
    pub acknowledged: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// What was wrong.
    pub violations: Vec<Violation>,
}

/// Runs transactions and crashes them.
pub fn run(scheme: SchemeKind, seed: u64, how: &How) -> Run {
    let mut out = Run::default();
    let medium = CrashMedium::with_unit(how.unit);
    let opened = Database::open_on(&medium, scene::options(scheme, how));
    let db = match opened {
        Ok(db) => db,
        Err(error) => return out.with(seed, (0, 0), format!("cannot be made: {error}")),
    };
    let tables = match Tables::create(&db).and_then(|tables| db.flush().map(|()| tables)) {
        Ok(tables) => tables,
        Err(error) => return out.with(seed, (0, 0), format!("cannot make tables: {error}")),
    };
    if how.lazy {
        medium.slow(SYNC_TIME);
    }
    let first_event = medium.events();
    let begun = AtomicI64::new(0);
    let checkpoints = AtomicU64::new(0);
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..how.threads)
            .map(|thread| {
                let (db, tables, medium) = (&db, &tables, &medium);
                let (begun, checkpoints) = (&begun, &checkpoints);
                scope.spawn(move || -> Result<(), Error> {
                    let mut random = Random::new(seed << 8 | thread);
                    let mut session = db.session()?;
                    for _ in 0..how.transactions {
                        let id = begun.fetch_add(1, Ordering::Relaxed) + 1;
                        scene::act(&mut session, tables, id, &mut random)?;
                        if !how.lazy {
                            medium.note(id as u64);
                        } else if random.below(4) == 0 {
                            db.flush()?;
                        }
                        if random.below(8) == 0 {
                            db.checkpoint()?;
                            checkpoints.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().find_map(|thread| thread.join().expect("no panic").err())
    });
    if let Some(error) = failed {
        return out.with(seed, (0, medium.events()), format!("the run failed: {error}"));
    }
    let begun = begun.load(Ordering::Relaxed);
    out.checkpoints = checkpoints.load(Ordering::Relaxed);
    let mut random = Random::new(seed ^ 0xc0a5);
    if random.below(4) == 0 {
        drop(tables);
        if let Err(error) = db.close() {
            return out.with(seed, (0, medium.events()), format!("cannot be closed: {error}"));
        }
    }
    let events = medium.events();
    out.acknowledged = medium.notes(events).len() as u64;
    let every = how.crashes == 0;
    let count = if every { events - first_event + 1 } else { how.crashes as usize };
    for number in 0..count {
        let mut any = || first_event + random.below((events - first_event + 1) as u64) as usize;
        let event = if every { first_event + number } else { any() };
        out.crash((scheme, seed, how), &medium, (event, events), begun, &mut random);
        if !out.violations.is_empty() {
            break;
        }
    }
    out
}

/// Which units survive: mostly all, mostly none, or any.
fn keeper(random: &mut Random) -> impl FnMut() -> bool + use<> {
    let chance = [0, 1, 20, 50, 80, 99, 100][random.below(7) as usize];
    let mut random = Random::new(random.word());
    move || random.below(100) < chance
}

impl Run {
    fn with(mut self, seed: u64, at: (usize, usize), text: String) -> Self {
        self.violate(seed, at, text);
        self
    }

    fn violate(&mut self, seed: u64, (event, events): (usize, usize), text: String) {
        self.violations.push(Violation { seed, event, events, text });
    }

    fn crash(
        &mut self,
        (scheme, seed, how): (SchemeKind, u64, &How),
        medium: &CrashMedium,
        at: (usize, usize),
        begun: i64,
        random: &mut Random,
    ) {
        let acknowledged = medium.notes(at.0);
        let found = medium.crash(at.0, keeper(random));
        self.crashes += 1;
        if let Some(text) = look((scheme, how), &found, &acknowledged, begun) {
            return self.violate(seed, at, text);
        }
        // What that opening and closing did is crashed as well.
        let events = found.events();
        let inside = random.below(events as u64 + 1) as usize;
        let again = found.crash(inside, keeper(random));
        self.crashes += 1;
        self.in_recovery += 1;
        if let Some(text) = look((scheme, how), &again, &acknowledged, begun) {
            let text = format!("after a crash behind event {inside} of the recovery: {text}");
            self.violate(seed, at, text);
        }
    }
}

fn look(
    (scheme, how): (SchemeKind, &How),
    medium: &CrashMedium,
    acknowledged: &[u64],
    begun: i64,
) -> Option<String> {
    let files = medium.all_files();
    let db = match Database::open_on(medium, scene::options(scheme, how)) {
        Ok(db) => db,
        Err(error) => return Some(format!("cannot be opened: {error}; found were {files:?}")),
    };
    match judge(&db, acknowledged, begun) {
        Ok(wrong) => wrong,
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}
