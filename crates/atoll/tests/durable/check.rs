//! The report of a check of the files: every damage with its place, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use atoll::inspect::{self, CheckReport, Damage};
use atoll::machine::FileMedium;
use atoll::{Database, DatabaseOptions, Error, LogError, SchemeKind};
use atoll_log::checkpoint_store::{BLOCK_BYTES, CheckpointStore};
use atoll_log::control::SLOT_BYTES;

use super::scene::{LOGS, create, options, rows, work};

const LOG: &str = "node-0/log-000000000000";
const NOTHING: [Damage; 0] = [];

/// A database that was opened several times and is closed, with an archive of its logs and a
/// backup.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn make() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        for round in 0..3 {
            let archive = Some(scene.path("archive"));
            let options = DatabaseOptions { archive, ..options(SchemeKind::default()) };
            let db = Database::open(&scene.path("db"), options).unwrap();
            let table =
                if round == 0 { create(&db, "table_0") } else { db.table("table_0").unwrap() };
            let mut expected = rows(&db, "table_0");
            work(&db, &table, &mut expected, round);
            if round == 0 {
                db.backup(&scene.path("backup")).unwrap();
            }
            db.checkpoint().unwrap();
            work(&db, &table, &mut expected, round + 1);
            db.close().unwrap();
            assert_eq!(scene.check("db").damages, NOTHING);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn check(&self, name: &str) -> CheckReport {
        inspect::check(&self.path(name), Some(&self.path("archive"))).unwrap()
    }

    /// Flips bits in bytes of a file; returns the report of a check, and restores the file.
    fn damaged(&self, name: &str, places: &[usize]) -> Vec<Damage> {
        self.damaged_of("db", name, places)
    }

    fn damaged_of(&self, database: &str, name: &str, places: &[usize]) -> Vec<Damage> {
        let file = self.path(name);
        let sound = fs::read(&file).unwrap();
        flip(&file, places);
        let damages = self.check(database).damages;
        fs::write(&file, sound).unwrap();
        damages
    }
}

fn flip(file: &Path, places: &[usize]) {
    let mut bytes = fs::read(file).unwrap();
    places.iter().for_each(|place| bytes[*place] ^= 0x40);
    fs::write(file, bytes).unwrap();
}

/// File names, reduced to their ends, and offsets.
fn places(damages: &[Damage], names: &[&str]) -> Vec<(usize, u64)> {
    let number = |damage: &Damage| names.iter().position(|name| damage.file.ends_with(name));
    let mut found: Vec<_> = damages
        .iter()
        .map(|damage| (number(damage).unwrap_or(usize::MAX), damage.offset))
        .collect();
    found.sort_unstable();
    found
}

