//! The display while the demo runs: a bar for each file, then one live line.
//!
//! All of it goes to the standard error output. Without a terminal only the permanent lines are
//! written.

use std::time::Duration;

use atoll_sql::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Result;
use crate::output::{Style, say};
use crate::size;

/// What [`Screen::loading`] hands to a load.
pub type OnProgress<'a> = dyn FnMut(Progress) + 'a;

/// The demo's part of the terminal.
pub struct Screen {
    style: Style,
    live: ProgressBar,
}

impl Screen {
    /// The terminal, if there is one.
    pub fn new(style: Style) -> Self {
        let live = ProgressBar::new_spinner();
        if let Ok(look) = ProgressStyle::with_template("{spinner:.cyan} {msg}") {
            live.set_style(look);
        }
        Self { style, live }
    }

    /// Writes a permanent line under a heading.
    pub fn note(&self, heading: &str, text: &str) {
        let line = format!("{} {text}", self.style.bold(&format!("{heading:>9}")));
        self.live.suspend(|| say(&line));
    }

    /// Shows what is going on now.
    pub fn show(&self, text: String) {
        self.live.set_message(text);
        self.live.tick();
    }

    /// Nothing is going on any more.
    pub fn clear(&self) {
        self.live.finish_and_clear();
    }

    /// Shows a bar while a file is loaded.
    ///
    /// # Errors
    /// Those of the load.
    pub fn loading(
        &self,
        table: &str,
        load: impl FnOnce(&mut OnProgress<'_>) -> Result<u64>,
    ) -> Result<u64> {
        let bar = ProgressBar::new(0);
        let look = "{prefix:>9} [{bar:32.cyan}] {bytes} of {total_bytes}, {msg}";
        if let Ok(look) = ProgressStyle::with_template(look) {
            bar.set_style(look.progress_chars("━━─"));
        }
        bar.set_prefix(table.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        let loaded = load(&mut |progress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes_done);
            bar.set_message(size::counted(progress.rows, "row"));
        });
        bar.finish_and_clear();
        let rows = loaded?;
        self.note(table, &size::counted(rows, "row"));
        Ok(rows)
    }
}
