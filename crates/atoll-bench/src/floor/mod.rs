//! The floor: YCSB on bare arrays, without an engine; the most that the memory of this machine
//! allows.
//!
//! An access touches what any engine must touch: a bucket of an index (8 slots on one cache line),
//! a 64-bit word for the row, which is locked without waiting, and a value of one column. Nothing
//! is checked, logged, shown to a snapshot or undone. An engine cannot be faster than this, and its
//! distance from the floor is its overhead.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll::machine::huge_pages::{self, Array};
use atoll::machine::{Machine, Native};
use clap::Args;
use serde::Serialize;

use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::keys::{self, Keys, Random};
use crate::progress::Progress;

/// Slots of a bucket: one cache line.
const SLOTS: usize = 8;
/// Most accesses of a transaction.
const ACCESSES_MAX: usize = 64;

/// Measures YCSB on bare arrays, without an engine: the most that memory allows.
#[derive(Debug, Clone, Args, Serialize)]
pub struct FloorArgs {
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Rows
    #[arg(long, default_value_t = 4 << 20)]
    pub rows: u64,
    /// Columns; an access touches one. With several, the values take that many times the memory,
    /// and page walks cost more
    #[arg(long, default_value_t = 1)]
    pub columns: usize,
    /// Bytes of a column
    #[arg(long, default_value_t = 100)]
    pub column_bytes: usize,
    /// Accesses of a transaction
    #[arg(long, default_value_t = 16)]
    pub accesses: usize,
    /// Share of accesses that read; the others update
    #[arg(long, default_value_t = 0.5)]
    pub reads: f64,
    /// Skew of the keys
    #[arg(long, default_value_t = 0.6)]
    pub theta: f64,
    /// Rounds of a short loop after each access, in place of the other work of an engine: with too
    /// many instructions between them, accesses key by key no longer overlap
    #[arg(long, default_value_t = 0)]
    pub work: u32,
    /// Seconds that are measured
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct FloorReport {
    /// The arguments.
    pub config: FloorArgs,
    /// Transactions per second when the lines of all keys are prefetched together.
    pub together_txn_s: f64,
    /// Transactions per second, key by key.
    pub key_by_key_txn_s: f64,
    /// Share of attempts that met a lock, when the keys are prefetched together.
    pub abort_rate: f64,
}

#[repr(align(64))]
struct Bucket([AtomicU64; SLOTS]);

struct Arrays {
    buckets: Array<Bucket>,
    rows: Array<AtomicU64>,
    values: Array<AtomicU32>,
    words: usize,
    count: usize,
    columns: usize,
    /// Rounds of work after each access.
    work: u32,
}

fn hash(key: u64) -> u64 {
    (key ^ key >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Arrays {
    fn new(args: &FloorArgs) -> Self {
        let FloorArgs { rows, columns, column_bytes, work, .. } = *args;
        let count = (rows as usize * 2).div_ceil(SLOTS).next_power_of_two();
        let bucket = |_| Bucket(std::array::from_fn(|_| AtomicU64::new(0)));
        let words = column_bytes.div_ceil(4);
        let made = Self {
            buckets: huge_pages::collect(count, bucket),
            rows: huge_pages::collect(rows as usize, |_| AtomicU64::new(0)),
            values: huge_pages::collect(rows as usize * columns * words, |at| {
                AtomicU32::new(at as u32)
            }),
            words,
            count: rows as usize,
            columns,
            work,
        };
        for key in 0..rows {
            let mut at = made.home(key);
            loop {
                let free = made.buckets[at].0.iter().find(|one| one.load(Ordering::Relaxed) == 0);
                if let Some(slot) = free {
                    slot.store(key + 1, Ordering::Relaxed);
                    break;
                }
                at = (at + 1) % count;
            }
        }
        made
    }

    fn home(&self, key: u64) -> usize {
        (hash(key) >> 20) as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn find(&self, key: u64) -> usize {
        let mut at = self.home(key);
        loop {
            if self.buckets[at].0.iter().any(|one| one.load(Ordering::Relaxed) == key + 1) {
                return key as usize;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// The value that access number `at` of a transaction touches; `choice` selects the column.
    #[inline]
    fn value(&self, row: usize, choice: u64, at: usize) -> &[AtomicU32] {
        let share = choice.rotate_right(at as u32) & 0xffff_ffff;
        let column = (share * self.columns as u64) >> 32;
        &self.values[(column as usize * self.count + row) * self.words..][..self.words]
    }

    /// Runs one transaction; returns false when it met a lock.
    #[inline]
    fn run(
        &self,
        keys: &[u64],
        (updates, choice): (u64, u64),
        together: bool,
        sum: &mut u32,
    ) -> bool {
        let mut rows = [0; ACCESSES_MAX];
        if together {
            for key in keys {
                let bucket = &self.buckets[self.home(*key)];
                Native::prefetch(std::ptr::from_ref(bucket).cast(), 1);
            }
            for (at, (row, key)) in rows.iter_mut().zip(keys).enumerate() {
                *row = self.find(*key);
                Native::prefetch(std::ptr::from_ref(&self.rows[*row]).cast(), 1);
                let value = self.value(*row, choice, at);
                Native::prefetch(value.as_ptr().cast(), size_of_val(value));
            }
        }
        let mut held = 0;
        for (at, key) in keys.iter().enumerate() {
            rows[at] = if together { rows[at] } else { self.find(*key) };
            let update = updates >> (at % 64) & 1;
            let word = &self.rows[rows[at]];
            let granted = if update == 1 {
                word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            } else {
                word.fetch_add(2, Ordering::Acquire) & 1 == 0
            };
            if !granted {
                if update == 0 {
                    word.fetch_sub(2, Ordering::Release);
                }
                break;
            }
            held = at + 1;
            let value = self.value(rows[at], choice, at);
            if update == 1 {
                value.iter().for_each(|word| word.store(*sum, Ordering::Relaxed));
            } else {
                let words = value.iter().map(|word| word.load(Ordering::Relaxed));
                *sum = words.fold(*sum, u32::wrapping_add);
            }
            for round in 0..self.work {
                std::hint::black_box(round);
            }
        }
        for (at, row) in rows[..held].iter().enumerate() {
            let bits = if updates >> (at % 64) & 1 == 1 { 1 } else { 2 };
            self.rows[*row].fetch_sub(bits, Ordering::Release);
        }
        held == keys.len()
    }
}

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError::Argument`], [`BenchError::Machine`] when threads cannot be pinned.
pub fn run(args: &FloorArgs, progress: Progress<'_>) -> Result<FloorReport, BenchError> {
    let wrong = |what, value: String, need| BenchError::Argument { what, value, need };
    if args.accesses == 0 || args.accesses > ACCESSES_MAX {
        return Err(wrong("--accesses", args.accesses.to_string(), "1 to 64 will do"));
    }
    if args.columns == 0 {
        return Err(wrong("--columns", args.columns.to_string(), "there is at least one"));
    }
    if !(1..=1024).contains(&args.threads) {
        return Err(wrong("--threads", args.threads.to_string(), "1 to 1024 will do"));
    }
    if args.rows < 2 * args.accesses as u64 {
        let need = "at least twice as many rows as accesses";
        return Err(wrong("--rows", args.rows.to_string(), need));
    }
    check_memory(args)?;
    progress.say("filling the arrays");
    let arrays = Arrays::new(args);
    let cpus = Cpus::divide(args.threads, true)?;
    progress.say("measuring with the keys together");
    let (together_txn_s, abort_rate) = measure(args, &arrays, &cpus, true)?;
    progress.say("measuring key by key");
    let (key_by_key_txn_s, _) = measure(args, &arrays, &cpus, false)?;
    Ok(FloorReport { config: args.clone(), together_txn_s, key_by_key_txn_s, abort_rate })
}

/// Checks that the arrays fit into memory, because a failed allocation would end the process.
fn check_memory(args: &FloorArgs) -> Result<(), BenchError> {
    let allowed = atoll::machine::memory_allowed();
    let most = allowed.total_bytes.min(allowed.cgroup_limit_bytes.unwrap_or(u64::MAX));
    // Beside the values, a row takes at most 64 bytes of the index, and its word.
    let row = (args.columns as u64)
        .checked_mul((args.column_bytes as u64).div_ceil(4).max(1) * 4)
        .and_then(|values| values.checked_add(72));
    let bytes = row.and_then(|row| row.checked_mul(args.rows));
    if bytes.is_some_and(|bytes| bytes <= most / 10 * 9) {
        return Ok(());
    }
    Err(BenchError::Argument {
        what: "--rows",
        value: format!("{} rows of {} x {} bytes", args.rows, args.columns, args.column_bytes),
        need: "they must fit nine tenths of this machine's memory; take fewer rows or columns",
    })
}

fn measure(
    args: &FloorArgs,
    arrays: &Arrays,
    _cpus: &Cpus,
    together: bool,
) -> Result<(f64, f64), BenchError> {
    let (ready, stop) = (std::sync::Barrier::new(args.threads + 1), AtomicBool::new(false));
    let (commits, aborts) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut seconds = 0.0;
    std::thread::scope(|scope| {
        for thread in 0..args.threads as u64 {
            let (ready, stop, commits, aborts) = (&ready, &stop, &commits, &aborts);
            scope.spawn(move || {
                let seed = args.seed.wrapping_add(thread * 7919);
                let mut keys = Keys::new(args.rows, args.theta, seed);
                let mut random = Random::new(seed ^ 0x5bd1);
                let count = keys::drawn_by_each(args.threads, args.accesses);
                let drawn = draw(&mut keys, args.accesses, count);
                let drawn_bits = |_| (updates(&mut random, args.reads), random.word());
                let bits: Vec<(u64, u64)> = (0..count).map(drawn_bits).collect();
                ready.wait();
                let (mut done, mut met, mut sum, mut at) = (0u64, 0u64, 0u32, 0);
                while !stop.load(Ordering::Relaxed) {
                    let keys = &drawn[at * args.accesses..][..args.accesses];
                    while !arrays.run(keys, bits[at], together, &mut sum) {
                        met += 1;
                    }
                    done += 1;
                    at = (at + 1) % count;
                }
                std::hint::black_box(sum);
                commits.fetch_add(done, Ordering::Relaxed);
                aborts.fetch_add(met, Ordering::Relaxed);
            });
        }
        ready.wait();
        let begin = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(args.seconds));
        stop.store(true, Ordering::Relaxed);
        seconds = begin.elapsed().as_secs_f64();
    });
    let (commits, aborts) = (commits.into_inner() as f64, aborts.into_inner() as f64);
    Ok((commits / seconds, aborts / (commits + aborts).max(1.0)))
}

/// The keys of all transactions. Those of one transaction differ, because a transaction that met
/// its own lock would retry for ever.
fn draw(keys: &mut Keys, accesses: usize, count: usize) -> Vec<u64> {
    let mut drawn = Vec::with_capacity(count * accesses);
    for _ in 0..count {
        let begin = drawn.len();
        while drawn.len() < begin + accesses {
            let key = keys.key();
            if !drawn[begin..].contains(&key) {
                drawn.push(key);
            }
        }
    }
    drawn
}

/// A bit for each access, set for an update.
fn updates(random: &mut Random, reads: f64) -> u64 {
    (0..64).fold(0, |bits, at| bits | u64::from(random.unit() >= reads) << at)
}

impl std::fmt::Display for FloorReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FloorArgs { threads, rows, columns, theta, reads, .. } = &self.config;
        writeln!(
            f,
            "{rows} rows x {columns} columns, {threads} threads, {:.0} % reads, theta {theta}",
            reads * 100.0
        )?;
        writeln!(f, "  keys together  {:>10.0} txn/s", self.together_txn_s)?;
        write!(f, "  key by key     {:>10.0} txn/s", self.key_by_key_txn_s)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrays, FloorArgs, check_memory, run};
    use crate::error::BenchError;
    use crate::progress::Unwatched;

    fn args(rows: u64, columns: usize) -> FloorArgs {
        FloorArgs {
            threads: 1,
            rows,
            columns,
            column_bytes: 100,
            accesses: 16,
            reads: 0.5,
            theta: 0.0,
            work: 0,
            seconds: 0.1,
            seed: 1,
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        assert!(check_memory(&args(1000, 10)).is_ok());
        for (rows, columns) in [(1 << 40, 1), (1000, 1 << 40), (u64::MAX, usize::MAX)] {
            assert!(check_memory(&args(rows, columns)).is_err(), "{rows} rows of {columns}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_name() {
        let wrong = |change: fn(&mut FloorArgs)| {
            let mut args = args(1000, 1);
            change(&mut args);
            match run(&args, &mut Unwatched) {
                Err(BenchError::Argument { what, .. }) => what,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(wrong(|args| args.threads = 0), "--threads");
        assert_eq!(wrong(|args| args.threads = 1 << 40), "--threads");
        assert_eq!(wrong(|args| args.accesses = 65), "--accesses");
        assert_eq!(wrong(|args| args.rows = 31), "--rows");
    }

    #[test]
    fn a_transaction_that_meets_no_lock_leaves_none() {
        let arrays = Arrays::new(&args(1000, 3));
        let keys: Vec<u64> = (0..16).map(|at| at * 61 % 1000).collect();
        let mut sum = 0;
        assert!(arrays.run(&keys, (0b1010_1010, 7), true, &mut sum));
        assert!(arrays.run(&keys, (u64::MAX, !0), false, &mut sum));
        let free = |at: usize| arrays.rows[at].load(super::Ordering::Relaxed) == 0;
        assert!((0..1000).all(free));
        assert!(!arrays.run(&[5, 5], (0b11, 0), true, &mut sum), "it meets its own lock");
    }
}
