//! Store buffers: what a processor holds back.
//!
//! A store waits in a queue of its processor, and others do not see it while loads behind it are
//! done already; the thread itself sees it. Stores leave the queue in their order, at any time, and
//! all of them before the processor reads and writes a word in one step or goes past a fence. That
//! is total store order, the model of x86 ("x86-TSO", Sewell et al., CACM 2010); weaker processors
//! hold back at least as much.
//!
//! Here a word has its new value at once, and others are shown the one before while the store is
//! in a queue. Words are known by their addresses, which are compared and never used.
//!
//! - `BUFFERS-1`: a word has stores of one coroutine in queues; those of another leave before.
//! - `BUFFERS-2`: values in tables are no words of the machine and are seen at once, so a fence
//!   that releases empties the queue: stores of values behind it come after.
//! - `BUFFERS-3`: who waits lets the stores of all go, so that what is waited for comes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use atoll::machine::Ordering;

use crate::keys::Random;

/// Of so many chances to let stores go, one is taken.
const RELEASE_EVERY: u64 = 8;

/// A store that others do not see yet.
struct Held {
    word: usize,
    /// What they see instead.
    before: u64,
}

struct Buffers {
    queues: RefCell<Vec<VecDeque<Held>>>,
    random: RefCell<Random>,
    /// Stores in all queues.
    count: Cell<usize>,
    /// Whose turn it is.
    running: Cell<Option<usize>>,
    /// Whether fences are heeded; a planted fault, if not.
    fenced: Cell<bool>,
}

thread_local! {
    static BUFFERS: Buffers = const {
        Buffers {
            queues: RefCell::new(Vec::new()),
            random: RefCell::new(Random::new(0)),
            count: Cell::new(0),
            running: Cell::new(None),
            fenced: Cell::new(true),
        }
    };
}

impl Buffers {
    /// Lets stores of a queue go, so many of them.
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

    /// Lets go what others have stored into a word, and what they had stored before.
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

/// A run begins, with buffers for so many coroutines; with none, all is seen at once.
pub(super) fn begin(seed: u64, coroutines: usize) {
    BUFFERS.with(|buffers| {
        buffers.random.replace(Random::new(seed));
        buffers.queues.replace((0..coroutines).map(|_| VecDeque::new()).collect());
        buffers.count.set(0);
        buffers.running.set(None);
    });
}

/// It is the turn of a coroutine, or of none.
pub(super) fn turn(of: Option<usize>) {
    BUFFERS.with(|buffers| buffers.running.set(of));
}

/// Whether the next runs heed fences.
pub fn heed_fences(yes: bool) {
    BUFFERS.with(|buffers| buffers.fenced.set(yes));
}

/// A word is going to be stored into, and has this value.
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

/// What whoever's turn it is sees of a word that has this value.
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

/// A word is going to be read and written in one step.
pub(super) fn exchange(word: usize) {
    BUFFERS.with(|buffers| {
        buffers.release_others(word);
        buffers.release_own();
    });
}

/// A fence.
pub(super) fn fence(order: Ordering) {
    BUFFERS.with(|buffers| {
        if order != Ordering::Acquire && (buffers.fenced.get() || order != Ordering::SeqCst) {
            buffers.release_own();
        }
    });
}

/// Something that the machine is not told of in words.
pub(super) fn release_own() {
    BUFFERS.with(Buffers::release_own);
}

/// Others come in between, perhaps for long.
pub(super) fn rest() {
    BUFFERS.with(|buffers| {
        if buffers.count.get() > 0 && buffers.chance() {
            buffers.release_own();
        }
    });
}

/// Somebody waits.
pub(super) fn release_all() {
    BUFFERS.with(|buffers| {
        if buffers.count.replace(0) > 0 {
            buffers.queues.borrow_mut().iter_mut().for_each(VecDeque::clear);
        }
    });
}

/// A word is gone.
pub(super) fn forget(word: usize) {
    // Threads end with words in hand.
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

    /// Two coroutines store each into a word of its own and load the other's: the results of many
    /// seeds.
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
        heed_fences(false);
        let planted = both(true);
        heed_fences(true);
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
