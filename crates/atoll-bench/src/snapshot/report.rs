//! The report, as JSON and as tables.

use std::fmt;

use serde::Serialize;

use super::args::Plan;
use super::rows::{FillReport, Loaded};
use crate::machine_facts::MachineFacts;
use crate::stats::Spread;

const MIB: f64 = (1u64 << 20) as f64;

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct SnapshotReport {
    /// The machine.
    pub machine: MachineFacts,
    /// The arguments.
    pub config: Plan,
    /// The cost of a copy.
    pub copy_cost: CopyCost,
    /// The sizes.
    pub sizes: Vec<SizeReport>,
}

/// The cost of copying an extent when nothing else is done.
#[derive(Debug, Clone, Serialize)]
pub struct CopyCost {
    /// Bytes of the extent.
    pub extent_bytes: u64,
    /// Microseconds for a copy, allocation included, into memory that was used before.
    pub recycled_us: f64,
    /// The same into memory that comes from the system.
    pub fresh_us: f64,
    /// The bandwidth into recycled memory.
    pub gib_per_s: f64,
}

/// The check of a whole snapshot, which was right.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Rows in it.
    pub rows: u64,
    /// Updates that it shows.
    pub updates_shown: u64,
    /// The count of updates before the snapshot was requested.
    pub least: u64,
    /// The greatest possible count of updates when the snapshot had been taken.
    pub most: u64,
}

/// The results of one size.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SizeReport {
    /// GiB of column data.
    pub gib: f64,
    /// Rows.
    pub rows: u64,
    /// Bytes of column data.
    pub data_bytes: u64,
    /// Filling it.
    pub fill: Option<FillReport>,
    /// Microseconds that the owner needs to take a snapshot, median.
    pub take_us_p50: f64,
    /// The 99th percentile.
    pub take_us_p99: f64,
    /// The maximum.
    pub take_us_max: f64,
    /// Microseconds from the request for a snapshot until it can be used in the other process,
    /// median.
    pub attach_us_p50: f64,
    /// The 99th percentile.
    pub attach_us_p99: f64,
    /// The maximum.
    pub attach_us_max: f64,
    /// The first time: connecting and mapping the store.
    pub first_attach_us: f64,
    /// The same right after another snapshot was released, when the owner has memory to free.
    pub attach_after_release_us: Spread,
    /// Bytes that writers copied while those snapshots were taken.
    pub bytes_copied: u64,
    /// Extents and nodes of the directory that they copied.
    pub extents_copied: u64,
    /// Bytes that the reader copied because a transaction was open at a cut.
    pub bytes_patched: u64,
    /// Updates per second without snapshots.
    pub updates_per_s_without: f64,
    /// Updates per second with snapshots at the plan's `interval_s`, one of them held at any time.
    pub updates_per_s_with: f64,
    /// The loss of the writers.
    pub loss_percent: f64,
    /// The snapshots that were read completely.
    pub checks: Vec<Check>,
    /// The writers' loss at each interval.
    pub curve: Vec<CurvePoint>,
    /// Microseconds of `fork()` in the process with this database. Such a child has no snapshot:
    /// it shares the store and sees every change.
    pub fork_of_owner_us: Spread,
    /// The peer `fork()`.
    pub fork: Option<ForkReport>,
    /// The peer that sends rows.
    pub socket: Option<SocketReport>,
    /// Why peers were left out.
    pub peers_left_out: Option<String>,
}

/// Writers with a snapshot at each interval.
#[derive(Debug, Clone, Serialize)]
pub struct CurvePoint {
    /// Skew of the rows updated, 0 for none.
    pub theta: f64,
    /// Seconds from one snapshot to the next.
    pub interval_s: f64,
    /// Median of updates per second without snapshots.
    pub updates_per_s_without: f64,
    /// Median with snapshots.
    pub updates_per_s_with: f64,
    /// Median of the losses.
    pub loss_percent: f64,
    /// Loss of each repetition, relative to the stretches without snapshots before and after it.
    pub losses_percent: Vec<f64>,
    /// Share of a writer's time that only copying the same bytes takes.
    pub floor_percent: f64,
    /// The same if all copies went to fresh memory of the system.
    pub floor_fresh_percent: f64,
    /// Snapshots taken.
    pub snapshots: usize,
    /// Microseconds to take them.
    pub take_us: Spread,
    /// Seconds measured with snapshots.
    pub seconds: f64,
    /// Bytes copied by writers meanwhile.
    pub bytes_copied: u64,
    /// Extents and nodes of the directory copied.
    pub extents_copied: u64,
    /// The same for each second.
    pub extents_per_s: f64,
}

