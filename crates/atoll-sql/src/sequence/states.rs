//! The state of sequences, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use atoll::Table;

use super::definition::Definition;
use crate::error::SqlError;
pub(super) use crate::mutex::lock;

/// Sequences in memory before those that are gone are forgotten.
const KEPT_MIN: usize = 1024;

/// The sequences of a database that were used since it was opened, by serial number.
#[derive(Default)]
pub(crate) struct Sequences(Mutex<HashMap<u64, Arc<Sequence>>>);

pub(super) struct Sequence {
    object: Table,
    pub(super) definition: Definition,
    pub(super) state: Mutex<State>,
}

impl Sequence {
    pub(super) fn name(&self) -> &str {
        self.object.name()
    }
}

/// `SEQUENCE-1`.
#[derive(Clone, Default)]
pub(super) struct State {
    /// It was read.
    pub(super) is_known: bool,
    pub(super) last: i64,
    pub(super) called: bool,
    /// Numbers that the row is ahead.
    pub(super) stock: u64,
    pub(super) block: u64,
}

impl Sequences {
    /// The sequence that an object is.
    ///
    /// # Errors
    /// The object is another one; a later version of Atoll has defined it.
    pub(super) fn of(&self, object: &Table) -> Result<Arc<Sequence>, SqlError> {
        let mut all = lock(&self.0);
        if let Some(known) = all.get(&object.serial()) {
            return Ok(Arc::clone(known));
        }
        if all.len() >= KEPT_MIN && all.len().is_power_of_two() {
            all.retain(|_, one| !one.object.is_gone());
        }
        let (definition, state) = (Definition::of(object)?, Mutex::default());
        let new = Arc::new(Sequence { object: object.clone(), definition, state });
        all.insert(object.serial(), Arc::clone(&new));
        Ok(new)
    }
}
