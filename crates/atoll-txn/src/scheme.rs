//! What a concurrency-control scheme is to the rest of the engine.
//!
//! A scheme decides who may read and write a row, and when a transaction may commit. It knows rows
//! only as [`Place`]s with a state of its own beside each; it never sees a value, a segment or a
//! file. The engine calls it in the order of a transaction's life (see [`crate::engine`]) and does
//! all that is physical.
//!
//! What a scheme promises
//! - `SCHEME-1`: it never waits inside a call. What cannot be had now is refused with
//!   [`Conflict::WouldBlock`]; the worker leaves the gate, calls [`Scheme::wait`], and asks again.
//! - `SCHEME-2`: between [`Scheme::write`] and [`Scheme::end`] (in place), or between
//!   [`Scheme::prepare`] and [`Scheme::end`] (at commit), nobody else stores into the row.
//! - `SCHEME-3`: after [`Scheme::read_gap`] of a gap, a transaction that adds an entry there is
//!   refused by [`Scheme::insert_into_gap`], or is ordered after the watcher, or makes the
//!   watcher's validation fail. Watching comes before looking and adding before disturbing, and the
//!   engine puts a fence between the two (a latched leaf of an ordered index is one), so one of the
//!   two sees the other.
//! - `SCHEME-4`: a transaction that commits in a later epoch than another is ordered after it, so
//!   that a snapshot, which is a cut between epochs, has a place in the serial order.
//! - `SCHEME-5`: who reads a row without holding it looks at its state before and after, and a row
//!   that may have been stored into is left in another state than it was found in, by a rollback,
//!   too: the reader may have slept over both the storing and the restoring.

use atoll_machine::Machine;

use crate::before_image::BeforeImage;

pub use crate::place::{Guarded, Place};

/// A section of the gate in which a transaction is validated, and stores if it does so at commit.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The epoch in which it is.
    pub epoch: u64,
    /// Whether it is one of several, because the write set is large: see
    /// [`EngineOptions::rows_in_section`](crate::EngineOptions::rows_in_section).
    pub is_part: bool,
}

/// Why a transaction had to stop. A normal outcome: it can be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AbortReason {
    /// Another transaction holds what this one asked for.
    Denied,
    /// An older transaction holds what this one asked for, and the younger one gives way.
    TooYoung,
    /// It was part of a deadlock.
    Deadlock,
    /// It waited for too long.
    Timeout,
    /// Its timestamp is too old: what it asked for has been read or written by a later one.
    TooLate,
    /// Something that it read has changed since.
    Changed,
    /// A snapshot was taken while it was open, and it would have to be ordered before it.
    Cut,
    /// The caller rolled it back.
    Requested,
    /// It had been rolled back before, after an error or an abort, and was used again.
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

    /// Position in counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in reports.
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

    /// Whether other transactions are the reason, so that trying again may help.
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

/// Why a scheme does not grant something.
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

/// Gives a scheme its states by place; the place comes from the engine that made this.
pub trait States<R, G> {
    /// The state of a row.
    fn row(&self, place: Place) -> &R;
    /// The state of a gap.
    fn gap(&self, place: Place) -> &G;
    /// What finds the states of rows one after the other, most of them of the same table.
    #[inline]
    fn rows<'s>(&'s self) -> impl FnMut(Place) -> &'s R
    where
        R: 's,
    {
        |place| self.row(place)
    }
}

/// When a scheme's transactions store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// At once, with an undo entry; nobody else sees the row until the end.
    InPlace,
    /// After validation, from a write set.
    AtCommit,
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start<'p> {
    /// The partitions that it will touch, ascending; empty means all.
    pub partitions: &'p [u32],
    /// It will not write.
    pub read_only: bool,
    /// The epoch of the gate, read before the transaction takes a timestamp.
    pub epoch: u64,
}

/// What a scheme found when it granted a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The row was read.
    Present,
    /// There is no such row for this transaction.
    Absent,
}

/// A row on its way through a scheme.
pub struct Target<'s, R> {
    /// Which it is.
    pub place: Place,
    /// Its state.
    pub state: &'s R,
}

/// What reads a row: returns false when the row is not there. It may be called several times, and
/// what it read counts only when the scheme says so. With an image, the version to be read is an
/// older one: columns of the image stand in for those of the row.
pub type Fetch<'f> = &'f mut dyn FnMut(Option<&BeforeImage>) -> bool;

/// As [`Fetch`], for who is asked once and is known where it is called, so that it can become part
/// of the scheme's code: a closure that may be called in several places would not.
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

/// Which states a scheme finds by place.
pub trait StatesOf<S: Scheme<M> + ?Sized, M: Machine>: States<S::State, S::Gap> {}
impl<S: Scheme<M> + ?Sized, M: Machine, T: States<S::State, S::Gap>> StatesOf<S, M> for T {}

