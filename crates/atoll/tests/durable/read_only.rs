//! Read-only files: they can be checked, inspected and restored from, but not opened as a database.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::limits_common::{self, Mounted};
use atoll::inspect::{CheckReport, check, log_records};
use atoll::machine::medium::crash::Fault;
use atoll::machine::{CrashMedium, Medium};
use atoll::restore::{Sources, restore, restore_on};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, LogError, LogsOptions, Result, Schema,
    Table, Until,
};

const ROWS: i64 = 500;
/// The folder for the process that runs as another user.
const FOLDER: &str = "ATOLL_TEST_READ_ONLY_FOLDER";

fn options(archive: Option<PathBuf>) -> DatabaseOptions {
    DatabaseOptions {
        tablespaces: Some(2),
        memory_limit_bytes: Some(64 << 20),
        logs: LogsOptions { file_bytes: 64 << 10, ring_bytes: 2 << 20, ..LogsOptions::default() },
        archive,
        ..DatabaseOptions::default()
    }
}

fn insert(db: &Database, table: &Table, ids: std::ops::Range<i64>) {
    db.transaction(|tx| ids.clone().try_for_each(|id| tx.insert(table, &[id.into()]))).unwrap();
}

/// Half of the rows, a backup by `back_up`, and the other half.
fn fill(db: &Database, back_up: impl FnOnce()) {
    let schema = Schema::new(vec![Column::new("id", DataType::Int64)], &["id"]).unwrap();
    let table = db.create_table("t", schema).unwrap();
    insert(db, &table, 0..ROWS / 2);
    back_up();
    insert(db, &table, ROWS / 2..ROWS);
}

fn rows(db: &Database) -> i64 {
    db.snapshot().unwrap().table("t").unwrap().row_count().unwrap() as i64
}

fn is_sound(report: &CheckReport) {
    assert!(report.damages.is_empty(), "{:?}", report.damages);
    assert!(report.home_blocks > 0 && report.log_blocks > 0, "{report:?}");
}

/// Checks that a call was refused, with the reason and the advice.
fn is_refused<T>(done: Result<T>, advice: &str) {
    let error = done.err().unwrap();
    let is_told = matches!(&error, Error::Log(LogError::Medium(cause)) if cause.is_read_only());
    assert!(is_told && error.to_string().ends_with(advice), "{error}");
}

#[test]
fn a_medium_that_can_only_be_read_is_restored_from_and_not_opened() {
    let world = CrashMedium::default();
    let [data, archive, backup] =
        ["db", "archive", "backup"].map(|name| world.folder(name).unwrap());
    let open = || Database::open_archived_on(&*data, Some(archive.clone()), options(None));
    let db = open().unwrap();
    fill(&db, || assert!(db.backup_on(&*backup).is_ok()));
    db.close().unwrap();
    world.fail(Fault::ReadOnly, 0);
    let before = world.events();
    let sources = Sources { backup: &*backup, archive: &*archive, data: Some(&*data) };
    let new = CrashMedium::default();
    restore_on(&sources, &new, Until::Latest, options(None)).unwrap();
    assert_eq!(rows(&Database::open_on(&new, options(None)).unwrap()), ROWS);
    is_refused(open(), "; mount it writable");
    is_refused(Database::open_on(&*backup, options(None)), "; mount it writable");
    is_refused(new_in(&*world.folder("new").unwrap()), "; mount it writable");
    assert_eq!(world.events(), before);
    world.mend();
    assert_eq!(rows(&open().unwrap()), ROWS);
}

fn new_in(medium: &dyn Medium) -> Result<Database> {
    Database::open_on(medium, options(None))
}

/// All files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// A closed database with its archive and a backup.
fn made_in(folder: &Path) -> [PathBuf; 3] {
    let folders = ["db", "archive", "backup"].map(|name| folder.join(name));
    let [data, archive, backup] = &folders;
    let db = Database::open(data, options(Some(archive.clone()))).unwrap();
    fill(&db, || assert!(db.backup(backup).is_ok()));
    db.close().unwrap();
    folders
}

