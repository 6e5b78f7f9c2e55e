//! `atoll bench commit|recovery|checkpoint`: what programs are told, of very short runs.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::World;
use serde_json::Value;

/// The report of a benchmark of files in a folder of the world.
fn bench(world: &World, words: &str) -> Value {
    let folder = world.runtime_dir().with_file_name("files");
    std::fs::create_dir(&folder).unwrap();
    let mut all = vec!["bench"];
    all.extend(words.split_whitespace());
    all.extend(["--json", "--data", folder.to_str().unwrap()]);
    let report = world.run(&all).json().remove(0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "what it made is removed");
    report
}

/// A number of a report that must be more than nothing.
fn positive(report: &Value, key: &str) -> f64 {
    let found = report[key].as_f64().unwrap_or_else(|| panic!("{key} of {report}"));
    assert!(found.is_finite() && found > 0.0, "{key} of {report}");
    found
}

fn count(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} of {report}"))
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

#[test]
fn commits_are_told_with_their_flushes_latencies_and_the_probe() {
    let world = World::new();
    let sizes = "--clients 4 --threads 2 --rows 1000 --seconds 1 --warmup 0.1";
    let report = bench(&world, &format!("commit {sizes} --durability strict --tablespaces 1"));
    assert_eq!((count(&report["config"], "clients"), count(&report, "threads")), (4, 2));
    assert_eq!(report["config"]["durability"], "strict");
    assert!(report["config"]["scheme"].is_string() && report["medium"] == "files", "{report}");
    let of = |key: &str| positive(&report, key);
    let per_flush = of("commits_s") / of("flushes_s");
    assert!(is_near(per_flush, of("commits_per_flush")), "{report}");
    assert!(of("bytes_per_flush") >= 8.0 * per_flush, "{report}");
    let floor = 4e6 / of("flush_probe_us");
    assert!(is_near(of("share_of_floor"), of("commits_s") / floor), "{report}");
    for key in ["latency_us", "commit_us"] {
        let latency = ["p50", "p99", "p999", "max"].map(|part| positive(&report[key], part));
        assert!(latency.is_sorted(), "{key} of {report}");
        let mean = positive(&report[key], "mean");
        assert!(mean <= latency[3], "{key} of {report}");
    }
    let means = ["commit_us", "latency_us"].map(|key| positive(&report[key], "mean"));
    assert!(means[0] <= means[1], "a commit is a part of its transaction: {report}");
    // Four clients have four seconds in a second, and what the first ones began before it.
    let most = 4.0 * (1e6 + positive(&report["latency_us"], "max")) * 1.05;
    assert!(of("commits_s") * means[1] <= most, "{report}");
}

#[test]
fn a_recovery_is_told_with_its_parts_and_the_probes() {
    let world = World::new();
    let report = bench(&world, "recovery --log-mib 1 --rows 2000 --tablespaces 2");
    let recovery = &report["recovery"];
    let of = |key: &str| positive(&report, key);
    assert_eq!((count(&report["config"], "log_mib"), count(recovery, "rows")), (1, 2000));
    assert_eq!(count(&report, "redone"), count(recovery, "redone"));
    assert!(count(&report, "redone") >= 2000, "{report}");
    // It was closed, so everything in its logs had been told of.
    assert_eq!((count(&report, "undone"), count(recovery, "dropped")), (0, 0));
    assert!(recovery["was_closed"] == true && recovery["created"] == false, "{report}");
    let parts = ["home_s", "log_s", "index_s"].map(|part| positive(recovery, part));
    assert!(parts.iter().sum::<f64>() <= of("seconds"), "{report}");
    let log_mib = positive(recovery, "log_bytes") / (1 << 20) as f64;
    assert!(is_near(of("mib_s"), log_mib / parts[1]), "{report}");
    assert!(is_near(of("home_mib_s"), of("home_mib") / parts[0]), "{report}");
    assert!(of("probe_mib_s") > 1.0 && of("store_mib_s") > 1.0, "{report}");
}

#[test]
fn checkpoints_are_told_with_what_the_least_would_have_been() {
    let world = World::new();
    let report = bench(&world, "checkpoint --rows 20000 --updates 10,300");
    let whole = &report["whole"];
    let segments = 20_000u64.div_ceil(atoll::SEGMENT_ROWS as u64);
    assert_eq!((count(whole, "number"), count(whole, "segments")), (1, segments));
    assert_eq!(count(whole, "segments_changed"), segments);
    positive(whole, "seconds");
    assert!(count(whole, "bytes") > 20_000 * 16, "{report}");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for (at, (run, updates)) in runs.iter().zip([10, 300]).enumerate() {
        let areas = ["cla_bytes", "block_bytes", "extent_bytes"].map(|key| count(run, key));
        assert!(areas.is_sorted() && areas[0] <= 64 * updates, "{run}");
        assert!([64, 4096, 64 << 10].iter().zip(areas).all(|(unit, area)| area % unit == 0));
        let checkpoint = &run["checkpoint"];
        assert_eq!((count(run, "updates"), count(checkpoint, "number")), (updates, at as u64 + 2));
        let written = count(checkpoint, "bytes") + count(checkpoint, "file_bytes");
        assert!(is_near(positive(run, "ratio"), written as f64 / areas[0] as f64), "{run}");
        assert!(positive(run, "ratio") >= 1.0, "{run}");
        assert!(count(checkpoint, "segments_changed") <= segments, "{run}");
        positive(checkpoint, "seconds");
    }
}
