//! What a benchmark tells while it runs.

/// Who is told.
pub trait Watcher {
    /// Something begins, or has been found out: one short line.
    fn say(&mut self, line: &str);

    /// What began last is done to this share, from 0 to 1, and `how` it goes in a few words. Called
    /// often.
    fn reach(&mut self, share: f64, how: &str);
}

/// Where progress is told.
pub type Progress<'p> = &'p mut dyn Watcher;

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn say(&mut self, _line: &str) {}
    fn reach(&mut self, _share: f64, _how: &str) {}
}
