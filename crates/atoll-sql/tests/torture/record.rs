//! The record of a transaction, for the checker of histories.
//!
//! A transaction above READ COMMITTED is one transaction of the history. One at READ COMMITTED is
//! several: its changes together, which become visible together, and each of its queries by itself,
//! which shows what was committed at one moment, and what the transaction has changed.

use std::collections::BTreeMap;

use atoll_txn::history::{End, Item, Left, Op, Over, Recorder, Transaction, Version};

use super::plan::{KEYS, Span};

/// What a query or a change has found: keys and versions.
pub type Found = Vec<(i32, Version)>;

/// See the module.
pub struct Record<'r> {
    recorder: &'r Recorder,
    now: Transaction,
    reads_committed: bool,
    /// How often it has counted each key.
    counted: BTreeMap<i32, i64>,
    /// What there was when each savepoint was set.
    savepoints: Vec<(usize, BTreeMap<i32, i64>)>,
    /// A moment before the running statement.
    began: u64,
    /// The first fault that it has seen by itself.
    fault: Option<String>,
}

pub fn item(key: i32) -> Item {
    Item::row(key.into())
}

impl<'r> Record<'r> {
    pub fn begin(recorder: &'r Recorder, thread: u32, reads_committed: bool) -> Self {
        Self {
            recorder,
            now: recorder.begin(thread),
            reads_committed,
            counted: BTreeMap::new(),
            savepoints: Vec::new(),
            began: 0,
            fault: None,
        }
    }

    /// A number that no other statement has. Its rows have it, times [`VERSIONS`], plus their keys.
    pub fn statement(&mut self) -> u64 {
        self.began = self.recorder.moment();
        self.recorder.version() * VERSIONS
    }

    pub fn end(self, end: End) -> Result<BTreeMap<i32, i64>, String> {
        self.recorder.end(self.now, end);
        match self.fault {
            Some(fault) => Err(fault),
            None if end == End::Committed => Ok(self.counted),
            None => Ok(BTreeMap::new()),
        }
    }

    pub fn savepoint(&mut self) {
        self.savepoints.push((self.now.ops.len(), self.counted.clone()));
    }

    pub fn savepoints(&self) -> usize {
        self.savepoints.len()
    }

    pub fn release(&mut self, savepoint: usize) {
        self.savepoints.truncate(savepoint);
    }

    /// Forgets what was changed since a savepoint. What was read of others stays read, above READ
    /// COMMITTED.
    pub fn roll_back_to(&mut self, savepoint: usize) {
        self.savepoints.truncate(savepoint + 1);
        let (ops, counted) = self.savepoints[savepoint].clone();
        self.counted = counted;
        let undone = self.now.ops.split_off(ops);
        if self.reads_committed {
            return;
        }
        let mut changed: Vec<Item> = Vec::new();
        let mut keep = Vec::new();
        for op in undone {
            let is_own = |item: &Item| changed.contains(item);
            match op {
                Op::Read { item, .. } | Op::Exists { item } if is_own(&item) => {}
                Op::Read { .. } | Op::Exists { .. } => keep.push(op),
                Op::Scan { .. } if changed.is_empty() => keep.push(op),
                Op::Scan { saw, .. } => {
                    let of_others = saw.into_iter().filter(|(item, _)| !is_own(item));
                    keep.extend(of_others.map(|(item, saw)| Op::Read { item, saw: Some(saw) }));
                }
                Op::Write { item, before, .. } => {
                    if !is_own(&item) {
                        keep.push(Op::Read { item, saw: before });
                        changed.push(item);
                    }
                }
            }
        }
        // What it had changed before the savepoint it saw as it had left it.
        keep.retain(|op| match op {
            Op::Read { item, .. } | Op::Exists { item } => self.now.own(*item).is_none(),
            _ => true,
        });
        self.now.ops.extend(keep);
    }

    pub fn count(&mut self, keys: &[i32]) {
        keys.iter().for_each(|key| *self.counted.entry(*key).or_default() += 1);
    }

    pub fn wrote(&mut self, key: i32, before: Option<Version>, after: Option<Left>) {
        self.now.wrote(item(key), before, after);
    }

    pub fn exists(&mut self, key: i32) {
        self.query(vec![Op::Exists { item: item(key) }]);
    }

    pub fn read(&mut self, key: i32, saw: Option<Version>) {
        self.query(vec![Op::Read { item: item(key), saw }]);
    }

    /// A row that the transaction holds from now on.
    pub fn locked(&mut self, key: i32, saw: Option<Version>) {
        match saw {
            Some(_) => self.now.read(item(key), saw),
            None => self.read(key, saw),
        }
    }

    pub fn scanned(&mut self, over: Over, span: &Span, found: &Found) {
        let saw = found.iter().map(|(key, version)| (item(*key), *version)).collect();
        let (from, to) = (i64::from(*span.start()), i64::from(*span.end()));
        self.query(vec![Op::Scan { over, from, to, saw }]);
    }

    /// The range of a change: at READ COMMITTED the rows are looked at again one by one.
    pub fn range(&mut self, over: Over, span: &Span, found: &Found) {
        if !self.reads_committed {
            self.scanned(over, span, found);
        }
    }

    fn query(&mut self, ops: Vec<Op>) {
        if !self.reads_committed {
            return self.now.ops.extend(ops);
        }
        let mut of_others = Vec::new();
        for op in ops {
            match op {
                Op::Read { item, saw } => self.of_other(item, saw, &mut of_others),
                Op::Scan { over: Over::Key, from, to, ref saw } if self.has_changed() => {
                    let keys = (0..KEYS).map(item);
                    for item in keys.filter(|item| (from..=to).contains(&item.key)) {
                        let found = saw.iter().find(|(found, _)| *found == item);
                        self.of_other(item, found.map(|(_, saw)| *saw), &mut of_others);
                    }
                }
                Op::Scan { from, to, saw, .. } if self.has_changed() => {
                    for item in (0..KEYS).map(item) {
                        let found = saw.iter().find(|(found, _)| *found == item);
                        match self.now.own(item) {
                            Some(Some(left)) if !(from..=to).contains(&left.place) => {
                                self.own(item, None, found.map(|(_, saw)| *saw));
                            }
                            None if found.is_none() => {}
                            _ => self.of_other(item, found.map(|(_, saw)| *saw), &mut of_others),
                        }
                    }
                }
                Op::Exists { item } if self.now.own(item).is_some() => {}
                other => of_others.push(other),
            }
        }
        let mut query = self.recorder.begin(self.now.thread);
        (query.began, query.ops) = (self.began, of_others);
        self.recorder.end(query, End::Committed);
    }

    fn has_changed(&self) -> bool {
        self.now.ops.iter().any(|op| matches!(op, Op::Write { .. }))
    }

    /// A state that a query has seen: of the transaction itself, or of others.
    fn of_other(&mut self, item: Item, saw: Option<Version>, others: &mut Vec<Op>) {
        match self.now.own(item) {
            Some(left) => self.own(item, left.map(|left| left.version), saw),
            None => others.push(Op::Read { item, saw }),
        }
    }

    fn own(&mut self, item: Item, left: Option<Version>, saw: Option<Version>) {
        if left != saw && self.fault.is_none() {
            self.fault = Some(format!("a transaction left {item} as {left:?} and saw {saw:?}"));
        }
    }
}

/// Versions of one statement.
pub const VERSIONS: u64 = 64;
