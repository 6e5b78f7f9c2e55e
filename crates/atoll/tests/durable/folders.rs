//! Folders: their owners, and the places of tablespaces.

use atoll::machine::CrashMedium;
use atoll::{Database, DatabaseOptions, Error, LogError, LogsOptions, SchemeKind, TableOptions};

use super::scene::{Rows, create, options, rows, schema, work};

#[test]
fn one_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), options(SchemeKind::default())).unwrap();
    let error = Database::open(folder.path(), options(SchemeKind::default())).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, Error::InUse { pid: Some(holder), .. } if holder == pid), "{error}");
    drop(db);
    Database::open(folder.path(), options(SchemeKind::default())).unwrap();
}

#[test]
fn a_folder_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "important").unwrap();
    let error = Database::open(folder.path(), options(SchemeKind::default())).unwrap_err();
    assert!(matches!(error, Error::Log(LogError::NoDatabase { .. })), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // Not even a file with a name that a database uses.
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("lock"), "of a door").unwrap();
    std::fs::write(other.path().join("key"), "to it").unwrap();
    assert!(Database::open(other.path(), options(SchemeKind::default())).is_err());
    assert_eq!(std::fs::read_to_string(other.path().join("lock")).unwrap(), "of a door");
}

#[test]
fn a_crash_while_a_database_is_made_or_opened_again_leaves_one_that_opens() {
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let made = medium.events();
    let table = create(&db, "table_0");
    let mut expected = Rows::new();
    work(&db, &table, &mut expected, 0);
    db.close().unwrap();
    let closed = medium.events();
    drop(Database::open_on(&medium, options(SchemeKind::default())).unwrap());
    let mut turn = 0u64;
    for events in (0..=made).chain(closed..=medium.events()) {
        for chance in [0, 1, 2, 4] {
            let crashed = medium.crash(events, || {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (turn >> 33) % 4 < chance
            });
            let db = Database::open_on(&crashed, options(SchemeKind::default()))
                .unwrap_or_else(|error| panic!("event {events} chance {chance}: {error}"));
            if events >= closed {
                assert_eq!(rows(&db, "table_0"), expected);
            } else {
                create(&db, "table_0");
            }
        }
    }
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_made() {
    for (file_bytes, ring_bytes) in [
        (0, 4 << 20),
        (100_000, 4 << 20),
        (1 << 20, 1 << 20),
        (1 << 20, 3 << 20),
        (1 << 20, 1 << 62),
    ] {
        let medium = CrashMedium::default();
        let logs = LogsOptions { file_bytes, ring_bytes, ..LogsOptions::default() };
        let options = DatabaseOptions { logs, ..options(SchemeKind::default()) };
        let error = Database::open_on(&medium, options).unwrap_err();
        assert!(matches!(error, Error::Log(LogError::Options { .. })), "{error}");
        assert!(medium.all_files().is_empty());
    }
}

#[test]
fn a_table_stays_in_its_tablespace_and_one_that_is_not_there_is_refused() {
    let make = |db: &Database, name: &str, tablespace| {
        let options = TableOptions { tablespace: Some(tablespace), ..TableOptions::default() };
        db.create_table_with(name, schema(), &options)
    };
    let medium = CrashMedium::default();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    assert_eq!(db.tablespaces(), 2);
    make(&db, "first", 1).unwrap();
    make(&db, "second", 1).unwrap();
    db.checkpoint().unwrap();
    make(&db, "third", 0).unwrap();
    db.close().unwrap();
    let db = Database::open_on(&medium, options(SchemeKind::default())).unwrap();
    let of = |name: &str| db.table(name).unwrap().tablespace();
    assert_eq!([of("first"), of("second"), of("third")], [1, 1, 0]);
    let memory_only = DatabaseOptions { nodes: Some(3), ..options(SchemeKind::default()) };
    let db = Database::create(memory_only).unwrap();
    assert_eq!(db.tablespaces(), 3);
    assert_eq!(make(&db, "last", 2).unwrap().tablespace(), 2);
    let error = make(&db, "far", 3).err().unwrap();
    assert!(matches!(error, Error::Log(LogError::NoTablespace(3, 3))), "{error}");
    assert_eq!(db.tables(), ["last"]);
}

#[test]
fn tablespaces_lie_in_the_folders_that_were_named() {
    let root = tempfile::tempdir().unwrap();
    let (data, other, used) =
        (root.path().join("db"), root.path().join("other"), root.path().join("used"));
    let open = |folders: Vec<std::path::PathBuf>| {
        let options = DatabaseOptions { node_folders: folders, ..options(SchemeKind::default()) };
        Database::open(&data, options)
    };
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("photo"), "of a person").unwrap();
    let error = open(vec![other.clone(), used.clone()]).unwrap_err();
    assert!(error.to_string().contains("used"), "{error}");
    // The same call with an empty folder.
    let (one, two) = (root.path().join("one"), other);
    let mut expected = Rows::new();
    {
        let db = open(vec![two.clone(), one.clone()]).unwrap();
        assert_eq!(db.tablespaces(), 2);
        let table = create(&db, "table_0");
        work(&db, &table, &mut expected, 0);
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    for folder in [&one, &two] {
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(names.into_iter().any(|name| name == "home"), "{folder:?}");
    }
    assert_eq!(std::fs::read_dir(&used).unwrap().count(), 1);
    let db = open(Vec::new()).unwrap();
    assert_eq!(rows(&db, "table_0"), expected);
    assert_eq!(db.recovery().unwrap().media.len(), 2);
}

#[test]
fn folders_for_more_tablespaces_than_there_are_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| home.path().join(name);
    let with = |folders: &[&str]| DatabaseOptions {
        node_folders: folders.iter().map(|name| place(name)).collect(),
        ..options(SchemeKind::default())
    };
    let open = |folders: &[&str]| Database::open(&place("db"), with(folders));
    let is_refused = |opened: atoll::Result<Database>| {
        let error = opened.unwrap_err();
        let told = matches!(error, Error::TooManyFolders { folders: 3, tablespaces: 2 });
        assert!(told && error.to_string().contains("name no more than that"), "{error}");
    };
    is_refused(open(&["a", "b", "c"]));
    assert!(!place("a").exists() && !place("db").join("control").exists());
    drop(open(&["a", "b"]).unwrap());
    // The existing tablespaces stay where they are; a call with other places is refused.
    is_refused(open(&["a", "b", "c"]));
    drop(open(&["a", "b"]).unwrap());
    drop(open(&[]).unwrap());
}
