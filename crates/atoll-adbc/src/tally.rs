//! The number of rows of the statement that has just run on this thread.
//!
//! A result that is a stream comes without it through the traits of `adbc_core`, so the function of
//! the C interface that runs a statement takes it from here ([`crate::entry`]).

use std::cell::Cell;

thread_local! {
    static ROWS: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Notes the rows of a statement: those that it returned, or those that it changed; `None` where
/// they are yet to be read.
pub(crate) fn note(rows: Option<u64>) {
    ROWS.set(rows.and_then(|rows| i64::try_from(rows).ok()));
}

/// Takes what was noted on this thread.
pub(crate) fn take() -> Option<i64> {
    ROWS.take()
}
