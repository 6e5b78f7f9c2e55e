//! Torture: runs every scheme under schedules that look for anomalies.
//!
//! A run has a few threads with transactions over few rows ([`workload`]), and snapshots in
//! between. The run records what each transaction read and wrote, and a checker judges the record
//! ([`atoll_txn::history`]). Seeded runs use a simulated machine ([`machine`], [`stage`]) on which
//! the seed determines the order of single shared accesses, so a run can be repeated exactly.
//! Native runs use threads of this machine, to find what only real memory shows; in every second of
//! them, threads sleep at random accesses ([`hesitant`]).
//!
//! | module | contents |
//! |---|---|
//! | [`machine`], [`stage`] | coroutines that give way at shared accesses, and their schedule |
//! | [`buffers`] | store buffers of the simulated machine |
//! | [`hesitant`] | threads that sleep at shared accesses |
//! | [`workload`] | plans of transactions |
//! | [`hands`], [`truths`] | operations on the table, and its invariants |
//! | [`actor`], [`scene`] | threads that run plans, and the record of a run |
//! | `verdict` | the verdict on a run |
//! | [`mod@run`] | one run |
//! | [`lineup`], [`rules`] | the schemes, and the rules by which each is judged |
//! | [`report`], [`args`] | the report and the arguments |

pub mod actor;
pub mod args;
pub mod buffers;
pub mod crash;
pub mod hands;
pub mod hesitant;
pub mod lineup;
pub mod machine;
pub mod report;
pub mod rules;
pub mod run;
pub mod scene;
pub mod stage;
pub mod truths;
mod verdict;
pub mod workload;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use args::TortureArgs;
pub use report::{Found, SchemeReport, TortureReport};

use atoll_bench::BenchError;
use atoll_bench::progress::Progress;
use atoll_txn::schemes::SchemeKind;
use run::Run;

/// Time between two progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the torture.
///
/// # Errors
/// [`BenchError::Argument`]. An anomaly is not an error but part of the report.
pub fn run(args: &TortureArgs, progress: Progress<'_>) -> Result<TortureReport, BenchError> {
    args.check()?;
    let kinds = lineup::choose(&args.scheme)?;
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let mut schemes = Vec::new();
    for kind in kinds {
        let how = if args.native { "real threads" } else { "seeded schedules" };
        progress.say(&format!("{}: {how}", kind.name()));
        schemes.push(if args.native {
            native(kind, args, progress)
        } else {
            seeded(kind, args, jobs, progress)
        });
    }
    let mode = if args.native { "native" } else { "seeded" };
    Ok(TortureReport { mode, schemes })
}

fn add(report: &mut SchemeReport, seed: u64, run: Run) {
    report.seeds += 1;
    report.steps += run.steps;
    report.tally.add(run.tally);
    report.anomalies.extend(run.fault.map(|fault| Found::new(seed, fault)));
}

fn seeded(
    kind: SchemeKind,
    args: &TortureArgs,
    jobs: usize,
    progress: Progress<'_>,
) -> SchemeReport {
    let (next, found) = (AtomicU64::new(0), AtomicUsize::new(0));
    let first_seed = args.first_seed;
    let empty = SchemeReport { scheme: kind.name(), first_seed, ..SchemeReport::default() };
    let report = Mutex::new(empty);
    std::thread::scope(|scope| {
        let work = || {
            while found.load(Ordering::Relaxed) < args.anomalies_max {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= args.seeds {
                    return;
                }
                let seed = first_seed.wrapping_add(number);
                let run = lineup::seed(kind, seed, false);
                found.fetch_add(usize::from(run.fault.is_some()), Ordering::Relaxed);
                add(&mut report.lock().unwrap_or_else(PoisonError::into_inner), seed, run);
            }
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(LOOK_EVERY);
            let tried = next.load(Ordering::Relaxed).min(args.seeds);
            progress.reach(tried as f64 / args.seeds as f64, &format!("{tried} seeds"));
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.anomalies.sort_by_key(|found| found.seed);
    report
}

fn native(kind: SchemeKind, args: &TortureArgs, progress: Progress<'_>) -> SchemeReport {
    let first_seed = args.first_seed;
    let mut report = SchemeReport { scheme: kind.name(), first_seed, ..SchemeReport::default() };
    let (start, wanted) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let mut seed = first_seed;
    while start.elapsed() < wanted && report.anomalies.len() < args.anomalies_max {
        add(&mut report, seed, lineup::native(kind, seed, args.threads));
        seed = seed.wrapping_add(1);
        let share = start.elapsed().as_secs_f64() / args.seconds;
        progress.reach(share, &format!("{} runs", report.seeds));
    }
    report
}
