//! The control file: the incarnation of the database, and its last two checkpoints.
//!
//! The file has two slots, which are written one after the other with the same content. So one slot
//! is always valid, whenever a crash happens, and a single damaged slot does no harm. A slot is
//! sealed ([`crate::sealed`]):
//!
//! ```text
//! sequence | id | incarnation | file bytes | ring bytes | tablespaces | cut × tablespaces
//! horizon | closed (0 or 1) | end × tablespaces, if it is closed
//! checkpoints | (number | epoch | incarnation | next serial | part × tablespaces) × checkpoints
//! part = start | base | file bytes | file CRC32C
//! ```
//! All fields are numbers as in [`atoll_storage::redo`]. Before format 6 there is no next serial.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use atoll_machine::medium::Open;
use atoll_machine::{Medium, MediumFile};
use atoll_storage::redo::{Input, number};

use crate::block::{INCARNATION_MAX, NUMBER_MAX};
pub use crate::checkpoint_store::CheckpointPart;
use crate::checkpoint_store::FileRef;
use crate::error::LogError;
use crate::files::place_of;
use crate::options::{FILE_BYTES, RING_BYTES_MAX, TABLESPACES_MAX};
pub use crate::sealed::FORMAT;
use crate::sealed::{HEADER_BYTES, seal, unseal};

/// Name of the file.
pub const FILE: &str = "control";
/// Its name while the database is being created.
pub const NEW: &str = "control.new";
/// Its name while a backup is being written.
pub const COPY: &str = "control.copy";
const MAGIC: [u8; 8] = *b"ATOLLCTL";
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 16 << 10;
/// Checkpoints that are kept.
pub const CHECKPOINTS_KEPT: usize = 2;
/// Numbers of checkpoints are less than this, so that file names with 12 digits suffice.
const CHECKPOINT_END: u64 = 1 << 48;

/// The content of the control file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Raised by each write of a slot; the slot with the greater sequence is newer.
    pub sequence: u64,
    /// A random number that identifies the database. A backup and a restored database get other
    /// ids, since their logs continue with other histories.
    pub id: u64,
    /// How many times the database has been opened.
    pub incarnation: u32,
    /// Bytes of a file of the logs.
    pub file_bytes: u64,
    /// Bytes of a log's ring in this incarnation, which bounds the distance from the durable
    /// position to the end of a log. 0: unknown.
    pub ring_bytes: u64,
    /// Number of tablespaces.
    pub tablespaces: usize,
    /// The position at which this incarnation continued each log: blocks of earlier incarnations at
    /// or behind it do not count.
    pub cuts: Vec<u64>,
    /// All valid blocks up to this GSN are durable in all logs. A recovery or a checkpoint has
    /// determined it, so the next recovery need not derive it from blocks before the checkpoint.
    pub horizon: u64,
    /// The end of each log, if the database has been closed.
    pub ends: Option<Vec<u64>>,
    /// The last checkpoints, the newest first.
    pub checkpoints: Vec<Checkpoint>,
}

/// A checkpoint: what it shows, and from which positions on recovery reads the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number.
    pub number: u64,
    /// The checkpoint shows what was committed in earlier incarnations, and in its own incarnation
    /// up to this epoch.
    pub epoch: u64,
    /// The incarnation in which the checkpoint was taken.
    pub incarnation: u32,
    /// The serial number of the table that was created next. 0 if an earlier version wrote the
    /// checkpoint: then no table had been dropped, and the serial numbers in the maps say it.
    pub next_serial: u64,
    /// The part of each tablespace.
    pub parts: Vec<CheckpointPart>,
}

impl Checkpoint {
    /// Whether the checkpoint shows what was committed in an epoch of an incarnation.
    pub fn shows(&self, incarnation: u32, epoch: u64) -> bool {
        (incarnation, epoch) <= (self.incarnation, self.epoch)
    }
}

/// Draws an id for a database that is being created.
pub fn new_id() -> u64 {
    // The keys of a `RandomState` come from the random numbers of the operating system.
    RandomState::new().build_hasher().finish()
}

