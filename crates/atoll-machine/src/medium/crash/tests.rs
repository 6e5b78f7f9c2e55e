//! The state after a simulated crash.
#![allow(clippy::unwrap_used)]
use super::super::{Medium, Open, WORD_BYTES};
use super::*;

const SECTOR: usize = SECTOR_BYTES as usize;

fn read(medium: &CrashMedium, name: &str) -> Vec<u8> {
    let file = medium.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_synced_survives_and_the_rest_may() {
    let medium = CrashMedium::default();
    let file = medium.open("log", Open::Create).unwrap();
    medium.sync_names().unwrap();
    file.write_at(0, &[1; 2 * SECTOR]).unwrap();
    file.sync().unwrap();
    file.write_at(SECTOR as u64, &[2; 2 * SECTOR]).unwrap();
    let all = medium.events();
    assert_eq!(read(&medium.crash(all, || false), "log"), vec![1; 2 * SECTOR]);
    let kept = read(&medium.crash(all, || true), "log");
    assert_eq!((kept[0], kept[SECTOR], kept.len()), (1, 2, 3 * SECTOR));
    // The later sector without the earlier one.
    let mut turn = 0;
    let later = medium.crash(all, || {
        turn += 1;
        turn == 2
    });
    let later = read(&later, "log");
    assert_eq!((later[SECTOR], later[2 * SECTOR], later.len()), (1, 2, 3 * SECTOR));
}

#[test]
fn names_are_lost_from_the_last_one_back() {
    let medium = CrashMedium::default();
    for name in ["a", "b", "c"] {
        medium.open(name, Open::Create).unwrap();
    }
    medium.rename("a", "d").unwrap();
    let all = medium.events();
    let mut left = 2;
    let crashed = medium.crash(all, || {
        left -= 1;
        left >= 0
    });
    assert_eq!(crashed.names().unwrap(), ["a", "b"]);
    medium.sync_names().unwrap();
    let crashed = medium.crash(medium.events(), || false);
    assert_eq!(crashed.names().unwrap(), ["b", "c", "d"]);
    assert!(medium.crash(all, || false).names().unwrap().is_empty());
}

#[test]
fn folders_share_a_world_and_keep_their_names_apart() {
    let medium = CrashMedium::default();
    let node = medium.folder("node-0").unwrap();
    node.open("log", Open::Create).unwrap();
    assert_eq!(node.names().unwrap(), ["log"]);
    assert!(medium.names().unwrap().is_empty());
    medium.sync_names().unwrap();
    let all = medium.events();
    assert!(medium.crash(all, || false).all_files().is_empty());
    node.sync_names().unwrap();
    assert_eq!(medium.crash(all + 1, || false).all_files(), [("node-0/log".to_owned(), 0)]);
}

#[test]
fn faults_come_when_they_were_asked_for() {
    let medium = CrashMedium::default();
    let file = medium.open("log", Open::Create).unwrap();
    medium.fail(Fault::Full, 1);
    file.write_at(0, b"fits").unwrap();
    assert_eq!(medium.failures(), 0);
    assert!(file.write_at(4, b"does not").unwrap_err().is_full());
    assert_eq!((read(&medium, "log"), medium.failures()), (b"fitsdoes".to_vec(), 1));
    medium.fail(Fault::Sync, 0);
    assert!(file.sync().is_err());
    medium.mend();
    file.sync().unwrap();
}

const WORD: usize = WORD_BYTES as usize;

/// A number below `end`, from a sequence that is the same each time.
fn below(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

/// A word of a file; zeroes behind its end.
fn word(content: &[u8], at: usize) -> [u8; WORD] {
    std::array::from_fn(|byte| content.get(at + byte).copied().unwrap_or(0))
}

/// Writes to random ranges of a file on persistent memory, some beyond its end, each acknowledged
/// after a sync; then simulates a crash after every event. Returns what is wrong: a write that is
/// lost, or a word that is neither old nor new.
fn lost(seed: u64, skipped: Option<Skipped>) -> Option<String> {
    let mut random = seed;
    let medium = CrashMedium::with_unit(WORD_BYTES);
    let file = medium.open("log", Open::Create).unwrap();
    medium.sync_names().unwrap();
    file.reserve(1000).unwrap();
    file.sync().unwrap();
    medium.skip(skipped);
    let first = medium.events();
    let mut contents = vec![vec![0; 1000]];
    for number in 1..=20 {
        let mut content = contents.last().unwrap().clone();
        let end = content.len() as u64;
        let bytes = vec![number as u8; 1 + below(&mut random, 200) as usize];
        let place = match below(&mut random, 8) {
            0 => end - 10 + below(&mut random, 50),
            _ => below(&mut random, end - bytes.len() as u64),
        };
        file.write_at(place, &bytes).unwrap();
        put(&mut content, place, &bytes);
        contents.push(content);
        file.sync().unwrap();
        medium.note(number);
    }
    let mut now = vec![0; file.size().unwrap() as usize];
    file.read_at(0, &mut now).unwrap();
    assert_eq!(now, contents[20]);
    for event in first..=medium.events() {
        let acknowledged = medium.notes(event).len();
        let (old, new) = (&contents[acknowledged], contents.get(acknowledged + 1));
        for chance in [0, 50, 50, 100] {
            let left = read(&medium.crash(event, || below(&mut random, 100) < chance), "log");
            let is_there = |at| {
                let found = word(&left, at);
                found == word(old, at) || new.is_some_and(|new| found == word(new, at))
            };
            if left.len() < old.len() || !(0..left.len()).step_by(WORD).all(is_there) {
                return Some(format!("seed {seed}: write {acknowledged} is lost at event {event}"));
            }
        }
    }
    None
}

#[test]
fn what_was_stored_in_persistent_memory_survives_once_it_was_fenced() {
    for seed in 0..20 {
        assert_eq!(lost(seed, None), None);
    }
}

#[test]
fn lines_that_have_not_left_the_caches_are_found_lost() {
    for skipped in [Skipped::Fence, Skipped::WriteBack, Skipped::LastLine] {
        assert!((0..20).any(|seed| lost(seed, Some(skipped)).is_some()), "{skipped:?}");
    }
}

#[test]
fn a_fence_is_for_the_stores_of_its_own_thread() {
    let medium = CrashMedium::with_unit(WORD_BYTES);
    let file = medium.open("log", Open::Create).unwrap();
    medium.sync_names().unwrap();
    file.reserve(64).unwrap();
    file.sync().unwrap();
    medium.skip(Some(Skipped::Fence));
    file.write_at(0, &[1; 16]).unwrap();
    medium.skip(None);
    let other = medium.clone();
    std::thread::spawn(move || {
        other.open("log", Open::Write).unwrap().write_at(32, &[2; 16]).unwrap();
    })
    .join()
    .unwrap();
    file.write_at(48, &[3; 8]).unwrap(); // by which the first one becomes an event
    let durable = |events| read(&medium.crash(events, || false), "log");
    let (before, after) = (durable(medium.events() - 1), durable(medium.events()));
    assert_eq!((before[0], before[32], before[48]), (0, 2, 0));
    assert_eq!((after[0], after[32], after[48]), (1, 2, 3));
}
