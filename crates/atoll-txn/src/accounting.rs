//! Where the time of transactions goes: the six components of the study ("Staring into the Abyss",
//! section 3.2).
//!
//! Looking at a clock before and after everything would cost more than what is measured, so one
//! transaction of [`SAMPLE_EVERY`] is measured and stands for the others.

use atoll_machine::Machine;

/// One transaction of so many is measured.
pub const SAMPLE_EVERY: u32 = 128;

/// What a transaction spends its time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The logic of the transaction, and reading and storing values.
    Useful,
    /// Undoing what was done.
    Abort,
    /// Taking timestamps.
    Timestamp,
    /// Looking into indexes and changing them.
    Index,
    /// Waiting for other transactions.
    Wait,
    /// The scheme, without waiting.
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

/// Nanoseconds for each of [`Component::ALL`], of the transactions that were measured.
pub type Components = [u64; Component::ALL.len()];

/// Measures a worker's transactions.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// Never when it is 0.
    every: u32,
    left: u32,
    is_running: bool,
    since_ns: u64,
    now: usize,
    spent: Components,
}

impl Stopwatch {
    /// Measures one transaction of so many; none for 0.
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

    /// The transaction has ended; what it spent, if it was measured.
    #[inline]
    pub(crate) fn stop<M: Machine>(&mut self) -> Option<Components> {
        if !self.is_running {
            return None;
        }
        self.switch_running::<M>(Component::Useful);
        self.is_running = false;
        Some(self.spent)
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
        fn touch(_address: *const u8, _bytes: usize) {}
    }

    fn pass(ns: u64) {
        CLOCK.with(|clock| clock.set(clock.get() + ns));
    }

    #[test]
    fn time_goes_to_the_component_that_was_switched_to_last() {
        let mut watch = Stopwatch::new(2);
        watch.start::<Set>();
        assert_eq!(watch.stop::<Set>(), None, "only every second is measured");
        watch.start::<Set>();
        pass(5);
        assert_eq!(watch.switch::<Set>(Component::Index), Component::Useful);
        pass(7);
        assert_eq!(watch.switch::<Set>(Component::Wait), Component::Index);
        pass(11);
        watch.switch::<Set>(Component::Useful);
        pass(2);
        assert_eq!(watch.stop::<Set>(), Some([7, 0, 0, 7, 11, 0]));
    }
}
