//! The control file: the incarnation of the database, and its last two checkpoints.
//!
//! The file has two slots, which are written one after the other with the same content. So one slot
//! is always valid, whenever a crash happens, and a single damaged slot does no harm. A slot is
//! sealed ([`crate::sealed`]):
//!
//! ```text
//! sequence | id | incarnation | file bytes | ring bytes | tablespaces | cut × tablespaces
//! horizon | closed (0 or 1) | end × tablespaces, if it is closed
//! checkpoints | (number | epoch | incarnation | part × tablespaces) × checkpoints
//! part = start | base | file bytes | file CRC32C
//! ```
//! All fields are numbers as in [`atoll_storage::redo`].

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
use crate::logs::{FILE_BYTES, RING_BYTES_MAX, TABLESPACES_MAX};
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

    fn decode(body: &[u8]) -> Option<Self> {
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
            let parts = (0..control.tablespaces).map(|_| {
                Some(CheckpointPart {
                    start: count(input)?,
                    base: input.number().filter(|base| (1..=number).contains(base))?,
                    file: FileRef { bytes: input.number()?, crc: input.number()?.try_into().ok()? },
                })
            });
            let parts = parts.collect::<Option<_>>()?;
            control.checkpoints.push(Checkpoint { number, epoch, incarnation, parts });
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
    let body = unseal(MAGIC, &bytes, file.path(), offset)?;
    Control::decode(body).ok_or_else(|| {
        damaged(HEADER_BYTES as u64, "the state of a database", "something else".into())
    })
}

#[cfg(test)]
mod tests {
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
            checkpoints: vec![Checkpoint { number: 9, epoch: 8, incarnation: 2, parts }],
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
            let (_, found) =
                found.unwrap_or_else(|error| panic!("{what}, {events} events: {error}"));
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
}
