//! Opening the folder of a database, with a bar when it takes a while.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use atoll::{Database, DatabaseOptions, OpenProgress, RecoveryReport};
use atoll_bench::progress::Watcher;

use crate::commands::progress::Progress;
use crate::error::Result;
use crate::output::{Style, say};
use crate::size;

/// What takes less is not watched.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked how far it is.
const PERIOD: Duration = Duration::from_millis(100);

/// Opens the database in a folder and says what was found.
///
/// # Errors
/// Those of [`Database::open`].
pub fn open(folder: &Path, mut options: DatabaseOptions, style: Style) -> Result<Database> {
    let progress = Arc::new(OpenProgress::default());
    options.progress = Some(Arc::clone(&progress));
    let (done, is_done) = channel::<()>();
    let opened = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut bar = Progress::new(style);
            let mut pause = PATIENCE;
            while is_done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = PERIOD;
                let (share, how) = reached(&progress);
                bar.reach(share, &how);
            }
        });
        let opened = Database::open(folder, options);
        drop(done);
        opened
    })?;
    opened.recovery().map(recovered).into_iter().for_each(|text| say(&text));
    Ok(opened)
}

/// How far the part is that is being worked on, and what it is.
fn reached(progress: &OpenProgress) -> (f64, String) {
    let OpenProgress { home, log, indexes } = progress;
    let parts = [(indexes, "indexes"), (log, "log"), (home, "home")];
    let begun = parts.into_iter().find(|(part, _)| part.total() > 0);
    let (part, what) = begun.unwrap_or((home, "home"));
    let (done, total) = (part.done(), part.total());
    let how = match what {
        "indexes" => what.to_owned(),
        _ => format!("{what}: {} of {}", size::bytes(done), size::bytes(total)),
    };
    (done as f64 / total.max(1) as f64, how)
}

/// What opening a folder has found, in a line.
fn recovered(report: &RecoveryReport) -> String {
    let RecoveryReport { checkpoint, redone, dropped, rows, notes, .. } = report;
    if report.created {
        return "a new database".to_owned();
    }
    let seconds = report.home_s + report.log_s + report.index_s;
    let mut text = format!(
        "{rows} rows from checkpoint {checkpoint} and {redone} transactions of the log, in \
         {seconds:.2} s"
    );
    if *dropped > 0 {
        text.push_str(&format!("; {dropped} that nobody was told of are not there"));
    }
    for note in notes {
        text.push_str(&format!("\nwarning: {note}"));
    }
    text
}
