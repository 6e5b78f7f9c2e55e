//! Tests of a checkpoint store: a series of checkpoints, and what is read from them.
#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use atoll_machine::CrashMedium;
use atoll_storage::key::mix;

use super::step::StepBytes;
use super::writer::{LINES_MAX, apply};
use super::*;

const NAME: PartName = PartName::Presence;

fn map_of(part: &Part) -> Map {
    let segment = SegmentMap { presence: part.clone(), ..SegmentMap::default() };
    let segments = vec![Arc::new(segment)];
    Map { tables: vec![TableMap { serial: 0, description: vec![1], segments }] }
}

fn read(store: &CheckpointStore, part: &Part) -> Vec<u8> {
    let mut out = Vec::new();
    store.read(part, None, &mut out).unwrap();
    out
}

#[test]
fn only_blocks_that_changed_are_written_and_never_over_older_ones() {
    let store = CheckpointStore::open(Arc::new(CrashMedium::default())).unwrap();
    let none = Waiting::new();
    let first: Vec<u8> = (0..5 * BLOCK_BYTES + 100).map(|at| (at / 7) as u8).collect();
    let mut writer = store.writer(&[], &none, false);
    let one = writer.part(NAME, &first, None).unwrap();
    assert_eq!(writer.finish().unwrap().0, 6 * BLOCK_BYTES as u64);
    let mut second = first.clone();
    second[2 * BLOCK_BYTES] ^= 1;
    second.extend([9; 50]);
    let kept = map_of(&one);
    let mut writer = store.writer(&[&kept], &none, false);
    let two = writer.part(NAME, &second, Some((&one, &first))).unwrap();
    assert_eq!(writer.finish().unwrap().0, 2 * BLOCK_BYTES as u64);
    assert_eq!(read(&store, &one), first);
    assert_eq!(read(&store, &two), second);
    // The first checkpoint is not kept any more, so the two blocks that only it had are free.
    let kept = map_of(&two);
    let mut writer = store.writer(&[&kept], &none, false);
    let three = writer.part(NAME, &[1; 3 * BLOCK_BYTES], None).unwrap();
    writer.finish().unwrap();
    let numbers: Vec<u64> = three.blocks.iter().map(|block| block.number).collect();
    assert_eq!(numbers, [2, 5, 8]);
    assert_eq!(read(&store, &two), second);
}

#[test]
fn a_step_writes_lines_until_a_block_has_too_many() {
    let store = CheckpointStore::open(Arc::new(CrashMedium::default())).unwrap();
    let mut waiting = Waiting::new();
    let mut bytes = vec![7; 2 * BLOCK_BYTES];
    let mut writer = store.writer(&[], &waiting, false);
    let part = writer.part(NAME, &bytes, None).unwrap();
    writer.finish().unwrap();
    for round in 0..=LINES_MAX as usize {
        let before = bytes.clone();
        bytes[BLOCK_BYTES + round * LINE_BYTES + 5] ^= 1;
        let kept = map_of(&part);
        let mut writer = store.writer(&[&kept], &waiting, true);
        let now = writer.part(NAME, &bytes, Some((&part, &before))).unwrap();
        let lines = writer.take_lines();
        let (written, changed) = writer.finish().unwrap();
        apply(&mut waiting, changed);
        if round < LINES_MAX as usize {
            assert_eq!((now, written), (part.clone(), 0));
            assert_eq!(lines[&NAME].len(), 1);
            let line = BLOCK_BYTES / LINE_BYTES + round;
            assert_eq!(lines[&NAME][&(line as u32)][..], bytes[line * LINE_BYTES..][..64]);
            assert_eq!(waiting[&(0, 0)][&(NAME, 1)], round as u32 + 1);
        } else {
            assert_eq!((now.blocks[0], written), (part.blocks[0], BLOCK_BYTES as u64));
            assert!(lines.is_empty() && waiting.is_empty());
            assert_eq!(read(&store, &now), bytes);
        }
    }
}

#[test]
fn a_map_leaves_no_lines_waiting() {
    let store = CheckpointStore::open(Arc::new(CrashMedium::default())).unwrap();
    let mut waiting = Waiting::new();
    let first = vec![7; BLOCK_BYTES];
    let mut writer = store.writer(&[], &waiting, false);
    let part = writer.part(NAME, &first, None).unwrap();
    writer.finish().unwrap();
    let mut bytes = first.clone();
    bytes[100] = 1;
    let kept = map_of(&part);
    let mut writer = store.writer(&[&kept], &waiting, true);
    writer.part(NAME, &bytes, Some((&part, &first))).unwrap();
    assert_eq!(writer.take_lines()[&NAME].len(), 1);
    let changed = writer.finish().unwrap().1;
    apply(&mut waiting, changed);
    // The bytes have not changed since, but the block lacks the line that the step contains.
    let mut writer = store.writer(&[&kept], &waiting, false);
    assert!(!writer.may_stay(None) && !writer.may_stay(NAME.column()));
    let whole = writer.part(NAME, &bytes, Some((&part, &bytes))).unwrap();
    let changed = writer.finish().unwrap().1;
    assert_eq!(read(&store, &whole), bytes);
    apply(&mut waiting, changed);
    assert!(waiting.is_empty());
}

/// Segments of a table that change at random, and what a reader of the files must find.
struct Run {
    store: CheckpointStore,
    random: u64,
    segments: Vec<Vec<Vec<u8>>>,
    map: Map,
    waiting: Waiting,
    held: Holding,
    file: FileRef,
}

