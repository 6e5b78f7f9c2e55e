//! Transactions that are drawn beforehand and run again and again: a client that draws during the
//! measurement spends a fifth of its time on drawing.
//!
//! The transactions of the pool touch most of the usual table (`keys::drawn_by_each`). In the form
//! in which the database takes them they would fill the caches, so the pool keeps a compact form
//! and expands a transaction when its turn comes: the client has the expanded form in its caches
//! then, instead of loading a kilobyte for it. What is known beforehand is kept too.

use atoll::Value;
use atoll::machine::{Machine, Native};

use super::access::Access;
use super::drawn::{Drawn, Form};

/// See the module.
#[derive(Default)]
pub struct Pool {
    /// Accesses of all transactions, which have the same number of accesses, and their keys.
    accesses: Vec<Access>,
    keys: Vec<i64>,
    transactions: Vec<Kept>,
    next: usize,
}

/// The other properties of a transaction.
struct Kept {
    form: Form,
    partitions: Box<[u32]>,
}

impl Pool {
    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Adds a transaction. The key of every access must be one integer, and no key may depend on
    /// what was inserted.
    pub fn keep(&mut self, drawn: &Drawn) {
        self.accesses.extend_from_slice(&drawn.accesses);
        self.keys.extend(drawn.keys.iter().map(|key| match key {
            Value::Int64(key) => *key,
            other => unreachable!("a key of YCSB is a number: {other:?}"),
        }));
        let (form, partitions) = (drawn.form, drawn.options.partitions.as_slice().into());
        self.transactions.push(Kept { form, partitions });
    }

    /// Expands the next transaction; after the last comes the first again.
    pub fn take(&mut self, drawn: &mut Drawn) {
        let each = self.keys.len() / self.transactions.len();
        let at = self.next * each;
        let Kept { form, partitions } = &self.transactions[self.next];
        drawn.accesses.clear();
        drawn.accesses.extend_from_slice(&self.accesses[at..][..each]);
        drawn.keys.resize(each, Value::Int64(0));
        for (value, kept) in drawn.keys.iter_mut().zip(&self.keys[at..][..each]) {
            match value {
                // The old value need not be dropped.
                Value::Int64(key) => *key = *kept,
                other => *other = Value::Int64(*kept),
            }
        }
        drawn.options.partitions.clear();
        drawn.options.partitions.extend_from_slice(partitions);
        drawn.complete(*form);
        self.next = (self.next + 1) % self.transactions.len();
        let (accesses, keys) =
            (&self.accesses[self.next * each..][..each], &self.keys[self.next * each..][..each]);
        Native::prefetch(accesses.as_ptr().cast(), size_of_val(accesses));
        Native::prefetch(keys.as_ptr().cast(), size_of_val(keys));
    }
}

#[cfg(test)]
mod tests {
    use atoll::RowOp;

    use super::super::access::Operation;
    use super::super::args::plan_of;
    use super::super::field::Field;
    use super::super::rows;
    use super::*;

    fn field(words: &str) -> Field {
        let plan = plan_of(words);
        let db = plan.oltp.open(1).expect("a database");
        let table = rows::create(&db, &plan).expect("a table");
        Field { plan, table, columns: vec![1, 2], index: None, next: 0.into() }
    }

    fn drawn(field: &Field, first: i64, operations: [Operation; 2]) -> Drawn {
        let mut drawn = Drawn::default();
        for (operation, at) in operations.into_iter().zip(1..) {
            let rows = if operation == Operation::Scan { u32::MAX } else { 0 };
            drawn.accesses.push(Access { operation, column: at as usize, rows });
            drawn.keys.push(Value::Int64(first + at));
        }
        drawn.options.partitions.push((first >> 40) as u32);
        drawn.complete(Form::of(&drawn.accesses, field));
        drawn
    }

    #[test]
    fn transactions_come_again_in_turn_as_they_were_drawn() {
        use Operation::{Read, ReadModifyWrite, Scan, Update};
        let field = field("ycsb --rows 60 --columns 2 --column-bytes 16 --accesses 2 --threads 1");
        let kinds = [[Read, Update], [ReadModifyWrite, Scan], [Read, Read]];
        let all: Vec<_> =
            kinds.into_iter().zip(0..).map(|(kinds, at)| drawn(&field, at << 40, kinds)).collect();
        let (read, update) = (RowOp::Get { column: 1, to: 0 }, RowOp::Put { column: 2, from: 0 });
        assert_eq!(all[0].ops, [read, update]);
        assert!(all[1].ops.is_empty() && all[2].options.read_only);
        let mut pool = Pool::default();
        assert!(pool.is_empty());
        all.iter().for_each(|drawn| pool.keep(drawn));
        let mut taken = Drawn::default();
        for drawn in all.iter().chain(&all) {
            pool.take(&mut taken);
            assert_eq!((&taken.accesses, &taken.keys), (&drawn.accesses, &drawn.keys));
            assert_eq!((&taken.ops, taken.form), (&drawn.ops, drawn.form));
            assert_eq!(taken.options.partitions, drawn.options.partitions);
            assert_eq!(taken.options.read_only, drawn.options.read_only);
        }
    }
}
