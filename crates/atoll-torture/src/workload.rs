//! The transactions of a torture run: short, and over few rows, so that they conflict.
//!
//! The keys, and the invariants that hold after any set of committed transactions:
//! - *accounts* always exist; transfers keep the sum of their amounts;
//! - *pairs* always exist; a withdrawal from one row of a pair reads both rows, and the sum of the
//!   two amounts never becomes negative (write skew would make it negative);
//! - *twins* always exist; their stamps are written together, without being read, and are always
//!   equal;
//! - *guests* are inserted and deleted. In a wide run there are so many that leaves of the indexes
//!   are split and emptied.
//!
//! In one of eight runs the table is *crowded*: other rows are stored before these, so that all
//! rows together fill a block of slots, which is dense until a guest is deleted.
//!
//! Every row moves between places, which the second index is over. In half of the runs a third,
//! unique index is over names: every row has a name of its own, and a few names move from row to
//! row, so that several transactions compete for the same name.
//!
//! A plan is drawn before it is run and does not depend on what it reads, so it can be retried.

use atoll_storage::DENSE_ROWS;

use atoll_bench::keys::Random;

/// Number of accounts; their keys start at 0.
pub const ACCOUNTS: i64 = 4;
/// End of the keys of pairs, which follow; the rows of a pair are neighbours.
pub const PAIRS_END: i64 = 8;
/// End of the keys of twins, which follow.
pub const TWINS_END: i64 = 10;
/// Places are below this.
pub const PLACES: i64 = 12;
/// Names that move from row to row are below this; the rows' own names follow.
pub const NAMES: i64 = 4;
/// The initial amount of every account and of every row of a pair.
pub const AMOUNT_AT_FIRST: i64 = 2;

/// The rows of a run: its guests, and whether there are others beside the fixed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// End of the keys of guests, which follow those of twins.
    pub keys_end: i64,
    /// Guests from this key on exist initially.
    pub guests_from: i64,
    /// Whether there is an index of names.
    pub named: bool,
    /// All guests exist initially, and so many other rows, which no transaction accesses, are
    /// stored before the first rows that all of them fill a block of slots in the order of their
    /// keys, until a guest is deleted.
    pub crowded: bool,
    /// Most rows that are stored in one section; a larger transaction may be aborted after some of
    /// its rows were stored.
    pub rows_in_section: usize,
}

/// A range of keys or places, both ends included, and the direction of the walk through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// First.
    pub from: i64,
    /// Last.
    pub to: i64,
    /// From the last to the first.
    pub descending: bool,
    /// Most rows that are read.
    pub limit: usize,
}

/// A step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads a row.
    Read(i64),
    /// Changes a row with one lookup.
    Edit(i64),
    /// Reads a row, then changes it.
    ReadAndUpdate(i64),
    /// Locks a row exclusively before it is read, then reads and changes it.
    OwnAndUpdate(i64),
    /// Moves a row to another place.
    Move(i64, i64),
    /// Inserts a row at a place under a name, unless its key exists.
    Insert(i64, i64, i64),
    /// Deletes a row, if it exists.
    Delete(i64),
    /// Deletes a row and inserts it again at a place under a name.
    Replace(i64, i64, i64),
    /// Gives a row another name.
    Rename(i64, i64),
    /// Reads a range of keys.
    ScanKeys(Walk),
    /// Reads a range of places.
    ScanPlaces(Walk),
    /// Reads a range of names.
    ScanNames(Walk),
    /// Reads all rows in the order of their slots.
    ScanHeap,
    /// Moves an amount of 1 from one account to another.
    Transfer(i64, i64),
    /// Subtracts 1 from a row if the sum of its pair is large enough.
    Withdraw(i64),
    /// Adds 1 to a row of a pair, up to a limit.
    Deposit(i64),
    /// Writes the same stamp into both twins, in this order, without reading them.
    Stamp(bool),
    /// Reads both stamps.
    ReadTwins,
    /// Reads all rows by the index of the key, and checks all invariants.
    Audit,
    /// Visits several rows together, and changes some of them.
    Visit([Look; VISITED]),
    /// As [`Step::Visit`], by operations that are known beforehand; a changed row is also moved.
    Apply([Look; VISITED]),
    /// Visits all rows up to this key together, checks all invariants, and may change one row.
    Tour(i64, Look),
    /// Inserts rows from this key on, at this place and the following ones.
    Flood(i64, i64),
    /// Deletes the rows from this key on.
    Purge(i64),
    /// Lets other coroutines run.
    Rest,
}

