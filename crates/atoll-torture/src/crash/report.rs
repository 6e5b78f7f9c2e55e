//! The report: the crashes tried, and the violations found.

use std::fmt;

use serde::Serialize;

use super::run::{Run, Violation};

/// The report of all schemes.
#[derive(Debug, Clone, Serialize)]
pub struct CrashReport {
    /// Number of crashes, including those inside a recovery.
    pub crashes_tried: u64,
    /// Of those, inside a checkpoint of the run.
    pub in_checkpoint: u64,
    /// Of those, inside a recovery.
    pub in_recovery: u64,
    /// Number of crashes after which something was wrong.
    pub violations: u64,
    /// The schemes.
    pub schemes: Vec<SchemeCrashes>,
}

/// The report of one scheme.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SchemeCrashes {
    /// Its name.
    pub scheme: &'static str,
    /// The first seed.
    pub first_seed: u64,
    /// Number of runs.
    pub runs: u64,
    /// Number of crashes.
    pub crashes: u64,
    /// Of those, inside a checkpoint of the run.
    pub in_checkpoint: u64,
    /// Of those, inside a recovery.
    pub in_recovery: u64,
    /// Transactions that were acknowledged in all runs.
    pub acknowledged: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// The violations.
    pub found: Vec<Violation>,
}

impl SchemeCrashes {
    pub(super) fn new(scheme: &'static str, first_seed: u64) -> Self {
        Self { scheme, first_seed, ..Self::default() }
    }

    pub(super) fn add(&mut self, run: Run) {
        self.runs += 1;
        self.crashes += run.crashes;
        self.in_checkpoint += run.in_checkpoint;
        self.in_recovery += run.in_recovery;
        self.acknowledged += run.acknowledged;
        self.checkpoints += run.checkpoints;
        self.found.extend(run.violations);
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12}{:>7}{:>14}{:>13}{:>10}{:>15}{:>13}{:>12}",
            "scheme",
            "runs",
            "acknowledged",
            "checkpoints",
            "crashes",
            "in checkpoint",
            "in recovery",
            "violations"
        )?;
        for one in &self.schemes {
            writeln!(
                f,
                "{:<12}{:>7}{:>14}{:>13}{:>10}{:>15}{:>13}{:>12}",
                one.scheme,
                one.runs,
                one.acknowledged,
                one.checkpoints,
                one.crashes,
                one.in_checkpoint,
                one.in_recovery,
                one.found.len()
            )?;
        }
        for one in &self.schemes {
            for Violation { seed, event, events, text } in &one.found {
                let scheme = one.scheme;
                writeln!(f, "\n{scheme} seed {seed}, event {event} of {events}: {text}")?;
            }
        }
        Ok(())
    }
}
