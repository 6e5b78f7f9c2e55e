//! A drawn transaction: its accesses, their keys, and its form.

use atoll::{Request, RowOp, TransactionOptions, Value};

use super::access::{Access, Operation};
use super::args::ReadColumns;
use super::field::Field;

/// See the module.
#[derive(Default)]
pub struct Drawn {
    pub accesses: Vec<Access>,
    pub keys: Vec<Value>,
    /// The accesses as [`RowOp`]s, if each of them is one.
    pub ops: Vec<RowOp>,
    pub options: TransactionOptions,
    pub form: Form,
    /// The time of the first attempt,
    pub(super) begun_ns: u64,
    /// and the number of attempts.
    pub(super) attempts: u64,
}

impl Request for Drawn {
    fn options(&self) -> &TransactionOptions {
        &self.options
    }
}

/// The form of a transaction: properties of all its accesses together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Whether each access is one [`RowOp`].
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
    /// Sets the form, and what follows from it.
    pub fn complete(&mut self, form: Form) {
        (self.form, self.options.read_only) = (form, form.read_only);
        self.ops.clear();
        if form.are_ops {
            self.ops.extend(self.accesses.iter().map(|access| access.op()));
        }
    }

    /// The transaction type: the operation of its only access.
    pub(super) fn kind(&self) -> usize {
        if let [access] = &self.accesses[..] { access.operation as usize } else { 0 }
    }
}
