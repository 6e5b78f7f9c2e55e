//! Acknowledgement of commits: how long a transaction waits until the logs are durable.

pub(crate) mod due;

use std::sync::Arc;

use atoll_log::Logs;
use atoll_txn::Committed;

use self::due::Due;
use crate::durability::{Durability, PERIOD_MIN};
use crate::error::Result;

/// What a transaction needs of the logs.
pub(crate) struct Acknowledger {
    pub(crate) logs: Arc<Logs>,
    pub(crate) durability: Durability,
    pub(crate) due: Arc<Due>,
}

impl Acknowledger {
    /// Waits until all that can be seen is durable, if commits do.
    pub(crate) fn acknowledge_all(&self) -> Result<()> {
        self.acknowledge(Committed { gsn: self.logs.clock(), has_changes: true }, None)
    }

    /// As [`Acknowledger::acknowledge_all`], for somebody who only looks.
    pub(crate) fn show_all(&self) {
        // As in `acknowledge`.
        let _ = self.acknowledge_all();
    }

    /// Whether a commit is told of when it is durable. One that is not is flushed within the bound
    /// that was asked for.
    fn is_strict(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        match wanted.unwrap_or(self.durability) {
            Durability::Strict => return true,
            Durability::Group(bound) if committed.has_changes => {
                let period = self.durability.period();
                if bound < period {
                    self.due.within(bound.max(PERIOD_MIN));
                }
            }
            Durability::Group(_) | Durability::None => {}
        }
        false
    }

    /// Whether a commit needs no waiting.
    pub(crate) fn is_acknowledged(&self, committed: Committed, wanted: Option<Durability>) -> bool {
        // One that never will be is not waited for either.
        !self.is_strict(committed, wanted)
            || self.logs.horizon() >= committed.gsn
            || self.logs.is_poisoned()
    }

    /// Waits as long as the durability asked for says.
    pub(crate) fn acknowledge(
        &self,
        committed: Committed,
        wanted: Option<Durability>,
    ) -> Result<()> {
        if !self.is_strict(committed, wanted) {
            return Ok(());
        }
        match self.logs.settle(committed.gsn) {
            // When a flush has failed, what is in memory can still be read.
            Err(_) if !committed.has_changes => Ok(()),
            done => Ok(done?),
        }
    }
}
