//! Logs that threads write, and that a scan reads again after a flush, or a crash at any event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_log::block::{Header, IdleWatermark, Kind};
use atoll_log::log::Start;
use atoll_log::scan::Scan;
use atoll_log::{LogError, Logs, LogsOptions, Planted};
use atoll_machine::medium::crash::Fault;
use atoll_machine::{CrashMedium, Medium};
use atoll_storage::redo::Redo;
use atoll_txn::Journal;
use atoll_txn::journal::{Commit, Recorder};

const OPTIONS: LogsOptions = LogsOptions {
    file_bytes: 256 << 10,
    ring_bytes: 4 << 20,
    in_turns: false,
    planted: Planted::Nothing,
};

fn media(medium: &CrashMedium, tablespaces: usize) -> Vec<Arc<dyn Medium>> {
    (0..tablespaces).map(|at| medium.folder(&format!("node-{at}")).unwrap()).collect()
}

fn open(medium: &CrashMedium, tablespaces: usize) -> Arc<Logs> {
    let starts = vec![Start { lsn: 0, gsn: 0 }; tablespaces];
    let media = media(medium, tablespaces);
    let logs = Logs::open(&media, &starts, 1, OPTIONS, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    logs
}

/// Commits a transaction with a payload in each of these logs.
fn commit(recorder: &mut dyn Recorder, logs: &[u32], payload: &[u8], seen: u64) -> u64 {
    let mut redo = Redo::default();
    logs.iter().for_each(|log| redo.part(*log).extend_from_slice(payload));
    recorder.admit(&redo).unwrap();
    recorder.record(&redo, Commit { epoch: 1, seen })
}

/// What a log holds: its blocks, and its end.
fn scan(medium: &CrashMedium, tablespaces: usize, log: usize) -> (Vec<(Header, Vec<u8>)>, u64) {
    let medium = Arc::clone(&media(medium, tablespaces)[log]);
    let mut scan = Scan::open(medium, log as u8, OPTIONS.file_bytes, 0).unwrap();
    let mut blocks = Vec::new();
    while let Some((header, payload)) = scan.read_next().unwrap() {
        blocks.push((header, payload.to_vec()));
    }
    (blocks, scan.at())
}

/// The durable horizon as recovery finds it.
fn horizon(medium: &CrashMedium, tablespaces: usize) -> u64 {
    let found: Vec<_> = (0..tablespaces).map(|log| scan(medium, tablespaces, log)).collect();
    let mut gsns: Vec<u64> =
        found.iter().map(|(blocks, _)| blocks.last().map_or(0, |(last, _)| last.gsn)).collect();
    for (blocks, _) in &found {
        for (_, payload) in blocks.iter().filter(|(header, _)| header.kind == Kind::IdleWatermark) {
            for watermark in IdleWatermark::decode_all(payload).unwrap() {
                let (log, end) =
                    (usize::from(watermark.tablespace), found[watermark.tablespace as usize].1);
                assert!(end >= watermark.lsn, "a log at rest was durable");
                gsns[log] = gsns[log].max(watermark.gsn);
            }
        }
    }
    gsns.into_iter().min().unwrap()
}

#[test]
fn commits_of_many_threads_are_found_in_the_order_of_their_gsns() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 2);
    let is_stopped = AtomicBool::new(false);
    let mut all: Vec<(u64, Vec<u32>, Vec<u8>)> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let logs = Arc::clone(&logs);
                scope.spawn(move || {
                    let mut recorder = logs.clone().recorder();
                    let mut done = Vec::new();
                    for number in 0..500u32 {
                        let to: &[u32] = [&[0][..], &[1], &[0, 1]][number as usize % 3];
                        let payload = vec![thread; number as usize % 700 + 1];
                        let gsn = commit(&mut *recorder, to, &payload, 0);
                        if number % 50 == 0 {
                            logs.settle(gsn).unwrap();
                            assert!(logs.horizon() >= gsn);
                        }
                        done.push((gsn, to.to_vec(), payload));
                    }
                    done
                })
            })
            .collect();
        let flusher = scope.spawn(|| {
            while !is_stopped.load(Ordering::Relaxed) {
                logs.flush().unwrap();
            }
        });
        threads.into_iter().for_each(|thread| all.extend(thread.join().unwrap()));
        is_stopped.store(true, Ordering::Relaxed);
        flusher.join().unwrap();
    });
    logs.flush().unwrap();
    assert!(logs.horizon() >= all.iter().map(|(gsn, ..)| *gsn).max().unwrap());
    for log in 0..2usize {
        let mut expected: Vec<_> = all.iter().filter(|one| one.1.contains(&(log as u32))).collect();
        expected.sort_by_key(|(gsn, ..)| *gsn);
        let (found, _) = scan(&medium, 2, log);
        let found: Vec<_> =
            found.iter().filter(|(header, _)| header.kind == Kind::Commit).collect();
        assert_eq!(found.len(), expected.len());
        for ((header, payload), (gsn, _, wanted)) in found.iter().zip(expected) {
            assert_eq!((header.gsn, payload), (*gsn, wanted));
        }
    }
}