impl Run {
    fn below(&mut self, most: u64) -> u64 {
        self.random = mix(self.random + 1);
        self.random % most
    }

    /// Grows, shrinks and changes parts.
    fn change(&mut self) {
        if self.below(3) == 0 {
            self.segments.push(vec![Vec::new(); 3]);
        }
        for at in 0..self.segments.len() {
            for part in 0..3 {
                let bytes = self.segments[at][part].len() as u64;
                match self.below(6) {
                    0 => {
                        let len = (bytes + self.below(9000)).min(40_000);
                        let byte = self.below(256) as u8;
                        self.segments[at][part].resize(len as usize, byte);
                    }
                    1 if bytes > 0 && self.below(4) == 0 => {
                        let len = self.below(bytes) as usize;
                        self.segments[at][part].truncate(len);
                    }
                    2 | 3 if bytes > 0 => {
                        for _ in 0..self.below(40) {
                            let place = self.below(bytes) as usize;
                            self.segments[at][part][place] ^= 1 + self.below(255) as u8;
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn checkpoint(&mut self, old: &[Vec<Vec<u8>>], is_step: bool) {
        let kept = [&self.map];
        let mut writer = self.store.writer(&kept, &self.waiting, is_step);
        let mut table = TableMap { serial: 3, description: vec![1], segments: Vec::new() };
        let mut changed = Vec::new();
        for (at, parts) in self.segments.iter().enumerate() {
            writer.begin_segment((3, at as u32));
            let known = self.map.tables.first().and_then(|table| table.segments.get(at));
            let mut write = |name: PartName, part: usize| {
                let before = known
                    .and_then(|known| known.part(name))
                    .zip(old.get(at).map(|parts| &parts[part][..]));
                writer.part(name, &parts[part], before).unwrap()
            };
            let presence = write(PartName::Presence, 0);
            let values = write(PartName::Values(0), 1);
            let heap = vec![write(PartName::Heap(0, 0), 2)];
            let zone = (parts[0].len() as u64, 7);
            let column = ColumnMap { values, validity: None, heap, zone };
            let new = SegmentMap { filled: at as u32, presence, columns: vec![column] };
            changed.push((at as u32, known.cloned(), writer.take_lines()));
            table.segments.push(Arc::new(new));
        }
        let noted = writer.finish().unwrap().1;
        apply(&mut self.waiting, noted);
        if is_step {
            let mut step = StepBytes::new(self.file, 1);
            step.table(&table, changed.len());
            for (at, old, lines) in &changed {
                step.segment(*at, old.as_deref(), &table.segments[*at as usize], lines);
            }
            let bytes = step.finish();
            for len in [0, 8, bytes.len() / 2, bytes.len() - 1] {
                assert_eq!(self.held.clone().apply(&bytes[..len]), None);
            }
            self.held.apply(&bytes).unwrap();
        } else {
            assert!(self.waiting.is_empty());
            self.held = Holding { map: Map { tables: vec![table.clone()] }, ..Holding::default() };
        }
        self.map = Map { tables: vec![table] };
    }

    fn check(&self) {
        assert_eq!(self.held.map, self.map);
        for (at, parts) in self.segments.iter().enumerate() {
            let names = [PartName::Presence, PartName::Values(0), PartName::Heap(0, 0)];
            for (name, wanted) in names.into_iter().zip(parts) {
                let part = self.map.tables[0].segments[at].part(name).unwrap();
                let lines = self.held.lines.get(&(3, at as u32));
                let mut found = Vec::new();
                let lines = lines.and_then(|lines| lines.get(&name));
                self.store.read(part, lines, &mut found).unwrap();
                assert!(found == *wanted, "segment {at}, {name:?}");
            }
        }
    }
}

#[test]
fn what_is_held_after_any_steps_is_what_there_was() {
    for seed in 0..30 {
        let mut run = Run {
            store: CheckpointStore::open(Arc::new(CrashMedium::default())).unwrap(),
            random: seed << 32,
            segments: vec![vec![Vec::new(); 3]; 2],
            map: Map::default(),
            waiting: Waiting::new(),
            held: Holding::default(),
            file: FileRef::default(),
        };
        let mut old = Vec::new();
        for round in 0..25 {
            run.change();
            let is_step = round > 0 && run.below(8) > 0;
            run.checkpoint(&old, is_step);
            run.check();
            old.clone_from(&run.segments);
        }
    }
}

#[test]
fn bytes_of_a_step_that_were_changed_end_without_a_panic() {
    let part = Part { bytes: 5000, blocks: vec![BlockRef { number: 4, crc: 5 }; 2] };
    let column = ColumnMap {
        values: part.clone(),
        validity: Some(part.clone()),
        heap: vec![part.clone()],
        zone: (1, 2),
    };
    let segment = SegmentMap { filled: 9, presence: part, columns: vec![column; 2] };
    let segments = vec![Arc::new(segment.clone())];
    let table = TableMap { serial: 1, description: b"what".to_vec(), segments };
    let lines = [(PartName::Validity(1), [(70, [3; LINE_BYTES])].into())].into();
    let mut step = StepBytes::new(FileRef { bytes: 3, crc: 4 }, 1);
    step.table(&table, 1);
    step.segment(0, Some(&segment), &segment, &lines);
    let bytes = step.finish();
    let before = Holding { map: Map { tables: vec![table] }, ..Holding::default() };
    before.clone().apply(&bytes).unwrap();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = before.clone().apply(&damaged);
        }
    }
}
