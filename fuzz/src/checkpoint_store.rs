//! The files of checkpoints: maps, steps, and the blocks to which they refer.
//!
//! `bytes`: any bytes are refused as a map, or decode to a map that encodes and decodes to itself.
//! Any bytes are refused as a step, or the result is complete: every part has the blocks that its
//! bytes need, and lines are inside their part. A step from one map to another leads there.
//!
//! `damage`: checkpoints that were written, with damage. Everything is read from each kept
//! checkpoint as it was written, or there is an error.

use std::sync::Arc;

use atoll_log::checkpoint_store::step::{StepBytes, follows};
use atoll_log::checkpoint_store::writer::apply;
use atoll_log::checkpoint_store::{
    BLOCK_BYTES, CheckpointStore, FileRef, Holding, LINE_BYTES, Lines, Map, Part, PartName,
    SegmentMap, TableMap, Waiting,
};
use atoll_log::control::CheckpointPart;
use atoll_machine::CrashMedium;

use super::input::{Input, files_of, harm, medium_of};

const PARTS: [PartName; 2] = [PartName::Presence, PartName::Values(0)];

/// See the module.
pub fn bytes(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.byte();
    let len = input.below(1 << 12);
    let mut holding = Holding { map: map(input.take(len)), ..Holding::default() };
    if how & 1 == 0 {
        // Another map, and the step to it, if the map can follow the first: a table keeps its
        // number.
        let to = map(input.0);
        let step = step_between(&holding.map, &to);
        assert_eq!(follows(&step), Some(FileRef { bytes: 5, crc: 6 }));
        let is_ordered = |map: &Map| map.tables.windows(2).all(|two| two[0].serial < two[1].serial);
        let is_described = to.tables.iter().all(|table| !table.description.is_empty());
        if is_described && is_ordered(&holding.map) && is_ordered(&to) {
            holding.apply(&step).expect("what was written is a step");
            check(&holding);
            for table in &to.tables {
                assert!(holding.map.tables.contains(table), "{table:?} is another");
            }
        }
        return;
    }
    while !input.is_empty() {
        let mut step = b"ATOLLSTP\0\0".to_vec();
        step.extend_from_slice(input.bytes(1 << 12));
        let _ = follows(&step);
        if holding.apply(&step).is_none() {
            return;
        }
        check(&holding);
    }
}

/// The map of some bytes; an empty one when they are not a map.
fn map(bytes: &[u8]) -> Map {
    let mut whole = b"ATOLLMAP".to_vec();
    whole.extend_from_slice(bytes);
    let Some(map) = Map::decode(&whole) else { return Map::default() };
    check(&Holding { map: map.clone(), ..Holding::default() });
    assert_eq!(Map::decode(&map.encode()).as_ref(), Some(&map));
    map
}

fn check(holding: &Holding) {
    for table in &holding.map.tables {
        for (at, segment) in table.segments.iter().enumerate() {
            for part in segment.parts() {
                assert_eq!(part.blocks.len() as u64, part.bytes.div_ceil(BLOCK_BYTES as u64));
            }
            let lines = holding.lines.get(&(table.serial, at as u32));
            for (name, lines) in lines.into_iter().flatten() {
                let part = segment.part(*name).expect("lines are of a part");
                let most = part.blocks.len() * (BLOCK_BYTES / LINE_BYTES);
                assert!(lines.keys().all(|line| (*line as usize) < most), "{name:?}");
            }
        }
    }
}

/// The step from one map to another.
fn step_between(from: &Map, to: &Map) -> Vec<u8> {
    let mut bytes = StepBytes::new(FileRef { bytes: 5, crc: 6 }, to.tables.len());
    let none = Vec::new();
    for table in &to.tables {
        let old = from.tables.iter().find(|one| one.serial == table.serial);
        let old = old.map_or(&none, |one| &one.segments);
        bytes.table(table, table.segments.len());
        for (at, segment) in table.segments.iter().enumerate() {
            let old = old.get(at).map(|old| &**old);
            bytes.segment(at as u32, old, segment, &Lines::new());
        }
    }
    bytes.finish()
}

/// A checkpoint that was written.
struct Kept {
    number: u64,
    part: CheckpointPart,
    bytes: Vec<Vec<u8>>,
}

