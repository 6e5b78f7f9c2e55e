//! What a concurrency-control scheme is to the rest of the engine.
//!
//! A scheme decides who may read and write a row, and when a transaction may commit. It knows rows
//! only as [`Place`]s with a state of its own beside each; it never sees a value, a segment or a
//! file. The engine calls it in the order of a transaction's life (see [`crate::engine`]) and does
//! all that is physical.

use atoll_machine::Machine;
use atoll_storage::TableId;

/// Something that a scheme guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The table.
    pub table: TableId,
    /// A row of it, or a stripe of its keys.
    pub what: Guarded,
}

/// What a [`Place`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guarded {
    /// A row, by its id.
    Row(u64),
    /// The keys that hash to this stripe: read by who finds that a key is absent, written by who
    /// makes it present. It is what keeps absent keys absent (no phantoms).
    Keys(u32),
}

/// Why a transaction had to stop. A normal outcome: it can be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AbortReason {
    /// Another transaction holds what this one asked for.
    Conflict,
    /// The caller rolled it back.
    Requested,
    /// It had been rolled back before, after an error or an abort, and was used again.
    Finished,
}

impl AbortReason {
    /// All reasons, in the order of [`AbortReason::index`].
    pub const ALL: [Self; 3] = [Self::Conflict, Self::Requested, Self::Finished];

    /// Position in counters.
    pub const fn index(self) -> usize {
        match self {
            Self::Conflict => 0,
            Self::Requested => 1,
            Self::Finished => 2,
        }
    }
}

impl std::fmt::Display for AbortReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Conflict => "another transaction holds a row that this one needs",
            Self::Requested => "it was rolled back",
            Self::Finished => "it was rolled back before",
        })
    }
}

/// Gives a scheme its states.
pub trait States<R> {
    /// The state of a place; the place comes from the engine that made this.
    fn state(&self, place: Place) -> &R;
}

/// A concurrency-control scheme. All calls of one transaction come from one thread.
pub trait Scheme<M: Machine>: Send + Sync + 'static {
    /// Name by which it is chosen and reported.
    const NAME: &'static str;
    /// What it keeps beside each row and stripe. The default state belongs to a place that nobody
    /// has touched.
    type State: Default + Send + Sync + 'static;
    /// What it keeps for a transaction; used again for the worker's next one.
    type Local: Default + Send + 'static;

    /// A transaction begins.
    fn begin(&self, local: &mut Self::Local);

    /// The transaction is going to read a place.
    ///
    /// # Errors
    /// The transaction must abort.
    fn read(
        &self,
        local: &mut Self::Local,
        states: &impl States<Self::State>,
        place: Place,
    ) -> Result<(), AbortReason>;

    /// The transaction is going to write a place. Writing in place, it owns it alone from now on.
    ///
    /// # Errors
    /// The transaction must abort.
    fn write(
        &self,
        local: &mut Self::Local,
        states: &impl States<Self::State>,
        place: Place,
    ) -> Result<(), AbortReason>;

    /// Everything is done; may it commit?
    ///
    /// # Errors
    /// The transaction must abort.
    fn validate(
        &self,
        local: &mut Self::Local,
        states: &impl States<Self::State>,
    ) -> Result<(), AbortReason>;

    /// The transaction has committed, or has been undone: others may see its places.
    fn end(&self, local: &mut Self::Local, states: &impl States<Self::State>);
}
