//! The shell for a person at a terminal.
//!
//! Statements may have several lines: Enter sends a text only when its statement has ended, and the
//! history keeps it as one. [`super::interrupt`] describes Ctrl-C.

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor, ExternalPrinter, KeyEvent};

use crate::error::{self, CliError, Result};
use crate::output::{Style, say};
use crate::session::Session;
use crate::shell::complete::{Names, ShellHelper};
use crate::shell::interrupt::Interrupts;
use crate::shell::{Flow, ROWS_SHOWN, Settings, Shell, history};
use crate::size;

type ShellEditor = Editor<ShellHelper, FileHistory>;

/// Reads and runs statements until the person ends it.
///
/// # Errors
/// A terminal that cannot be used, and an output that cannot be written.
pub fn run(shell: &mut Shell<'_>) -> Result<()> {
    shell.settings = Settings { timing: true, expanded: false, rows: Some(ROWS_SHOWN) };
    let style = shell.output.style;
    let mut editor = editor(style)?;
    let interrupts = Interrupts::watch()?;
    editor.bind_sequence(KeyEvent::ctrl('C'), interrupts.at_key());
    shell.session.set_interrupt(interrupts.question());
    // Above the line that is being typed.
    if let Ok(mut printer) = editor.create_external_printer() {
        shell.session().tell_by(Box::new(move |line| {
            if printer.print(format!("{line}\n")).is_err() {
                say(line);
            }
        }));
    }
    if let Err(error) = history::load(&mut editor) {
        say(&format!("warning: the history cannot be read: {error}"));
    }
    greet(shell)?;
    let mut keeps_history = true;
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.names = Names::of(shell.session());
            helper.prompt = style.hint(&prompt(shell.session()));
        }
        let text = match editor.readline(&prompt(shell.session())) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) if interrupts.at_prompt() => break,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(CliError::Terminal(error.to_string())),
        };
        if text.trim().is_empty() {
            continue;
        }
        // Only a history that is full of one line refuses it.
        let _ = editor.add_history_entry(text.as_str());
        if keeps_history && let Err(error) = history::save(&mut editor) {
            say(&format!("warning: the history cannot be written: {error}"));
            keeps_history = false;
        }
        interrupts.begin();
        let flow = shell.run_typed(&text);
        let ends = interrupts.end();
        match flow {
            Ok(Flow::Continue) => {}
            Ok(Flow::Quit) => break,
            Err(fatal @ (CliError::OutputClosed | CliError::Output(_))) => return Err(fatal),
            Err(error) => say(&error::report(&error, style)),
        }
        if ends {
            break;
        }
    }
    shell.warn_if_open();
    Ok(())
}

fn editor(style: Style) -> Result<ShellEditor> {
    let fault = |error: ReadlineError| CliError::Terminal(error.to_string());
    let color = if style.has_color() { ColorMode::Enabled } else { ColorMode::Disabled };
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(color)
        .history_ignore_space(true)
        .max_history_size(history::LINES_MAX)
        .map_err(fault)?
        .build();
    let mut editor = Editor::with_config(config).map_err(fault)?;
    editor.set_helper(Some(ShellHelper::new(style)));
    Ok(editor)
}

fn greet(shell: &mut Shell<'_>) -> Result<()> {
    let style = shell.output.style;
    let name = shell.session().name().to_owned();
    let bold = style.bold(&name);
    let lines = match shell.session().snapshot() {
        None => [
            format!("{bold}: a database in the memory of this process"),
            format!("other processes read it with: atoll attach {name}"),
        ],
        Some((snapshot, _)) => {
            let took = size::elapsed(std::time::Duration::from_nanos(snapshot.attach_ns()));
            [
                format!("{bold}: a snapshot at epoch {}, taken in {took}", snapshot.epoch()),
                "it never changes; refresh takes a newer one".to_owned(),
            ]
        }
    };
    shell.output.line(&format!("atoll {} · {}", env!("CARGO_PKG_VERSION"), lines[0]))?;
    shell.output.line(&style.dim(&format!("{}; \\? shows help, \\q ends", lines[1])))?;
    std::io::Write::flush(shell.output)?;
    Ok(())
}

fn prompt(session: &Session) -> String {
    let name = session.name();
    match session.snapshot() {
        None if session.in_transaction() => format!("{name}*> "),
        None => format!("{name}> "),
        Some((snapshot, _)) if snapshot.check().is_err() => format!("{name} (expired)> "),
        Some((snapshot, taken)) => {
            format!("{name} (epoch {}, {})> ", snapshot.epoch(), size::age(taken.elapsed()))
        }
    }
}
