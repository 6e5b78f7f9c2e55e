//! Slots that are damaged, impossible or half written.
#![allow(clippy::unwrap_used)]
use atoll_machine::CrashMedium;
use atoll_machine::medium::crash::Fault;

use super::*;

fn create(medium: &CrashMedium) -> ControlFile {
    ControlFile::begin(medium, NEW, &mut sample(0)).unwrap();
    ControlFile::finish(medium, NEW).unwrap();
    ControlFile::open(medium, Open::Write).unwrap().0
}

fn sample(sequence: u64) -> Control {
    let file = FileRef { bytes: 100, crc: 7 };
    let part = CheckpointPart { start: sequence, base: 8, file };
    let parts = vec![part; 2];
    Control {
        sequence,
        id: 1 << 63,
        incarnation: 3,
        file_bytes: 1 << 20,
        ring_bytes: 4 << 20,
        tablespaces: 2,
        cuts: vec![sequence, 0],
        horizon: sequence * 3,
        ends: sequence.is_multiple_of(3).then(|| vec![1, 2]),
        checkpoints: vec![Checkpoint {
            number: 9,
            epoch: 8,
            incarnation: 2,
            next_serial: 5,
            parts,
        }],
    }
}

#[test]
fn either_slot_is_enough() {
    let medium = CrashMedium::default();
    let mut file = create(&medium);
    for incarnation in 5..8 {
        let mut control = sample(incarnation * 2);
        file.write(&mut control).unwrap();
        for slot in 0..2 {
            let damaged = medium.copy();
            damaged.damage(FILE, slot * SLOT_BYTES as u64 + 30, 1);
            assert_eq!(ControlFile::check(&damaged).unwrap().len(), 1);
            let (_, found) = ControlFile::open(&damaged, Open::Read).unwrap();
            let sequence = found.sequence;
            assert_eq!(found, Control { sequence, ..control.clone() });
        }
    }
    for slot in 0..2 {
        medium.damage(FILE, slot * SLOT_BYTES as u64 + 30, 1);
    }
    let error = ControlFile::open(&medium, Open::Read).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

#[test]
fn impossible_content_is_refused() {
    let sound = sample(0);
    let checkpoint = |change: fn(&mut Checkpoint)| {
        let mut control = sample(0);
        change(&mut control.checkpoints[0]);
        control
    };
    for (said, is_sound) in [
        (sound.clone(), true),
        (Control { sequence: u64::MAX - 3, ..sound.clone() }, false),
        (Control { incarnation: u32::MAX, ..sound.clone() }, false),
        (Control { file_bytes: 1 << 63, ..sound.clone() }, false),
        (Control { ring_bytes: u64::MAX, ..sound.clone() }, false),
        (Control { cuts: vec![0, u64::MAX], ..sound.clone() }, false),
        (Control { horizon: u64::MAX, ..sound.clone() }, false),
        (Control { ends: Some(vec![u64::MAX, 0]), ..sound }, false),
        (checkpoint(|one| one.number = 1 << 48), false),
        (checkpoint(|one| one.epoch = u64::MAX), false),
        (checkpoint(|one| one.incarnation = u32::MAX), false),
        (checkpoint(|one| one.next_serial = u64::MAX), false),
        (checkpoint(|one| one.parts[1].start = u64::MAX), false),
    ] {
        let medium = CrashMedium::default();
        ControlFile::begin(&medium, NEW, &mut said.clone()).unwrap();
        ControlFile::finish(&medium, NEW).unwrap();
        match ControlFile::open(&medium, Open::Read) {
            Ok(_) => assert!(is_sound, "{said:?}"),
            Err(LogError::Damaged { .. }) => assert!(!is_sound, "{said:?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_crash_at_any_moment_leaves_one_of_two() {
    let medium = CrashMedium::default();
    let mut file = create(&medium);
    let made = medium.events();
    let mut said = vec![sample(0)];
    for incarnation in 1..3 {
        said.push(sample(incarnation * 2));
        file.write(&mut sample(incarnation * 2)).unwrap();
    }
    for events in 0..=medium.events() {
        for seed in 0..32u64 {
            let mut turn = 0;
            let crashed = medium.crash(events, || {
                turn += 1;
                atoll_storage::key::mix(seed << 32 | turn) & 1 == 1
            });
            match ControlFile::open(&crashed, Open::Read) {
                Ok((_, found)) => {
                    let sequence = found.sequence;
                    let is_said =
                        said.iter().any(|one| found == Control { sequence, ..one.clone() });
                    assert!(is_said, "{found:?}");
                }
                Err(LogError::Missing { .. }) => assert!(events < made),
                Err(error) => panic!("{events}: {error}"),
            }
        }
    }
}

/// A control file that spans several sectors, all of which change.
fn large(sequence: u64) -> Control {
    let tablespaces = TABLESPACES_MAX;
    let mut control =
        Control { tablespaces, cuts: vec![sequence << 30; tablespaces], ..sample(sequence) };
    control.ends = None;
    let parts = &mut control.checkpoints[0].parts;
    let part = CheckpointPart { start: sequence << 30, ..parts[0] };
    *parts = vec![part; tablespaces];
    control
}

/// After a crash behind any event from `begin` on, the file has the content of one of `said`.
fn check_crashes(medium: &CrashMedium, begin: usize, said: &[Control], what: &str) {
    for (events, seed) in (begin..=medium.events()).flat_map(|events| {
        (0..64u64).map(move |seed| (events, seed)) // The seed decides what survives.
    }) {
        let mut turn = 0;
        let crashed = medium.crash(events, || {
            turn += 1;
            atoll_storage::key::mix(seed << 32 | turn) & 1 == 1
        });
        let found = ControlFile::open(&crashed, Open::Read);
        let (_, found) = found.unwrap_or_else(|error| panic!("{what}, {events} events: {error}"));
        let sequence = found.sequence;
        let is_said = said.iter().any(|one| found == Control { sequence, ..one.clone() });
        assert!(is_said, "{what}, {events} events: {found:?}");
    }
}

#[test]
fn a_crash_while_it_is_written_again_after_a_failure_leaves_one_of_those() {
    for (fault, after) in [Fault::Full, Fault::Sync].into_iter().flat_map(|fault| {
        (0..3).map(move |after| (fault, after)) // In the first slot, the second, or neither.
    }) {
        let medium = CrashMedium::default();
        let mut file = create(&medium);
        let mut said = [large(0), large(4), large(8)];
        file.write(&mut said[1]).unwrap();
        let begin = medium.events();
        for attempt in 0..3 {
            medium.fail(fault, if attempt == 0 { after } else { 1 - after.min(1) });
            let failed = file.write(&mut said[2]).is_err();
            assert_eq!(failed, attempt > 0 || after < 2, "{fault:?} {after} {attempt}");
            medium.mend();
        }
        file.write(&mut said[2]).unwrap();
        check_crashes(&medium, begin, &said[1..], &format!("{fault:?} {after}"));
    }
}

#[test]
fn a_crash_while_a_file_is_written_that_was_left_after_a_failure_leaves_one_of_those() {
    for (fault, after) in [Fault::Full, Fault::Sync].into_iter().flat_map(|fault| {
        (0..2).map(move |after| (fault, after)) // In the first slot or the second.
    }) {
        let medium = CrashMedium::default();
        let mut file = create(&medium);
        let mut said = [large(4), large(8), large(12)];
        file.write(&mut said[0]).unwrap();
        medium.fail(fault, after);
        assert!(file.write(&mut said[1]).is_err());
        medium.mend();
        // The process ends here, the machine does not.
        let (mut file, _) = ControlFile::open(&medium, Open::Write).unwrap();
        let begin = medium.events();
        file.write(&mut said[2]).unwrap();
        check_crashes(&medium, begin, &said, &format!("{fault:?} {after}"));
    }
}

#[test]
fn a_checkpoint_shows_its_epoch_and_all_before_it() {
    let checkpoint = sample(1).checkpoints[0].clone();
    let (incarnation, epoch) = (checkpoint.incarnation, checkpoint.epoch);
    for (commit, is_shown) in [
        ((incarnation, epoch - 1), true),
        ((incarnation, epoch), true),
        ((incarnation, epoch + 1), false),
        ((incarnation - 1, epoch + 1), true),
        ((incarnation + 1, epoch - 1), false),
    ] {
        assert_eq!(checkpoint.shows(commit.0, commit.1), is_shown, "{commit:?}");
    }
}

#[test]
fn a_format_of_the_future_is_told() {
    let medium = CrashMedium::default();
    create(&medium);
    for slot in 0..2 {
        medium.damage(FILE, slot * SLOT_BYTES as u64 + 8, 0x40);
    }
    let error = ControlFile::open(&medium, Open::Read).unwrap_err();
    let LogError::Version { found, known, .. } = error else { panic!("{error}") };
    assert_eq!((found, known), (FORMAT + 0x40, FORMAT));
}
