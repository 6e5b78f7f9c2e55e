//! The settings of a run: its threads and transactions, and the crashes that are tried.

use atoll::Planted;
use atoll::machine::medium::SECTOR_BYTES;
use atoll::machine::medium::crash::lines::Skipped;

/// The crashes that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashes {
    /// This many crashes behind random events, each followed by a crash behind a random event of
    /// its recovery.
    Random(u64),
    /// A crash behind every event; for one event in this many, also a crash behind every event of
    /// its recovery. Wherever few units are unsynced, every subset of them survives once.
    Every(usize),
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Number of threads.
    pub threads: u64,
    /// Number of transactions of each thread.
    pub transactions: u64,
    /// The crashes that are tried.
    pub crashes: Crashes,
    /// No transaction waits for a flush, so the logs drift apart, and no commit is acknowledged.
    pub lazy: bool,
    /// Bytes that the medium writes atomically, see [`CrashMedium::with_unit`].
    pub unit: u64,
    /// A fault planted in the database.
    pub planted: Planted,
    /// An instruction that is not passed on to persistent memory.
    pub skipped: Option<Skipped>,
}

impl Default for How {
    fn default() -> Self {
        let (unit, planted) = (SECTOR_BYTES, Planted::Nothing);
        let (crashes, skipped) = (Crashes::Random(50), None);
        Self { threads: 3, transactions: 12, crashes, lazy: false, unit, planted, skipped }
    }
}
