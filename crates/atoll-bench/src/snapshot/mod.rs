//! The cost of snapshots: of taking them, of attaching from another process, and for the writers.
//!
//! For each size:
//! 1. Transactions fill a table of 128-byte rows, and the database is published.
//! 2. Another process attaches and takes snapshots, one after the other, while a writer updates one
//!    8-byte column. The reader samples each snapshot when it takes it and again when it releases
//!    it; both samples must be equal. The first and the last snapshot are read completely and
//!    compared with the writer's count.
//! 3. The writer's throughput is measured without snapshots and with one held all the time,
//!    interleaved, at each interval between snapshots, and compared with the lower bound: the bytes
//!    that writers copied, times the cost of a copy when nothing else is done.
//! 4. The database is dropped, and the peers do the same with as much plain memory: `fork()`, and
//!    rows sent over a Unix socket.
//!
//! Any failure ends the benchmark; its files and memory are freed with the process.

mod args;
mod copy_cost;
mod curve;
mod fork;
mod peers;
mod reader;
mod report;
mod rows;
mod writer;

pub use args::SnapshotArgs;
pub use reader::reader_main_if_asked;
pub use report::{
    Check, CopyCost, CurvePoint, ForkReport, SizeReport, SnapshotReport, SocketReport,
};
pub use rows::FillReport;

use std::time::Duration;

use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::machine_facts::MachineFacts;
use crate::progress::Progress;
use crate::stats::{Spread, spread_us};
use args::Plan;
use reader::Reader;
use rows::Loaded;
use writer::Writers;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; [`BenchError::Wrong`] when a snapshot was wrong.
pub fn run(args: &SnapshotArgs, progress: Progress<'_>) -> Result<SnapshotReport, BenchError> {
    let plan = Plan::new(args)?;
    let cpus = Cpus::divide(plan.writers, plan.pin)?;
    let facts = MachineFacts::gather();
    cpus.pin_other()?;
    let result = run_sizes(&plan, &cpus, facts, progress);
    cpus.unpin()?;
    result
}

fn run_sizes(
    plan: &Plan,
    cpus: &Cpus,
    machine: MachineFacts,
    progress: Progress<'_>,
) -> Result<SnapshotReport, BenchError> {
    progress.say("measuring what copying an extent costs");
    let copy_cost = copy_cost::measure(cpus, plan.seed)?;
    let largest = plan.gib.iter().copied().fold(0.0, f64::max);
    let mut sizes = Vec::new();
    for gib in &plan.gib {
        let with_curve = plan.curve && (plan.curve_all || *gib >= largest);
        sizes.push(run_size(plan, cpus, *gib, with_curve, &copy_cost, progress)?);
    }
    Ok(SnapshotReport { machine, config: plan.clone(), copy_cost, sizes })
}

fn run_size(
    plan: &Plan,
    cpus: &Cpus,
    gib: f64,
    with_curve: bool,
    cost: &CopyCost,
    progress: Progress<'_>,
) -> Result<SizeReport, BenchError> {
    let loaded = Loaded::fill(plan, cpus, gib, progress)?;
    let mut reader = Reader::start()?;
    let first_attach = reader.attach(&loaded.name, plan.runtime_dir.as_deref())?;
    let mut report = SizeReport::new(gib, &loaded);
    report.first_attach_us = first_attach as f64 / 1e3;

    let writers = Writers::start(&loaded, cpus, plan, 0.0)?;
    progress.say(&format!("{gib} GiB: checking a whole snapshot"));
    report.checks.push(check(&loaded, &writers, &mut reader)?);
    take_many(plan, &loaded, &mut reader, &mut report, gib, progress)?;
    let headline = [plan.interval_s];
    let intervals = if with_curve { &plan.intervals_s[..] } else { &headline };
    let mut measured = curve::measure(
        &curve::Field { plan, loaded: &loaded, writers: &writers, cost },
        &mut reader,
        intervals,
        progress,
    )?;
    report.checks.push(check(&loaded, &writers, &mut reader)?);
    writers.stop()?;
    if with_curve && plan.theta > 0.0 {
        let writers = Writers::start(&loaded, cpus, plan, plan.theta)?;
        let field = curve::Field { plan, loaded: &loaded, writers: &writers, cost };
        measured.extend(curve::measure(&field, &mut reader, intervals, progress)?);
        writers.stop()?;
    }
    report.set_headline(plan.interval_s, &measured);
    report.curve = measured;
    if plan.peers {
        let rate = report.updates_per_s_without;
        report.fork_of_owner_us = spread_us(&fork::times(plan.forks)?);
        reader.close()?;
        drop(loaded);
        progress.say(&format!("{gib} GiB: the same with fork() and a Unix socket"));
        peers::measure(plan, cpus, gib, rate, &mut report, progress)?;
    } else {
        reader.close()?;
    }
    Ok(report)
}

