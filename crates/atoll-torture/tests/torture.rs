//! Runs every scheme through a thousand schedules, and checks that runs repeat exactly.
#![allow(clippy::unwrap_used)]

use atoll_bench::progress::Unwatched;
use atoll_torture::{TortureArgs, lineup, run};
use atoll_txn::schemes::SchemeKind;

fn args(scheme: &str) -> TortureArgs {
    TortureArgs {
        scheme: scheme.to_owned(),
        seeds: 1000,
        first_seed: 0,
        native: false,
        threads: 4,
        seconds: 1.0,
        jobs: Some(2),
        anomalies_max: 3,
    }
}

#[test]
fn every_scheme_is_free_of_anomalies_in_a_thousand_schedules() {
    let report = run(&args("all"), &mut Unwatched).unwrap();
    println!("{report}");
    for scheme in &report.schemes {
        let tally = scheme.tally;
        assert_eq!(scheme.seeds, 1000, "{}", scheme.scheme);
        assert!(tally.committed > 5000, "{}: {tally:?}", scheme.scheme);
        assert!(tally.snapshots > 1000 && tally.rolled_back > 300, "{}: {tally:?}", scheme.scheme);
        assert!(tally.refused > 100, "{}: {tally:?}", scheme.scheme);
    }
    assert_eq!(report.anomalies(), 0, "{report}");
}

#[test]
fn threads_of_this_machine_find_no_anomaly_either() {
    let report = run(&TortureArgs { native: true, ..args("all") }, &mut Unwatched).unwrap();
    println!("{report}");
    assert_eq!(report.anomalies(), 0, "{report}");
    assert!(report.schemes.iter().all(|scheme| scheme.tally.committed > 100), "{report}");
}

#[test]
fn a_seed_repeats_its_run_down_to_every_turn_and_seeds_differ() {
    for kind in SchemeKind::ALL.iter().copied() {
        let mut runs = Vec::new();
        for seed in 0..20 {
            let run = lineup::seed(kind, seed, true);
            let (turns, history) = run.kept.as_ref().unwrap();
            assert!(turns.len() > 5 && history.transactions.len() > 3, "{}", kind);
            // On another thread, after another run: a run must not depend on either.
            let again = std::thread::spawn(move || {
                lineup::seed(kind, seed + 1001, false);
                lineup::seed(kind, seed, true)
            });
            let again = again.join().unwrap();
            assert_eq!(run, again, "{} seed {seed}", kind);
            runs.push(run);
        }
        runs.dedup();
        assert_eq!(runs.len(), 20, "{}", kind);
    }
}

#[test]
fn a_report_names_schemes_seeds_and_anomalies_for_programs_too() {
    let report = run(&TortureArgs { seeds: 3, ..args("no-wait") }, &mut Unwatched).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["mode"], "seeded");
    let scheme = &json["schemes"][0];
    assert_eq!((&scheme["scheme"], &scheme["seeds"]), (&"NO_WAIT".into(), &3.into()));
    assert!(scheme["committed"].as_u64().unwrap() > 0);
    assert_eq!(scheme["anomalies"], serde_json::json!([]));
    let unknown = run(&args("no-such"), &mut Unwatched).unwrap_err();
    assert!(unknown.to_string().contains("no-such"), "{unknown}");
}
