//! Every peer keeps what it has acknowledged as durable.
//!
//! Data that was not flushed is still there when a database is opened again without a crash, so the
//! flushes are counted as well ([`flushes`]).

#![allow(clippy::unwrap_used)]

use std::path::Path;

use clap::{Parser, ValueEnum};

use super::bank::{Add, Key, Shape, Table, Transaction};
use super::check::{Done, check};
use super::choices::Choices;
use super::{Engine, Peer, Tables, open};
use crate::engine::PeerError;
use crate::folder::Folder;
use crate::{Cli, run_command};

mod flushes;

const TPCB: Shape = Shape::Tpcb { branches: 2, accounts: 50 };
const COMMIT: Shape = Shape::Commit { rows: 30 };

fn folder() -> Folder {
    Folder::new(&std::env::temp_dir()).unwrap()
}

fn new(peer: Peer, folder: &Path, shape: Shape) -> Box<dyn Engine> {
    open(peer, folder, shape, 4, Tables::New).unwrap()
}

fn again(peer: Peer, folder: &Path, shape: Shape) -> Box<dyn Engine> {
    open(peer, folder, shape, 4, Tables::There).unwrap()
}

/// Runs four clients concurrently, with `transactions` transactions each.
fn work(engine: &dyn Engine, shape: Shape, transactions: u64) -> Done {
    let client = |number| {
        let (mut choices, mut done) = (Choices::new(shape, 7, number), Done::default());
        let body = &mut |client: &mut dyn super::Client| {
            for _ in 0..transactions {
                let transaction = choices.next();
                client.commit(&transaction)?;
                done.changed += transaction.delta;
                done.committed += 1;
            }
            Ok(())
        };
        engine.with_client(body).unwrap();
        done
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|n| scope.spawn(move || client(n))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).fold(
            Done::default(),
            |all, one| Done {
                changed: all.changed + one.changed,
                committed: all.committed + one.committed,
            },
        )
    })
}

#[test]
fn sums_hold_when_a_bank_is_opened_again() {
    for peer in Peer::value_variants() {
        for shape in [TPCB, COMMIT] {
            let folder = folder();
            let engine = new(*peer, folder.path(), shape);
            let done = work(engine.as_ref(), shape, 25);
            assert_eq!(done.committed, 100);
            check(engine.as_ref(), shape, done).unwrap();
            drop(engine);
            let engine = again(*peer, folder.path(), shape);
            let held = check(engine.as_ref(), shape, done);
            held.unwrap_or_else(|error| panic!("{peer:?}: {error}"));
            let more = Done { changed: done.changed + 1, ..done };
            check(engine.as_ref(), shape, more).unwrap_err();
        }
    }
}

#[test]
fn the_check_sees_a_lost_entry_and_a_branch_that_has_too_much() {
    for peer in Peer::value_variants() {
        let folder = folder();
        let engine = new(*peer, folder.path(), TPCB);
        let done = work(engine.as_ref(), TPCB, 2);
        let lost = Done { committed: done.committed + 1, ..done };
        let error = check(engine.as_ref(), TPCB, lost).unwrap_err().to_string();
        assert!(error.contains("history"), "{peer:?}: {error}");
        let add = Add { table: Table::Branches, key: Key::new(2, 0, 2) };
        let transaction = Transaction { delta: 5, adds: vec![add], entry: None };
        engine.with_client(&mut |client| client.commit(&transaction).map(|_| ())).unwrap();
        let error = check(engine.as_ref(), TPCB, done).unwrap_err().to_string();
        assert!(error.contains("branch 2 holds"), "{peer:?}: {error}");
    }
}

#[test]
fn a_transaction_that_fails_leaves_nothing() {
    for peer in Peer::value_variants() {
        let folder = folder();
        let engine = new(*peer, folder.path(), TPCB);
        let done = work(engine.as_ref(), TPCB, 2);
        let absent = Key::new(9, 0, 9);
        let mut transaction = Choices::new(TPCB, 1, 4).next();
        transaction.adds[2].key = absent;
        engine
            .with_client(&mut |client| {
                let failed = client.commit(&transaction);
                let missing =
                    matches!(failed, Err(PeerError::RowMissing { key }) if key == absent.0);
                assert!(missing, "{peer:?}: {failed:?}");
                Ok(())
            })
            .unwrap();
        check(engine.as_ref(), TPCB, done).unwrap();
    }
}

#[test]
fn a_commit_is_flushed_before_its_client_is_told() {
    for peer in Peer::value_variants() {
        for shape in [TPCB, COMMIT] {
            let folder = folder();
            let engine = new(*peer, folder.path(), shape);
            let mut choices = Choices::new(shape, 1, 0);
            engine
                .with_client(&mut |client| {
                    for _ in 0..20 {
                        let (transaction, before) = (choices.next(), flushes::of_this_thread());
                        client.commit(&transaction)?;
                        assert!(flushes::of_this_thread() > before, "{peer:?}");
                    }
                    Ok(())
                })
                .unwrap();
        }
    }
}

#[test]
fn runs_report_what_they_have_measured() {
    for peer in Peer::value_variants() {
        let name = peer.to_possible_value().unwrap().get_name().to_owned();
        let common = ["--peer", &name, "--clients", "3", "--seconds", "0.5", "--warm-up", "0.1"];
        let workloads: [(&[&str], &str); 2] = [
            (&["commit", "--rows", "30"], "commits_s"),
            (&["tpcb", "--scale", "2", "--accounts-per-branch", "50"], "throughput_txn_s"),
        ];
        for (workload, rate) in workloads {
            let words = ["atoll-peers"].iter().chain(workload).chain(&common);
            let json = run_command(Cli::parse_from(words)).unwrap();
            assert!(json[rate].as_f64().unwrap() > 0.0, "{name}: {rate}");
            assert!(json["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{name}");
            assert!(json["share_of_floor"].as_f64().unwrap() > 0.0, "{name}");
            assert_eq!(json["config"]["peer"], name.as_str());
        }
    }
}
