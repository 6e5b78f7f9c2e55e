//! The measurements and checks of the demo, as a table for people and `summary.json` for programs.

use std::path::Path;
use std::time::{Duration, Instant};

use atoll::{Counters, Database};
use serde::Serialize;

use super::analysts::{Taken, Who};
use crate::error::{CliError, Result};
use crate::output::Output;
use crate::render::table::{Align, Grid};
use crate::size;

/// Name of the file for programs.
pub const SUMMARY: &str = "summary.json";

/// The counters at a moment.
pub struct Reading {
    at: Instant,
    /// The counters.
    pub counters: Counters,
}

impl Reading {
    /// The counters of now.
    pub fn of(db: &Database) -> Self {
        Self { at: Instant::now(), counters: db.counters() }
    }

    /// Time since then.
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }

    /// What has been since then.
    pub fn phase(&self, db: &Database) -> Phase {
        let now = db.counters();
        Phase {
            time: self.at.elapsed(),
            commits: now.commits - self.counters.commits,
            retries: now.aborts - self.counters.aborts,
            bytes_copied_on_write: now.bytes_copied_on_write - self.counters.bytes_copied_on_write,
        }
    }
}

/// What happened in some time.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    /// How long it was.
    pub time: Duration,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions aborted by a conflict and tried again.
    pub retries: u64,
    /// Bytes that writers copied.
    pub bytes_copied_on_write: u64,
}

impl Phase {
    fn per_second(&self, count: u64) -> f64 {
        let rate = count as f64 / self.time.as_secs_f64().max(f64::EPSILON);
        (rate * 10.0).round() / 10.0
    }

    /// Transactions committed per second.
    pub fn txn_s(&self) -> f64 {
        self.per_second(self.commits)
    }
}

/// A check, and how often it was made.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The condition that must hold.
    pub name: String,
    /// How often it held.
    pub passed: u64,
    /// How often it was checked.
    pub total: u64,
    /// The observation of the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// All checks, in the order in which they were first made.
#[derive(Debug, Clone, Default)]
pub struct Checks(Vec<Check>);

impl Checks {
    /// Counts one; returns whether it held.
    pub fn add(&mut self, name: &str, passed: bool, detail: &str) -> bool {
        let at = self.0.iter().position(|check| check.name == name).unwrap_or_else(|| {
            self.0.push(Check { name: name.to_owned(), passed: 0, total: 0, failure: None });
            self.0.len() - 1
        });
        let check = &mut self.0[at];
        check.total += 1;
        check.passed += u64::from(passed);
        if !passed && check.failure.is_none() {
            check.failure = Some(detail.to_owned());
        }
        passed
    }

    /// Passed and made.
    pub fn counts(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |sum, check| (sum.0 + check.passed, sum.1 + check.total))
    }
}

/// Everything that was measured.
pub struct Results {
    /// No snapshot is held.
    pub before: Phase,
    /// The other processes are at work.
    pub during: Phase,
    /// No snapshot is held any more.
    pub after: Phase,
    /// Every snapshot that was taken.
    pub snapshots: Vec<(Who, Taken)>,
    /// Every check.
    pub checks: Checks,
}

/// `summary.json`. Times of snapshots are medians.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    txn_s_before: f64,
    txn_s_during: f64,
    txn_s_after: f64,
    take_us: f64,
    attach_us: f64,
    bytes_copied_attach: u64,
    bytes_copied_on_write: u64,
    checks_passed: u64,
    checks_total: u64,
    take_us_max: f64,
    attach_us_max: f64,
    bytes_patched: u64,
    retries_per_s_before: f64,
    retries_per_s_during: f64,
    retries_per_s_after: f64,
    checks: &'a [Check],
    snapshots: Vec<SnapshotLine<'a>>,
}

#[derive(Debug, Serialize)]
struct SnapshotLine<'a> {
    by: &'static str,
    #[serde(flatten)]
    taken: &'a Taken,
}

/// The middle one and the greatest.
fn median_and_max(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(0.0);
    (middle, values.last().copied().unwrap_or(0.0))
}

