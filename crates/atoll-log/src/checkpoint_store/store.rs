//! The files of a checkpoint store.
//!
//! - `CHECKPOINT_STORE-1`: a block that a kept checkpoint names is never overwritten.
//! - `CHECKPOINT_STORE-2`: a checkpoint becomes valid only after its blocks and its file are
//!   durable.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_machine::medium::Open;
use atoll_machine::{Medium, MediumFile};

use super::map::{BlockRef, Map, Part};
use super::step::{self, FileRef, Holding, Line};
use super::{BLOCK_BYTES, FILE, LINE_BYTES, MAP_COPIES};
use super::{map_name, map_number, step_name, step_number};
use crate::error::LogError;

/// A tablespace's part of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointPart {
    /// The position from which recovery reads the log.
    pub start: u64,
    /// Number of the checkpoint with the map at the end of the chain of steps; the number of this
    /// checkpoint if it has a map.
    pub base: u64,
    /// Its map, or its step.
    pub file: FileRef,
}

/// The checkpoint store of one tablespace; see the module.
pub struct CheckpointStore {
    medium: Arc<dyn Medium>,
    file: Arc<dyn MediumFile>,
}

impl CheckpointStore {
    /// Opens the store of a tablespace, or creates an empty one.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn open(medium: Arc<dyn Medium>) -> Result<Self, LogError> {
        let file = if medium.names()?.iter().any(|name| name == FILE) {
            medium.open(FILE, Open::Write)?
        } else {
            let file = medium.open(FILE, Open::Create)?;
            medium.sync_names()?;
            file
        };
        Ok(Self { medium, file })
    }

    /// The medium with the files of the store and of the tablespace's log.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// Opens the store for reading.
    ///
    /// # Errors
    /// [`LogError::Missing`], [`LogError::Medium`].
    pub fn open_to_read(medium: Arc<dyn Medium>) -> Result<Self, LogError> {
        let file = medium.open(FILE, Open::Read).map_err(|error| {
            if error.is_missing() {
                return LogError::Missing { file: medium.path(FILE) };
            }
            error.into()
        })?;
        Ok(Self { medium, file })
    }

    /// Reads what a checkpoint holds: its map, or an earlier map and the steps that follow it. If
    /// one copy of the map is damaged and the other one is valid, the error goes to `helped`.
    ///
    /// # Errors
    /// [`LogError::Missing`], [`LogError::Damaged`], [`LogError::Medium`].
    pub fn read_holding(
        &self,
        checkpoint: u64,
        part: &CheckpointPart,
        helped: &mut Vec<LogError>,
    ) -> Result<Holding, LogError> {
        let mut steps = Vec::new();
        let (mut number, mut wanted) = (checkpoint, part.file);
        while number > part.base {
            let name = step_name(number);
            let file = self.open_file(&name, wanted.bytes)?;
            let bytes = self.read_copy(&*file, wanted, 0)?;
            let follows = step::follows(&bytes).ok_or_else(|| self.is_none(&name, "a step"))?;
            steps.push((name, bytes));
            (number, wanted) = (number - 1, follows);
        }
        let name = map_name(part.base);
        // No file has a size that overflows.
        let file = self.open_file(&name, wanted.bytes.saturating_mul(MAP_COPIES))?;
        let copies = (0..MAP_COPIES).map(|copy| self.read_copy(&*file, wanted, copy));
        let (sound, damaged): (Vec<_>, Vec<_>) = copies.partition(Result::is_ok);
        helped.extend(damaged.into_iter().filter_map(Result::err));
        let Some(Ok(bytes)) = sound.into_iter().next() else {
            return Err(helped
                .pop()
                .unwrap_or(LogError::Missing { file: self.medium.path(&name) }));
        };
        let map = Map::decode(&bytes);
        let map = map.ok_or_else(|| self.is_none(&name, "a map of a checkpoint"))?;
        let mut holding = Holding { map, ..Holding::default() };
        while let Some((name, bytes)) = steps.pop() {
            holding.apply(&bytes).ok_or_else(|| self.is_none(&name, "a step that fits"))?;
        }
        Ok(holding)
    }

    /// The newest checkpoint by the names of the files, for a caller without a control file. The
    /// checkpoint may not have been completed.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn newest(&self) -> Result<Option<(u64, CheckpointPart)>, LogError> {
        let names = self.medium.names()?;
        let newest =
            |number: fn(&str) -> Option<u64>| names.iter().filter_map(|name| number(name)).max();
        let Some(base) = newest(map_number) else { return Ok(None) };
        let step = newest(step_number).filter(|step| *step > base);
        let (name, copies) = match step {
            Some(step) => (step_name(step), 1),
            None => (map_name(base), MAP_COPIES),
        };
        let file = self.medium.open(&name, Open::Read)?;
        let bytes = file.size()? / copies;
        let mut crcs = (0..copies).map(|copy| {
            let mut content = vec![0; bytes as usize];
            file.read_at(copy * bytes, &mut content)?;
            let is_map = step.is_some() || Map::decode(&content).is_some();
            Ok::<_, LogError>((is_map, crc32c::crc32c(&content)))
        });
        // Of a map, the copy that can be decoded.
        let crc = crcs.try_fold(None, |found, next| {
            let (is_map, crc) = next?;
            Ok::<_, LogError>(found.or(is_map.then_some(crc)))
        })?;
        let file = FileRef { bytes, crc: crc.unwrap_or(0) };
        Ok(Some((step.unwrap_or(base), CheckpointPart { start: 0, base, file })))
    }

    /// The errors of the blocks of a part, one for each damaged block.
    pub fn verify(&self, part: &Part) -> Vec<LogError> {
        let mut bytes = Vec::new();
        if self.read(part, None, &mut bytes).is_ok() {
            return Vec::new();
        }
        let alone = |block: &BlockRef| Part { blocks: vec![*block], bytes: BLOCK_BYTES as u64 };
        let each = part.blocks.iter().map(alone);
        each.filter_map(|block| self.read(&block, None, &mut bytes).err()).collect()
    }

    fn is_none(&self, name: &str, expected: &str) -> LogError {
        LogError::damaged(self.medium.path(name), 0, expected, "something else")
    }

    fn open_file(&self, name: &str, bytes: u64) -> Result<Arc<dyn MediumFile>, LogError> {
        let path = self.medium.path(name);
        let file = self.medium.open(name, Open::Read).map_err(|error| {
            if error.is_missing() {
                return LogError::Missing { file: path.clone() };
            }
            error.into()
        })?;
        let size = file.size()?;
        if size != bytes {
            let expected = format!("{bytes} bytes in all");
            return Err(LogError::damaged(path, size, expected, format!("{size}")));
        }
        Ok(file)
    }

    fn read_copy(
        &self,
        file: &dyn MediumFile,
        wanted: FileRef,
        copy: u64,
    ) -> Result<Vec<u8>, LogError> {
        let mut bytes = vec![0; wanted.bytes as usize];
        let offset = copy * wanted.bytes;
        file.read_at(offset, &mut bytes)?;
        let crc = crc32c::crc32c(&bytes);
        if crc != wanted.crc {
            let expected = format!("checksum {:08x} of {} bytes", wanted.crc, wanted.bytes);
            return Err(LogError::damaged(file.path(), offset, expected, format!("{crc:08x}")));
        }
        Ok(bytes)
    }

    /// Reads a part; `lines` replace bytes of its blocks.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Medium`].
    pub fn read(
        &self,
        part: &Part,
        lines: Option<&BTreeMap<u32, Line>>,
        out: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        out.clear();
        out.resize(part.blocks.len() * BLOCK_BYTES, 0);
        let mut at = 0;
        while at < part.blocks.len() {
            let first = part.blocks[at].number;
            let follows = |i: &usize| part.blocks[*i].number == first + (i - at) as u64;
            let end = (at..part.blocks.len()).take_while(follows).count() + at;
            let bytes = &mut out[at * BLOCK_BYTES..end * BLOCK_BYTES];
            self.file.read_at(first * BLOCK_BYTES as u64, bytes).map_err(|error| {
                if error.source.kind() == std::io::ErrorKind::UnexpectedEof {
                    let offset = first * BLOCK_BYTES as u64;
                    return LogError::damaged(&error.path, offset, "blocks", "the end of the file");
                }
                error.into()
            })?;
            for (block, bytes) in part.blocks[at..end].iter().zip(bytes.chunks(BLOCK_BYTES)) {
                self.check(block, bytes)?;
            }
            at = end;
        }
        for (at, line) in lines.into_iter().flatten() {
            let start = *at as usize * LINE_BYTES;
            if let Some(place) = out.get_mut(start..start + LINE_BYTES) {
                place.copy_from_slice(line);
            }
        }
        out.truncate(part.bytes as usize);
        Ok(())
    }

    fn check(&self, block: &BlockRef, bytes: &[u8]) -> Result<(), LogError> {
        let crc = crc32c::crc32c(bytes);
        if crc == block.crc {
            return Ok(());
        }
        Err(LogError::damaged(
            self.file.path(),
            block.number * BLOCK_BYTES as u64,
            format!("checksum {:08x} of {BLOCK_BYTES} bytes", block.crc),
            format!("{crc:08x}"),
        ))
    }

    /// Writes the map of a checkpoint, after its blocks have become durable. The file gets two
    /// copies, because both kept checkpoints may depend on the same map.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn write_map(&self, checkpoint: u64, map: &Map) -> Result<FileRef, LogError> {
        self.write_file(&map_name(checkpoint), &map.encode(), MAP_COPIES)
    }

    /// Writes the step of a checkpoint, after its blocks have become durable.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn write_step(&self, checkpoint: u64, bytes: &[u8]) -> Result<FileRef, LogError> {
        self.write_file(&step_name(checkpoint), bytes, 1)
    }

    fn write_file(&self, name: &str, bytes: &[u8], copies: u64) -> Result<FileRef, LogError> {
        if self.medium.names()?.iter().any(|known| known == name) {
            self.medium.remove(name)?;
        }
        let file = self.medium.open(name, Open::Create)?;
        (0..copies).try_for_each(|copy| file.write_at(copy * bytes.len() as u64, bytes))?;
        file.sync()?;
        self.medium.sync_names()?;
        Ok(FileRef { bytes: bytes.len() as u64, crc: crc32c::crc32c(bytes) })
    }

    /// Removes the files that none of `checkpoints` needs. Each entry is the number of a checkpoint
    /// and the number of its base.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn keep(&self, checkpoints: &[(u64, u64)]) -> Result<(), LogError> {
        for name in self.medium.names()? {
            let is_needed = if let Some(map) = map_number(&name) {
                checkpoints.iter().any(|(_, base)| map == *base)
            } else if let Some(step) = step_number(&name) {
                checkpoints.iter().any(|(number, base)| step > *base && step <= *number)
            } else {
                continue;
            };
            if !is_needed {
                self.medium.remove(&name)?;
            }
        }
        Ok(())
    }

    pub(super) fn file(&self) -> &dyn MediumFile {
        &*self.file
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::super::step::{PartName, StepBytes};
    use super::super::writer::Waiting;
    use super::super::{SegmentMap, TableMap};
    use super::*;

    fn map_of(part: &Part) -> Map {
        let segment = SegmentMap { presence: part.clone(), ..SegmentMap::default() };
        let segments = vec![Arc::new(segment)];
        Map { tables: vec![TableMap { serial: 0, description: vec![1], segments }] }
    }

    fn write(store: &CheckpointStore, bytes: &[u8]) -> Part {
        let waiting = Waiting::new();
        let mut writer = store.writer(&[], &waiting, false);
        let part = writer.part(PartName::Presence, bytes, None).unwrap();
        writer.finish().unwrap();
        part
    }

    #[test]
    fn a_flipped_bit_is_told_with_its_place() {
        let medium = CrashMedium::default();
        let store = CheckpointStore::open(Arc::new(medium.clone())).unwrap();
        let part = write(&store, &[3; 3 * BLOCK_BYTES]);
        medium.damage(FILE, BLOCK_BYTES as u64 + 17, 4);
        let error = store.read(&part, None, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, LogError::Damaged { offset: 4096, .. }), "{error}");
        medium.truncate(FILE, 2 * BLOCK_BYTES as u64);
        medium.damage(FILE, BLOCK_BYTES as u64 + 17, 4);
        let error = store.read(&part, None, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("end of the file"), "{error}");
    }

    #[test]
    fn an_impossible_size_is_damage() {
        let store = CheckpointStore::open(Arc::new(CrashMedium::default())).unwrap();
        let map = map_of(&Part::default());
        let file = store.write_map(1, &map).unwrap();
        for bytes in [u64::MAX, 1 << 63, (1 << 63) + file.bytes] {
            let file = FileRef { bytes, crc: file.crc };
            let part = CheckpointPart { start: 0, base: 1, file };
            let error = store.read_holding(1, &part, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, LogError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn a_chain_is_found_again_and_damage_of_any_file_told() {
        let medium = CrashMedium::default();
        let store = CheckpointStore::open(Arc::new(medium.clone())).unwrap();
        let read =
            |number, part: &CheckpointPart| store.read_holding(number, part, &mut Vec::new());
        let map = map_of(&write(&store, &[3; 2 * BLOCK_BYTES]));
        let file = store.write_map(7, &map).unwrap();
        assert_eq!(
            read(7, &CheckpointPart { start: 0, base: 7, file }).unwrap(),
            Holding { map: map.clone(), ..Holding::default() }
        );
        let mut follows = file;
        for step in 8..10 {
            let line = [step as u8; LINE_BYTES];
            let lines = [(PartName::Presence, [(step as u32 * 5, line)].into())].into();
            let segment = &map.tables[0].segments[0];
            let mut bytes = StepBytes::new(follows, 1);
            bytes.table(&map.tables[0], 1);
            bytes.segment(0, Some(segment), segment, &lines);
            follows = store.write_step(step, &bytes.finish()).unwrap();
        }
        let newest = CheckpointPart { start: 0, base: 7, file: follows };
        let holding = read(9, &newest).unwrap();
        assert_eq!(holding.map, map);
        let lines = &holding.lines[&(0, 0)][&PartName::Presence];
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [40, 45]);
        let mut bytes = Vec::new();
        let part = &holding.map.tables[0].segments[0].presence;
        store.read(part, Some(lines), &mut bytes).unwrap();
        let at = |line: usize| (bytes[line * LINE_BYTES], bytes[(line + 1) * LINE_BYTES]);
        assert_eq!((at(40), at(45), bytes.len()), ((8, 3), (9, 3), 2 * BLOCK_BYTES));
        // The files that any of the kept checkpoints needs are kept.
        store.write_map(3, &map).unwrap();
        store.keep(&[(9, 7), (8, 7)]).unwrap();
        assert_eq!(
            medium.names().unwrap(),
            [FILE.to_owned(), map_name(7), step_name(8), step_name(9)]
        );
        // The second copy of a map replaces a damaged one.
        for copy in 0..MAP_COPIES {
            let at = copy * file.bytes + 9;
            medium.damage(&map_name(7), at, 1);
            let mut helped = Vec::new();
            assert_eq!(store.read_holding(9, &newest, &mut helped).unwrap(), holding);
            let [LogError::Damaged { offset, .. }] = helped[..] else { panic!("{helped:?}") };
            assert_eq!(offset, copy * file.bytes);
            medium.damage(&map_name(7), at, 1);
        }
        medium.damage(&map_name(7), file.bytes + 9, 1);
        for name in [map_name(7), step_name(8), step_name(9)] {
            medium.damage(&name, 9, 1);
            let error = read(9, &newest).unwrap_err();
            assert!(matches!(error, LogError::Damaged { .. }), "{name}: {error}");
            medium.damage(&name, 9, 1);
            read(9, &newest).unwrap();
        }
        store.keep(&[(10, 10)]).unwrap();
        assert!(matches!(read(9, &newest), Err(LogError::Missing { .. })));
    }
}
