//! Room for blocks: promises of it, and the files that have it.
//!
//! 1. A writer asks for room. If the ring is full, it flushes; if other writers have been promised
//!    the rest of the ring, it waits until they use it or return it.
//! 2. If the files are full, the writer creates the next one. A helper thread usually has done so
//!    ahead, at a gentle pace.
//! 3. A checkpoint releases files that recovery does not need any more; they are used again.
//!
//! - `ROOM-1`: one thread at a time creates or recycles files, and none after the log has been
//!   sealed.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use atoll_machine::pause;

use super::{Alone, Log, SLACK_BYTES, lock};
use crate::error::LogError;
use crate::files::Pace;

/// Whether files may still be created.
#[derive(Default)]
pub(super) struct Making {
    pub(super) is_over: bool,
}

impl Log {
    /// Promises room for `bytes`. When the ring is full, it flushes or waits for flushes; when the
    /// files are full, it creates the next one.
    pub(crate) fn admit(&self, bytes: u64) -> Result<(), LogError> {
        let mut round = 0;
        loop {
            self.check()?;
            let durable = self.durable_lsn();
            let mut tail = lock(&self.latch);
            let promised = tail.promised + bytes;
            let fits = promised + SLACK_BYTES <= durable + self.ring.capacity_bytes();
            if fits && promised + SLACK_BYTES <= tail.ready {
                tail.promised = promised;
                return Ok(());
            }
            let last = tail.last;
            drop(tail);
            if fits {
                self.prepare(promised + SLACK_BYTES)?;
            } else if self.durable_lsn() == durable {
                // Promised blocks may take a while to arrive; those in the ring can be flushed.
                self.flush_to(last, &Alone)?;
                if self.durable_lsn() == durable {
                    pause(round);
                    round = round.saturating_add(1);
                }
            }
        }
    }

    /// Creates files up to a position, without pauses, since the caller waits for them.
    pub(super) fn prepare(&self, end: u64) -> Result<(), LogError> {
        let making = self.hurried_making();
        self.make(&making, end, || Pace::Hurried)
    }

    /// Locks `making`; a thread that is creating a file gently hurries meanwhile.
    pub(super) fn hurried_making(&self) -> MutexGuard<'_, Making> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let making = lock(&self.making);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        making
    }

    fn make(&self, making: &Making, end: u64, pace: impl Fn() -> Pace) -> Result<(), LogError> {
        loop {
            if making.is_over {
                return Err(LogError::Closed);
            }
            let next = {
                let files = lock(&self.files);
                self.note_ready(files.end());
                if files.end() >= end {
                    return Ok(());
                }
                files.next()
            };
            let Some(file) = next.make(&pace)? else { return Ok(()) };
            lock(&self.files).add(next.number, file);
        }
    }

    fn note_ready(&self, ready: u64) {
        let mut tail = lock(&self.latch);
        tail.ready = tail.ready.max(ready);
    }

    /// Creates the next file while writers fill the current one, until `is_stopped`.
    pub(crate) fn prepare_ahead(
        &self,
        ahead_bytes: u64,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(), LogError> {
        let (promised, ready) = {
            let tail = lock(&self.latch);
            (tail.promised, tail.ready)
        };
        if ready < promised + ahead_bytes {
            let pace = || match self.hurried.load(Ordering::Relaxed) {
                _ if is_stopped() => Pace::Stop,
                0 => Pace::Gentle,
                _ => Pace::Hurried,
            };
            self.make(&lock(&self.making), promised + ahead_bytes, pace)?;
        }
        Ok(())
    }

    /// Returns promised room that the caller does not need.
    pub(crate) fn withdraw(&self, bytes: u64) {
        lock(&self.latch).promised -= bytes;
    }

    /// Recovery needs no bytes before `start`. Recycles files before it until there are `spares`
    /// files from the one of `start` on, and removes the others.
    pub(crate) fn release(&self, start: u64, spares: u64) -> Result<(), LogError> {
        let making = self.hurried_making();
        if making.is_over {
            return Err(LogError::Closed);
        }
        let (unneeded, last) = {
            let mut files = lock(&self.files);
            (files.unneeded(start)?, files.number_of(start) + spares)
        };
        let (count, done) = unneeded.recycle(|next| next < last);
        let mut files = lock(&self.files);
        files.reuse(count);
        self.note_ready(files.end());
        Ok(done?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::OnceCell;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use atoll_machine::CrashMedium;
    use atoll_machine::pause::pause_with;

    use super::*;
    use crate::files::Files;
    use crate::log::Start;
    use crate::options::LogsOptions;
    use crate::ring::Ring;

    thread_local! {
        static WAITS: OnceCell<mpsc::Sender<u32>> = const { OnceCell::new() };
    }

    #[test]
    fn a_writer_pauses_while_others_have_not_used_the_room_that_they_were_promised() {
        let LogsOptions { file_bytes, ring_bytes, .. } = LogsOptions::default();
        let files = Files::open(Arc::new(CrashMedium::default()), file_bytes, 0).unwrap();
        let start = Start { lsn: 0, gsn: 0 };
        let log = Arc::new(Log::new(0, 1, start, Ring::new(ring_bytes), files));
        let all = ring_bytes - SLACK_BYTES;
        log.admit(all).unwrap();
        let (waits, waited) = mpsc::channel();
        let same = Arc::clone(&log);
        let writer = std::thread::spawn(move || {
            WAITS.with(|cell| cell.set(waits).unwrap());
            pause_with(Some(|round| WAITS.with(|cell| cell.get().unwrap().send(round).unwrap())));
            same.admit(1)
        });
        // The limit only ends a broken test.
        let limit = Duration::from_secs(20);
        let rounds: Vec<_> = (0..3).map_while(|_| waited.recv_timeout(limit).ok()).collect();
        log.withdraw(all);
        writer.join().unwrap().unwrap();
        assert_eq!(rounds, [0, 1, 2]);
    }
}
