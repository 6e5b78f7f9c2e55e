//! Several processes that share snapshots, any of which may be killed at any moment.
//!
//! Conditions: the surviving processes go on, the snapshots that they hold do not change, and the
//! memory of killed processes is freed. The processes are `tests/peer/peer.rs`.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROWS: u32 = 9_000;

/// Another process; killed when dropped.
struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_atoll-test-peer"))
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends a command without waiting for the answer.
    fn say(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        let mut answer = String::new();
        assert!(self.output.read_line(&mut answer).unwrap() > 0, "the peer ended at: {command}");
        answer.trim_end().to_owned()
    }

    /// Sends commands that must succeed.
    fn tell(&mut self, commands: &[&str]) {
        for command in commands {
            assert_eq!(self.ask(command), "ok", "{command}");
        }
    }

    fn sum(&mut self, snapshot: &str) -> String {
        let sum = self.ask(&format!("sum {snapshot}"));
        assert!(sum.len() == 16, "{sum}");
        sum
    }

    /// Ends it regularly.
    fn close(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Sends SIGKILL; returns when the process has ended and released everything.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An owner of a database with one table of [`ROWS`] rows.
fn owner(dir: &Path, name: &str, table: &str, value: u32) -> Peer {
    let mut peer = Peer::start(dir);
    peer.tell(&[
        "create db",
        &format!("fill db {table} {ROWS} {value}"),
        &format!("publish db {name}"),
    ]);
    peer
}

/// Attaches to `name` and takes a snapshot called `name` there.
fn reader(dir: &Path, name: &str) -> Peer {
    let mut peer = Peer::start(dir);
    peer.tell(&[&format!("attach {name}"), &format!("take {name} {name}")]);
    peer
}

/// Derives from the snapshot `base` a database with a table of its own and publishes it.
fn build_on(peer: &mut Peer, base: &str, name: &str, value: u32) {
    peer.tell(&[
        &format!("derive db {base}"),
        &format!("fill db {name} {ROWS} {value}"),
        &format!("publish db {name}"),
    ]);
}

/// Waits for a condition that must become true; the limit ends a broken test.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until all leases of the owner's database have ended and their memory is free.
fn comes_to_rest(owner: &mut Peer) {
    eventually("all leases end and keep nothing", || owner.ask("own db") == "0 0");
}

#[test]
fn a_killed_reader_costs_the_owner_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut other = reader(dir.path(), "base");
    let shown = other.sum("base");
    let mut victim = reader(dir.path(), "base");
    assert_eq!(victim.sum("base"), shown);
    owner.tell(&["overwrite db t 2"]);
    let status = other.ask("leases base");
    let (leases, kept) = status.split_once(' ').unwrap();
    assert_eq!(leases, "2");
    assert!(kept.parse::<u64>().unwrap() > 0, "both show what was replaced");
    victim.kill();
    eventually("the killed reader's lease ends", || owner.ask("own db").starts_with("1 "));
    assert_eq!(other.sum("base"), shown);
    other.kill();
    comes_to_rest(&mut owner);
    owner.tell(&["overwrite db t 3"]);
}

#[test]
fn memory_that_killed_readers_kept_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut most = 0;
    for round in 0..8 {
        let victims = [reader(dir.path(), "base"), reader(dir.path(), "base")];
        owner.tell(&[&format!("overwrite db t {round}")]);
        victims.into_iter().for_each(Peer::kill);
        comes_to_rest(&mut owner);
        // Replaced extents are freed when they are many, or at the next snapshot.
        reader(dir.path(), "base").kill();
        comes_to_rest(&mut owner);
        let allocated: u64 = owner.ask("allocated db").parse().unwrap();
        if round == 1 {
            most = allocated + (4 << 20);
        }
        assert!(round < 2 || allocated <= most, "{allocated} bytes after round {round}");
    }
}

#[test]
fn a_snapshot_outlives_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut reader = reader(dir.path(), "base");
    let shown = reader.sum("base");
    owner.tell(&["churn db t"]);
    owner.kill();
    assert_eq!(reader.sum("base"), shown);
    let refused = reader.ask("take base again");
    assert!(refused.starts_with("error:") && refused.contains("base"), "{refused}");
    assert_ne!(reader.ask("leases base"), "0 0");
    let refused = reader.ask("attach base");
    assert!(refused.contains("is gone"), "{refused}");
    assert_eq!(reader.sum("base"), shown);
    // The snapshot of the dead owner can still be built on, and its name can be used again.
    build_on(&mut reader, "base", "next", 5);
    let mut third = Peer::start(dir.path());
    third.tell(&["attach next", "take next next"]);
    assert_eq!(third.ask("tables next"), "next t");
    third.tell(&["create mine", "publish mine base"]);
}

#[test]
fn a_snapshot_outlives_an_owner_that_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut reader = reader(dir.path(), "base");
    let shown = reader.sum("base");
    owner.tell(&["overwrite db t 2"]);
    owner.close();
    assert_eq!(reader.sum("base"), shown);
    let refused = reader.ask("attach base");
    assert!(refused.contains("no database is named \"base\""), "{refused}");
}

#[test]
fn killing_the_middle_of_a_chain_takes_nothing_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut middle = reader(dir.path(), "base");
    let base_shown = middle.sum("base");
    build_on(&mut middle, "base", "mid", 7);
    let mut third = reader(dir.path(), "mid");
    assert_eq!(third.ask("tables mid"), "mid t");
    let shown = third.sum("mid");
    middle.tell(&["overwrite db mid 8", "drop base"]);
    assert_eq!(owner.ask("own db").split(' ').next(), Some("1"), "one lease, shared");
    middle.kill();
    for value in 2..6 {
        owner.tell(&[&format!("overwrite db t {value}")]);
        assert_eq!(third.sum("mid"), shown, "after {value}");
    }
    assert_eq!(owner.ask("own db").split(' ').next(), Some("1"));
    assert_ne!(base_shown, shown);
    third.kill();
    comes_to_rest(&mut owner);
}

