//! The driver: runs a workload's transactions on threads and counts them.
//!
//! 1. Each thread is pinned, opens a session and creates its client; all threads start together.
//! 2. Warm-up: transactions are not counted.
//! 3. Measurement: the latency of a transaction is the time from its first attempt to its end,
//!    including attempts that were aborted. A transaction counts if it ends during the measurement,
//!    so the number of transactions that are cut off at the start and at the end is the same.
//! 4. The threads stop, and their tallies are added up. While they run, the threads share only the
//!    phase, and each has one cache line that the watching thread reads once a second.
//!
//! An error ends all threads and is returned; after a conflict the session retries.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use atoll::machine::{Machine, Native};
use atoll::{AbortReason, Accounting, Database, Lanes, Session};

use super::args::OltpArgs;
use super::histogram::Histogram;
use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::machine_facts::resident_bytes;
use crate::progress::Progress;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// Longest sleep of the watching thread, so that an error is reported soon.
const NAP: Duration = Duration::from_millis(20);

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// It rolled back on purpose.
    RolledBack,
}

impl Outcome {
    /// The outcome of a transaction that a session ran.
    ///
    /// # Errors
    /// Every error except a rollback that the transaction requested.
    pub fn of<R>(result: atoll::Result<R>) -> atoll::Result<Self> {
        match result {
            Ok(_) => Ok(Self::Committed),
            Err(atoll::Error::Aborted(AbortReason::Requested)) => Ok(Self::RolledBack),
            Err(error) => Err(error),
        }
    }
}

/// A workload that threads run.
pub trait Workload: Sync {
    /// The part of one thread.
    type Client: Client + Send;

    /// Names of its transaction types.
    fn kinds(&self) -> &'static [&'static str];

    /// Number of lanes of each thread.
    fn lanes(&self) -> usize {
        1
    }

    /// The client of thread number `worker`, counted from 0.
    ///
    /// # Errors
    /// It cannot be made.
    fn client(&self, worker: usize) -> Result<Self::Client, BenchError>;
}

/// The part of one thread in a workload: it draws transactions and runs them.
pub trait Client {
    /// Draws the next transaction, at a time of [`Machine::now_ns`]; returns its type, a position
    /// in [`Workload::kinds`].
    fn prepare(&mut self, now_ns: u64) -> usize;

    /// Runs the drawn transaction to its end.
    ///
    /// # Errors
    /// An error that is not a normal outcome of a transaction; it ends the run.
    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError>;

    /// Attempts that a conflict rolled back, since the session was opened.
    fn aborts(&self, session: &Session) -> u64 {
        session.aborts()
    }

    /// Draws and runs transactions in lanes while `watch` allows it, and reports each to `watch`.
    /// Called only for a workload with [`Workload::lanes`].
    ///
    /// # Errors
    /// As [`Client::execute`].
    fn run_in_lanes(
        &mut self,
        lanes: &mut Lanes,
        watch: &mut dyn LaneWatch,
    ) -> Result<(), BenchError> {
        let _ = (lanes, watch);
        Ok(())
    }
}

/// Counts the transactions that are run in lanes.
pub trait LaneWatch {
    /// Whether to begin another transaction.
    fn goes_on(&mut self) -> bool;

    /// A transaction of type `kind`, begun at `begun_ns` of [`Machine::now_ns`], has ended, after
    /// `aborts` attempts that a conflict rolled back.
    fn ended(&mut self, kind: usize, begun_ns: u64, outcome: Outcome, aborts: u64);
}

/// Counts of one transaction type.
#[derive(Debug, Clone, Default)]
pub struct KindTally {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that rolled back on purpose.
    pub rollbacks: u64,
    /// Latencies of both, in nanoseconds.
    pub latency: Histogram,
}

/// The counts of a run.
pub struct Measured<C> {
    /// By type.
    pub kinds: Vec<KindTally>,
    /// Attempts that a conflict rolled back.
    pub aborts: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Commits of each second.
    pub series: Vec<u64>,
    /// Resident bytes of this process at the end of each second.
    pub resident_series: Vec<u64>,
    /// The database's accounts at the begin and at the end.
    pub accounting: [Accounting; 2],
    /// Resident bytes of this process at the begin and at the end.
    pub resident_bytes: [u64; 2],
    /// Checkpoints that ended during the measurement; `None` for a database that is in memory only.
    pub checkpoints: Option<u64>,
    /// The clients, with what they counted themselves, warm-up included.
    pub clients: Vec<C>,
}

/// The commit counter of one thread, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

struct Shared {
    phase: AtomicU8,
    start: Barrier,
    commits: Vec<Line>,
    failure: OnceLock<BenchError>,
    /// Number of transactions of each thread, instead of a time.
    transactions: Option<u64>,
}

impl Shared {
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    fn commits(&self) -> u64 {
        self.commits.iter().map(|line| line.0.load(Ordering::Relaxed)).sum()
    }

    fn fail(&self, error: BenchError) {
        // The first failure is the one that is returned.
        let _ = self.failure.set(error);
        self.phase.store(STOP, Ordering::Relaxed);
    }
}