#[test]
fn a_commit_comes_after_all_that_it_has_seen_in_whatever_log() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 3);
    let mut recorder = logs.clone().recorder();
    let mut last = BTreeMap::new();
    let mut seen = 0;
    for round in 0..300u32 {
        let to = [round % 3, (round / 3) % 3];
        let mut to = to.to_vec();
        to.sort_unstable();
        to.dedup();
        let gsn = commit(&mut *recorder, &to, b"x", seen);
        assert!(gsn > seen);
        for log in to {
            assert!(last.insert(log, gsn).is_none_or(|before| before < gsn));
        }
        // The next commit has seen this one, or nothing new.
        if round % 2 == 0 {
            seen = gsn;
        }
    }
}

#[test]
fn what_was_settled_survives_a_crash_at_any_event_and_the_horizon_says_so() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 2);
    let mut recorder = logs.clone().recorder();
    let opened = medium.events();
    let mut number = 0u64;
    for round in 0..12u32 {
        let to: &[u32] = [&[0][..], &[0, 1], &[1], &[0]][round as usize % 4];
        let gsn = commit(&mut *recorder, to, &[round as u8; 900], 0);
        if round % 3 != 1 {
            logs.settle(gsn).unwrap();
            medium.note(gsn);
        }
        number += 1;
    }
    assert_eq!(number, 12);
    for events in opened..=medium.events() {
        let acknowledged = medium.notes(events).into_iter().max().unwrap_or(0);
        for seed in 0..16u64 {
            let mut turn = 0;
            let crashed = medium.crash(events, || {
                turn += 1;
                !atoll_storage::key::mix(seed << 32 | turn).is_multiple_of(3)
            });
            let found = horizon(&crashed, 2);
            assert!(found >= acknowledged, "event {events}: {found} < {acknowledged}");
        }
    }
}

#[test]
fn a_log_at_rest_is_spoken_for_by_the_others() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 4);
    let mut recorder = logs.clone().recorder();
    let before = logs.flushes();
    for _ in 0..100 {
        let gsn = commit(&mut *recorder, &[2], b"only here", 0);
        logs.settle(gsn).unwrap();
    }
    assert_eq!(logs.flushes() - before, 100);
    assert_eq!(horizon(&medium, 4), logs.horizon());
}

