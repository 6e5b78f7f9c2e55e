//! One run, and its crashes.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use atoll::machine::CrashMedium;
use atoll::{Database, Error, SchemeKind};
use serde::Serialize;

use super::drops::Steps;
use super::judge::judge;
use super::loads;
use super::plan::{Crashes, How};
use super::scene::{self, Tables};
use atoll_bench::keys::Random;

/// Duration of a sync in a lazy run, so that other threads commit meanwhile.
const SYNC_TIME: Duration = Duration::from_micros(200);

/// Where at most this many units are unsynced, every subset of them is tried.
const UNITS_MAX: u32 = 5;
/// Number of subsets that are tried where more units are unsynced.
const SUBSETS: u64 = 2;

/// One in so many transactions is a load.
const LOAD_EVERY: u64 = 16;
/// One in so many of the others drops or creates a table.
const DROP_EVERY: u64 = 6;

/// A violation found after a crash.
#[derive(Debug, Clone, Serialize)]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// The event behind which the crash happened,
    pub event: usize,
    /// and the number of events of the run.
    pub events: usize,
    /// What is wrong.
    pub text: String,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Number of crashes, including those inside a recovery.
    pub crashes: u64,
    /// Of those, in a checkpoint of the run.
    pub in_checkpoint: u64,
    /// Of those, in a recovery.
    pub in_recovery: u64,
    /// Transactions acknowledged.
    pub acknowledged: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// The violations.
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
    medium.skip(how.skipped);
    let first = medium.events();
    let begun = AtomicI64::new(0);
    let checkpoints = Mutex::new(Vec::new());
    let drops = Mutex::new(Vec::new());
    let failed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..how.threads)
            .map(|thread| {
                let (db, tables, medium) = (&db, &tables, &medium);
                let (begun, checkpoints, drops) = (&begun, &checkpoints, &drops);
                scope.spawn(move || -> Result<(), Error> {
                    let mut random = Random::new(seed << 8 | thread);
                    let mut session = db.session()?;
                    let mut steps = Steps::of(thread);
                    for number in 0..how.transactions {
                        let id = begun.fetch_add(1, Ordering::Relaxed) + 1;
                        if random.below(LOAD_EVERY) == 0 {
                            loads::act(db, &mut session, tables, id, &mut random)?;
                        } else if random.below(DROP_EVERY) == 0 {
                            steps.act(db, &mut session, tables, (id, &mut random))?;
                        } else {
                            scene::act(&mut session, tables, id, how.lazy, &mut random)?;
                        }
                        if !how.lazy {
                            medium.note(id as u64);
                        } else if random.below(12) == 0 {
                            db.flush()?;
                        }
                        // At least one checkpoint, in the middle of the run.
                        if random.below(8) == 0 || (thread, number) == (0, how.transactions / 3) {
                            let start = medium.events();
                            db.checkpoint()?;
                            let during = start..medium.events();
                            checkpoints.lock().unwrap_or_else(PoisonError::into_inner).push(during);
                        }
                    }
                    drops.lock().unwrap_or_else(PoisonError::into_inner).push(steps);
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
    let checkpoints = checkpoints.into_inner().unwrap_or_else(PoisonError::into_inner);
    let drops = drops.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut random = Random::new(seed ^ 0xc0a5);
    if random.below(4) == 0 {
        drop(tables);
        if let Err(error) = db.close() {
            return out.with(seed, (0, medium.events()), format!("cannot be closed: {error}"));
        }
    }
    let events = medium.events();
    out.acknowledged = medium.notes(events).len() as u64;
    out.checkpoints = checkpoints.len() as u64;
    let past = Past { scheme, seed, how, medium, events, checkpoints, drops, begun };
    match how.crashes {
        Crashes::Random(count) => (0..count).all(|_| {
            let event = first + random.below((events - first + 1) as u64) as usize;
            past.crash_twice(&mut out, event, &mut random)
        }),
        Crashes::Every(nth) => (first..=events).all(|event| {
            let found = each_left(&past.medium, event, &mut random, |left| {
                past.crash(&mut out, event, left)
            });
            found
                && if (event - first) % nth == seed as usize % nth {
                    past.crash_throughout(&mut out, event, &mut random)
                } else {
                    past.crash_twice(&mut out, event, &mut random)
                }
        }),
    };
    out
}

/// Decides which units survive: mostly all, mostly none, or any.
fn keeper(random: &mut Random) -> impl FnMut() -> bool + use<> {
    let chance = [0, 1, 20, 50, 80, 99, 100][random.below(7) as usize];
    let mut random = Random::new(random.word());
    move || random.below(100) < chance
}

/// Calls `look` with the states that a crash behind an event may leave, while `look` returns true:
/// with all of them where few units are unsynced, or with some.
fn each_left(
    medium: &CrashMedium,
    event: usize,
    random: &mut Random,
    mut look: impl FnMut(&CrashMedium) -> bool,
) -> bool {
    let mut units = 0;
    medium.crash(event, || {
        units += 1;
        true
    });
    if units > UNITS_MAX {
        return (0..SUBSETS).all(|_| look(&medium.crash(event, keeper(random))));
    }
    let mut answers = Answers::default();
    loop {
        if !look(&medium.crash(event, || answers.next())) {
            return false;
        }
        if !answers.advance() {
            return true;
        }
    }
}

/// Enumerates all sequences of answers, where the number of questions may depend on earlier
/// answers: from all false to all true.
#[derive(Default)]
struct Answers {
    given: Vec<bool>,
    asked: usize,
}

impl Answers {
    fn next(&mut self) -> bool {
        if self.asked == self.given.len() {
            self.given.push(false);
        }
        self.asked += 1;
        self.given[self.asked - 1]
    }

    /// Advances to the next sequence; returns false after the last one.
    fn advance(&mut self) -> bool {
        self.given.truncate(self.asked);
        self.asked = 0;
        while self.given.pop_if(|yes| *yes).is_some() {}
        self.given.last_mut().map(|last| *last = true).is_some()
    }
}

impl Run {
    fn with(mut self, seed: u64, (event, events): (usize, usize), text: String) -> Self {
        self.violations.push(Violation { seed, event, events, text });
        self
    }
}

/// A run that has ended.
struct Past<'h> {
    scheme: SchemeKind,
    seed: u64,
    how: &'h How,
    medium: CrashMedium,
    events: usize,
    /// The range of events of each checkpoint.
    checkpoints: Vec<Range<usize>>,
    drops: Vec<Steps>,
    begun: i64,
}

impl Past<'_> {
    /// Judges what a crash behind an event has left; returns whether nothing is wrong.
    fn crash(&self, out: &mut Run, event: usize, left: &CrashMedium) -> bool {
        let is_inside = |during: &Range<usize>| during.start < event && event < during.end;
        out.in_checkpoint += u64::from(self.checkpoints.iter().any(is_inside));
        self.judge(out, event, left, String::new)
    }

    /// As [`Past::crash`], then a crash at a random event of that recovery (and of closing).
    fn crash_twice(&self, out: &mut Run, event: usize, random: &mut Random) -> bool {
        let found = self.medium.crash(event, keeper(random));
        if !self.crash(out, event, &found) {
            return false;
        }
        let inside = random.below(found.events() as u64 + 1) as usize;
        self.crash_again(out, event, inside, &found.crash(inside, keeper(random)))
    }

    /// As [`Past::crash`], then crashes behind each event of that recovery.
    fn crash_throughout(&self, out: &mut Run, event: usize, random: &mut Random) -> bool {
        let found = self.medium.crash(event, keeper(random));
        self.crash(out, event, &found)
            && (0..=found.events()).all(|inside| {
                each_left(&found, inside, random, |left| self.crash_again(out, event, inside, left))
            })
    }

    /// Judges what a crash inside the recovery has left.
    fn crash_again(&self, out: &mut Run, event: usize, inside: usize, left: &CrashMedium) -> bool {
        out.in_recovery += 1;
        self.judge(out, event, left, || {
            format!("after a crash behind event {inside} of the recovery: ")
        })
    }

    fn judge(
        &self,
        out: &mut Run,
        event: usize,
        left: &CrashMedium,
        when: impl Fn() -> String,
    ) -> bool {
        out.crashes += 1;
        let Some(wrong) = self.wrong(left, &self.medium.notes(event)) else { return true };
        let (seed, events, text) = (self.seed, self.events, when() + &wrong);
        out.violations.push(Violation { seed, event, events, text });
        false
    }

    fn wrong(&self, left: &CrashMedium, acknowledged: &[u64]) -> Option<String> {
        let files = left.all_files();
        let db = match Database::open_on(left, scene::options(self.scheme, self.how)) {
            Ok(db) => db,
            Err(error) => return Some(format!("cannot be opened: {error}; found were {files:?}")),
        };
        let drops = |steps: &Steps| steps.wrong(&db, acknowledged).transpose();
        let judged = judge(&db, acknowledged, self.begun).transpose();
        match judged.or_else(|| self.drops.iter().find_map(drops)) {
            None => None,
            Some(Ok(wrong)) => Some(wrong),
            Some(Err(error)) => Some(format!("cannot be read: {error}")),
        }
    }
}
