//! Panics of queries become errors of their statement.
//!
//! A query runs on the threads of its engine. A panic on any of them ends the query, is reported as
//! one error, and is not printed unless `RUST_BACKTRACE` asks for it. Panics of other threads are
//! treated as before.

use std::panic;
use std::sync::Once;
use std::thread;

/// The name of an engine's threads.
pub(crate) const THREADS: &str = "atoll-sql query";

/// Silences panics of queries from now on.
pub(crate) fn keep_quiet() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed while this thread unwinds.
    if thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let of_query = thread::current().name() == Some(THREADS);
            if !of_query || std::env::var_os("RUST_BACKTRACE").is_some() {
                before(panic);
            }
        }));
    });
}
