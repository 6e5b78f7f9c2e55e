//! A medium of files on a file system, on an SSD or another device. It also opens files on
//! persistent memory; see [`super::pm`].

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, StatxFlags};

use super::buffer::write_zeroes;
use super::pm::{self, PmCost, PmFile};
use super::{Locked, Medium, MediumError, MediumFile, MediumKind, Open, UNIT_BYTES_MAX};
use crate::fork::{self, Replaced};

/// A folder of a file system.
#[derive(Debug)]
pub struct FileMedium {
    root: PathBuf,
    kind: MediumKind,
    /// The cost of emulated persistent memory.
    cost: Option<PmCost>,
}

/// Free bytes for this user on the file system of a folder.
///
/// # Errors
/// [`MediumError`].
pub fn free_bytes(folder: &Path) -> Result<u64, MediumError> {
    let failed = |source| MediumError::new("ask for the free space of", path_text(folder), source);
    let facts = rustix::fs::statvfs(folder).map_err(|error| failed(error.into()))?;
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Name of the file that is locked; it contains the id of the process that holds the lock.
pub const LOCK_FILE: &str = "lock";

/// A lock on the folder. It ends with the descriptor, however the process ends; a forked child does
/// not have it.
#[derive(Debug)]
struct FileLock(Option<(File, Replaced)>);

impl Locked for FileLock {}

impl Drop for FileLock {
    /// Releases the lock at once, even if a child of this process that is just being started has a
    /// copy of the descriptor.
    fn drop(&mut self) {
        if let Some((file, _)) = &self.0 {
            // If that fails, the lock ends with the last descriptor.
            let _ = file.unlock();
        }
    }
}

/// A file of the medium.
#[derive(Debug)]
struct OrdinaryFile {
    file: File,
    path: String,
    may_write: bool,
    /// The same file opened for direct I/O, if the file system supports that; opened at first use.
    direct: OnceLock<Option<(File, Replaced)>>,
    /// A forked child must not write to it.
    _withheld: Replaced,
}

impl FileMedium {
    /// The medium in a folder; creates the folder, for its owner alone, if it does not exist.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn new(root: &Path) -> Result<Self, MediumError> {
        let failed = |source| MediumError::new("make the folder", root.to_string_lossy(), source);
        // The name of each new folder is durable before anything is stored in it.
        let missing: Vec<&Path> = root.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().mode(0o700).create(folder);
            if let Err(error) = made
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(failed(error));
            }
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = File::open(parent.unwrap_or(Path::new(".")));
            parent.and_then(|parent| parent.sync_all()).map_err(failed)?;
        }
        Self::existing(root)
    }

    /// The medium in a folder that exists.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn existing(root: &Path) -> Result<Self, MediumError> {
        let failed = |source| MediumError::new("open the folder", root.to_string_lossy(), source);
        let folder = fs::metadata(root).map_err(failed)?;
        if !folder.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let kind = if pm::is_pm(root) { MediumKind::Pm } else { MediumKind::Files };
        Ok(Self { root: root.to_owned(), kind, cost: None })
    }

    /// The medium in a folder, preferably of a file system in memory, with files that are written
    /// like persistent memory of this cost. The bytes are durable only as far as the folder
    /// outlives the process.
    ///
    /// # Errors
    /// [`MediumError`].
    pub fn emulated_pm(root: &Path, cost: PmCost) -> Result<Self, MediumError> {
        Ok(Self { kind: MediumKind::EmulatedPm, cost: Some(cost), ..Self::new(root)? })
    }

    fn list(&self, wanted: impl Fn(fs::FileType) -> bool) -> Result<Vec<String>, MediumError> {
        let failed = |source| MediumError::new("list", self.root.to_string_lossy(), source);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A folder may be a link to another place; a dangling link is skipped.
            let kind = fs::metadata(entry.path()).map(|found| found.file_type());
            if kind.is_ok_and(&wanted) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Medium for FileMedium {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn MediumFile>, MediumError> {
        let mut options = OpenOptions::new();
        options.read(true).write(how != Open::Read).create_new(how == Open::Create).mode(0o600);
        let path = self.path(name);
        let what = if how == Open::Create { "create" } else { "open" };
        let opened = open_withheld(&options, &self.root.join(name));
        let (file, withheld) = opened.map_err(|source| MediumError::new(what, &path, source))?;
        match self.kind {
            MediumKind::Pm | MediumKind::EmulatedPm
                if how != Open::Read && pm::can_map(&file, self.cost) =>
            {
                Ok(Arc::new(PmFile::new((file, withheld), path, self.cost)?))
            }
            _ => {
                let (may_write, direct) = (how != Open::Read, OnceLock::new());
                let _withheld = withheld;
                Ok(Arc::new(OrdinaryFile { file, path, may_write, direct, _withheld }))
            }
        }
    }

    fn kind(&self) -> MediumKind {
        self.kind
    }

    fn names(&self) -> Result<Vec<String>, MediumError> {
        self.list(|kind| kind.is_file())
    }

    fn folders(&self) -> Result<Vec<String>, MediumError> {
        self.list(|kind| kind.is_dir())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediumError> {
        let done = fs::rename(self.root.join(from), self.root.join(to));
        done.map_err(|source| MediumError::new("rename", self.path(from), source))
    }

    fn remove(&self, name: &str) -> Result<(), MediumError> {
        let done = fs::remove_file(self.root.join(name));
        done.map_err(|source| MediumError::new("remove", self.path(name), source))
    }

    fn sync_names(&self) -> Result<(), MediumError> {
        let synced = File::open(&self.root).and_then(|folder| folder.sync_all());
        synced.map_err(|source| MediumError::new("sync", self.root.to_string_lossy(), source))
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Medium>, MediumError> {
        let folder = self.root.join(name);
        Ok(Arc::new(match self.cost {
            Some(cost) => Self::emulated_pm(&folder, cost)?,
            None => Self::new(&folder)?,
        }))
    }

    fn folder_at(&self, name: &str, elsewhere: &Path) -> Result<Arc<dyn Medium>, MediumError> {
        let link = self.root.join(name);
        let there = Self::new(elsewhere)?.root.canonicalize();
        let failed = |source| MediumError::new("use", elsewhere.to_string_lossy(), source);
        let there = there.map_err(failed)?;
        if link.symlink_metadata().is_ok() {
            // The link is left from an attempt that did not complete.
            if link.canonicalize().map_err(failed)? != there {
                let taken = io::Error::from(io::ErrorKind::AlreadyExists);
                return Err(MediumError::new("link to another folder", self.path(name), taken));
            }
        } else {
            if fs::read_dir(&there).map_err(failed)?.next().is_some() {
                return Err(failed(io::ErrorKind::DirectoryNotEmpty.into()));
            }
            let linked = std::os::unix::fs::symlink(&there, &link);
            linked.map_err(|source| MediumError::new("link", self.path(name), source))?;
            // The link must be durable before the folder has files, since the next attempt would
            // refuse a folder with files.
            self.sync_names()?;
        }
        self.folder(name)
    }

    fn lock(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        let path = self.root.join(LOCK_FILE);
        let failed = |source| MediumError::new("lock", path.to_string_lossy(), source);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let (file, withheld) = open_withheld(options, &path).map_err(failed)?;
        if let Err(holder) = taken(&file, file.try_lock()).map_err(failed)? {
            return Ok(Err(holder));
        }
        file.set_len(0).map_err(failed)?;
        let told = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
        // Without space on the disk the holder's id is missing, but the lock is valid.
        if let Err(error) = told.map_err(failed)
            && !error.is_full()
        {
            return Err(error);
        }
        Ok(Ok(Box::new(FileLock(Some((file, withheld))))))
    }

    fn lock_to_read(&self) -> Result<Result<Box<dyn Locked>, Option<u32>>, MediumError> {
        match self.lock() {
            Err(error) if error.is_read_only() => {}
            done => return done,
        }
        let path = self.root.join(LOCK_FILE);
        let failed = |source| MediumError::new("lock", path.to_string_lossy(), source);
        let opened = open_withheld(OpenOptions::new().read(true), &path);
        let (file, withheld) = match opened {
            Ok(opened) => opened,
            // A copy without the lock file: a process that had it open would have created one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Ok(Box::new(FileLock(None))));
            }
            Err(error) => return Err(failed(error)),
        };
        let locked = taken(&file, file.try_lock_shared()).map_err(failed)?;
        Ok(locked.map(|()| Box::new(FileLock(Some((file, withheld)))) as _))
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).to_string_lossy().into_owned()
    }

    fn on_file_system(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

/// Opens a file that forked children do not inherit.
fn open_withheld(options: &OpenOptions, path: &Path) -> io::Result<(File, Replaced)> {
    let mut no_fork = fork::delay();
    let file = options.open(path)?;
    let withheld = no_fork.withhold(&file)?;
    Ok((file, withheld))
}

/// The result of locking a file. The inner error is the id of the process that holds the lock, if
/// known.
fn taken(file: &File, locked: Result<(), TryLockError>) -> io::Result<Result<(), Option<u32>>> {
    match locked {
        Ok(()) => Ok(Ok(())),
        Err(TryLockError::WouldBlock) => Ok(Err(io::read_to_string(file)?.trim().parse().ok())),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens the file again for direct I/O, if its file system supports that in units of
/// [`UNIT_BYTES_MAX`].
fn open_direct(file: &File, may_write: bool) -> Option<(File, Replaced)> {
    let facts = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_told = facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let aligns = [facts.stx_dio_mem_align, facts.stx_dio_offset_align];
    let fits = |align: u32| align > 0 && UNIT_BYTES_MAX.is_multiple_of(align.into());
    if !is_told || !aligns.into_iter().all(fits) {
        return None;
    }
    // Not by its name, which may belong to another file by now.
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut options = OpenOptions::new();
    options.read(true).write(may_write).custom_flags(libc::O_DIRECT);
    open_withheld(&options, again.as_ref()).ok()
}

/// Whether the position in the file and the memory are aligned to units.
fn are_units(offset: u64, bytes: &[u8]) -> bool {
    let unit = UNIT_BYTES_MAX as usize;
    offset.is_multiple_of(UNIT_BYTES_MAX)
        && bytes.len().is_multiple_of(unit)
        && bytes.as_ptr().addr().is_multiple_of(unit)
}

impl OrdinaryFile {
    fn direct(&self) -> Option<&File> {
        let direct = self.direct.get_or_init(|| open_direct(&self.file, self.may_write));
        direct.as_ref().map(|(file, _)| file)
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> MediumError {
        move |source| MediumError::new(what, &self.path, source)
    }
}

impl MediumFile for OrdinaryFile {
    fn size(&self) -> Result<u64, MediumError> {
        Ok(self.file.metadata().map_err(self.failed("look at"))?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        self.file.read_exact_at(into, offset).map_err(self.failed("read"))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        self.file.write_all_at(bytes, offset).map_err(self.failed("write"))
    }

    fn unit(&self) -> u64 {
        self.direct().map_or(1, |_| UNIT_BYTES_MAX)
    }

    fn write_units(&self, offset: u64, bytes: &[u8]) -> Result<(), MediumError> {
        let direct = self.direct().filter(|_| are_units(offset, bytes));
        match direct.map(|file| file.write_all_at(bytes, offset)) {
            // The file system does not support this direct write, although it reported so.
            Some(Err(error)) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.write_at(offset, bytes)
            }
            Some(done) => done.map_err(self.failed("write")),
            None => self.write_at(offset, bytes),
        }
    }

    fn read_units(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        let direct = self.direct().filter(|_| are_units(offset, into));
        match direct.map(|file| file.read_exact_at(into, offset)) {
            Some(Err(error)) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.read_at(offset, into)
            }
            Some(done) => done.map_err(self.failed("read")),
            None => self.read_at(offset, into),
        }
    }

    fn reserve(&self, size_bytes: u64) -> Result<(), MediumError> {
        let from = self.size()?;
        write_zeroes(from, size_bytes, |zeroes, at| self.write_units(at, zeroes))
    }

    fn sync(&self) -> Result<(), MediumError> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lock_goes_at_once_though_a_child_that_is_being_started_has_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let medium = FileMedium::new(folder.path()).unwrap();
        let file = File::create(folder.path().join(LOCK_FILE)).unwrap();
        file.try_lock().unwrap();
        let of_the_child = file.try_clone().unwrap();
        let withheld = fork::delay().withhold(&file).unwrap();
        let locked = FileLock(Some((file, withheld)));
        assert!(medium.lock().unwrap().is_err());
        drop(locked);
        assert!(medium.lock().unwrap().is_ok());
        drop(of_the_child);
    }

    #[test]
    fn units_go_where_other_bytes_go_and_are_read_like_them() {
        let folder = tempfile::tempdir().unwrap();
        let medium = FileMedium::new(folder.path()).unwrap();
        let file = medium.open("log", Open::Create).unwrap();
        file.reserve(4 * UNIT_BYTES_MAX).unwrap();
        assert!([1, UNIT_BYTES_MAX].contains(&file.unit()));
        let unit = UNIT_BYTES_MAX as usize;
        let mut memory = vec![0; 4 * unit];
        let start = memory.as_ptr().align_offset(unit);
        memory[start..start + 2 * unit].fill(7);
        file.write_units(UNIT_BYTES_MAX, &memory[start..start + 2 * unit]).unwrap();
        // Memory or a position that is not aligned is written through the page cache.
        memory[start + 1..start + 1 + unit].fill(8);
        file.write_units(2 * UNIT_BYTES_MAX, &memory[start + 1..start + 1 + unit]).unwrap();
        file.write_units(5, &[9; 3]).unwrap();
        file.sync().unwrap();
        let mut found = vec![0; 4 * unit];
        file.read_at(0, &mut found).unwrap();
        // A file that is opened for reading returns the same bytes, for aligned and other memory.
        let file = medium.open("log", Open::Read).unwrap();
        for place in [start, start + 1] {
            file.read_units(UNIT_BYTES_MAX, &mut memory[place..place + unit]).unwrap();
            assert_eq!(memory[place..place + unit], found[unit..2 * unit]);
        }
        let mut expected = vec![0; 4 * unit];
        expected[5..8].fill(9);
        expected[unit..2 * unit].fill(7);
        expected[2 * unit..3 * unit].fill(8);
        assert_eq!(found, expected);
    }
}
