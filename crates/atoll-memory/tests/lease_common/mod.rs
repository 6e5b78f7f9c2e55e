//! Shared code of the lease tests: an owner with a diary, child processes, raw packet sockets.
//!
//! A child process is the test binary itself, started with only the test `child_process`, which
//! calls [`child_main`]. It takes commands line by line on its input and answers each with one
//! line after the marker `@@`; it ends when its input does.

#![allow(dead_code, clippy::unwrap_used)]

#[path = "../../../atoll-machine/tests/skipped/mod.rs"]
mod skipped;

mod raw;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

use atoll_memory::lease::{
    Client, Descriptor, LeaseError, LeaseId, Offer, Peer, Publisher, Refusal, RefusalCode,
    RuntimeDir, Server, dup_tree,
};

#[allow(unused_imports)]
pub use raw::Raw;

const MARK: &str = "@@";
const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 65_533;

/// An owner with a small file as its store, which records all events.
pub struct Diary {
    store: File,
    epoch: u64,
    pub bases: Vec<Descriptor>,
    pub refusal: Mutex<Option<Refusal>>,
    pub given: Mutex<Vec<(LeaseId, Peer)>>,
    pub ended: Mutex<Vec<LeaseId>>,
    pub failures: Mutex<Vec<String>>,
    /// Bytes added to the status, to make it long.
    pub padding: usize,
}

impl Diary {
    pub fn new(text: &str, bases: Vec<Descriptor>) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Self {
            store: File::open(file.path()).unwrap(),
            epoch: 7,
            bases,
            refusal: Mutex::new(None),
            given: Mutex::default(),
            ended: Mutex::default(),
            failures: Mutex::default(),
            padding: 0,
        }
    }

    pub fn ended(&self) -> Vec<u64> {
        self.ended.lock().unwrap().iter().map(|l| l.0).collect()
    }

    pub fn given(&self) -> Vec<u64> {
        self.given.lock().unwrap().iter().map(|(l, _)| l.0).collect()
    }
}

impl Publisher for Diary {
    fn take(&self, lease: LeaseId, peer: &Peer) -> Result<Offer, Refusal> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        let store = self.store.try_clone().map_err(|_| Refusal {
            code: RefusalCode::Other,
            text: "no descriptor left; see ulimit".to_owned(),
        })?;
        self.given.lock().unwrap().push((lease, peer.clone()));
        Ok(Offer {
            store: store.into(),
            store_id: u128::MAX - 5,
            root: 4096,
            epoch: self.epoch,
            patch: (8192, 64),
            lease_word: lease.0 * 8,
            take_ns: 1234,
            bases: self.bases.iter().map(|b| dup_tree(b).unwrap()).collect(),
        })
    }

    fn lease_ended(&self, lease: LeaseId) {
        self.ended.lock().unwrap().push(lease);
    }

    fn status(&self) -> String {
        let numbers =
            |list: Vec<u64>| list.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        format!(
            "fds {}\ngiven {}\nended {}\nfailures {}\ncpu {}\npadding {}",
            open_fds(),
            numbers(self.given()),
            numbers(self.ended()),
            self.failures.lock().unwrap().join(" | "),
            cpu_ms(),
            "é".repeat(self.padding / 2),
        )
    }

    fn peer_failed(&self, _: &Peer, error: &LeaseError) {
        self.failures.lock().unwrap().push(format!("{error:?}"));
    }
}

/// A private runtime directory.
pub struct Place {
    _temp: tempfile::TempDir,
    pub dir: RuntimeDir,
}

impl Place {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::open(Some(&temp.path().join("run"))).unwrap();
        Self { _temp: temp, dir }
    }

    /// Lets other users access the directory, for tests of the checks behind that.
    pub fn open_for_all(&self, owner: u32) {
        use std::os::unix::fs::PermissionsExt;
        for path in [self._temp.path(), self.dir.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(path, Some(owner), None).unwrap();
        }
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.sock"))
    }
}

/// A status line of [`Diary`] as numbers.
pub fn numbers(status: &str, key: &str) -> Vec<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap();
    line.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

