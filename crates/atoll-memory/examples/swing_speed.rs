//! Prints the cost of `allocate` and `free`, in nanoseconds per call, for several sizes.
//!
//! "again" frees and allocates one extent over and over, as copy-on-write does. The others allocate
//! a batch and then free it: "warm" is the work of the tree, "cold" includes that of the system,
//! which allocates, zeroes and frees every page.

use atoll_memory::{MemoryError, Store, StoreOptions, SwingConfig, SwingMalloc};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn main() -> Result<(), MemoryError> {
    let config = SwingConfig { buddy_bytes: 8 << 30, ..SwingConfig::default() };
    let capacity_bytes = SwingMalloc::capacity_for(&config);
    let options = StoreOptions { capacity_bytes, limit_bytes: 2 << 30, huge_pages: true };
    let store = Arc::new(Store::create_memfd("swing-speed", &options)?);
    let swing = SwingMalloc::create(store, &config)?;
    println!(
        "ns per call {:>8} {:>21} {:>23}",
        "again", "warm allocate, free", "cold allocate, free"
    );
    for (name, size, batch) in [
        ("128 B", 128, 200_000_u64),
        ("4 KiB", 4096, 50_000),
        ("64 KiB", 64 << 10, 4_000),
        ("1 MiB", MIB, 400),
        ("64 MiB", 64 * MIB, 8),
    ] {
        let again = again(&swing, size)?;
        swing.set_warm_bytes(0);
        swing.trim();
        let cold = many(&swing, size, batch)?;
        swing.set_warm_bytes(u64::MAX);
        many(&swing, size, batch)?;
        let warm = many(&swing, size, batch)?;
        println!(
            "{name:>11} {again:>8.1} {:>11.1} {:>9.1} {:>12.1} {:>10.1}",
            warm.0, warm.1, cold.0, cold.1
        );
        swing.trim();
    }
    Ok(())
}

fn per_call(time: Duration, calls: u64) -> f64 {
    time.as_secs_f64() * 1e9 / calls as f64
}

/// One call of a pair of `free` and `allocate`.
fn again(swing: &SwingMalloc, size: u64) -> Result<f64, MemoryError> {
    const PAIRS: u64 = 1_000_000;
    let mut extent = swing.allocate(size)?;
    let start = Instant::now();
    for _ in 0..PAIRS {
        swing.free(extent.offset)?;
        extent = swing.allocate(size)?;
    }
    let time = start.elapsed();
    swing.free(extent.offset)?;
    Ok(per_call(time, 2 * PAIRS))
}

fn many(swing: &SwingMalloc, size: u64, batch: u64) -> Result<(f64, f64), MemoryError> {
    let start = Instant::now();
    let extents = (0..batch).map(|_| swing.allocate(size)).collect::<Result<Vec<_>, _>>()?;
    let allocate = start.elapsed();
    let start = Instant::now();
    for extent in extents {
        swing.free(extent.offset)?;
    }
    Ok((per_call(allocate, batch), per_call(start.elapsed(), batch)))
}
