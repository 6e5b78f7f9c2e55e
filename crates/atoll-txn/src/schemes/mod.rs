//! The schemes, and the one place that knows them by name.
//!
//! Each is a folder of its name with the same files: `mod.rs` has the algorithm, `state.rs` what it
//! keeps beside a row, `local.rs` what it keeps for a transaction. A part of the algorithm that
//! stands by itself, with tests of its own, may have a file more, private to the folder. What
//! several need is in [`common`](crate::common). `xtask check` holds all to that, and their names
//! to their folders.

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

/// Settings of schemes; each takes what it needs.
#[derive(Debug, Clone, Copy)]
pub struct SchemeOptions {
    /// Where timestamps come from.
    pub timestamps: TimestampKind,
    /// A transaction takes a timestamp when it begins even if its scheme can do without, as in the
    /// study: for comparing.
    pub begin_timestamps: bool,
    /// Partitions of a partitioned scheme.
    pub partitions: u32,
    /// Longest wait for a lock where waits are bounded.
    pub lock_timeout_ns: u64,
}

impl Default for SchemeOptions {
    fn default() -> Self {
        // 100 µs is what the study chose ("Staring into the Abyss", section 4.2).
        let lock_timeout_ns = 100_000;
        let timestamps = TimestampKind::default();
        Self { timestamps, begin_timestamps: false, partitions: 1, lock_timeout_ns }
    }
}

/// The list of all schemes, handed to a macro: a variant and its type over a machine.
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

            /// Its name.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $(Kind::$variant => <$($scheme)::+<Native> as Scheme<Native>>::NAME),*
                }
            }

            /// Whether its transactions name the partitions that they touch.
            pub fn is_partitioned(self) -> bool {
                match self.0 {
                    $(Kind::$variant => <$($scheme)::+<Native> as Scheme<Native>>::PARTITIONED),*
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

/// What is to be done with a scheme that is chosen at run time.
pub trait SchemeVisitor<M: Machine> {
    /// What comes of it.
    type Output;

    /// Called with the scheme.
    fn visit<S: Scheme<M>>(self, scheme: S) -> Self::Output;
}

impl SchemeKind {
    /// The names of all of them, one after the other, for people.
    pub fn names() -> String {
        Self::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// Whether the order of its transactions agrees with the clock for timestamps of this kind: one
    /// that has ended comes before one that begins afterwards.
    pub fn is_strict(self, timestamps: TimestampKind) -> bool {
        match self.0 {
            Kind::TicToc => false,
            Kind::Timestamp | Kind::Mvcc => timestamps != TimestampKind::Batched,
            _ => true,
        }
    }
}

impl Default for SchemeKind {
    /// Two-phase locking without waiting: the one that the first version had, which stores in place
    /// and keeps no copies.
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
            let few = Few::<S>::new(3, |state| scheme.adopt(state));
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
                // It is refused or given up, or reads what has been restored, or an older version.
                let again = last == Some(true);
                let is_told = seen.is_ok_and(|seen| seen.is_some());
                assert!(!is_told || again, "{} has read what was rolled back", S::NAME);
                scheme.end(&mut reader, &few, false);
            }
        }
    }

    /// What a transaction does that is rolled back when it has stored.
    fn store_and_restore<S: Scheme<Native>>(
        scheme: &S,
        local: &mut S::Local,
        few: &Few<S>,
        place: Place,
    ) {
        let target = || Target { place, state: few.row(place) };
        assert_eq!(scheme.begin(local, &Start::default()), Ok(()));
        let mut fetch = |_: Option<&BeforeImage>| true;
        scheme.update(local, few, target(), &mut fetch).expect("nobody is in the way");
        assert_eq!(scheme.prepare(local, few), Ok(()));
        let section = Section { epoch: 0, is_part: true };
        assert_eq!(scheme.validate(local, few, section), Ok(()));
        if S::VERSIONED {
            let mut before = BeforeImage::default();
            before.clear(true);
            scheme.supersede(local, target(), &before);
        }
        scheme.end(local, few, false);
    }

    /// `SCHEME-5`: what was stored and restored while somebody read it may have been read.
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
                let few = Few::<S>::new(3, |state| scheme.adopt(state));
                let place = Place::row(TableId(0), 1);
                let target = || Target { place, state: few.row(place) };
                let mut reader = scheme.local(0);
                let start = Start { read_only: true, ..Start::default() };
                assert_eq!(scheme.begin(&mut reader, &start), Ok(()));
                let take = |writer: &mut S::Local| {
                    assert_eq!(scheme.begin(writer, &Start::default()), Ok(()));
                    let taken = scheme.update(writer, &few, target(), &mut |_| true);
                    taken.expect("nobody has it");
                    assert_eq!(scheme.prepare(writer, &few), Ok(()));
                };
                let leave = |writer: &mut S::Local| {
                    if commits {
                        let section = Section { epoch: 0, is_part: false };
                        assert_eq!(scheme.validate(writer, &few, section), Ok(()));
                        if S::VERSIONED {
                            let mut before = BeforeImage::default();
                            before.clear(true);
                            scheme.supersede(writer, target(), &before);
                        }
                    }
                    scheme.end(writer, &few, commits);
                };
                let mut writers = [1, 2].map(|worker| scheme.local(worker));
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

    /// Whether those who have it store or not.
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
