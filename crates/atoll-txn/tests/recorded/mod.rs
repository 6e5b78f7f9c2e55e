//! Transactions that write down what they read and wrote, over any scheme.

pub mod graph;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use atoll_machine::Native;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::undo::Was;
use atoll_storage::{Column, DataType, Directory, Schema, Table, Value, reader};
use atoll_txn::{AbortReason, Engine, Scheme, Stop, Worker};

use graph::{Done, State};

/// Keys that are always there and always wanted.
pub const HOT: i64 = 6;
/// Keys from here on are there at first and may be deleted, never to come back.
pub const DOOMED: i64 = 100;
pub const DOOMED_END: i64 = 500;
/// Keys from here on are absent at first and may be inserted once.
pub const FRESH: i64 = 1000;

/// The version that a key has at first.
pub fn initial(key: i64) -> State {
    (key < DOOMED_END).then_some(key as u64)
}

/// A table over a scheme and what happened to it.
pub struct Recorder<S: Scheme<Native>> {
    pub engine: Arc<Engine<S, Native>>,
    pub table: Arc<Table<Native>>,
    versions: AtomicU64,
    clock: AtomicU64,
    /// The lowest fresh key that nobody has tried to insert.
    pub fresh: AtomicU64,
    pub done: Mutex<Vec<Done>>,
}

/// A worker with an open transaction.
pub struct Session<'r, S: Scheme<Native>> {
    recorder: &'r Recorder<S>,
    worker: Worker<S, Native>,
    now: Done,
    own: HashMap<i64, State>,
}

impl<S: Scheme<Native>> Recorder<S> {
    pub fn new(scheme: S) -> Self {
        let swing = SwingConfig { buddy_bytes: 1 << 30, ..SwingConfig::default() };
        let options = StoreOptions {
            capacity_bytes: SwingMalloc::capacity_for(&swing),
            limit_bytes: 256 << 20,
            huge_pages: false,
        };
        let store = Arc::new(Store::create_memfd("history", &options).unwrap());
        let swing = SwingMalloc::create(Arc::clone(&store), &swing).unwrap();
        let directory = Directory::create(Arc::new(Memory::new(store, swing))).unwrap();
        let engine = Arc::new(Engine::new(scheme, Arc::new(directory)));
        let columns = ["id", "version", "tries"].map(|name| Column::new(name, DataType::Int64));
        let schema = Schema::new(columns.to_vec(), &["id"]).unwrap();
        let table = engine.create_table("t", schema).unwrap();
        let mut worker = engine.worker().unwrap();
        worker.begin();
        for key in (0..HOT).chain(DOOMED..DOOMED_END) {
            worker.insert(&table, &[key.into(), key.into(), 0i64.into()]).unwrap();
        }
        worker.commit().unwrap();
        Self {
            engine,
            table,
            versions: AtomicU64::new(1 << 32),
            clock: AtomicU64::new(0),
            fresh: AtomicU64::new(FRESH as u64),
            done: Mutex::default(),
        }
    }

    fn moment(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub fn session(&self) -> Session<'_, S> {
        let worker = self.engine.worker().unwrap();
        Session { recorder: self, worker, now: Done::default(), own: HashMap::new() }
    }

    /// What is wrong with what has been recorded.
    pub fn anomaly(&self) -> Option<String> {
        graph::anomaly(&self.done.lock().unwrap(), initial)
    }

