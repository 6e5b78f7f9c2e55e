//! Restores a database as it was at a moment, from a backup and archived logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll::machine::medium::crash::Fault;
use atoll::machine::{CrashMedium, Medium};
use atoll::restore::{Sources, restore_on};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Durability, Error, LogError, LogsOptions, Planted,
    RestoreError, RestorePoint, RestoreReport, Schema, TableOptions, TransactionOptions, Until,
    Value,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Small, so that a few transactions fill a file.
const FILE_BYTES: u64 = 64 << 10;
const TABLES: [&str; 2] = ["here", "there"];
/// Bytes of a row.
const TEXT_BYTES: usize = 3000;

fn options() -> DatabaseOptions {
    let logs = LogsOptions {
        file_bytes: FILE_BYTES,
        ring_bytes: 2 << 20,
        in_turns: true,
        planted: Planted::Nothing,
    };
    DatabaseOptions {
        tablespaces: Some(2),
        memory_limit_bytes: Some(64 << 20),
        // With a small bound, few spare files are kept.
        checkpoint_log_bytes: 64 << 10,
        logs,
        ..DatabaseOptions::default()
    }
}

/// A medium with the folders of a database, of its archive and of a backup.
struct World(CrashMedium);

impl World {
    fn folder(&self, name: &str) -> Arc<dyn Medium> {
        self.0.folder(name).unwrap()
    }

    fn open(&self) -> Database {
        let archive = Some(self.folder("archive"));
        Database::open_archived_on(&*self.folder("db"), archive, options()).unwrap()
    }

    fn restore(&self, with_data: bool, new: &CrashMedium, until: Until) -> Result<(), Error> {
        self.restore_report(with_data, new, until).map(|_| ())
    }

    fn restore_report(
        &self,
        with_data: bool,
        new: &CrashMedium,
        until: Until,
    ) -> Result<RestoreReport, Error> {
        let [backup, archive, data] = ["backup", "archive", "db"].map(|name| self.folder(name));
        let data = with_data.then_some(&*data);
        let sources = Sources { backup: &*backup, archive: &*archive, data };
        restore_on(&sources, new, until, options())
    }

    /// Restores and reads all rows.
    fn rows(&self, with_data: bool, until: Until) -> Result<Rows, Error> {
        let new = CrashMedium::default();
        self.restore(with_data, &new, until)?;
        let db = Database::open_on(&new, options()).unwrap();
        let found = rows(&db);
        db.close().unwrap();
        Ok(found)
    }

    /// The numbers of the log files of a tablespace.
    fn logs(&self, folder: &str) -> Vec<u64> {
        let names = self.folder(folder).folder("node-1").unwrap().names().unwrap();
        let digits = names.iter().filter_map(|name| name.strip_prefix("log-"));
        digits.map(|digits| u64::from_str_radix(digits, 16).unwrap()).collect()
    }
}

/// Table, key and number of the transaction that wrote it.
type Rows = BTreeMap<(usize, i64), i64>;

fn create(db: &Database) {
    for (number, name) in TABLES.iter().enumerate() {
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("writer", DataType::Int64),
            Column::new("text", DataType::Text),
        ];
        let schema = Schema::new(columns, &["id"]).unwrap();
        let tablespace = Some(number as u32);
        let options = TableOptions { tablespace, ..TableOptions::default() };
        db.create_table_with(name, schema, &options).unwrap();
    }
}

fn text(writer: i64) -> String {
    format!("{writer:0TEXT_BYTES$}")
}

