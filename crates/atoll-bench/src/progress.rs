//! Progress of a benchmark.

/// A receiver of progress messages.
pub trait Watcher {
    /// A step begins, or has a result: one short line.
    fn say(&mut self, line: &str);

    /// The current step is done to this share, from 0 to 1; `how` describes its state in a few
    /// words. Called often.
    fn reach(&mut self, share: f64, how: &str);
}

/// The receiver of a benchmark's progress.
pub type Progress<'p> = &'p mut dyn Watcher;

/// A receiver that ignores all messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn say(&mut self, _line: &str) {}
    fn reach(&mut self, _share: f64, _how: &str) {}
}
