//! The client of one thread: draws transactions and runs them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll::machine::{Machine, Native};
use atoll::{Buffers, Lanes, Session, Table, Value};

use super::access::{self, Access, ClientBuffers, Operation};
use super::args::{Letter, ReadColumns};
use super::choice::Choice;
use super::drawn::{Drawn, Form};
use super::field::Field;
use super::pool::Pool;
use super::rows;
use crate::error::BenchError;
use crate::keys::{Random, Zipf};
use crate::oltp::{Client, LaneWatch, Outcome};

/// Draws transactions.
struct Drawer {
    field: Arc<Field>,
    choice: Choice,
    /// Zipf ranks counted back from the newest row, for workload D.
    latest: Option<Zipf>,
    random: Random,
    /// Transactions that are drawn beforehand and run again and again; empty if keys depend on what
    /// was inserted.
    pool: Pool,
}

/// The part of one thread in the workload.
pub struct YcsbClient {
    drawer: Drawer,
    current: Drawn,
    room: ClientBuffers,
    /// Number of rows that it has inserted.
    pub inserted: u64,
}

impl YcsbClient {
    /// A client with a choice of keys, which draws `draws` transactions beforehand.
    pub fn new(field: Arc<Field>, choice: Choice, seed: u64, draws: usize) -> Self {
        let plan = &field.plan;
        let mut random = Random::new(seed);
        let bytes = plan.column_bytes as usize;
        let mut source = vec![0; bytes + 4096];
        rows::fill_bytes(&mut source, &mut random);
        let room = ClientBuffers {
            source,
            at: 0,
            target: vec![0; bytes * plan.columns],
            row: rows::empty_row(plan),
        };
        let mut drawer = Drawer {
            latest: (plan.workload == Some(Letter::D)).then(|| Zipf::new(plan.rows, plan.theta)),
            choice,
            random,
            pool: Pool::default(),
            field,
        };
        let mut current = Drawn::default();
        if !drawer.depends() {
            drawer.fill(&mut current, draws);
        }
        Self { drawer, current, room, inserted: 0 }
    }
}

impl Drawer {
    /// Makes the next transaction.
    fn next(&mut self, drawn: &mut Drawn) {
        if self.pool.is_empty() { self.draw(drawn) } else { self.pool.take(drawn) }
    }

    /// Draws transactions beforehand, so that drawing is not measured.
    fn fill(&mut self, drawn: &mut Drawn, draws: usize) {
        for _ in 0..draws {
            self.draw(drawn);
            self.pool.keep(drawn);
        }
    }

    /// Whether keys depend on what was inserted.
    fn depends(&self) -> bool {
        self.latest.is_some() || self.field.plan.mix.inserts > 0.0
    }

    fn operation(&mut self) -> Operation {
        let mix = &self.field.plan.mix;
        let mut left = self.random.unit();
        let shares = [
            (Operation::Read, mix.reads),
            (Operation::Update, mix.updates),
            (Operation::Insert, mix.inserts),
            (Operation::Scan, mix.scans),
        ];
        for (operation, share) in shares {
            if left < share {
                return operation;
            }
            left -= share;
        }
        let last = [(Operation::ReadModifyWrite, mix.read_modify_writes)];
        let possible = last.into_iter().chain(shares.into_iter().rev());
        // A rounding error may lead beyond the last share.
        possible.into_iter().find(|(_, share)| *share > 0.0).map_or(Operation::Read, |(op, _)| op)
    }

    fn key(&mut self, operation: Operation, access: usize) -> u64 {
        if operation == Operation::Insert {
            return self.field.next.fetch_add(1, Ordering::Relaxed);
        }
        match &self.latest {
            None => self.choice.key(access, self.field.plan.accesses),
            Some(zipf) => {
                let newest = self.field.next.load(Ordering::Relaxed);
                newest.saturating_sub(zipf.rank(&mut self.random))
            }
        }
    }

