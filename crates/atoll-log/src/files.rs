//! The files of a log: positions of the log, cut into files of one size.
//!
//! File `n` holds the bytes from `n × size` on and is called `log-` and `n` in 12 hexadecimal
//! digits. Files are made, written with zeroes and given durable names before anything is admitted
//! to them, so that a flush needs no space and no change of metadata, and a full medium is met
//! before a transaction has decided anything. One that is made ahead of need is written in small
//! pieces with pauses between them, so that flushes of others find the medium free. A file whose
//! bytes nobody needs any more becomes the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use atoll_machine::medium::{Open, UNIT_BYTES_MAX, UnitBuffer};
use atoll_machine::{Medium, MediumError, MediumFile};

use crate::ring::Ring;

/// What is read from the ring and written at once, at most.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// Of a file that is made ahead, so much is written and synced at once; then the medium is left to
/// others for so many times as long.
const PIECE_BYTES: u64 = 256 << 10;
const PAUSES: u32 = 2;

/// See the module.
pub struct Files {
    medium: Arc<dyn Medium>,
    file_bytes: u64,
    open: BTreeMap<u64, Arc<dyn MediumFile>>,
    /// The number behind the last file that is ready.
    ready: u64,
    /// The log from the last multiple of [`UNIT_BYTES_MAX`] to its end: a unit is written again
    /// when there is more for it.
    buffer: UnitBuffer,
    syncs: bool,
}

/// A file that does not exist yet. It is made without holding up those who write to others.
pub struct NextFile {
    medium: Arc<dyn Medium>,
    /// Its number.
    pub number: u64,
    file_bytes: u64,
}

impl NextFile {
    /// Makes it, at the pace that is asked for as it goes on; `None` when it was to stop.
    ///
    /// # Errors
    /// [`MediumError`]; there is no such file then.
    pub fn make(
        &self,
        pace: impl Fn() -> Pace,
    ) -> Result<Option<Arc<dyn MediumFile>>, MediumError> {
        let name = file_name(self.number);
        // One that could not be finished, or removed, may be in the way.
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

    /// Whether it was filled to its end. One that is too short is filled when the log is opened.
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

/// How a file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// In pieces with pauses between them.
    Gentle,
    /// At once: somebody waits for it.
    Hurried,
    /// Not at all any more.
    Stop,
}

/// Files that nobody needs any more.
pub struct Unneeded {
    medium: Arc<dyn Medium>,
    numbers: Vec<u64>,
    /// What the first of them may become.
    ready: u64,
}

impl Unneeded {
    /// Makes some of them the next files, as long as `wanted` says so, and removes the others.
    /// Returns how many are ready, and the first thing that failed: such a file stays what it is,
    /// until the next time.
    pub fn recycle(self, wanted: impl Fn(u64) -> bool) -> (u64, Result<(), MediumError>) {
        let (mut next, mut done) = (self.ready, Ok(()));
        for number in self.numbers {
            let name = file_name(number);
            if !wanted(next) {
                done = done.and(self.medium.remove(&name));
                continue;
            }
            // Its size is right and its blocks are written; what it holds is of other positions
            // (`BLOCK-1`).
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

/// The file that a position of the log lies in, as people find it, and where in it.
pub fn place_of(medium: &dyn Medium, file_bytes: u64, position: u64) -> (String, u64) {
    (medium.path(&file_name(position / file_bytes)), position % file_bytes)
}

/// The number of a file, from its name.
pub fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-").filter(|digits| digits.len() == 12)?;
    u64::from_str_radix(digits, 16).ok()
}

impl Files {
    /// The files of a log that goes on at `end`. None is made, and nothing needs space, but for one
    /// that has lost its end.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn open(medium: Arc<dyn Medium>, file_bytes: u64, end: u64) -> Result<Self, MediumError> {
        let mut numbers: Vec<u64> =
            medium.names()?.iter().filter_map(|name| file_number(name)).collect();
        numbers.sort_unstable();
        let current = end / file_bytes;
        // Only what follows the current one without a gap is of use.
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
                // A crash while it was being made has left it too short; it is made again.
                files.open.remove(&number);
                files.ready = number;
                break;
            }
            file.reserve(file_bytes)?;
            file.sync()?;
        }
        // Of a process that was killed, names may be there and not durable.
        files.medium.sync_names()?;
        if !end.is_multiple_of(file_bytes) {
            let (file, unit) = (Arc::clone(files.file(current)?), end % UNIT_BYTES_MAX);
            file.read_at(end % file_bytes - unit, &mut files.buffer)?;
        }
        Ok(files)
    }

    /// Makes files until there is one behind a position.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn make_until(&mut self, position: u64) -> Result<(), MediumError> {
        while self.end() <= position {
            let next = self.next();
            let file = next.make(|| Pace::Hurried)?.expect("nobody stops it");
            self.add(next.number, file);
        }
        Ok(())
    }

    /// A fault that tests plant.
    pub(crate) fn never_sync(&mut self) {
        self.syncs = false;
    }

    /// The number of the file that holds a position.
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

    /// What the next file is to be. One at a time is made.
    pub fn next(&self) -> NextFile {
        let (number, file_bytes) = (self.ready, self.file_bytes);
        NextFile { medium: Arc::clone(&self.medium), number, file_bytes }
    }

    /// The next file has been made.
    pub fn add(&mut self, number: u64, file: Arc<dyn MediumFile>) {
        debug_assert_eq!(number, self.ready);
        self.open.insert(number, file);
        self.ready += 1;
    }

    /// Writes what the ring has between two positions, and syncs it.
    ///
    /// # Errors
    /// [`MediumError`]. What has become of those bytes is not known.
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
                self.open.remove(&number); // It is not written any more.
            }
        }
        Ok(())
    }

    /// Writes what comes next, at most to the end of the file. Its first unit may have been begun
    /// before, and is written again with the same bytes; its last one is filled up with zeroes.
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

    /// The files whose bytes all lie before `start`. Nobody else makes files until
    /// [`Files::reuse`] has been told what became of them.
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

    /// So many files are ready that were others.
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
    fn files_that_nobody_needs_become_the_next_ones() {
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
