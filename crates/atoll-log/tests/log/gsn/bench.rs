//! Recorders that use the logs as workers do. Rows hold the GSN of their last change. A recorder
//! may spill a write set, has it admitted, and records it in the section in which it holds the
//! rows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use atoll_log::block::Kind;
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{Logs, LogsOptions, Planted};
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::key::mix;
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::{Commit, Recorder};

use super::check::{self, Found};

/// Number of rows; row `n` belongs to tablespace `n` modulo the number of tablespaces.
const ROWS: usize = 8;
const RECORDERS: usize = 4;
/// How long a sync takes in runs with threads, so that other threads run meanwhile.
const SYNC_TIME: Duration = Duration::from_micros(100);

/// One step of one recorder.
#[derive(Debug, Clone)]
pub struct Step {
    pub recorder: usize,
    pub act: Act,
}

/// What the recorder does, if its state allows it.
#[derive(Debug, Clone)]
pub enum Act {
    /// Commits an admitted transaction, and then admits one that changes and reads rows.
    Begin {
        writes: u8,
        reads: u8,
        bytes: usize,
    },
    /// Spills pieces of a transaction that is open and not admitted.
    Spill {
        to: u8,
        bytes: usize,
    },
    /// Admits a transaction that has spilled, or commits an admitted one.
    GoOn,
    /// Rolls back.
    Withdraw,
    /// Waits until an earlier commit is durable.
    Settle {
        which: u8,
    },
    Flush,
}

/// A transaction that has committed.
#[derive(Debug, Clone)]
pub struct Done {
    pub gsn: u64,
    /// The greatest GSN that it has seen.
    pub seen: u64,
    /// What it has recorded in each log, pieces included.
    pub payloads: BTreeMap<usize, Vec<u8>>,
    /// The rows that it has changed, and the ordinal of its change among the changes of the row.
    pub turns: BTreeMap<usize, u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// GSN of the last commit that changed it.
    gsn: u64,
    turns: u64,
}

/// A recorder and its open transaction.
struct Work {
    recorder: Box<dyn Recorder>,
    redo: Redo,
    writes: u8,
    reads: u8,
    is_admitted: bool,
    payloads: BTreeMap<usize, Vec<u8>>,
}

/// Logs on a medium, and what was done with them.
pub struct Bench {
    medium: CrashMedium,
    logs: Arc<Logs>,
    planted: Planted,
    /// The position in each log at which this incarnation continues.
    cuts: Vec<u64>,
    /// The horizon that earlier incarnations have left.
    known: u64,
    incarnation: u32,
    rows: Vec<Mutex<Row>>,
    done: Mutex<Vec<Done>>,
    work: Vec<Mutex<Work>>,
    /// The greatest horizon so far.
    horizon: u64,
    /// The event with which the incarnation began.
    opened: usize,
}

fn options(planted: Planted) -> LogsOptions {
    LogsOptions { file_bytes: 64 << 10, ring_bytes: 2 << 20, in_turns: true, planted }
}

fn folder(medium: &CrashMedium, log: usize) -> Arc<dyn Medium> {
    medium.folder(&format!("node-{log}")).unwrap()
}

impl Work {
    fn new(logs: &Arc<Logs>) -> Self {
        let recorder = Arc::clone(logs).recorder();
        let (redo, payloads) = (Redo::default(), BTreeMap::new());
        Self { recorder, redo, writes: 0, reads: 0, is_admitted: false, payloads }
    }

    /// Adds redo for the logs of some rows; its bytes are unique.
    fn write_down(&mut self, rows: u8, logs: usize, bytes: usize, number: u64) {
        self.redo.clear();
        for row in (0..ROWS).filter(|row| rows >> row & 1 == 1) {
            let part = self.redo.part((row % logs) as u32);
            part.extend(number.to_le_bytes());
            part.resize(part.len() + bytes, row as u8);
        }
        for part in self.redo.parts() {
            let all = self.payloads.entry(part.tablespace as usize).or_default();
            all.extend_from_slice(&part.bytes);
        }
    }

    fn withdraw(&mut self) {
        self.recorder.withdraw();
        self.redo.clear();
        self.payloads.clear();
        (self.writes, self.is_admitted) = (0, false);
    }
}

impl Bench {
    pub fn new(medium: CrashMedium, logs: usize, planted: Planted) -> Self {
        Self::open(medium, &vec![Start { lsn: 0, gsn: 0 }; logs], 1, planted, Vec::new())
    }

    fn open(
        medium: CrashMedium,
        starts: &[Start],
        incarnation: u32,
        planted: Planted,
        done: Vec<Done>,
    ) -> Self {
        let media: Vec<_> = (0..starts.len()).map(|log| folder(&medium, log)).collect();
        let logs =
            Logs::open(&media, starts, incarnation, options(planted), Box::new(|| Ok(()))).unwrap();
        logs.begin().unwrap();
        let turns = |row: usize| {
            let turns = done.iter().filter_map(|one: &Done| one.turns.get(&row)).max();
            // Every new GSN is above all GSNs of before, so a row need not remember the old ones.
            Mutex::new(Row { gsn: 0, turns: turns.copied().unwrap_or(0) })
        };
        let rows = (0..ROWS).map(turns).collect();
        let work = (0..RECORDERS).map(|_| Mutex::new(Work::new(&logs))).collect();
        let cuts = starts.iter().map(|start| start.lsn).collect();
        let known = starts[0].gsn;
        let (opened, horizon, done) = (medium.events(), logs.horizon(), Mutex::new(done));
        Self { medium, logs, planted, cuts, known, incarnation, rows, done, work, horizon, opened }
    }

