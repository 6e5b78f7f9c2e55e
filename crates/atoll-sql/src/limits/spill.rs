//! Spill files: query data that does not fit in memory.
//!
//! - `QUERYSPILL-1`: the files are in a folder `atoll-spill-UID`, which belongs to this user and
//!   has the mode 0700. It is created, or emptied, before the first file of the process.
//! - `QUERYSPILL-2`: a file has no name, so it goes with the last descriptor, however its process
//!   ends. Where a file system does not support such a file, it has a name for a moment; the
//!   emptying removes files of processes that were killed at that moment.
//! - `QUERYSPILL-3`: bytes are counted before they are written, and no longer when their file has
//!   gone.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atoll::machine::medium::file::free_bytes;
use atoll::machine::process::user_id;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;

use super::shown;
use crate::error::{SqlError, SqlErrorKind};

/// Bytes that are read of a spill file at a time.
const READ_BYTES: usize = 128 << 10;
/// The default share of the free disk that spill files may take.
const DISK_SHARE: u64 = 2;

/// The spill files of the process.
#[derive(Debug)]
pub(super) struct Spill {
    chosen: Mutex<Chosen>,
    used_bytes: AtomicU64,
}

#[derive(Debug, Clone)]
struct Chosen {
    /// The parent of the folder of spill files.
    parent: PathBuf,
    limit_bytes: Option<u64>,
    /// The folder, once it exists, and the limit.
    ready: Option<(PathBuf, u64)>,
}

impl Spill {
    pub(super) fn new(parent: PathBuf, limit_bytes: Option<u64>) -> Self {
        let chosen = Chosen { parent, limit_bytes, ready: None };
        Self { chosen: Mutex::new(chosen), used_bytes: AtomicU64::new(0) }
    }

    /// For the files that are made from now on.
    pub(super) fn set(&self, parent: PathBuf, limit_bytes: Option<u64>) {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        *chosen = Chosen { parent, limit_bytes, ready: None };
    }

    /// The folder and the limit.
    fn ready(&self) -> Result<(PathBuf, u64), SqlError> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = &chosen.ready {
            return Ok(ready.clone());
        }
        let folder = make_folder(&chosen.parent)?;
        let limit_bytes = match chosen.limit_bytes {
            Some(bytes) => bytes,
            None => free_bytes(&folder).map_err(|error| cannot(&folder, &error))? / DISK_SHARE,
        };
        chosen.ready = Some((folder.clone(), limit_bytes));
        Ok((folder, limit_bytes))
    }
}

/// The folder for spill files in `parent`, empty.
fn make_folder(parent: &Path) -> Result<PathBuf, SqlError> {
    let user = user_id();
    let folder = parent.join(format!("atoll-spill-{user}"));
    let failed = |error: io::Error| cannot(&folder, &error);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => return Ok(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    // Not of what a link leads to.
    let found = fs::symlink_metadata(&folder).map_err(failed)?;
    check(&folder, &found, user)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot(&path, &error));
            }
            _ => {}
        }
    }
    Ok(folder)
}

/// Checks that the path is a folder of this user.
fn check(folder: &Path, found: &Metadata, user: u32) -> Result<(), SqlError> {
    let reason = match (found.is_dir(), found.uid() == user) {
        (true, true) => return Ok(()),
        (false, _) => "it is no folder",
        (true, false) => "it belongs to another user",
    };
    Err(cannot(folder, &io::Error::other(reason)))
}

fn cannot(path: &Path, error: &dyn fmt::Display) -> SqlError {
    let message = format!(
        "the query needs more than the query memory, and cannot spill to {}: {error}",
        path.display()
    );
    let hint = "let queries spill elsewhere: --spill-folder DIR, in Python \
                atolldb.set_query_limits(spill_folder=…)";
    SqlError::new(SqlErrorKind::OutOfMemory, message).with_hint(Some(hint.to_owned()))
}

/// Makes spill files for DataFusion.
pub(super) struct Factory(pub(super) Arc<Spill>);

impl TempFileFactory for Factory {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let external = |error| DataFusionError::External(Box::new(error));
        let (folder, limit_bytes) = self.0.ready().map_err(external)?;
        let file = tempfile::tempfile_in(&folder);
        let file = file.map_err(|error| external(cannot(&folder, &error)))?;
        let spill = Arc::clone(&self.0);
        Ok(Arc::new(Spilled(Arc::new(Shared { file, folder, limit_bytes, spill, size: 0.into() }))))
    }
}

