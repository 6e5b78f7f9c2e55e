//! Sequences of checkpoints: maps and steps, failed, damaged and backed-up ones; the result of
//! recovery after a crash is compared with a model.

use std::collections::BTreeMap;

use atoll::machine::CrashMedium;
use atoll::machine::medium::crash::Fault;
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, LogError, LogsOptions, Schema, Table,
    TableOptions, Value,
};

type Rows = BTreeMap<i64, Vec<Value>>;

/// Columns except the key.
const COLUMNS: [usize; 5] = [1, 2, 3, 4, 5];
const SEEDS: u64 = 12;
const ROUNDS: u64 = 25;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn one_of(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }
}

fn options(steps_max: u64) -> DatabaseOptions {
    let logs = LogsOptions { file_bytes: 256 << 10, ring_bytes: 4 << 20, ..LogsOptions::default() };
    DatabaseOptions {
        tablespaces: Some(2),
        memory_limit_bytes: Some(256 << 20),
        checkpoint_steps_max: steps_max,
        checkpoint_log_bytes: u64::MAX,
        logs,
        ..DatabaseOptions::default()
    }
}

fn create(db: &Database, number: u32) {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("a", DataType::Text),
        Column::new("b", DataType::Int32),
        Column::nullable("c", DataType::Bool),
        Column::nullable("d", DataType::Float64),
        Column::nullable("e", DataType::Text),
    ];
    let options = TableOptions { tablespace: Some(number), ..TableOptions::default() };
    let schema = Schema::new(columns, &["id"]).unwrap();
    db.create_table_with(&format!("t{number}"), schema, &options).unwrap();
}

fn text(random: &mut Random) -> Value {
    match random.below(5) {
        0 => Value::Null,
        1 => Value::Text("short".into()),
        2 => {
            let times = 1 + random.below(40) as usize;
            Value::Text(format!("{:x}", random.below(u64::MAX)).repeat(times))
        }
        _ => Value::Text(format!("a text of some length {}", random.below(1 << 40))),
    }
}

fn row(random: &mut Random, id: i64) -> Vec<Value> {
    let mut or_null = |value: Value| if random.one_of(3) { Value::Null } else { value };
    let (is_open, price) = (or_null(Value::Bool(id % 2 == 0)), or_null(Value::Float64(0.5)));
    let amount = Value::Int32(random.below(1000) as i32);
    vec![Value::Int64(id), text(random), amount, is_open, price, text(random)]
}

/// The change of a row.
enum Act {
    Insert(Vec<Value>),
    Update(Vec<(usize, Value)>),
    Delete,
}

/// Changes of different rows; many inserts, or few changes of any kind.
fn acts(rows: &Rows, random: &mut Random) -> Vec<(i64, Act)> {
    let kind = random.below(6);
    let count = if kind == 0 { 1 + random.below(6000) } else { 1 + random.below(30) };
    let last = rows.keys().next_back().copied().unwrap_or(0);
    let mut acts: BTreeMap<i64, Act> = BTreeMap::new();
    for at in 0..count as i64 {
        if kind == 0 || rows.is_empty() {
            let id = last + 1 + at;
            acts.insert(id, Act::Insert(row(random, id)));
            continue;
        }
        let around = random.below(last as u64 + 1) as i64;
        let Some((id, _)) = rows.range(around..).next() else { continue };
        let new = row(random, *id);
        let some = COLUMNS.into_iter().filter(|_| random.below(3) > 0);
        let change = Act::Update(some.map(|at| (at, new[at].clone())).collect());
        acts.insert(*id, if kind <= 2 { Act::Delete } else { change });
    }
    acts.into_iter().collect()
}

