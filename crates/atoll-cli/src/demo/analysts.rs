//! The other processes of the demo: Python programs that attach to the database by its name.
//!
//! A program writes one JSON object for each message to its standard output ([`Message`]) and waits
//! for words on its standard input. That pipe carries no data of the database; the data is in
//! shared memory. The standard error output of a program is kept and shown if it fails. A program
//! that the demo started ends with the demo: its input is closed, and if it does not end by itself
//! it is killed. No other process is ever touched.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::error::{CliError, Result};

/// How long a program may take to end once its input is closed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How long a program that has closed its output may take to end.
const FAILS_WITHIN: Duration = Duration::from_secs(1);

/// A message of a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Message {
    /// It has loaded its libraries and waits.
    Ready,
    /// The step that it works on.
    Doing {
        /// For the live line.
        text: String,
    },
    /// A result for people.
    Found {
        /// One line.
        text: String,
    },
    /// It has taken a snapshot.
    Snapshot(Taken),
    /// It has made a check.
    Check {
        /// The condition that must hold.
        name: String,
        /// Whether it holds.
        passed: bool,
        /// The observation.
        detail: String,
    },
    /// It has published a database.
    Published {
        /// Its name.
        name: String,
    },
    /// It has finished the request.
    Done,
    /// A library is missing.
    Missing {
        /// The message of Python.
        text: String,
    },
    /// It has ended; never sent by a program itself.
    #[serde(skip)]
    Ended,
}

/// A snapshot that a program has taken.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
pub struct Taken {
    /// Database.
    pub of: String,
    /// The epoch that it shows.
    pub epoch: u64,
    /// Time that the owner needed to take it, in microseconds.
    pub take_us: f64,
    /// Time from asking for it until it could be used, in microseconds.
    pub attach_us: f64,
    /// Whether it was the program's first, for which it had to map the store.
    pub first: bool,
    /// Bytes of its arrays outside of the owner's memory.
    pub bytes_copied: u64,
    /// Bytes copied because a transaction was open when it was taken.
    pub bytes_patched: u64,
}

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The second process: queries and clusters.
    Analyst,
    /// The third process: charts.
    Painter,
}

impl Who {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Analyst => "analyst",
            Self::Painter => "painter",
        }
    }
}

