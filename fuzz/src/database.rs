//! A whole database with files that were damaged, or that an attacker has written.
//!
//! A fuzzer chooses one of a few scenes: a database with several incarnations, each with
//! checkpoints and with commits, each of which was acknowledged before the next one; at the end the
//! database was closed, or the power failed.
//!
//! `damage`: the files of a scene with damage. Opening fails with an error about the files, or the
//! database has its state after one of its commits:
//! - If it was closed, after the last commit, because the control file records the ends of the
//!   logs.
//! - Otherwise not before the last opening, for the same reason; and if only one byte was damaged,
//!   after the last commit or the one before: each block records that the block before it was
//!   durable, but no block records this of the last one.
//!
//! `hostile`: files with wrong contents and correct checksums. Opening fails, or the database can
//! be used: rows can be read and changed, a checkpoint can be taken, and the database can be opened
//! again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use atoll::machine::{CrashMedium, Medium};
use atoll::{
    Column, DataType, Database, DatabaseOptions, Error, IndexSpec, LogsOptions, Range, Schema,
    Table, TableOptions, Value,
};
use atoll_log::block::{HEADER_BYTES, Header, Kind};
use atoll_log::checkpoint_store::{self, BLOCK_BYTES, FileRef, Map};
use atoll_log::control::{self, Control, ControlFile};
use atoll_log::sealed::seal;
use atoll_machine::medium::Open;
use atoll_storage::key::mix;

use super::input::{Files, Input, files_of, harm, medium_of};

/// The rows of each table.
type Rows = Vec<BTreeMap<i64, Vec<Value>>>;

const SCENES: usize = 16;
const TABLES: usize = 2;

struct Scene {
    files: Files,
    /// The state after each commit.
    states: Vec<Rows>,
    /// Number of commits when it was last opened.
    opened: usize,
    is_closed: bool,
}

fn options() -> DatabaseOptions {
    let (file_bytes, ring_bytes) = (64 << 10, 2 << 20);
    DatabaseOptions {
        partitions: Some(1),
        tablespaces: Some(TABLES),
        nodes: Some(1),
        memory_limit_bytes: Some(64 << 20),
        checkpoint_log_bytes: u64::MAX,
        logs: LogsOptions { file_bytes, ring_bytes, in_turns: true, ..LogsOptions::default() },
        ..DatabaseOptions::default()
    }
}

/// One of the scenes; made at the first call.
fn scene(number: usize) -> Arc<Scene> {
    static MADE: Mutex<BTreeMap<usize, Arc<Scene>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    Arc::clone(made.entry(number).or_insert_with(|| Arc::new(Scene::new(number as u64))))
}

impl Scene {
    fn new(seed: u64) -> Self {
        let bytes: Vec<u8> = (0..4096).map(|at| mix(seed << 32 | at) as u8).collect();
        let mut input = Input(&bytes);
        let mut medium = CrashMedium::default();
        let mut states: Vec<Rows> = vec![vec![BTreeMap::new(); TABLES]];
        let (mut opened, mut is_closed) = (0, false);
        for incarnation in 0..1 + seed % 4 {
            opened = states.len() - 1;
            let db = Database::open_on(&medium, options()).unwrap();
            if incarnation == 0 {
                (0..TABLES).for_each(|at| create(&db, at));
            }
            for _ in 0..2 + input.below(8) {
                let mut next = states.last().unwrap().clone();
                commit(&db, &mut next, &mut input);
                states.push(next);
                if input.below(4) == 0 {
                    db.checkpoint().unwrap();
                }
            }
            is_closed = seed.is_multiple_of(2);
            if is_closed {
                db.close().unwrap();
            } else {
                let crashed = medium.crash(medium.events(), || input.flag());
                drop(db);
                medium = crashed;
            }
        }
        let files = files_of_all(&medium);
        Self { files, states, opened, is_closed }
    }
}

fn files_of_all(medium: &CrashMedium) -> Files {
    let read = |(name, size): (String, u64)| {
        let mut bytes = vec![0; size as usize];
        medium.open(&name, Open::Read).unwrap().read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    medium.all_files().into_iter().map(read).collect()
}

fn create(db: &Database, at: usize) {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("text", DataType::Text),
        Column::new("count", DataType::Int32),
        Column::nullable("flag", DataType::Bool),
    ];
    let indexes = vec![IndexSpec {
        name: "by_count".into(),
        columns: vec!["count".into()],
        unique: false,
        nulls_not_distinct: false,
    }];
    let tablespace = Some(at as u32);
    let options = TableOptions { indexes, tablespace, ..TableOptions::default() };
    let schema = Schema::new(columns, &["id"]).unwrap();
    db.create_table_with(&format!("table_{at}"), schema, &options).unwrap();
}

