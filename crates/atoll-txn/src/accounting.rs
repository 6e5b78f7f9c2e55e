//! How transactions spend their time, by the six components of the study ("Staring into the Abyss",
//! section 3.2).
//!
//! Reading a clock before and after each step would cost more than the step itself, so a worker
//! measures one transaction of [`SAMPLE_EVERY`] as a sample.

use atoll_machine::Machine;

/// One transaction of so many is measured.
pub const SAMPLE_EVERY: u32 = 128;

/// What a transaction spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The logic of a transaction that commits, and reading and storing its values.
    Useful,
    /// Wasted work: an attempt that was rolled back, the rollback, and the pause before the next
    /// attempt. The timestamps and the waits of the attempt count as those components.
    Abort,
    /// Taking timestamps, of all attempts.
    Timestamp,
    /// Index lookups and changes of a transaction that commits.
    Index,
    /// Waiting for locks, or for values that are not ready, in all attempts.
    Wait,
    /// The scheme's work, without waits, for a transaction that commits.
    Manager,
}

impl Component {
    /// All of them, in the order of counters.
    pub const ALL: [Self; 6] =
        [Self::Useful, Self::Abort, Self::Timestamp, Self::Index, Self::Wait, Self::Manager];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Useful => "useful_work",
            Self::Abort => "abort",
            Self::Timestamp => "ts_allocation",
            Self::Index => "index",
            Self::Wait => "wait",
            Self::Manager => "manager",
        }
    }
}

/// The components that count as [`Component::Abort`] when a transaction is rolled back. The study
/// counts waits and timestamps as such, whether the transaction commits or not.
const LOST: [Component; 3] = [Component::Useful, Component::Index, Component::Manager];

/// Nanoseconds for each of [`Component::ALL`], of the transactions that were measured.
pub type Components = [u64; Component::ALL.len()];

/// Measures transactions, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// One transaction of so many is measured; none if 0.
    every: u32,
    left: u32,
    is_running: bool,
    /// The last transaction was measured and rolled back, so the pause after it is measured too.
    is_in_vain: bool,
    since_ns: u64,
    now: usize,
    spent: Components,
}

impl Stopwatch {
    /// Measures one transaction of `every`; none for 0.
    pub(crate) fn new(every: u32) -> Self {
        Self { every, left: every, ..Self::default() }
    }

    /// A transaction begins.
    #[inline]
    pub(crate) fn start<M: Machine>(&mut self) {
        if self.every == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            self.left = self.every;
            self.is_running = true;
            self.spent = Components::default();
            self.now = Component::Useful as usize;
            self.since_ns = M::now_ns();
        }
    }

    /// Whether the transaction is measured.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// From now on the time goes to `component`; returns where it went before.
    #[inline]
    pub(crate) fn switch<M: Machine>(&mut self, component: Component) -> Component {
        if self.is_running { self.switch_running::<M>(component) } else { Component::Useful }
    }

    #[cold]
    fn switch_running<M: Machine>(&mut self, component: Component) -> Component {
        let now = M::now_ns();
        self.spent[self.now] += now - self.since_ns;
        self.since_ns = now;
        Component::ALL[std::mem::replace(&mut self.now, component as usize)]
    }

    /// Ends the measurement of a transaction; returns the time that it spent, if it was measured.
    #[inline]
    pub(crate) fn stop<M: Machine>(&mut self, committed: bool) -> Option<Components> {
        self.is_in_vain = self.is_running && !committed;
        if !self.is_running {
            return None;
        }
        self.switch_running::<M>(Component::Useful);
        self.is_running = false;
        if !committed {
            for lost in LOST {
                let lost = std::mem::take(&mut self.spent[lost as usize]);
                self.spent[Component::Abort as usize] += lost;
            }
        }
        Some(self.spent)
    }

    /// Calls `pause`, after a transaction that was rolled back and before the next attempt. Returns
    /// the time of the pause, if the transaction was measured.
    pub(crate) fn pause<M: Machine>(&mut self, pause: impl FnOnce()) -> Option<Components> {
        if !self.is_in_vain {
            pause();
            return None;
        }
        let before = M::now_ns();
        pause();
        let mut spent = Components::default();
        spent[Component::Abort as usize] = M::now_ns() - before;
        Some(spent)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use atoll_machine::{Machine, NativeWord};

    use super::{Component, Stopwatch};

    thread_local! {
        static CLOCK: Cell<u64> = const { Cell::new(0) };
    }

    struct Set;

    impl Machine for Set {
        type Word = NativeWord;
        fn now_ns() -> u64 {
            CLOCK.with(Cell::get)
        }
        fn wait(_round: u32) {}
        fn prefetch(_address: *const u8, _bytes: usize) {}
    }

    fn pass(ns: u64) {
        CLOCK.with(|clock| clock.set(clock.get() + ns));
    }

    #[test]
    fn time_goes_to_the_component_that_was_switched_to_last() {
        let mut watch = Stopwatch::new(2);
        watch.start::<Set>();
        assert_eq!(watch.stop::<Set>(true), None, "only every second is measured");
        watch.start::<Set>();
        pass(5);
        assert_eq!(watch.switch::<Set>(Component::Index), Component::Useful);
        pass(7);
        assert_eq!(watch.switch::<Set>(Component::Wait), Component::Index);
        pass(11);
        watch.switch::<Set>(Component::Useful);
        pass(2);
        assert_eq!(watch.stop::<Set>(true), Some([7, 0, 0, 7, 11, 0]));
        assert_eq!(watch.pause::<Set>(|| pass(3)), None, "nothing was in vain");
    }

    #[test]
    fn what_is_rolled_back_is_lost_but_its_timestamps_and_its_waiting_are_not() {
        let mut watch = Stopwatch::new(2);
        watch.start::<Set>();
        assert_eq!(watch.stop::<Set>(false), None);
        assert_eq!(watch.pause::<Set>(|| pass(1)), None, "only every second is measured");
        watch.start::<Set>();
        pass(2);
        for (component, ns) in Component::ALL.into_iter().zip([3, 5, 7, 11, 13, 17]) {
            watch.switch::<Set>(component);
            pass(ns);
        }
        assert_eq!(watch.stop::<Set>(false), Some([0, 2 + 3 + 5 + 11 + 17, 7, 0, 13, 0]));
        assert_eq!(watch.pause::<Set>(|| pass(19)), Some([0, 19, 0, 0, 0, 0]));
        watch.start::<Set>();
        assert_eq!(watch.stop::<Set>(true), None);
        assert_eq!(watch.pause::<Set>(|| pass(23)), None, "that was of another attempt");
    }
}
