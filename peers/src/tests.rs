//! Every peer runs the workload correctly, so that its figures can be compared.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use clap::ValueEnum;

use crate::engine::{Access, COLUMN_BYTES, Client, Column, Engine, PeerError, loaded_row};
use crate::{Cli, Peer, open, run_command};

const ROWS: u64 = 500;

fn engines(threads: usize) -> impl Iterator<Item = (Peer, Box<dyn Engine>)> {
    Peer::value_variants()
        .iter()
        .map(move |peer| (*peer, open(*peer, Path::new("/dev/shm"), ROWS, threads).unwrap()))
}

fn read(client: &mut dyn Client, key: u64, column: usize) -> Column {
    let mut bytes = [0; COLUMN_BYTES];
    client.transaction(&[Access { key, column, update: None }], &mut bytes).unwrap();
    bytes
}

// One test runs all peers, because tables in memory share one name in a process.
#[test]
fn peers_keep_what_was_loaded_and_updated_and_lose_no_update() {
    rows_are_there_and_an_update_changes_one_column();
    a_row_that_is_not_there_is_an_error_and_leaves_no_transaction_open();
    transactions_of_two_threads_are_atomic();
    a_run_reports_what_it_has_measured();
}

fn rows_are_there_and_an_update_changes_one_column() {
    for (peer, engine) in engines(1) {
        engine
            .with_client(&mut |client| {
                let loaded = loaded_row(7);
                let column =
                    |number: usize| loaded[number * COLUMN_BYTES..][..COLUMN_BYTES].to_vec();
                assert_eq!(read(client, 7, 0).to_vec(), column(0), "{peer:?}");
                assert_eq!(read(client, 7, 9).to_vec(), column(9), "{peer:?}");
                let mut bytes = [0; COLUMN_BYTES];
                let update = Access { key: 7, column: 3, update: Some(0xab) };
                let read_back = Access { update: None, ..update };
                client.transaction(&[update, read_back], &mut bytes).unwrap();
                assert_eq!(bytes, [0xab; COLUMN_BYTES], "{peer:?} reads its own update");
                assert_eq!(read(client, 7, 3), [0xab; COLUMN_BYTES], "{peer:?}");
                assert_eq!(read(client, 7, 2).to_vec(), column(2), "{peer:?}");
                assert_eq!(read(client, 7, 4).to_vec(), column(4), "{peer:?}");
                Ok(())
            })
            .unwrap();
    }
}

fn a_row_that_is_not_there_is_an_error_and_leaves_no_transaction_open() {
    for (peer, engine) in engines(1) {
        engine
            .with_client(&mut |client| {
                let mut bytes = [0; COLUMN_BYTES];
                let before = read(client, 1, 0);
                for update in [None, Some(1)] {
                    let absent = Access { key: ROWS, column: 0, update };
                    let done =
                        client.transaction(&[Access { key: 1, ..absent }, absent], &mut bytes);
                    let missing = matches!(done, Err(PeerError::RowMissing { key: ROWS }));
                    assert!(missing, "{peer:?}: {done:?}");
                }
                assert_eq!(read(client, 1, 0), before, "{peer:?} rolls back");
                Ok(())
            })
            .unwrap();
    }
}

/// Two threads fill the same two columns of two rows, each with its own byte: in any order, both
/// rows must show the same byte at the end and to a concurrent reader.
fn transactions_of_two_threads_are_atomic() {
    for (peer, engine) in engines(2) {
        let engine = engine.as_ref();
        let write = |byte| {
            engine.with_client(&mut |client| {
                for _ in 0..200 {
                    let first = Access { key: 10, column: 5, update: Some(byte) };
                    let second = Access { key: 400, ..first };
                    let mut bytes = [0; COLUMN_BYTES];
                    client.transaction(&[first, second], &mut bytes)?;
                    // The column read last is that of the second row; that of the first row is read
                    // alone.
                    let mut both = [0; COLUMN_BYTES];
                    let reads = [first, second].map(|access| Access { update: None, ..access });
                    client.transaction(&reads, &mut both)?;
                    assert!(both == [1; COLUMN_BYTES] || both == [2; COLUMN_BYTES], "{peer:?}");
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| write(1));
            write(2).unwrap();
            other.join().unwrap().unwrap();
        });
        engine
            .with_client(&mut |client| {
                assert_eq!(read(client, 10, 5), read(client, 400, 5), "{peer:?}");
                Ok(())
            })
            .unwrap();
    }
}

fn a_run_reports_what_it_has_measured() {
    use clap::Parser;
    for peer in Peer::value_variants() {
        let name = peer.to_possible_value().unwrap().get_name().to_owned();
        let cli = Cli::parse_from([
            "atoll-peers",
            "--peer",
            &name,
            "--rows",
            "500",
            "--threads",
            "2",
            "--seconds",
            "0.5",
            "--warm-up",
            "0.05",
            "--theta",
            "0.6",
        ]);
        let json = run_command(cli).unwrap();
        assert!(json["commits"].as_u64().unwrap() > 0, "{name}");
        assert!(json["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{name}");
        for key in ["throughput_txn_s", "aborts", "latency_us", "config"] {
            assert!(json.get(key).is_some(), "{name}: {key}");
        }
    }
}