    /// Takes a snapshot and records what it shows, as a transaction that reads everything.
    /// Left unpatched, it shows what was open at the cut as well: a fault.
    pub fn snapshot(&self, patched: bool) {
        let began = self.moment();
        let memory = self.engine.memory();
        let taking = self.engine.taking();
        let cut = memory.cut();
        let mut patch = self.engine.open_at(&taking, cut.epoch);
        patch.truncate(if patched { usize::MAX } else { 0 });
        drop(taking);
        let ended = self.moment();
        // Later inserts cannot be in it, and so need not be asked for.
        let fresh_end = self.fresh.load(Ordering::SeqCst) as i64;
        std::thread::yield_now();

        let view = memory.access().view();
        let table = &reader::tables(view, cut.root).unwrap()[0];
        let mut shown: HashMap<i64, u64> = HashMap::new();
        for number in 0..table.segments {
            let segment = table.segment(view, number).unwrap();
            let [ids, versions] = [0, 1].map(|at| table.column(view, &segment, at).unwrap().values);
            for slot in 0..segment.filled as u64 {
                let word = view.load_u64(segment.presence.offset + slot / 64 * 8);
                let mut is_present = word >> (slot % 64) & 1 == 1;
                let mut version = view.load_u64(versions.offset + slot * 8);
                for entry in &patch {
                    if (entry.row.segment(), entry.row.slot() as u64) != (number, slot) {
                        continue;
                    }
                    match &entry.was {
                        Was::Presence(present) => is_present = *present,
                        Was::Value { column: 1, image, .. } => {
                            version = u64::from_le_bytes(image[..8].try_into().unwrap());
                        }
                        Was::Value { .. } => {}
                    }
                }
                if is_present {
                    let id = view.load_u64(ids.offset + slot * 8) as i64;
                    assert!(shown.insert(id, version).is_none(), "key {id} is shown twice");
                }
            }
        }
        memory.release(cut.epoch);
        let keys = (0..HOT).chain(DOOMED..DOOMED_END).chain(FRESH..fresh_end);
        let reads = keys.map(|key| (key, shown.get(&key).copied())).collect();
        self.done.lock().unwrap().push(Done { began, ended, reads, writes: Vec::new() });
    }
}

impl<S: Scheme<Native>> Session<'_, S> {
    pub fn begin(&mut self) {
        self.own.clear();
        self.now = Done { began: self.recorder.moment(), ..Done::default() };
        self.worker.begin();
    }

    pub fn commit(&mut self) -> Result<(), Stop> {
        self.worker.commit()?;
        self.now.ended = self.recorder.moment();
        let mut done = std::mem::take(&mut self.now);
        for (key, _, after) in &mut done.writes {
            *after = self.own[key]; // Only what it left in the end can be seen by others.
        }
        self.recorder.done.lock().unwrap().push(done);
        Ok(())
    }

    pub fn rollback(&mut self) {
        self.worker.abort(AbortReason::Requested);
    }

    pub fn read(&mut self, key: i64) -> Result<State, Stop> {
        let row = self.worker.read(&self.recorder.table, &[key.into()], [1].into_iter())?;
        let state = row.map(|row| match row[0] {
            Value::Int64(version) => version as u64,
            ref other => panic!("{other:?}"),
        });
        match self.own.get(&key) {
            Some(own) => assert_eq!(state, *own, "a transaction misses its own write"),
            None => self.now.reads.push((key, state)),
        }
        Ok(state)
    }

    fn wrote(&mut self, key: i64, before: State, after: State) {
        if self.own.insert(key, after).is_none() {
            self.now.writes.push((key, before, after));
        }
    }

    fn next_version(&self) -> i64 {
        self.recorder.versions.fetch_add(1, Ordering::Relaxed) as i64
    }

    pub fn update(&mut self, key: i64) -> Result<(), Stop> {
        let Some(before) = self.read(key)? else { return Ok(()) };
        let after = self.next_version();
        let changes = [(1, after.into())];
        if self.worker.update(&self.recorder.table, &[key.into()], &changes)? {
            self.wrote(key, Some(before), Some(after as u64));
        }
        Ok(())
    }

    /// As [`Session::update`], but owns the row before it reads.
    pub fn own_and_update(&mut self, key: i64) -> Result<(), Stop> {
        let changes = [(2, 1i64.into())];
        self.worker.update(&self.recorder.table, &[key.into()], &changes)?;
        self.update(key)
    }

    pub fn insert(&mut self, key: i64) -> Result<(), Stop> {
        let version = self.next_version();
        let row = [key.into(), version.into(), 0i64.into()];
        match self.worker.insert(&self.recorder.table, &row) {
            Ok(()) => self.wrote(key, None, Some(version as u64)),
            Err(Stop::DuplicateKey { .. }) => {}
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    pub fn delete(&mut self, key: i64) -> Result<(), Stop> {
        let Some(before) = self.read(key)? else { return Ok(()) };
        if self.worker.delete(&self.recorder.table, &[key.into()])? {
            self.wrote(key, Some(before), None);
        }
        Ok(())
    }

    /// Deletes the row and inserts it again: to others, an update.
    pub fn replace(&mut self, key: i64) -> Result<(), Stop> {
        self.delete(key)?;
        self.insert(key)
    }
}
