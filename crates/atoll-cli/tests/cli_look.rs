//! The commands that only look: `nodes`, `snapshots`, `list`, and the help of all.

#![allow(clippy::unwrap_used)]

mod common;
use common::{World, machine};
use std::io::Read;
use std::process::Stdio;

#[test]
fn the_machine_is_described_for_people() {
    let world = World::new();
    let folder = machine("two-nodes");
    let out = world.run(&["nodes", "--sysfs", folder.to_str().unwrap()]).ok();
    assert!(out.contains("node") && out.contains("cpus") && out.contains("distance"), "{out}");
    assert!(out.contains("from 0") && out.contains("to 1"), "{out}");
}

#[test]
fn the_machine_is_described_for_programs() {
    let world = World::new();
    let folder = machine("eight-nodes");
    let json = world.run(&["nodes", "--json", "--sysfs", folder.to_str().unwrap()]).json();
    let nodes = json[0]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 8);
    for node in nodes {
        assert_eq!(node["distances"].as_array().unwrap().len(), 8);
        assert!(!node["logical"].as_bool().unwrap());
    }
    assert!(!json[0]["far_pairs"].as_array().unwrap().is_empty());
}

#[test]
fn logical_nodes_divide_this_machine() {
    let world = World::new();
    let json = world.run(&["nodes", "--nodes", "4", "--json"]).json();
    let nodes = json[0]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| node["logical"].as_bool().unwrap()));
    assert!(json[0]["memory_allowed_bytes"].as_u64().unwrap() > 0);
    let err = world.run(&["nodes", "--nodes", "0"]).failed();
    assert!(err.contains('0'), "{err}");
}

#[test]
fn a_folder_that_is_no_machine_is_named() {
    let world = World::new();
    let err = world.run(&["nodes", "--sysfs", "/nowhere"]).failed();
    assert!(err.contains("/nowhere"), "{err}");
}

#[test]
fn who_holds_a_snapshot_is_told() {
    let world = World::new();
    let _owner = world.owner("bank");
    assert!(world.run(&["snapshots", "bank"]).ok().contains("no snapshots are held"));
    let mut reader = world.talk(&["attach", "bank"]);
    reader.say("SELECT 1 AS one;");
    reader.hear("1 row");
    let json = world.run(&["snapshots", "bank", "--json"]).json();
    let held = &json[0]["snapshots"][0];
    assert_eq!(held["pid"], reader.child.id());
    assert_eq!(held["state"], "live");
    assert!(held["bytes_shared"].as_u64().unwrap() > 0);
    let memory = |part: &str| json[0]["memory"][part].as_u64().unwrap();
    assert!(memory("process_bytes") > memory("heap_bytes") && memory("tables_bytes") > 0);
    let out = world.run(&["snapshots", "bank"]).ok();
    assert!(out.contains(&reader.child.id().to_string()) && out.contains("live"), "{out}");
    assert!(out.contains("row headers") && out.contains("the process, for the system"), "{out}");
    assert_eq!(reader.end(), Some(0));
}

#[test]
fn the_open_databases_are_listed_with_their_owners() {
    let world = World::new();
    let owner = world.owner("bank");
    let json = world.run(&["list", "--json"]).json();
    assert_eq!(json[0]["databases"][0]["name"], "bank");
    assert_eq!(json[0]["databases"][0]["pid"], owner.child.id());
    let out = world.run(&["names"]).ok();
    assert!(out.contains("bank") && out.contains("sql bank"), "{out}");
}

#[test]
fn a_runtime_directory_of_ones_own_keeps_names_apart() {
    let world = World::new();
    let _owner = world.owner("bank");
    let other = World::new().runtime_dir();
    let out = world.run(&["list", "--runtime-dir", other.to_str().unwrap()]).ok();
    assert!(out.contains("no databases are open"), "{out}");
}

#[test]
fn limits_are_read_and_refused_where_they_mean_nothing() {
    let world = World::new();
    let json = world.run(&["sql", "bank", "--memory", "64MiB", "--json", "-c", r"\memory"]).json();
    assert_eq!(json[0]["memory_limit_bytes"], 64 << 20);
    let err = world.run(&["list", "--memory", "1GiB"]).failed();
    assert!(err.contains("--memory"), "{err}");
    let ended = world.run(&["sql", "bank", "--memory", "lots"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("4GiB"), "{}", ended.err);
}

#[test]
fn every_command_has_help_with_examples() {
    let world = World::new();
    let commands: [&[&str]; 13] = [
        &[],
        &["sql"],
        &["attach"],
        &["load"],
        &["snapshots"],
        &["list"],
        &["nodes"],
        &["bench"],
        &["bench", "snapshot"],
        &["bench", "ycsb"],
        &["bench", "tpcb"],
        &["bench", "tpcc"],
        &["demo"],
    ];
    for command in commands {
        let words: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let out = world.run(&words).ok();
        assert!(out.contains("Examples:") && out.contains("Usage: atoll"), "{out}");
    }
    assert!(world.run(&["--version"]).ok().starts_with("atoll "));
}

#[test]
fn nobody_reading_the_output_is_no_error() {
    let world = World::new();
    let many = "SELECT * FROM generate_series(1, 100000) AS g(n)";
    for words in [&["nodes", "--help"][..], &["sql", "bank", "-c", many]] {
        let mut command = world.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
        assert_eq!(err, "");
    }
}
