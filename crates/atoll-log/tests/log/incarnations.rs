//! Many short incarnations of a log, each ended by a crash at any event, over recycled files that
//! contain bytes which look like headers. The log must end at any block that a crash has torn.

use std::sync::Arc;

use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{Logs, LogsOptions};
use atoll_machine::medium::{SECTOR_BYTES, WORD_BYTES};
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::{Commit, Recorder};
use proptest::prelude::{ProptestConfig, TestCaseError, proptest};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn options() -> LogsOptions {
    let (file_bytes, ring_bytes) = (64 << 10, 2 << 20);
    LogsOptions { file_bytes, ring_bytes, in_turns: true, ..LogsOptions::default() }
}

fn folder(medium: &CrashMedium) -> Arc<dyn Medium> {
    medium.folder("node-0").unwrap()
}

/// Words that look like a checksum and a length.
fn garbage(random: &mut StdRng, bytes: usize) -> Vec<u8> {
    let words = (0..bytes / 8).map(|_| u64::from(random.random_range(0..1_u32 << 21)) << 32);
    words.flat_map(u64::to_le_bytes).collect()
}

fn commit(recorder: &mut dyn Recorder, payload: &[u8]) -> u64 {
    let mut redo = Redo::default();
    redo.part(0).extend_from_slice(payload);
    recorder.admit(&redo).unwrap();
    recorder.record(&redo, Commit { epoch: 1, seen: 0 })
}

/// What the control file would contain.
#[derive(Clone, Copy)]
struct Known {
    start: u64,
    incarnation: u32,
    cut: u64,
}

/// Reads the log to its end.
fn read(medium: &CrashMedium, known: Known) -> Result<Start, String> {
    let told = |error| format!("{error}, with {:?}", medium.all_files());
    let Known { start, incarnation, cut } = known;
    let mut scan = Scan::open(folder(medium), 0, options().file_bytes, start).map_err(told)?;
    scan.cut(incarnation, cut);
    while scan.read_next().map_err(told)?.is_some() {}
    scan.sync().map_err(told)?;
    Ok(Start { lsn: scan.at(), gsn: scan.gsn() })
}

/// One incarnation: commits, flushes and releases, then a crash, and what is found after it.
fn live(
    medium: &CrashMedium,
    known: &mut Known,
    random: &mut StdRng,
) -> Result<CrashMedium, String> {
    let start = read(medium, *known)?;
    *known = Known { incarnation: known.incarnation + 1, cut: start.lsn, ..*known };
    // The durable GSN and the start of the log at each event.
    let mut past = vec![(medium.events(), start.lsn, *known)];
    let logs =
        Logs::open(&[folder(medium)], &[start], known.incarnation, options(), Box::new(|| Ok(())))
            .unwrap();
    logs.begin().unwrap();
    let mut recorder = Arc::clone(&logs).recorder();
    for _ in 0..random.random_range(0..12) {
        let bytes = match random.random_range(0..4) {
            0 => random.random_range(0..60_000),
            _ => random.random_range(0..600),
        };
        let payload = garbage(random, bytes);
        let gsn = commit(&mut *recorder, &payload);
        if random.random_range(0..2) == 0 {
            logs.settle(gsn).unwrap();
            past.push((medium.events(), logs.logs()[0].durable_lsn(), *known));
        }
        if random.random_range(0..6) == 0 {
            known.start = logs.starts()[0].min(logs.logs()[0].durable_lsn());
            past.push((medium.events(), past.last().unwrap().1, *known));
            logs.release(&[known.start], random.random_range(0..4)).unwrap();
        }
    }
    if random.random_range(0..4) == 0 {
        logs.close().unwrap();
    }
    let event = random.random_range(past[0].0..=medium.events());
    let &(_, durable, at) = past.iter().rfind(|(events, ..)| *events <= event).unwrap();
    *known = at;
    let chance = [0, 20, 50, 80, 100][random.random_range(0..5)];
    let crashed = medium.crash(event, || random.random_range(0..100) < chance);
    let end = read(&crashed, *known)?.lsn;
    if end < durable {
        return Err(format!("{durable} was durable, and {end} is the end"));
    }
    Ok(crashed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_crash_leaves_of_a_block_the_log_ends_there(seed: u64, words: bool) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut medium = CrashMedium::with_unit(if words { WORD_BYTES } else { SECTOR_BYTES });
        let mut known = Known { start: 0, incarnation: 0, cut: 0 };
        // The first file is made before the control file says that there is a log.
        let files = atoll_log::files::Files::open(folder(&medium), options().file_bytes, 0);
        files.unwrap().make_until(0).unwrap();
        for incarnation in 0..12 {
            medium = live(&medium.copy(), &mut known, &mut random)
                .map_err(|error| TestCaseError::fail(format!("life {incarnation}: {error}")))?;
        }
    }
}
