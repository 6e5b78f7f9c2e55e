//! Durable databases: what joins tables, log and home.
//!
//! | module | room for |
//! |---|---|
//! | [`open`] | opening a folder: a new database, or one that is recovered |
//! | [`load`] | making the tables of a checkpoint, and indexes |
//! | [`recover`] | applying again what the logs have behind it |
//! | [`progress`] | how far that is |
//! | [`checkpoint`] | writing what has changed home, so that the logs can be short |
//! | [`check`] | looking for damage in the files of a database that is not open |
//! | [`inspect`] | showing what its logs have |
//! | [`backup`] | a copy of a database that is open |
//! | [`restore`] | a database as it was at some moment, from a backup and archived logs |
//! | [`survey`] | what logs have, and how far they reach together |
//! | [`restore_point`] | restore points, and how people read them |
//! | [`segment_writer`] | the bytes of a segment of a snapshot |
//! | [`flusher`] | the thread that flushes, prepares files and takes checkpoints |
//! | [`due`] | when it is to flush for transactions with a bound of their own |
//! | [`health`] | what goes wrong meanwhile, for whoever runs the database |
//!
//! A checkpoint is a snapshot, so it shows committed data only and nothing ever has to be undone at
//! recovery: a commit that the logs hold up to the durable horizon is applied again, anything else
//! is as if it had never been (`docs/decisions/2026-11-21-redo-only.md`).

mod backup;
mod check;
pub(crate) mod checkpoint;
pub(crate) mod due;
pub(crate) mod flusher;
pub(crate) mod health;
pub mod inspect;
mod load;
pub(crate) mod open;
pub(crate) mod progress;
mod recover;
pub mod restore;
pub(crate) mod restore_point;
mod segment_writer;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use atoll_log::Logs;
use atoll_txn::Committed;

use self::due::Due;
use crate::error::Result;

/// What a commit that was acknowledged survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Process killed: all. Power lost, or the operating system stopped: all. `commit` returns when
    /// the transaction, and everything that it has seen, is on the medium.
    #[default]
    Strict,
    /// Process killed, or power lost: all but about the last so much time. `commit` returns at
    /// once, and what was committed is flushed together within this bound. What is lost is the end
    /// of the history: never one transaction without a later one that depends on it.
    Group(Duration),
    /// Process killed, or power lost: all up to some earlier moment, since it is flushed once in a
    /// while. A database that was closed is whole.
    None,
}

/// How long at most what was committed waits for a flush without [`Durability`].
const LAZY: Duration = Duration::from_secs(1);
/// The shortest time between two flushes that nobody waits for, however short a bound is.
const PERIOD_MIN: Duration = Duration::from_millis(1);

impl Durability {
    /// [`Durability::Group`] without a bound of its own: 10 milliseconds.
    pub const GROUP: Self = Self::Group(Duration::from_millis(10));

    /// How often everything is flushed that nobody waits for.
    pub(crate) fn period(self) -> Duration {
        match self {
            Self::Group(bound) => bound,
            Self::Strict | Self::None => LAZY,
        }
    }
}

impl std::str::FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownDurability> {
        let unknown = || UnknownDurability(text.to_owned());
        match text.split_once([':', ' ']) {
            None => match text {
                "strict" => Ok(Self::Strict),
                "group" => Ok(Self::GROUP),
                "none" => Ok(Self::None),
                _ => Err(unknown()),
            },
            Some(("group", bound)) => {
                let number = bound.strip_suffix("ms").unwrap_or(bound).trim();
                let millis: u64 = number.parse().map_err(|_| unknown())?;
                let fits = (1..=60_000).contains(&millis);
                fits.then(|| Self::Group(Duration::from_millis(millis))).ok_or_else(unknown)
            }
            Some(_) => Err(unknown()),
        }
    }
}

/// A text that names no [`Durability`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no durability; use strict, group (at most 10 ms are lost), group:N with N from 1 \
     to 60000 milliseconds, or none"
)]
pub struct UnknownDurability(String);

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Group(bound) => write!(f, "group:{}", bound.as_millis()),
            Self::None => f.write_str("none"),
        }
    }
}

