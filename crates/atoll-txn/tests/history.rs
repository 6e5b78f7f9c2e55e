//! NO_WAIT is serializable, and snapshots have a place in the same order: real threads run random
//! transactions over a few keys and write down what they saw, see `recorded/graph.rs`.
//!
//! Schemes with planted faults show that the judge finds what it is there to find.
#![allow(clippy::unwrap_used)]

mod recorded;

use std::sync::atomic::{AtomicBool, Ordering};

use atoll_machine::Native;
use atoll_storage::Value;
use atoll_txn::no_wait::{Local, Lock};
use atoll_txn::scheme::{Guarded, Place, States};
use atoll_txn::{AbortReason, NoWait, Scheme, Stop};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use recorded::{DOOMED, DOOMED_END, FRESH, HOT, Recorder, Session};

const THREADS: u64 = 4;

fn step<S: Scheme<Native>>(
    session: &mut Session<'_, S>,
    recorder: &Recorder<S>,
    random: &mut StdRng,
) -> Result<(), Stop> {
    let hot = random.random_range(0..HOT);
    let doomed = random.random_range(DOOMED..DOOMED_END);
    let next = recorder.fresh.load(Ordering::SeqCst) as i64;
    let near = random.random_range((next - 4).max(FRESH)..next + 4);
    if random.random_bool(0.2) {
        std::thread::yield_now();
    }
    match random.random_range(0..100) {
        0..35 => session.read(hot).map(|_| ()),
        35..55 => session.update(hot),
        55..70 => session.own_and_update(hot),
        70..75 => session.replace(hot),
        75..83 => session.read(near).map(|_| ()),
        83..90 => {
            recorder.fresh.fetch_max(near as u64 + 1, Ordering::SeqCst);
            session.insert(near)
        }
        90..95 => session.delete(doomed),
        _ => session.read(doomed).map(|_| ()),
    }
}

/// Runs random transactions until each thread has committed `commits` of them.
fn run<S: Scheme<Native>>(scheme: S, commits: usize, snapshots: bool) -> Recorder<S> {
    let recorder = Recorder::new(scheme);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|seed| {
                let recorder = &recorder;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed);
                    let mut session = recorder.session();
                    let mut left = commits;
                    while left > 0 {
                        session.begin();
                        let steps = random.random_range(1..6);
                        let done =
                            (0..steps).try_for_each(|_| step(&mut session, recorder, &mut random));
                        match done {
                            Ok(()) if random.random_bool(0.15) => session.rollback(),
                            Ok(()) => left -= usize::from(session.commit().is_ok()),
                            Err(Stop::Abort(AbortReason::Denied)) => std::thread::yield_now(),
                            Err(stop) => panic!("{stop}"),
                        }
                    }
                })
            })
            .collect();
        if snapshots {
            scope.spawn(|| {
                let mut left = 400;
                while !stop.load(Ordering::Relaxed) && left > 0 {
                    recorder.snapshot(true);
                    left -= 1;
                    std::thread::yield_now();
                }
            });
        }
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    recorder
}

#[test]
fn random_transactions_and_snapshots_beside_them_are_serializable() {
    let recorder = run(NoWait, 1500, true);
    let done = recorder.done.lock().unwrap().len();
    assert!(done > THREADS as usize * 1500, "snapshots were taken");
    assert!(recorder.engine.counts().aborts[AbortReason::Denied.index()] > 100, "they collided");
    assert_eq!(recorder.anomaly(), None);
    assert_eq!(
        (recorder.engine.memory().kept_bytes_all(), recorder.engine.memory().leases()),
        (0, 0)
    );
}

/// NO_WAIT with a fault.
struct Faulty(Fault);

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Rows are read without their lock.
    UnlockedReads,
    /// Who finds a key absent does not keep it absent.
    UnlockedAbsence,
    /// Locks are let go as soon as the next one is asked for.
    EarlyRelease,
}

impl Scheme<Native> for Faulty {
    const NAME: &'static str = "FAULTY";
    type State = Lock<Native>;
    type Local = Local;

    fn begin(&self, local: &mut Local) {
        Scheme::<Native>::begin(&NoWait, local);
    }

    fn read(
        &self,
        local: &mut Local,
        states: &impl States<Lock<Native>>,
        place: Place,
    ) -> Result<(), AbortReason> {
        let is_row = matches!(place.what, Guarded::Row(_));
        match self.0 {
            Fault::UnlockedReads if is_row => return Ok(()),
            Fault::UnlockedAbsence if !is_row => return Ok(()),
            Fault::EarlyRelease => Scheme::<Native>::end(&NoWait, local, states),
            _ => {}
        }
        NoWait.read(local, states, place)
    }

    fn write(
        &self,
        local: &mut Local,
        states: &impl States<Lock<Native>>,
        place: Place,
    ) -> Result<(), AbortReason> {
        if self.0 == Fault::EarlyRelease {
            Scheme::<Native>::end(&NoWait, local, states);
        }
        NoWait.write(local, states, place)
    }

