//! Opening the folder of a database, with a bar when it takes a while.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use atoll::{Database, DatabaseOptions, OpenProgress, RecoveryReport};
use atoll_bench::progress::Watcher;

use crate::error::Result;
use crate::output::{Style, say};
use crate::progress::Progress;
use crate::size;

/// Openings shorter than this show no bar.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time between two looks at the progress.
const PERIOD: Duration = Duration::from_millis(100);

/// Opens the database in a folder and reports what was found.
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

/// The current part, and its progress.
fn reached(progress: &OpenProgress) -> (f64, String) {
    let OpenProgress { checkpoint, log, indexes } = progress;
    let parts = [(indexes, "indexes"), (log, "log"), (checkpoint, "home")];
    let begun = parts.into_iter().find(|(part, _)| part.total() > 0);
    let (part, what) = begun.unwrap_or((checkpoint, "home"));
    let (done, total) = (part.done(), part.total());
    (done as f64 / total.max(1) as f64, how(what, done, total))
}

fn how(what: &str, done: u64, total: u64) -> String {
    let (done_bytes, total_bytes) = (size::bytes(done), size::bytes(total));
    match what {
        "indexes" => what.to_owned(),
        // A transaction is applied when it has been read, and may be a large one.
        "log" if done >= total => format!("log: {total_bytes} read, being applied"),
        _ => format!("{what}: {done_bytes} of {total_bytes}"),
    }
}

/// The result of opening a folder, in a line.
fn recovered(report: &RecoveryReport) -> String {
    let RecoveryReport { checkpoint, redone, dropped, rows, notes, .. } = report;
    if report.created {
        return "a new database".to_owned();
    }
    let seconds = report.home_s + report.log_s + report.index_s;
    let (rows, redone) = (size::counted(*rows, "row"), size::counted(*redone, "transaction"));
    let mut text =
        format!("{rows} from checkpoint {checkpoint} and {redone} of the log, in {seconds:.2} s");
    if *dropped > 0 {
        text.push_str(&format!("; {dropped} that were not acknowledged are dropped"));
    }
    for note in notes {
        text.push_str(&format!("\nwarning: {note}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_is_told_of_each_part() {
        assert_eq!(how("home", 1 << 20, 3 << 20), "home: 1 MiB of 3 MiB");
        assert_eq!(how("log", 1 << 20, 3 << 20), "log: 1 MiB of 3 MiB");
        assert_eq!(how("log", 3 << 20, 3 << 20), "log: 3 MiB read, being applied");
        assert_eq!(how("indexes", 1, 3), "indexes");
    }

    #[test]
    fn what_was_found_is_told_in_a_line_and_what_was_helped_below_it() {
        let report = RecoveryReport {
            checkpoint: 7,
            rows: 6_000_000,
            redone: 1,
            home_s: 1.0,
            log_s: 2.0,
            index_s: 0.5,
            ..RecoveryReport::default()
        };
        let line = "6,000,000 rows from checkpoint 7 and 1 transaction of the log, in 3.50 s";
        assert_eq!(recovered(&report), line);
        let more = RecoveryReport { dropped: 2, notes: vec!["a copy".into()], ..report.clone() };
        let told = format!("{line}; 2 that were not acknowledged are dropped\nwarning: a copy");
        assert_eq!(recovered(&more), told);
        let new = RecoveryReport { created: true, ..report };
        assert_eq!(recovered(&new), "a new database");
    }
}