/// One row of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its key.
    pub key: i64,
    /// Whether the row is changed.
    pub changes: bool,
    /// The place to which it is moved then.
    pub place: Option<i64>,
}

impl Look {
    /// A row that is only read.
    pub fn at(key: i64) -> Self {
        Self { key, changes: false, place: None }
    }
}

/// A transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its steps.
    pub steps: Vec<Step>,
    /// It is declared read-only.
    pub read_only: bool,
    /// It does not wait for other transactions, like a transaction of a lane.
    pub hurried: bool,
    /// It is rolled back at its end.
    pub rolls_back: bool,
}

/// The mix of steps of a run; drawn once, so that runs differ in kind.
#[derive(Debug, Clone, Copy)]
pub struct Flavour {
    /// The rows of the run.
    pub cast: Cast,
    /// Only this many keys are used, counted from the last.
    keys: i64,
    /// Weights of the kinds of steps.
    weights: [u64; KINDS],
    steps_max: u64,
}

const KINDS: usize = 24;
/// Number of rows of [`Step::Visit`] and of [`Step::Apply`].
pub const VISITED: usize = 4;
/// Number of rows that [`Step::Flood`] inserts.
pub const FLOOD: i64 = 10;
/// Number of rows that [`Step::Purge`] deletes.
pub const PURGE: i64 = 16;

fn pick(random: &mut Random, from: i64, end: i64) -> i64 {
    from + random.below((end - from) as u64) as i64
}

impl Flavour {
    /// Draws the mix of a run.
    pub fn draw(random: &mut Random) -> Self {
        let wide = random.below(5) == 0;
        let named = random.below(2) == 0;
        let (guests_from, keys_end) = if wide {
            let guests_from = TWINS_END + 30 + random.below(8) as i64;
            // With the other rows, about as many as a leaf holds.
            (guests_from, guests_from + 44 + random.below(10) as i64)
        } else {
            (TWINS_END + 7, TWINS_END + 12)
        };
        let keys = match random.below(3) {
            _ if wide => keys_end,
            0 => 3,
            1 => 6,
            _ => keys_end,
        };
        let (renames, finds) = if named { (9, 6) } else { (0, 0) };
        let mut weights =
            [9, 8, 6, 3, 4, 7, 6, 3, 6, 6, 5, 7, 3, 3, 3, 2, 6, 2, 0, 0, renames, finds, 4, 3];
        // Some kinds of steps are left out, others are frequent.
        for weight in &mut weights {
            *weight *= [0, 1, 1, 3][random.below(4) as usize];
        }
        weights[random.below(4) as usize] += 3;
        if wide {
            weights[18] = 3;
            weights[19] = 2;
        }
        let steps_max = 2 + random.below(6);
        let crowded = random.below(8) == 0;
        if crowded {
            // Every scan of all rows would read the crowd, and hardly ever commit.
            weights[22] = 0;
        }
        let guests_from = if crowded { TWINS_END } else { guests_from };
        let rows_in_section = [1, 2, 3, usize::MAX][random.below(4) as usize];
        let cast = Cast { keys_end, guests_from, named, crowded, rows_in_section };
        Self { cast, keys, weights, steps_max }
    }

