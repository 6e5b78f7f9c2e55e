//! Counts the flushes of a thread, whichever library asks for them.
//!
//! The program's own `fsync` and `fdatasync` come before those of the C library, for libraries
//! that are linked into it and for those that are loaded beside it.

use std::cell::Cell;
use std::ffi::{c_int, c_long};

thread_local! {
    static FLUSHES: Cell<u64> = const { Cell::new(0) };
}

/// Flushes that the calling thread has asked for.
pub fn of_this_thread() -> u64 {
    FLUSHES.get()
}

fn flush(call: c_long, file: c_int) -> c_int {
    FLUSHES.set(FLUSHES.get() + 1);
    // SAFETY: both calls take a descriptor alone, and answer -1 and `errno` for a bad one.
    let done = unsafe { libc::syscall(call, file) };
    done as c_int
}

// SAFETY: the signature and the meaning are those of the C library.
#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    flush(libc::SYS_fsync, file)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    flush(libc::SYS_fdatasync, file)
}
