//! The file of blocks of a tablespace.
//!
//! - `HOME-1`: a block that a kept checkpoint names is not written.
//! - `HOME-2`: a checkpoint counts only after its blocks and its map are durable.

use std::sync::Arc;

use atoll_machine::medium::Open;
use atoll_machine::{Medium, MediumFile};

use super::map::{BlockRef, Map, Part};
use super::{BLOCK_BYTES, FILE, map_name, map_number};
use crate::control::CheckpointPart;
use crate::error::LogError;

/// Blocks that are written at once, at most.
const RUN_BLOCKS_MAX: usize = 256;

/// See the module.
pub struct Home {
    medium: Arc<dyn Medium>,
    file: Arc<dyn MediumFile>,
}

/// Writes what a checkpoint changes.
pub struct Writer<'h> {
    home: &'h Home,
    free: Free,
    /// Blocks that follow each other and have not been written yet.
    run: Vec<u8>,
    run_start: u64,
    blocks: u64,
}

/// Blocks that no kept checkpoint names.
struct Free {
    /// A bit for each block that is used.
    used: Vec<u64>,
    /// All before this one are used.
    next: u64,
}

impl Free {
    fn new(maps: &[&Map]) -> Self {
        let mut free = Self { used: Vec::new(), next: 0 };
        maps.iter().flat_map(|map| map.blocks()).for_each(|block| free.set(block.number));
        free
    }

    fn set(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        self.used[word] |= 1 << (number % 64);
    }

    fn take(&mut self) -> u64 {
        loop {
            let word = (self.next / 64) as usize;
            let bits = self.used.get(word).copied().unwrap_or(0);
            if bits == u64::MAX {
                self.next = (self.next / 64 + 1) * 64;
                continue;
            }
            let number = self.next;
            self.next += 1;
            if bits >> (number % 64) & 1 == 0 {
                self.set(number);
                return number;
            }
        }
    }
}

impl Home {
    /// Opens the home of a tablespace, made if there is none.
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

    /// Opens it for reading.
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

    /// Reads the map of a checkpoint.
    ///
    /// # Errors
    /// [`LogError::Missing`], [`LogError::Damaged`], [`LogError::Medium`].
    pub fn read_map(&self, checkpoint: u64, part: &CheckpointPart) -> Result<Map, LogError> {
        let name = map_name(checkpoint);
        let path = self.medium.path(&name);
        let file = self.medium.open(&name, Open::Read).map_err(|error| {
            if error.is_missing() {
                return LogError::Missing { file: path.clone() };
            }
            error.into()
        })?;
        let size = file.size()?;
        if size != part.map_bytes {
            let expected = format!("{} bytes in all", part.map_bytes);
            return Err(LogError::damaged(path, size, expected, format!("{size}")));
        }
        let mut bytes = vec![0; size as usize];
        file.read_at(0, &mut bytes)?;
        let crc = crc32c::crc32c(&bytes);
        if crc != part.map_crc {
            let expected = format!("checksum {:08x} of all bytes", part.map_crc);
            return Err(LogError::damaged(path, 0, expected, format!("{crc:08x}")));
        }
        Map::decode(&bytes)
            .ok_or_else(|| LogError::damaged(path, 0, "a map of a checkpoint", "something else"))
    }

    /// Reads a part.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Medium`].
    pub fn read(&self, part: &Part, out: &mut Vec<u8>) -> Result<(), LogError> {
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

    /// Begins a checkpoint; blocks of these maps are not written.
    pub fn writer(&self, kept: &[&Map]) -> Writer<'_> {
        Writer { home: self, free: Free::new(kept), run: Vec::new(), run_start: 0, blocks: 0 }
    }