    pub fn done(&self) -> Vec<Done> {
        self.done.lock().unwrap().clone()
    }

    /// Runs one step of a recorder.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        self.act(&mut self.work[step.recorder].lock().unwrap(), &step.act)?;
        let horizon = self.logs.horizon();
        if horizon < self.horizon {
            return Err(format!("the horizon goes back from {} to {horizon}", self.horizon));
        }
        self.horizon = horizon;
        self.medium.note(horizon);
        Ok(())
    }

    fn act(&self, work: &mut Work, act: &Act) -> Result<(), String> {
        let logs = self.cuts.len();
        let number = self.medium.events() as u64;
        match *act {
            Act::Begin { writes, reads, bytes } => {
                if work.is_admitted {
                    self.commit(work);
                }
                (work.writes, work.reads) = (work.writes | writes, reads);
                work.write_down(writes, logs, bytes, number);
                self.admit(work);
            }
            Act::Spill { to, bytes } if !work.is_admitted && to != 0 => {
                work.writes |= to;
                work.write_down(to, logs, bytes, number);
                work.recorder.spill(&work.redo).unwrap();
                work.redo.clear();
            }
            Act::GoOn if work.is_admitted => self.commit(work),
            // Only pieces were spilled; the commit block is empty.
            Act::GoOn => self.admit(work),
            Act::Withdraw => work.withdraw(),
            Act::Settle { which } => {
                let gsn = {
                    let done = self.done.lock().unwrap();
                    let at = (done.len().max(1) - 1).min(usize::from(which));
                    done.get(at).map_or(0, |one| one.gsn)
                };
                self.settle(gsn)?;
            }
            Act::Flush => {
                let last = self.done.lock().unwrap().iter().map(|one| one.gsn).max();
                self.logs.flush().unwrap();
                self.told(last.unwrap_or(0))?;
            }
            Act::Spill { .. } => {}
        }
        Ok(())
    }

    fn admit(&self, work: &mut Work) {
        if !work.payloads.is_empty() {
            work.recorder.admit(&work.redo).unwrap();
            work.is_admitted = true;
        }
    }

    fn settle(&self, gsn: u64) -> Result<(), String> {
        self.logs.settle(gsn).unwrap();
        self.told(gsn)
    }

    /// Notes that everything up to a GSN was reported durable.
    fn told(&self, gsn: u64) -> Result<(), String> {
        let horizon = self.logs.horizon();
        if horizon < gsn {
            return Err(format!("the horizon {horizon} is below what was settled, {gsn}"));
        }
        self.medium.note(gsn);
        Ok(())
    }

    /// Commits as a worker does: while it holds all its rows, it reads the GSNs of their last
    /// changes, records the commit, and stores its GSN in the rows that it has changed.
    fn commit(&self, work: &mut Work) {
        let held = work.reads | work.writes;
        let mut rows: Vec<(usize, MutexGuard<'_, Row>)> = (0..ROWS)
            .filter(|row| held >> row & 1 == 1)
            .map(|row| (row, self.rows[row].lock().unwrap()))
            .collect();
        let seen = rows.iter().map(|(_, row)| row.gsn).max().unwrap_or(0);
        let gsn = work.recorder.record(&work.redo, Commit { epoch: 1, seen });
        let mut turns = BTreeMap::new();
        for (number, row) in rows.iter_mut().filter(|(row, _)| work.writes >> row & 1 == 1) {
            **row = Row { gsn, turns: row.turns + 1 };
            turns.insert(*number, row.turns);
        }
        drop(rows);
        let payloads = std::mem::take(&mut work.payloads);
        self.done.lock().unwrap().push(Done { gsn, seen, payloads, turns });
        work.redo.clear();
        (work.writes, work.is_admitted) = (0, false);
    }

    /// Runs random steps in threads, while flushes are in progress, and checks crashes of the run.
    pub fn threads(&self, seed: u64) -> Result<(), String> {
        self.medium.slow(SYNC_TIME);
        let is_over = AtomicBool::new(false);
        let failed = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..RECORDERS as u64)
                .map(|thread| scope.spawn(move || self.work_alone(seed << 8 | thread)))
                .collect();
            let observer = scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let horizon = self.logs.horizon();
                    if horizon < last {
                        return Err(format!("the horizon goes back from {last} to {horizon}"));
                    }
                    if horizon > last {
                        self.medium.note(horizon);
                    }
                    last = horizon;
                    std::thread::yield_now();
                }
                Ok(())
            });
            let joined: Vec<_> = workers.into_iter().map(|one| one.join().unwrap()).collect();
            is_over.store(true, Ordering::Relaxed);
            joined.into_iter().chain([observer.join().unwrap()]).collect::<Result<(), _>>()
        });
        self.medium.slow(Duration::ZERO);
        failed?;
        self.check_crashes(seed)?;
        self.check_all()
    }

    fn work_alone(&self, seed: u64) -> Result<(), String> {
        let turn = AtomicU64::new(seed << 20);
        let below = |end: u64| mix(turn.fetch_add(1, Ordering::Relaxed)) % end;
        let mut work = Work::new(&self.logs);
        for _ in 0..40 {
            for _ in 0..below(8).saturating_sub(5) {
                let (to, bytes) = (below(256) as u8, below(1500) as usize);
                self.act(&mut work, &Act::Spill { to, bytes })?;
            }
            let (writes, reads) = (below(256) as u8 & below(256) as u8, below(256) as u8);
            self.act(&mut work, &Act::Begin { writes, reads, bytes: below(1500) as usize })?;
            let act = if below(10) == 0 { Act::Withdraw } else { Act::GoOn };
            if work.is_admitted || matches!(act, Act::Withdraw) {
                self.act(&mut work, &act)?;
            }
            match below(8) {
                0 => self.act(&mut work, &Act::Settle { which: u8::MAX })?,
                1 => self.act(&mut work, &Act::Flush)?,
                _ => {}
            }
        }
        work.withdraw();
        Ok(())
    }

    fn scan(&self, medium: &CrashMedium) -> (Found, Vec<u64>) {
        let mut ends = Vec::new();
        let found = self.cuts.iter().enumerate().map(|(log, cut)| {
            let bytes = self.logs.options().file_bytes;
            let mut scan = Scan::open(folder(medium, log), log as u8, bytes, 0).unwrap();
            scan.cut(self.incarnation, *cut);
            let mut blocks = Vec::new();
            while let Some((header, payload)) = scan.read_next().unwrap() {
                blocks.push((header, payload.to_vec()));
            }
            ends.push(scan.at());
            blocks
        });
        (found.collect(), ends)
    }

    /// The blocks of the logs now.
    pub fn found(&self) -> Found {
        self.scan(&self.medium).0
    }

    /// Checks that all commits are in the logs, in order, after a flush.
    pub fn check_all(&self) -> Result<(), String> {
        self.logs.flush().unwrap();
        check::orders(&self.found(), &self.done())
    }

    /// Checks crashes around every sync of this incarnation, in which none or a part of the
    /// unsynced bytes survives.
    pub fn check_crashes(&self, seed: u64) -> Result<(), String> {
        let points = self.medium.persist_points().into_iter().chain([self.medium.events()]);
        for point in points.filter(|at| *at > self.opened) {
            for (events, part) in [(point - 1, true), (point, true), (point, false)] {
                let crashed = crash(&self.medium, events, seed, part);
                let (found, ends) = self.scan(&crashed);
                self.horizon_after_crash(&found, &ends, events)
                    .map_err(|text| format!("event {events}: {text}"))?;
            }
        }
        Ok(())
    }

    /// Computes the horizon as a recovery does, and checks it.
    fn horizon_after_crash(
        &self,
        found: &Found,
        ends: &[u64],
        events: usize,
    ) -> Result<u64, String> {
        let told = self.medium.notes(events).into_iter().max().unwrap_or(0);
        let horizon = check::horizon(found, ends, (self.incarnation, &self.cuts))?.max(self.known);
        check::after_crash(found, horizon, told, &self.done())?;
        Ok(horizon)
    }

    /// Crashes at a random event and continues in the next incarnation, as a recovery does.
    pub fn crash_and_recover(self, seed: u64) -> Result<Self, String> {
        let last = self.medium.events();
        let events = self.opened + (mix(seed) % (last - self.opened + 1) as u64) as usize;
        let crashed = crash(&self.medium, events, seed, true);
        let (found, ends) = self.scan(&crashed);
        let horizon = self.horizon_after_crash(&found, &ends, events)?;
        let gsns = found.iter().flatten().map(|(header, _)| header.gsn);
        let gsn = gsns.max().unwrap_or(0).max(horizon);
        let cut = |(blocks, end): (&Vec<check::Block>, &u64)| {
            let mut above = blocks
                .iter()
                .filter(|(header, _)| header.kind == Kind::Commit && header.gsn > horizon);
            Start { lsn: above.next().map_or(*end, |(header, _)| header.lsn), gsn }
        };
        let starts: Vec<Start> = found.iter().zip(&ends).map(cut).collect();
        let mut done = self.done();
        done.retain(|one| one.gsn <= horizon);
        Ok(Self::open(crashed, &starts, self.incarnation + 1, self.planted, done))
    }
}

fn crash(medium: &CrashMedium, events: usize, seed: u64, part: bool) -> CrashMedium {
    let mut turn = 0;
    medium.crash(events, || {
        turn += 1;
        part && mix(seed.rotate_left(20) ^ (events as u64) << 32 ^ turn).is_multiple_of(3)
    })
}