fn row(id: i64, input: &mut Input<'_>) -> Vec<Value> {
    let text = match input.below(8) {
        0 => Value::Null,
        1 => Value::Text("short".into()),
        2 => Value::Text("a long text".repeat(400)),
        _ => Value::Text("a longer text".into()),
    };
    let flag = if input.flag() { Value::Null } else { Value::Bool(input.flag()) };
    vec![Value::Int64(id), text, Value::Int32(input.byte().into()), flag]
}

/// One transaction that changes several rows of one or both tables.
fn commit(db: &Database, rows: &mut Rows, input: &mut Input<'_>) {
    let mut tx = db.begin().unwrap();
    for _ in 0..1 + input.below(4) {
        let (at, id) = (input.below(TABLES), input.below(12) as i64);
        let (table, rows) = (db.table(&format!("table_{at}")).unwrap(), &mut rows[at]);
        let new = row(id, input);
        if !rows.contains_key(&id) {
            tx.insert(&table, &new).unwrap();
        } else if input.below(4) == 0 {
            tx.delete(&table, &[Value::Int64(id)]).unwrap();
            rows.remove(&id);
            continue;
        } else {
            let changes: Vec<_> = (1..4).map(|at| (at, new[at].clone())).collect();
            assert!(tx.update(&table, &[Value::Int64(id)], &changes).unwrap());
        }
        rows.insert(id, new);
    }
    tx.commit().unwrap();
}

/// All rows of a table; its key, its index and a snapshot must show the same.
fn rows(db: &Database, table: &Table) -> BTreeMap<i64, Vec<Value>> {
    let mut found = BTreeMap::new();
    let index = table.index("by_count").unwrap();
    db.transaction(|tx| {
        found.clear();
        let all = |row: &atoll::Row<'_>| (0..4).map(|at| row.value(at)).collect::<Vec<_>>();
        tx.scan(&index, Range::ALL, all, |row| {
            let Value::Int64(id) = row[0] else { panic!("a key is a number") };
            assert!(found.insert(id, row).is_none());
            ControlFlow::Continue(())
        })?;
        for (id, row) in &found {
            assert_eq!(tx.read(table, &[Value::Int64(*id)])?.as_ref(), Some(row));
        }
        Ok(())
    })
    .unwrap();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(snapshot.table(table.name()).unwrap().row_count().unwrap(), found.len() as u64);
    found
}

fn all_rows(db: &Database) -> Rows {
    (0..TABLES).map(|at| rows(db, &db.table(&format!("table_{at}")).unwrap())).collect()
}

/// See the module.
pub fn damage(bytes: &[u8]) {
    let mut input = Input(bytes);
    let scene = scene(input.below(SCENES));
    let mut files = scene.files.clone();
    let is_sound = input.byte() == 0;
    let harm = if is_sound { Default::default() } else { harm(&mut files, &mut input, 3) };
    let medium = medium_of(&files);
    let db = match Database::open_on(&medium, options()) {
        Ok(db) => db,
        Err(Error::Log(_)) if !is_sound => return,
        Err(error) => panic!("{harm:?}: {error}"),
    };
    let last = scene.states.len() - 1;
    // Damage must not affect the next incarnation.
    let found = match (db.tables().len(), scene.opened) {
        (TABLES, _) => all_rows(&db),
        (_, 0) if !scene.is_closed && !is_sound => return,
        (count, _) => panic!("{count} tables"),
    };
    let at = scene.states.iter().rposition(|state| *state == found);
    let at = at.unwrap_or_else(|| panic!("{harm:?}: {found:?} never was there"));
    let least = match harm.flips + 2 * harm.others {
        _ if scene.is_closed || is_sound => last,
        0 | 1 => last.saturating_sub(1),
        _ => 0,
    };
    assert!(at >= least.max(scene.opened), "{harm:?}: {at} of {last} commits are left");
    if input.flag() {
        db.close().unwrap();
        let db = Database::open_on(&medium, options()).unwrap();
        assert!(all_rows(&db) == found, "{harm:?}: the next life finds others");
    }
}