struct Tally {
    kinds: Vec<KindTally>,
    aborts: u64,
}

/// Runs a workload on the database's sessions.
///
/// # Errors
/// The error that ended a thread; [`BenchError::Panicked`].
pub fn drive<W: Workload>(
    db: &Database,
    workload: &W,
    args: &OltpArgs,
    progress: Progress<'_>,
) -> Result<Measured<W::Client>, BenchError> {
    let threads = args.thread_count()?;
    let cpus = Cpus::share(threads, !args.no_pin)?;
    let fixed = args.transactions.is_some();
    let mut shared = Shared {
        phase: AtomicU8::new(if fixed { MEASURE } else { WARM_UP }),
        start: Barrier::new(threads + 1),
        commits: (0..threads).map(|_| Line::default()).collect(),
        failure: OnceLock::new(),
        transactions: args.transactions,
    };
    let (watched, ended) = std::thread::scope(|scope| {
        let (shared, cpus) = (&shared, &cpus);
        let body = move |number| run_thread(db, workload, cpus, shared, number);
        let started: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || body(number))).collect();
        let running = || started.iter().any(|thread| !thread.is_finished());
        let watched = watch(db, args, shared, &running, progress);
        shared.phase.store(STOP, Ordering::Relaxed);
        let ended: Vec<_> = started.into_iter().map(|thread| thread.join()).collect();
        (watched, ended)
    });
    if let Some(error) = shared.failure.take() {
        return Err(error);
    }
    let mut measured = Measured {
        kinds: vec![KindTally::default(); workload.kinds().len()],
        aborts: 0,
        seconds: watched.seconds,
        series: watched.series,
        resident_series: watched.resident_series,
        accounting: [watched.before, db.accounting()],
        resident_bytes: [watched.resident_bytes, resident_bytes()],
        checkpoints: db.recovery().map(|_| db.checkpoints() - watched.checkpoints),
        clients: Vec::with_capacity(threads),
    };
    for thread in ended {
        // A thread that ended without a tally has failed, and its error was returned above.
        let Some((tally, client)) = thread.map_err(|_| BenchError::Panicked("workload"))? else {
            continue;
        };
        measured.aborts += tally.aborts;
        for (sum, more) in measured.kinds.iter_mut().zip(&tally.kinds) {
            sum.commits += more.commits;
            sum.rollbacks += more.rollbacks;
            sum.latency.merge(&more.latency);
        }
        measured.clients.push(client);
    }
    Ok(measured)
}

fn run_thread<W: Workload>(
    db: &Database,
    workload: &W,
    cpus: &Cpus,
    shared: &Shared,
    number: usize,
) -> Option<(Tally, W::Client)> {
    // The session is opened after the thread was pinned, so that its memory is on the thread's
    // node.
    let lanes = workload.lanes();
    let hands = cpus.pin_writer(number).and_then(|()| {
        Ok(if lanes > 1 { Hands::Lanes(db.lanes(lanes)?) } else { Hands::One(db.session()?) })
    });
    let ready = hands.and_then(|hands| Ok((hands, workload.client(number)?)));
    shared.start.wait();
    let kinds = workload.kinds().len();
    let commits = &shared.commits[number].0;
    let done = ready.and_then(|(hands, mut client)| {
        let tally = match hands {
            Hands::One(mut session) => work(&mut client, &mut session, kinds, shared, commits),
            Hands::Lanes(mut lanes) => {
                work_in_lanes(&mut client, &mut lanes, kinds, shared, commits)
            }
        };
        Ok((tally?, client))
    });
    match done {
        Ok(done) => Some(done),
        Err(error) => {
            shared.fail(error);
            None
        }
    }
}

/// The session or the lanes of a thread.
enum Hands {
    One(Session),
    Lanes(Lanes),
}

/// Counts transactions that are run in lanes.
struct Counting<'s> {
    shared: &'s Shared,
    commits_line: &'s AtomicU64,
    tally: Tally,
    measuring: bool,
    commits: u64,
    left: u64,
}

impl LaneWatch for Counting<'_> {
    fn goes_on(&mut self) -> bool {
        let goes_on = self.left > 0 && self.shared.phase() != STOP;
        self.left -= u64::from(goes_on && self.shared.transactions.is_some());
        goes_on
    }

    fn ended(&mut self, kind: usize, begun_ns: u64, outcome: Outcome, aborts: u64) {
        // A transaction that ends before or after the measurement does not count.
        let was_measuring = std::mem::replace(&mut self.measuring, self.shared.phase() == MEASURE);
        if !(was_measuring && self.measuring) {
            return;
        }
        self.tally.aborts += aborts;
        let of_kind = &mut self.tally.kinds[kind];
        of_kind.latency.record(Native::now_ns() - begun_ns);
        match outcome {
            Outcome::Committed => {
                of_kind.commits += 1;
                self.commits += 1;
                self.commits_line.store(self.commits, Ordering::Relaxed);
            }
            Outcome::RolledBack => of_kind.rollbacks += 1,
        }
    }
}

