//! Store buffers: stores that the other coroutines do not see yet.
//!
//! A store waits in a queue of its processor. Other processors do not see it while later loads of
//! the same processor are executed already; the storing thread itself sees it. Stores leave the
//! queue in their order, at any time, and all of them before the processor executes an atomic
//! read-modify-write or a fence. This is total store order, the model of x86 ("x86-TSO", Sewell et
//! al., CACM 2010); weaker processors delay at least as much.
//!
//! Here a word has its new value at once, and other coroutines are shown the value before while the
//! store is in a queue. A word is identified by its address, which is compared and never
//! dereferenced.
//!
//! - `BUFFERS-1`: the queues have stores into a word of one coroutine only; a store of another
//!   coroutine first releases them.
//! - `BUFFERS-2`: values in tables are not words of the machine and are visible at once, so a
//!   release fence empties the queue: stores of values come after it.
//! - `BUFFERS-3`: a coroutine that waits releases the stores of all, so that the awaited store
//!   becomes visible.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use atoll::machine::Ordering;

use atoll_bench::keys::Random;

/// One in this many chances to release stores is taken.
const RELEASE_EVERY: u64 = 8;

/// A store that other coroutines do not see yet.
struct Held {
    word: usize,
    /// The value that they see instead.
    before: u64,
}

struct Buffers {
    queues: RefCell<Vec<VecDeque<Held>>>,
    random: RefCell<Random>,
    /// Number of stores in all queues.
    count: Cell<usize>,
    /// The coroutine that is running.
    running: Cell<Option<usize>>,
    /// Fences of this order have no effect: a planted fault.
    ignored: Cell<Option<Ordering>>,
}

thread_local! {
    static BUFFERS: Buffers = const {
        Buffers {
            queues: RefCell::new(Vec::new()),
            random: RefCell::new(Random::new(0)),
            count: Cell::new(0),
            running: Cell::new(None),
            ignored: Cell::new(None),
        }
    };
}

impl Buffers {
    /// Releases the first `stores` stores of a queue.
    fn release(&self, queue: &mut VecDeque<Held>, stores: usize) {
        queue.drain(..stores);
        self.count.set(self.count.get() - stores);
    }

    fn release_own(&self) {
        if let Some(running) = self.running.get()
            && self.count.get() > 0
            && let Some(queue) = self.queues.borrow_mut().get_mut(running)
        {
            self.release(queue, queue.len());
        }
    }

    /// Releases the stores of other coroutines into a word, and the stores before those in the same
    /// queues.
    fn release_others(&self, word: usize) {
        if self.count.get() == 0 {
            return;
        }
        for (at, queue) in self.queues.borrow_mut().iter_mut().enumerate() {
            if Some(at) != self.running.get()
                && let Some(last) = queue.iter().rposition(|held| held.word == word)
            {
                self.release(queue, last + 1);
            }
        }
    }

    fn chance(&self) -> bool {
        self.random.borrow_mut().below(RELEASE_EVERY) == 0
    }
}

/// Begins a run with queues for `coroutines` coroutines; with none, every store is visible at once.
pub(super) fn begin(seed: u64, coroutines: usize) {
    BUFFERS.with(|buffers| {
        buffers.random.replace(Random::new(seed));
        buffers.queues.replace((0..coroutines).map(|_| VecDeque::new()).collect());
        buffers.count.set(0);
        buffers.running.set(None);
    });
}

/// Sets the running coroutine.
pub(super) fn turn(of: Option<usize>) {
    BUFFERS.with(|buffers| buffers.running.set(of));
}

/// Makes fences of this order have no effect in the next runs of this thread.
pub fn ignore_fences(order: Option<Ordering>) {
    BUFFERS.with(|buffers| buffers.ignored.set(order));
}

/// Called before a store into a word that has the value `before`.
pub(super) fn store(word: usize, before: u64, order: Ordering) {
    BUFFERS.with(|buffers| {
        buffers.release_others(word);
        if order == Ordering::SeqCst {
            return buffers.release_own();
        }
        let Some(running) = buffers.running.get() else { return };
        if let Some(queue) = buffers.queues.borrow_mut().get_mut(running) {
            queue.push_back(Held { word, before });
            buffers.count.set(buffers.count.get() + 1);
        }
        if buffers.chance() {
            buffers.release_own();
        }
    });
}

/// The value that the running coroutine sees of a word with this value.
pub(super) fn seen(word: usize, value: u64) -> u64 {
    BUFFERS.with(|buffers| {
        if buffers.count.get() == 0 {
            return value;
        }
        let queues = buffers.queues.borrow();
        let others = queues.iter().enumerate();
        let others = others.filter(|(at, _)| Some(*at) != buffers.running.get());
        let first = others.flat_map(|(_, queue)| queue).find(|held| held.word == word);
        first.map_or(value, |held| held.before)
    })
}

