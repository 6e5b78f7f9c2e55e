//! The databases that are open in this process.
//!
//! A folder has one owner, so opening it once more in this process returns the database that is
//! open already. The list is shared by the functions of the Python package and by the driver.
//!
//! - `OPEN-1`: a folder is opened and closed under the latch of its entry, so it is never opened
//!   while it is being closed, and never twice.
//! - `OPEN-2`: the database of an entry is closed with its last [`Shared`]. Whatever else keeps the
//!   database, such as a session, is dropped before the `Shared` that it came from.
//! - `OPEN-3`: the list is locked briefly, and no fork begins meanwhile. A child ignores the
//!   entries of its parent: their latches may be held for ever, and its handles change nothing.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll::machine::fork::{self, Mark};
use atoll::{Database, DatabaseOptions, Durability, SchemeKind};

static OPEN: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The settings of a database, where they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// What a commit survives, in a folder.
    pub durability: Option<Durability>,
    /// How transactions are isolated.
    pub scheme: Option<SchemeKind>,
    /// Most bytes of its memory.
    pub memory_limit_bytes: Option<u64>,
    /// Greatest age of a snapshot.
    pub snapshot_age_max: Option<Duration>,
    /// Most bytes that snapshots keep alive together.
    pub snapshot_bytes_max: Option<u64>,
}

impl Settings {
    /// The options of a database with these settings.
    #[must_use]
    pub fn options(&self) -> DatabaseOptions {
        let scheme = self.scheme();
        DatabaseOptions {
            scheme,
            lock_timeout: atoll_sql::lock_timeout(scheme),
            memory_limit_bytes: self.memory_limit_bytes,
            snapshot_age_max: self.snapshot_age_max,
            snapshot_bytes_max: self.snapshot_bytes_max,
            durability: self.durability.unwrap_or_default(),
            ..DatabaseOptions::default()
        }
    }

    fn scheme(&self) -> SchemeKind {
        self.scheme.unwrap_or_else(atoll_sql::default_scheme)
    }

    /// The first setting that is given here and is another one in the database that is open.
    fn contradiction(&self, open: &Self) -> Option<&'static str> {
        let differ = [
            (
                "durability",
                self.durability.is_some_and(|one| one != open.durability.unwrap_or_default()),
            ),
            ("scheme", self.scheme.is_some_and(|one| one != open.scheme())),
            ("memory_limit", differs(self.memory_limit_bytes, open.memory_limit_bytes)),
            ("snapshot_age_max", differs(self.snapshot_age_max, open.snapshot_age_max)),
            ("snapshot_bytes_max", differs(self.snapshot_bytes_max, open.snapshot_bytes_max)),
        ];
        differ.into_iter().find(|(_, differs)| *differs).map(|(name, _)| name)
    }
}

fn differs<T: PartialEq>(given: Option<T>, open: Option<T>) -> bool {
    given.is_some() && given != open
}

/// Why a folder was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database refuses.
    #[error(transparent)]
    Database(#[from] atoll::Error),
    /// The path of the folder cannot be resolved.
    #[error("{} cannot be opened: {error}", .folder.display())]
    Path {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The folder is open in this process with another setting.
    #[error(
        "{} is open in this process with another {setting}; leave the {setting} away, or close it \
         there first", .folder.display()
    )]
    Settings {
        /// The folder.
        folder: PathBuf,
        /// The name of the setting.
        setting: &'static str,
    },
}

/// A database that is open in this process, in a folder or in memory. Its clones share it, and the
/// last of them closes it.
pub struct Shared {
    entry: Arc<Entry>,
    /// Set until this handle is dropped.
    db: Option<Database>,
}

struct Entry {
    number: u64,
    folder: Option<PathBuf>,
    home: Mark,
    open: Mutex<Option<Open>>,
}

struct Open {
    db: Database,
    settings: Settings,
    handles: usize,
}

impl Entry {
    fn new(folder: Option<PathBuf>) -> Arc<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, folder, home: Mark::new(), open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more handle of the database, if it is open.
    fn share(self: &Arc<Self>) -> Option<Shared> {
        let mut open = self.lock();
        let open = open.as_mut()?;
        open.handles += 1;
        Some(Shared { entry: Arc::clone(self), db: Some(open.db.clone()) })
    }
}

/// Looks at the entries of this process that are in use.
fn with_entries<R>(look: impl FnOnce(&mut Vec<Arc<Entry>>) -> R) -> R {
    let _no_fork = fork::delay();
    let mut entries = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    entries.retain(|entry| entry.home.is_here() && Arc::strong_count(entry) > 1);
    look(&mut entries)
}