/// Tries what is possible with read-only files, and what is not.
fn use_read_only([data, archive, backup]: &[PathBuf; 3], room: &Path, advice: &str) {
    is_sound(&check(data, None).unwrap());
    let mut records = 0;
    log_records(data, None, |_| {
        records += 1;
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(records > 2, "{records} blocks");
    for (number, data) in [None, Some(&**data)].into_iter().enumerate() {
        let new = room.join(format!("restored-{number}"));
        restore((backup, archive, data), &new, Until::Latest, options(None)).unwrap();
        assert_eq!(rows(&Database::open(&new, options(None)).unwrap()), ROWS);
    }
    is_refused(Database::open(data, options(None)), advice);
    is_refused(Database::open(backup, options(None)), advice);
    is_refused(Database::open(&data.join("new"), options(None)), advice);
    // A database with a read-only archive is not opened either.
    is_refused(Database::open(&room.join("other"), options(Some(archive.clone()))), advice);
}

#[test]
fn a_file_system_that_can_only_be_read_is_checked_and_restored_from_and_not_opened() {
    let room = tempfile::tempdir().unwrap();
    let disk_folder = room.path().join("disk");
    let Some(disk) = Mounted::small_disk(&disk_folder, 64) else { return };
    let folders = made_in(&disk_folder);
    let mut before = files(&disk_folder);
    disk.remount("ro");
    use_read_only(&folders, &room.path().join("first"), "; mount it writable");
    assert_eq!(files(&disk_folder), before);
    // A copy without a lock file.
    disk.remount("rw");
    for folder in &folders {
        std::fs::remove_file(folder.join("lock")).unwrap();
        before.remove(&folder.join("lock")).unwrap();
    }
    disk.remount("ro");
    use_read_only(&folders, &room.path().join("second"), "; mount it writable");
    assert_eq!(files(&disk_folder), before);
    disk.remount("rw");
    assert_eq!(rows(&Database::open(&folders[0], options(None)).unwrap()), ROWS);
}

#[test]
fn a_folder_that_is_worked_in_is_not_checked_where_it_can_only_be_read() {
    let room = tempfile::tempdir().unwrap();
    let [data, ..] = made_in(room.path());
    let view = room.path().join("view");
    let Some(_mounted) = Mounted::read_only(&view, &data) else { return };
    is_sound(&check(&view, None).unwrap());
    let db = Database::open(&data, options(None)).unwrap();
    let error = check(&view, None).unwrap_err();
    let own = std::process::id();
    assert!(matches!(error, Error::InUse { pid: Some(pid), .. } if pid == own), "{error}");
    db.close().unwrap();
    is_sound(&check(&view, None).unwrap());
}

/// The body of the process of another user; does nothing unless it was started as that.
#[test]
fn the_user_who_may_only_read() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folders = ["db", "archive", "backup"].map(|name| Path::new(&folder).join(name));
    let room = Path::new(&folder).join("room");
    use_read_only(&folders, &room, "; give this user permission to read and write there");
}

#[test]
fn files_of_another_user_that_may_be_read_are_checked_and_restored_from_and_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let folders = made_in(folder.path());
    let allow = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let before = files(folder.path());
    allow(folder.path(), 0o755);
    for own in &folders {
        allow(own, 0o755);
        let within = std::fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path());
        within.filter(|path| path.is_dir()).for_each(|path| allow(&path, 0o755));
    }
    before.keys().for_each(|file| allow(file, 0o444));
    let room = folder.path().join("room");
    std::fs::create_dir(&room).unwrap();
    allow(&room, 0o777);
    // In a folder where another user may execute it.
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    allow(&program, 0o755);
    let mut looking = Command::new(&program);
    looking.args(["--exact", "read_only::the_user_who_may_only_read", "--nocapture"]);
    let looking = looking.env(FOLDER, folder.path()).current_dir(folder.path()).uid(65534);
    match looking.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            return limits_common::skipped::say(format!(
                "nothing can be started as another user: {error}"
            ));
        }
    }
    std::fs::remove_file(&program).unwrap();
    std::fs::remove_dir_all(&room).unwrap();
    assert_eq!(files(folder.path()), before);
}
