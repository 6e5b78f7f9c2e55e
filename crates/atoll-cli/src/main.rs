//! The `atoll` command: own a database, read snapshots of one, and inspect both and the machine.
//!
//! `main` reads the command line, runs one of [`commands`] and turns its end into a status: 0, 1
//! for an error on the standard error output, 2 for a wrong command line.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod config;
mod demo;
mod error;
mod loading;
mod logging;
mod moment;
mod opening;
mod output;
mod progress;
mod render;
mod session;
mod shell;
mod size;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;
use config::Line;
use error::CliError;
use output::{ColorChoice, Output, Style, say};

fn main() -> ExitCode {
    // The benchmark runs itself again as the process that reads.
    atoll_bench::snapshot::reader_main_if_asked();
    // A file that is larger than `ulimit -f` allows is an error, and no end of this process.
    atoll::machine::process::refuse_large_files();
    let line = match config::of_command_line(std::env::args_os().collect()) {
        Ok(line) => line,
        Err(error) => {
            say(&error::report(&error, Style::of_stderr(ColorChoice::Auto)));
            return ExitCode::FAILURE;
        }
    };
    let cli = Cli::parse_from(&line.arguments);
    let style = Style::of_stderr(cli.global.color);
    let mut output = Output::stdout(cli.global.color, cli.global.json);
    let ended = run(&cli, &line, &mut output);
    let written = output.flush().map_err(CliError::from);
    match ended.and(written) {
        Ok(()) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error::report(&error, style));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, line: &Line, output: &mut Output) -> error::Result<()> {
    let global = &cli.global;
    global.set_query_limits();
    match &cli.command {
        Command::Sql(args) => commands::sql::run(args, global, output),
        Command::Serve(args) => commands::serve::run(args, global, output),
        Command::Attach(args) => commands::attach::run(args, global, output),
        Command::Load(args) => commands::load::run(args, global, output),
        Command::Snapshots(args) => commands::snapshots::run(args, global, output),
        Command::List(_) => commands::list::run(global, output),
        Command::Nodes(args) => commands::nodes::run(args, global, output),
        Command::Bench(args) => commands::bench::run(args, global, output),
        Command::Torture(args) => commands::torture::run(args, global, output),
        Command::Dump(args) => commands::dump::run(args, global, output),
        Command::Config(command) => commands::config::run(command, line, output),
        Command::Check(args) => commands::check::run(args, global, output),
        Command::Log(args) => commands::log::run(args, global, output),
        Command::Backup(args) => commands::backup::run(args, global, output),
        Command::Restore(args) => commands::restore::run(args, global, output),
        Command::Demo(args) => demo::run(args, global, output),
    }
}
