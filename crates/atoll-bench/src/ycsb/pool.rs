//! Transactions that are drawn before they are run again: a client that draws while it is measured
//! spends a fifth of its time on that.
//!
//! As many touch far more rows than caches hold, and would themselves if they were kept as they are
//! given to the database. So an access is kept in 16 bytes, and a transaction made of them when its
//! turn comes: who runs one has just made it, and does not bring in a kilobyte for it.

use atoll::Value;
use atoll::machine::{Machine, Native};

use super::access::{Access, Operation};
use super::client::{Drawn, Field};

/// Transactions that are kept.
const TRANSACTIONS: usize = 1 << 14;

/// See the module.
#[derive(Default)]
pub struct Pool {
    /// Of all transactions, which have as many each.
    accesses: Vec<Kept>,
    partitions: Vec<Box<[u32]>>,
    next: usize,
}

/// An access and its key.
#[derive(Clone, Copy)]
struct Kept {
    key: i64,
    rows: u32,
    column: u16,
    operation: Operation,
}

impl Pool {
    /// Whether as many transactions have been kept as there will be.
    pub fn is_full(&self) -> bool {
        self.partitions.len() == TRANSACTIONS
    }

    /// Keeps a transaction of which every access has a key that is one number, and no key depends
    /// on what has been inserted.
    pub fn keep(&mut self, drawn: &Drawn) {
        let both = drawn.accesses.iter().zip(&drawn.keys);
        self.accesses.extend(both.filter_map(|(access, key)| Kept::of(*access, key)));
        self.partitions.push(drawn.options.partitions.as_slice().into());
    }

    /// Makes the next transaction; the first comes again after the last.
    pub fn take(&mut self, field: &Field, drawn: &mut Drawn) {
        let each = field.plan.accesses;
        let accesses = &self.accesses[self.next * each..][..each];
        drawn.accesses.clear();
        drawn.accesses.extend(accesses.iter().map(|kept| kept.access()));
        drawn.keys.clear();
        drawn.keys.extend(accesses.iter().map(|kept| Value::Int64(kept.key)));
        drawn.options.partitions.clear();
        drawn.options.partitions.extend_from_slice(&self.partitions[self.next]);
        drawn.complete(field);
        self.next = (self.next + 1) % self.partitions.len();
        let coming = &self.accesses[self.next * each..][..each];
        Native::touch(coming.as_ptr().cast(), size_of_val(coming));
    }
}

impl Kept {
    /// Nothing for a key that is no number.
    fn of(Access { operation, column, rows }: Access, key: &Value) -> Option<Self> {
        let Value::Int64(key) = *key else { return None };
        // No table has more rows than a scan may have here, nor more columns.
        let (rows, column) = (u32::try_from(rows).unwrap_or(u32::MAX), column as u16);
        Some(Self { key, rows, column, operation })
    }

    fn access(self) -> Access {
        let Self { operation, column, rows, .. } = self;
        Access { operation, column: column.into(), rows: rows.into() }
    }
}

#[cfg(test)]
mod tests {
    use atoll::RowOp;

    use super::super::args::plan_of;
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
            let rows = if operation == Operation::Scan { u64::from(u32::MAX) } else { 0 };
            drawn.accesses.push(Access { operation, column: at as usize, rows });
            drawn.keys.push(Value::Int64(first + at));
        }
        drawn.options.partitions.push((first >> 40) as u32);
        drawn.complete(field);
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
        all.iter().for_each(|drawn| pool.keep(drawn));
        let mut taken = Drawn::default();
        for drawn in all.iter().chain(&all) {
            pool.take(&field, &mut taken);
            assert_eq!((&taken.accesses, &taken.keys), (&drawn.accesses, &drawn.keys));
            assert_eq!(taken.ops, drawn.ops);
            assert_eq!(taken.options.partitions, drawn.options.partitions);
            assert_eq!(taken.options.read_only, drawn.options.read_only);
        }
    }
}