fn rows(db: &Database) -> Rows {
    let snapshot = db.snapshot().unwrap();
    let known = snapshot.tables();
    let mut session = db.session().unwrap();
    let mut rows = Rows::new();
    for (number, name) in
        TABLES.iter().enumerate().filter(|(_, name)| known.contains(&name.to_string()))
    {
        let table = db.table(name).unwrap();
        let count = table.row_count();
        let mut id = 0;
        session
            .transaction(|tx| {
                rows.retain(|(known, _), _| *known != number);
                id = 0;
                while id < 64 {
                    if let Some(row) = tx.read(&table, &[Value::Int64(id)])? {
                        let Value::Int64(writer) = row[1] else { panic!("a number") };
                        assert_eq!(row[2], Value::Text(text(writer)));
                        rows.insert((number, id), writer);
                    }
                    id += 1;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(rows.keys().filter(|(known, _)| *known == number).count() as u64, count);
    }
    rows
}

/// A transaction that writes or deletes these rows.
fn write(db: &Database, rows: &mut Rows, writer: i64, changes: &[(usize, i64)], waits: bool) {
    let durability = if waits { Durability::Strict } else { Durability::None };
    let how = TransactionOptions { durability: Some(durability), ..TransactionOptions::default() };
    let mut tx = db.begin_with(&how).unwrap();
    for (number, id) in changes {
        let table = db.table(TABLES[*number]).unwrap();
        let key = [Value::Int64(*id)];
        let new = [Value::Int64(writer), Value::Text(text(writer))];
        if !rows.contains_key(&(*number, *id)) {
            let [writer, text] = new;
            tx.insert(&table, &[Value::Int64(*id), writer, text]).unwrap();
        } else if (writer + id) % 11 == 0 {
            assert!(tx.delete(&table, &key).unwrap());
            rows.remove(&(*number, *id));
            continue;
        } else {
            let [writer, text] = new;
            assert!(tx.update(&table, &key, &[(1, writer), (2, text)]).unwrap());
        }
        rows.insert((*number, *id), writer);
    }
    tx.commit().unwrap();
}

/// A history of random transactions with closings, crashes and checkpoints, and the rows at some
/// restore points since the backup.
fn history(seed: u64, ends_closed: bool) -> (World, Vec<(RestorePoint, Rows)>) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World(CrashMedium::default());
    let mut db = world.open();
    create(&db);
    let (mut expected, mut noted) = (Rows::new(), Vec::new());
    for round in 0..160 {
        // One table is mostly idle for a while.
        let tables = if round / 20 % 2 == 0 { 2 } else { 1 };
        let mut changes: Vec<(usize, i64)> = (0..random.random_range(2..8))
            .map(|_| (random.random_range(0..tables), random.random_range(0..64)))
            .collect();
        changes.sort_unstable();
        changes.dedup();
        write(&db, &mut expected, round, &changes, true);
        if round == 25 {
            db.backup_on(&*world.folder("backup")).unwrap();
        }
        if round >= 25 && random.random_ratio(1, 4) {
            noted.push((db.mark().unwrap(), expected.clone()));
        }
        match random.random_range(0..12) {
            0 | 1 => {
                db.checkpoint().unwrap();
                assert!(db.health().archive.is_none());
            }
            2 => {
                db.close().unwrap();
                db = world.open();
            }
            3 if round != 159 => {
                let before = expected.clone();
                for more in 0..3 {
                    let change = [(0, more), (1, more + 7)];
                    write(&db, &mut expected, 1000 * (more + 1) + round, &change, false);
                }
                let crashed = world.0.crash(world.0.events(), || random.random());
                drop(db);
                world = World(crashed);
                db = world.open();
                expected = rows(&db);
                assert!(before.len() <= expected.len() + 3);
            }
            _ => {}
        }
    }
    assert!(noted.len() > 8, "enough moments");
    if ends_closed {
        noted.push((db.mark().unwrap(), expected.clone()));
        db.close().unwrap();
    } else {
        let crashed = world.0.crash(world.0.events(), || random.random());
        drop(db);
        world = World(crashed);
    }
    (world, noted)
}

#[test]
fn every_moment_since_the_backup_comes_back_exactly() {
    for seed in 0..4 {
        let ends_closed = seed % 2 == 0;
        let (world, noted) = history(seed, ends_closed);
        let (kept, archived) = (world.logs("db"), world.logs("archive"));
        assert!(kept[0] > archived[0] + 1, "logs are gone that are archived: {kept:?}");
        for (point, expected) in &noted {
            for until in [Until::Gsn(point.gsn), Until::Time(point.time_us)] {
                let found = world.rows(true, until).unwrap();
                assert_eq!(&found, expected, "seed {seed}: {point}");
                if ends_closed {
                    assert_eq!(&world.rows(false, until).unwrap(), expected, "{seed}: {point}");
                }
            }
        }
        let last = &noted.last().unwrap().1;
        if ends_closed {
            assert_eq!(&world.rows(false, Until::Latest).unwrap(), last);
        }
        // The rest of the database's folder has all commits.
        let latest = world.rows(true, Until::Latest).unwrap();
        let db = world.open();
        assert_eq!(latest, rows(&db), "seed {seed}");
        db.close().unwrap();
    }
}

/// A few restore points, some with an archive file, closed at the end.
fn short_history() -> (World, Vec<(RestorePoint, Rows)>) {
    let world = World(CrashMedium::default());
    let db = world.open();
    create(&db);
    let (mut expected, mut noted) = (Rows::new(), Vec::new());
    for round in 0..60 {
        let id = round % 40;
        write(&db, &mut expected, round, &[(0, id), (1, id), (1, (id + 1) % 40)], true);
        if round == 5 {
            db.backup_on(&*world.folder("backup")).unwrap();
        }
        if round > 5 && round % 6 == 0 {
            noted.push((db.mark().unwrap(), expected.clone()));
        }
        if round % 10 == 9 {
            db.checkpoint().unwrap();
        }
    }
    db.close().unwrap();
    (world, noted)
}

fn refused(result: Result<impl Sized, Error>) -> RestoreError {
    match result {
        Err(Error::Restore(error)) => error,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was restored"),
    }
}

#[test]
fn a_gap_is_told_and_what_is_before_it_comes_back() {
    let (world, noted) = short_history();
    let folder = world.folder("archive").folder("node-1").unwrap();
    let archived = world.logs("archive");
    let missing = format!("log-{:012x}", archived[archived.len() / 2]);
    folder.remove(&missing).unwrap();
    let error = refused(world.rows(false, Until::Latest));
    let RestoreError::Gap { file, last } = &error else { panic!("{error}") };
    assert!(file.ends_with(&missing) && file.contains("archive/node-1"), "{error}");
    assert!(error.to_string().contains(&last.to_string()), "{error}");
    let mut before = 0;
    for (point, expected) in &noted {
        let found = world.rows(false, Until::Gsn(point.gsn));
        if point.gsn <= last.gsn {
            assert_eq!(&found.unwrap(), expected);
            before += 1;
        } else {
            let error = refused(found);
            assert!(matches!(error, RestoreError::Gap { .. }), "{error}");
            let error = refused(world.rows(false, Until::Time(point.time_us)));
            assert!(matches!(error, RestoreError::Gap { .. }), "{error}");
        }
    }
    assert!(before > 0 && before < noted.len(), "{before} of {}", noted.len());
}

#[test]
fn any_damage_of_an_archived_file_is_told_with_its_name() {
    let (world, _) = short_history();
    let archived = world.logs("archive");
    for number in [archived[1], archived[archived.len() - 1]] {
        let name = format!("archive/node-1/log-{number:012x}");
        let all = world.0.all_files();
        let size = all.iter().find(|(known, _)| *known == name).unwrap().1;
        for at in [0, 70, size / 2, size - 17, size - 16, size - 8, size - 1] {
            let damaged = World(world.0.copy());
            damaged.0.damage(&name, at, 1);
            match damaged.rows(false, Until::Latest) {
                Err(Error::Log(LogError::Damaged { file, .. })) => {
                    assert!(file.ends_with(&name), "{file}");
                }
                other => panic!("{name} at {at} of {size}: {other:?}"),
            }
        }
        for size in [0, 5, 16, size - 1] {
            let short = World(world.0.copy());
            short.0.truncate(&name, size);
            let told = short.rows(false, Until::Latest);
            assert!(matches!(&told, Err(Error::Log(LogError::Damaged { .. }))), "{told:?}");
        }
    }
}

#[test]
fn moments_out_of_reach_are_told_with_those_that_are_there() {
    let (world, noted) = short_history();
    let report = world.restore_report(false, &CrashMedium::default(), Until::Latest).unwrap();
    assert!(report.gsn >= report.restore_point.gsn && report.recovery.redone > 0, "{report:?}");
    for until in [
        Until::Gsn(1),
        Until::Gsn(report.gsn + 1),
        Until::Time(1_000_000),
        Until::Time(report.restore_point.time_us + 1),
    ] {
        let error = refused(world.rows(false, until));
        let RestoreError::OutOfReach { first, last, known, .. } = &error else { panic!("{error}") };
        assert_eq!((*last, *known), (report.restore_point, report.gsn));
        assert!(first.gsn < noted[0].0.gsn);
        assert!(world.rows(false, Until::Gsn(first.gsn)).is_ok());
        let text = error.to_string();
        assert!(text.contains(&first.to_string()) && text.contains(&last.to_string()), "{text}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (world, _) = short_history();
    let (other, _) = short_history();
    // Another database must not write into the archive.
    let archive = Some(world.folder("archive"));
    let opened = Database::open_archived_on(&*other.folder("db"), archive, options());
    assert!(matches!(opened, Err(Error::Log(LogError::AnotherDatabase { .. }))), "{opened:?}");
    let opened =
        Database::open_archived_on(&*other.folder("db"), Some(world.folder("db")), options());
    assert!(matches!(opened, Err(Error::Log(LogError::NoArchive { .. }))), "{opened:?}");
    let [backup, archive, data] = ["backup", "archive", "db"].map(|name| world.folder(name));
    let restore = |backup: &dyn Medium, archive: &dyn Medium, data: Option<&dyn Medium>| {
        let sources = Sources { backup, archive, data };
        restore_on(&sources, &CrashMedium::default(), Until::Latest, options())
    };
    let [other_archive, other_data] = ["archive", "db"].map(|name| other.folder(name));
    for told in [
        restore(&*backup, &*other_archive, None),
        restore(&*backup, &*archive, Some(&*other_data)),
        // A backup is a database of its own.
        restore(&*backup, &*archive, Some(&*backup)).and(Err(Error::NotDurable)),
    ] {
        let is_told = match &told {
            Err(Error::Log(LogError::AnotherDatabase { .. })) => true,
            Err(Error::InUse { .. }) => true, // It is locked for reading.
            _ => false,
        };
        assert!(is_told, "{told:?}");
    }
    let told = restore(&*backup, &*data, None);
    assert!(matches!(told, Err(Error::Log(LogError::NoArchive { .. }))), "{told:?}");
    let told = refused(restore(&*data, &*archive, None));
    assert!(matches!(told, RestoreError::NoBackup { .. }), "{told}");
    // Into a folder with a database, and into a folder with other files.
    let sources = Sources { backup: &*backup, archive: &*archive, data: None };
    let told = restore_on(&sources, &*data, Until::Latest, options());
    assert!(matches!(told, Err(Error::Log(LogError::NotEmpty { .. }))), "{told:?}");
    let told = restore_on(&sources, &*world.folder("archive"), Until::Latest, options());
    assert!(matches!(told, Err(Error::Log(_))), "{told:?}");
    // A backup that was opened becomes another database.
    Database::open_on(&*backup, options()).unwrap().close().unwrap();
    let told = refused(restore(&*backup, &*archive, None));
    assert!(matches!(told, RestoreError::NoBackup { .. }), "{told}");
}

#[test]
fn a_full_archive_keeps_the_logs_and_holds_up_nobody() {
    for after in [0, 3, 40] {
        let (world, archive) = (World(CrashMedium::default()), CrashMedium::default());
        let medium = Some(Arc::new(archive.clone()) as Arc<dyn Medium>);
        let db = Database::open_archived_on(&*world.folder("db"), medium, options()).unwrap();
        create(&db);
        let mut expected = Rows::new();
        let mut work = |db: &Database, rounds: std::ops::Range<i64>| {
            for round in rounds {
                write(db, &mut expected, round, &[(0, round % 40), (1, round % 40)], true);
                if round % 10 == 9 {
                    db.checkpoint().unwrap();
                }
            }
            expected.clone()
        };
        work(&db, 0..20);
        db.backup_on(&*world.folder("backup")).unwrap();
        assert!(db.health().archive.is_none());
        archive.fail(Fault::Full, after);
        let before = world.logs("db");
        let checkpoints = db.checkpoints();
        work(&db, 20..200);
        assert!(db.checkpoints() > checkpoints);
        let error = db.health().archive.unwrap();
        let LogError::NotArchived { cause } = &error else { panic!("{error}") };
        assert!(matches!(&**cause, LogError::Medium(cause) if cause.is_full()), "{error}");
        let kept = world.logs("db");
        let names = archive.folder("node-1").unwrap().names().unwrap();
        let archived = names.iter().rfind(|name| !name.ends_with("new")).unwrap();
        assert!(kept.iter().any(|number| archived.ends_with(&format!("{number:012x}"))));
        assert!(after > 0 || kept[0] == before[0], "{kept:?} {before:?}");
        archive.mend();
        let report = db.checkpoint().unwrap();
        assert!(report.archived_bytes > FILE_BYTES);
        assert!(db.health().archive.is_none());
        assert!(world.logs("db")[0] > kept[0]);
        let expected = work(&db, 200..205);
        // There is an error at the end too; and the folder still has the rest.
        archive.fail(Fault::Sync, 0);
        let closed = db.close();
        let is_told = matches!(closed, Err(Error::Log(LogError::NotArchived { .. })));
        assert!(is_told, "{closed:?}");
        let [backup, data] = ["backup", "db"].map(|name| world.folder(name));
        let sources = Sources { backup: &*backup, archive: &archive, data: Some(&*data) };
        let new = CrashMedium::default();
        restore_on(&sources, &new, Until::Latest, options()).unwrap();
        let db = Database::open_on(&new, options()).unwrap();
        assert_eq!(rows(&db), expected);
    }
}

/// The rows after the transactions up to this one.
fn after(last: i64) -> Rows {
    let all = (0..=last).flat_map(|writer| (0..2).map(move |at| ((at, writer % 30), writer)));
    all.collect()
}

/// A transaction that writes a row of each table.
fn write_both(db: &Database, rows_now: &mut Rows, writer: i64, durability: Durability) {
    let id = writer % 30;
    let tables = TABLES.map(|name| db.table(name).unwrap());
    let is_new = !rows_now.contains_key(&(0, id));
    let how = TransactionOptions { durability: Some(durability), ..TransactionOptions::default() };
    let mut tx = db.begin_with(&how).unwrap();
    for table in &tables {
        let (key, text) = (Value::Int64(id), Value::Text(text(writer)));
        if is_new {
            tx.insert(table, &[key, Value::Int64(writer), text]).unwrap();
        } else {
            tx.update(table, &[key], &[(1, Value::Int64(writer)), (2, text)]).unwrap();
        }
    }
    tx.commit().unwrap();
    *rows_now = after(writer);
}

#[test]
fn what_is_archived_beside_commits_is_never_cut_off() {
    let world = World(CrashMedium::default());
    let db = world.open();
    create(&db);
    let mut rows_now = Rows::new();
    (0..4).for_each(|writer| write_both(&db, &mut rows_now, writer, Durability::Strict));
    db.backup_on(&*world.folder("backup")).unwrap();
    let first = world.0.events();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for writer in 4..400 {
                write_both(&db, &mut rows_now, writer, Durability::None);
            }
        });
        while !writing.is_finished() {
            db.checkpoint().unwrap();
        }
    });
    let last = world.0.events();
    drop(db);
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..25 {
        let events = random.random_range(first..=last);
        let crashed = World(world.0.crash(events, || random.random()));
        let found = crashed.rows(false, Until::Latest).unwrap();
        assert_eq!(found, after(*found.values().max().unwrap()));
        let db = crashed.open();
        let mut expected = rows(&db);
        let next = expected.values().max().unwrap() + 1;
        assert!(found.values().max().unwrap() < &next, "no more is archived than there was");
        for writer in next..next + 3 {
            write_both(&db, &mut expected, writer, Durability::Strict);
        }
        db.close().unwrap();
        assert_eq!(crashed.rows(false, Until::Latest).unwrap(), expected);
    }
}

