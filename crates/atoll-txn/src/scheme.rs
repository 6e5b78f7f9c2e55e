//! The interface of a concurrency-control scheme.
//!
//! A scheme decides which transaction may read or write a row, and when a transaction may commit.
//! It knows a row only as a [`Place`] with a state that the scheme defines; it never sees a value,
//! a segment or a file. The engine calls the scheme in the order of a transaction's steps (see
//! [`crate::engine`]) and does everything physical itself.
//!
//! Invariants that a scheme maintains
//! - `SCHEME-1`: a scheme never waits inside a call. If it cannot grant a request now, it returns
//!   [`Conflict::WouldBlock`]; the worker leaves the gate, calls [`Scheme::wait`], and repeats the
//!   request.
//! - `SCHEME-2`: between [`Scheme::write`] and [`Scheme::end`] (in place), or between
//!   [`Scheme::prepare`] and [`Scheme::end`] (at commit), no other transaction stores into the row.
//! - `SCHEME-3`: after a reader has called [`Scheme::read_gap`] for a gap, a transaction that adds
//!   an entry to the gap is refused by [`Scheme::insert_into_gap`], or is ordered after the reader,
//!   or makes the reader's validation fail. The reader registers the gap read before it searches
//!   the index; the inserter adds its entry before it calls `insert_into_gap`. The engine executes
//!   a fence between the two steps on both sides (the latch of a leaf of an ordered index is one),
//!   so at least one of the two sees the other.
//! - `SCHEME-4`: if a snapshot was cut between the sections in which two transactions commit, the
//!   second is ordered after the first. So the snapshot has a place in the serial order.
//! - `SCHEME-5`: a reader that does not hold a row checks the row's state before and after it
//!   reads. A transaction that may have stored into a row leaves it in another state than it found
//!   it in, even if it rolls back: the reader may have been descheduled during both the store and
//!   its undo.

use atoll_machine::{Machine, ZeroDefault};

use crate::before_image::BeforeImage;

pub use crate::place::{Guarded, Place};

/// The section of the gate in which a transaction validates and, if it stores at commit, stores.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// How many snapshots were cut before its epoch.
    pub cuts: u64,
    /// Whether the commit needs several sections because the write set is large, see
    /// [`EngineOptions::rows_in_section`](crate::EngineOptions::rows_in_section).
    pub is_part: bool,
}

/// Why a transaction aborted. This is a normal outcome: the caller may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AbortReason {
    /// Another transaction holds what this one asked for.
    Denied,
    /// An older transaction holds what this one asked for, and the younger one aborts.
    TooYoung,
    /// It was part of a deadlock.
    Deadlock,
    /// It waited too long.
    Timeout,
    /// Its timestamp is too old: what it asked for has been read or written by a later one.
    TooLate,
    /// Something that it read has changed since.
    Changed,
    /// A snapshot was taken while it was open, but the snapshot lacks its changes and would have to
    /// be ordered after it.
    Cut,
    /// The caller rolled it back.
    Requested,
    /// An error rolled it back, or it was used again after it had been rolled back.
    Finished,
}

impl AbortReason {
    /// All reasons, in the order of [`AbortReason::index`].
    pub const ALL: [Self; 9] = [
        Self::Denied,
        Self::TooYoung,
        Self::Deadlock,
        Self::Timeout,
        Self::TooLate,
        Self::Changed,
        Self::Cut,
        Self::Requested,
        Self::Finished,
    ];

    /// The position of its counter.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::TooYoung => "too_young",
            Self::Deadlock => "deadlock",
            Self::Timeout => "timeout",
            Self::TooLate => "too_late",
            Self::Changed => "changed",
            Self::Cut => "cut",
            Self::Requested => "requested",
            Self::Finished => "finished",
        }
    }

    /// Whether a conflict with another transaction is the reason, so that a retry may succeed.
    pub const fn is_conflict(self) -> bool {
        !matches!(self, Self::Requested | Self::Finished)
    }
}