/// Called before an atomic read-modify-write of a word.
pub(super) fn exchange(word: usize) {
    BUFFERS.with(|buffers| {
        buffers.release_others(word);
        buffers.release_own();
    });
}

/// A fence.
pub(super) fn fence(order: Ordering) {
    BUFFERS.with(|buffers| {
        if order != Ordering::Acquire && buffers.ignored.get() != Some(order) {
            buffers.release_own();
        }
    });
}

/// Releases the queue of the running coroutine, before a step that is not an access to a word.
pub(super) fn release_own() {
    BUFFERS.with(Buffers::release_own);
}

/// Called when the running coroutine gives way, perhaps for long.
pub(super) fn rest() {
    BUFFERS.with(|buffers| {
        if buffers.count.get() > 0 && buffers.chance() {
            buffers.release_own();
        }
    });
}

/// Called when a coroutine waits (`BUFFERS-3`).
pub(super) fn release_all() {
    BUFFERS.with(|buffers| {
        if buffers.count.replace(0) > 0 {
            buffers.queues.borrow_mut().iter_mut().for_each(VecDeque::clear);
        }
    });
}

/// Called when a word is dropped.
pub(super) fn forget(word: usize) {
    // Words may be dropped when the thread ends, after its thread-local values.
    let _ = BUFFERS.try_with(|buffers| {
        if buffers.count.get() == 0 {
            return;
        }
        for queue in buffers.queues.borrow_mut().iter_mut() {
            if let Some(last) = queue.iter().rposition(|held| held.word == word) {
                buffers.release(queue, last + 1);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::machine::{Stepped, SteppedWord, step};
    use super::super::stage::{Ended, Part, play};
    use super::*;
    use atoll::machine::{Machine, Word};
    use std::rc::Rc;

    /// Two coroutines store into a word each and load the other's: the results of many seeds.
    fn both(fence: bool) -> Vec<(u64, u64)> {
        let words = || Rc::new([SteppedWord::new(0), SteppedWord::new(0)]);
        let mut all = Vec::new();
        for seed in 0..400 {
            let (words, loaded) = (words(), Rc::new([Cell::new(9), Cell::new(9)]));
            let part = |mine: usize| -> Part {
                let (words, loaded) = (Rc::clone(&words), Rc::clone(&loaded));
                Box::new(move || {
                    words[mine].store(1, Ordering::Release);
                    assert_eq!(words[mine].load(Ordering::Acquire), 1, "its own is seen");
                    if fence {
                        Stepped::fence(Ordering::SeqCst);
                    }
                    loaded[mine].set(words[1 - mine].load(Ordering::SeqCst));
                    step();
                })
            };
            let played = play(seed, 1000, false, vec![part(0), part(1)]);
            assert_eq!(played.ended, Ended::Well);
            assert_eq!(words.each_ref().map(|word| word.load(Ordering::Acquire)), [1, 1]);
            all.push((loaded[0].get(), loaded[1].get()));
        }
        all
    }

    #[test]
    fn two_that_store_and_then_load_can_miss_each_other_unless_there_is_a_fence() {
        let missed = |all: &[(u64, u64)]| all.iter().filter(|both| **both == (0, 0)).count();
        let without = both(false);
        assert!(missed(&without) > 0 && without.contains(&(1, 1)), "{without:?}");
        let with = both(true);
        assert_eq!(missed(&with), 0);
        ignore_fences(Some(Ordering::SeqCst));
        let planted = both(true);
        ignore_fences(None);
        assert!(missed(&planted) > 0);
    }

    #[test]
    fn stores_are_seen_in_their_order() {
        for seed in 0..400 {
            let words = Rc::new([SteppedWord::new(0), SteppedWord::new(0)]);
            let (one, two) = (Rc::clone(&words), Rc::clone(&words));
            let writer: Part = Box::new(move || {
                one[0].store(1, Ordering::Relaxed);
                one[1].store(1, Ordering::Release);
                one[0].store(2, Ordering::Relaxed);
            });
            let reader: Part = Box::new(move || {
                for _ in 0..4 {
                    let flag = two[1].load(Ordering::Acquire);
                    let value = two[0].load(Ordering::Acquire);
                    assert!(flag == 0 || value > 0, "the flag came before the value");
                }
            });
            assert_eq!(play(seed, 1000, false, vec![writer, reader]).ended, Ended::Well);
        }
    }
}
