//! Crash tests: a database on a medium that records everything, crashed at any moment of its run.
//!
//! The threads of a run transfer between accounts in tables of several tablespaces, record what
//! they did and read in journals, and now and then load a table in bulk or take a checkpoint. Then
//! the power fails behind any event of the run (a write, a sync, a change of names), any subset of
//! what was not synced survives, and the database is recovered; then once more after a crash during
//! that recovery. Each time [`judge`] checks that the database has the state after a set of
//! transactions that contains all acknowledged ones, contains no transaction without those on which
//! it depends, and no part of a transaction.
//!
//! | module | contents |
//! |---|---|
//! | [`scene`] | the tables, and the transactions on them |
//! | [`loads`] | bulk loads |
//! | [`drops`] | tables that are dropped and created again |
//! | [`judge`] | the conditions that must hold after recovery |
//! | [`plan`] | the settings of a run |
//! | [`run`] | one run and its crashes |
//! | [`report`], [`args`] | the report and the arguments |

pub mod args;
pub mod drops;
pub mod judge;
pub mod loads;
pub mod plan;
pub mod report;
pub mod run;
pub mod scene;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use args::{CrashArgs, CrashMedia};
pub use report::{CrashReport, SchemeCrashes};

use crate::lineup;
use atoll_bench::BenchError;
use atoll_bench::progress::Progress;

/// Time between two progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the crash tests.
///
/// # Errors
/// [`BenchError::Argument`]. A violation is not an error but part of the report.
pub fn run(args: &CrashArgs, progress: Progress<'_>) -> Result<CrashReport, BenchError> {
    args.check()?;
    let mut schemes = Vec::new();
    for kind in lineup::choose(&args.scheme)? {
        progress.say(&format!("{}: crashes", kind.name()));
        let (next, found) = (AtomicU64::new(0), AtomicUsize::new(0));
        let report = Mutex::new(SchemeCrashes::new(kind.name(), args.first_seed));
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            let work = || {
                while found.load(Ordering::Relaxed) < args.violations_max {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.seeds {
                        return;
                    }
                    let seed = args.first_seed.wrapping_add(number);
                    let (crashes, lazy) = (plan::Crashes::Random(args.crashes), seed % 4 == 3);
                    let unit = args.medium.unit(seed);
                    let how = plan::How { crashes, lazy, unit, ..plan::How::default() };
                    let run = run::run(kind, seed, &how);
                    found.fetch_add(run.violations.len(), Ordering::Relaxed);
                    report.lock().unwrap_or_else(PoisonError::into_inner).add(run);
                }
            };
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                std::thread::sleep(LOOK_EVERY);
                let tried = next.load(Ordering::Relaxed).min(args.seeds);
                progress.reach(tried as f64 / args.seeds as f64, &format!("{tried} runs"));
            }
        });
        schemes.push(report.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    let sum = |count: fn(&SchemeCrashes) -> u64| schemes.iter().map(count).sum();
    Ok(CrashReport {
        crashes_tried: sum(|scheme| scheme.crashes),
        in_checkpoint: sum(|scheme| scheme.in_checkpoint),
        in_recovery: sum(|scheme| scheme.in_recovery),
        violations: sum(|scheme| scheme.found.len() as u64),
        schemes,
    })
}