/// The start of a checkpoint must be before the first piece of every transaction that may still
/// commit, in each log.
#[test]
fn a_recovery_begins_to_read_before_the_pieces_of_open_transactions() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 3);
    let [mut first, mut second, mut other] = [(); 3].map(|()| logs.clone().recorder());
    let tails = || logs.logs().iter().map(|log| log.tail_lsn()).collect::<Vec<_>>();
    let pieces = |to: &[u32]| {
        let mut redo = Redo::default();
        to.iter().for_each(|log| redo.part(*log).extend([9; 300]));
        redo
    };
    let mut others = || (0..3).for_each(|log| _ = commit(&mut *other, &[log], &[1; 200], 0));
    others();
    assert_eq!(logs.starts(), tails());
    let before_first = tails();
    first.spill(&pieces(&[1])).unwrap();
    others();
    let before_second = tails();
    second.spill(&pieces(&[0, 1])).unwrap();
    others();
    // The transaction may still write pieces to further logs.
    first.spill(&pieces(&[0, 2])).unwrap();
    assert_eq!(logs.starts(), before_first);
    logs.flush().unwrap();
    for (log, start) in before_first.iter().enumerate() {
        let (blocks, _) = scan(&medium, 3, log);
        let mut pieces = blocks.iter().filter(|(header, _)| header.kind == Kind::Piece);
        assert!(pieces.all(|(header, _)| header.lsn >= *start), "log {log}");
    }
    // A transaction that has committed or was rolled back no longer holds the starts back.
    first.admit(&Redo::default()).unwrap();
    first.record(&Redo::default(), Commit { epoch: 1, seen: 0 });
    assert_eq!(logs.starts(), before_second);
    second.withdraw();
    others();
    assert_eq!(logs.starts(), tails());
}

#[test]
fn a_failed_flush_poisons_the_log_and_nothing_is_acknowledged_after_it() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = logs.clone().recorder();
    let first = commit(&mut *recorder, &[0], b"first", 0);
    logs.settle(first).unwrap();
    medium.fail(Fault::Sync, 0);
    let second = commit(&mut *recorder, &[0], b"second", 0);
    let error = logs.settle(second).unwrap_err();
    assert!(matches!(error, LogError::Poisoned { tablespace: 0, .. }), "{error}");
    medium.mend();
    assert!(logs.settle(second).is_err());
    assert!(logs.settle(first).is_ok());
    let mut redo = Redo::default();
    redo.part(0).push(1);
    assert!(recorder.admit(&redo).is_err());
}

#[test]
fn a_full_medium_is_met_before_anything_is_decided_and_space_helps() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = logs.clone().recorder();
    let mut redo = Redo::default();
    redo.part(0).extend([7; 10_000]);
    let mut last = 0;
    let mut commits = 0;
    let full = loop {
        // Writes to existing files succeed; creating a file fails.
        match recorder.admit(&redo) {
            Ok(()) => {
                last = recorder.record(&redo, Commit { epoch: 1, seen: 0 });
                logs.settle(last).unwrap();
                commits += 1;
                if commits == 10 {
                    medium.fail(Fault::Create, 0);
                }
            }
            Err(error) => break error,
        }
    };
    assert!(full.to_string().contains("free some space"), "{full}");
    logs.settle(last).unwrap();
    medium.mend();
    recorder.admit(&redo).unwrap();
    last = recorder.record(&redo, Commit { epoch: 1, seen: 0 });
    logs.settle(last).unwrap();
    assert_eq!(horizon(&medium, 1), last);
}

#[test]
fn what_an_earlier_life_left_behind_the_end_is_not_taken_for_the_log() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = logs.clone().recorder();
    let first = commit(&mut *recorder, &[0], &[1; 4000], 0);
    logs.settle(first).unwrap();
    let settled = medium.events();
    // The first of these commits is lost in the crash, and the second survives.
    commit(&mut *recorder, &[0], &[2; 4000], 0);
    let lost = commit(&mut *recorder, &[0], &[3; 4000], 0);
    let _ = logs.settle(lost);
    let written = (settled..medium.events())
        .find(|events| medium.persist_points().contains(&(events + 1)))
        .unwrap();
    let mut sector = 0;
    let crashed = medium.crash(written, || {
        sector += 1;
        sector > 5
    });
    let (blocks, end) = scan(&crashed, 1, 0);
    assert_eq!(blocks.last().unwrap().0.gsn, first);
    let starts = [Start { lsn: end, gsn: first }];
    let logs = Logs::open(&media(&crashed, 1), &starts, 2, OPTIONS, Box::new(|| Ok(()))).unwrap();
    logs.begin().unwrap();
    let mut recorder = logs.clone().recorder();
    // As long as the lost block less the open block, so that it ends where the survivor begins.
    let again = commit(&mut *recorder, &[0], &vec![4; 4000 - 64], 0);
    logs.settle(again).unwrap();
    let (blocks, _) = scan(&crashed, 1, 0);
    let last = blocks.last().unwrap();
    assert_eq!((last.0.gsn, last.0.incarnation, last.1[0]), (again, 2, 4));
}

