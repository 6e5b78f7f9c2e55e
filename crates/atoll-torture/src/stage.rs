//! The stage: schedules coroutines on [`Stepped`](super::machine::Stepped) in an order drawn from a
//! seed.
//!
//! There are two ways to draw, because anomalies need different schedules:
//! - *even*: every coroutine is equally likely, for bursts of some mean length from a single step
//!   up;
//! - *ranked*: one coroutine is preferred to all others until it waits or, at a random moment, gets
//!   the lowest rank. Few switches at random points reach the interleavings in which one
//!   transaction sleeps while others run from begin to end ("A Randomized Scheduler with
//!   Probabilistic Guarantees of Finding Bugs", Burckhardt et al., 2010).
//!
//! A coroutine that waits gives way first. When all coroutines wait, the clock runs faster and
//! faster, so that waits with a time limit end.
//!
//! A run that does not end within its steps is a livelock or a deadlock. Its coroutines are leaked
//! with all that they hold: unwinding them would make them wait for each other again.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use serde::Serialize;

use super::buffers;
use super::machine::{GiveWay, NOW, Why, wait};
use atoll_bench::keys::Random;

/// Bytes of the stack of a coroutine.
const STACK_BYTES: usize = 512 << 10;
/// A coroutine that makes at most this many steps from one wait to the next only polls. (An
/// operation of many steps that waits makes up to 31.)
const IDLE_STEPS: u64 = 52;
/// The clock advances by at most this at a time while all coroutines wait.
const LEAP_NS_MAX: u64 = 1 << 22;

/// The body of a coroutine.
pub type Part = Box<dyn FnOnce()>;

/// A turn of a coroutine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The coroutine.
    pub part: usize,
    /// Steps of the whole run when it ended.
    pub steps: u64,
    /// The reason why it ended; `None`: the coroutine completed.
    pub why: Option<Why>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All coroutines completed.
    Well,
    /// All steps were used up.
    Endless {
        /// The coroutines that had not completed.
        left: Vec<usize>,
    },
    /// A coroutine panicked.
    Panicked {
        /// The coroutine.
        part: usize,
        /// The message of the panic.
        message: String,
    },
}

/// The result of a run.
#[derive(Debug)]
pub struct Played {
    /// How it ended.
    pub ended: Ended,
    /// Steps made.
    pub steps: u64,
    /// Every turn, if it was requested.
    pub trace: Vec<Turn>,
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    Even { mean: u64 },
    Ranked { mean: u64 },
}

struct Actor {
    coroutine: Coroutine<(), Why, Result<(), String>, DefaultStack>,
    yielder: Rc<Cell<*const GiveWay>>,
    number: usize,
    /// In ranked mode the highest rank runs.
    rank: i64,
    waits: bool,
    /// Steps since its last wait.
    busy: u64,
}

/// The message of a panic.
pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()))
        .unwrap_or_else(|| "a panic without words".to_owned())
}

impl Actor {
    fn new(number: usize, rank: i64, part: Part) -> Self {
        let stack = DefaultStack::new(STACK_BYTES).expect("there is memory for a stack");
        let yielder = Rc::new(Cell::new(std::ptr::null()));
        let place = Rc::clone(&yielder);
        let coroutine = Coroutine::with_stack(stack, move |own: &GiveWay, ()| {
            place.set(own);
            NOW.with(|now| now.yielder.set(own));
            catch_unwind(AssertUnwindSafe(part)).map_err(|panic| words(&*panic))
        });
        Self { coroutine, yielder, number, rank, waits: false, busy: 0 }
    }
}

struct Stage {
    actors: Vec<Actor>,
    random: Random,
    manner: Manner,
    lowest: i64,
    idle_turns: u32,
}

