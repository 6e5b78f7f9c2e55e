//! A transaction that was drawn: its accesses, their keys, and what they are together.

use atoll::{Request, RowOp, TransactionOptions, Value};

use super::access::{Access, Operation};
use super::args::ReadColumns;
use super::field::Field;

/// A transaction as it was drawn.
#[derive(Default)]
pub struct Drawn {
    pub accesses: Vec<Access>,
    pub keys: Vec<Value>,
    /// What the accesses are, if each of them is one operation.
    pub ops: Vec<RowOp>,
    pub options: TransactionOptions,
    pub form: Form,
    /// When it was begun for the first time, and how often it has been begun.
    pub(super) begun_ns: u64,
    pub(super) attempts: u64,
}

impl Request for Drawn {
    fn options(&self) -> &TransactionOptions {
        &self.options
    }
}

/// What the accesses of a transaction are together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Each is one operation.
    are_ops: bool,
    read_only: bool,
    pub(super) inserts: u64,
}

impl Form {
    pub fn of(accesses: &[Access], field: &Field) -> Self {
        use Operation::{Insert, Read, Update};
        let all = |is_it: fn(Operation) -> bool| accesses.iter().all(|one| is_it(one.operation));
        let reads_one =
            field.plan.read_columns != ReadColumns::All || all(|operation| operation != Read);
        Self {
            are_ops: reads_one && all(|operation| matches!(operation, Read | Update)),
            read_only: all(|operation| !operation.writes()),
            inserts: accesses.iter().filter(|one| one.operation == Insert).count() as u64,
        }
    }
}

impl Drawn {
    /// Says what its accesses are together.
    pub fn complete(&mut self, form: Form) {
        (self.form, self.options.read_only) = (form, form.read_only);
        self.ops.clear();
        if form.are_ops {
            self.ops.extend(self.accesses.iter().map(|access| access.op()));
        }
    }

    /// Its type: what its only access does.
    pub(super) fn kind(&self) -> usize {
        if let [access] = &self.accesses[..] { access.operation as usize } else { 0 }
    }
}