/// `fork()` over as many bytes of private memory.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ForkReport {
    /// Microseconds until it returns.
    pub fork_us: Spread,
    /// Updates per second of a writer at the pace of Atoll's.
    pub updates_per_s_without: f64,
    /// The same while a child holds the memory for one interval.
    pub updates_per_s_with: Option<f64>,
    /// The loss of the writer; `None` when there was not enough memory for the copies.
    pub loss_percent: Option<f64>,
    /// Page faults meanwhile, nearly all of them copies of a page.
    pub page_faults: Option<u64>,
}

/// Rows sent to another process.
#[derive(Debug, Clone, Serialize)]
pub struct SocketReport {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// The speed.
    pub gib_per_s: f64,
    /// Milliseconds for the whole size, extrapolated if less was sent.
    pub total_ms: f64,
}

impl SizeReport {
    /// A report without results.
    pub(crate) fn new(gib: f64, loaded: &Loaded) -> Self {
        Self {
            gib,
            rows: loaded.rows,
            data_bytes: loaded.rows * super::rows::ROW_BYTES,
            fill: Some(loaded.fill.clone()),
            ..Self::default()
        }
    }

    pub(crate) fn set_takes(&mut self, take: Spread, attach: Spread) {
        (self.take_us_p50, self.take_us_p99, self.take_us_max) = (take.p50, take.p99, take.max);
        self.attach_us_p50 = attach.p50;
        self.attach_us_p99 = attach.p99;
        self.attach_us_max = attach.max;
    }

    /// Copies the figures of the uniform point at `interval_s`.
    pub(crate) fn set_headline(&mut self, interval_s: f64, points: &[CurvePoint]) {
        let wanted = |point: &&CurvePoint| point.theta == 0.0 && point.interval_s == interval_s;
        if let Some(point) = points.iter().find(wanted) {
            self.updates_per_s_without = point.updates_per_s_without;
            self.updates_per_s_with = point.updates_per_s_with;
            self.loss_percent = point.loss_percent;
        }
    }
}

impl fmt::Display for SnapshotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (machine, config) = (&self.machine, &self.config);
        let gib = machine.memory_total_bytes as f64 / MIB / 1024.0;
        writeln!(
            f,
            "{}, {} CPUs, {gib:.0} GiB, Linux {}, load {}; {} writer(s), seed {}",
            machine.cpu_model,
            machine.cpus_allowed,
            machine.kernel,
            machine.load,
            config.writers,
            config.seed
        )?;
        let cost = &self.copy_cost;
        writeln!(
            f,
            "A copy of {} KiB: {:.1} µs ({:.1} GiB/s), {:.1} µs into memory from the system",
            cost.extent_bytes >> 10,
            cost.recycled_us,
            cost.gib_per_s,
            cost.fresh_us
        )?;
        self.sizes_table(f)?;
        self.peers_table(f)?;
        self.sizes
            .iter()
            .filter(|size| size.curve.len() > 1)
            .try_for_each(|size| curve(f, size))?;
        writeln!(f, "\nwhat bounds what")?;
        writeln!(
            f,
            "  attach  taking, two messages over a socket, and two wake-ups; \"first\" maps"
        )?;
        writeln!(
            f,
            "          the store, \"rel.\" waits while the owner frees a snapshot's memory"
        )?;
        writeln!(
            f,
            "  take    a barrier on all CPUs and one store that is under way, or one copy"
        )?;
        writeln!(f, "  loss    extents touched between snapshots × what a copy costs: the floor")?;
        writeln!(f, "  fork    page tables of all its memory, then a fault and a copy for a page")?;
        writeln!(f, "  socket  two copies of every byte through the kernel")?;
        writeln!(f, "fork() was given private memory of the same size and a writer of the same")?;
        writeln!(f, "pace: a store is shared memory, which fork() does not copy on write.")
    }
}