    /// Draws a transaction.
    pub fn plan(&self, random: &mut Random) -> Plan {
        let read_only = random.below(8) == 0;
        let count = 1 + random.below(self.steps_max);
        let mut steps = Vec::new();
        for _ in 0..count {
            if random.below(6) == 0 {
                steps.push(Step::Rest);
            }
            let step = self.step(random);
            if read_only && step.writes() {
                let key = self.key(random);
                steps.push(if random.below(4) == 0 { Step::Audit } else { Step::Read(key) });
            } else {
                steps.push(step);
            }
        }
        let hurried = random.below(4) == 0;
        Plan { steps, read_only, hurried, rolls_back: random.below(12) == 0 }
    }

    fn key(&self, random: &mut Random) -> i64 {
        // Counted from the last key, so that guests, which are inserted and deleted, come first.
        self.cast.keys_end - 1 - pick(random, 0, self.keys)
    }

    fn guest(&self, random: &mut Random) -> i64 {
        self.key(random).max(TWINS_END + random.below(3) as i64)
    }

    fn walk(&self, random: &mut Random, end: i64) -> Walk {
        let from = pick(random, 0, end);
        let to = from + random.below(6) as i64;
        let limit = if random.below(4) == 0 { 1 + random.below(3) as usize } else { usize::MAX };
        Walk { from, to, descending: random.below(2) == 0, limit }
    }

    /// Draws a name for a row: often one for which other rows compete.
    fn name(&self, random: &mut Random, key: i64) -> i64 {
        if self.cast.named && random.below(3) > 0 { pick(random, 0, NAMES) } else { own_name(key) }
    }

    fn look(&self, random: &mut Random) -> Look {
        let changes = random.below(2) == 0;
        let place = (changes && random.below(3) == 0).then(|| pick(random, 0, PLACES));
        Look { key: self.key(random), changes, place }
    }

    fn operation(&self, random: &mut Random) -> Look {
        let place = (random.below(2) == 0).then(|| pick(random, 0, PLACES));
        Look { key: self.key(random), changes: place.is_some(), place }
    }

    fn step(&self, random: &mut Random) -> Step {
        let mut at = random.below(self.weights.iter().sum());
        let kind = self.weights.iter().position(|weight| match at.checked_sub(*weight) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        let key = self.key(random);
        let place = pick(random, 0, PLACES);
        match kind.unwrap_or(0) {
            0 => Step::Read(key),
            1 => Step::Edit(key),
            2 => Step::ReadAndUpdate(key),
            3 => Step::OwnAndUpdate(key),
            4 => Step::Move(key, place),
            5 => {
                let guest = self.guest(random);
                Step::Insert(guest, place, self.name(random, guest))
            }
            6 => Step::Delete(self.guest(random)),
            7 => {
                let guest = self.guest(random);
                Step::Replace(guest, place, self.name(random, guest))
            }
            8 => Step::ScanKeys(self.walk(random, self.cast.keys_end + 2)),
            9 => Step::ScanPlaces(self.walk(random, PLACES + 1)),
            10 => {
                let from = pick(random, 0, ACCOUNTS);
                Step::Transfer(from, (from + pick(random, 1, ACCOUNTS)) % ACCOUNTS)
            }
            11 => Step::Withdraw(pick(random, ACCOUNTS, PAIRS_END)),
            12 => Step::Deposit(pick(random, ACCOUNTS, PAIRS_END)),
            13 => Step::Stamp(random.below(2) == 0),
            14 => Step::ReadTwins,
            15 => Step::Audit,
            16 => Step::Visit(std::array::from_fn(|_| self.look(random))),
            17 => Step::Tour(self.cast.keys_end, self.look(random)),
            18 => Step::Flood(self.guest(random), place),
            19 => Step::Purge(self.guest(random)),
            20 => Step::Rename(key, self.name(random, key)),
            21 => Step::ScanNames(self.walk(random, NAMES + 2)),
            22 => Step::ScanHeap,
            _ => Step::Apply(std::array::from_fn(|_| self.operation(random))),
        }
    }
}

impl Step {
    /// Whether the step may write.
    pub fn writes(self) -> bool {
        use Step::*;
        match self {
            Visit(looks) | Apply(looks) => looks.iter().any(|look| look.changes),
            Tour(_, look) => look.changes,
            Read(_) | ScanKeys(_) | ScanPlaces(_) | ScanNames(_) | ScanHeap | ReadTwins | Audit
            | Rest => false,
            _ => true,
        }
    }

