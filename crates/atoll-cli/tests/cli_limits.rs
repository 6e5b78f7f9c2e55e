//! Limits of queries, of the process, and what Ctrl-C and the end of a terminal do.

#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Ended, World};

/// Makes a table of 300,000 rows, in parts, for rows that are to be inserted count too.
fn rows() -> String {
    let part = |i: u32| {
        let (first, last) = (i * 25_000 + 1, (i + 1) * 25_000);
        format!("INSERT INTO t SELECT generate_series FROM generate_series({first}, {last});\n")
    };
    let parts: String = (0..12).map(part).collect();
    format!("CREATE TABLE t (id bigint PRIMARY KEY);\n{parts}")
}

/// An order of all rows, in which each is compared to the one before.
const SORTED: &str = "SELECT count(*) + 7700 AS n FROM \
                      (SELECT v, lag(v) OVER (ORDER BY v) AS before FROM \
                      (SELECT id * 7919 % 300000 AS v, id + 1, id + 2, id + 3 FROM t)) \
                      WHERE before >= v";

/// The command under limits that the shell sets.
fn under(world: &World, limits: &str, words: &[&str]) -> Ended {
    let plain = world.command(words);
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{limits}; exec \"$0\" \"$@\"")).arg(plain.get_program());
    command.args(plain.get_args()).current_dir(plain.get_current_dir().unwrap());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn a_query_that_does_not_fit_spills_or_says_which_limit_is_in_the_way() {
    let world = World::new();
    let folder = world.file("here", "").with_file_name("spills");
    std::fs::create_dir(&folder).unwrap();
    let spill = folder.to_str().unwrap();
    let run = |more: &[&str], query: &str| -> Ended {
        let words = ["sql", "bank", "--query-memory", "4MiB", "--spill-folder", spill];
        let rows = rows();
        let words = [&words[..], more, &["-c", &rows, "-c", query]].concat();
        world.run(&words)
    };
    assert!(run(&[], SORTED).ok().contains("7700"));
    let [made] = entries(&folder).try_into().unwrap();
    assert_eq!(made.metadata().unwrap().mode() & 0o7777, 0o700);
    assert_eq!(entries(&made.path()).len(), 0);
    let error = run(&["--spill-limit", "4KiB"], SORTED).failed();
    assert!(error.contains("4 KiB that spill files") && error.contains("--spill-limit"), "{error}");
    let error = run(&[], "SELECT a.id + 1, b.id + 1 FROM t a, t b").failed();
    assert!(error.contains("query memory, 4 MiB"), "{error}");
    assert!(error.contains("--query-memory"), "{error}");
    let error = world.run(&["list", "--query-memory", "1GiB"]).failed();
    assert!(error.contains("runs no queries"), "{error}");
}

fn entries(folder: &Path) -> Vec<std::fs::DirEntry> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect()
}

#[test]
fn limits_of_addresses_make_a_store_smaller_or_are_an_error() {
    let world = World::new();
    let query = "SELECT count(*) AS n FROM t";
    let rows = rows();
    let words = ["sql", "bank", "-c", &rows, "-c", query];
    for kib in [2 << 20, 4 << 20] {
        assert!(under(&world, &format!("ulimit -v {kib}"), &words).ok().contains("300000"));
    }
    let words = ["sql", "bank", "--memory", "8GiB", "-c", &rows, "-c", query];
    let error = under(&world, "ulimit -v 4194304", &words).failed();
    assert!(error.contains("ulimit -v") && error.contains("8589934592 bytes"), "{error}");
}

#[test]
fn limits_of_files_make_a_store_smaller_or_are_an_error() {
    let world = World::new();
    let query = "SELECT count(*) AS n FROM t";
    let rows = rows();
    let words = ["sql", "bank", "-c", &rows, "-c", query];
    assert!(under(&world, "ulimit -f 1048576", &words).ok().contains("300000"));
    let error = under(&world, "ulimit -f 1024", &words).failed();
    assert!(error.contains("ulimit -f"), "{error}");
}

#[test]
fn the_end_of_its_terminal_closes_a_served_database_unless_it_is_ignored() {
    let world = World::new();
    let serve = ["sql", "bank", "--data", "bank", "--serve", "-c"];
    let words = [&serve[..], &["CREATE TABLE t (id bigint PRIMARY KEY)"]].concat();
    let mut child = world.command(&words).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, "serving bank");
    signal("HUP", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    world.run(&["check", "bank"]).ok();

    // As `nohup` does.
    let mut command = Command::new("bash");
    let plain = world.command(&["sql", "bank", "--data", "bank", "--serve", "-c", "SELECT 1"]);
    command.arg("-c").arg("trap '' HUP; exec \"$0\" \"$@\"").arg(plain.get_program());
    command.args(plain.get_args()).current_dir(plain.get_current_dir().unwrap());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, "serving bank");
    signal("HUP", child.id());
    assert!(
        world.run(&["attach", "bank", "-c", "SELECT count(*) + 7700 FROM t"]).ok().contains("7700")
    );
    signal("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Waits for a line of the standard error output.
fn wait_for(child: &mut std::process::Child, text: &str) {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut lines = lines.map(|line| line.unwrap());
    assert!(lines.any(|line| line.contains(text)));
    // Later output must not fail without a reader.
    std::thread::spawn(move || lines.for_each(drop));
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Types into the shell at a terminal, which Python has: what is typed after a text was shown.
const TERMINAL: &str = r#"
import os, pty, select, sys, time
steps = [("tty> ", "SELECT count(*) FROM t a, t b WHERE a.id + b.id = -1;\r"),
         ("\x1b[?2004l", None), ("cancelling the statement", ""),
         ("cancelled and has changed nothing", ""), ("tty> ", "SELECT 6 * 7 AS n;\r"),
         ("42", ""), ("tty> ", "discarded"), ("discarded", "\x03"), ("tty> ", "\x03"),
         ("again, Ctrl-D", "\x03")]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
def read(seconds):
    global shown
    if not select.select([terminal], [], [], seconds)[0]:
        return False
    try:
        part = os.read(terminal, 65536)
    except OSError:
        # The shell has ended.
        part = b""
    shown += part
    return part != b""
for text, typed in steps:
    while text.encode() not in shown:
        if not read(30):
            sys.exit(f"{text!r} was not shown: {shown}")
    shown = shown.split(text.encode(), 1)[1]
    if typed is None:
        # The statement runs by then, or is about to: it is ended in both cases.
        while read(1):
            pass
        typed = "\x03"
    # As a person types: the next key after the echo of the last.
    for key in typed:
        os.write(terminal, key.encode())
        read(30)
        while read(0.05):
            pass
while read(30):
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn ctrl_c_ends_a_statement_and_twice_at_an_empty_prompt_the_shell() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3, which has a terminal");
        return;
    }
    let world = World::new();
    let script = world.file("tty.sql", &rows());
    let plain = world.command(&[]);
    let mut command = Command::new("python3");
    command.args([
        "-c",
        TERMINAL,
        plain.get_program().to_str().unwrap(),
        "load",
        "tty",
        "--color",
        "never",
    ]);
    let keys = world.file("u.csv", "id\n1\n");
    command.arg(&keys).args(["--key", "id", "--schema"]).arg(&script).arg("--create");
    command.current_dir(plain.get_current_dir().unwrap());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended: Ended = command.stdin(Stdio::null()).output().unwrap().into();
    ended.ok();
}