impl SnapshotReport {
    fn sizes_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.config.interval_s;
        writeln!(f, "\nsnapshots from another process while the writer runs (µs)")?;
        writeln!(
            f,
            "{:>6} {:>9} {:>9} {:>10} {:>10} {:>8} {:>9} {:>11} {:>11} {:>11} {:>7}",
            "GiB",
            "take p50",
            "take p99",
            "attach p50",
            "attach p99",
            "rel. p50",
            "first",
            "MiB copied",
            "upd/s none",
            format!("upd/s {each}s"),
            "loss %"
        )?;
        for size in &self.sizes {
            writeln!(
                f,
                "{:>6} {:>9.1} {:>9.1} {:>10.1} {:>10.1} {:>8.1} {:>9.0} {:>11.1} {:>11.0} \
                 {:>11.0} {:>7.1}",
                size.gib,
                size.take_us_p50,
                size.take_us_p99,
                size.attach_us_p50,
                size.attach_us_p99,
                size.attach_after_release_us.p50,
                size.first_attach_us,
                size.bytes_copied as f64 / MIB,
                size.updates_per_s_without,
                size.updates_per_s_with,
                size.loss_percent
            )?;
        }
        Ok(())
    }

    fn peers_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.config.peers {
            return Ok(());
        }
        writeln!(f, "\npeers, the same bytes; ratio: times as long as taking a snapshot (p50)")?;
        writeln!(
            f,
            "{:>6} {:>12} {:>7} {:>8} {:>13} {:>12} {:>8} {:>8}",
            "GiB", "fork p50 µs", "ratio", "loss %", "fork own µs", "socket ms", "GiB/s", "ratio"
        )?;
        for size in &self.sizes {
            if let Some(why) = &size.peers_left_out {
                writeln!(f, "{:>6} left out: {why}", size.gib)?;
            }
            let (Some(fork), Some(socket)) = (&size.fork, &size.socket) else { continue };
            let loss = fork.loss_percent.map_or("-".to_owned(), |loss| format!("{loss:.1}"));
            writeln!(
                f,
                "{:>6} {:>12.0} {:>7.0} {:>8} {:>13.0} {:>12.0} {:>8.2} {:>8.0}",
                size.gib,
                fork.fork_us.p50,
                fork.fork_us.p50 / size.take_us_p50,
                loss,
                size.fork_of_owner_us.p50,
                socket.total_ms,
                socket.gib_per_s,
                socket.total_ms * 1e3 / size.attach_us_p50
            )?;
        }
        Ok(())
    }
}

fn curve(f: &mut fmt::Formatter<'_>, size: &SizeReport) -> fmt::Result {
    writeln!(f, "\nthe writer's loss by interval at {} GiB", size.gib)?;
    writeln!(
        f,
        "{:>6} {:>8} {:>11} {:>11} {:>7} {:>8} {:>12} {:>10} {:>11} {:>9}",
        "theta",
        "every s",
        "upd/s none",
        "upd/s with",
        "loss %",
        "floor %",
        "fresh floor %",
        "extents/s",
        "MiB copied",
        "take p50"
    )?;
    for point in &size.curve {
        writeln!(
            f,
            "{:>6} {:>8} {:>11.0} {:>11.0} {:>7.1} {:>8.1} {:>13.1} {:>10.0} {:>11.0} {:>9.1}",
            point.theta,
            point.interval_s,
            point.updates_per_s_without,
            point.updates_per_s_with,
            point.loss_percent,
            point.floor_percent,
            point.floor_fresh_percent,
            point.extents_per_s,
            point.bytes_copied as f64 / MIB,
            point.take_us.p50
        )?;
    }
    Ok(())
}
