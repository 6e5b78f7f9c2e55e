//! Threads that flush logs beside each other, one for each log of several.
//!
//! Who waits for a commit in several logs, or for what it has seen in them, would flush one after
//! the other. So it asks for all but the first, flushes that one, and then waits for the others,
//! or leads those that nobody has begun: an answer is never needed, and without threads left the
//! logs are flushed one after the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::logs::Logs;

/// What one of the threads is asked for.
#[derive(Default)]
struct Wanted {
    /// Everything up to this GSN is to be durable.
    gsn: u64,
    is_over: bool,
}

/// A thread that flushes one log.
#[derive(Default)]
struct Helper {
    wanted: Mutex<Wanted>,
    asked: Condvar,
}

/// See the module. The threads end after this is dropped.
pub(crate) struct Helpers(Vec<Arc<Helper>>);

impl Helper {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, logs: &Weak<Logs>, number: usize) {
        let mut done = 0;
        loop {
            let wanted = self.lock();
            let wanted =
                self.asked.wait_while(wanted, |wanted| wanted.gsn <= done && !wanted.is_over);
            let wanted = wanted.unwrap_or_else(PoisonError::into_inner);
            done = wanted.gsn;
            if wanted.is_over {
                return;
            }
            drop(wanted);
            let Some(logs) = logs.upgrade() else { return };
            // A failure is told to whoever asked, when it comes to that log.
            let _ = logs.flush_log(number, done);
        }
    }
}

impl Helpers {
    /// Threads for so many logs; none for a single one.
    pub(crate) fn start(logs: &Weak<Logs>, count: usize) -> Self {
        let each = (0..count).map(|number| {
            let (helper, logs) = (Arc::new(Helper::default()), Weak::clone(logs));
            let own = Arc::clone(&helper);
            let name = format!("atoll-flush-{number}");
            let body = move || own.run(&logs, number);
            // Nobody depends on it.
            let _ = std::thread::Builder::new().name(name).spawn(body);
            helper
        });
        Self(if count > 1 { each.collect() } else { Vec::new() })
    }

    /// Asks for everything of a log up to a GSN.
    pub(crate) fn ask(&self, number: usize, gsn: u64) {
        let Some(helper) = self.0.get(number) else { return };
        let mut wanted = helper.lock();
        if wanted.gsn < gsn {
            wanted.gsn = gsn;
            helper.asked.notify_one();
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        for helper in &self.0 {
            helper.lock().is_over = true;
            helper.asked.notify_one();
        }
    }
}