/// Runs a few transactions; takes a checkpoint in some of them, and rolls some of those back.
fn work(db: &Database, table: &Table, rows: &mut Rows, random: &mut Random) {
    let mut session = db.session().unwrap();
    let is_open = random.one_of(5);
    for _ in 0..1 + random.below(4) {
        let acts = acts(rows, random);
        let fails = is_open && random.one_of(2);
        let done: Result<(), Error> = session.transaction(|tx| {
            for (id, act) in &acts {
                let key = [Value::Int64(*id)];
                match act {
                    Act::Insert(row) => tx.insert(table, row)?,
                    Act::Update(changes) => drop(tx.update(table, &key, changes)?),
                    Act::Delete => drop(tx.delete(table, &key)?),
                }
            }
            if is_open {
                db.checkpoint().unwrap();
            }
            if fails {
                let twice = row(&mut Random(5), 10_000_000);
                tx.insert(table, &twice)?;
                tx.insert(table, &twice)?;
            }
            Ok(())
        });
        assert_eq!(done.is_err(), fails, "{done:?}");
        if fails {
            continue;
        }
        for (id, act) in acts {
            match act {
                Act::Insert(row) => drop(rows.insert(id, row)),
                Act::Delete => drop(rows.remove(&id)),
                Act::Update(changes) => {
                    let row = rows.get_mut(&id).unwrap();
                    changes.into_iter().for_each(|(at, value)| row[at] = value);
                }
            }
        }
    }
}

fn table(db: &Database, number: usize) -> Table {
    db.table(&format!("t{number}")).unwrap()
}

/// All rows of a table with keys up to `last`.
fn rows_of(db: &Database, number: usize, last: i64) -> Rows {
    let (table, mut found) = (table(db, number), Rows::new());
    let mut session = db.session().unwrap();
    for from in (0..=last).step_by(500) {
        session
            .transaction(|tx| {
                for id in from..from + 500 {
                    if let Some(row) = tx.read(&table, &[Value::Int64(id)])? {
                        found.insert(id, row);
                    }
                }
                Ok(())
            })
            .unwrap();
    }
    found
}

/// Checks that a database contains exactly these rows.
fn judge(db: &Database, expected: &[Rows; 2], what: &str) {
    let snapshot = db.snapshot().unwrap();
    for (at, rows) in expected.iter().enumerate() {
        let count = snapshot.table(&format!("t{at}")).unwrap().row_count().unwrap();
        assert_eq!(count, rows.len() as u64, "{what}, table {at}");
        let last = rows.keys().next_back().copied().unwrap_or(0);
        assert!(rows_of(db, at, last) == *rows, "{what}, table {at}");
    }
}

fn open(medium: &CrashMedium, options: &DatabaseOptions, rows: &[Rows; 2], what: &str) -> Database {
    let opened = Database::open_on(medium, options.clone());
    let db = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    judge(&db, rows, what);
    db
}