fn work_in_lanes(
    client: &mut impl Client,
    lanes: &mut Lanes,
    kinds: usize,
    shared: &Shared,
    commits_line: &AtomicU64,
) -> Result<Tally, BenchError> {
    let mut counting = Counting {
        shared,
        commits_line,
        tally: Tally { kinds: vec![KindTally::default(); kinds], aborts: 0 },
        measuring: shared.phase() == MEASURE,
        commits: 0,
        left: shared.transactions.unwrap_or(u64::MAX),
    };
    client.run_in_lanes(lanes, &mut counting)?;
    Ok(counting.tally)
}

fn work(
    client: &mut impl Client,
    session: &mut Session,
    kinds: usize,
    shared: &Shared,
    commits_line: &AtomicU64,
) -> Result<Tally, BenchError> {
    let mut tally = Tally { kinds: vec![KindTally::default(); kinds], aborts: 0 };
    let mut measuring = shared.phase() == MEASURE;
    let (mut commits, mut left) = (0, shared.transactions.unwrap_or(u64::MAX));
    let mut aborts_before = client.aborts(session);
    // The latency is the time since the end of the transaction before, so it includes drawing the
    // transaction: to read the clock a second time would cost more than that.
    let mut ended_ns = Native::now_ns();
    while left > 0 {
        let kind = client.prepare(ended_ns);
        let outcome = client.execute(session)?;
        let begun_ns = std::mem::replace(&mut ended_ns, Native::now_ns());
        let nanoseconds = ended_ns - begun_ns;
        match shared.phase() {
            STOP => break,
            MEASURE if measuring => {}
            MEASURE => {
                measuring = true;
                aborts_before = client.aborts(session);
            }
            _ => continue,
        }
        left -= 1;
        let of_kind = &mut tally.kinds[kind];
        of_kind.latency.record(nanoseconds);
        match outcome {
            Outcome::Committed => {
                of_kind.commits += 1;
                commits += 1;
                commits_line.store(commits, Ordering::Relaxed);
            }
            Outcome::RolledBack => of_kind.rollbacks += 1,
        }
    }
    tally.aborts = client.aborts(session) - aborts_before;
    Ok(tally)
}

struct Watched {
    seconds: f64,
    series: Vec<u64>,
    resident_series: Vec<u64>,
    before: Accounting,
    resident_bytes: u64,
    checkpoints: u64,
}

/// Sleeps until `end` while `going` returns true, and calls `look` in between.
fn sleep_until(end: Instant, going: &dyn Fn() -> bool, look: &mut dyn FnMut()) {
    while going() && Instant::now() < end {
        std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
        look();
    }
}

/// Controls the phases; returns when the measurement has ended.
fn watch(
    db: &Database,
    args: &OltpArgs,
    shared: &Shared,
    running: &dyn Fn() -> bool,
    progress: Progress<'_>,
) -> Watched {
    let fixed = args.transactions.is_some();
    let going = || running() && shared.phase() != STOP;
    let mut watched = Watched {
        seconds: 0.0,
        series: Vec::new(),
        resident_series: Vec::new(),
        before: db.accounting(),
        resident_bytes: resident_bytes(),
        checkpoints: db.checkpoints(),
    };
    shared.start.wait();
    let mut begin = Instant::now();
    if !fixed {
        progress.say(&format!("warming up for {} s", args.warmup));
        sleep_until(begin + Duration::from_secs_f64(args.warmup), &going, &mut || {
            progress.reach(begin.elapsed().as_secs_f64() / args.warmup, "");
        });
        progress.say(&format!("measuring for {} s", args.seconds));
        watched.before = db.accounting();
        watched.resident_bytes = resident_bytes();
        watched.checkpoints = db.checkpoints();
        let warm = WARM_UP;
        // An error may have stopped all threads meanwhile.
        let _ = shared.phase.compare_exchange(warm, MEASURE, Ordering::Relaxed, Ordering::Relaxed);
        begin = Instant::now();
    }
    let length = if fixed { f64::INFINITY } else { args.seconds };
    if let Some(each) = args.transactions {
        progress.say(&format!("running {each} transactions on each thread"));
    }
    let all = |each: u64| each.max(1) * shared.commits.len() as u64;
    let wanted = args.transactions.map(all);
    let mut before = 0;
    while going() && begin.elapsed().as_secs_f64() < length {
        let second = watched.series.len() + 1;
        sleep_until(
            begin + Duration::from_secs_f64(length.min(second as f64)),
            &going,
            &mut || {
                let (seconds, commits) = (begin.elapsed().as_secs_f64(), shared.commits());
                let share = wanted.map_or(seconds / length, |all| commits as f64 / all as f64);
                let rate = commits as f64 / seconds;
                progress.reach(share, &format!("{rate:.0} transactions a second"));
            },
        );
        // The last second may be incomplete; its count would be misleading.
        if begin.elapsed().as_secs_f64() >= second as f64 {
            let now = shared.commits();
            watched.series.push(now - before);
            watched.resident_series.push(resident_bytes());
            before = now;
        }
    }
    watched.seconds = begin.elapsed().as_secs_f64();
    watched
}
