//! `atoll config` and `atoll serve --config`.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::World;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.toml");

/// The lines of a configuration without remarks.
fn values(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split(" # ").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn the_example_of_the_documents_is_right_and_shown() {
    let world = World::new();
    assert_eq!(world.run(&["config", "check", EXAMPLE]).ok(), format!("{EXAMPLE} is right\n"));
    let shown = world.run(&["config", "show", "--config", EXAMPLE, "--port", "6000"]).ok();
    let line = |key: &str| {
        let found = shown.lines().find(|line| line.starts_with(key)).unwrap();
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("port"), "port = 6000 # the command line");
    assert_eq!(line("durability"), format!("durability = \"strict\" # {EXAMPLE}"));
    assert_eq!(line("# ready_memory ="), "# ready_memory = # default: none");
    assert_eq!(line("# tls_key ="), "# tls_key = # not set");
    // What is shown is a configuration file.
    let path = world.file("shown.toml", &shown);
    let again = world.run(&["config", "show", "--config", path.to_str().unwrap()]).ok();
    assert_eq!(values(&again), values(&shown));
    let bare = world.run(&["config", "show", "bank"]).ok();
    assert!(bare.contains("port = 5432") && bare.contains("# default: 127.0.0.1"), "{bare}");
}

#[test]
fn all_mistakes_are_told_with_their_lines() {
    let world = World::new();
    let text = "name = 'bank'\n[server]\nprot = 1\n[database]\nmemory = 'much'\n";
    let path = world.file("bank.toml", text);
    let file = path.to_str().unwrap();
    let checked = world.run(&["config", "check", file]);
    for wanted in [
        format!("{file}:3: there is no key prot in [server]\n    the keys there are "),
        format!("{file}:5: memory: \"much\" is not a size; write it like 4GiB"),
    ] {
        assert!(checked.out.contains(&wanted), "{}", checked.out);
    }
    assert!(checked.failed().contains("has 2 mistakes"));
    let told = world.run(&["--json", "config", "check", file]).out;
    assert!(told.starts_with("[{\"line\":3,"), "{told}");
    let served = world.run(&["serve", "--config", file]).failed();
    assert!(served.contains(&format!("{file}:3: ")) && served.contains("and 1 more"), "{served}");
    let path = world.file("half.toml", "[server]\ntls_cert = 'a'\n");
    let checked = world.run(&["config", "check", path.to_str().unwrap()]);
    assert!(checked.out.contains("--tls-key"), "{}", checked.out);
    assert_eq!(checked.code, Some(1));
    for (text, wanted) in [
        ("[server]\nlisten = ['none', '127.0.0.1']\n", "--listen none is given beside an address"),
        (
            "[log]\nlog_level = 'error'\nlog_min_duration = '1s'\n",
            "--log-min-duration logs nothing",
        ),
    ] {
        let path = world.file("both.toml", text);
        let checked = world.run(&["config", "check", path.to_str().unwrap()]);
        assert!(checked.out.contains(wanted), "{}", checked.out);
        let path = path.to_str().unwrap();
        let served = world.run(&["serve", "bank", "--config", path]).failed();
        assert!(served.contains(wanted), "{served}");
    }
    let missing = world.run(&["config", "check", "/missing.toml"]).failed();
    assert!(missing.contains("/missing.toml"), "{missing}");
    let path = world.file("nameless.toml", "");
    let told = world.run(&["serve", "--config", path.to_str().unwrap()]).failed();
    assert!(told.contains("the database has no name"), "{told}");
}

#[test]
fn a_server_runs_with_a_file_and_the_command_line_wins() {
    let world = World::new();
    let text = "name = 'other'\n[server]\nport = 1\nlisten = ['none']\nsocket_dir = 'sockets'\n\
                [database]\ndata = 'data'\n";
    let path = world.file("bank.toml", text);
    let words = ["serve", "bank", "--port", "6123", "--config", path.to_str().unwrap()];
    let mut command = world.command(&words);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let listed = world.run(&["list"]).ok();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(line, "listening on sockets/.s.PGSQL.6123\n");
    assert!(listed.contains("bank") && !listed.contains("other"), "{listed}");
    assert!(path.with_file_name("data").is_dir());
}