/// Damages the file of the newest checkpoint of a tablespace, both copies of a map, unless there is
/// no other checkpoint.
fn damage_newest(medium: &CrashMedium, tablespace: u64) -> bool {
    let number = |name: &str| u64::from_str_radix(name.rsplit_once('-').unwrap().1, 16).unwrap();
    let is_checkpoint = |name: &str| {
        let kinds = ["map", "step"].map(|kind| format!("node-{tablespace}/{kind}-"));
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    let files = medium.all_files();
    let newest = files
        .iter()
        .filter(|(name, _)| is_checkpoint(name))
        .max_by_key(|(name, _)| number(name))
        .filter(|(name, _)| number(name) > 1);
    let Some((name, bytes)) = newest else { return false };
    medium.damage(name, 12, 1);
    if name.contains("map-") {
        medium.damage(name, bytes / 2 + 12, 1);
    }
    true
}

fn take_one(
    (medium, db): (&CrashMedium, Database),
    options: &DatabaseOptions,
    (rows, what): (&[Rows; 2], &str),
    random: &mut Random,
) -> Database {
    match random.below(8) {
        0 => {
            let fault = if random.one_of(2) { Fault::Full } else { Fault::Sync };
            medium.fail(fault, random.below(10) as usize);
            let failed = db.checkpoint().err();
            medium.mend();
            let is_over = matches!(failed, Some(Error::Log(LogError::Poisoned { .. })));
            if is_over {
                drop(db);
                return open(medium, options, rows, what);
            }
            if let Some(error) = failed {
                let done = db.checkpoint();
                done.unwrap_or_else(|again| panic!("{what}: {again}, after {error}"));
            }
        }
        1 => {
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("copy");
            db.backup(&copy).unwrap();
            judge(&Database::open(&copy, options.clone()).unwrap(), rows, what);
        }
        _ => drop(db.checkpoint().unwrap()),
    }
    db
}

#[test]
fn any_row_of_checkpoints_holds_what_there_was() {
    let (mut crashes, mut damages) = (0, 0);
    for seed in 1..=SEEDS {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let options = options(1 + random.below(8));
        let mut medium = CrashMedium::default();
        let mut db = Database::open_on(&medium, options.clone()).unwrap();
        (0..2).for_each(|number| create(&db, number));
        let mut rows = [Rows::new(), Rows::new()];
        for round in 0..ROUNDS {
            let what = format!("seed {seed}, round {round}");
            for (at, rows) in rows.iter_mut().enumerate() {
                if random.below(4) > 0 {
                    work(&db, &table(&db, at), rows, &mut random);
                }
            }
            db = take_one((&medium, db), &options, (&rows, &what), &mut random);
            if !random.one_of(3) {
                continue;
            }
            let (keeps, mut chance) = (random.one_of(2), Random(seed + round + 1));
            let crashed = medium.crash(medium.events(), || keeps && chance.one_of(2));
            if random.one_of(2) {
                damages += u32::from(damage_newest(&crashed, random.below(2)));
            }
            let found = open(&crashed, &options, &rows, &what);
            crashes += 1;
            if random.one_of(2) {
                drop(db);
                (medium, db) = (crashed, found);
            }
        }
    }
    assert!(crashes > 50 && damages > 15, "{crashes} crashes, {damages} damaged files");
}

/// Makes checkpoints fail when they write the control file, in its first slot or its second.
fn fail_control(medium: &CrashMedium, db: &Database, fault: Fault, slot: usize) {
    db.mark().unwrap(); // Nothing is left to flush.
    for after in 0.. {
        medium.fail(fault, after);
        let done = db.checkpoint();
        medium.mend();
        match done.expect_err("it fails") {
            Error::Log(LogError::Medium(error)) if error.path.ends_with("control") => break,
            Error::Log(LogError::Medium(_)) => {}
            error => panic!("{error}"),
        }
    }
    if slot > 0 {
        // The next checkpoint begins with the write that failed.
        medium.fail(fault, slot);
        db.checkpoint().expect_err("it fails in the other one");
        medium.mend();
    }
}

#[test]
fn a_control_file_that_cannot_be_written_is_written_before_the_next_checkpoint() {
    for (fault, slot) in [(Fault::Full, 0), (Fault::Full, 1), (Fault::Sync, 0), (Fault::Sync, 1)] {
        let mut options = options(1);
        options.logs.in_turns = true;
        let medium = CrashMedium::default();
        let db = Database::open_on(&medium, options.clone()).unwrap();
        let mut random = Random(7);
        let mut rows = [Rows::new(), Rows::new()];
        (0..2).for_each(|number| create(&db, number));
        let mut write = |db: &Database, rows: &mut [Rows; 2]| {
            for (at, rows) in rows.iter_mut().enumerate() {
                let table = table(db, at);
                let done = db.transaction(|tx| {
                    for id in 0..300 {
                        let new = row(&mut random, id);
                        let changes: Vec<_> = COLUMNS.map(|at| (at, new[at].clone())).to_vec();
                        if !tx.update(&table, &[Value::Int64(id)], &changes)? {
                            tx.insert(&table, &new)?;
                        }
                        rows.insert(id, new);
                    }
                    Ok(())
                });
                done.unwrap();
            }
        };
        let judge = |medium: &CrashMedium, rows: &[Rows; 2], what: &str| {
            for keeps in 0..3 {
                let mut chance = Random(keeps + 1);
                let keeps_it = || keeps == 2 || keeps == 1 && chance.one_of(2);
                let crashed = medium.crash(medium.events(), keeps_it);
                let what = format!("{fault:?} {slot}, {what}, crashed {keeps}");
                let found = open(&crashed, &options, rows, &what);
                let notes = &found.recovery().unwrap().notes;
                assert!(notes.is_empty(), "{what}: {notes:?}");
            }
        };
        // Two checkpoints that are kept, and more failures than there are maps in memory.
        for _ in 0..2 {
            write(&db, &mut rows);
            db.checkpoint().unwrap();
        }
        for round in 0..4 {
            write(&db, &mut rows);
            fail_control(&medium, &db, fault, slot);
            judge(&medium, &rows, &format!("round {round}"));
        }
        assert_eq!(db.checkpoints(), 2);
        // The checkpoint that was not completed, and another one.
        assert_eq!(db.checkpoint().unwrap().number, 4);
        assert_eq!(db.health().checkpoint, None);
        judge(&medium, &rows, "done again");
        db.close().unwrap();
        judge(&medium, &rows, "closed");
    }
}