/// A spill file.
struct Spilled(Arc<Shared>);

struct Shared {
    file: File,
    folder: PathBuf,
    limit_bytes: u64,
    spill: Arc<Spill>,
    size: AtomicU64,
}

impl Shared {
    fn append(&self, bytes: &[u8]) -> Result<(), SqlError> {
        let len = bytes.len() as u64;
        let used = &self.spill.used_bytes;
        let counted = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(len).filter(|used| *used <= self.limit_bytes)
        });
        if counted.is_err() {
            let limit = shown(self.limit_bytes);
            let message = format!(
                "the query needs more than the {limit} that spill files of queries may take"
            );
            let hint = "let them take more: --spill-limit SIZE, in Python \
                        atolldb.set_query_limits(spill=…)";
            return Err(
                SqlError::new(SqlErrorKind::OutOfMemory, message).with_hint(Some(hint.to_owned()))
            );
        }
        // One writer at a time appends.
        let at = self.size.fetch_add(len, Ordering::Relaxed);
        self.file.write_all_at(bytes, at).map_err(|error| cannot(&self.folder, &error))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.spill.used_bytes.fetch_sub(*self.size.get_mut(), Ordering::Relaxed);
    }
}

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.0.size.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let (shared, mut at) = (Arc::clone(&self.0), 0);
        let chunks = std::iter::from_fn(move || {
            let left = shared.size.load(Ordering::Relaxed).saturating_sub(at);
            if left == 0 {
                return None;
            }
            let mut bytes = vec![0; READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES))];
            let read = shared.file.read_exact_at(&mut bytes, at);
            at += bytes.len() as u64;
            let failed =
                |error| DataFusionError::External(Box::new(cannot(&shared.folder, &error)));
            Some(read.map(|()| Bytes::from(bytes)).map_err(failed))
        });
        Ok(Box::pin(futures::stream::iter(chunks)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Appender(Arc::clone(&self.0))))
    }
}

/// Appends to a spill file.
struct Appender(Arc<Shared>);

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Appender {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::StreamExt;
    use futures::executor::block_on;

    use super::*;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    fn root(error: io::Error) -> SqlError {
        error.into_inner().unwrap().downcast_ref::<SqlError>().unwrap().clone()
    }

    #[test]
    fn the_folder_is_the_users_alone_and_emptied() {
        let parent = tempfile::tempdir().unwrap();
        let folder = make_folder(parent.path()).unwrap();
        fs::write(folder.join("left over"), "by a process that was killed").unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make_folder(parent.path()).unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(names(&folder), 0);
        // Files beside it belong to others.
        fs::write(parent.path().join("mine"), "").unwrap();
        make_folder(parent.path()).unwrap();
        assert_eq!(names(parent.path()), 2);
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_refused() {
        let (parent, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = make_folder(parent.path()).unwrap();
        fs::remove_dir(&folder).unwrap();
        fs::write(other.path().join("mine"), "").unwrap();
        std::os::unix::fs::symlink(other.path(), &folder).unwrap();
        let error = make_folder(parent.path()).unwrap_err();
        assert!(error.message().contains("it is no folder"), "{error}");
        assert_eq!(names(other.path()), 1);
    }

    #[test]
    fn what_is_spilled_is_read_again_and_counted_while_it_lives() {
        let parent = tempfile::tempdir().unwrap();
        let spill = Arc::new(Spill::new(parent.path().to_owned(), Some(1 << 20)));
        let factory = Factory(Arc::clone(&spill));
        let file = factory.create_temp_file("a test").unwrap();
        let mut writer = file.open_writer().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        writer.write_all(&bytes[..100_001]).unwrap();
        writer.write_all(&bytes[100_001..]).unwrap();
        writer.finish().unwrap();
        let chunks: Vec<Bytes> =
            block_on(file.read_stream().unwrap().map(|chunk| chunk.unwrap()).collect());
        assert!(chunks.concat() == bytes);
        assert_eq!(spill.used_bytes.load(Ordering::Relaxed), 300_000);
        let error = root(writer.write_all(&vec![0; 1 << 20]).unwrap_err());
        assert!(error.message().contains("the 1 MiB that spill files"), "{error}");
        assert_eq!(error.kind(), SqlErrorKind::OutOfMemory);
        assert_eq!(file.size(), Some(300_000));
        assert_eq!(names(&spill.ready().unwrap().0), 0);
        drop((file, writer));
        assert_eq!(spill.used_bytes.load(Ordering::Relaxed), 0);
    }
}