    fn draw(&mut self, drawn: &mut Drawn) {
        let plan = &self.field.plan;
        let (count, columns, scan_max) = (plan.accesses, plan.columns, plan.scan_max);
        let (sort, partitioned) = (plan.sort_keys, plan.oltp.is_partitioned());
        let is_first = plan.read_columns == ReadColumns::First;
        drawn.accesses.clear();
        drawn.keys.clear();
        self.choice.begin();
        for access in 0..count {
            let operation = self.operation();
            let key = self.key(operation, access);
            let column = if is_first { 1 } else { 1 + self.random.below(columns as u64) as usize };
            let is_scan = operation == Operation::Scan;
            let rows = if is_scan { 1 + self.random.below(scan_max) } else { 0 };
            // Tables have fewer rows than that.
            let rows = u32::try_from(rows).unwrap_or(u32::MAX);
            drawn.accesses.push(Access { operation, column, rows });
            drawn.keys.push(Value::Int64(key.cast_signed()));
        }
        if sort {
            // The order of the accesses is random already, so only the keys are sorted; a new row
            // keeps its access only when it is the single one.
            sort_keys(&mut drawn.keys, &mut drawn.accesses);
        }
        if partitioned {
            choose_partitions(&self.field.table, drawn);
        }
        drawn.complete(Form::of(&drawn.accesses, &self.field));
    }
}

/// Sets the partitions of a transaction, for a scheme that must know them; all of them for a scan.
fn choose_partitions(table: &Table, Drawn { accesses, keys, options, .. }: &mut Drawn) {
    options.partitions.clear();
    if accesses.iter().any(|access| access.operation == Operation::Scan) {
        return;
    }
    for key in keys.chunks(1) {
        let partition = table.partition(key);
        if !options.partitions.contains(&partition) {
            options.partitions.push(partition);
        }
    }
    options.partitions.sort_unstable();
}

impl Client for YcsbClient {
    fn prepare(&mut self, _: u64) -> usize {
        self.drawer.next(&mut self.current);
        self.room.at = self.drawer.random.below(4096) as usize;
        self.current.kind()
    }

    fn execute(&mut self, session: &mut Session) -> Result<Outcome, BenchError> {
        let Self { drawer: Drawer { field, .. }, current, room, inserted, .. } = self;
        let Drawn { accesses, keys, ops, options, form, .. } = &*current;
        let outcome = Outcome::of(session.transaction_with(options, |tx| {
            if field.plan.batch && !ops.is_empty() {
                let ClientBuffers { source, at, target, .. } = &mut *room;
                let buffers = Buffers { input: &source[*at..], output: target };
                return tx.apply(&field.table, keys, ops, buffers, |_| ());
            }
            if field.plan.batch && accesses.iter().all(Access::is_point) {
                return access::perform_all(tx, field, accesses, keys, room);
            }
            if field.plan.batch {
                tx.prefetch(&field.table, keys, |at| accesses[at].columns(field));
            }
            if !ops.is_empty() {
                return access::perform_each(tx, field, ops, keys, room);
            }
            for (access, key) in accesses.iter().zip(keys.chunks(1)) {
                access.perform(tx, field, key, room)?;
            }
            Ok(())
        }))?;
        std::hint::black_box(&room.target);
        *inserted += form.inserts;
        Ok(outcome)
    }

