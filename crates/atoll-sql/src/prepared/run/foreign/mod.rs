//! How a statement keeps foreign keys.
//!
//! 1. Before rows are stored their parents are searched for, and held. So a transaction that
//!    removes a parent at the same time waits, and does not find rows that will be rolled back. A
//!    row without its parent is checked again at the end of the statement, which may store it.
//! 2. A row that goes, or gets other values, is noted if others may refer to it.
//! 3. At the end of the statement what was noted is worked off in its order: checks, and actions,
//!    which note more (`actions.rs`). So a row that one action removes does not stand in the way of
//!    a parent that another has removed before.

mod actions;
mod load;

pub(crate) use self::load::{Loading, Part};

use std::collections::{HashMap, HashSet, VecDeque};

use atoll::{Table, Transaction, TxnResult, Value};

use crate::foreign::deferred::{Check, Modes};
use crate::foreign::find::Hold;
use crate::prepared::change::{Concerned, Foreign};
use crate::short::run::Stop;
use crate::short::value::{GroupKey, compare};

/// Most parents that are remembered: those of a small table need not be searched for again.
const KNOWN_MAX: usize = 16_384;

/// See the module.
pub(crate) struct Keeper<'f> {
    foreign: &'f Foreign,
    modes: Modes,
    hold: Hold,
    noted: VecDeque<Noted<'f>>,
    /// Checks for the end of the transaction.
    pub(super) later: Vec<Check>,
    /// The values of rows for which a parent was found, by table and foreign key.
    known: HashSet<(usize, usize, GroupKey)>,
}

/// What is to be done at the end of a statement.
enum Noted<'f> {
    Check(Check),
    /// A row that others may refer to has gone, or is another one now.
    Gone {
        table: &'f Concerned,
        old: Vec<Value>,
        new: Option<Vec<Value>>,
    },
}

impl<'f> Keeper<'f> {
    /// For a statement, or a load.
    pub(crate) fn new(foreign: &'f Foreign, modes: Modes, hold: Hold) -> Self {
        let (noted, later, known) = (VecDeque::new(), Vec::new(), HashSet::new());
        Self { foreign, modes, hold, noted, later, known }
    }

    /// Rows are about to be stored, in the table at this place; or one that was `old`.
    ///
    /// # Errors
    /// Columns that are NULL in part, where none or all must be; the transaction was aborted.
    pub(crate) fn store(
        &mut self,
        transaction: &mut Transaction,
        at: usize,
        rows: &[Value],
        old: Option<&[Value]>,
    ) -> Result<(), Stop> {
        let Concerned { table, keys, .. } = &self.foreign.tables[at];
        for (number, constraint) in keys.iter().enumerate() {
            let child = &constraint.child;
            let mut missing: HashMap<GroupKey, Vec<&[Value]>> = HashMap::new();
            for row in rows.chunks(table.schema().columns().len()) {
                let defers = self.modes.defers(&constraint.key);
                let is_same = |old: &[Value]| {
                    child.is_same(old, row)
                        && (!defers || super::key_of(table, old) == super::key_of(table, row))
                };
                if old.is_some_and(is_same) {
                    continue;
                }
                if defers {
                    let (constraint, key) = (constraint.clone(), super::key_of(table, row));
                    self.later.push(Check::Child { constraint, key });
                    continue;
                }
                let Some(values) = constraint.referring(row)? else { continue };
                let values = (at, number, GroupKey(values));
                if !self.known.contains(&values) {
                    missing.entry(values.2).or_default().push(row);
                }
            }
            if missing.is_empty() {
                continue;
            }
            // In the order of the keys, as rows mostly are.
            let mut missing: Vec<(GroupKey, Vec<&[Value]>)> = missing.into_iter().collect();
            missing.sort_by(|(one, _), (other, _)| {
                let mut pairs = one.0.iter().zip(&other.0).map(|(one, other)| compare(one, other));
                pairs.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
            });
            let wanted: Vec<_> = missing.iter().map(|(values, _)| values.0.clone()).collect();
            let have = constraint.have_parents(transaction, &wanted, self.hold)?;
            for ((values, rows), has_parent) in missing.into_iter().zip(have) {
                if has_parent {
                    if self.known.len() >= KNOWN_MAX {
                        self.known.clear();
                    }
                    self.known.insert((at, number, values));
                    continue;
                }
                for row in rows {
                    let (constraint, key) = (constraint.clone(), super::key_of(table, row));
                    self.noted.push_back(Noted::Check(Check::Child { constraint, key }));
                }
            }
        }
        Ok(())
    }

    /// A row of the table at this place has gone, or is another one now.
    pub(crate) fn gone(&mut self, at: usize, old: &[Value], new: Option<&[Value]>) {
        let foreign = self.foreign;
        let table = &foreign.tables[at];
        let is_concerned = table.references.iter().any(|reference| {
            let parent = &reference.constraint.parent;
            new.is_none_or(|new| !parent.is_same(old, new))
        });
        if is_concerned {
            let (old, new) = (old.to_vec(), new.map(<[Value]>::to_vec));
            self.noted.push_back(Noted::Gone { table, old, new });
        }
    }
}

/// The row with a key, which the transaction has alone from now on.
pub(crate) fn held(
    transaction: &mut Transaction,
    table: &Table,
    key: &[Value],
) -> TxnResult<Option<Vec<Value>>> {
    transaction.update_with(table, key, |row| {
        (0..table.schema().columns().len()).map(|at| row.value(at)).collect()
    })
}
