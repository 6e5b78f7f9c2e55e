//! The files of a log: the log is cut into files of one size.
//!
//! File `n` holds the bytes from `n × size` on; its name is `log-` and `n` in 12 hexadecimal
//! digits. A file is created, filled with zeroes and durably named before a block is admitted to
//! it. So a flush needs no space and changes no metadata, and a full medium is noticed before a
//! transaction has decided to commit. A file that is created ahead of need is written in small
//! pieces with pauses, so that flushes are not delayed. A file that recovery no longer needs is
//! renamed to become the next file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use atoll_machine::medium::{Open, UNIT_BYTES_MAX, UnitBuffer};
use atoll_machine::{Medium, MediumError, MediumFile};

use crate::ring::Ring;

/// The most bytes that are copied from the ring and written in one request.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// A file that is created ahead of need is written and synced in pieces of this size.
const PIECE_BYTES: u64 = 256 << 10;
/// After each piece the thread pauses this many times as long as the piece took.
const PAUSES: u32 = 2;

/// The files of one log; see the module.
pub struct Files {
    medium: Arc<dyn Medium>,
    file_bytes: u64,
    open: BTreeMap<u64, Arc<dyn MediumFile>>,
    /// The number after that of the last file that is ready.
    ready: u64,
    /// The log from the last multiple of [`UNIT_BYTES_MAX`] to its end: a unit that is partly
    /// filled is written again with the bytes that follow.
    buffer: UnitBuffer,
    syncs: bool,
}

/// A file to be created. Creating it does not block flushes, since it needs no access to [`Files`].
pub struct NextFile {
    medium: Arc<dyn Medium>,
    /// The number of the file.
    pub number: u64,
    file_bytes: u64,
}

impl NextFile {
    /// Creates the file; asks for the pace before each piece. Returns `None` if it had to stop.
    ///
    /// # Errors
    /// [`MediumError`]; the file has been removed then.
    pub fn make(
        &self,
        pace: impl Fn() -> Pace,
    ) -> Result<Option<Arc<dyn MediumFile>>, MediumError> {
        let name = file_name(self.number);
        // An earlier attempt may have left an unfinished file that could not be removed.
        let is_there = self.medium.names()?.contains(&name);
        let file = self.medium.open(&name, if is_there { Open::Write } else { Open::Create })?;
        match self.fill(&*file, pace).and_then(|done| {
            self.medium.sync_names()?;
            Ok(done)
        }) {
            Ok(is_done) => Ok(is_done.then_some(file)),
            Err(error) => {
                let _in_the_way = self.medium.remove(&name);
                Err(error)
            }
        }
    }

    /// Returns whether the file was filled to its end. [`Files::open`] does not count one that is
    /// too short as ready, so it is created again.
    fn fill(&self, file: &dyn MediumFile, pace: impl Fn() -> Pace) -> Result<bool, MediumError> {
        let mut at = 0;
        while at < self.file_bytes {
            let begun = Instant::now();
            at = match pace() {
                Pace::Stop => return Ok(false),
                Pace::Hurried => self.file_bytes,
                Pace::Gentle => (at + PIECE_BYTES).min(self.file_bytes),
            };
            file.reserve(at)?;
            file.sync()?;
            if at < self.file_bytes {
                std::thread::sleep(begun.elapsed() * PAUSES);
            }
        }
        Ok(true)
    }
}

/// How a file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// In pieces with pauses between them.
    Gentle,
    /// In one piece, since a thread waits for the file.
    Hurried,
    /// Not any further.
    Stop,
}

/// Files that recovery no longer needs.
pub struct Unneeded {
    medium: Arc<dyn Medium>,
    numbers: Vec<u64>,
    /// The number that the first of them gets.
    ready: u64,
}

impl Unneeded {
    /// Renames files to be the next ones as long as `wanted` returns true for the new number, and
    /// removes the others. Returns how many were renamed, and the first error: a file that could
    /// not be renamed or removed stays until the next call.
    pub fn recycle(self, wanted: impl Fn(u64) -> bool) -> (u64, Result<(), MediumError>) {
        let (mut next, mut done) = (self.ready, Ok(()));
        for number in self.numbers {
            let name = file_name(number);
            if !wanted(next) {
                done = done.and(self.medium.remove(&name));
                continue;
            }
            // The file has its size and its space; the blocks in it have other LSNs (`BLOCK-1`).
            match self.medium.rename(&name, &file_name(next)) {
                Ok(()) => next += 1,
                Err(error) => done = done.and(Err(error)),
            }
        }
        if next > self.ready
            && let Err(error) = self.medium.sync_names()
        {
            for number in self.ready..next {
                let _in_the_way = self.medium.remove(&file_name(number));
            }
            return (0, done.and(Err(error)));
        }
        (next - self.ready, done)
    }
}

