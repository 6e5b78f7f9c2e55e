//! The report of a workload, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::components::{Components, aborts_between};
use super::driver::{Measured, Workload};
use super::histogram::{Histogram, Latency};
use super::load::LoadReport;
use crate::error::BenchError;
use crate::machine_facts::MachineFacts;

const MIB: f64 = (1u64 << 20) as f64;

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct OltpReport {
    /// Name of the workload.
    pub workload: &'static str,
    /// The machine.
    pub machine: MachineFacts,
    /// The arguments.
    pub config: serde_json::Value,
    /// Threads that ran transactions.
    pub threads: usize,
    /// Partitions of the database.
    pub partitions: u32,
    /// Filling the tables.
    pub load: LoadReport,
    /// Seconds measured.
    pub seconds: f64,
    /// Transactions committed per second.
    pub throughput_txn_s: f64,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that rolled back on purpose.
    pub rollbacks: u64,
    /// Attempts that a conflict rolled back.
    pub aborts: u64,
    /// Attempts that were rolled back during the measurement, by reason, as the database counts
    /// them; `requested` are rollbacks on purpose.
    pub aborts_by_reason: BTreeMap<String, u64>,
    /// Attempts that a conflict rolled back, as a share of all attempts.
    pub abort_rate: f64,
    /// Latency: from the first attempt of a transaction to its end.
    pub latency_us: Latency,
    /// The time by component; `None` when it was not measured.
    pub components: Option<Components>,
    /// By type of transaction.
    pub transactions: Vec<KindReport>,
    /// Commits in each whole second.
    pub throughput_series_txn_s: Vec<u64>,
    /// Resident bytes of this process at the end of each of these seconds.
    pub resident_series_bytes: Vec<u64>,
    /// Memory of this process.
    pub resident_bytes: ResidentBytes,
    /// Checkpoints that ended during the measurement; `None` when the database is in memory only.
    pub checkpoints: Option<u64>,
    /// The result on bare arrays; `None` when it was not requested.
    pub floor: Option<FloorShare>,
    /// The checks of the database after the run, all of which succeeded or were left out.
    pub checks: Vec<CheckReport>,
    /// A one-line description of the workload for the table.
    #[serde(skip)]
    pub title: String,
}

/// One type of transactions.
#[derive(Debug, Clone, Serialize)]
pub struct KindReport {
    /// Its name.
    pub name: &'static str,
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that rolled back on purpose.
    pub rollbacks: u64,
    /// Transactions committed per second.
    pub throughput_txn_s: f64,
    /// Their latency.
    pub latency_us: Latency,
}

/// Resident bytes of this process.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ResidentBytes {
    /// When the measurement began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// The run compared with bare arrays in memory, without an engine, see [`crate::floor`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FloorShare {
    /// Transactions per second on bare arrays.
    pub txn_s: f64,
    /// The run's throughput divided by that.
    pub share: f64,
}

/// A check of the database after the run.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// The condition.
    pub name: String,
    /// The reason why the check was left out; `None` when it was made, and succeeded.
    pub left_out: Option<String>,
}

/// The description of a run beside its figures.
pub(crate) struct About<'a, C> {
    pub(crate) workload: &'static str,
    pub(crate) title: String,
    pub(crate) machine: MachineFacts,
    pub(crate) config: &'a C,
    pub(crate) threads: usize,
    pub(crate) partitions: u32,
    pub(crate) load: LoadReport,
}