#[test]
fn a_crash_at_any_moment_leaves_an_archive_of_what_counts() {
    let world = World(CrashMedium::default());
    let mut db = world.open();
    create(&db);
    let mut rows_now = Rows::new();
    let note = |db: &Database, writer: i64, rows_now: &mut Rows| {
        write_both(db, rows_now, writer, Durability::Strict);
        world.0.note(writer as u64);
    };
    for writer in 0..4 {
        note(&db, writer, &mut rows_now);
    }
    db.backup_on(&*world.folder("backup")).unwrap();
    let first = world.0.events();
    for writer in 4..70 {
        note(&db, writer, &mut rows_now);
        if writer % 8 == 0 {
            db.checkpoint().unwrap();
        }
        if writer % 25 == 0 {
            db.close().unwrap();
            db = world.open();
        }
    }
    db.close().unwrap();
    let mut random = StdRng::seed_from_u64(7);
    let mut archived = 0;
    for _ in 0..60 {
        let events = random.random_range(first..=world.0.events());
        let acknowledged = world.0.notes(events).last().copied().unwrap() as i64;
        let crashed = World(world.0.crash(events, || random.random()));
        // The rest of the folder has all acknowledged commits.
        let found = crashed.rows(true, Until::Latest).unwrap();
        let last = *found.values().max().unwrap();
        assert_eq!(found, after(last));
        assert!(last >= acknowledged, "{last} of {acknowledged}");
        // The archive alone has some of them, none in part.
        let found = crashed.rows(false, Until::Latest).unwrap();
        let last = *found.values().max().unwrap();
        assert_eq!(found, after(last));
        archived = archived.max(last);
        // If the database has gone on with another history, the archive has that one.
        let db = crashed.open();
        let expected = rows(&db);
        db.close().unwrap();
        assert_eq!(crashed.rows(false, Until::Latest).unwrap(), expected);
    }
    assert!(archived > 40, "{archived}");
}

