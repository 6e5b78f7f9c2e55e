//! Running the `atoll` command as a person or a script does, in a runtime directory of its own.

#![allow(clippy::unwrap_used, dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

/// A runtime directory and a place for files.
pub struct World {
    dir: TempDir,
}

/// How a command ended.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// The standard output of a command that must have gone well.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "out: {}\nerr: {}", self.out, self.err);
        self.out
    }

    /// The standard error output of a command that must have failed properly.
    pub fn failed(self) -> String {
        assert_eq!(self.code, Some(1), "out: {}\nerr: {}", self.out, self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        assert!(!self.err.contains("panicked") && !self.err.contains("backtrace"), "{}", self.err);
        self.err
    }

    /// The standard output as JSON, one value a line.
    pub fn json(self) -> Vec<serde_json::Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl World {
    pub fn new() -> Self {
        // Sockets have short paths.
        Self { dir: tempfile::Builder::new().prefix("atoll").tempdir_in("/tmp").unwrap() }
    }

    /// A file with a content.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        command
            .args(words)
            .current_dir(self.dir.path())
            .env("ATOLL_RUNTIME_DIR", self.runtime_dir())
            .env("XDG_STATE_HOME", self.dir.path())
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    pub fn runtime_dir(&self) -> PathBuf {
        let path = self.dir.path().join("run");
        if !path.exists() {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        }
        path
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.command(words).output().unwrap().into()
    }

    /// Runs a command with a text on its standard input.
    pub fn pipe(&self, words: &[&str], text: &str) -> Ended {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let written = child.stdin.take().unwrap().write_all(text.as_bytes());
        // A command that is refused may end before it reads.
        let is_closed = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        assert!(written.as_ref().err().is_none_or(is_closed), "{written:?}");
        child.wait_with_output().unwrap().into()
    }

    /// Starts a command that is talked to.
    pub fn talk(&self, words: &[&str]) -> Talk {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Talk { input: child.stdin.take(), output, child }
    }

    /// A database with a table `t(id, name)` of two rows, owned by a process that is talked to.
    pub fn owner(&self, name: &str) -> Talk {
        let mut owner = self.talk(&["sql", name]);
        owner.say("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT);");
        owner.hear("CREATE TABLE");
        owner.say("INSERT INTO t VALUES (1, 'ann'), (2, NULL);");
        owner.hear("INSERT 0 2");
        owner
    }
}

/// A command that reads statements and answers.
pub struct Talk {
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub child: Child,
}

impl Talk {
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Reads until a line contains a text.
    pub fn hear(&mut self, text: &str) -> String {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("the command ended before it said {text:?}; it said {heard}");
            }
            heard.push_str(&line);
            if line.contains(text) {
                return heard;
            }
        }
    }

    /// Ends the input and waits.
    pub fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with the machines that `atoll-machine` is tested with.
pub fn machine(name: &str) -> PathBuf {
    // Asked now: this may have been compiled for another clone with the same target.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&here).join("../atoll-machine/tests/fixtures").join(name)
}
