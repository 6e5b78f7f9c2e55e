//! The schemes, and the only list of their names.
//!
//! Each scheme is a folder of its name with the same files: `mod.rs` has the algorithm, `state.rs`
//! the state of a row, `local.rs` the state of a transaction. An independent part of the algorithm
//! may have a further file, private to the folder and with its own tests. Parts that several
//! schemes share are in [`common`](crate::common). `xtask check` enforces this, and that a scheme
//! has the name of its folder.

pub mod adaptive;
pub mod dl_detect;
pub mod hstore;
pub mod mvcc;
pub mod no_wait;
pub mod occ;
pub mod silo;
pub mod tictoc;
pub mod timestamp;
pub mod wait_die;

use std::fmt;
use std::str::FromStr;

use atoll_machine::{Machine, Native};

use crate::common::timestamp::TimestampKind;
use crate::scheme::Scheme;

/// Settings of schemes; each scheme uses those that it needs.
#[derive(Debug, Clone, Copy)]
pub struct SchemeOptions {
    /// Where timestamps come from.
    pub timestamps: TimestampKind,
    /// Whether a transaction takes a timestamp when it begins even if its scheme needs none, as in
    /// the study; for comparisons.
    pub begin_timestamps: bool,
    /// The number of partitions of a partitioned scheme.
    pub partitions: u32,
    /// The longest wait for a lock, for schemes that bound it.
    pub lock_timeout_ns: u64,
}

impl Default for SchemeOptions {
    fn default() -> Self {
        // The study chose 100 µs ("Staring into the Abyss", section 4.2).
        let lock_timeout_ns = 100_000;
        let timestamps = TimestampKind::default();
        Self { timestamps, begin_timestamps: false, partitions: 1, lock_timeout_ns }
    }
}

/// Passes the list of all schemes to a macro: for each, a variant and its type over a machine.
macro_rules! for_all_schemes {
    ($then:ident) => {
        $then! {
            DlDetect => dl_detect::DlDetect,
            NoWait => no_wait::NoWait,
            WaitDie => wait_die::WaitDie,
            Timestamp => timestamp::TimestampOrdering,
            Mvcc => mvcc::Mvcc,
            Occ => occ::Occ,
            HStore => hstore::HStore,
            Silo => silo::Silo,
            TicToc => tictoc::TicToc,
            Adaptive => adaptive::Adaptive,
        }
    };
}

macro_rules! kinds {
    ($($variant:ident => $($scheme:ident)::+,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        enum Kind {
            $($variant),*
        }

        impl SchemeKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self(Kind::$variant)),*];

            /// The scheme's name.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $(Kind::$variant => <$($scheme)::+<Native> as Scheme<Native>>::NAME),*
                }
            }

            /// Whether its transactions name the partitions that they access.
            pub fn is_partitioned(self) -> bool {
                match self.0 {
                    $(Kind::$variant => <$($scheme)::+<Native> as Scheme<Native>>::PARTITIONED),*
                }
            }

            /// Whether its transactions can let go of what they have read and go on, so that it can
            /// give the isolation level READ COMMITTED.
            pub fn releases_reads(self) -> bool {
                match self.0 {
                    $(Kind::$variant => <$($scheme)::+<Native> as Scheme<Native>>::RELEASES_READS),*
                }
            }

            /// Whether a transaction may be ordered before others that have committed before it
            /// reads.
            pub fn orders_by_timestamp(self) -> bool {
                match self.0 {
                    $(Kind::$variant => {
                        <$($scheme)::+<Native> as Scheme<Native>>::ORDERS_BY_TIMESTAMP
                    }),*
                }
            }

            /// Whether no conflict rolls back a transaction that only reads.
            pub fn readers_never_abort(self) -> bool {
                match self.0 {
                    $(Kind::$variant => {
                        <$($scheme)::+<Native> as Scheme<Native>>::READERS_NEVER_ABORT
                    }),*
                }
            }

            /// Calls `visitor` with the scheme.
            pub fn visit<M: Machine, V: SchemeVisitor<M>>(
                self,
                options: &SchemeOptions,
                visitor: V,
            ) -> V::Output {
                match self.0 {
                    $(Kind::$variant => visitor.visit($($scheme)::+::<M>::new(options))),*
                }
            }
        }
    };
}

/// A scheme, by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemeKind(Kind);

for_all_schemes!(kinds);

/// A generic function over schemes, for a scheme that is chosen at run time.
pub trait SchemeVisitor<M: Machine> {
    /// The result.
    type Output;

    /// Called with the scheme.
    fn visit<S: Scheme<M>>(self, scheme: S) -> Self::Output;
}

impl SchemeKind {
    /// The names of all schemes, for messages.
    pub fn names() -> String {
        Self::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// Whether the scheme is strictly serializable with timestamps of this kind: a transaction that
    /// has ended is ordered before one that begins afterwards.
    pub fn is_strict(self, timestamps: TimestampKind) -> bool {
        match self.0 {
            Kind::TicToc => false,
            Kind::Timestamp | Kind::Mvcc => timestamps != TimestampKind::Batched,
            _ => true,
        }
    }
}

impl Default for SchemeKind {
    /// Two-phase locking without waiting: the scheme of the first version of Atoll, which stores in
    /// place and keeps no copies.
    fn default() -> Self {
        Self(Kind::NoWait)
    }
}

impl fmt::Display for SchemeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for SchemeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no scheme has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scheme \"{name}\"; choose one of {all}")]
pub struct UnknownScheme {
    name: String,
    all: String,
}

impl FromStr for SchemeKind {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_uppercase();
        let found = Self::ALL.iter().find(|kind| plain(kind.name()) == plain(name));
        let unknown = || UnknownScheme { name: name.to_owned(), all: Self::names() };
        found.copied().ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use atoll_machine::Native;
    use atoll_storage::TableId;

