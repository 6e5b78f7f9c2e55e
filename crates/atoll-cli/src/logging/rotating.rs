//! A log file that is replaced when it is large or old.
//!
//! 1. The file that is full gets the moment behind its name: `bank.log.20261130T120000Z`.
//! 2. A new file begins under the name.
//! 3. Of those with a moment the oldest go, except for so many.
//!
//! `ROTATE-1`: a failure to write or to replace the file never stops the program. It is told once
//! on the standard error output, until a write succeeds again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::output::say;

/// When the file is replaced, and how many are kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: u64,
    pub age: Option<Duration>,
    /// Files beside the one that is written.
    pub kept: usize,
}

/// See the module.
pub struct Rotating {
    path: PathBuf,
    limits: Limits,
    state: Mutex<State>,
}

struct State {
    file: File,
    bytes: u64,
    began: SystemTime,
    has_failed: bool,
}

impl Rotating {
    /// Goes on with a file, or begins it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Self> {
        let state = Mutex::new(open(path)?);
        Ok(Self { path: path.to_owned(), limits, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A write that panics leaves a line in pieces.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line at a moment.
    fn write_at(&self, line: &[u8], now: SystemTime) -> io::Result<()> {
        let mut state = self.state();
        let is_large = state.bytes + line.len() as u64 > self.limits.bytes;
        let age = now.duration_since(state.began).unwrap_or_default();
        let is_old = self.limits.age.is_some_and(|limit| age >= limit);
        let replaced = match state.bytes > 0 && (is_large || is_old) {
            true => self.replace(&mut state, now),
            false => Ok(()),
        };
        // In the old file it is better than nowhere.
        state.file.write_all(line)?;
        state.bytes += line.len() as u64;
        replaced
    }

    fn replace(&self, state: &mut State, now: SystemTime) -> io::Result<()> {
        let moment = DateTime::<Utc>::from(now).format("%Y%m%dT%H%M%SZ");
        let stem = format!("{}.{moment}", self.path.display());
        let mut names = std::iter::once(stem.clone())
            .chain((1..1000).map(|number| format!("{stem}-{number:03}")));
        let free = names.find(|name| !Path::new(name).exists());
        match fs::rename(&self.path, free.unwrap_or(stem)) {
            // Another program has moved it: it has a name already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        let new = open(&self.path)?;
        *state = State { began: now, has_failed: state.has_failed, ..new };
        self.remove_oldest()
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_older = |file: &str| {
            let moment = file.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
            moment.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut older: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(Result::ok)
            .filter(|entry| is_older(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        older.sort();
        let surplus = older.len().saturating_sub(self.limits.kept);
        older[..surplus].iter().try_for_each(fs::remove_file)
    }
}

/// Opens a file, which only its owner may read: statements are in it.
fn open(path: &Path) -> io::Result<State> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let found = file.metadata()?;
    let began = match found.len() {
        0 => SystemTime::now(),
        _ => found.created().or_else(|_| found.modified())?,
    };
    Ok(State { file, bytes: found.len(), began, has_failed: false })
}

impl Write for &Rotating {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.write_at(line, SystemTime::now());
        let had_failed = std::mem::replace(&mut self.state().has_failed, written.is_err());
        if let Err(error) = written
            && !had_failed
        {
            say(&format!("warning: the log {} cannot be written: {error}", self.path.display()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The files of a log, with their contents.
    fn files(folder: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_large_file_is_replaced_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bank.log");
        fs::write(folder.path().join("bank.log.txt"), "another").unwrap();
        let log = Rotating::open(&path, Limits { bytes: 10, age: None, kept: 2 }).unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        let later = now + Duration::from_secs(1);
        for (line, at) in [("one 1\n", now), ("2\n", now), ("three\n", now), ("four 4\n", now)] {
            log.write_at(line.as_bytes(), at).unwrap();
        }
        assert_eq!(
            files(folder.path()),
            pairs(&[
                ("bank.log", "four 4\n"),
                ("bank.log.19700102T000000Z", "one 1\n2\n"),
                ("bank.log.19700102T000000Z-001", "three\n"),
                ("bank.log.txt", "another"),
            ])
        );
        log.write_at(b"longer than the limit\n", later).unwrap();
        assert_eq!(
            files(folder.path()),
            pairs(&[
                ("bank.log", "longer than the limit\n"),
                ("bank.log.19700102T000000Z-001", "three\n"),
                ("bank.log.19700102T000001Z", "four 4\n"),
                ("bank.log.txt", "another"),
            ])
        );
    }

    #[test]
    fn an_old_file_is_replaced_and_one_that_was_there_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let age = Some(Duration::from_secs(3600));
        let log = Rotating::open(&path, Limits { bytes: 1000, age, kept: 5 }).unwrap();
        let began = log.state().began;
        log.write_at(b"now\n", began + Duration::from_secs(3599)).unwrap();
        assert_eq!(files(folder.path()), pairs(&[("log", "before\nnow\n")]));
        log.write_at(b"later\n", began + Duration::from_secs(3600)).unwrap();
        let found = files(folder.path());
        assert_eq!((found.len(), found[0].1.as_str()), (2, "later\n"));
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Rotating::open(&path, Limits { bytes: 5, age: None, kept: 5 }).unwrap();
        (&log).write_all(b"one\n").unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        (&log).write_all(b"two\n").unwrap();
        assert!(!log.state().has_failed);
        assert_eq!(files(folder.path()), pairs(&[("log", "two\n"), ("moved", "one\n")]));
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub").join("log");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let log = Rotating::open(&path, Limits { bytes: 1, age: None, kept: 1 }).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!((&log).write_all(b"one\n").is_ok());
        assert!((&log).write_all(b"two\n").is_ok());
        assert!(log.state().has_failed);
    }
}