/// The positions of commits in the first log, within its first file.
fn blocks(scene: &Scene) -> Vec<usize> {
    let mut blocks = Vec::new();
    inspect::log_records(&scene.path("db"), Some(0), |record| {
        if record.kind == "commit" {
            blocks.push(record.lsn as usize);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    blocks.retain(|lsn| *lsn < LOGS.file_bytes as usize);
    assert!(blocks.len() > 20, "{blocks:?}");
    blocks
}

/// A block that the newest checkpoint of the first tablespace needs.
fn home_block(scene: &Scene, control: &atoll_log::control::Control) -> u64 {
    let medium = FileMedium::existing(&scene.path("db/node-0")).unwrap();
    let store = CheckpointStore::open_to_read(std::sync::Arc::new(medium)).unwrap();
    let newest = &control.checkpoints[0];
    let holding = store.read_holding(newest.number, &newest.parts[0], &mut Vec::new()).unwrap();
    holding.map.tables[0].segments[0].presence.blocks[0].number
}

fn control(scene: &Scene) -> atoll_log::control::Control {
    let root = FileMedium::existing(&scene.path("db")).unwrap();
    let how = atoll::machine::medium::Open::Read;
    atoll_log::control::ControlFile::open(&root, how).unwrap().1
}

#[test]
fn damage_in_several_places_is_all_told_with_its_place() {
    let scene = Scene::make();
    let report = scene.check("db");
    assert!(report.home_blocks > 0 && report.archived_files > 0, "{report:?}");
    let lsns = blocks(&scene);
    let (first, second) = (lsns[lsns.len() / 3], lsns[lsns.len() * 2 / 3]);
    let store = home_block(&scene, &control(&scene)) * BLOCK_BYTES as u64;
    let (log, stores) = (scene.path("db").join(LOG), scene.path("db/node-0/home"));
    let sound = (fs::read(&log).unwrap(), fs::read(&stores).unwrap());
    flip(&stores, &[store as usize + 9]);
    // A payload, and the length of the block in a header.
    for at in [70, 4] {
        flip(&log, &[first + at, second + at]);
        let damages = scene.check("db").damages;
        let names = [LOG, "node-0/home"];
        let expected = [(0, first as u64), (0, second as u64), (1, store)];
        assert_eq!(places(&damages, &names), expected, "{damages:?}");
        assert!(damages.iter().all(|one| !one.expected.is_empty() && one.expected != one.found));
        fs::write(&log, &sound.0).unwrap();
    }
    fs::write(&stores, &sound.1).unwrap();
    // Everything between two blocks.
    let between: Vec<usize> = (first..second).collect();
    let damages = scene.damaged(&format!("db/{LOG}"), &between);
    assert_eq!(places(&damages, &[LOG]), [(0, first as u64)], "{damages:?}");
}

#[test]
fn a_control_file_of_no_use_is_told_with_what_else_is_damaged() {
    let scene = Scene::make();
    let one_slot = scene.damaged("db/control", &[50]);
    let names = ["/control", LOG, "node-0/home"];
    assert_eq!(places(&one_slot, &names), [(0, 12)], "{one_slot:?}");
    let lsns = blocks(&scene);
    let store = home_block(&scene, &control(&scene)) * BLOCK_BYTES as u64;
    let slots = [(0, 12), (0, SLOT_BYTES as u64 + 12)];
    let both = [50, SLOT_BYTES + 50];
    let damages = scene.damaged("db/control", &both);
    assert_eq!(places(&damages, &names), slots, "{damages:?}");
    let control = scene.path("db/control");
    flip(&control, &both);
    assert!(scene.check("db").log_blocks > 20 && scene.check("db").home_blocks > 0);
    flip(&scene.path("db").join(LOG), &[lsns[5] + 70, lsns[9] + 70]);
    flip(&scene.path("db/node-0/home"), &[store as usize]);
    let more = [(1, lsns[5] as u64), (1, lsns[9] as u64), (2, store)];
    let damages = scene.check("db").damages;
    assert_eq!(places(&damages, &names), [&slots[..], &more].concat(), "{damages:?}");
    // A missing file is reported like any other damage.
    fs::remove_file(&control).unwrap();
    let damages = scene.check("db").damages;
    assert_eq!(places(&damages, &names), [&[(0, 0)][..], &more].concat(), "{damages:?}");
}

#[test]
fn archives_and_origins_are_verified() {
    let scene = Scene::make();
    assert_eq!(scene.check("backup").damages, NOTHING);
    let origin = scene.damaged_of("backup", "backup/origin", &[30]);
    assert_eq!(places(&origin, &["backup/origin"]), [(0, 12)], "{origin:?}");
    let archived = format!("archive/{LOG}");
    let bytes = fs::metadata(scene.path(&archived)).unwrap().len() - 16;
    let damages = scene.damaged(&archived, &[100]);
    assert_eq!(places(&damages, &[&archived]), [(0, bytes)], "{damages:?}");
    // Of an intact copy, the blocks are checked.
    let lsns = blocks(&scene);
    let sound = fs::read(scene.path(&archived)).unwrap();
    let mut copied = sound.clone();
    copied[lsns[7] + 70] ^= 1;
    let crc = crc32c::crc32c(&copied[..bytes as usize]);
    copied[bytes as usize..][..4].copy_from_slice(&crc.to_le_bytes());
    fs::write(scene.path(&archived), copied).unwrap();
    let damages = scene.check("db").damages;
    assert_eq!(places(&damages, &[&archived]), [(0, lsns[7] as u64)], "{damages:?}");
    fs::write(scene.path(&archived), sound).unwrap();
    // The archive of another database.
    let other = scene.path("other");
    let options =
        DatabaseOptions { archive: Some(other.clone()), ..options(SchemeKind::default()) };
    Database::open(&scene.path("second"), options).unwrap().close().unwrap();
    let damages = inspect::check(&scene.path("db"), Some(&other)).unwrap().damages;
    assert!(matches!(&damages[..], [one] if one.found.contains("another")), "{damages:?}");
    let damages = inspect::check(&scene.path("db"), Some(&scene.path("db"))).unwrap().damages;
    assert!(matches!(&damages[..], [one] if one.expected.contains("archive")), "{damages:?}");
}

#[test]
fn a_database_that_was_never_finished_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    create(&Database::open(path, options(SchemeKind::default())).unwrap(), "table_0");
    let unfinished = |name: &str| {
        fs::rename(path.join("control"), path.join(name)).unwrap();
        let errors = [
            inspect::check(path, None).unwrap_err(),
            inspect::log_records(path, None, |_| panic!("there is none")).unwrap_err(),
        ];
        fs::rename(path.join(name), path.join("control")).unwrap();
        errors
    };
    for error in unfinished("control.new") {
        assert!(matches!(&error, Error::Log(LogError::Unfinished { .. })), "{error}");
        assert!(error.to_string().contains("never finished"), "{error}");
    }
    for error in unfinished("control.copy") {
        assert!(matches!(&error, Error::Log(LogError::CutShort { .. })), "{error}");
    }
    assert_eq!(inspect::check(path, None).unwrap().damages, NOTHING);
    // Creation was interrupted at the begin.
    for name in ["control", "node-0", "node-1"] {
        let _ = fs::remove_dir_all(path.join(name));
        let _ = fs::remove_file(path.join(name));
    }
    fs::write(path.join("control.new"), [0; 100]).unwrap();
    let error = inspect::check(path, None).unwrap_err();
    assert!(matches!(&error, Error::Log(LogError::Unfinished { .. })), "{error}");
    let db = Database::open(path, options(SchemeKind::default())).unwrap();
    assert!(db.tables().is_empty());
    db.close().unwrap();
    assert_eq!(inspect::check(path, None).unwrap().damages, NOTHING);
}