/// What a transaction needs of the logs.
pub(crate) struct Acknowledger {
    pub(crate) logs: Arc<Logs>,
    pub(crate) durability: Durability,
    pub(crate) due: Arc<Due>,
}

impl Acknowledger {
    /// Waits until all that can be seen is durable, if commits do.
    pub(crate) fn acknowledge_all(&self) -> Result<()> {
        self.acknowledge(Committed { gsn: self.logs.clock(), has_changes: true }, None)
    }

    /// As [`Acknowledger::acknowledge_all`], for somebody who only looks.
    pub(crate) fn show_all(&self) {
        // As in `acknowledge`.
        let _ = self.acknowledge_all();
    }

    /// Whether a commit is told of when it is durable. One that is not is flushed within the bound
    /// that was asked for.
    fn is_strict(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        match wanted.unwrap_or(self.durability) {
            Durability::Strict => return true,
            Durability::Group(bound) if committed.has_changes => {
                let period = self.durability.period();
                if bound < period {
                    self.due.within(bound.max(PERIOD_MIN));
                }
            }
            Durability::Group(_) | Durability::None => {}
        }
        false
    }

    /// Whether a commit needs no waiting.
    pub(crate) fn is_acknowledged(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        // One that never will be is not waited for either.
        !self.is_strict(committed, wanted)
            || self.logs.horizon() >= committed.gsn
            || self.logs.is_poisoned()
    }

    /// Waits as long as the durability asked for says.
    pub(crate) fn acknowledge(
        &self,
        committed: Committed,
        wanted: Option<Durability>,
    ) -> Result<()> {
        if !self.is_strict(committed, wanted) {
            return Ok(());
        }
        match self.logs.settle(committed.gsn) {
            // When a flush has failed, what is in memory can still be read.
            Err(_) if !committed.has_changes => Ok(()),
            done => Ok(done?),
        }
    }
}

/// What opening a database has found and done.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct RecoveryReport {
    /// It was new.
    pub created: bool,
    /// It had been closed, so the logs held nothing that the homes did not.
    pub was_closed: bool,
    /// What each tablespace lies on, see [`atoll_machine::MediumKind::name`].
    pub media: Vec<&'static str>,
    /// Number of the checkpoint that it was made from, 0 when there was none.
    pub checkpoint: u64,
    /// Bytes of the logs that were read.
    pub log_bytes: u64,
    /// Transactions that were applied again.
    pub redone: u64,
    /// Transactions that the logs hold in part or above the durable horizon, and that nobody was
    /// told of: they were dropped.
    pub dropped: u64,
    /// Rows.
    pub rows: u64,
    /// Seconds for reading the homes, for the logs, and for the indexes.
    pub home_s: f64,
    /// See there.
    pub log_s: f64,
    /// See there.
    pub index_s: f64,
    /// What was not as it should be and could be helped.
    pub notes: Vec<String>,
}

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct BackupReport {
    /// The checkpoint that was taken for it.
    pub checkpoint: CheckpointReport,
    /// Bytes of tables in the backup.
    pub bytes: u64,
}

/// What a checkpoint has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// Segments that had changed since the one before.
    pub segments_changed: u64,
    /// Segments in all.
    pub segments: u64,
    /// Bytes of blocks that were written home.
    pub bytes: u64,
    /// Bytes of the files that say what the checkpoint holds: maps, or what is different from the
    /// one before, with lines of blocks of which only few have changed.
    pub file_bytes: u64,
    /// Bytes of logs that were copied into the archive, if there is one.
    pub archived_bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// What nobody needs any more could not be removed or used again; it is tried again with the
    /// next one.
    pub has_leftovers: bool,
}

impl CheckpointReport {
    /// What a tablespace's part of it has done.
    fn add(&mut self, part: &Self) {
        self.segments_changed += part.segments_changed;
        self.segments += part.segments;
        self.bytes += part.bytes;
        self.file_bytes += part.file_bytes;
    }
}