/// Reads a whole snapshot and checks the rows, the sums of columns that never change, and the sum
/// of the changing column, which is between the writers' counts before and after.
fn check(loaded: &Loaded, writers: &Writers, reader: &mut Reader) -> Result<Check, BenchError> {
    let least = writers.updates_ever();
    reader.take()?;
    // A writer counts an update after it has committed.
    let most = writers.updates_ever() + writers.count() as u64;
    let sums = reader.sums()?;
    reader.give_up()?;
    let fixed = loaded.fixed_sums();
    if sums.rows != loaded.rows || sums.fixed != fixed {
        return Err(BenchError::Wrong(format!(
            "{} rows with sums {:?} instead of {} with {fixed:?}",
            sums.rows, sums.fixed, loaded.rows
        )));
    }
    if !(least..=most).contains(&(sums.counter as u64)) {
        return Err(BenchError::Wrong(format!(
            "it shows {} updates, but between {least} and {most} had been made",
            sums.counter
        )));
    }
    Ok(Check { rows: sums.rows, updates_shown: sums.counter as u64, least, most })
}

/// Attaches right after a snapshot was released, when the owner has memory to free.
fn after_release(plan: &Plan, reader: &mut Reader) -> Result<Spread, BenchError> {
    let mut attach_ns = Vec::new();
    for _ in 0..plan.rounds.div_ceil(4) {
        attach_ns.push(reader.take()?.attach_ns);
        std::thread::sleep(Duration::from_secs_f64(plan.pause_s));
        reader.give_up()?;
    }
    Ok(spread_us(&attach_ns))
}

/// Takes snapshots one after the other, each before the one before it is released, so that the
/// writer copies all the time: this is the hardest case for taking a snapshot.
fn take_many(
    plan: &Plan,
    loaded: &Loaded,
    reader: &mut Reader,
    report: &mut SizeReport,
    gib: f64,
    progress: Progress<'_>,
) -> Result<(), BenchError> {
    progress.say(&format!("{gib} GiB: taking {} snapshots under the writer", plan.rounds));
    let before = loaded.db.counters();
    let (mut take_ns, mut attach_ns) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let taken = reader.take()?;
        take_ns.push(taken.take_ns);
        attach_ns.push(taken.attach_ns);
        report.bytes_patched += taken.bytes_patched_before;
        std::thread::sleep(Duration::from_secs_f64(plan.pause_s));
    }
    report.bytes_patched += reader.give_up()?;
    let after = loaded.db.counters();
    report.set_takes(spread_us(&take_ns), spread_us(&attach_ns));
    report.attach_after_release_us = after_release(plan, reader)?;
    progress.say(&format!(
        "{gib} GiB: take {:.1} µs, attach {:.1} µs, right after a release {:.1} µs (p50)",
        report.take_us_p50, report.attach_us_p50, report.attach_after_release_us.p50
    ));
    report.bytes_copied = after.bytes_copied_on_write - before.bytes_copied_on_write;
    report.extents_copied = after.extents_copied - before.extents_copied;
    Ok(())
}