    use super::{SchemeKind, SchemeOptions, SchemeVisitor};
    use crate::before_image::BeforeImage;
    use crate::common::few;
    use crate::scheme::{Fetch, Place, Scheme, Section, Start, States, Target, Writes};

    type Few<S> = few::Few<<S as Scheme<Native>>::State, <S as Scheme<Native>>::Gap>;

    struct Straddling;

    impl SchemeVisitor<Native> for Straddling {
        type Output = ();

        fn visit<S: Scheme<Native>>(self, scheme: S) {
            if S::WRITES == Writes::InPlace {
                return;
            }
            let few = Few::<S>::new(3, |state| S::adopt(state));
            let place = Place::row(TableId(0), 1);
            let target = || Target { place, state: few.row(place) };
            let (mut reader, mut writer) = (scheme.local(0), scheme.local(1));
            for round in 0..300 {
                assert_eq!(scheme.begin(&mut reader, &Start::default()), Ok(()));
                let mut stored = false;
                let mut last = None;
                let fetch: Fetch<'_> = &mut |_| {
                    last = Some(stored);
                    if !std::mem::replace(&mut stored, true) {
                        store_and_restore(&scheme, &mut writer, &few, place);
                    }
                    true
                };
                let seen = match round % 2 {
                    0 => scheme.read(&mut reader, &few, target(), fetch).map(Some),
                    _ => scheme.read_once(&mut reader, &few, target(), fetch),
                };
                // The scheme refuses the read or gives it up, or it reads the restored value or an
                // older version.
                let again = last == Some(true);
                let is_told = seen.is_ok_and(|seen| seen.is_some());
                assert!(!is_told || again, "{} has read what was rolled back", S::NAME);
                scheme.end(&mut reader, &few, false);
            }
        }
    }

    /// The steps of a transaction that is rolled back after it has stored.
    fn store_and_restore<S: Scheme<Native>>(
        scheme: &S,
        local: &mut S::Local,
        few: &Few<S>,
        place: Place,
    ) {
        let target = || Target { place, state: few.row(place) };
        assert_eq!(scheme.begin(local, &Start::default()), Ok(()));
        let mut fetch = |_: Option<&BeforeImage>| true;
        scheme.update(local, few, target(), &mut fetch).expect("no other transaction holds it");
        assert_eq!(scheme.prepare(local, few), Ok(()));
        let section = Section { cuts: 0, is_part: true };
        assert_eq!(scheme.validate(local, few, section), Ok(()));
        if S::VERSIONED {
            let mut before = BeforeImage::default();
            before.clear(true);
            scheme.supersede(local, target(), &before);
        }
        scheme.end(local, few, false);
    }

    /// `SCHEME-5`: a reader may have read a value that was stored and restored meanwhile.
    #[test]
    fn a_reader_beside_whom_a_row_is_stored_and_restored_reads_again() {
        for kind in SchemeKind::ALL {
            kind.visit::<Native, _>(&SchemeOptions::default(), Straddling);
        }
    }

    struct Besieged;

    impl SchemeVisitor<Native> for Besieged {
        type Output = ();

        fn visit<S: Scheme<Native>>(self, scheme: S) {
            if S::WRITES == Writes::InPlace {
                return;
            }
            for commits in [false, true] {
                let few = Few::<S>::new(3, |state| S::adopt(state));
                let place = Place::row(TableId(0), 1);
                let target = || Target { place, state: few.row(place) };
                let mut reader = scheme.local(0);
                let start = Start { read_only: true, ..Start::default() };
                assert_eq!(scheme.begin(&mut reader, &start), Ok(()));
                let take = |writer: &mut S::Local| {
                    assert_eq!(scheme.begin(writer, &Start::default()), Ok(()));
                    let taken = scheme.update(writer, &few, target(), &mut |_| true);
                    taken.expect("no other transaction holds it");
                    assert_eq!(scheme.prepare(writer, &few), Ok(()));
                };
                let leave = |writer: &mut S::Local| {
                    if commits {
                        let section = Section { cuts: 0, is_part: false };
                        assert_eq!(scheme.validate(writer, &few, section), Ok(()));
                        if S::VERSIONED {
                            let mut before = BeforeImage::default();
                            before.clear(true);
                            scheme.supersede(writer, target(), &before);
                        }
                    }
                    scheme.end(writer, &few, commits);
                };
                let mut writers = [1, 2].map(|number| scheme.local(number));
                take(&mut writers[0]);
                let mut looks = 0;
                let _ = scheme.read(&mut reader, &few, target(), &mut |_| {
                    looks += 1;
                    assert!(looks < 10, "{} would look for ever", S::NAME);
                    leave(&mut writers[0]);
                    take(&mut writers[1]);
                    writers.swap(0, 1);
                    true
                });
                leave(&mut writers[0]);
                scheme.end(&mut reader, &few, false);
            }
        }
    }

    /// Whether the writers store or not.
    #[test]
    fn a_reader_of_a_row_that_goes_from_writer_to_writer_stops_looking() {
        for kind in SchemeKind::ALL {
            kind.visit::<Native, _>(&SchemeOptions::default(), Besieged);
        }
    }

    #[test]
    fn a_scheme_is_found_by_its_name_however_it_is_written() {
        for kind in SchemeKind::ALL {
            let name = kind.name();
            for written in [name.to_owned(), name.to_lowercase(), name.replace('_', "-")] {
                assert_eq!(written.parse(), Ok(*kind));
            }
        }
        let unknown = "nowhere".parse::<SchemeKind>().expect_err("there is none");
        assert!(SchemeKind::ALL.iter().all(|kind| unknown.to_string().contains(kind.name())));
    }
}