impl std::fmt::Display for AbortReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Denied => "another transaction holds a row that this one needs",
            Self::TooYoung => "an older transaction holds a row that this one needs",
            Self::Deadlock => "it was part of a deadlock",
            Self::Timeout => "it waited too long for a row that another transaction holds",
            Self::TooLate => "a later transaction has used a row that this one needs",
            Self::Changed => "a row that it read was changed by another transaction",
            Self::Cut => "a snapshot was taken while it was open",
            Self::Requested => "it was rolled back",
            Self::Finished => "it was rolled back before",
        })
    }
}

/// Why a scheme does not grant a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// Not now: wait for this place and ask again.
    WouldBlock(Place),
    /// The transaction must abort.
    Abort(AbortReason),
}

impl From<AbortReason> for Conflict {
    fn from(reason: AbortReason) -> Self {
        Self::Abort(reason)
    }
}

/// Finds the states of rows and gaps by place. A place is valid only in the engine that made it.
pub trait States<R, G> {
    /// The state of a row.
    fn row(&self, place: Place) -> &R;
    /// The state of a gap.
    fn gap(&self, place: Place) -> &G;
    /// A function that finds the states of many rows; it is fast while they are of one table.
    #[inline]
    fn rows<'s>(&'s self) -> impl FnMut(Place) -> &'s R
    where
        R: 's,
    {
        |place| self.row(place)
    }
}

/// Most transactions that are open at a time. Each has a number below this one, by which schemes
/// keep arrays.
pub const TXNS_MAX: usize = 2048;

/// When a scheme's transactions store their changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// At once, with an undo entry; no other transaction sees the row until this one has ended.
    InPlace,
    /// After validation, from a write set.
    AtCommit,
}

/// The parameters with which a transaction begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'p> {
    /// The partitions that it will access, ascending; empty means all.
    pub partitions: &'p [u32],
    /// It will not write.
    pub read_only: bool,
    /// How many snapshots have been cut, read before the transaction takes a timestamp.
    pub cuts: u64,
}

/// What a scheme found when it granted a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The row was read.
    Present,
    /// There is no such row for this transaction.
    Absent,
    /// Another transaction holds the row, and the read passes by, see [`Scheme::read_past`].
    Held,
}

/// The row that a request to a scheme is about.
pub struct Target<'s, R> {
    /// Its place.
    pub place: Place,
    /// Its state.
    pub state: &'s R,
}

/// The engine's callback that reads a row; it returns false if the row is not there. The scheme may
/// call it several times, and what it has read counts only if the scheme then grants the read. If
/// the scheme passes a before image, the callback reads an older version: it takes the columns of
/// the image from the image, and all others from the row.
pub type Fetch<'f> = &'f mut dyn FnMut(Option<&BeforeImage>) -> bool;

/// As [`Fetch`], for a scheme that calls it once. Its type is known where it is called, so the
/// compiler can inline it; it would not inline a closure that is called in several places.
pub trait FetchOnce {
    /// See [`Fetch`].
    fn fetch(&mut self, image: Option<&BeforeImage>) -> bool;
}

impl<'r> FetchOnce for &mut (dyn FnMut(Option<&BeforeImage>) -> bool + 'r) {
    #[inline(always)]
    fn fetch(&mut self, image: Option<&BeforeImage>) -> bool {
        self(image)
    }
}

/// [`States`] with the state types of a scheme.
pub trait StatesOf<S: Scheme<M> + ?Sized, M: Machine>: States<S::State, S::Gap> {}
impl<S: Scheme<M> + ?Sized, M: Machine, T: States<S::State, S::Gap>> StatesOf<S, M> for T {}