/// Runs `parts` as coroutines until all have completed, for at most `steps_max` steps.
pub fn play(seed: u64, steps_max: u64, keep_trace: bool, parts: Vec<Part>) -> Played {
    let mut random = Random::new(seed ^ 0x5ca1_ab1e);
    let step_ns = [1, 10, 100][random.below(3) as usize];
    NOW.with(|now| {
        now.steps.set(0);
        now.step_ns.set(step_ns);
    });
    let manner = manner(&mut random);
    buffers::begin(random.word(), if random.below(2) == 0 { parts.len() } else { 0 });
    let actors = parts.into_iter().enumerate();
    let actors =
        actors.map(|(number, part)| Actor::new(number, random.below(1 << 20) as i64, part));
    let actors = actors.collect();
    let mut stage = Stage { actors, random, manner, lowest: 0, idle_turns: 0 };
    let before = atoll::machine::pause_with(Some(wait));
    let mut trace = Vec::new();
    let ended = stage.run(steps_max, |turn| {
        if keep_trace {
            trace.push(turn);
        }
    });
    buffers::begin(0, 0);
    atoll::machine::pause_with(before);
    // Steps outside a coroutine take the same time in every run.
    NOW.with(|now| now.step_ns.set(1));
    stage.actors.into_iter().for_each(std::mem::forget);
    Played { ended, steps: NOW.with(|now| now.steps.get()), trace }
}

fn manner(random: &mut Random) -> Manner {
    let pick =
        |random: &mut Random, means: &[u64]| means[random.below(means.len() as u64) as usize];
    if random.below(2) == 0 {
        Manner::Even { mean: pick(random, &[0, 1, 5, 16, 64, 240]) }
    } else {
        Manner::Ranked { mean: pick(random, &[32, 160, 640, 2400]) }
    }
}

impl Stage {
    fn run(&mut self, steps_max: u64, mut told: impl FnMut(Turn)) -> Ended {
        while !self.actors.is_empty() {
            let at = self.choose();
            let actor = &mut self.actors[at];
            let burst = burst(&mut self.random, self.manner);
            let steps_before = NOW.with(|now| {
                now.left.set(burst);
                now.yielder.set(actor.yielder.get());
                now.steps.get()
            });
            buffers::turn(Some(actor.number));
            let result = actor.coroutine.resume(());
            if let CoroutineResult::Return(_) = result {
                buffers::release_own();
            }
            buffers::turn(None);
            let steps = NOW.with(|now| {
                now.yielder.set(std::ptr::null());
                now.steps.get()
            });
            let part = actor.number;
            match result {
                CoroutineResult::Yield(why) => {
                    told(Turn { part, steps, why: Some(why) });
                    self.gave_way(at, why, steps - steps_before);
                }
                CoroutineResult::Return(end) => {
                    told(Turn { part, steps, why: None });
                    drop(self.actors.swap_remove(at));
                    self.idle_turns = 0;
                    if let Err(message) = end {
                        return Ended::Panicked { part, message };
                    }
                }
            }
            if steps > steps_max {
                return Ended::Endless { left: self.actors.iter().map(|a| a.number).collect() };
            }
        }
        Ended::Well
    }

    /// Chooses the coroutine that runs next.
    fn choose(&mut self) -> usize {
        let count = self.actors.len() as u64;
        if let Manner::Ranked { .. } = self.manner {
            let ranks = self.actors.iter().enumerate();
            return ranks.max_by_key(|(_, actor)| actor.rank).map_or(0, |(at, _)| at);
        }
        // A waiting coroutine is chosen less often, because usually it would only wait again.
        let mut at = self.random.below(count) as usize;
        for _ in 0..2 {
            if self.actors[at].waits {
                at = self.random.below(count) as usize;
            }
        }
        at
    }

    fn gave_way(&mut self, at: usize, why: Why, steps: u64) {
        self.lowest -= 1;
        let actor = &mut self.actors[at];
        actor.waits = why == Why::Waits;
        actor.rank = self.lowest;
        actor.busy += steps;
        if actor.busy > IDLE_STEPS {
            self.idle_turns = 0;
        }
        if why == Why::Steps {
            return;
        }
        actor.busy = 0;
        self.idle_turns += 1;
        let idle_rounds = self.idle_turns / (2 * self.actors.len() as u32);
        if idle_rounds > 0 {
            let leap = (1u64 << idle_rounds.min(40)).min(LEAP_NS_MAX);
            NOW.with(|now| now.clock_ns.set(now.clock_ns.get() + leap));
        }
    }
}

