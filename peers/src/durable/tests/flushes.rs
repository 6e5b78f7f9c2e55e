//! Counts the flushes of a thread, whichever library makes them.
//!
//! The program's own `fsync` and `fdatasync` take precedence over those of the C library, for
//! libraries that are linked statically and for shared ones.

use std::cell::Cell;
use std::ffi::{c_int, c_long};

thread_local! {
    static FLUSHES: Cell<u64> = const { Cell::new(0) };
}

/// Number of flushes that the calling thread has made.
pub fn of_this_thread() -> u64 {
    FLUSHES.get()
}

fn flush(call: c_long, file: c_int) -> c_int {
    FLUSHES.set(FLUSHES.get() + 1);
    // SAFETY: both calls take only a descriptor, and return -1 and set `errno` for an invalid one.
    let done = unsafe { libc::syscall(call, file) };
    done as c_int
}

// SAFETY: the signature and the semantics are those of the C library.
#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    flush(libc::SYS_fsync, file)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    flush(libc::SYS_fdatasync, file)
}