/// A concurrency-control scheme. The calls of one transaction come one at a time, but not always
/// from the same thread.
pub trait Scheme<M: Machine>: Send + Sync + 'static {
    /// The name by which users choose it and reports show it.
    const NAME: &'static str;
    /// When its transactions store their changes.
    const WRITES: Writes;
    /// Whether partitions alone isolate transactions from each other: the scheme keeps no state of
    /// a row, and the transaction that holds its partition may access it freely (`ROWS-2`).
    const PARTITIONED: bool = false;
    /// Whether readers may ask for older versions, so that the scheme must keep replaced values.
    const VERSIONED: bool = false;
    /// Whether read-only transactions never abort: they wait only until a writer has stored, and
    /// the writer does not wait meanwhile.
    const READERS_NEVER_ABORT: bool = false;
    /// Whether a transaction can let go of what it has read and go on. Its writers wait for each
    /// other, so that it need not abort because it does.
    const RELEASES_READS: bool = false;
    /// Whether a transaction may be ordered before others that have committed before it reads.
    const ORDERS_BY_TIMESTAMP: bool = false;
    /// Whether a reader that finds a row absent must also read the row's gap, because the row does
    /// not know of earlier rows with the same key.
    const READS_GAP_OF_ABSENT: bool = false;
    /// The state of a row. A row in the default state has never been used and is absent. The
    /// default state should be [bytes of 0](ZeroDefault), so that unused rows take no memory.
    type State: ZeroDefault + Send + Sync + 'static;
    /// The state of a gap.
    type Gap: Default + Send + Sync + 'static;
    /// The state of a transaction; it is used again for later transactions.
    type Local: Send + 'static;

    /// The state of the transactions with this number, one at a time; numbers are below
    /// [`TXNS_MAX`].
    fn local(&self, number: u32) -> Self::Local;

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Conflict::WouldBlock`]; no other conflict makes sense here.
    fn begin(&self, local: &mut Self::Local, start: &Start<'_>) -> Result<(), Conflict>;

    /// Reads a row with `fetch`.
    ///
    /// # Errors
    /// The scheme does not grant the read.
    fn read(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict>;

    /// As [`Scheme::read`], but the scheme may return `None` if the row changes meanwhile; it has
    /// granted nothing then.
    ///
    /// # Errors
    /// The scheme does not grant the read.
    #[inline(always)]
    fn read_once(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        mut fetch: impl FetchOnce,
    ) -> Result<Option<Seen>, Conflict> {
        self.read(local, states, target, &mut |image| fetch.fetch(image)).map(Some)
    }

    /// Announces a write of a row; `present` says whether the row is there afterwards. In place,
    /// the transaction holds the row exclusively from now on.
    ///
    /// # Errors
    /// The scheme does not grant the write.
    fn write(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        present: bool,
    ) -> Result<(), Conflict>;

    /// Reads a row as [`Scheme::read`] does and, if the row is there, announces a write after which
    /// it is still there, as [`Scheme::write`] does. The transaction must not have written the row
    /// before.
    ///
    /// # Errors
    /// The scheme does not grant the read or the write.
    #[inline]
    fn update(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let Target { place, state } = target;
        let seen = self.read(local, states, Target { place, state }, fetch)?;
        if seen == Seen::Present {
            self.write(local, states, target, true)?;
        }
        Ok(seen)
    }

    /// Releases what the transaction holds only because it has read: it does not rely on its reads
    /// any more, and is no longer serializable. Only for a scheme that
    /// [can](Scheme::RELEASES_READS) do so.
    fn release_reads(&self, _local: &mut Self::Local, _states: &impl StatesOf<Self, M>) {}

    /// Keeps what the transaction has read so far beyond [`Scheme::release_reads`].
    fn keep_reads(&self, _local: &mut Self::Local) {}

    /// Makes reads pass by the rows that other transactions hold, as if they were absent, or ends
    /// that. Returns how many rows were passed by. The transaction must not rely on those reads.
    /// Only for a scheme that [can](Scheme::RELEASES_READS) release reads.
    fn read_past(&self, _local: &mut Self::Local, _is_on: bool) -> u64 {
        0
    }

    /// Reads the row that was passed by last, to find out when it can be had.
    ///
    /// # Errors
    /// Another transaction still holds it.
    fn read_passed(
        &self,
        _local: &mut Self::Local,
        _states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// Registers a gap read: the transaction is going to rely on the absence of keys in the gap
    /// (`SCHEME-3`).
    ///
    /// # Errors
    /// The scheme does not grant the gap read.
    fn read_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Self::Gap,
    ) -> Result<(), Conflict>;

    /// Registers a gap insert: the transaction has added an entry to the gap (`SCHEME-3`).
    ///
    /// # Errors
    /// The scheme does not grant the gap insert. The entry stays, and the worker may repeat the
    /// request.
    fn insert_into_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Self::Gap,
    ) -> Result<(), Conflict>;

    /// Asks whether `new` may guard a part of a gap that `old` guards now. True means that `new`
    /// protects every transaction that has read `old` too, or that such a transaction will fail to
    /// validate. False means that `old` must go on guarding the part. `new` may have been another
    /// gap before; the gap that absorbed it protects the transactions that have read it.
    fn split(
        &self,
        local: &mut Self::Local,
        old: (Place, &Self::Gap),
        new: (Place, &Self::Gap),
    ) -> bool;

    /// Announces that an entry of a row is going to be removed from a gap, because the row has been
    /// absent, or has had another key, since `stamp`. A transaction that finds the gap empty
    /// afterwards is ordered after `stamp`. Reads of the row that found it absent, or with another
    /// key, must count as reads of the gap from now on.
    fn remove_from_gap(&self, gap: &Self::Gap, state: &Self::State, stamp: u64) {
        let _ = (gap, state, stamp);
    }

    /// Waits for a place that the scheme has refused with [`Conflict::WouldBlock`]. The worker
    /// calls it outside the gate, before it repeats the step; `round` counts up from 0.
    ///
    /// # Errors
    /// The transaction has waited long enough and must abort.
    fn wait(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        place: Place,
        round: u32,
    ) -> Result<(), AbortReason> {
        let _ = (local, states, place);
        M::wait(round);
        Ok(())
    }

    /// Acquires what the transaction needs to validate and store; it has executed all its
    /// operations. If the worker calls it again after a wait, it continues where it was refused.
    ///
    /// # Errors
    /// The scheme does not grant a lock.
    fn prepare(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        let _ = (local, states);
        Ok(())
    }

    /// Checks whether the transaction may commit in this section of the gate. After success it
    /// cannot fail any more, except that a large transaction is validated again in its last section
    /// and perhaps in some before it, since other transactions run in between. The last call counts
    /// (`COMMIT-1`).
    ///
    /// # Errors
    /// The transaction must abort.
    fn validate(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        let _ = (local, states, section);
        Ok(())
    }

    /// Announces that the worker is going to store into a prepared row, and what it replaces. Only
    /// [`Scheme::VERSIONED`] schemes need this.
    fn supersede(
        &self,
        local: &mut Self::Local,
        target: Target<'_, Self::State>,
        before: &BeforeImage,
    ) {
        let _ = (local, target, before);
    }

    /// Ends the transaction, which has committed or has been undone: it unlocks all its places.
    fn end(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>, committed: bool);

    /// After a commit: the stamp of what the transaction has replaced, see [`Scheme::horizon`]. For
    /// schemes that store at commit.
    fn stamp(&self, local: &Self::Local) -> u64 {
        let _ = local;
        0
    }

    /// The low-water mark for garbage collection: no transaction needs what was replaced with this
    /// stamp or a smaller one. `newest` is the newest stamp that the caller asks about.
    fn horizon(&self, local: &mut Self::Local, newest: u64) -> u64 {
        let _ = (local, newest);
        u64::MAX
    }

    /// Marks a restored row as present. No transaction accesses it meanwhile.
    fn adopt(state: &Self::State);

    /// Locks a row for a short time, outside any transaction, so that the worker can remove its
    /// entries. Returns whether the row is there, and the stamp of its newest version; `None` if a
    /// transaction is writing the row.
    fn lock(&self, target: Target<'_, Self::State>) -> Option<(Seen, u64)> {
        let _ = target;
        None
    }

    /// Unlocks a row after [`Scheme::lock`]. `changed` says that the worker has removed entries of
    /// the row, perhaps all of them, after which the slot is used again. A transaction that has
    /// read the row before and writes it must not commit then, since it may rely on an entry that
    /// it found in an index and did not add. If the writers of a scheme own a row from
    /// [`Scheme::write`] to the end, the scheme has nothing to do: the row cannot be locked in
    /// between, and the writer looks for entries and adds them after `write`.
    fn unlock(&self, target: Target<'_, Self::State>, changed: bool) {
        let _ = (target, changed);
    }

    /// Whether the transaction could still commit with what it has read so far. An optimistic
    /// scheme finds inconsistent reads only at the end; before the worker reports an error, it asks
    /// here whether the reads that led to the error were consistent.
    fn is_consistent(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>) -> bool {
        let _ = (local, states);
        true
    }
}
