//! The cost of copying an extent when nothing else is done: the lower bound of the writers' loss.
//!
//! The sources are copied in random order and take many times the caches, as with uniform updates.
//! The targets are once memory that was used before, and once memory that the store must first get
//! from the system.

use std::sync::Arc;
use std::time::Instant;

use atoll::SEGMENT_ROWS;
use atoll_memory::{Memory, Purpose, Store, StoreOptions, SwingConfig, SwingMalloc};

use super::report::CopyCost;
use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::keys::Random;
use crate::stats::median;

/// Bytes of an extent with values of 8 bytes.
pub const EXTENT_BYTES: u64 = SEGMENT_ROWS as u64 * 8;
/// Number of sources: 256 MiB.
const EXTENTS: usize = 4096;
/// Passes over recycled memory.
const PASSES: usize = 5;

/// Measures on a writer's CPU.
///
/// # Errors
/// [`BenchError::Memory`].
pub fn measure(cpus: &Cpus, seed: u64) -> Result<CopyCost, BenchError> {
    std::thread::scope(|scope| {
        let work = || cpus.pin_writer(0).and_then(|()| measure_here(seed));
        scope.spawn(work).join().map_err(|_| BenchError::Panicked("measuring"))?
    })
}

fn new_memory() -> Result<Memory, BenchError> {
    let all_bytes = 4 * EXTENTS as u64 * EXTENT_BYTES;
    let config = SwingConfig { buddy_bytes: all_bytes, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&config),
        limit_bytes: all_bytes,
        huge_pages: true,
    };
    let store = Arc::new(Store::create_memfd("atoll-bench", &options)?);
    let swing = SwingMalloc::create(Arc::clone(&store), &config)?;
    swing.set_warm_bytes(all_bytes);
    Ok(Memory::new(store, swing))
}

fn measure_here(seed: u64) -> Result<CopyCost, BenchError> {
    let memory = new_memory()?;
    let mut sources = Vec::new();
    for n in 0..EXTENTS {
        let extent = memory.allocate(EXTENT_BYTES, Purpose::Ordinary)?;
        memory.access().fill(extent.offset, n as u8, EXTENT_BYTES);
        sources.push(extent.offset);
    }
    let mut random = Random::new(seed);
    let mut pass = || -> Result<f64, BenchError> {
        for at in (1..sources.len()).rev() {
            sources.swap(at, random.below(at as u64 + 1) as usize);
        }
        let begin = Instant::now();
        let mut copies = Vec::with_capacity(EXTENTS);
        for source in &sources {
            copies.push(memory.copy_extent(*source, EXTENT_BYTES, Purpose::Ordinary)?.offset);
        }
        let us = begin.elapsed().as_secs_f64() * 1e6 / EXTENTS as f64;
        copies.into_iter().for_each(|copy| memory.discard(copy));
        Ok(us)
    };
    let fresh_us = pass()?;
    let recycled = (0..PASSES).map(|_| pass()).collect::<Result<Vec<_>, _>>()?;
    let recycled_us = median(&recycled);
    let gib_per_s = EXTENT_BYTES as f64 / recycled_us * 1e6 / (1u64 << 30) as f64;
    Ok(CopyCost { extent_bytes: EXTENT_BYTES, recycled_us, fresh_us, gib_per_s })
}
