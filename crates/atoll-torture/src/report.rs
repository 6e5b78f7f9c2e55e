//! The report: what was tried, and the anomalies with the seeds that reproduce them.

use std::fmt;

use serde::Serialize;

use super::scene::Tally;
use super::truths::Fault;

/// The report of all schemes.
#[derive(Debug, Clone, Serialize)]
pub struct TortureReport {
    /// `seeded` or `native`.
    pub mode: &'static str,
    /// The schemes.
    pub schemes: Vec<SchemeReport>,
}

/// The report of one scheme.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SchemeReport {
    /// Its name.
    pub scheme: &'static str,
    /// The first seed.
    pub first_seed: u64,
    /// Seeds tried; in native mode, runs.
    pub seeds: u64,
    /// Shared accesses of all runs; 0 in native mode.
    pub steps: u64,
    /// Transactions.
    #[serde(flatten)]
    pub tally: Tally,
    /// The anomalies, by ascending seeds.
    pub anomalies: Vec<Found>,
}

/// An anomaly, and the seed that shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// The seed of the run.
    pub seed: u64,
    /// The kind of anomaly.
    pub kind: String,
    /// A description with the transactions involved.
    pub text: String,
}

impl Found {
    pub(super) fn new(seed: u64, fault: Fault) -> Self {
        Self { seed, kind: fault.kind, text: fault.text }
    }
}

impl TortureReport {
    /// Number of anomalies found.
    pub fn anomalies(&self) -> usize {
        self.schemes.iter().map(|scheme| scheme.anomalies.len()).sum()
    }
}

impl fmt::Display for TortureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = if self.mode == "native" { "runs" } else { "seeds" };
        writeln!(
            f,
            "{:<12}{runs:>9}{:>12}{:>12}{:>12}{:>9}{:>11}{:>11}",
            "scheme", "committed", "aborted", "rolled back", "refused", "snapshots", "anomalies"
        )?;
        for scheme in &self.schemes {
            let Tally { committed, aborted, rolled_back, refused, snapshots } = scheme.tally;
            writeln!(
                f,
                "{:<12}{:>9}{committed:>12}{aborted:>12}{rolled_back:>12}{refused:>9}\
                 {snapshots:>11}{:>11}",
                scheme.scheme,
                scheme.seeds,
                scheme.anomalies.len()
            )?;
        }
        for scheme in &self.schemes {
            for Found { seed, kind, text } in &scheme.anomalies {
                writeln!(f, "\n{} seed {seed}: {kind}: {text}", scheme.scheme)?;
                if self.mode != "native" {
                    let name = scheme.scheme;
                    writeln!(f, "  again: --scheme {name} --first-seed {seed} --seeds 1")?;
                }
            }
        }
        Ok(())
    }
}
