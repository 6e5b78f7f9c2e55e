//! Binding of `SELECT … FOR UPDATE` and `FOR SHARE`, which hold the rows of one table until the
//! transaction ends. Both hold them against changes and against each other.

use sqlparser::ast::{GroupByExpr, NonBlock, Query, Select, SelectItem, SetExpr, Statement};

use super::target::select;
use crate::error::SqlError;
use crate::live::{KEYED, TARGET};
use crate::prepared::query::{Binder, Held, Lock, ShortQuery};
use crate::prepared::wanted::Wanted;
use crate::prepared::{Body, Prepared, Unbound};
use crate::short::columns::Columns;
use crate::short::compile::{Compiler, NotShort};
use crate::short::plan::Node;

impl Binder<'_> {
    /// Binds a query that locks rows.
    ///
    /// # Errors
    /// Anything but rows of one table as they are; NOWAIT and SKIP LOCKED under a scheme without
    /// waits.
    pub(crate) fn locking(&self, query: &Query) -> Result<Prepared, Unbound> {
        let refused = |what: &str| {
            let message = format!("{what} is not supported with FOR UPDATE and FOR SHARE");
            let hint = "lock the rows of one table by themselves, and read the rest behind it";
            Unbound::from(SqlError::unsupported(message).with_hint(Some(hint.to_owned())))
        };
        let held = match query.locks.iter().find_map(|lock| lock.nonblock) {
            None => Held::Wait,
            Some(how) if !self.scope.db.scheme().releases_reads() => {
                let message = format!(
                    "{how} needs a scheme in which transactions wait for each other, and this \
                     database has {}",
                    self.scope.db.scheme()
                );
                return Err(SqlError::unsupported(message).into());
            }
            Some(NonBlock::Nowait) => Held::Fail,
            Some(NonBlock::SkipLocked) => Held::Skip,
        };
        let SetExpr::Select(body) = query.body.as_ref() else { return Err(refused("UNION")) };
        if query.with.is_some() {
            return Err(refused("WITH"));
        }
        if !is_plain(body) {
            return Err(refused("a result that is not rows of a table"));
        }
        let target = self.target(&body.from, "SELECT … FOR UPDATE").map_err(Unbound::from)?;
        let mut compiler = Compiler::default();
        let from = |name| vec![target.relation(name)];
        let items = target.key_columns().into_iter().map(SelectItem::UnnamedExpr).collect();
        let mut keys = select(items, from(KEYED), body.selection.clone());
        if let Statement::Query(keys) = &mut keys {
            keys.order_by.clone_from(&query.order_by);
            keys.limit_clause.clone_from(&query.limit_clause);
            keys.fetch.clone_from(&query.fetch);
        }
        let (find, _) = self.over_target(&keys, &target, false, &mut compiler)?;
        let found = select(body.projection.clone(), from(TARGET), body.selection.clone());
        let (again, plan) = self.over_target(&found, &target, true, &mut compiler)?;
        if again.reads_a_table() || !again_gives_each_row(&again) {
            return Err(NotShort::new("a subquery beside FOR UPDATE").into());
        }
        let columns = Columns::of(&plan)?;
        let wanted = Wanted::of(&target.table, std::iter::once(&again));
        let lock = Lock { table: target.table, again, wanted, held };
        let query = ShortQuery::new(find, columns, Some(lock));
        Ok(Prepared::new(Body::Query(query), compiler))
    }
}

/// Whether a plan over a row that is given makes that row or none.
fn again_gives_each_row(node: &Node) -> bool {
    match node {
        Node::Access(_) | Node::Empty { has_row: false, .. } => true,
        Node::Project { input, .. } | Node::Filter { input, .. } => again_gives_each_row(input),
        _ => false,
    }
}

/// Whether each row of the result is a row of a table.
fn is_plain(select: &Select) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    select.distinct.is_none() && select.having.is_none() && !groups
}
