//! A medium in memory that records every write and sync, to simulate a crash at any point of a run.
//! It can also be made to fail.
//!
//! After a run, [`CrashMedium::crash`] constructs the medium that would be found if the machine had
//! lost power after a given event: everything that was synced is there, and of the rest any subset
//! of units (sectors, or words of persistent memory) and any prefix of the changes of names
//! (`MEDIUM-1` to `MEDIUM-3`). The code that writes real persistent memory also writes the
//! simulated one, and its operations on cache lines are recorded ([`lines`]).
//!
//! This file holds the world and its faults, `medium` the operations that it records, and `after`
//! the state behind a crash.

mod after;
pub mod lines;
mod medium;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use self::lines::{Gathered, LineEvent, Skipped};
use super::SECTOR_BYTES;

/// A recorded operation.
#[derive(Debug, Clone)]
enum Event {
    Write {
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Reserve {
        file: usize,
        size_bytes: u64,
    },
    /// An operation of a thread on lines of persistent memory.
    Line(ThreadId, LineEvent),
    /// A sync of everything that was written before the event `begun`.
    Sync {
        file: usize,
        begun: usize,
    },
    Name(Naming),
    SyncNames {
        folder: String,
    },
    /// A note of the caller.
    Note(u64),
}

/// A change of names; each name includes its folder.
#[derive(Debug, Clone)]
enum Naming {
    Create { name: String, file: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }

    fn folder(&self) -> &str {
        let (Self::Create { name, .. } | Self::Rename { from: name, .. } | Self::Remove { name }) =
            self;
        name.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The kind of operations that fail, and their error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Writes, reservations and creating files fail: no space. The first half of the bytes of a
    /// write still fits.
    Full,
    /// Creating files fails: no space.
    Create,
    /// Syncs fail with an input/output error.
    Sync,
    /// Reads fail with an input/output error.
    Read,
    /// All changes fail, as on a file system that is mounted read-only.
    ReadOnly,
}

#[derive(Debug, Default)]
struct World {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
    /// The contents of the files when the recording began.
    began: Vec<Vec<u8>>,
    began_names: BTreeMap<String, usize>,
    events: Vec<Event>,
    fault: Option<(Fault, usize)>,
    /// Number of operations that have failed because of the fault.
    failures: u64,
    locked: BTreeSet<String>,
    sync_time: Duration,
    /// Bytes that are written atomically; 0: a sector.
    unit: u64,
    /// Stores that are not yet an event.
    gathered: HashMap<ThreadId, Gathered>,
    skipped: Option<Skipped>,
}

/// See the module. Clones and folders belong to the same world.
#[derive(Debug, Clone, Default)]
pub struct CrashMedium {
    world: Arc<Mutex<World>>,
    folder: String,
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset as usize..end].copy_from_slice(bytes);
}

impl World {
    /// Fails if the fault is set for this kind of operation.
    fn may(&mut self, what: Fault) -> io::Result<()> {
        let Some((fault, left)) = &mut self.fault else { return Ok(()) };
        if *fault != what {
            return Ok(());
        }
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        self.failures += 1;
        Err(match what {
            Fault::Full | Fault::Create => io::ErrorKind::StorageFull.into(),
            Fault::Sync | Fault::Read => io::Error::from_raw_os_error(libc::EIO),
            Fault::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
        })
    }

    /// As [`World::may`], for an operation that changes something.
    fn may_change(&mut self, what: Fault) -> io::Result<()> {
        self.may(Fault::ReadOnly).and_then(|()| self.may(what))
    }

    fn is_pm(&self) -> bool {
        (1..SECTOR_BYTES).contains(&self.unit)
    }

