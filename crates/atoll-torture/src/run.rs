//! Runs: of one seed on [`Stepped`], and of threads on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll::machine::Machine;
use atoll_txn::history::History;

use super::actor::Actor;
use super::hands::Maker;
use super::hesitant;
use super::machine::{Stepped, step, wait};
use super::rules::Rules;
use super::scene::{Scene, Tally};
use super::stage::{Ended, Part, Turn, play};
use super::truths::Fault;
use super::workload::{Flavour, Plan};
use atoll_bench::keys::Random;

/// Most steps of one run; the longest ordinary runs take a tenth of it.
const STEPS_MAX: u64 = 1_000_000;
/// Transactions of a thread in one native run.
const NATIVE_PLANS: u64 = 400;
/// Snapshots of one native run.
const NATIVE_SNAPSHOTS: usize = 60;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Counts of transactions.
    pub tally: Tally,
    /// Shared accesses.
    pub steps: u64,
    /// The first fault found.
    pub fault: Option<Fault>,
    /// With [`Rules::keep`]: every turn and every transaction.
    pub kept: Option<(Vec<Turn>, History)>,
}

fn plans(random: &mut Random, flavour: &Flavour, count: u64) -> Vec<Plan> {
    (0..count).map(|_| flavour.plan(random)).collect()
}

/// The result of a run that could not be completed.
pub(super) fn failed(kind: &str, text: String) -> Run {
    let fault = Some(Fault { kind: kind.to_owned(), text });
    Run { tally: Tally::default(), steps: 0, fault, kept: None }
}

/// Runs the transactions of a seed in its schedule.
pub fn run_seed(make: Maker<Stepped>, seed: u64, rules: &Rules) -> Run {
    let mut random = Random::new(seed);
    let flavour = Flavour::draw(&mut random);
    let scene = match Scene::new(make, rules, flavour.cast) {
        Ok(scene) => scene,
        Err(text) => return failed("error", text),
    };
    let mut parts: Vec<Part> = Vec::new();
    let threads = 2 + random.below(3) as u32;
    for thread in 0..threads {
        let count = 2 + random.below(5);
        let plans = plans(&mut random, &flavour, count);
        let mut actor = match Actor::new(&scene, thread) {
            Ok(actor) => actor,
            Err(text) => return failed("error", text),
        };
        parts.push(Box::new(move || actor.run_all(&plans)));
    }
    let snapshots = random.below(5);
    if snapshots > 0 {
        let (scene, mut random) = (Arc::clone(&scene), Random::new(random.word()));
        let patched = rules.patched;
        parts.push(Box::new(move || {
            for _ in 0..snapshots {
                (0..random.below(30)).for_each(|_| wait(0));
                scene.snapshot(threads, patched, step);
                if random.below(4) == 0 {
                    scene.reclaim();
                }
            }
        }));
    }
    if random.below(2) == 0 {
        let mut keeper = match scene.ground.hands() {
            Ok(keeper) => keeper,
            Err(text) => return failed("error", text),
        };
        let mut random = Random::new(random.word());
        parts.push(Box::new(move || {
            for _ in 0..random.below(20) {
                (0..random.below(30)).for_each(|_| wait(0));
                keeper.collect_garbage(1 << random.below(8));
            }
        }));
    }
    let played = play(seed, STEPS_MAX, rules.keep, parts);
    let fault = |kind: &str, text: String| {
        // The run may have ended in any state, so nothing else is checked.
        let fault = Some(Fault { kind: kind.to_owned(), text });
        Run { tally: Tally::default(), steps: played.steps, fault, kept: None }
    };
    match played.ended {
        Ended::Well => {}
        Ended::Endless { left } => {
            let text = format!("after {} steps threads {left:?} had not ended", played.steps);
            std::mem::forget(scene);
            return fault("livelock", text);
        }
        Ended::Panicked { part, message } => {
            std::mem::forget(scene);
            return fault("panic", format!("thread {part}: {message}"));
        }
    }
    let (tally, fault) = scene.verdict(rules);
    let kept = rules.keep.then(|| (played.trace, scene.history()));
    Run { tally, steps: played.steps, fault, kept }
}

/// Runs threads of this machine against each other once; a run is short, to be repeated. `M` is
/// `Native`, or [`Hesitant`](super::hesitant::Hesitant).
pub fn run_native<M: Machine>(make: Maker<M>, seed: u64, threads: usize, rules: &Rules) -> Run {
    let mut random = Random::new(seed);
    let flavour = Flavour::draw(&mut random);
    let scene = match Scene::new(make, rules, flavour.cast) {
        Ok(scene) => scene,
        Err(text) => return failed("error", text),
    };
    let stop = AtomicBool::new(false);
    let panics = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let plans = plans(&mut random, &flavour, NATIVE_PLANS);
                let scene = Arc::clone(&scene);
                let sleeps = random.word();
                scope.spawn(move || {
                    hesitant::reseed(sleeps);
                    let mut actor = Actor::new(&scene, thread as u32)?;
                    actor.run_all(&plans);
                    Ok::<(), String>(())
                })
            })
            .collect();
        let taker = scope.spawn(|| {
            for _ in 0..NATIVE_SNAPSHOTS {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                scene.snapshot(threads as u32, rules.patched, || ());
                std::thread::yield_now();
            }
        });
        let mut ends: Vec<Option<String>> = Vec::new();
        for worker in workers {
            ends.push(match worker.join() {
                Ok(Ok(())) => None,
                Ok(Err(text)) => Some(text),
                Err(_) => Some("a worker panicked; its message is above".to_owned()),
            });
        }
        stop.store(true, Ordering::Relaxed);
        let taker = taker.join().err();
        ends.push(taker.map(|_| "the taker panicked; its message is above".to_owned()));
        ends.into_iter().flatten().next()
    });
    if let Some(text) = panics {
        return failed("error", text);
    }
    let (tally, fault) = scene.verdict(rules);
    Run { tally, steps: 0, fault, kept: None }
}