    /// Writes the map of a checkpoint whose blocks are durable; returns its bytes and its CRC.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn write_map(&self, checkpoint: u64, map: &Map) -> Result<(u64, u32), LogError> {
        let (name, bytes) = (map_name(checkpoint), map.encode());
        if self.medium.names()?.contains(&name) {
            self.medium.remove(&name)?;
        }
        let file = self.medium.open(&name, Open::Create)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.medium.sync_names()?;
        Ok((bytes.len() as u64, crc32c::crc32c(&bytes)))
    }

    /// Removes the maps of other checkpoints than these.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn keep_maps(&self, checkpoints: &[u64]) -> Result<(), LogError> {
        for name in self.medium.names()? {
            if map_number(&name).is_some_and(|number| !checkpoints.contains(&number)) {
                self.medium.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// Writes bytes of which `before` says where an earlier checkpoint has those that `old` is.
    /// Blocks that are the same are not written again.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn part(&mut self, bytes: &[u8], before: Option<(&Part, &[u8])>) -> Result<Part, LogError> {
        let mut part = Part { bytes: bytes.len() as u64, blocks: Vec::new() };
        for (at, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let start = at * BLOCK_BYTES;
            let known = before.and_then(|(known, old)| {
                // The last block is filled up, so it is the same only if it ends at the same place.
                let old = old.get(start..)?;
                let old = &old[..old.len().min(BLOCK_BYTES)];
                (old == block).then(|| known.blocks.get(at)).flatten()
            });
            let block = match known {
                Some(block) => *block,
                None => self.block(block)?,
            };
            part.blocks.push(block);
        }
        Ok(part)
    }

    fn block(&mut self, bytes: &[u8]) -> Result<BlockRef, LogError> {
        let number = self.free.take();
        let run_blocks = self.run.len() / BLOCK_BYTES;
        if number != self.run_start + run_blocks as u64 || run_blocks == RUN_BLOCKS_MAX {
            self.write_run()?;
            self.run_start = number;
        }
        let start = self.run.len();
        self.run.extend_from_slice(bytes);
        self.run.resize(start + BLOCK_BYTES, 0);
        self.blocks += 1;
        Ok(BlockRef { number, crc: crc32c::crc32c(&self.run[start..]) })
    }

    fn write_run(&mut self) -> Result<(), LogError> {
        if !self.run.is_empty() {
            self.home.file.write_at(self.run_start * BLOCK_BYTES as u64, &self.run)?;
            self.run.clear();
        }
        Ok(())
    }

    /// Makes everything durable; returns the bytes written.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn finish(mut self) -> Result<u64, LogError> {
        self.write_run()?;
        self.home.file.sync()?;
        Ok(self.blocks * BLOCK_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::super::map::{SegmentMap, TableMap};
    use super::*;

    fn map_of(part: &Part) -> Map {
        let segment = SegmentMap { presence: part.clone(), ..SegmentMap::default() };
        let segments = vec![Arc::new(segment)];
        Map { tables: vec![TableMap { id: 0, description: Vec::new(), segments }] }
    }

    fn read(home: &Home, part: &Part) -> Vec<u8> {
        let mut out = Vec::new();
        home.read(part, &mut out).unwrap();
        out
    }

    #[test]
    fn only_blocks_that_changed_are_written_and_never_over_older_ones() {
        let medium = CrashMedium::default();
        let home = Home::open(Arc::new(medium.clone())).unwrap();
        let first: Vec<u8> = (0..5 * BLOCK_BYTES + 100).map(|at| (at / 7) as u8).collect();
        let mut writer = home.writer(&[]);
        let one = writer.part(&first, None).unwrap();
        assert_eq!(writer.finish().unwrap(), 6 * BLOCK_BYTES as u64);
        let mut second = first.clone();
        second[2 * BLOCK_BYTES] ^= 1;
        second.extend([9; 50]);
        let kept = map_of(&one);
        let mut writer = home.writer(&[&kept]);
        let two = writer.part(&second, Some((&one, &first))).unwrap();
        assert_eq!(writer.finish().unwrap(), 2 * BLOCK_BYTES as u64);
        assert_eq!(read(&home, &one), first);
        assert_eq!(read(&home, &two), second);
        // The first is not kept any more, so its own two blocks are free.
        let kept = map_of(&two);
        let mut writer = home.writer(&[&kept]);
        let three = writer.part(&[1; 3 * BLOCK_BYTES], None).unwrap();
        writer.finish().unwrap();
        let numbers: Vec<u64> = three.blocks.iter().map(|block| block.number).collect();
        assert_eq!(numbers, [2, 5, 8]);
        assert_eq!(read(&home, &two), second);
    }

    #[test]
    fn a_flipped_bit_is_told_with_its_place() {
        let medium = CrashMedium::default();
        let home = Home::open(Arc::new(medium.clone())).unwrap();
        let mut writer = home.writer(&[]);
        let part = writer.part(&[3; 3 * BLOCK_BYTES], None).unwrap();
        writer.finish().unwrap();
        medium.damage(FILE, BLOCK_BYTES as u64 + 17, 4);
        let error = home.read(&part, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, LogError::Damaged { offset: 4096, .. }), "{error}");
        medium.truncate(FILE, 2 * BLOCK_BYTES as u64);
        medium.damage(FILE, BLOCK_BYTES as u64 + 17, 4);
        let error = home.read(&part, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("end of the file"), "{error}");
    }

    #[test]
    fn a_map_is_found_again_and_damage_told() {
        let medium = CrashMedium::default();
        let home = Home::open(Arc::new(medium.clone())).unwrap();
        let map = map_of(&Part::default());
        let (map_bytes, map_crc) = home.write_map(7, &map).unwrap();
        let part = CheckpointPart { start: 0, map_bytes, map_crc };
        assert_eq!(home.read_map(7, &part).unwrap(), map);
        medium.damage(&map_name(7), 9, 1);
        assert!(matches!(home.read_map(7, &part), Err(LogError::Damaged { .. })));
        home.keep_maps(&[8]).unwrap();
        assert!(matches!(home.read_map(7, &part), Err(LogError::Missing { .. })));
    }
}