    fn validate(
        &self,
        local: &mut Local,
        states: &impl States<Lock<Native>>,
    ) -> Result<(), AbortReason> {
        NoWait.validate(local, states)
    }

    fn end(&self, local: &mut Local, states: &impl States<Lock<Native>>) {
        NoWait.end(local, states);
    }
}

#[derive(Clone, Copy)]
enum Do {
    Read(i64),
    Update(i64),
    Insert(i64),
    Commit,
}

/// Runs two transactions in the given order on one thread; what is refused does no more.
fn script(fault: Fault, steps: &[(usize, Do)]) -> Option<String> {
    let recorder = Recorder::new(Faulty(fault));
    let mut sessions = [recorder.session(), recorder.session()];
    let mut is_open = [true; 2];
    sessions.iter_mut().for_each(Session::begin);
    for (at, what) in steps {
        if !is_open[*at] {
            continue;
        }
        let session = &mut sessions[*at];
        let done = match *what {
            Do::Read(key) => session.read(key).map(|_| ()),
            Do::Update(key) => session.update(key),
            Do::Insert(key) => session.insert(key),
            Do::Commit => session.commit(),
        };
        is_open[*at] = done.is_ok();
    }
    drop(sessions);
    recorder.anomaly()
}

const LOST_UPDATE: &[(usize, Do)] = &[
    (0, Do::Read(1)),
    (0, Do::Read(3)),
    (1, Do::Update(1)),
    (1, Do::Update(2)),
    (1, Do::Commit),
    (0, Do::Read(2)),
    (0, Do::Commit),
];

const PHANTOM: &[(usize, Do)] = &[
    (0, Do::Read(FRESH)),
    (1, Do::Insert(FRESH)),
    (1, Do::Update(2)),
    (1, Do::Commit),
    (0, Do::Read(2)),
    (0, Do::Commit),
];

const DIRTY_READ: &[(usize, Do)] =
    &[(0, Do::Update(1)), (0, Do::Read(2)), (1, Do::Read(1)), (1, Do::Commit), (0, Do::Update(3))];

#[test]
fn each_planted_fault_is_found_by_the_judge_and_the_sound_scheme_passes() {
    for steps in [LOST_UPDATE, PHANTOM, DIRTY_READ] {
        assert_eq!(script(Fault::None, steps), None);
    }
    let cases = [
        (Fault::UnlockedReads, LOST_UPDATE, "cycle"),
        (Fault::UnlockedAbsence, PHANTOM, "cycle"),
        (Fault::EarlyRelease, LOST_UPDATE, "cycle"),
        (Fault::EarlyRelease, DIRTY_READ, "nobody left that"),
    ];
    for (at, (fault, steps, expected)) in cases.into_iter().enumerate() {
        let found = script(fault, steps).unwrap_or_default();
        assert!(found.contains(expected), "case {at} found {found:?}");
    }
}

#[test]
fn random_transactions_without_read_locks_are_found_out() {
    let found = run(Faulty(Fault::UnlockedReads), 400, false).anomaly();
    assert!(found.is_some());
}

#[test]
fn a_snapshot_that_does_not_undo_what_was_open_at_its_cut_is_found_out() {
    for patched in [true, false] {
        let recorder = Recorder::new(NoWait);
        let mut session = recorder.session();
        session.begin();
        session.update(1).unwrap();
        session.delete(DOOMED).unwrap();
        recorder.snapshot(patched);
        session.update(2).unwrap();
        session.commit().unwrap();
        let found = recorder.anomaly();
        assert_eq!(found.is_none(), patched, "{found:?}");
    }
}

/// If deleting looked through what the transaction deleted before, this would take minutes.
#[test]
fn a_transaction_deletes_and_inserts_fifty_thousand_rows() {
    const ROWS: i64 = 50_000;
    let recorder = Recorder::new(NoWait);
    let table = &recorder.table;
    let before = table.row_count();
    let mut worker = recorder.engine.worker().unwrap();
    let row = |id: i64| [id.into(), id.into(), 0i64.into()];
    worker.begin();
    (FRESH..FRESH + ROWS).for_each(|id| worker.insert(table, &row(id)).unwrap());
    worker.commit().unwrap();
    assert_eq!(table.row_count(), before + ROWS as u64);

    for commits in [false, true] {
        worker.begin();
        for id in FRESH..FRESH + ROWS {
            assert!(worker.delete(table, &[id.into()]).unwrap());
            if id % 2 == 0 {
                worker.insert(table, &[id.into(), (-id).into(), 1i64.into()]).unwrap();
            }
        }
        if commits {
            worker.commit().unwrap();
        } else {
            worker.abort(AbortReason::Requested);
            assert_eq!(table.row_count(), before + ROWS as u64);
        }
    }
    assert_eq!(table.row_count(), before + ROWS as u64 / 2);
    worker.begin();
    for id in FRESH..FRESH + ROWS {
        let read = worker.read(table, &[id.into()], [1].into_iter()).unwrap();
        assert_eq!(read, (id % 2 == 0).then(|| vec![Value::Int64(-id)]));
    }
    worker.commit().unwrap();
}