#[test]
fn a_chain_of_three_levels_is_read_at_its_end_when_all_before_it_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = owner(dir.path(), "base", "t", 1);
    let mut first = reader(dir.path(), "base");
    build_on(&mut first, "base", "one", 2);
    let mut second = reader(dir.path(), "one");
    build_on(&mut second, "one", "two", 3);
    let mut last = reader(dir.path(), "two");
    assert_eq!(last.ask("tables two"), "two one t");
    let shown = last.sum("two");
    owner.tell(&["overwrite db t 9"]);
    first.kill();
    assert_eq!(last.sum("two"), shown);
    owner.kill();
    second.kill();
    assert_eq!(last.sum("two"), shown);
}

#[test]
fn one_reader_holds_snapshots_of_several_owners() {
    let dir = tempfile::tempdir().unwrap();
    let mut owners: Vec<Peer> =
        (0..3).map(|at| owner(dir.path(), &format!("db{at}"), &format!("t{at}"), at)).collect();
    let mut reader = Peer::start(dir.path());
    for at in 0..3 {
        reader.tell(&[&format!("attach db{at}"), &format!("take db{at} s{at}")]);
    }
    let shown: Vec<String> = (0..3).map(|at| reader.sum(&format!("s{at}"))).collect();
    reader.tell(&["derive db s0 s1 s2", "publish db all"]);
    let mut end = Peer::start(dir.path());
    end.tell(&["attach all", "take all all"]);
    assert_eq!(end.ask("tables all"), "t0 t1 t2");
    let all = end.sum("all");
    for (at, owner) in owners.iter_mut().enumerate() {
        owner.tell(&[&format!("overwrite db t{at} 77")]);
    }
    owners.remove(1).kill();
    for (at, shown) in shown.iter().enumerate() {
        assert_eq!(reader.sum(&format!("s{at}")), *shown);
    }
    reader.kill();
    assert_eq!(end.sum("all"), all);
    end.kill();
    owners.iter_mut().for_each(comes_to_rest);
}

#[test]
fn an_owner_beyond_its_budget_is_read_by_others_and_killed_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = format!("open db {} 32", data.path().display());
    let mut owner = Peer::start(dir.path());
    // Twice the budget, and four times the budget with what the snapshot keeps.
    owner.tell(&[&open, "fill db t 900000 1", "publish db base"]);
    let mut first = reader(dir.path(), "base");
    let shown = first.sum("base");
    owner.tell(&["overwrite db t 2"]);
    let mut second = reader(dir.path(), "base");
    assert_eq!(first.sum("base"), shown, "after evictions");
    let overwritten = second.sum("base");
    assert_ne!(overwritten, shown);
    // Pages that readers have mapped stay in memory until the readers release their snapshots or
    // end.
    first.kill();
    second.tell(&["drop base"]);
    comes_to_rest(&mut owner);
    let figures = |owner: &mut Peer| -> Vec<u64> {
        owner.ask("budget db").split(' ').map(|figure| figure.parse().unwrap()).collect()
    };
    eventually("it is within its budget", || figures(&mut owner)[0] <= 32 << 20);
    assert!(figures(&mut owner)[1] > 0);
    owner.kill();
    let mut owner = Peer::start(dir.path());
    owner.tell(&[&open, "publish db base"]);
    assert_eq!(reader(dir.path(), "base").sum("base"), overwritten);
}

struct Random(u64);

impl Random {
    fn next(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % most
    }
}

impl Peer {
    fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

fn busy_owner(dir: &Path) -> Peer {
    let mut owner = owner(dir, "base", "t", 1);
    owner.tell(&["churn db t"]);
    owner
}

/// An owner under constant change, a reader of it, a process that builds on it and changes its own
/// tables, and a last one. At a random moment one of them is killed.
fn kill_one(dir: &Path, mut owner: Peer, round: u32, random: &mut Random) -> Peer {
    let mid = format!("mid{round}");
    let mut survivor = reader(dir, "base");
    let held = survivor.sum("base");
    let mut middle = reader(dir, "base");
    let based_on = middle.sum("base");
    build_on(&mut middle, "base", &mid, 7);
    let mut end = reader(dir, &mid);
    let shown = end.sum(&mid);
    middle.say(&format!("churn db {mid}"));
    middle.say("take base more");
    end.say(&format!("take {mid} more"));
    std::thread::sleep(Duration::from_micros(random.next(3_000)));
    match random.next(3) {
        0 => {
            owner.kill();
            (0..2).for_each(|_| drop(middle.answer()));
            assert_eq!(middle.sum("base"), based_on);
            owner = busy_owner(dir);
        }
        1 => middle.kill(),
        _ => {
            end.kill();
            (0..2).for_each(|_| assert_eq!(middle.answer(), "ok"));
            assert_eq!(middle.sum("base"), based_on);
            assert_eq!(survivor.sum("base"), held);
            return owner;
        }
    }
    let answer = end.answer();
    assert!(answer == "ok" || answer.starts_with("error:"), "{answer}");
    assert_eq!(end.sum(&mid), shown);
    assert_eq!(survivor.sum("base"), held);
    owner
}

#[test]
fn kills_at_random_moments_leave_the_others_working() {
    let seed = std::env::var("ATOLL_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("ATOLL_TEST_SEED={seed}");
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut owner = busy_owner(dir.path());
    for round in 0..20 {
        println!("round {round}");
        owner = kill_one(dir.path(), owner, round, &mut random);
        comes_to_rest(&mut owner);
    }
}
