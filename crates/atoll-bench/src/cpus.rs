//! Placement of threads: writers on CPUs of their own, all other threads on the remaining CPUs.

use atoll::machine::{CpuId, allowed_cpus, pin_current_thread};

use crate::error::BenchError;

/// A division of the CPUs that this process may use.
#[derive(Debug, Clone)]
pub struct Cpus {
    all: Vec<CpuId>,
    writers: Vec<CpuId>,
    others: Vec<CpuId>,
    pin: bool,
}

impl Cpus {
    /// Reserves the first CPUs for `writers` threads, but leaves at least one to all other threads.
    /// With `pin` false the system places all threads.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn divide(writers: usize, pin: bool) -> Result<Self, BenchError> {
        let all = allowed_cpus()?.to_vec();
        let own = writers.min(all.len().saturating_sub(1));
        let (first, rest) = all.split_at(own);
        Ok(Self { writers: first.to_vec(), others: rest.to_vec(), all, pin: pin && own > 0 })
    }

    /// One CPU for each of `workers` threads, round robin when there are more threads than CPUs; no
    /// CPU is reserved for other threads. With `pin` false the system places all threads.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn share(workers: usize, pin: bool) -> Result<Self, BenchError> {
        let all = allowed_cpus()?.to_vec();
        let (writers, rest) = all.split_at(workers.min(all.len()));
        let others = if rest.is_empty() { &all } else { rest };
        Ok(Self { writers: writers.to_vec(), others: others.to_vec(), pin, all })
    }

    /// Number of CPUs that this process may use.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Places the calling thread as writer number `writer`.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn pin_writer(&self, writer: usize) -> Result<(), BenchError> {
        match self.writers.get(writer % self.writers.len().max(1)) {
            Some(cpu) if self.pin => Ok(pin_current_thread(&[*cpu])?),
            _ => Ok(()),
        }
    }

    /// Places the calling thread, and the threads and processes that it starts, on the CPUs that
    /// are not reserved for writers.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn pin_other(&self) -> Result<(), BenchError> {
        if self.pin { Ok(pin_current_thread(&self.others)?) } else { Ok(()) }
    }

    /// Lets the calling thread run anywhere again.
    ///
    /// # Errors
    /// [`BenchError::Machine`].
    pub fn unpin(&self) -> Result<(), BenchError> {
        if self.pin { Ok(pin_current_thread(&self.all)?) } else { Ok(()) }
    }
}
