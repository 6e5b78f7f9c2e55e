//! The operations of a medium and of its files. They change the world and record an event, or fail
//! as the fault says.
//!
//! - `RECORD-1`: an operation changes the world and records its event under one lock of the world,
//!   so the events are in the order in which the changes were made.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use super::super::pm::PmFile;
use super::super::{Locked, Medium, MediumError, MediumFile, MediumKind, Open, UNIT_BYTES_MAX};
use super::lines::LinesFile;
use super::{CrashMedium, Event, Fault, Naming, World, lock, sync};

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

#[derive(Debug)]
struct CrashFile {
    world: Arc<Mutex<World>>,
    file: usize,
    path: String,
}

impl CrashMedium {
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