pub fn open_fds() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// CPU time of this process in milliseconds.
fn cpu_ms() -> u64 {
    // SAFETY: zero is a value of rusage, and getrusage writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ms = |t: libc::timeval| t.tv_sec as u64 * 1000 + t.tv_usec as u64 / 1000;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

/// The content of a descriptor's store as text.
pub fn text_of(descriptor: &Descriptor) -> String {
    let mut file = File::from(descriptor.store.try_clone().unwrap());
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Waits for a condition that must become true; the limit keeps a broken test from hanging.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped::say("only root can act as other users");
    }
    root
}

pub const NOBODY_UID: u32 = NOBODY;
pub const SOMEBODY_UID: u32 = SOMEBODY;

/// A child process; killed when dropped.
pub struct Child {
    child: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child in a mode of [`child_main`] and waits for its first answer.
    pub fn start(mode: &str, name: &str, place: &Place, more: &[(&str, String)]) -> (Self, String) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
            .env("LEASE_MODE", mode)
            .env("LEASE_NAME", name)
            .env("LEASE_DIR", place.dir.path())
            .envs(more.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut child = Self { child, input, output };
        let first = child.answer();
        (child, first)
    }

    pub fn serve(name: &str, place: &Place, more: &[(&str, String)]) -> Self {
        let (child, first) = Self::start("serve", name, place, more);
        assert_eq!(first, "serving");
        child
    }

    pub fn hold(name: &str, place: &Place) -> Self {
        let (child, first) = Self::start("hold", name, place, &[]);
        assert_eq!(first, "attached");
        child
    }

    pub fn ask(&mut self, command: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGSTOP, and waits until every thread stands still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        eventually("the child stops", || {
            fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
                stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
            })
        });
    }

    /// SIGKILL, and waits until the process is gone with all its descriptors.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(answer: &str) {
    println!("{MARK}{answer}");
}

fn setting(key: &str) -> Option<String> {
    std::env::var(key).ok()
}

/// The child's side of [`Child`]; does nothing in an ordinary test run.
pub fn child_main() {
    let Some(mode) = setting("LEASE_MODE") else {
        return;
    };
    let name = setting("LEASE_NAME").unwrap();
    let dir = RuntimeDir::open(Some(Path::new(&setting("LEASE_DIR").unwrap()))).unwrap();
    if let Some(limit) = setting("LEASE_NOFILE") {
        let limit = Some(limit.parse().unwrap());
        setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    }
    if let Some(uid) = setting("LEASE_UID") {
        // Not by `rustix`, which sets the user of the calling thread only.
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { libc::setuid(uid.parse().unwrap()) }, 0);
    }
    match mode.as_str() {
        "serve" => serve(&name, &dir),
        "hold" => hold(&name, &dir),
        "connect" => {
            match Client::connect(&name, &dir) {
                Ok(_) => say("attached"),
                Err(error) => say(&format!("{error:?}")),
            }
            wait_for_end();
        }
        other => panic!("no mode {other}"),
    }
}

fn wait_for_end() {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
}

fn serve(name: &str, dir: &RuntimeDir) {
    let bases = match setting("LEASE_BASE") {
        Some(base) => vec![Client::connect(&base, dir).unwrap().take().unwrap()],
        None => Vec::new(),
    };
    let diary = Arc::new(Diary::new(&format!("store of {name}"), bases));
    let server = Server::start(name, dir, diary).unwrap();
    say("serving");
    wait_for_end();
    drop(server);
}

fn hold(name: &str, dir: &RuntimeDir) {
    let client = Client::connect(name, dir).unwrap();
    let mut held = Vec::new();
    say("attached");
    for command in std::io::stdin().lines() {
        match command.unwrap().as_str() {
            "take" => match client.take() {
                Ok(descriptor) => {
                    held.push(descriptor);
                    say("taken");
                }
                Err(error) => say(&format!("{error:?}")),
            },
            "read" => {
                let mut deepest: &Descriptor = held.last().unwrap();
                while let Some(base) = deepest.bases.first() {
                    deepest = base;
                }
                say(&text_of(deepest));
            }
            "drop" => {
                held.clear();
                say("dropped");
            }
            other => panic!("no command {other}"),
        }
    }
}