impl OltpReport {
    /// The report of a run.
    ///
    /// # Errors
    /// [`BenchError::System`] when the arguments cannot be written as JSON.
    pub(crate) fn new<W: Workload>(
        about: About<'_, impl Serialize>,
        workload: &W,
        measured: &Measured<W::Client>,
        checks: Vec<CheckReport>,
    ) -> Result<Self, BenchError> {
        let failed = BenchError::system("writing the arguments as JSON");
        let config = serde_json::to_value(about.config).map_err(|error| failed(error.into()))?;
        let seconds = measured.seconds;
        let mut all = Histogram::default();
        measured.kinds.iter().for_each(|kind| all.merge(&kind.latency));
        let commits: u64 = measured.kinds.iter().map(|kind| kind.commits).sum();
        let rollbacks: u64 = measured.kinds.iter().map(|kind| kind.rollbacks).sum();
        let attempts = commits + rollbacks + measured.aborts;
        let named = workload.kinds().iter().zip(&measured.kinds);
        let named = named.filter(|(_, kind)| kind.latency.count() > 0);
        let transactions = named.map(|(name, kind)| KindReport {
            name,
            commits: kind.commits,
            rollbacks: kind.rollbacks,
            throughput_txn_s: kind.commits as f64 / seconds,
            latency_us: kind.latency.latency(),
        });
        let [before, after] = &measured.accounting;
        let [start, end] = measured.resident_bytes;
        Ok(Self {
            workload: about.workload,
            machine: about.machine,
            config,
            threads: about.threads,
            partitions: about.partitions,
            load: about.load,
            seconds,
            throughput_txn_s: commits as f64 / seconds,
            commits,
            rollbacks,
            aborts: measured.aborts,
            abort_rate: measured.aborts as f64 / attempts.max(1) as f64,
            latency_us: all.latency(),
            aborts_by_reason: aborts_between(before, after),
            components: Components::between(before, after),
            transactions: transactions.collect(),
            throughput_series_txn_s: measured.series.clone(),
            resident_series_bytes: measured.resident_series.clone(),
            resident_bytes: ResidentBytes { start, end },
            checkpoints: measured.checkpoints,
            floor: None,
            checks,
            title: about.title,
        })
    }
}

impl fmt::Display for OltpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = &self.load;
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{}", self.title)?;
        writeln!(
            f,
            "filled with {} rows in {:.1} s by {} thread(s)",
            load.rows, load.seconds, load.threads
        )?;
        self.transactions_table(f)?;
        writeln!(
            f,
            "\n{} attempt(s) aborted by a conflict, {:.2} % of all; measured for {:.1} s",
            self.aborts,
            self.abort_rate * 100.0,
            self.seconds
        )?;
        if let Some(components) = &self.components {
            write!(f, "time:")?;
            for (name, share) in components.named() {
                write!(f, "  {name} {:.1} %", share * 100.0)?;
            }
            writeln!(f)?;
        }
        if let Some(FloorShare { txn_s, share }) = self.floor {
            writeln!(
                f,
                "floor: bare arrays make {txn_s:.0} txn/s; this is {:.0} %",
                share * 100.0
            )?;
        }
        self.series_line(f)?;
        let ResidentBytes { start, end } = self.resident_bytes;
        writeln!(f, "memory: {:.0} MiB, then {:.0} MiB", start as f64 / MIB, end as f64 / MIB)?;
        if let Some(checkpoints) = self.checkpoints {
            writeln!(f, "checkpoints: {checkpoints}")?;
        }
        self.checks_lines(f)
    }
}

impl OltpReport {
    fn transactions_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.transactions.iter().map(|kind| kind.name.len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "\n{:width$} {:>11} {:>12} {:>10} {:>9} {:>9} {:>9} {:>10}",
            "", "txn/s", "committed", "rolled b.", "p50 µs", "p99 µs", "p99.9 µs", "max µs"
        )?;
        let mut line = |name: &str, rate: f64, counts: [u64; 2], latency: &Latency| {
            writeln!(
                f,
                "{name:width$} {rate:>11.0} {:>12} {:>10} {:>9.1} {:>9.1} {:>9.1} {:>10.0}",
                counts[0], counts[1], latency.p50, latency.p99, latency.p999, latency.max
            )
        };
        if self.transactions.len() > 1 {
            for kind in &self.transactions {
                let counts = [kind.commits, kind.rollbacks];
                line(kind.name, kind.throughput_txn_s, counts, &kind.latency_us)?;
            }
        }
        line("all", self.throughput_txn_s, [self.commits, self.rollbacks], &self.latency_us)
    }

    fn series_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let series = &self.throughput_series_txn_s;
        let (Some(least), Some(most)) = (series.iter().min(), series.iter().max()) else {
            return Ok(());
        };
        let (first, last) = (series[0], series[series.len() - 1]);
        writeln!(
            f,
            "seconds: {least} to {most} txn/s; the first {first}, the last {last}, of {}",
            series.len()
        )
    }

    fn checks_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.checks.iter().filter(|check| check.left_out.is_none()).count();
        if !self.checks.is_empty() {
            writeln!(f, "checked: {held} of {} condition(s), all hold", self.checks.len())?;
        }
        for check in &self.checks {
            if let Some(why) = &check.left_out {
                writeln!(f, "  left out: {} ({why})", check.name)?;
            }
        }
        Ok(())
    }
}
