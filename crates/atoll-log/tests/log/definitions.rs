//! Definitions of tables in the logs: their order among the commits of all logs.

use std::sync::Arc;

use atoll_log::block::{Kind, decode_drop};
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{Logs, LogsOptions};
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::TableSerial;
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::{Commit, Definition, Recorder};

const LOGS: usize = 3;

/// Commits a transaction that has seen nothing.
fn commit(recorder: &mut dyn Recorder, log: u32) -> u64 {
    let mut redo = Redo::default();
    redo.part(log).extend_from_slice(b"changes");
    recorder.admit(&redo).unwrap();
    recorder.record(&redo, Commit { epoch: 1, seen: 0 })
}

#[test]
fn a_definition_comes_after_all_commits_before_it_and_before_all_after_it() {
    let medium = CrashMedium::default();
    let media: Vec<Arc<dyn Medium>> =
        (0..LOGS).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect();
    let options = LogsOptions::default();
    let starts = [Start { lsn: 0, gsn: 0 }; LOGS];
    let logs = Logs::open(&media, &starts, 1, options, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    let mut recorder = Arc::clone(&logs).recorder();
    let mut drops = Vec::new();
    for serial in (7..10).map(TableSerial) {
        // The logs drift apart.
        let before = (0..50).map(|_| commit(&mut *recorder, 2)).max().unwrap();
        let drop = Definition::Drop(serial);
        recorder.admit_definition(drop).unwrap();
        let gsn = recorder.record_definition(drop, 1);
        assert!(gsn > before);
        for log in [1, 0, 2] {
            assert!(commit(&mut *recorder, log) > gsn, "log {log}");
        }
        logs.settle(gsn).unwrap();
        assert!(logs.horizon() >= gsn);
        drops.push((gsn, serial));
    }
    logs.flush().unwrap();
    let mut scan = Scan::open(Arc::clone(&media[0]), 0, options.file_bytes, 0).unwrap();
    let mut found = Vec::new();
    while let Some((header, payload)) = scan.read_next().unwrap() {
        if header.kind == Kind::Drop {
            found.push((header.gsn, decode_drop(payload).unwrap()));
        }
    }
    assert_eq!(found, drops);
}