/// See the module.
pub fn hostile(bytes: &[u8]) {
    let mut input = Input(bytes);
    let scene = scene(input.below(SCENES));
    let mut files = scene.files.clone();
    for _ in 0..1 + input.below(2) {
        match input.byte() % 4 {
            0 => control(&mut files, &mut input),
            1 | 2 => log(&mut files, &mut input),
            _ => map(&mut files, &mut input),
        }
    }
    let medium = medium_of(&files);
    let Ok(db) = Database::open_on(&medium, options()) else { return };
    for name in db.tables() {
        let table = db.table(&name).unwrap();
        let _ = db.snapshot().unwrap().table(&name).unwrap().row_count();
        if table.index("by_count").is_err() {
            continue;
        }
        let mut ids: Vec<i64> = rows_that_are_there(&db, &table);
        ids.push(100);
        for id in ids {
            let new = row(id, &mut input);
            let _ = db.transaction(|tx| {
                tx.delete(&table, &[Value::Int64(id)])?;
                tx.insert(&table, &new)
            });
        }
    }
    let _ = db.checkpoint();
    if db.close().is_ok() {
        let _ = Database::open_on(&medium, options());
    }
}

/// Keys of a table that may have other columns than in the scene.
fn rows_that_are_there(db: &Database, table: &Table) -> Vec<i64> {
    let index = table.index("by_count").unwrap();
    let mut ids = Vec::new();
    let _ = db.transaction(|tx| {
        ids.clear();
        tx.scan(
            &index,
            Range::ALL,
            |row| (0..row.columns()).map(|at| row.value(at)).collect::<Vec<_>>(),
            |row| {
                if let Value::Int64(id) = row[0] {
                    ids.push(id);
                }
                ControlFlow::Continue(())
            },
        )
    });
    ids
}

/// Changes the contents of the control file.
fn change_control(files: &mut Files, change: impl FnOnce(&mut Control)) {
    let file = (control::FILE.to_owned(), files[control::FILE].clone());
    let medium = medium_of(&[file].into());
    let Ok((mut file, mut control)) = ControlFile::open(&medium, Open::Write) else { return };
    control.sequence = control.sequence.min(1 << 60);
    change(&mut control);
    file.write(&mut control).unwrap();
    files.extend(files_of(&medium));
}

fn control(files: &mut Files, input: &mut Input<'_>) {
    change_control(files, |control| {
        let tablespace = input.below(TABLES);
        let what = input.byte() % 16;
        let number = input.number();
        match what {
            0 => control.incarnation = number as u32,
            1 => control.file_bytes = number,
            2 => control.ring_bytes = number,
            3 => control.cuts[tablespace] = number,
            4 => control.horizon = number,
            5 => control.ends = None,
            6 => control.ends.iter_mut().for_each(|ends| ends[tablespace] = number),
            7 => control.checkpoints.truncate(input.below(2)),
            8 => control.checkpoints.reverse(),
            _ => {
                let Some(checkpoint) = control.checkpoints.first_mut() else { return };
                let part = &mut checkpoint.parts[tablespace];
                match what {
                    9 => checkpoint.number = number,
                    10 => checkpoint.epoch = number,
                    11 => checkpoint.incarnation = number as u32,
                    12 => part.start = number,
                    13 => part.base = number,
                    _ => part.file.bytes = number,
                }
            }
        }
    });
}