impl Results {
    fn summary(&self) -> Summary<'_> {
        let taken = || self.snapshots.iter().map(|(_, taken)| taken);
        let (take_us, take_us_max) = median_and_max(taken().map(|taken| taken.take_us));
        let (attach_us, attach_us_max) = median_and_max(taken().map(|taken| taken.attach_us));
        let (checks_passed, checks_total) = self.checks.counts();
        Summary {
            txn_s_before: self.before.txn_s(),
            txn_s_during: self.during.txn_s(),
            txn_s_after: self.after.txn_s(),
            take_us,
            attach_us,
            bytes_copied_attach: taken().map(|taken| taken.bytes_copied).sum(),
            bytes_copied_on_write: self.during.bytes_copied_on_write,
            checks_passed,
            checks_total,
            take_us_max,
            attach_us_max,
            bytes_patched: taken().map(|taken| taken.bytes_patched).sum(),
            retries_per_s_before: self.before.per_second(self.before.retries),
            retries_per_s_during: self.during.per_second(self.during.retries),
            retries_per_s_after: self.after.per_second(self.after.retries),
            checks: &self.checks.0,
            snapshots: self
                .snapshots
                .iter()
                .map(|(who, taken)| SnapshotLine { by: who.name(), taken })
                .collect(),
        }
    }

    /// Writes `summary.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(SUMMARY);
        let failed = |source| CliError::File { doing: "write", path: path.clone(), source };
        let mut text = serde_json::to_string_pretty(&self.summary())
            .map_err(|error| failed(std::io::Error::other(error)))?;
        text.push('\n');
        std::fs::write(&path, text).map_err(failed)
    }

    /// Writes the tables for people, or the summary on one line for programs.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, output: &mut Output) -> Result<()> {
        let summary = self.summary();
        if output.json {
            return Ok(output.json(&summary)?);
        }
        let (width, style) = (output.width(), output.style);
        for grid in [self.load_grid(), snapshot_grid(&summary), check_grid(&self.checks.0)] {
            grid.write(output, width, style)?;
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cores = size::counted(cores as u64, "core");
        let note = format!("The load and the other processes shared {cores}.");
        output.line(&style.dim(&note))?;
        for check in &self.checks.0 {
            if let Some(failure) = &check.failure {
                let text = format!("FAILED: {}: {failure}", check.name);
                output.line(&style.error(&text))?;
            }
        }
        Ok(())
    }

    fn load_grid(&self) -> Grid {
        let heads = ["the load", "before", "during the snapshots", "after"];
        let mut grid = grid(heads);
        let phases = [&self.before, &self.during, &self.after];
        let mut row = |what: &str, value: &dyn Fn(&Phase) -> String| {
            let values = phases.iter().map(|phase| Some(value(phase)));
            grid.push([Some(what.to_owned())].into_iter().chain(values).collect());
        };
        row("seconds measured", &|phase| format!("{:.1}", phase.time.as_secs_f64()));
        row("transactions per second", &|phase| size::count(phase.txn_s() as u64));
        row("tried again per second", &|phase| size::count(phase.per_second(phase.retries) as u64));
        row("copied on write", &|phase| size::bytes(phase.bytes_copied_on_write));
        grid
    }
}

fn grid<const N: usize>(heads: [&str; N]) -> Grid {
    let align = |at| if at == 0 { Align::Left } else { Align::Right };
    Grid::new(heads.into_iter().enumerate().map(|(at, head)| (head, align(at))))
}

fn micros(value: f64) -> String {
    size::elapsed(Duration::from_nanos((value * 1e3) as u64))
}

fn snapshot_grid(summary: &Summary<'_>) -> Grid {
    let count = summary.snapshots.len() as u64;
    let head = size::counted(count, "snapshot");
    let mut grid = grid([head.as_str(), "median", "greatest", "all together"]);
    let cell = String::new;
    let mut add = |values: [String; 4]| grid.push(values.map(Some).into());
    add(["taken in".into(), micros(summary.take_us), micros(summary.take_us_max), cell()]);
    add(["attached in".into(), micros(summary.attach_us), micros(summary.attach_us_max), cell()]);
    let copied = size::bytes(summary.bytes_copied_attach);
    add(["copied by attaching".into(), cell(), cell(), copied]);
    let patched = size::bytes(summary.bytes_patched);
    add(["copied to undo open transactions".into(), cell(), cell(), patched]);
    grid
}

fn check_grid(checks: &[Check]) -> Grid {
    let mut grid = grid(["check", "passed", "of"]);
    for check in checks {
        let counts = [check.passed, check.total].map(|count| Some(size::count(count)));
        grid.push([Some(check.name.clone())].into_iter().chain(counts).collect());
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_keeps_its_first_failure_and_counts_all() {
        let mut checks = Checks::default();
        assert!(checks.add("a", true, "fine"));
        assert!(!checks.add("a", false, "first"));
        checks.add("a", false, "second");
        checks.add("b", true, "");
        assert_eq!(checks.counts(), (2, 4));
        assert_eq!(checks.0[0].failure.as_deref(), Some("first"));
    }

    #[test]
    fn the_median_of_nothing_is_nothing() {
        assert_eq!(median_and_max(std::iter::empty()), (0.0, 0.0));
        assert_eq!(median_and_max([3.0, 1.0, 2.0].into_iter()), (2.0, 3.0));
    }
}
