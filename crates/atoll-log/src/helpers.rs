//! Threads that flush several logs in parallel, one thread for each log.
//!
//! A caller that waits for a commit in several logs, or for what it has seen in them, would flush
//! them one after the other. Instead it asks a helper thread to flush each log but the first,
//! flushes the first itself, and then goes through the others: it waits for the flushes that
//! helpers have begun and leads those that no thread has begun. So the caller never depends on an
//! answer of a helper, and without helper threads it flushes one log after the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a helper thread is asked for.
#[derive(Default)]
struct Wanted {
    /// The log must be durable up to this GSN.
    gsn: u64,
    is_over: bool,
}

/// A thread that flushes one log.
#[derive(Default)]
struct Helper {
    wanted: Mutex<Wanted>,
    asked: Condvar,
}

/// The helper threads of all logs. They end after this is dropped.
pub(crate) struct Helpers(Vec<Arc<Helper>>);

impl Helper {
    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, flush: impl Fn(u64) -> bool) {
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
            if !flush(done) {
                return;
            }
        }
    }
}

impl Helpers {
    /// Starts one thread for each of `count` logs; none for a single log. `flush` makes a log
    /// durable up to a GSN, and returns false once there are no logs any more.
    pub(crate) fn start(
        count: usize,
        flush: impl Fn(usize, u64) -> bool + Clone + Send + 'static,
    ) -> Self {
        let each = (0..count).map(|number| {
            let (helper, flush) = (Arc::new(Helper::default()), flush.clone());
            let own = Arc::clone(&helper);
            let name = format!("atoll-flush-{number}");
            let body = move || own.run(|gsn| flush(number, gsn));
            // Without the thread the caller flushes the log itself.
            let _ = std::thread::Builder::new().name(name).spawn(body);
            helper
        });
        Self(if count > 1 { each.collect() } else { Vec::new() })
    }

    /// Asks for a log to be made durable up to a GSN.
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
