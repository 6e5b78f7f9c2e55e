//! A warning that is given once per process.
//!
//! A library does not choose where a message goes, so the caller passes the output; this type only
//! remembers whether the warning was given.

use std::sync::atomic::{AtomicBool, Ordering};

/// Passes the first message on and drops all later ones.
///
/// ```
/// use atoll_machine::WarnOnce;
///
/// static NO_SPACE_LEFT: WarnOnce = WarnOnce::new();
/// let mut said = Vec::new();
/// for _ in 0..3 {
///     NO_SPACE_LEFT.warn(|| said.push("the cache is full"));
/// }
/// assert_eq!(said, ["the cache is full"]);
/// ```
#[derive(Debug, Default)]
pub struct WarnOnce {
    said: AtomicBool,
}

impl WarnOnce {
    /// No warning has been given yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { said: AtomicBool::new(false) }
    }

    /// Calls `say` if this is the first call, on any thread.
    pub fn warn(&self, say: impl FnOnce()) {
        if !self.said.swap(true, Ordering::Relaxed) {
            say();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn of_many_threads_one_is_heard() {
        let once = WarnOnce::new();
        let heard = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| once.warn(|| _ = heard.fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}