#[test]
fn a_restore_that_is_cut_short_is_no_database() {
    let (world, noted) = short_history();
    let (point, expected) = &noted[2];
    let new = CrashMedium::default();
    world.restore(false, &new, Until::Gsn(point.gsn)).unwrap();
    let mut random = StdRng::seed_from_u64(3);
    let (mut whole, mut none) = (0, 0);
    for _ in 0..80 {
        let events = random.random_range(0..=new.events());
        let crashed = new.crash(events, || random.random());
        // A new database would be created in an empty folder.
        if crashed.names().unwrap().iter().all(|name| name == "lock") {
            continue;
        }
        match Database::open_on(&crashed, options()) {
            Ok(db) => {
                assert_eq!(&rows(&db), expected, "{events}");
                whole += 1;
            }
            Err(Error::Log(LogError::CutShort { .. } | LogError::Missing { .. })) => none += 1,
            Err(error) => panic!("{events}: {error}"),
        }
    }
    assert!(whole > 0 && none > 0, "{whole} {none}");
}

#[test]
fn what_was_restored_goes_on_in_its_own_way() {
    let (world, noted) = short_history();
    let (point, expected) = &noted[1];
    let again = World(CrashMedium::default());
    let [backup, archive] = ["backup", "archive"].map(|name| world.folder(name));
    let sources = Sources { backup: &*backup, archive: &*archive, data: None };
    let until = Until::Gsn(point.gsn);
    restore_on(&sources, &*again.folder("db"), until, options()).unwrap();
    // Not into the archive of the original database.
    let into = Database::open_archived_on(&*again.folder("db"), Some(archive), options());
    assert!(matches!(into, Err(Error::Log(LogError::AnotherDatabase { .. }))), "{into:?}");
    let db = again.open();
    let mut rows_now = rows(&db);
    assert_eq!(&rows_now, expected);
    db.backup_on(&*again.folder("backup")).unwrap();
    for writer in 500..530 {
        write(&db, &mut rows_now, writer, &[(0, writer % 40), (1, writer % 40)], true);
    }
    let (point, expected) = (db.mark().unwrap(), rows_now.clone());
    write(&db, &mut rows_now, 530, &[(0, 1)], true);
    db.close().unwrap();
    assert_eq!(again.rows(false, Until::Time(point.time_us)).unwrap(), expected);
    assert_eq!(again.rows(false, Until::Latest).unwrap(), rows_now);
}

