//! Threads for connections that have something to do.
//!
//! `POOL-1`: a job never waits for another one: it has a thread at once, one that rests or a new
//! one. Those that give jobs limit how many there are (`SERVER-2`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Time that a thread rests before it ends.
const REST: Duration = Duration::from_secs(10);
/// Stack of a thread. Statements that need more get it elsewhere.
const STACK_BYTES: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads, which end when it is dropped and they have no job.
#[derive(Clone, Default)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    has_job: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that rest.
    resting: usize,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // No job runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state();
                continue;
            }
            state.resting += 1;
            let waited = self.has_job.wait_timeout(state, REST);
            let (waited, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = waited;
            state.resting -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                return;
            }
        }
    }
}

impl Pool {
    /// Runs a job on a thread of its own. Without one the job is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state();
        state.jobs.push_back(Box::new(job));
        if state.resting >= state.jobs.len() {
            drop(state);
            self.0.has_job.notify_one();
            return;
        }
        drop(state);
        let inner = Arc::clone(&self.0);
        let builder = Builder::new().name("atoll-client".into()).stack_size(STACK_BYTES);
        if builder.spawn(move || inner.work()).is_err() {
            // The system has no more threads: the client sees its connection close.
            let job = self.0.state().jobs.pop_back();
            drop(job);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_that_wait_for_later_ones_all_end() {
        let pool = Pool::default();
        let (done, ended) = channel();
        let mut last = None;
        for _ in 0..50 {
            let (go, went) = channel::<()>();
            let (done, next) = (done.clone(), last.take());
            pool.run(move || {
                went.recv().unwrap();
                drop::<Option<std::sync::mpsc::Sender<()>>>(next);
                done.send(()).unwrap();
            });
            last = Some(go);
        }
        pool.run(move || last.unwrap().send(()).unwrap());
        ended.recv().unwrap();
    }
}
