//! The end of a statement: checks, and the actions of foreign keys.

use atoll::{Table, Value};

use super::{Noted, held};
use crate::error::SqlError;
use crate::foreign::deferred::Check;
use crate::foreign_key::Action;
use crate::prepared::change::{Concerned, Reference};
use crate::prepared::run::Runner;
use crate::prepared::run::insert::value_of;
use crate::short::run::Stop;

impl Runner<'_> {
    /// Works off what the statement has noted of foreign keys.
    ///
    /// # Errors
    /// A foreign key is violated; those of the changes that actions make.
    pub(crate) fn finish(&mut self) -> Result<(), Stop> {
        while let Some(noted) = self.keeper.as_mut().and_then(|keeper| keeper.noted.pop_front()) {
            self.how.interrupt.check_row()?;
            match noted {
                Noted::Check(check) => self.make(&check)?,
                Noted::Gone { table, old, new } => {
                    for reference in &table.references {
                        self.follow(reference, &old, new.as_deref())?;
                    }
                }
            }
        }
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let later = std::mem::take(&mut keeper.later);
        match &mut self.how.deferred {
            Some(deferred) => deferred.extend(later),
            // The statement is the whole transaction.
            None => later.iter().try_for_each(|check| self.make(check))?,
        }
        Ok(())
    }

    fn make(&mut self, check: &Check) -> Result<(), Stop> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        check.make(self.transaction, keeper.hold)
    }

    /// A parent has gone, or has become `new`.
    fn follow(
        &mut self,
        reference: &Reference,
        old: &[Value],
        new: Option<&[Value]>,
    ) -> Result<(), Stop> {
        let constraint = &reference.constraint;
        let parent = &constraint.parent;
        if new.is_some_and(|new| parent.is_same(old, new)) {
            return Ok(());
        }
        // A row refers to nothing that is NULL.
        let Some(values) = parent.values(old) else { return Ok(()) };
        let action =
            if new.is_some() { constraint.key.on_update } else { constraint.key.on_delete };
        let kept = Check::Parent { constraint: constraint.clone(), values };
        let Check::Parent { values, .. } = &kept else { return Ok(()) };
        let Some(referring) = constraint.of_child(values) else { return Ok(()) };
        match (action, reference.child) {
            (Action::NoAction, _) => {
                if let Some(keeper) = &mut self.keeper
                    && keeper.modes.defers(&constraint.key)
                {
                    keeper.later.push(kept);
                    return Ok(());
                }
                self.make(&kept)
            }
            (Action::Restrict, _) | (_, None) => {
                match constraint.children(self.transaction, &referring, true)?.is_empty() {
                    true => Ok(()),
                    false => Err(constraint.has_children(values).into()),
                }
            }
            (action, Some(at)) => {
                let keys = constraint.children(self.transaction, &referring, false)?;
                let set = match (action, new) {
                    (Action::Cascade, None) => None,
                    (Action::Cascade, Some(new)) => Some(follows(reference, new)?),
                    (action, _) => Some(self.sets(reference, action, new.is_none())?),
                };
                let table = &constraint.child.table;
                for key in keys {
                    self.how.interrupt.check_row()?;
                    match &set {
                        Some(set) => self.set_child(table, at, &key, set.clone())?,
                        None => self.delete_child(table, at, &key)?,
                    }
                }
                // The default may be the very value that has gone.
                if action == Action::SetDefault { self.make(&kept) } else { Ok(()) }
            }
        }
    }

    /// What `SET NULL` and `SET DEFAULT` set.
    fn sets(
        &self,
        reference: &Reference,
        action: Action,
        is_delete: bool,
    ) -> Result<Vec<(usize, Value)>, Stop> {
        let Reference { constraint, defaults, .. } = reference;
        let (key, child) = (&constraint.key, &constraint.child);
        let named = is_delete && !key.on_delete_columns.is_empty();
        let is_set = |name: &String| !named || key.on_delete_columns.contains(name);
        let columns = child.columns.iter().zip(&key.columns).filter(|(_, name)| is_set(name));
        let mut set = Vec::new();
        for (at, _) in columns {
            let value = match (action, defaults.get(*at)) {
                (Action::SetDefault, Some(cell)) => {
                    value_of(cell, &child.table, *at, &self.around)?
                }
                _ => Value::Null,
            };
            set.push((*at, value));
        }
        Ok(set)
    }

    fn set_child(
        &mut self,
        table: &Table,
        at: usize,
        key: &[Value],
        set: Vec<(usize, Value)>,
    ) -> Result<(), Stop> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let Concerned { checks, generated, .. } = &keeper.foreign.tables[at];
        let own = (self.checks, self.generated, self.at);
        (self.checks, self.generated, self.at) = (checks.as_ref(), generated.as_ref(), at);
        let done = self.set_row(table, key, set);
        (self.checks, self.generated, self.at) = own;
        done.map(drop)
    }

    fn delete_child(&mut self, table: &Table, at: usize, key: &[Value]) -> Result<(), Stop> {
        let Some(old) = held(self.transaction, table, key)? else { return Ok(()) };
        self.delete_row(table, key, Some(old.clone()))?;
        if let Some(keeper) = &mut self.keeper {
            keeper.gone(at, &old, None);
        }
        Ok(())
    }
}

/// The values of a row that follows its parent.
fn follows(reference: &Reference, new: &[Value]) -> Result<Vec<(usize, Value)>, SqlError> {
    let values = reference.constraint.following(new)?;
    Ok(reference.constraint.child.columns.iter().copied().zip(values).collect())
}
