//! What survives a crash of several logs.
#![allow(clippy::unwrap_used)]
use atoll_machine::CrashMedium;
use atoll_storage::redo::Redo;
use atoll_txn::journal::{Commit, Journal, Recorder};

use super::*;
use crate::log::Alone;
use crate::scan::Scan;

fn commit(recorder: &mut dyn Recorder, log: u32, seen: u64) -> u64 {
    let mut redo = Redo::default();
    redo.part(log).push(1);
    recorder.admit(&redo).unwrap();
    recorder.record(&redo, Commit { epoch: 1, seen })
}

/// The last GSN that is durable in a log.
fn last_durable(medium: &CrashMedium, log: u8, file_bytes: u64) -> u64 {
    let crashed = medium.crash(medium.events(), || false);
    let folder = crashed.folder(&format!("node-{log}")).unwrap();
    let mut scan = Scan::open(folder, log, file_bytes, 0).unwrap();
    while scan.read_next().unwrap().is_some() {}
    scan.gsn()
}

/// A transaction reads a commit in one log that is not durable yet, and writes to a second log
/// with a clock that is far behind. Returns whether the transaction survives a crash, and
/// whether the commit that it read does.
fn reader_and_writer(planted: Planted) -> (bool, bool) {
    let medium = CrashMedium::default();
    let media: Vec<_> = (0..2).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect();
    let (file_bytes, ring_bytes) = (256 << 10, 2 << 20);
    let options = LogsOptions { file_bytes, ring_bytes, planted, ..LogsOptions::default() };
    let starts = [Start { lsn: 0, gsn: 0 }; 2];
    let logs = Logs::open(&media, &starts, 1, options, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    let mut recorder = Arc::clone(&logs).recorder();
    // The second log has something to flush, so a flush of the first one writes no watermark
    // for it, and the clock of the second log stays behind.
    commit(&mut *recorder, 1, 0);
    let many = (0..20).map(|_| commit(&mut *recorder, 0, 0)).last().unwrap();
    logs.logs[0].flush_to(many, &Alone).unwrap();
    let written = commit(&mut *recorder, 0, 0);
    let reader = commit(&mut *recorder, 1, written);
    logs.logs[1].flush_to(reader, &Alone).unwrap();
    let lasts = [0, 1].map(|log| last_durable(&medium, log, options.file_bytes));
    let horizon = lasts.into_iter().min().unwrap();
    (reader <= horizon, written <= horizon)
}

#[test]
fn no_transaction_survives_without_the_commits_that_it_has_seen() {
    let (reader, written) = reader_and_writer(Planted::Nothing);
    assert!(!reader || written);
    // It does if it has not learnt the GSN of that commit.
    assert_eq!(reader_and_writer(Planted::NothingSeen), (true, false));
}

fn open(medium: &CrashMedium, starts: &[Start], incarnation: u32) -> Arc<Logs> {
    let media: Vec<_> =
        (0..starts.len()).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect();
    let options = LogsOptions { ring_bytes: 2 << 20, ..LogsOptions::default() };
    let logs = Logs::open(&media, starts, incarnation, options, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    logs
}

/// Crashes so that nothing survives that was not synced; returns the horizon, and the end and
/// the last GSN of each log.
fn after_crash(medium: &CrashMedium, logs: usize) -> (CrashMedium, u64, Vec<Start>) {
    let crashed = medium.crash(medium.events(), || false);
    let (mut idle, mut ends) = (Vec::new(), Vec::new());
    for log in 0..logs {
        let folder = crashed.folder(&format!("node-{log}")).unwrap();
        let bytes = LogsOptions::default().file_bytes;
        let mut scan = Scan::open(folder, log as u8, bytes, 0).unwrap();
        while let Some((header, payload)) = scan.read_next().unwrap() {
            if header.kind == Kind::IdleWatermark {
                idle.extend(IdleWatermark::decode_all(payload).unwrap());
            }
        }
        ends.push(Start { lsn: scan.at(), gsn: scan.gsn() });
    }
    let known = |(log, end): (usize, &Start)| {
        let idle = idle.iter().filter(|watermark| usize::from(watermark.tablespace) == log);
        idle.map(|watermark| watermark.gsn).max().unwrap_or(0).max(end.gsn)
    };
    let horizon = ends.iter().enumerate().map(known).min().unwrap();
    (crashed, horizon, ends)
}

#[test]
fn a_watermark_of_one_incarnation_does_not_cover_blocks_of_the_next() {
    let medium = CrashMedium::default();
    let logs = open(&medium, &[Start { lsn: 0, gsn: 0 }; 3], 1);
    let mut recorder = Arc::clone(&logs).recorder();
    let small = commit(&mut *recorder, 0, 0);
    let large = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
    logs.logs[2].flush_to(large, &Alone).unwrap();
    // A leader is about to flush more of the third log, and the second log gives it a promise.
    let larger = (0..20).map(|_| commit(&mut *recorder, 2, 0)).last().unwrap();
    logs.before(&logs.logs[2], larger).unwrap();
    // Another leader flushes the first log, with a clock that is behind, and writes a watermark
    // for the second log.
    logs.logs[0].flush_to(small, &*logs).unwrap();
    let (crashed, horizon, ends) = after_crash(&medium, 3);
    assert_eq!(horizon, small);
    // The next incarnation: a commit in two logs is durable in one of them.
    let gsn = ends.iter().map(|end| end.gsn).max().unwrap();
    let starts: Vec<Start> = ends.iter().map(|end| Start { gsn, ..*end }).collect();
    let logs = open(&crashed, &starts, 2);
    let mut recorder = Arc::clone(&logs).recorder();
    let mut redo = Redo::default();
    [0, 1].into_iter().for_each(|log| redo.part(log).push(1));
    recorder.admit(&redo).unwrap();
    let both = recorder.record(&redo, Commit { epoch: 1, seen: 0 });
    assert!(both < larger);
    logs.logs[0].flush_to(both, &*logs).unwrap();
    let (_, horizon, _) = after_crash(&crashed, 3);
    assert!(horizon < both, "{horizon}: half of {both} is durable");
}
