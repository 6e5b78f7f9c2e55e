//! The settings of a run: its threads and transactions, and which crashes are tried.

use atoll::Planted;
use atoll::machine::medium::SECTOR_BYTES;
use atoll::machine::medium::crash::lines::Skipped;

/// Which crashes are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashes {
    /// So many behind random events, each followed by a random one inside its recovery.
    Random(u64),
    /// Behind every event, of which every so manieth is crashed behind every event of its recovery
    /// too; wherever few units are unsynced, with every subset of them.
    Every(usize),
}

/// What is asked of a run.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Threads.
    pub threads: u64,
    /// Transactions of each.
    pub transactions: u64,
    /// Crashes that are tried.
    pub crashes: Crashes,
    /// Nobody waits for a flush, so that the logs are apart, and nothing is acknowledged.
    pub lazy: bool,
    /// Bytes that the medium writes whole or not at all, see [`CrashMedium::with_unit`].
    pub unit: u64,
    /// What is wrong with the database.
    pub planted: Planted,
    /// What persistent memory is not told.
    pub skipped: Option<Skipped>,
}

impl Default for How {
    fn default() -> Self {
        let (unit, planted) = (SECTOR_BYTES, Planted::Nothing);
        let (crashes, skipped) = (Crashes::Random(50), None);
        Self { threads: 3, transactions: 12, crashes, lazy: false, unit, planted, skipped }
    }
}
