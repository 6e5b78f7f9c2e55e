//! Ctrl-C at a terminal: it ends the running statement, and pressed twice the shell.
//!
//! While a statement runs, the first one cancels it and the second one has the shell end after it,
//! in its usual way: a database in a folder is closed. At an empty prompt two in a row do the same;
//! one that discards a typed line does not count, so that no database is closed by accident.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use atoll_sql::Question;
use rustyline::{Cmd, ConditionalEventHandler, Event, EventContext, EventHandler, RepeatCount};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::error::{CliError, Result};
use crate::output::say;

const FIRST: &str = "\ncancelling the statement; Ctrl-C again ends the shell too";
const SECOND: &str = "\nthe shell ends when the statement has; Ctrl-\\ ends this process \
                      at once, and what is only in its memory is lost";
const AT_PROMPT: &str = "Ctrl-C again, Ctrl-D or \\q ends the shell";

/// The state of the key presses.
#[derive(Debug, Default)]
struct State {
    /// Whether a statement runs.
    is_busy: AtomicBool,
    /// While the present or the last statement runs or ran.
    presses: AtomicU32,
    /// Whether the last one at the prompt found it empty.
    was_empty: AtomicBool,
    /// In a row at an empty prompt.
    at_prompt: AtomicU32,
}

/// Watches Ctrl-C for a shell.
#[derive(Debug, Clone, Default)]
pub struct Interrupts(Arc<State>);

impl Interrupts {
    /// From now on Ctrl-C does not end the process.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub fn watch() -> Result<Self> {
        let fault = |error: std::io::Error| CliError::Terminal(error.to_string());
        let interrupts = Self::default();
        let mut signals = Signals::new([SIGINT]).map_err(fault)?;
        let watched = interrupts.clone();
        std::thread::Builder::new()
            .name("atoll interrupts".to_owned())
            .spawn(move || signals.forever().for_each(|_| watched.press()))
            .map_err(fault)?;
        Ok(interrupts)
    }

    /// The question that a session asks while it runs a statement.
    pub fn question(&self) -> Arc<Question> {
        let state = Arc::clone(&self.0);
        Arc::new(move || state.presses.load(Ordering::Relaxed) > 0)
    }

    /// What the line editor does when Ctrl-C is pressed: as always, but it is noted whether there
    /// was something to discard.
    pub fn at_key(&self) -> EventHandler {
        EventHandler::Conditional(Box::new(self.clone()))
    }

    fn press(&self) {
        if !self.0.is_busy.load(Ordering::Relaxed) {
            return;
        }
        match self.0.presses.fetch_add(1, Ordering::Relaxed) {
            0 => say(FIRST),
            1 => say(SECOND),
            _ => {}
        }
    }

    /// A statement begins.
    pub fn begin(&self) {
        self.0.at_prompt.store(0, Ordering::Relaxed);
        self.0.presses.store(0, Ordering::Relaxed);
        self.0.is_busy.store(true, Ordering::Relaxed);
    }

    /// It has ended; returns whether the shell ends too.
    pub fn end(&self) -> bool {
        self.0.is_busy.store(false, Ordering::Relaxed);
        self.0.presses.swap(0, Ordering::Relaxed) >= 2
    }

    /// It was pressed at the prompt; returns whether the shell ends.
    pub fn at_prompt(&self) -> bool {
        if !self.0.was_empty.load(Ordering::Relaxed) {
            self.0.at_prompt.store(0, Ordering::Relaxed);
            return false;
        }
        if self.0.at_prompt.fetch_add(1, Ordering::Relaxed) > 0 {
            return true;
        }
        say(AT_PROMPT);
        false
    }
}

impl ConditionalEventHandler for Interrupts {
    fn handle(
        &self,
        _event: &Event,
        _times: RepeatCount,
        _positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        self.0.was_empty.store(context.line().is_empty(), Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ends_the_statement_and_the_second_the_shell() {
        let interrupts = Interrupts::default();
        let question = interrupts.question();
        interrupts.press();
        assert!(!question(), "nothing runs");
        interrupts.begin();
        assert!(!question());
        interrupts.press();
        assert!(question());
        assert!(!interrupts.end());
        assert!(!question(), "the next statement is not ended");
        interrupts.begin();
        interrupts.press();
        interrupts.press();
        assert!(interrupts.end());
    }

    #[test]
    fn a_line_that_is_discarded_does_not_count() {
        let interrupts = Interrupts::default();
        let press = |was_empty| {
            interrupts.0.was_empty.store(was_empty, Ordering::Relaxed);
            interrupts.at_prompt()
        };
        assert!(!press(true));
        assert!(!press(false));
        assert!(!press(true));
        assert!(press(true));
        assert!(!Interrupts::default().at_prompt());
    }
}