/// Replaces a block of a log, or appends one.
fn log(files: &mut Files, input: &mut Input<'_>) {
    let tablespace = input.below(TABLES);
    let prefix = format!("node-{tablespace}/log-");
    let Some((name, file)) = files.iter().find(|(name, _)| name.starts_with(&prefix)) else {
        return;
    };
    let number = u64::from_str_radix(&name[prefix.len()..], 16).unwrap();
    let (name, mut bytes) = (name.clone(), file.clone());
    let wanted = input.below(40);
    let mut last: Option<Header> = None;
    let mut at = 0;
    for _ in 0..=wanted {
        let Some(header) = bytes[at..].first_chunk().and_then(Header::decode) else { break };
        if header.lsn != number * (64 << 10) + at as u64 {
            break;
        }
        if last.is_some_and(|last| last.lsn == header.lsn) {
            break;
        }
        last = Some(header);
        let next = at + header.block_bytes() as usize;
        if next + HEADER_BYTES > bytes.len() {
            break;
        }
        at = next;
    }
    let Some(last) = last else { return };
    let is_behind = input.flag();
    let from = if is_behind { at } else { (last.lsn - number * (64 << 10)) as usize };
    let mut payload = bytes[(last.lsn % (64 << 10)) as usize + HEADER_BYTES..]
        .get(..last.payload_bytes as usize)
        .unwrap_or_default()
        .to_vec();
    match input.byte() % 4 {
        0 => payload = input.bytes(300).to_vec(),
        1 => {
            for _ in 0..1 + input.below(4) {
                if !payload.is_empty() {
                    let at = input.below(payload.len());
                    payload[at] = input.byte();
                }
            }
        }
        _ => {}
    }
    let mut header = Header { payload_bytes: payload.len() as u32, ..last };
    header.lsn = number * (64 << 10) + from as u64;
    let what = input.byte() % 16;
    match what {
        0 => header.incarnation = input.number() as u32,
        1 => header.gsn = input.number(),
        2 => header.epoch = input.number(),
        3 => header.durable = input.number(),
        4 => header.horizon = input.number(),
        5 => header.transaction = input.number(),
        6 => {
            header.kind =
                [Kind::Commit, Kind::Piece, Kind::IdleWatermark, Kind::Table][input.below(4)]
        }
        7.. => {
            header.gsn += u64::from(is_behind);
            header.horizon = header.gsn;
        }
    }
    let block = [&header.encode(&payload)[..], &payload].concat();
    if let Some(place) = bytes.get_mut(from..from + block.len()) {
        place.copy_from_slice(&block);
        files.insert(name, bytes);
    }
}

/// Replaces the map of a checkpoint, or the contents of a block to which it refers.
fn map(files: &mut Files, input: &mut Input<'_>) {
    let tablespace = input.below(TABLES);
    let mut number = 0;
    change_control(files, |control| {
        let checkpoint = control.checkpoints.first();
        number = checkpoint.map_or(0, |checkpoint| checkpoint.parts[tablespace].base);
    });
    let name = format!("node-{tablespace}/{}", checkpoint_store::map_name(number));
    let Some(bytes) = files.get(&name) else { return };
    let mut bytes = bytes[..bytes.len() / 2].to_vec();
    if input.flag() {
        let Some(mut map) = Map::decode(&bytes) else { return };
        change_block(files, &mut map, tablespace, input);
        bytes = map.encode();
    } else {
        for _ in 0..1 + input.below(3) {
            let at = input.below(bytes.len());
            bytes[at] = input.byte();
        }
    }
    let crc = crc(&bytes);
    let len = bytes.len() as u64;
    files.insert(name, [&bytes[..], &bytes].concat());
    change_control(files, |control| {
        let Some(checkpoint) = control.checkpoints.first_mut() else { return };
        // Without the steps behind the map.
        checkpoint.number = number;
        for part in &mut checkpoint.parts {
            part.base = part.base.min(number);
        }
        checkpoint.parts[tablespace].file = FileRef { bytes: len, crc };
        control.checkpoints.truncate(1);
    });
}

fn change_block(files: &mut Files, map: &mut Map, tablespace: usize, input: &mut Input<'_>) {
    let store = files.get_mut(&format!("node-{tablespace}/home")).unwrap();
    for table in &mut map.tables {
        for segment in &mut table.segments {
            let segment = Arc::make_mut(segment);
            let which = input.below(6);
            let part = match which {
                0 => Some(&mut segment.presence),
                1..5 => segment.columns.get_mut(which - 1).map(|column| &mut column.values),
                _ => segment.columns.get_mut(1).and_then(|column| column.heap.first_mut()),
            };
            let Some(part) = part else { continue };
            let bytes = part.bytes as usize;
            let Some(block) = part.blocks.first_mut() else { continue };
            let start = block.number as usize * BLOCK_BYTES;
            let Some(place) = store.get_mut(start..start + BLOCK_BYTES) else { continue };
            for _ in 0..1 + input.below(4) {
                let at = input.below(bytes.min(BLOCK_BYTES));
                place[at] = input.byte();
            }
            block.crc = crc(place);
        }
    }
}

/// A checksum; a sealed file has the checksum of its body.
fn crc(bytes: &[u8]) -> u32 {
    let sealed = seal([0; 8], bytes);
    u32::from_le_bytes(std::array::from_fn(|at| sealed[12 + at]))
}
