//! Random transactions.

use std::ops::RangeInclusive;

/// Keys of the rows are below.
pub const KEYS: i32 = 12;
/// Places of the rows in the secondary index are below.
pub const PLACES: i32 = 6;
/// Most keys of a range.
const SPAN: i32 = 5;
/// Most statements of a transaction.
const STATEMENTS_MAX: u64 = 6;

/// A range of keys or places.
pub type Span = RangeInclusive<i32>;

/// A statement on rows.
#[derive(Debug, Clone)]
pub enum Statement {
    Read(i32),
    ReadForUpdate(i32),
    ScanKeys(Span),
    ScanPlaces(Span),
    ScanAll,
    Insert(i32, i32),
    /// Several rows, of which one may be there already: then none is inserted.
    InsertMany(Vec<i32>, i32),
    Upsert(i32, i32),
    Update(i32),
    Move(i32, i32),
    UpdateKeys(Span),
    UpdatePlaces(Span),
    /// Fails at the row with the key, if it is there.
    FailAt(Span, i32),
    Delete(i32),
    DeleteKeys(Span),
    Count(Span),
}

/// A step of a transaction.
#[derive(Debug, Clone)]
pub enum Step {
    Do(Statement),
    Savepoint,
    /// To one of the savepoints that are set, if there is any.
    RollBackTo(usize),
    Release(usize),
}

/// A transaction, or a statement by itself.
#[derive(Debug, Clone)]
pub enum Plan {
    Alone(Statement),
    Transaction { level: &'static str, read_only: bool, steps: Vec<Step>, commits: bool },
}

/// A small generator (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }

    fn key(&mut self) -> i32 {
        self.below(KEYS as u64) as i32
    }

    fn place(&mut self) -> i32 {
        self.below(PLACES as u64) as i32
    }

    fn keys(&mut self) -> Span {
        let from = self.key();
        from..=from + self.below(SPAN as u64) as i32
    }

    fn places(&mut self) -> Span {
        let from = self.place();
        from..=from + self.below(2) as i32
    }

    fn reading(&mut self) -> Statement {
        match self.below(8) {
            0..=2 => Statement::Read(self.key()),
            3 | 4 => Statement::ScanKeys(self.keys()),
            5 | 6 => Statement::ScanPlaces(self.places()),
            _ => Statement::ScanAll,
        }
    }

    fn statement(&mut self) -> Statement {
        match self.below(30) {
            0..=9 => self.reading(),
            10 | 11 => Statement::ReadForUpdate(self.key()),
            12 | 13 => Statement::Insert(self.key(), self.place()),
            14 => {
                let first = self.key();
                let keys = [0, 5, 7].map(|step| (first + step) % KEYS);
                Statement::InsertMany(keys.to_vec(), self.place())
            }
            15 | 16 => Statement::Upsert(self.key(), self.place()),
            17..=19 => Statement::Update(self.key()),
            20 => Statement::Move(self.key(), self.place()),
            21 | 22 => Statement::UpdateKeys(self.keys()),
            23 => Statement::UpdatePlaces(self.places()),
            24 => {
                let keys = self.keys();
                let at = keys.start() + self.below(SPAN as u64) as i32;
                Statement::FailAt(keys, at)
            }
            25 | 26 => Statement::Delete(self.key()),
            27 => Statement::DeleteKeys(self.keys()),
            _ => Statement::Count(self.keys()),
        }
    }

    pub fn plan(&mut self) -> Plan {
        if self.below(4) == 0 {
            return Plan::Alone(self.statement());
        }
        let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
        let level = levels[self.below(3) as usize];
        let read_only = self.below(8) == 0;
        let count = 1 + self.below(STATEMENTS_MAX);
        let mut steps = Vec::new();
        for _ in 0..count {
            if read_only {
                steps.push(Step::Do(self.reading()));
                continue;
            }
            steps.push(match self.below(8) {
                0 => Step::Savepoint,
                1 => Step::RollBackTo(self.below(3) as usize),
                2 if self.below(2) == 0 => Step::Release(self.below(3) as usize),
                _ => Step::Do(self.statement()),
            });
        }
        Plan::Transaction { level, read_only, steps, commits: self.below(8) > 0 }
    }
}