#[test]
fn a_history_that_has_branched_is_not_archived_with_the_other() {
    let world = World(CrashMedium::default());
    let (db, mut now) = (world.open(), Rows::new());
    create(&db);
    write(&db, &mut now, 1, &[(0, 1), (1, 1)], true);
    db.checkpoint().unwrap();
    db.close().unwrap();
    // A copy of the folder, while the archive goes on with the original.
    let copied = world.0.copy();
    let db = world.open();
    for writer in 2..40 {
        write(&db, &mut now, writer, &[(0, writer), (1, writer)], true);
    }
    db.checkpoint().unwrap();
    assert!(db.health().archive.is_none());
    db.close().unwrap();
    let archive = Some(world.folder("archive"));
    let db =
        Database::open_archived_on(&*copied.folder("db").unwrap(), archive, options()).unwrap();
    let mut other = Rows::new();
    for writer in 100..140 {
        write(&db, &mut other, writer, &[(0, writer), (1, writer)], true);
    }
    db.checkpoint().unwrap();
    let failure = db.health().archive.expect("it is told");
    assert!(failure.to_string().contains("another history"), "{failure}");
    // Nothing of either is lost.
    drop(db);
    assert_eq!(rows(&Database::open_on(&*world.folder("db"), options()).unwrap()), now);
}
