//! A medium in memory that records every write and sync, to simulate a crash at any point of a run.
//! It can also be made to fail.
//!
//! After a run, [`CrashMedium::crash`] constructs the medium that would be found if the machine had
//! lost power after a given event: everything that was synced is there, and of the rest any subset
//! of units (sectors, or words of persistent memory) and any prefix of the changes of names
//! (`MEDIUM-1` to `MEDIUM-3`). The code that writes real persistent memory also writes the
//! simulated one, and its operations on cache lines are recorded ([`lines`]).

pub mod lines;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use self::lines::{Gathered, LineEvent, LinesFile, Skipped, durable_stores};
use super::pm::PmFile;
use super::{
    Locked, Medium, MediumError, MediumFile, MediumKind, Open, SECTOR_BYTES, UNIT_BYTES_MAX,
};

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

/// A locked folder of a world.
#[derive(Debug)]
struct CrashLock {
    world: Arc<Mutex<World>>,
    folder: String,
}

impl Locked for CrashLock {}

impl Drop for CrashLock {
    fn drop(&mut self) {
        lock(&self.world).locked.remove(&self.folder);
    }
}

/// See the module. Clones and folders belong to the same world.
#[derive(Debug, Clone, Default)]
pub struct CrashMedium {
    world: Arc<Mutex<World>>,
    folder: String,
}