/// Number of steps until the next switch, exponentially distributed.
fn burst(random: &mut Random, manner: Manner) -> u64 {
    let (Manner::Even { mean } | Manner::Ranked { mean }) = manner;
    (-(1.0 - random.unit()).ln() * mean as f64) as u64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use atoll::machine::{Machine, Ordering, Word, pause};

    use super::super::machine::{Stepped, SteppedWord};
    use super::*;

    /// Two coroutines that add to a word by a load and a store, and the final value of the word.
    fn torn_adding(seed: u64) -> (u64, Vec<Turn>) {
        let word = Arc::new(SteppedWord::new(0));
        let part = |word: &Arc<SteppedWord>| -> Part {
            let word = Arc::clone(word);
            Box::new(move || {
                for _ in 0..3 {
                    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
            })
        };
        let played = play(seed, 1000, true, vec![part(&word), part(&word)]);
        assert_eq!(played.ended, Ended::Well);
        assert_eq!(played.steps, 12);
        (word.load(Ordering::Relaxed), played.trace)
    }

    #[test]
    fn all_interleavings_of_a_small_run_come_up_and_each_seed_repeats_its_own() {
        let mut sums = BTreeSet::new();
        for seed in 0..3000 {
            let (sum, trace) = torn_adding(seed);
            assert_eq!(torn_adding(seed), (sum, trace));
            sums.insert(sum);
        }
        assert_eq!(sums, BTreeSet::from([2, 3, 4, 5, 6]));
    }

    #[test]
    fn whoever_waits_gives_way_to_the_one_that_it_waits_for() {
        for seed in 0..50 {
            let word = Arc::new(SteppedWord::new(0));
            let (here, there) = (Arc::clone(&word), Arc::clone(&word));
            let parts: Vec<Part> = vec![
                Box::new(move || {
                    while here.load(Ordering::Acquire) < 1 {
                        Stepped::wait(0);
                    }
                    here.store(2, Ordering::Release);
                }),
                Box::new(move || {
                    there.store(1, Ordering::Release);
                    while there.load(Ordering::Acquire) < 2 {
                        pause(0);
                    }
                }),
            ];
            assert_eq!(play(seed, 10_000, false, parts).ended, Ended::Well);
        }
    }

    #[test]
    fn a_run_that_waits_for_ever_is_ended_and_one_with_a_time_limit_ends_by_itself() {
        let endless: Part = Box::new(|| {
            loop {
                Stepped::wait(0);
            }
        });
        let short: Part = Box::new(|| ());
        let played = play(1, 5_000, false, vec![short, endless]);
        assert_eq!(played.ended, Ended::Endless { left: vec![1] });

        let limited = || -> Part {
            Box::new(|| {
                let start = Stepped::now_ns();
                while Stepped::now_ns() - start < 10_000_000_000 {
                    Stepped::wait(0);
                }
            })
        };
        let played = play(1, 50_000, false, vec![limited(), limited()]);
        assert_eq!(played.ended, Ended::Well);
    }

    #[test]
    fn a_panic_is_told_with_its_words() {
        let played = play(1, 1000, false, vec![Box::new(|| panic!("number {}", 7))]);
        let message = "number 7".to_owned();
        assert_eq!(played.ended, Ended::Panicked { part: 0, message });
    }

    #[test]
    fn parts_keep_their_own_order() {
        let said = Rc::new(RefCell::new(Vec::new()));
        let parts = (0..3).map(|part| {
            let said = Rc::clone(&said);
            Box::new(move || {
                for number in 0..5 {
                    super::super::machine::step();
                    said.borrow_mut().push((part, number));
                }
            }) as Part
        });
        play(9, 1000, false, parts.collect());
        for part in 0..3 {
            let own: Vec<_> = said.borrow().iter().filter(|s| s.0 == part).map(|s| s.1).collect();
            assert_eq!(own, [0, 1, 2, 3, 4]);
        }
    }
}
