//! Read-ahead of logs: blocks of any size, across pieces and files, with reads of earlier blocks in
//! between.

use std::sync::Arc;

use atoll_log::block::Kind;
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{Logs, LogsOptions};
use atoll_machine::medium::UNIT_BYTES_MAX;
use atoll_machine::medium::crash::Fault;
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::Commit;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Bytes of a log of several pieces, and of one that is too small for read-ahead.
const LARGE: usize = 40 << 20;
const SMALL: usize = 8 << 20;

/// The payload of a commit, by its number.
fn payload(number: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(number);
    let bytes = match number % 5 {
        0 => random.random_range(0..1_000_000),
        1 => random.random_range(0..70_000),
        _ => random.random_range(0..500),
    };
    let mut payload = vec![number as u8; bytes];
    payload.extend(number.to_le_bytes());
    payload
}

/// Writes a log of at least `most` bytes, and returns the number of its commits.
fn write(folder: &Arc<dyn Medium>, options: LogsOptions, most: usize) -> u64 {
    let starts = [Start { lsn: 0, gsn: 0 }];
    let logs =
        Logs::open(std::slice::from_ref(folder), &starts, 1, options, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    let mut recorder = Arc::clone(&logs).recorder();
    let (mut number, mut bytes) = (0, 0);
    while bytes < most {
        let payload = payload(number);
        let mut redo = Redo::default();
        redo.part(0).extend_from_slice(&payload);
        recorder.admit(&redo).unwrap();
        recorder.record(&redo, Commit { epoch: 1, seen: 0 });
        (number, bytes) = (number + 1, bytes + payload.len());
    }
    logs.close().unwrap();
    number
}

/// Reads the log, with reads of earlier blocks in between.
fn read(folder: &Arc<dyn Medium>, options: LogsOptions, count: u64) {
    let mut scan = Scan::open(Arc::clone(folder), 0, options.file_bytes, 0).unwrap();
    let mut random = StdRng::seed_from_u64(0);
    let (mut places, mut pieces) = (Vec::new(), Vec::new());
    while let Some((header, bytes)) = scan.read_next().unwrap() {
        match header.kind {
            Kind::Piece => pieces.extend_from_slice(bytes),
            Kind::Commit => {
                let all = [&std::mem::take(&mut pieces)[..], bytes].concat();
                assert!(all == payload(places.len() as u64), "commit {}", places.len());
                places.push(header.lsn);
            }
            _ => {}
        }
        if random.random_range(0..20) == 0 && !places.is_empty() {
            let there = places[random.random_range(0..places.len())];
            let place = scan.place();
            scan.go_to(there);
            assert_eq!(scan.read_next().unwrap().unwrap().0.lsn, there);
            scan.go_back(place);
        }
    }
    assert_eq!(places.len() as u64, count);
    // The scan finds the end again.
    assert!(scan.read_next().unwrap().is_none());
}

#[test]
fn blocks_of_any_size_are_read_ahead_across_pieces_and_files() {
    for file_bytes in [1 << 20, 3 << 20] {
        let options = LogsOptions { file_bytes, ..LogsOptions::default() };
        let folder = CrashMedium::with_unit(UNIT_BYTES_MAX).folder("node-0").unwrap();
        let count = write(&folder, options, LARGE);
        read(&folder, options, count);
    }
}

/// One read fails, at any position, and the next one succeeds.
fn fail_and_mend(bytes: usize) {
    let options = LogsOptions { file_bytes: 3 << 20, ..LogsOptions::default() };
    let medium = CrashMedium::default();
    let folder = medium.folder("node-0").unwrap();
    write(&folder, options, bytes);
    let read_all = |fails: &mut dyn FnMut()| {
        let mut scan = Scan::open(Arc::clone(&folder), 0, options.file_bytes, 0).unwrap();
        let (mut places, mut failures) = (Vec::new(), 0);
        loop {
            fails();
            match scan.read_next() {
                Ok(Some((header, _))) => places.push(header.lsn),
                Ok(None) => return (places, failures),
                Err(error) => {
                    assert!(error.to_string().contains("cannot read"), "{error}");
                    failures += 1;
                    medium.mend();
                }
            }
        }
    };
    let (expected, none) = read_all(&mut || {});
    assert_eq!(none, 0);
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..20 {
        let mut left = random.random_range(0..expected.len());
        let (places, failures) = read_all(&mut || {
            if left == 0 {
                medium.fail(Fault::Read, 0);
            }
            left = left.wrapping_sub(1);
        });
        assert!(places == expected, "after {failures} failures");
        medium.mend();
    }
}

#[test]
fn what_could_not_be_read_is_read_when_it_can_be() {
    [SMALL, LARGE].into_iter().for_each(fail_and_mend);
}
