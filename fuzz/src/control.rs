//! The small sealed files: the control file, the origin of a backup, the owner of an archive.
//!
//! Any bytes with the right checksum are refused, or decode to something that encodes and decodes
//! to itself and from which a database can go on. A damaged file is refused, or has the contents
//! that were written to it: a control file, those of one of its two slots.

use atoll_log::archive::{self, Archive, Owner};
use atoll_log::block::{INCARNATION_MAX, NUMBER_MAX};
use atoll_log::checkpoint_store::FileRef;
use atoll_log::control::{Checkpoint, CheckpointPart, Control, ControlFile, FILE, NEW, SLOT_BYTES};
use atoll_log::origin::{self, Origin};
use atoll_log::sealed::seal;
use atoll_machine::CrashMedium;
use atoll_machine::medium::Open;

use super::input::{Files, Input, files_of, harm, medium_of};

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    match input.byte() % 4 {
        0 => sealed(&mut input),
        1 => owner(input.0),
        2 => origin(input.0),
        _ => damaged(&mut input),
    }
}

/// Two slots with arbitrary bodies.
fn sealed(input: &mut Input<'_>) {
    let mut bytes = Vec::new();
    for slot in 1..3 {
        let body = input.bytes(2000);
        bytes.extend(seal(*b"ATOLLCTL", body));
        bytes.resize(slot * SLOT_BYTES, 0);
    }
    let medium = medium_of(&[(FILE.to_owned(), bytes)].into());
    let Ok((mut file, found)) = ControlFile::open(&medium, Open::Write) else { return };
    for tablespace in 0..found.tablespaces {
        let _ = found.ends_too_early(tablespace, &medium, input.number());
    }
    // As opening a database does, until a counter would overflow.
    let (incarnation, sequence) =
        (found.incarnation.min(INCARNATION_MAX - 1) + 1, found.sequence.min(NUMBER_MAX - 2));
    let mut next = Control { incarnation, sequence, ..found };
    file.write(&mut next).unwrap();
    assert_eq!(ControlFile::open(&medium, Open::Read).unwrap().1, next);
}

fn owner(body: &[u8]) {
    let file = (archive::FILE.to_owned(), seal(*b"ATOLLARC", body));
    let medium = medium_of(&[file].into());
    let Ok(owner) = Owner::read(&medium) else { return };
    drop(Archive::open(&medium, owner).unwrap().unwrap());
    let again = CrashMedium::default();
    drop(Archive::open(&again, owner).unwrap().unwrap());
    assert_eq!(Owner::read(&again).unwrap(), owner);
}

fn origin(body: &[u8]) {
    let file = (origin::FILE.to_owned(), seal(*b"ATOLLORG", body));
    let medium = medium_of(&[file].into());
    let Ok(origin) = Origin::read(&medium) else { return };
    let again = CrashMedium::default();
    origin.write(&again).unwrap();
    assert_eq!(Origin::read(&again).unwrap(), origin);
}

/// A control file that was written several times, and damaged.
fn damaged(input: &mut Input<'_>) {
    let medium = CrashMedium::default();
    let mut control = any(input);
    ControlFile::begin(&medium, NEW, &mut control).unwrap();
    ControlFile::finish(&medium, NEW).unwrap();
    let mut said = vec![control.clone()];
    let (mut file, found) = ControlFile::open(&medium, Open::Write).unwrap();
    assert_eq!(found, control);
    for _ in 0..input.below(3) {
        control = Control { sequence: control.sequence, ..any(input) };
        file.write(&mut control).unwrap();
        said.push(control.clone());
    }
    let mut files: Files = files_of(&medium);
    harm(&mut files, input, 3);
    if let Ok((_, found)) = ControlFile::open(&medium_of(&files), Open::Read) {
        let sequence = found.sequence;
        let is_it = |one: &Control| found == Control { sequence, ..one.clone() };
        assert!(said.iter().any(is_it), "{found:?} was never said");
    }
}

/// Arbitrary contents of a control file.
fn any(input: &mut Input<'_>) -> Control {
    let tablespaces = 1 + input.below(64);
    let positions =
        |input: &mut Input<'_>| (0..tablespaces).map(|_| input.number() >> 2).collect::<Vec<_>>();
    let checkpoint = |input: &mut Input<'_>| {
        let number = 1 + (input.number() >> 17);
        let parts = (0..tablespaces).map(|_| {
            let file = FileRef { bytes: input.number() >> 17, crc: input.number() as u32 };
            let base = 1 + input.number() % number;
            CheckpointPart { start: input.number() >> 2, base, file }
        });
        let parts = parts.collect();
        Checkpoint {
            number,
            epoch: input.number() >> 2,
            incarnation: input.number() as u32 >> 2,
            next_serial: input.number() >> 2,
            parts,
        }
    };
    Control {
        sequence: 0,
        id: input.number(),
        incarnation: input.number() as u32 >> 2,
        file_bytes: (64 + 4 * u64::from(input.byte())) << 10,
        ring_bytes: u64::from(input.byte()) << 20,
        tablespaces,
        cuts: positions(input),
        horizon: input.number() >> 2,
        ends: input.flag().then(|| positions(input)),
        checkpoints: (0..input.below(3)).map(|_| checkpoint(input)).collect(),
    }
}
