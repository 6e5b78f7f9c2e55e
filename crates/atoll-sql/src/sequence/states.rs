//! The state of sequences, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll::{Database, Table};

use super::definition::Definition;
use crate::error::SqlError;

/// Sequences in memory before those that are gone are forgotten.
const KEPT_MIN: usize = 1024;

/// The sequences of a database that were used since it was opened, by serial number.
#[derive(Default)]
pub(crate) struct Sequences(Mutex<HashMap<u64, Arc<Sequence>>>);

pub(super) struct Sequence {
    pub(super) definition: Definition,
    pub(super) state: Mutex<State>,
}

/// `SEQUENCE-1`.
#[derive(Default)]
pub(super) struct State {
    /// It was read.
    pub(super) is_known: bool,
    pub(super) last: i64,
    pub(super) called: bool,
    /// Numbers that the row is ahead.
    pub(super) stock: u64,
    pub(super) block: u64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sequences {
    /// The sequence that an object is.
    ///
    /// # Errors
    /// The object is another one; a later version of Atoll has defined it.
    pub(super) fn of(&self, db: &Database, object: &Table) -> Result<Arc<Sequence>, SqlError> {
        let mut all = lock(&self.0);
        if let Some(known) = all.get(&object.serial()) {
            return Ok(Arc::clone(known));
        }
        if all.len() >= KEPT_MIN && all.len().is_power_of_two() {
            let catalog = db.catalog()?;
            all.retain(|serial, one| {
                Arc::strong_count(one) > 1 || catalog.objects().any(|now| now.serial() == *serial)
            });
        }
        let (definition, state) = (Definition::of(object)?, Mutex::default());
        let new = Arc::new(Sequence { definition, state });
        all.insert(object.serial(), Arc::clone(&new));
        Ok(new)
    }
}