impl Control {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let (incarnation, tablespaces) = (self.incarnation.into(), self.tablespaces as u64);
        let sizes = [self.file_bytes, self.ring_bytes];
        for value in
            [self.sequence, self.id, incarnation].into_iter().chain(sizes).chain([tablespaces])
        {
            number(&mut body, value);
        }
        self.cuts.iter().for_each(|cut| number(&mut body, *cut));
        number(&mut body, self.horizon);
        number(&mut body, self.ends.is_some().into());
        self.ends.iter().flatten().for_each(|end| number(&mut body, *end));
        number(&mut body, self.checkpoints.len() as u64);
        for checkpoint in &self.checkpoints {
            number(&mut body, checkpoint.number);
            number(&mut body, checkpoint.epoch);
            number(&mut body, checkpoint.incarnation.into());
            number(&mut body, checkpoint.next_serial);
            for part in &checkpoint.parts {
                number(&mut body, part.start);
                number(&mut body, part.base);
                number(&mut body, part.file.bytes);
                number(&mut body, part.file.crc.into());
            }
        }
        let mut out = seal(MAGIC, &body);
        assert!(out.len() <= SLOT_BYTES, "{TABLESPACES_MAX} tablespaces fit");
        out.resize(SLOT_BYTES, 0);
        out
    }

    fn decode(format: u32, body: &[u8]) -> Option<Self> {
        let mut input = Input(body);
        let input = &mut input;
        let mut control = Self {
            sequence: count(input)?,
            id: input.number()?,
            incarnation: incarnation(input)?,
            file_bytes: input.number()?,
            ring_bytes: input.number()?,
            tablespaces: input.number()?.try_into().ok()?,
            ..Self::default()
        };
        let fits = (1..=TABLESPACES_MAX).contains(&control.tablespaces)
            && FILE_BYTES.contains(&control.file_bytes)
            && control.file_bytes.is_multiple_of(4096)
            && control.ring_bytes <= RING_BYTES_MAX;
        if !fits {
            return None;
        }
        let cuts = (0..control.tablespaces).map(|_| count(input));
        control.cuts = cuts.collect::<Option<_>>()?;
        control.horizon = count(input)?;
        if input.number()? != 0 {
            let ends = (0..control.tablespaces).map(|_| count(input));
            control.ends = Some(ends.collect::<Option<_>>()?);
        }
        for _ in 0..input.number()?.min(CHECKPOINTS_KEPT as u64) {
            let number = input.number().filter(|number| *number < CHECKPOINT_END)?;
            let (epoch, incarnation) = (count(input)?, incarnation(input)?);
            let next_serial = if format < 6 { 0 } else { count(input)? };
            let parts = (0..control.tablespaces).map(|_| {
                Some(CheckpointPart {
                    start: count(input)?,
                    base: input.number().filter(|base| (1..=number).contains(base))?,
                    file: FileRef { bytes: input.number()?, crc: input.number()?.try_into().ok()? },
                })
            });
            let parts = parts.collect::<Option<_>>()?;
            control.checkpoints.push(Checkpoint { number, epoch, incarnation, next_serial, parts });
        }
        Some(control)
    }
}

/// Reads a number of at most [`NUMBER_MAX`], so that additions to it do not overflow.
pub(crate) fn count(input: &mut Input<'_>) -> Option<u64> {
    input.number().filter(|number| *number <= NUMBER_MAX)
}

pub(crate) fn incarnation(input: &mut Input<'_>) -> Option<u32> {
    input.number()?.try_into().ok().filter(|incarnation| *incarnation <= INCARNATION_MAX)
}

impl Control {
    /// The error if the log of a tablespace, on `medium`, ends at `end` although it was durable
    /// further: up to where this incarnation continued it, and up to where it was closed.
    pub fn ends_too_early(
        &self,
        tablespace: usize,
        medium: &dyn Medium,
        end: u64,
    ) -> Option<LogError> {
        let closed = self.ends.as_ref().map(|ends| (ends[tablespace], "where it was closed"));
        let begun = (self.cuts[tablespace], "where it was opened last");
        let (wanted, what) = closed.into_iter().chain([begun]).find(|(at, _)| end < *at)?;
        let (file, offset) = place_of(medium, self.file_bytes, end);
        let (until, byte) = place_of(medium, self.file_bytes, wanted);
        let expected = format!("blocks of the log, up to byte {byte} of {until}, {what}");
        Some(LogError::damaged(file, offset, expected, "its end"))
    }
}

