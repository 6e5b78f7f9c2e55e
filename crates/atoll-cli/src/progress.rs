//! The progress of a benchmark or another long operation on the standard error output: permanent
//! lines, and a bar below them.
//!
//! Without a terminal there is no bar but a line every few seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use atoll_bench::progress::Watcher;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Style, say};

/// Between two lines about how it goes, where there is no bar.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How often a bar is drawn, at most.
const DRAWN_HZ: u8 = 4;
/// Parts of a bar.
const PARTS: f64 = 1000.0;

/// See the module.
pub struct Progress {
    style: Style,
    is_terminal: bool,
    bar: Option<ProgressBar>,
    told: Instant,
}

impl Progress {
    /// Nothing has been said yet.
    pub fn new(style: Style) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { style, is_terminal, bar: None, told: Instant::now() }
    }

    fn bar(style: Style) -> ProgressBar {
        // Drawn rarely: a benchmark's threads have all CPUs.
        let target = ProgressDrawTarget::stderr_with_hz(DRAWN_HZ);
        let bar = ProgressBar::with_draw_target(Some(PARTS as u64), target);
        let color = if style.has_color() { ".cyan" } else { "" };
        let look = format!("  [{{bar:32{color}}}] {{percent:>3}} %  {{msg}}");
        if let Ok(look) = ProgressStyle::with_template(&look) {
            bar.set_style(look.progress_chars("━━─"));
        }
        bar
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Progress {
    fn say(&mut self, line: &str) {
        self.clear();
        self.told = Instant::now();
        say(&self.style.dim(line));
    }

    fn reach(&mut self, share: f64, how: &str) {
        if self.is_terminal {
            let bar = self.bar.get_or_insert_with(|| Self::bar(self.style));
            let position = (share.clamp(0.0, 1.0) * PARTS) as u64;
            // Drawn once, so that the share and what it is of are of the same moment.
            bar.clone().with_position(position).set_message(how.to_owned());
        } else if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let percent = share.clamp(0.0, 1.0) * 100.0;
            say(&self.style.dim(format!("{percent:.0} %  {how}").trim_end()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
