//! The order in which the parts of one `ALTER TABLE` are carried out, which is PostgreSQL's: what
//! goes is dropped first, columns get their types, others are added, and then they get what else is
//! said of them. Parts of one pass are carried out as they are written, and so are all parts of a
//! statement that gives something another name, which PostgreSQL does not have.

use sqlparser::ast::{AlterColumnOperation, AlterTableOperation};

/// The passes over the parts, in their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    AlterType,
    AddColumn,
    AddConstraint,
    Attributes,
    Others,
}

fn pass(operation: &AlterTableOperation) -> Pass {
    use AlterTableOperation as Operation;
    match operation {
        Operation::DropColumn { .. } | Operation::DropConstraint { .. } => Pass::Drop,
        Operation::AlterColumn { op, .. } => match op {
            AlterColumnOperation::DropNotNull | AlterColumnOperation::DropDefault => Pass::Drop,
            AlterColumnOperation::SetDataType { .. } => Pass::AlterType,
            AlterColumnOperation::SetNotNull => Pass::Attributes,
            _ => Pass::Others,
        },
        Operation::AddColumn { .. } => Pass::AddColumn,
        Operation::AddConstraint { .. } => Pass::AddConstraint,
        _ => Pass::Others,
    }
}

fn renames(operation: &AlterTableOperation) -> bool {
    use AlterTableOperation as Operation;
    matches!(
        operation,
        Operation::RenameColumn { .. }
            | Operation::RenameConstraint { .. }
            | Operation::RenameTable { .. }
    )
}

/// The parts of a statement in the order in which they are carried out.
pub(crate) fn in_passes(
    operations: &[AlterTableOperation],
) -> impl Iterator<Item = &AlterTableOperation> {
    let mut parts: Vec<_> = operations.iter().collect();
    if !parts.iter().any(|operation| renames(operation)) {
        parts.sort_by_key(|operation| pass(operation));
    }
    parts.into_iter()
}