/// Opens the database in a folder, creates one there, or shares the one that is open.
///
/// # Errors
/// [`OpenError`].
pub fn open(folder: &Path, settings: &Settings) -> Result<Shared, OpenError> {
    let resolved = resolve(folder);
    let folder = resolved.map_err(|error| OpenError::Path { folder: folder.to_owned(), error })?;
    let new = Entry::new(Some(folder.clone()));
    let entry = with_entries(|entries| {
        let known = entries.iter().find(|entry| entry.folder.as_ref() == Some(&folder));
        known.map(Arc::clone).unwrap_or_else(|| {
            entries.push(Arc::clone(&new));
            Arc::clone(&new)
        })
    });
    let mut open = entry.lock();
    let db = match &mut *open {
        Some(open) => {
            if let Some(setting) = settings.contradiction(&open.settings) {
                return Err(OpenError::Settings { folder, setting });
            }
            open.handles += 1;
            open.db.clone()
        }
        None => {
            let db = Database::open(&folder, settings.options())?;
            let settings = settings.clone();
            *open = Some(Open { db: db.clone(), settings, handles: 1 });
            db
        }
    };
    drop(open);
    Ok(Shared { entry, db: Some(db) })
}

/// Notes a database that is not in a folder.
#[must_use]
pub fn share(db: Database) -> Shared {
    let entry = Entry::new(None);
    let settings = Settings::default();
    *entry.lock() = Some(Open { db: db.clone(), settings, handles: 1 });
    with_entries(|entries| entries.push(Arc::clone(&entry)));
    Shared { entry, db: Some(db) }
}

/// The open database with this number, see [`Shared::number`].
#[must_use]
pub fn find(number: u64) -> Option<Shared> {
    let entry =
        with_entries(|entries| entries.iter().find(|entry| entry.number == number).map(Arc::clone));
    entry?.share()
}

/// The path without links. Its last parts need not exist.
fn resolve(folder: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(folder)?;
    match (whole.canonicalize(), whole.parent(), whole.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(resolve(parent)?.join(name))
        }
        (resolved, ..) => resolved,
    }
}

impl Shared {
    /// The number of the database in this process, by which [`find`] finds it while it is open.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.entry.number
    }
}

impl Deref for Shared {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.db.as_ref().expect("it is set until the handle is dropped")
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        if self.entry.home.is_here()
            && let Some(open) = &mut *self.entry.lock()
        {
            open.handles += 1;
        }
        Self { entry: Arc::clone(&self.entry), db: self.db.clone() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.entry.home.is_here() {
            return;
        }
        let mut open = self.entry.lock();
        drop(self.db.take());
        if let Some(one) = &mut *open {
            one.handles -= 1;
            if one.handles == 0 {
                *open = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_is_open_once_and_closed_with_its_last_handle() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("new").join("db");
        let one = open(&folder, &Settings::default()).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let two = open(&link, &Settings::default()).unwrap();
        assert_eq!(one.number(), two.number());
        let refused = Database::open(&folder, DatabaseOptions::default()).unwrap_err();
        assert!(matches!(refused, atoll::Error::InUse { .. }), "{refused}");
        let three = two.clone();
        drop((one, two));
        let four = find(three.number()).unwrap();
        drop(three);
        let number = four.number();
        drop(four);
        assert!(find(number).is_none());
        Database::open(&folder, DatabaseOptions::default()).unwrap();
    }

    #[test]
    fn a_second_handle_has_no_other_settings() {
        let dir = tempfile::tempdir().unwrap();
        let group: Durability = "group".parse().unwrap();
        let given = Settings { durability: Some(group), ..Settings::default() };
        let one = open(dir.path(), &given).unwrap();
        assert_eq!(open(dir.path(), &given).unwrap().number(), one.number());
        assert_eq!(open(dir.path(), &Settings::default()).unwrap().number(), one.number());
        let other = Settings { durability: Some(Durability::None), ..Settings::default() };
        let error = open(dir.path(), &other).err().unwrap().to_string();
        assert!(error.contains("with another durability"), "{error}");
    }

    #[test]
    fn threads_that_open_and_close_a_folder_never_find_it_in_use() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let db = open(dir.path(), &Settings::default()).unwrap();
                        assert!(db.tables().is_empty());
                    }
                });
            }
        });
    }

    #[test]
    fn a_database_in_memory_is_found_by_its_number() {
        let one = share(Database::create(DatabaseOptions::default()).unwrap());
        let two = find(one.number()).unwrap();
        assert_eq!(one.number(), two.number());
        assert!(find(u64::MAX).is_none());
    }
}