#[test]
fn damage_is_told_from_the_end() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = logs.clone().recorder();
    for _ in 0..20 {
        let gsn = commit(&mut *recorder, &[0], &[5; 500], 0);
        logs.settle(gsn).unwrap();
    }
    let (blocks, end) = scan(&medium, 1, 0);
    for at in (0..end - 1200).step_by(97) {
        let damaged = medium.copy();
        let name = atoll_log::files::file_name(0);
        damaged.damage(&format!("node-0/{name}"), at, 0x10);
        let folder = Arc::clone(&media(&damaged, 1)[0]);
        let mut scan = Scan::open(folder, 0, OPTIONS.file_bytes, 0).unwrap();
        let error = loop {
            match scan.read_next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("damage at byte {at} was taken for the end"),
                Err(error) => break error,
            }
        };
        let block = blocks.iter().rfind(|(header, _)| header.lsn <= at).unwrap();
        let is_told = matches!(&error, LogError::Damaged { offset, .. } if *offset == block.0.lsn);
        assert!(is_told, "byte {at}: {error}");
    }
}

#[test]
fn a_missing_file_is_told() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = logs.clone().recorder();
    for _ in 0..100 {
        let gsn = commit(&mut *recorder, &[0], &[5; 10_000], 0);
        logs.settle(gsn).unwrap();
    }
    let folder = &media(&medium, 1)[0];
    let names = folder.names().unwrap();
    assert!(names.len() >= 4, "{names:?}");
    for (at, name) in names.iter().enumerate() {
        let copy = medium.copy();
        let folder = Arc::clone(&media(&copy, 1)[0]);
        folder.remove(name).unwrap();
        let mut found = Ok(());
        match Scan::open(folder, 0, OPTIONS.file_bytes, 0) {
            Ok(mut scan) => loop {
                match scan.read_next() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        found = Err(error);
                        break;
                    }
                }
            },
            Err(error) => found = Err(error),
        }
        // The last file may be empty room behind the end.
        let is_told = matches!(found, Err(LogError::Missing { .. }));
        assert!(is_told || (at + 1 == names.len() && found.is_ok()), "{name}: {found:?}");
    }
}