/// The open control file.
///
/// - `CONTROL-1`: a slot is written only while the other slot is valid and durable. So after a
///   failed write, the slot of that write is written first the next time; after the file has been
///   opened, the newest slot is written first, because it may not be durable yet.
#[derive(Debug)]
pub struct ControlFile {
    file: Arc<dyn MediumFile>,
    /// The greatest sequence that may be in the file.
    sequence: u64,
    /// The slot with that sequence may be torn, or not durable.
    is_torn: bool,
}

impl ControlFile {
    /// Writes a control file under another name ([`NEW`] or [`COPY`]), which shows that a database
    /// is being created. [`ControlFile::finish`] makes it the control file of the database.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn begin(medium: &dyn Medium, name: &str, control: &mut Control) -> Result<(), LogError> {
        let is_there = medium.names()?.iter().any(|known| known == name);
        let file = medium.open(name, if is_there { Open::Write } else { Open::Create })?;
        file.reserve(2 * SLOT_BYTES as u64)?;
        Self { file, sequence: control.sequence, is_torn: false }.write(control)?;
        Ok(medium.sync_names()?)
    }

    /// Renames the control file to [`FILE`]: from now on the database exists.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn finish(medium: &dyn Medium, name: &str) -> Result<(), LogError> {
        medium.rename(name, FILE)?;
        Ok(medium.sync_names()?)
    }

    /// Opens the control file of a database and reads its newest valid slot.
    ///
    /// # Errors
    /// [`LogError::Missing`], [`LogError::Version`], [`LogError::Damaged`], [`LogError::Medium`].
    pub fn open(medium: &dyn Medium, how: Open) -> Result<(Self, Control), LogError> {
        if !medium.names()?.iter().any(|name| name == FILE) {
            return Err(LogError::Missing { file: medium.path(FILE) });
        }
        let file = medium.open(FILE, how)?;
        let mut slots = Vec::new();
        let mut first_error = None;
        for slot in 0..2 {
            match read_slot(&*file, slot) {
                Ok(control) => slots.push(control),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        slots.sort_by_key(|control| control.sequence);
        let is_torn = slots.len() == 2; // The newest may not be durable: CONTROL-1.
        match (slots.pop(), first_error) {
            (Some(newest), _) => Ok((Self { file, sequence: newest.sequence, is_torn }, newest)),
            (None, Some(error)) => Err(error),
            (None, None) => Err(LogError::Missing { file: medium.path(FILE) }),
        }
    }

    /// The errors of damaged slots; a database opens with one valid slot.
    ///
    /// # Errors
    /// [`LogError::Medium`].
    pub fn check(medium: &dyn Medium) -> Result<Vec<LogError>, LogError> {
        let file = medium.open(FILE, Open::Read)?;
        Ok((0..2).filter_map(|slot| read_slot(&*file, slot).err()).collect())
    }

    /// Writes both slots; they are durable when this returns.
    ///
    /// # Errors
    /// [`LogError::Medium`]; the file has the old or the new content then, and the caller can write
    /// again.
    pub fn write(&mut self, control: &mut Control) -> Result<(), LogError> {
        if self.is_torn {
            self.sequence += 1; // CONTROL-1
        }
        for _ in 0..2 {
            self.sequence += 1;
            control.sequence = self.sequence;
            self.is_torn = true;
            let offset = control.sequence % 2 * SLOT_BYTES as u64;
            self.file.write_at(offset, &control.encode())?;
            self.file.sync()?;
            self.is_torn = false;
        }
        Ok(())
    }
}

fn read_slot(file: &dyn MediumFile, slot: u64) -> Result<Control, LogError> {
    let offset = slot * SLOT_BYTES as u64;
    let damaged = |at: u64, expected: &str, found: String| {
        LogError::damaged(file.path(), offset + at, expected, found)
    };
    let mut bytes = vec![0; SLOT_BYTES];
    file.read_at(offset, &mut bytes)
        .map_err(|_| damaged(0, "a slot of the control file", "the end of the file".into()))?;
    let (format, body) = unseal(MAGIC, &bytes, file.path(), offset)?;
    Control::decode(format, body).ok_or_else(|| {
        damaged(HEADER_BYTES as u64, "the state of a database", "something else".into())
    })
}

#[cfg(test)]
mod tests;