#[derive(Debug)]
struct CrashFile {
    world: Arc<Mutex<World>>,
    file: usize,
    path: String,
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

/// Writes the units that `keeps` selects; does not ask for a unit that would not change.
fn put_some(
    content: &mut Vec<u8>,
    offset: u64,
    bytes: &[u8],
    unit: u64,
    keeps: &mut impl FnMut() -> bool,
) {
    let mut done = 0;
    while done < bytes.len() {
        let place = offset + done as u64;
        let unit_end = (place / unit + 1) * unit;
        let len = ((unit_end - place) as usize).min(bytes.len() - done);
        let part = &bytes[done..done + len];
        if !holds(content, place, part) && keeps() {
            put(content, place, part);
        }
        done += len;
    }
}

fn holds(content: &[u8], offset: u64, bytes: &[u8]) -> bool {
    content.get(offset as usize..offset as usize + bytes.len()) == Some(bytes)
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

    /// The world as it could be found after a crash behind `events` events. `keeps` decides for
    /// each unit, size and name that no sync has made durable, and that would make a difference,
    /// whether it survives.
    pub fn crash(&self, events: usize, mut keeps: impl FnMut() -> bool) -> Self {
        let world = lock(&self.world);
        let happened = &world.events[..events];
        let unit = if world.unit == 0 { SECTOR_BYTES } else { world.unit };
        let mut files = world.began.clone();
        files.resize(world.files.len(), Vec::new());
        let mut last_sync = vec![0; files.len()];
        for event in happened {
            if let Event::Sync { file, begun } = event {
                last_sync[*file] = last_sync[*file].max(*begun);
            }
        }
        let durable_stores = durable_stores(happened);
        for (at, event) in happened.iter().enumerate() {
            match event {
                Event::Write { file, offset, bytes } if at < last_sync[*file] => {
                    put(&mut files[*file], *offset, bytes);
                }
                Event::Write { file, offset, bytes } => {
                    put_some(&mut files[*file], *offset, bytes, unit, &mut keeps);
                }
                Event::Line(_, LineEvent::Store { file, offset, bytes, .. }) => {
                    // A store does not restore a size that was lost.
                    let room = files[*file].len().saturating_sub(*offset as usize);
                    let bytes = &bytes[..bytes.len().min(room)];
                    if durable_stores.contains(&at) {
                        put(&mut files[*file], *offset, bytes);
                    } else {
                        put_some(&mut files[*file], *offset, bytes, unit, &mut keeps);
                    }
                }
                Event::Reserve { file, size_bytes } => {
                    let size = *size_bytes as usize;
                    if files[*file].len() < size && (at < last_sync[*file] || keeps()) {
                        files[*file].resize(size, 0);
                    }
                }
                _ => {}
            }
        }
        let mut names = world.began_names.clone();
        let mut lost = BTreeSet::new();
        for (at, event) in happened.iter().enumerate() {
            let Event::Name(naming) = event else { continue };
            let folder = naming.folder();
            let is_durable = happened[at..].iter().any(
                |later| matches!(later, Event::SyncNames { folder: synced } if synced == folder),
            );
            // Changes of names reach the medium in their order.
            if !is_durable && (lost.contains(folder) || !keeps()) {
                lost.insert(folder.to_owned());
                continue;
            }
            naming.apply(&mut names);
        }
        Self::of(names, files, world.unit)
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

    fn failed(&self, what: &'static str, name: &str, source: io::Error) -> MediumError {
        MediumError::new(what, self.path(name), source)
    }
}

impl Medium for CrashMedium {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn MediumFile>, MediumError> {
        let mut world = lock(&self.world);
        let full = self.full(name);
        let known = world.names.get(&full).copied();
        let file = match (known, how) {
            (Some(_), Open::Create) => {
                return Err(self.failed("create", name, io::ErrorKind::AlreadyExists.into()));
            }
            (Some(file), _) => file,
            (None, Open::Create) => {
                let made = world.may_change(Fault::Create).and_then(|()| world.may(Fault::Full));
                made.map_err(|source| self.failed("create", name, source))?;
                world.files.push(Vec::new());
                let file = world.files.len() - 1;
                world.names.insert(full.clone(), file);
                world.events.push(Event::Name(Naming::Create { name: full, file }));
                file
            }
            (None, _) => return Err(self.failed("open", name, io::ErrorKind::NotFound.into())),
        };
        let (path, size) = (self.path(name), world.files[file].len());
        // Only files for writing are mapped, as in [`super::FileMedium`].
        if world.is_pm() && how != Open::Read {
            let backing = LinesFile::new(Arc::clone(&self.world), file);
            drop(world);
            return Ok(Arc::new(PmFile::on(backing, size, path, None)?));
        }
        Ok(Arc::new(CrashFile { world: Arc::clone(&self.world), file, path }))
    }

    fn names(&self) -> Result<Vec<String>, MediumError> {
        let prefix = self.full("");
        let world = lock(&self.world);
        let here = world.names.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(here.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn folders(&self) -> Result<Vec<String>, MediumError> {
        let prefix = self.full("");
        let world = lock(&self.world);
        let here = world.names.keys().filter_map(|name| name.strip_prefix(&prefix));
        let folders = here.filter_map(|name| Some(name.split_once('/')?.0.to_owned()));
        Ok(folders.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediumError> {
        let mut world = lock(&self.world);
        let naming = Naming::Rename { from: self.full(from), to: self.full(to) };
        if !world.names.contains_key(&self.full(from)) {
            return Err(self.failed("rename", from, io::ErrorKind::NotFound.into()));
        }
        world.may(Fault::ReadOnly).map_err(|source| self.failed("rename", from, source))?;
        naming.apply(&mut world.names);
        world.events.push(Event::Name(naming));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), MediumError> {
        let mut world = lock(&self.world);
        let full = self.full(name);
        world.may(Fault::ReadOnly).map_err(|source| self.failed("remove", name, source))?;
        if world.names.remove(&full).is_none() {
            return Err(self.failed("remove", name, io::ErrorKind::NotFound.into()));
        }
        world.events.push(Event::Name(Naming::Remove { name: full }));
        Ok(())
    }

    fn sync_names(&self) -> Result<(), MediumError> {
        let mut world = lock(&self.world);
        world.may(Fault::Sync).map_err(|source| self.failed("sync", "", source))?;
        world.events.push(Event::SyncNames { folder: self.folder.clone() });
        Ok(())
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Medium>, MediumError> {
        Ok(Arc::new(Self { world: Arc::clone(&self.world), folder: self.full(name) }))
    }

    fn lock(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        let may = lock(&self.world).may(Fault::ReadOnly);
        may.map_err(|source| self.failed("lock", "lock", source))?;
        self.lock_to_read()
    }

    fn lock_to_read(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        if !lock(&self.world).locked.insert(self.folder.clone()) {
            return Ok(Err(None));
        }
        let (world, folder) = (Arc::clone(&self.world), self.folder.clone());
        Ok(Ok(Box::new(CrashLock { world, folder })))
    }

    fn path(&self, name: &str) -> String {
        format!("memory:{}", self.full(name))
    }

    fn kind(&self) -> MediumKind {
        MediumKind::Crash
    }
}

impl CrashFile {
    fn failed(&self, what: &'static str, source: io::Error) -> MediumError {
        MediumError::new(what, &self.path, source)
    }
}

impl MediumFile for CrashFile {
    fn size(&self) -> Result<u64, MediumError> {
        Ok(lock(&self.world).files[self.file].len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let read = lock(&self.world).read(self.file, offset, into);
        read.map_err(|source| self.failed("read", source))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        let written = lock(&self.world).write(self.file, offset, bytes);
        written.map_err(|source| self.failed("write", source))
    }

    fn unit(&self) -> u64 {
        // Persistent memory has no page cache; of bytes that are written together, a disk may lose
        // any sector.
        if lock(&self.world).is_pm() { 1 } else { UNIT_BYTES_MAX }
    }

    fn reserve(&self, size_bytes: u64) -> Result<(), MediumError> {
        let mut world = lock(&self.world);
        world.may_change(Fault::Full).map_err(|source| self.failed("reserve", source))?;
        let content = &mut world.files[self.file];
        if content.len() < size_bytes as usize {
            content.resize(size_bytes as usize, 0);
        }
        world.events.push(Event::Reserve { file: self.file, size_bytes });
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        sync(&self.world, self.file).map_err(|source| self.failed("sync", source))
    }

    fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests;