#[test]
fn a_moment_divides_what_threads_commit_into_any_log() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 3);
    // Each thread reports its last GSN before a mark is made, and commits again only after it.
    let turn = std::sync::Barrier::new(4);
    let mut marks = Vec::new();
    let threads: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3usize)
            .map(|log| {
                let mut gsns = Vec::new();
                let (mut recorder, turn) = (Arc::clone(&logs).recorder(), &turn);
                scope.spawn(move || {
                    for round in 0..50 {
                        // Different rates, so that the clocks of the logs differ.
                        let all = [log as u32, (log as u32 + 1) % 3];
                        let count = 1 + round * (log + 1) % 7;
                        let last = (0..count)
                            .map(|at| commit(&mut *recorder, &all[..1 + at % 2], b"change", 0));
                        gsns.push(last.max().unwrap());
                        turn.wait();
                        turn.wait();
                        gsns.push(commit(&mut *recorder, &all[..1], b"next", 0));
                    }
                    gsns
                })
            })
            .collect();
        for time in 0..50 {
            turn.wait();
            marks.push(logs.mark(|| time).unwrap());
            turn.wait();
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (round, mark) in marks.iter().enumerate() {
        assert_eq!(mark.time_us, round as u64);
        for gsns in &threads {
            let (before, behind) = (gsns[2 * round], gsns[2 * round + 1]);
            assert!(before < mark.gsn && mark.gsn < behind, "{before} {mark:?} {behind}");
        }
    }
    logs.settle(logs.clock()).unwrap();
    assert!(logs.has_unmarked());
    // Each mark is in the first log, with the ends of all logs.
    for (log, (blocks, _)) in (0..3).map(|log| (log, scan(&medium, 3, log))) {
        let times = blocks.iter().filter(|(header, _)| header.kind == Kind::Time);
        let found: Vec<u64> = times.map(|(header, _)| header.gsn).collect();
        let expected: Vec<u64> = marks.iter().map(|mark| mark.gsn).collect();
        assert_eq!(found, if log == 0 { expected } else { Vec::new() });
        for mark in &marks {
            let is_divided = |(header, _): &(Header, Vec<u8>)| {
                (header.lsn < mark.ends[log]) == (header.gsn <= mark.gsn)
            };
            assert!(blocks.iter().all(is_divided), "log {log}: {mark:?}");
        }
    }
    // Without new commits there is nothing to mark; and closed logs accept no mark.
    let last = logs.mark(|| 99).unwrap();
    logs.settle(last.gsn).unwrap();
    assert!(!logs.has_unmarked());
    logs.close().unwrap();
    assert!(matches!(logs.mark(|| 100), Err(LogError::Closed)));
}

#[test]
fn nothing_is_written_after_a_close_that_failed() {
    let (first, second) = (CrashMedium::default(), CrashMedium::default());
    let media: Vec<Arc<dyn Medium>> = vec![Arc::new(first.clone()), Arc::new(second.clone())];
    let options = LogsOptions { file_bytes: 64 << 10, ..OPTIONS };
    let logs = Logs::open(&media, &[Start { lsn: 0, gsn: 0 }; 2], 1, options, Box::new(|| Ok(())))
        .unwrap();
    logs.begin().unwrap();
    let mut recorder = Arc::clone(&logs).recorder();
    let mut redo = Redo::default();
    redo.part(0).push(1);
    // The block spans several files, each with a sync of its own.
    redo.part(1).extend([7; 200_000]);
    recorder.admit(&redo).unwrap();
    let gsn = recorder.record(&redo, Commit { epoch: 1, seen: 0 });
    second.slow(std::time::Duration::from_millis(50));
    first.fail(Fault::Sync, 0);
    let begun = second.events();
    assert!(logs.settle(gsn).is_err());
    while second.events() == begun {
        std::thread::yield_now(); // A helper thread is about to flush it.
    }
    assert!(logs.close().is_err());
    let closed = second.events();
    drop((recorder, logs));
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(second.events(), closed);
}

#[test]
fn where_a_log_ends_is_known_for_a_file_without_reading_it() {
    let medium = CrashMedium::default();
    let logs = open(&medium, 1);
    let mut recorder = Arc::clone(&logs).recorder();
    let about = |start| {
        let medium = Arc::clone(&media(&medium, 1)[0]);
        Scan::open(medium, 0, OPTIONS.file_bytes, start).unwrap().about_end().unwrap()
    };
    let mut start = 0;
    for round in 0..60 {
        // Some blocks begin in one file and end in the next; some files are recycled.
        let gsn = commit(&mut *recorder, &[0], &vec![1; 70_000 + round], 0);
        logs.settle(gsn).unwrap();
        let end = logs.ends()[0];
        let about = about(start);
        assert!(about + 71_000 >= end && about <= end + OPTIONS.file_bytes, "{about} {end}");
        if round % 20 == 19 {
            start = end;
            logs.release(&[start], 6).unwrap();
        }
    }
}