/// See the module.
pub fn damage(bytes: &[u8]) {
    let mut input = Input(bytes);
    let medium = CrashMedium::default();
    let kept = write(&CheckpointStore::open(Arc::new(medium.clone())).unwrap(), &mut input);
    let mut files = files_of(&medium);
    if input.byte() % 8 != 0 {
        harm(&mut files, &mut input, 3);
    }
    let medium = medium_of(&files);
    let Ok(store) = CheckpointStore::open_to_read(Arc::new(medium)) else { return };
    for kept in &kept {
        let mut helped = Vec::new();
        let part = match input.byte() {
            0..240 => kept.part,
            // The contents of a control file are not trusted either.
            _ => {
                let base = 1 + input.number() % kept.number;
                let file = FileRef { bytes: input.number(), crc: kept.part.file.crc };
                CheckpointPart { start: 0, base, file }
            }
        };
        let Ok(holding) = store.read_holding(kept.number, &part, &mut helped) else { continue };
        check(&holding);
        let segment = &holding.map.tables[0].segments[0];
        for (name, written) in PARTS.iter().zip(&kept.bytes) {
            let lines = holding.lines.get(&(0, 0)).and_then(|lines| lines.get(name));
            let mut found = Vec::new();
            if store.read(segment.part(*name).unwrap(), lines, &mut found).is_ok() {
                assert!(found == *written, "checkpoint {} has another {name:?}", kept.number);
            }
        }
    }
}

/// Writes checkpoints of a segment that changes, of which the last two are kept.
fn write(store: &CheckpointStore, input: &mut Input<'_>) -> Vec<Kept> {
    let mut bytes = vec![Vec::new(); PARTS.len()];
    let mut shown: Option<(Map, Vec<Vec<u8>>)> = None;
    let mut before: Option<Map> = None;
    let (mut waiting, mut kept) = (Waiting::new(), Vec::<Kept>::new());
    for number in 1..2 + input.below(5) as u64 {
        for bytes in &mut bytes {
            bytes.resize(input.below(4 * BLOCK_BYTES), input.byte());
            for _ in 0..input.below(8) {
                if !bytes.is_empty() {
                    let at = input.below(bytes.len());
                    bytes[at] = input.byte();
                }
            }
        }
        let last = kept.last().map(|kept| kept.part);
        let last = last.filter(|_| input.below(4) != 0);
        let maps: Vec<&Map> = shown.iter().map(|(map, _)| map).chain(&before).collect();
        let mut writer = store.writer(&maps, &waiting, last.is_some());
        writer.begin_segment((0, 0));
        let old = shown.as_ref().map(|(map, bytes)| (&map.tables[0].segments[0], bytes));
        let parts: Vec<Part> = PARTS
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let old = old.map(|(old, bytes)| (old.part(*name).unwrap(), &bytes[at][..]));
                writer.part(*name, &bytes[at], old).unwrap()
            })
            .collect();
        let lines = writer.take_lines();
        let (_, changed) = writer.finish().unwrap();
        let map = map_of(parts);
        let (base, file) = match last {
            None => (number, store.write_map(number, &map).unwrap()),
            Some(last) => {
                let mut step = StepBytes::new(last.file, 1);
                step.table(&map.tables[0], 1);
                step.segment(0, old.map(|(old, _)| &**old), &map.tables[0].segments[0], &lines);
                (last.base, store.write_step(number, &step.finish()).unwrap())
            }
        };
        apply(&mut waiting, changed);
        before = shown.replace((map, bytes.clone())).map(|(map, _)| map);
        let part = CheckpointPart { start: 0, base, file };
        kept.push(Kept { number, part, bytes: bytes.clone() });
        kept.drain(..kept.len().saturating_sub(2));
        let needed: Vec<_> = kept.iter().map(|kept| (kept.number, kept.part.base)).collect();
        store.keep(&needed).unwrap();
    }
    kept
}

fn map_of(parts: Vec<Part>) -> Map {
    let [presence, values] = parts.try_into().unwrap();
    let column = atoll_log::checkpoint_store::ColumnMap { values, ..Default::default() };
    let segment = SegmentMap { filled: 1, presence, columns: vec![column] };
    let segments = vec![Arc::new(segment)];
    Map { tables: vec![TableMap { serial: 0, description: b"a table".to_vec(), segments }] }
}