/// A concurrency-control scheme. All calls of one transaction come from one thread.
pub trait Scheme<M: Machine>: Send + Sync + 'static {
    /// Name by which it is chosen and reported.
    const NAME: &'static str;
    /// When its transactions store.
    const WRITES: Writes;
    /// Whether transactions are told apart by the partitions that they touch, and by nothing else:
    /// nothing is kept of a row, and who has its partition may do with it as he likes (`ROWS-2`).
    const PARTITIONED: bool = false;
    /// Whether readers may ask for older versions, so that replaced values must be kept.
    const VERSIONED: bool = false;
    /// Whether read-only transactions never abort: what they wait for is that somebody has stored,
    /// who waits for nobody meanwhile.
    const READERS_NEVER_ABORT: bool = false;
    /// Whether finding a row absent must be told of its gap as well, because the row does not know
    /// of rows with the same key that were there before it.
    const READS_GAP_OF_ABSENT: bool = false;
    /// What it keeps beside each row. The default state belongs to a row that nobody has touched;
    /// such a row is absent.
    type State: Default + Send + Sync + 'static;
    /// What it keeps for each gap.
    type Gap: Default + Send + Sync + 'static;
    /// What it keeps for a transaction; used again for the worker's next one.
    type Local: Send + 'static;

    /// What the worker with this number keeps.
    fn local(&self, worker: u32) -> Self::Local;

    /// A transaction begins.
    ///
    /// # Errors
    /// Only [`Conflict::WouldBlock`] makes sense here.
    fn begin(&self, local: &mut Self::Local, start: &Start<'_>) -> Result<(), Conflict>;

    /// Reads a row with `fetch`.
    ///
    /// # Errors
    /// It is not granted.
    fn read(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict>;

    /// As [`Scheme::read`], but if the row changes meanwhile it may give up: `None`, and nothing
    /// has been granted.
    ///
    /// # Errors
    /// It is not granted.
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

    /// The transaction is going to write a row; afterwards the row is there or not. In place, it
    /// owns the row alone from now on.
    ///
    /// # Errors
    /// It is not granted.
    fn write(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        target: Target<'_, Self::State>,
        present: bool,
    ) -> Result<(), Conflict>;

    /// As [`Scheme::read`] and, if the row is there, [`Scheme::write`], after which it is there,
    /// too. Only for rows that the transaction has not written yet.
    ///
    /// # Errors
    /// It is not granted.
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

    /// The transaction is going to look whether there is anything in a gap (`SCHEME-3`).
    ///
    /// # Errors
    /// It is not granted.
    fn read_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Self::Gap,
    ) -> Result<(), Conflict>;

    /// The transaction has added an entry to a gap (`SCHEME-3`).
    ///
    /// # Errors
    /// It is not granted; asked again, the entry is still there.
    fn insert_into_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Self::Gap,
    ) -> Result<(), Conflict>;

    /// A part of a gap is going to be guarded by `new` instead of `old`. True if that is fine:
    /// whoever has watched `old` is protected by `new` as well, or will find out. False if the part
    /// must keep `old`. `new` may have been another gap before: who has watched that, or still
    /// does, stays protected by whatever gap it became a part of.
    fn split(
        &self,
        local: &mut Self::Local,
        old: (Place, &Self::Gap),
        new: (Place, &Self::Gap),
    ) -> bool;

    /// An entry of a row is going to disappear from a gap, because the row has been absent, or had
    /// another key, since `stamp`: whoever finds nothing there afterwards is ordered after that,
    /// and what is known of who has read the row, and found that, must be known of the gap from now
    /// on.
    fn remove_from_gap(&self, gap: &Self::Gap, state: &Self::State, stamp: u64) {
        let _ = (gap, state, stamp);
    }

    /// Called while something is refused with [`Conflict::WouldBlock`], outside the gate; `round`
    /// counts up from 0.
    ///
    /// # Errors
    /// It has waited enough and must abort.
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

    /// Everything is done: takes what is needed to store and validate. Asked again after a wait, it
    /// goes on where it was.
    ///
    /// # Errors
    /// It is not granted.
    fn prepare(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        let _ = (local, states);
        Ok(())
    }

    /// May the transaction commit in this section of the gate? Afterwards it cannot be refused,
    /// unless validated again: a large one is validated in each of its sections, and others come in
    /// between.
    ///
    /// # Errors
    /// It must abort.
    fn validate(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        section: Section,
    ) -> Result<(), AbortReason> {
        let _ = (local, states, section);
        Ok(())
    }

    /// A prepared row is going to be stored; `before` is what is replaced. For schemes that are
    /// [`Scheme::VERSIONED`].
    fn supersede(
        &self,
        local: &mut Self::Local,
        target: Target<'_, Self::State>,
        before: &BeforeImage,
    ) {
        let _ = (local, target, before);
    }

    /// The transaction has committed, or has been undone: others may see its places.
    fn end(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>, committed: bool);

    /// After a commit: from which stamp on nobody can need what it replaced, see
    /// [`Scheme::horizon`]. For schemes that write at commit.
    fn stamp(&self, local: &Self::Local) -> u64 {
        let _ = local;
        0
    }

    /// What was replaced with this stamp or a smaller one is needed by nobody any more. `newest` is
    /// the newest stamp that is asked about.
    fn horizon(&self, local: &mut Self::Local, newest: u64) -> u64 {
        let _ = (local, newest);
        u64::MAX
    }

    /// The row was there before anything else: it was restored. Nobody else touches it.
    fn adopt(&self, state: &Self::State);

    /// Takes a row that nobody is writing for a moment, outside any transaction, so that its
    /// entries can be removed; says whether it is there, and since which stamp. `None` when
    /// somebody is writing it.
    fn lock(&self, target: Target<'_, Self::State>) -> Option<(Seen, u64)> {
        let _ = target;
        None
    }

    /// Lets go of a row that was held. If `changed`, entries of it are gone, perhaps all of them
    /// and the slot will be used again. Whoever writes the row and has read it before must not
    /// commit then, since it may rely on an entry that it found in an index and did not add. Where
    /// a row is its writer's from [`Scheme::write`] to the end, there is nothing to be done: it
    /// cannot be held in between, and entries are looked for and added after that.
    fn unlock(&self, target: Target<'_, Self::State>, changed: bool) {
        let _ = (target, changed);
    }

    /// Whether what the transaction has read so far can still be part of one that commits. A scheme
    /// that finds out at the end says here whether an error that the transaction ran into means
    /// anything.
    fn is_consistent(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>) -> bool {
        let _ = (local, states);
        true
    }
}
