//! The group-commit window: how long the leader of a flush waits for further commits.
//!
//! A client usually commits again soon after a flush has made its commit durable. If it does so
//! just after the next flush has begun, it waits for two flushes. So the leader waits until as many
//! blocks are pending as the last flush wrote plus those that arrived while it ran, but at most a
//! third of the duration of a flush. When too few arrive, the next 32 flushes do not wait.

use atoll_machine::{Machine, Native};

/// The group-commit window of one log; see the module.
#[derive(Default)]
pub(crate) struct GroupCommitWindow {
    /// Blocks of the log that have been flushed so far.
    taken: u64,
    /// Blocks that are expected before the next flush.
    expected: u64,
    /// Moving average of the duration of a flush.
    flush_ns: u64,
    /// How many of the next flushes do not wait.
    alone: u32,
}

impl GroupCommitWindow {
    /// The leader waits at most the duration of a flush divided by this.
    const PATIENCE: u64 = 3;
    /// How many flushes do not wait after too few blocks have arrived.
    const ALONE: u32 = 32;

    /// Waits for the expected blocks; `blocks` returns how many the log has so far.
    pub(crate) fn wait_for(&mut self, blocks: impl Fn() -> u64) {
        if self.alone > 0 {
            self.alone -= 1;
            return;
        }
        let most = self.flush_ns / Self::PATIENCE;
        let (wanted, begun) = (self.taken + self.expected, Native::now_ns());
        let mut seen = blocks();
        while seen < wanted {
            std::thread::yield_now();
            seen = blocks();
            if Native::now_ns() - begun > most {
                // The wait was worth it if three quarters of the blocks arrived.
                let came = seen - self.taken;
                self.alone = if came * 4 < self.expected * 3 { Self::ALONE } else { 0 };
                return;
            }
        }
    }

    /// Records a flush of the first `taken` blocks; when it ended, the log had `now` blocks.
    pub(crate) fn note(&mut self, taken: u64, now: u64, flush_ns: u64) {
        let (let_go, came) = (taken - self.taken, now - taken);
        self.expected = let_go + came;
        self.taken = taken;
        self.flush_ns =
            if self.flush_ns == 0 { flush_ns } else { (self.flush_ns * 7 + flush_ns) / 8 };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_leader_waits_for_recent_clients_for_a_limited_time() {
        let mut group_commit = GroupCommitWindow::default();
        // A flush of 8 blocks took a second, and 8 further blocks arrived meanwhile.
        group_commit.note(8, 16, 1_000_000_000);
        let blocks = Cell::new(16);
        group_commit.wait_for(|| {
            blocks.set(blocks.get() + 1);
            blocks.get()
        });
        assert_eq!(blocks.get(), 8 + 16, "all expected blocks arrived");
        // Short flushes: no block arrives in time, and the next flush does not wait.
        group_commit.note(24, 24, 1);
        for _ in 0..100 {
            group_commit.note(24, 24, 1);
        }
        group_commit.expected = 16;
        let looked = Cell::new(0);
        group_commit.wait_for(|| {
            looked.set(looked.get() + 1);
            24
        });
        assert!(looked.get() > 0 && group_commit.alone == GroupCommitWindow::ALONE);
        group_commit.wait_for(|| panic!("the leader waits for no block"));
        // The leader never waits for other clients if it is the only one.
        let mut group_commit = GroupCommitWindow::default();
        group_commit.note(1, 1, 1_000_000_000);
        group_commit.wait_for(|| 2);
    }
}