/// A running program.
pub struct Program {
    who: Who,
    child: Child,
    input: Option<ChildStdin>,
    /// Its standard error output.
    complaints: Option<JoinHandle<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    /// Starts a program; its messages come through `to`, last of all [`Message::Ended`].
    ///
    /// # Errors
    /// The interpreter cannot be started, or there are no threads.
    pub fn start(
        who: Who,
        python: &Path,
        script: &Path,
        options: &[(&str, &OsStr)],
        to: Sender<(Who, Result<Message>)>,
    ) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg("-u").arg(script);
        for (name, value) in options {
            command.arg(name).arg(value);
        }
        // One analyst shall not take all cores from the load: what is measured is the sharing.
        for threads in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            command.env(threads, "1");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            CliError::with_hint(
                format!("cannot start {}: {error}", python.display()),
                "name an interpreter that has the package atolldb: --python PATH",
            )
        })?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let input = child.stdin.take();
        let mut program = Self { who, child, input, complaints: None, reader: None };
        let spawned =
            std::thread::Builder::new().name(format!("{}-out", who.name())).spawn(move || {
                if let Some(output) = output {
                    read(who, output, &to);
                }
                let _ = to.send((who, Ok(Message::Ended)));
            });
        let no_thread = |error| CliError::new(format!("cannot start a thread: {error}"));
        program.reader = Some(spawned.map_err(no_thread)?);
        let spawned =
            std::thread::Builder::new().name(format!("{}-err", who.name())).spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut errors) = errors {
                    // Whatever could be read is shown; a broken pipe ends it like its end.
                    let _ = errors.read_to_end(&mut bytes);
                }
                String::from_utf8_lossy(&bytes).trim_end().to_owned()
            });
        program.complaints = Some(spawned.map_err(no_thread)?);
        Ok(program)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to go on.
    pub fn tell(&mut self, word: &str) {
        if let Some(input) = &mut self.input {
            // If it has ended, the message about that is on its way and says more.
            let _ = writeln!(input, "{word}").and_then(|()| input.flush());
        }
    }

    /// Waits for its end, which it was told or which has come.
    ///
    /// # Errors
    /// It failed: its standard error output.
    pub fn finish(&mut self) -> Result<()> {
        self.end()
    }

    /// Why it failed, if it has ended badly or is about to.
    pub fn failure(&mut self) -> Option<CliError> {
        let deadline = Instant::now() + FAILS_WITHIN;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) if !status.success() => return self.end().err(),
                _ => return None,
            }
        }
        None
    }

    fn end(&mut self) -> Result<()> {
        self.input = None;
        let deadline = Instant::now() + ENDS_WITHIN;
        let failed = |error| CliError::new(format!("cannot wait for a process: {error}"));
        let status = loop {
            match self.child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    // It may have ended just now; waiting tells.
                    let _ = self.child.kill();
                    break self.child.wait().map_err(failed)?;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok());
        if status.success() {
            return Ok(());
        }
        let complaints = complaints.unwrap_or_default();
        let name = self.who.name();
        Err(CliError::new(format!("the {name} failed ({status}); it said:\n{complaints}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.complaints.is_some() {
            // The demo is failing for another reason, which is the one to be told.
            let _ = self.child.kill();
            let _ = self.end();
        }
    }
}

fn read(who: Who, output: impl Read, to: &Sender<(Who, Result<Message>)>) {
    for line in BufReader::new(output).lines() {
        let message = match line {
            Ok(line) => serde_json::from_str(&line).map_err(|error| {
                CliError::new(format!("the {} said \"{line}\": {error}", who.name()))
            }),
            Err(error) => Err(CliError::new(format!("cannot hear the {}: {error}", who.name()))),
        };
        let failed = message.is_err();
        if to.send((who, message)).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc::channel;

    use super::*;

    /// Runs a shell script in Python's place: it takes the option `-u` too.
    fn program(text: &str) -> (Program, std::sync::mpsc::Receiver<(Who, Result<Message>)>) {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script.sh");
        std::fs::write(&script, text).unwrap();
        let (to, from) = channel();
        let shell = Path::new("/bin/sh");
        let mut program = Program::start(Who::Analyst, shell, &script, &[], to).unwrap();
        // The script is read when its first line has been run.
        assert!(matches!(from.recv().unwrap().1.unwrap(), Message::Ready));
        program.tell("go");
        (program, from)
    }

    const READY: &str = "echo '{\"event\":\"ready\"}'; read word\n";

    #[test]
    fn what_a_program_tells_is_heard_in_order_and_then_its_end() {
        let (mut program, from) = program(&format!(
            "{READY}echo \"{{\\\"event\\\":\\\"doing\\\",\\\"text\\\":\\\"$word\\\"}}\"\n"
        ));
        let Message::Doing { text } = from.recv().unwrap().1.unwrap() else { panic!() };
        assert_eq!(text, "go");
        assert!(matches!(from.recv().unwrap().1.unwrap(), Message::Ended));
        program.finish().unwrap();
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_own_words() {
        let (mut program, from) = program(&format!("{READY}echo 'out of luck' >&2; exit 7\n"));
        assert!(matches!(from.recv().unwrap().1.unwrap(), Message::Ended));
        let error = program.failure().unwrap().to_string();
        assert!(error.contains("out of luck") && error.contains('7'), "{error}");
    }

    #[test]
    fn a_program_that_talks_nonsense_is_an_error_and_is_ended() {
        let (program, from) = program(&format!("{READY}echo hello; read word; read word\n"));
        let error = from.recv().unwrap().1.unwrap_err().to_string();
        assert!(error.contains("hello"), "{error}");
        drop(program);
        assert!(matches!(from.recv().unwrap().1.unwrap(), Message::Ended));
    }
}
