//! Recorded histories, and the check whether they are serializable.
//!
//! Transactions record what they read and write ([`Recorder`]); [`check()`] then searches for
//! anomalies, which no serial order explains. It guesses nothing: every write creates a version
//! with a unique number and knows the version that it replaced. So the order of versions is known,
//! and with it the direct serialization graph ("Generalized Isolation Level Definitions", Adya,
//! Liskov and O'Neil, 2000). The writer of a version comes before its readers (*wr*) and before the
//! transaction that replaces it (*ww*), and its readers come before that transaction (*rw*). A
//! range scan reads everything within its bounds, absent rows too: a transaction that inserts a row
//! there comes after the scan. A cycle is an anomaly, named by its edges ([`Kind`]).
//!
//! A snapshot is a read-only transaction like any other; see [`End::Snapshot`] for its place in
//! time.
//!
//! Limits
//! - `HISTORY-1`: every anomaly that is reported is real. If a key was absent more than once, the
//!   check narrows down which absence a reader saw by what else is known; it ignores a read that
//!   stays ambiguous.
//! - `HISTORY-2`: if a key was inserted again after two or more earlier lifetimes, the check takes
//!   the order of the lifetimes from the ends of the transactions. Before it reports an anomaly, it
//!   tries other orders that real time allows.

mod chains;
mod check;
mod graph;
mod look;
mod tell;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use check::check;

/// The number of a version; no two writes of a history create the same.
pub type Version = u64;

/// An item that has versions: a row, or a part of a row that is written separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// The row's key.
    pub key: i64,
    /// 0 is the row as such: whether it exists, and its positions in indexes. Other numbers are
    /// columns that are written separately.
    pub part: u8,
}

impl Item {
    /// The row with this key.
    pub fn row(key: i64) -> Self {
        Self { key, part: 0 }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "row {}", self.key),
            part => write!(f, "row {} part {part}", self.key),
        }
    }
}

/// The state that a write creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The version.
    pub version: Version,
    /// The position of the row in the secondary index.
    pub place: i64,
}

/// The index of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Keys.
    Key,
    /// [`Left::place`].
    Place,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// It read an item.
    Read {
        /// The item.
        item: Item,
        /// The version that it saw; `None`: it saw that the item does not exist.
        saw: Option<Version>,
    },
    /// It learned that an item exists, but not its version.
    Exists {
        /// The item.
        item: Item,
    },
    /// It wrote an item.
    Write {
        /// The item.
        item: Item,
        /// The version that it had seen before.
        before: Option<Version>,
        /// The state that it created; `None`: it deleted the item.
        after: Option<Left>,
    },
    /// It read all rows between two bounds, both included.
    Scan {
        /// The index.
        over: Over,
        /// The lower bound.
        from: i64,
        /// The upper bound.
        to: i64,
        /// All rows that it saw.
        saw: Vec<(Item, Version)>,
    },
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It committed.
    Committed,
    /// It was rolled back: no transaction may see its writes, and its own reads do not matter.
    Aborted,
    /// It is a snapshot. It comes after every transaction that had committed before it was begun,
    /// and before every one that began after it was taken, even if the scheme is not strictly
    /// serializable.
    Snapshot,
}

/// The record of a transaction or a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The thread that ran it.
    pub thread: u32,
    /// A moment before its first step.
    pub began: u64,
    /// A moment after its end.
    pub ended: u64,
    /// How it ended.
    pub end: End,
    /// Its steps in order.
    pub ops: Vec<Op>,
}

/// A recorded history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The initial state.
    pub initial: BTreeMap<Item, Left>,
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}

/// The kind of an anomaly, by the edges of its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A transaction read a version of a writer that was rolled back, or a version that its writer
    /// replaced later.
    DirtyRead,
    /// A write replaced such a version, or two transactions overwrote each other's versions.
    DirtyWrite,
    /// A transaction did not see what it had itself written.
    OwnWrite,
    /// A transaction read a version that no transaction has written.
    OutOfNowhere,
    /// A transaction saw two states of one item.
    NonRepeatableRead,
    /// Two transactions replaced the same version.
    LostUpdate,
    /// A key existed twice.
    DuplicateKey,
    /// A transaction saw some writes of another and missed others.
    ReadSkew,
    /// Transactions in a cycle: each missed a write of the next one.
    WriteSkew,
    /// A range scan missed a row, or saw one, against the order of all other operations.
    Phantom,
    /// Only the reads of a read-only transaction have no explanation.
    ReadOnly,
    /// Transactions in a cycle saw each other's writes.
    CircularFlow,
    /// A serial order exists, but none that agrees with real time.
    RealTime,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirtyRead => "dirty read",
            Self::DirtyWrite => "dirty write",
            Self::OwnWrite => "own write missed",
            Self::OutOfNowhere => "read out of nowhere",
            Self::NonRepeatableRead => "non-repeatable read",
            Self::LostUpdate => "lost update",
            Self::DuplicateKey => "duplicate key",
            Self::ReadSkew => "read skew",
            Self::WriteSkew => "write skew",
            Self::Phantom => "phantom",
            Self::ReadOnly => "read-only transaction anomaly",
            Self::CircularFlow => "circular information flow",
            Self::RealTime => "against real time",
        })
    }
}

/// Why a history is not serializable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: Kind,
    /// The items that it is about.
    pub items: Vec<Item>,
    /// The transactions that show it, and how.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

/// Generates moments and versions, and collects transactions, for any number of threads.
#[derive(Debug)]
pub struct Recorder {
    moments: AtomicU64,
    versions: AtomicU64,
    done: Mutex<Vec<Transaction>>,
}

impl Recorder {
    /// Creates an empty history; new versions start at `first_version`.
    pub fn new(first_version: Version) -> Self {
        let (moments, versions) = (AtomicU64::new(0), AtomicU64::new(first_version));
        Self { moments, versions, done: Mutex::default() }
    }

    /// The next moment.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// A new version.
    pub fn version(&self) -> Version {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins a transaction.
    pub fn begin(&self, thread: u32) -> Transaction {
        let began = self.moment();
        Transaction { thread, began, ended: began, end: End::Aborted, ops: Vec::new() }
    }

    /// Ends a transaction.
    pub fn end(&self, mut transaction: Transaction, end: End) {
        transaction.end = end;
        transaction.ended = self.moment();
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
    }

    /// The history of all transactions that have ended so far.
    pub fn history(&self, initial: BTreeMap<Item, Left>) -> History {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        History { initial, transactions: done.clone() }
    }
}

impl Transaction {
    /// Records a read.
    pub fn read(&mut self, item: Item, saw: Option<Version>) {
        self.ops.push(Op::Read { item, saw });
    }

    /// Records a write.
    pub fn wrote(&mut self, item: Item, before: Option<Version>, after: Option<Left>) {
        self.ops.push(Op::Write { item, before, after });
    }

    /// The state in which the transaction itself has left an item, if it has written it.
    pub fn own(&self, item: Item) -> Option<Option<Left>> {
        self.ops.iter().rev().find_map(|op| match op {
            Op::Write { item: written, after, .. } if *written == item => Some(*after),
            _ => None,
        })
    }
}