    fn read(&mut self, file: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.may(Fault::Read)?;
        let range = offset as usize..offset as usize + into.len();
        let bytes = self.files[file].get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.may(Fault::ReadOnly)?;
        let may = self.may(Fault::Full);
        let bytes = if may.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        put(&mut self.files[file], offset, bytes);
        self.events.push(Event::Write { file, offset, bytes: bytes.to_vec() });
        may
    }
}

fn sync(world: &Mutex<World>, file: usize) -> io::Result<()> {
    let mut locked = lock(world);
    // The sync does not make durable what is written while it runs.
    let (time, begun) = (locked.sync_time, locked.events.len());
    if !time.is_zero() {
        drop(locked);
        std::thread::sleep(time);
        locked = lock(world);
    }
    locked.may(Fault::Sync)?;
    locked.events.push(Event::Sync { file, begun });
    Ok(())
}

impl CrashMedium {
    /// A medium that writes `bytes` bytes atomically; less than a sector is persistent memory.
    ///
    /// # Panics
    /// When `bytes` is 0.
    pub fn with_unit(bytes: u64) -> Self {
        assert!(bytes > 0, "a unit has bytes");
        let medium = Self::default();
        lock(&medium.world).unit = bytes;
        medium
    }

    /// Number of events so far; a crash can be simulated after each.
    pub fn events(&self) -> usize {
        lock(&self.world).events.len()
    }

    /// Records a note, for example that a transaction was acknowledged.
    pub fn note(&self, what: u64) {
        lock(&self.world).events.push(Event::Note(what));
    }

    /// The notes before the event with this number.
    pub fn notes(&self, until: usize) -> Vec<u64> {
        let world = lock(&self.world);
        let note = |event: &Event| match event {
            Event::Note(what) => Some(*what),
            _ => None,
        };
        world.events[..until].iter().filter_map(note).collect()
    }

    /// The persist points: the numbers of the events after which something became durable, each
    /// plus one.
    pub fn persist_points(&self) -> Vec<usize> {
        let world = lock(&self.world);
        let numbered = world.events.iter().enumerate();
        let is_point = |event: &Event| match event {
            Event::Line(_, event) => matches!(event, LineEvent::Fence),
            event => matches!(event, Event::Sync { .. } | Event::SyncNames { .. }),
        };
        numbered.filter(|(_, event)| is_point(event)).map(|(at, _)| at + 1).collect()
    }

    /// Makes all operations of a kind fail after `after` more of them.
    pub fn fail(&self, fault: Fault, after: usize) {
        lock(&self.world).fault = Some((fault, after));
    }

    /// Makes a sync take `sync_time` from now on; other operations continue meanwhile.
    pub fn slow(&self, sync_time: Duration) {
        lock(&self.world).sync_time = sync_time;
    }

    /// Omits operations of persistent memory from now on.
    #[doc(hidden)]
    pub fn skip(&self, what: Option<Skipped>) {
        lock(&self.world).skipped = what;
    }

    /// Ends the fault.
    pub fn mend(&self) {
        lock(&self.world).fault = None;
    }

    /// Number of operations that have failed because of a fault.
    pub fn failures(&self) -> u64 {
        lock(&self.world).failures
    }

    /// A copy of the current state of the world, without its events.
    pub fn copy(&self) -> Self {
        let world = lock(&self.world);
        Self::of(world.names.clone(), world.files.clone(), world.unit)
    }

    fn of(names: BTreeMap<String, usize>, files: Vec<Vec<u8>>, unit: u64) -> Self {
        let (began, began_names) = (files.clone(), names.clone());
        let world = World { names, files, began, began_names, unit, ..World::default() };
        Self { world: Arc::new(Mutex::new(world)), folder: String::new() }
    }

    /// Damages a file: xors one byte with `with`.
    ///
    /// # Panics
    /// When there is no such byte.
    pub fn damage(&self, name: &str, offset: u64, with: u8) {
        let mut world = lock(&self.world);
        let file = world.names[&self.full(name)];
        world.files[file][offset as usize] ^= with;
    }

    /// Truncates a file.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn truncate(&self, name: &str, size_bytes: u64) {
        let mut world = lock(&self.world);
        let file = world.names[&self.full(name)];
        world.files[file].truncate(size_bytes as usize);
    }

    /// All files of all folders, with their sizes.
    pub fn all_files(&self) -> Vec<(String, u64)> {
        let world = lock(&self.world);
        let sized = world.names.iter();
        sized.map(|(name, file)| (name.clone(), world.files[*file].len() as u64)).collect()
    }

    fn full(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }
}

#[cfg(test)]
mod tests;