/// The name of a file.
pub fn file_name(number: u64) -> String {
    format!("log-{number:012x}")
}

/// The path of the file that contains a position of the log, and the offset in the file.
pub fn place_of(medium: &dyn Medium, file_bytes: u64, position: u64) -> (String, u64) {
    (medium.path(&file_name(position / file_bytes)), position % file_bytes)
}

/// The number of a file, from its name.
pub fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-").filter(|digits| digits.len() == 12)?;
    u64::from_str_radix(digits, 16).ok()
}

impl Files {
    /// Opens the files of a log that ends at `end`. It creates no file and needs no space, except
    /// to extend a file that is too short and contains bytes before `end`.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn open(medium: Arc<dyn Medium>, file_bytes: u64, end: u64) -> Result<Self, MediumError> {
        let mut numbers: Vec<u64> =
            medium.names()?.iter().filter_map(|name| file_number(name)).collect();
        numbers.sort_unstable();
        let current = end / file_bytes;
        // Only files that follow the current one without a gap are usable.
        let mut ready = current;
        while numbers.contains(&ready) {
            ready += 1;
        }
        let buffer = UnitBuffer::zeroes((end % UNIT_BYTES_MAX) as usize);
        let open = BTreeMap::new();
        let mut files = Self { medium, file_bytes, open, ready, buffer, syncs: true };
        for number in numbers.into_iter().filter(|number| *number > ready) {
            files.medium.remove(&file_name(number))?;
        }
        for number in current..ready {
            let file = Arc::clone(files.file(number)?);
            if file.size()? >= file_bytes {
                continue;
            }
            if number * file_bytes >= end {
                // A crash has interrupted its creation; it is created again.
                files.open.remove(&number);
                files.ready = number;
                break;
            }
            file.reserve(file_bytes)?;
            file.sync()?;
        }
        // A process that was killed may have left names that are not durable.
        files.medium.sync_names()?;
        if !end.is_multiple_of(file_bytes) {
            let (file, unit) = (Arc::clone(files.file(current)?), end % UNIT_BYTES_MAX);
            file.read_at(end % file_bytes - unit, &mut files.buffer)?;
        }
        Ok(files)
    }

    /// Creates files until they end behind a position.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn make_until(&mut self, position: u64) -> Result<(), MediumError> {
        while self.end() <= position {
            let next = self.next();
            let file = next.make(|| Pace::Hurried)?.expect("a hurried file is never stopped");
            self.add(next.number, file);
        }
        Ok(())
    }

    /// Skips every sync of a flush: a fault that tests plant.
    pub(crate) fn never_sync(&mut self) {
        self.syncs = false;
    }

    /// The number of the file that contains a position.
    pub fn number_of(&self, position: u64) -> u64 {
        position / self.file_bytes
    }

    /// The position behind the last byte that can be written.
    pub fn end(&self) -> u64 {
        self.ready * self.file_bytes
    }

    fn file(&mut self, number: u64) -> Result<&Arc<dyn MediumFile>, MediumError> {
        if !self.open.contains_key(&number) {
            let file = self.medium.open(&file_name(number), Open::Write)?;
            self.open.insert(number, file);
        }
        Ok(&self.open[&number])
    }

    /// The next file to be created. The caller creates one at a time.
    pub fn next(&self) -> NextFile {
        let (number, file_bytes) = (self.ready, self.file_bytes);
        NextFile { medium: Arc::clone(&self.medium), number, file_bytes }
    }

    /// Adds the next file, which has been created.
    pub fn add(&mut self, number: u64, file: Arc<dyn MediumFile>) {
        debug_assert_eq!(number, self.ready);
        self.open.insert(number, file);
        self.ready += 1;
    }

    /// Writes the bytes between two positions from the ring, and syncs them.
    ///
    /// # Errors
    /// [`MediumError`]; it is unknown then which of the bytes are durable.
    pub fn write(&mut self, ring: &Ring, from: u64, to: u64) -> Result<(), MediumError> {
        let mut at = from;
        while at < to {
            let number = at / self.file_bytes;
            let file_start = number * self.file_bytes;
            let end = to.min(file_start + self.file_bytes);
            let file = Arc::clone(self.file(number)?);
            while at < end {
                let next = end.min((at + WRITE_BYTES_MAX) / UNIT_BYTES_MAX * UNIT_BYTES_MAX);
                self.write_run(&*file, file_start, ring, (at, next))?;
                at = next;
            }
            if self.syncs {
                file.sync()?;
            }
            if at == file_start + self.file_bytes {
                self.open.remove(&number); // The file is full.
            }
        }
        Ok(())
    }

    /// Writes the next bytes, at most to the end of the file. If an earlier write has begun their
    /// first unit, the unit is written again with the same bytes in front; the last unit is padded
    /// with zeroes.
    fn write_run(
        &mut self,
        file: &dyn MediumFile,
        file_start: u64,
        ring: &Ring,
        (from, to): (u64, u64),
    ) -> Result<(), MediumError> {
        let (unit, buffer) = (file.unit(), &mut self.buffer);
        let first = from / UNIT_BYTES_MAX * UNIT_BYTES_MAX;
        let (had, len) = ((from - first) as usize, (to - first) as usize);
        debug_assert_eq!(buffer.len(), had);
        buffer.set_len(len);
        ring.read(from, &mut buffer[had..]);
        let begin = from / unit * unit;
        buffer.resize((to.next_multiple_of(unit) - first) as usize);
        file.write_units(begin - file_start, &buffer[(begin - first) as usize..])?;
        buffer.set_len(len);
        buffer.remove_front(len - (to % UNIT_BYTES_MAX) as usize);
        Ok(())
    }

    /// The files with all their bytes before `start`. No other file may be created until the
    /// caller has reported the renamed ones to [`Files::reuse`].
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn unneeded(&mut self, start: u64) -> Result<Unneeded, MediumError> {
        let first = self.number_of(start);
        let mut numbers: Vec<u64> =
            self.medium.names()?.iter().filter_map(|name| file_number(name)).collect();
        numbers.retain(|number| *number < first);
        self.open.retain(|number, _| *number >= first);
        Ok(Unneeded { medium: Arc::clone(&self.medium), numbers, ready: self.ready })
    }

    /// `count` files have been renamed to be the next ones.
    pub fn reuse(&mut self, count: u64) {
        self.ready += count;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::*;

    #[test]
    fn names_are_numbers() {
        assert_eq!(file_name(0x1f), "log-00000000001f");
        assert_eq!(file_number("log-00000000001f"), Some(0x1f));
        for name in ["log-", "log-1f", "home", "log-00000000001g"] {
            assert_eq!(file_number(name), None, "{name}");
        }
    }

    fn prepare(files: &mut Files, end: u64) {
        while files.end() < end {
            let next = files.next();
            files.add(next.number, next.make(|| Pace::Gentle).unwrap().unwrap());
        }
    }

    #[test]
    fn a_write_goes_across_files_and_is_found_again() {
        let medium = CrashMedium::default();
        let open = |end| Files::open(Arc::new(medium.clone()), 4096, end).unwrap();
        open(0).make_until(0).unwrap();
        let mut files = open(4000);
        assert_eq!(files.end(), 4096);
        prepare(&mut files, 12_000);
        let ring = Ring::new(8192);
        let bytes: Vec<u8> = (0..6000).map(|at| at as u8).collect();
        ring.write(4000, &bytes);
        files.write(&ring, 4000, 10_000).unwrap();
        let mut found = vec![0; 4096];
        medium.open(&file_name(1), Open::Read).unwrap().read_at(0, &mut found).unwrap();
        assert_eq!(found, bytes[96..96 + 4096]);
    }

    #[test]
    fn a_file_that_is_full_is_not_kept_open() {
        let medium = CrashMedium::default();
        let mut files = Files::open(Arc::new(medium), 4096, 0).unwrap();
        files.make_until(0).unwrap();
        let ring = Ring::new(8192);
        for number in 0..100 {
            prepare(&mut files, (number + 2) * 4096);
            files.write(&ring, number * 4096, number * 4096 + 2000).unwrap();
            files.write(&ring, number * 4096 + 2000, (number + 1) * 4096).unwrap();
            assert!(files.open.len() <= 2, "{} are open", files.open.len());
        }
    }

    #[test]
    fn unneeded_files_become_the_next_ones() {
        let medium = CrashMedium::default();
        let mut files = Files::open(Arc::new(medium.clone()), 4096, 0).unwrap();
        prepare(&mut files, 4 * 4096);
        let unneeded = files.unneeded(3 * 4096).unwrap();
        let (count, done) = unneeded.recycle(|next| next < 5);
        done.unwrap();
        files.reuse(count);
        let names: Vec<u64> =
            medium.names().unwrap().iter().filter_map(|name| file_number(name)).collect();
        assert_eq!(names, [3, 4]);
        assert_eq!(files.end(), 5 * 4096);
    }
}
