//! Who is likely to come before long.
//!
//! A client that a flush has let go comes back soon, and if it does so just behind the next flush's
//! beginning, it waits for two. So a leader waits for as many as the last flush was for and as came
//! while it ran, for a part of a flush's time at most; when they do not come, it does not wait the
//! next few times.

use atoll_machine::{Machine, Native};

/// See the module.
#[derive(Default)]
pub(crate) struct GroupCommitWindow {
    /// Blocks that the last flush took, all in all, and how many are likely before the next.
    taken: u64,
    expected: u64,
    /// About how long a flush takes.
    flush_ns: u64,
    /// So many times nobody is waited for.
    alone: u32,
}

impl GroupCommitWindow {
    /// Share of a flush's time that is waited at most, one in so many.
    const PATIENCE: u64 = 3;
    /// Flushes without waiting after one that waited for nothing.
    const ALONE: u32 = 32;

    /// Waits for them; `blocks` counts those that there are.
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
                // Some came: it was worth it.
                let came = seen - self.taken;
                self.alone = if came * 4 < self.expected * 3 { Self::ALONE } else { 0 };
                return;
            }
        }
    }

    /// A flush has taken the first `taken` blocks, and there are `now` after it.
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
    fn a_leader_waits_for_those_who_were_there_and_not_for_ever() {
        let mut group_commit = GroupCommitWindow::default();
        // A flush of a second for 8 blocks, while which 8 others came.
        group_commit.note(8, 16, 1_000_000_000);
        let blocks = Cell::new(16);
        group_commit.wait_for(|| {
            blocks.set(blocks.get() + 1);
            blocks.get()
        });
        assert_eq!(blocks.get(), 8 + 16, "all of them");
        // Of a microsecond: nobody comes, and the next one does not wait.
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
        group_commit.wait_for(|| panic!("nobody is waited for"));
        // One client alone is never waited for.
        let mut group_commit = GroupCommitWindow::default();
        group_commit.note(1, 1, 1_000_000_000);
        group_commit.wait_for(|| 2);
    }
}
