//! Recorded histories, and whether they are serializable.
//!
//! Transactions write down what they read and wrote ([`Recorder`]); [`check`] then looks for what
//! no serial order explains. Nothing is guessed: every write leaves a version with a number of its
//! own and knows the version that it replaced, so the order of versions is known, and with it the
//! direct serialization graph ("Generalized Isolation Level Definitions", Adya, Liskov and O'Neil,
//! 2000): who wrote a version before who read it (*wr*), before who replaced it (*ww*), and who
//! read it before who replaced it (*rw*). A range scan has read all that lies in its bounds, also
//! what was not there: who puts a row in between comes after it. A cycle is an anomaly, named by
//! its edges ([`Kind`]).
//!
//! A snapshot is a transaction of reads like any other; see [`End::Snapshot`] for its place in
//! time.
//!
//! Limits
//! - `HISTORY-1`: an anomaly that is reported is one. Where a key was absent more than once, which
//!   absence a reader saw is narrowed down by what else is known; what stays open is left out.
//! - `HISTORY-2`: the order in which a key was inserted again, after two or more earlier lives, is
//!   taken from the end of the transactions; other orders that time allows are tried before an
//!   anomaly is reported.

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

/// The number of a version; no two writes of a history leave the same.
pub type Version = u64;

/// Something that has versions: a row, or a part of it that is written by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// The row's key.
    pub key: i64,
    /// 0: the row as such, whether it is there and where it lies in indexes. Others: columns that
    /// are written by themselves.
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

/// What a write leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The version.
    pub version: Version,
    /// Where the row now lies in the index that is not by its key.
    pub place: i64,
}

/// What the bounds of a scan are about.
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
    /// It read an item; `None`: it was told that there is none.
    Read {
        /// The item.
        item: Item,
        /// What it saw.
        saw: Option<Version>,
    },
    /// It was told that there is one, but not which version.
    Exists {
        /// The item.
        item: Item,
    },
    /// It wrote an item.
    Write {
        /// The item.
        item: Item,
        /// What it had seen there before.
        before: Option<Version>,
        /// What it left there; `None`: it deleted it.
        after: Option<Left>,
    },
    /// It read all rows between two bounds, both included.
    Scan {
        /// Of what.
        over: Over,
        /// First.
        from: i64,
        /// Last.
        to: i64,
        /// All that it saw.
        saw: Vec<(Item, Version)>,
    },
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It committed.
    Committed,
    /// It was rolled back: what it wrote must not be seen, what it saw does not matter.
    Aborted,
    /// It is a snapshot. It comes after whatever had committed before it was begun, and before
    /// whatever began after it was taken, also where transactions need not keep to that.
    Snapshot,
}

/// What a transaction, or a snapshot, did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who ran it.
    pub thread: u32,
    /// Moment before its first step.
    pub began: u64,
    /// Moment after its end.
    pub ended: u64,
    /// How it ended.
    pub end: End,
    /// Its steps in order.
    pub ops: Vec<Op>,
}

/// All that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// What was there at first.
    pub initial: BTreeMap<Item, Left>,
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}

/// What is wrong, by the edges of the cycle that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A version was read whose writer was rolled back, or that its writer went on to replace.
    DirtyRead,
    /// A write replaced such a version, or two transactions wrote over each other.
    DirtyWrite,
    /// A transaction did not see what it had itself written.
    OwnWrite,
    /// Something was read that nobody ever left there.
    OutOfNowhere,
    /// A transaction saw two states of one item.
    NonRepeatableRead,
    /// Two transactions replaced the same version.
    LostUpdate,
    /// A key was there twice.
    DuplicateKey,
    /// A transaction saw some writes of another and missed others.
    ReadSkew,
    /// Each of some transactions missed what the next one wrote.
    WriteSkew,
    /// A range scan missed a row, or saw one, against the order of everything else.
    Phantom,
    /// Only the view of a transaction that did not write cannot be explained.
    ReadOnly,
    /// Transactions that saw each other's writes in a circle.
    CircularFlow,
    /// An order exists, but not one that keeps to what had ended before the other began.
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
    /// Its name.
    pub kind: Kind,
    /// What it is about.
    pub items: Vec<Item>,
    /// The transactions that show it, and how.
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

/// Gives moments and versions, and collects transactions, from any number of threads.
#[derive(Debug)]
pub struct Recorder {
    moments: AtomicU64,
    versions: AtomicU64,
    done: Mutex<Vec<Transaction>>,
}

impl Recorder {
    /// An empty history; versions that it gives start at `first_version`.
    pub fn new(first_version: Version) -> Self {
        let (moments, versions) = (AtomicU64::new(0), AtomicU64::new(first_version));
        Self { moments, versions, done: Mutex::default() }
    }

    /// The next moment.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// A version that nothing has yet.
    pub fn version(&self) -> Version {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// A transaction begins.
    pub fn begin(&self, thread: u32) -> Transaction {
        let began = self.moment();
        Transaction { thread, began, ended: began, end: End::Aborted, ops: Vec::new() }
    }

    /// A transaction has ended.
    pub fn end(&self, mut transaction: Transaction, end: End) {
        transaction.end = end;
        transaction.ended = self.moment();
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
    }

    /// All that has ended so far.
    pub fn history(&self, initial: BTreeMap<Item, Left>) -> History {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        History { initial, transactions: done.clone() }
    }
}

impl Transaction {
    /// Writes down a read.
    pub fn read(&mut self, item: Item, saw: Option<Version>) {
        self.ops.push(Op::Read { item, saw });
    }

    /// Writes down a write.
    pub fn wrote(&mut self, item: Item, before: Option<Version>, after: Option<Left>) {
        self.ops.push(Op::Write { item, before, after });
    }

    /// What the transaction itself left at an item, if it wrote it.
    pub fn own(&self, item: Item) -> Option<Option<Left>> {
        self.ops.iter().rev().find_map(|op| match op {
            Op::Write { item: written, after, .. } if *written == item => Some(*after),
            _ => None,
        })
    }
}
