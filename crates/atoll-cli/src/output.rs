//! The standard output: colours, width, and the treatment of a closed reader.
//!
//! Everything is written through [`Output`], never by `println!`, which panics when the reading end
//! of a pipe is closed.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;

/// When to use colours; `Auto` is on a terminal, unless NO_COLOR is set.
// The values have no help of their own: it would make every `--help` three times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Which colours to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// No colours.
    #[cfg(test)]
    pub const fn plain() -> Self {
        Self { color: false }
    }

    /// The style for a stream that is a terminal or is not.
    pub fn of(choice: ColorChoice, terminal: bool) -> Self {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: set and not empty.
            ColorChoice::Auto => {
                let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
                terminal && !forbidden && !dumb
            }
        };
        Self { color }
    }

    /// The style for the standard error output.
    pub fn of_stderr(choice: ColorChoice) -> Self {
        Self::of(choice, io::stderr().is_terminal())
    }

    /// Whether there are colours.
    pub fn has_color(self) -> bool {
        self.color
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Names and headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Secondary remarks.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Errors.
    pub fn error(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Warnings.
    pub fn warning(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    /// Words of SQL.
    pub fn keyword(self, text: &str) -> String {
        self.paint("1;34", text)
    }

    /// Strings of SQL.
    pub fn string(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Hints and prompts.
    pub fn hint(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// The standard output of a command.
pub struct Output {
    writer: Box<dyn Write>,
    /// Colours.
    pub style: Style,
    /// Whether a program reads the output.
    pub json: bool,
    terminal: bool,
}

impl Output {
    /// The process's standard output.
    pub fn stdout(color: ColorChoice, json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            writer: Box::new(io::BufWriter::new(io::stdout())),
            style: Style::of(color, terminal && !json),
            json,
            terminal,
        }
    }

    /// Columns of the terminal; `None` when a pipe or a file takes the output whole.
    pub fn width(&self) -> Option<usize> {
        if !self.terminal {
            return None;
        }
        let (width, _) = terminal_size::terminal_size()?;
        Some(usize::from(width.0).max(20))
    }

    /// Writes a line.
    ///
    /// # Errors
    /// Those of the system.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.writer.write_all(text.as_bytes())?;
        self.writer.write_all(b"\n")
    }

    /// Writes a value as JSON on one line.
    ///
    /// # Errors
    /// Those of the system.
    pub fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.writer, value)?;
        self.writer.write_all(b"\n")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a remark for the user at the terminal. A closed stream is no error.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