    /// Whether the step may set a name, which any other row might have.
    pub fn names(self) -> bool {
        matches!(self, Self::Insert(..) | Self::Replace(..) | Self::Rename(..) | Self::Flood(..))
    }

    /// The keys that the step accesses; `None`: any.
    pub fn keys(self) -> Option<Vec<i64>> {
        Some(match self {
            Self::Read(key)
            | Self::Edit(key)
            | Self::ReadAndUpdate(key)
            | Self::OwnAndUpdate(key)
            | Self::Move(key, _)
            | Self::Insert(key, _, _)
            | Self::Delete(key)
            | Self::Replace(key, _, _)
            | Self::Rename(key, _) => vec![key],
            Self::Visit(looks) | Self::Apply(looks) => looks.iter().map(|look| look.key).collect(),
            Self::Flood(key, _) => (key..key + FLOOD).collect(),
            Self::Purge(key) => (key..key + PURGE).collect(),
            Self::Transfer(from, to) => vec![from, to],
            Self::Withdraw(key) | Self::Deposit(key) => vec![key, pair_of(key)],
            Self::Stamp(_) | Self::ReadTwins => (PAIRS_END..TWINS_END).collect(),
            Self::ScanKeys(_) | Self::ScanPlaces(_) | Self::ScanNames(_) | Self::ScanHeap => {
                return None;
            }
            Self::Audit | Self::Tour(..) => return None,
            Self::Rest => Vec::new(),
        })
    }
}

/// A row's own name.
pub fn own_name(key: i64) -> i64 {
    NAMES + key
}

/// The other row of a pair.
pub fn pair_of(key: i64) -> i64 {
    key ^ 1
}

impl Cast {
    /// The keys that exist initially.
    pub fn at_first(&self) -> impl Iterator<Item = i64> + use<> {
        (0..TWINS_END).chain(self.guests_from..self.keys_end)
    }

    /// The keys of the crowd; empty if the table is not crowded.
    pub fn crowd(&self) -> std::ops::Range<i64> {
        let others = if self.crowded { DENSE_ROWS as i64 - self.keys_end } else { 0 };
        -others..0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::mem::discriminant;

    use super::*;

    #[test]
    fn all_kinds_of_steps_come_up_within_their_keys_and_a_seed_repeats() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let flavour = Flavour::draw(&mut random);
            (0..40).map(|_| flavour.plan(&mut random)).collect::<Vec<_>>()
        };
        let mut kinds = Vec::new();
        let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..50 {
            assert_eq!(draw(seed), draw(seed));
            let cast = Flavour::draw(&mut Random::new(seed)).cast;
            for plan in draw(seed) {
                assert!(!plan.read_only || plan.steps.iter().all(|step| !step.writes()));
                for step in plan.steps {
                    if !kinds.contains(&discriminant(&step)) {
                        kinds.push(discriminant(&step));
                    }
                    keys.extend(step.keys().unwrap_or_default());
                    if let Step::Insert(key, ..) | Step::Delete(key) | Step::Replace(key, ..) = step
                    {
                        assert!((TWINS_END..cast.keys_end).contains(&key), "{step:?}");
                    }
                    if let Step::Insert(key, _, name) | Step::Rename(key, name) = step {
                        assert!(name == own_name(key) || cast.named && name < NAMES, "{step:?}");
                        names.insert(name);
                    }
                }
            }
        }
        assert_eq!(kinds.len(), KINDS + 1);
        assert!((0..80).all(|key| keys.contains(&key)));
        assert!((0..NAMES).all(|name| names.contains(&name)));
        assert_eq!([pair_of(4), pair_of(5), pair_of(6), pair_of(7)], [5, 4, 7, 6]);
    }
}