    fn run_in_lanes(
        &mut self,
        lanes: &mut Lanes,
        watch: &mut dyn LaneWatch,
    ) -> Result<(), BenchError> {
        let field = Arc::clone(&self.drawer.field);
        let (drawer, watch) = (RefCell::new(&mut self.drawer), RefCell::new(watch));
        let (room, failure) = (RefCell::new(&mut self.room), RefCell::new(None));
        // Ended transactions, for reuse of their buffers.
        let spare: RefCell<Vec<Drawn>> = RefCell::default();
        lanes.run(
            || {
                let goes_on = failure.borrow().is_none() && watch.borrow_mut().goes_on();
                goes_on.then(|| {
                    let mut drawn = spare.borrow_mut().pop().unwrap_or_default();
                    drawer.borrow_mut().next(&mut drawn);
                    (drawn.begun_ns, drawn.attempts) = (Native::now_ns(), 0);
                    drawn
                })
            },
            async |tx, drawn| {
                drawn.attempts += 1;
                let Drawn { accesses, keys, ops, .. } = &*drawn;
                if field.plan.batch {
                    let columns = |at: usize| accesses[at].columns(&field);
                    tx.fetch(&field.table, keys, columns).await;
                    if !ops.is_empty() {
                        let ClientBuffers { source, at, target, .. } = &mut **room.borrow_mut();
                        let buffers = Buffers { input: &source[*at..], output: target };
                        return tx.apply(&field.table, keys, ops, buffers, |_| ());
                    }
                }
                for (at, (access, key)) in accesses.iter().zip(keys.chunks(1)).enumerate() {
                    if !field.plan.batch {
                        tx.fetch(&field.table, key, |_| access.columns(&field)).await;
                    }
                    access.perform_as(ops.get(at), tx, &field, key, &mut room.borrow_mut())?;
                }
                Ok(())
            },
            |drawn, result| {
                match Outcome::of(result) {
                    Ok(outcome) => {
                        let aborts = drawn.attempts - 1;
                        watch.borrow_mut().ended(drawn.kind(), drawn.begun_ns, outcome, aborts);
                        self.inserted += drawn.form.inserts;
                    }
                    Err(error) => *failure.borrow_mut() = Some(error),
                }
                room.borrow_mut().at = drawer.borrow_mut().random.below(4096) as usize;
                spare.borrow_mut().push(drawn);
            },
        );
        std::hint::black_box(&self.room.target);
        failure.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}

fn sort_keys(keys: &mut Vec<Value>, accesses: &mut Vec<Access>) {
    let number = |value: &Value| if let Value::Int64(key) = value { *key } else { 0 };
    let mut both: Vec<_> = keys.drain(..).zip(accesses.drain(..)).collect();
    both.sort_by_key(|(key, _)| number(key));
    (*keys, *accesses) = both.into_iter().unzip();
}

#[cfg(test)]
mod tests {
    use super::super::args::plan_of;
    use super::super::choice::Layout;
    use super::*;

    /// The keys of `count` transactions of one client, which draws three beforehand.
    fn keys(more: &str, count: usize) -> Vec<Vec<Value>> {
        let words = "ycsb --rows 100000 --columns 2 --column-bytes 16 --threads 1";
        let plan = plan_of(&format!("{words} {more}"));
        let db = plan.oltp.open(1).expect("a database");
        let table = rows::create(&db, &plan).expect("a table");
        let (next, columns) = (plan.rows.into(), vec![1, 2]);
        let choice = Choice::new(Layout { rows: plan.rows, partitions: 1 }, 0.0, 5, None);
        let field = Arc::new(Field { plan, table, columns, index: None, next });
        let mut client = YcsbClient::new(field, choice, 7, 3);
        (0..count)
            .map(|_| {
                client.prepare(0);
                client.current.keys.clone()
            })
            .collect()
    }

    #[test]
    fn what_was_drawn_beforehand_comes_again_in_turn() {
        let keys = keys("--accesses 4", 7);
        assert_ne!(keys[0], keys[1]);
        assert_eq!((&keys[..3], &keys[0]), (&keys[3..6], &keys[6]));
    }

    #[test]
    fn keys_that_depend_on_what_was_inserted_are_drawn_when_they_are_used() {
        let keys = keys("--workload d", 4000);
        let number = |keys: &Vec<Value>| if let Value::Int64(key) = keys[0] { key } else { 0 };
        let mut new: Vec<_> = keys.iter().map(number).filter(|key| *key >= 100_000).collect();
        new.sort_unstable();
        new.dedup();
        assert!(new.len() > 100, "a twentieth are inserts: {}", new.len());
    }
}
