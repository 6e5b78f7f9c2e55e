//! The foreign keys that a change has to keep, bound with it.
//!
//! A change of one table may change others, by the actions of foreign keys, and those still others.
//! All of these tables are bound together; the first is the one that the statement names, with what
//! the statement can break of it, and the others have everything.

use std::collections::HashMap;
use std::sync::Arc;

use atoll::{Schema, Table};
use sqlparser::tokenizer::Span;

use super::{Cell, Checks, Generated};
use crate::declared::Declared;
use crate::foreign::find::Constraint;
use crate::foreign::references::References;
use crate::foreign_key::{Action, ForeignKey};
use crate::names;
use crate::prepared::Unbound;
use crate::prepared::cache::Shared;
use crate::prepared::query::Binder;
use crate::short::compile::Compiler;

/// What a change may do to a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Doing<'d> {
    Insert,
    /// It sets these columns.
    Update(&'d [usize]),
    /// It inserts rows, or sets these columns of rows that are there.
    InsertOrUpdate(&'d [usize]),
    Delete,
    /// The rows are there, and are to be checked for the foreign keys of these names.
    Adopt(&'d [String]),
    /// Anything, by the action of a foreign key.
    Any,
}

impl Doing<'_> {
    /// Whether it may break a foreign key of its table.
    fn concerns_key(self, key: &ForeignKey, schema: &Schema) -> bool {
        match self {
            Self::Insert | Self::InsertOrUpdate(_) | Self::Any => true,
            Self::Update(set) => {
                let is_set = |columns: &[usize]| columns.iter().any(|at| set.contains(at));
                // A check that is still to be made finds its row by the primary key.
                is_set(&positions(schema, &key.columns))
                    || key.timing.is_deferrable() && is_set(schema.primary_key())
            }
            Self::Adopt(names) => names.contains(&key.name),
            Self::Delete => false,
        }
    }

    /// Whether rows with other values in these columns may go.
    fn concerns_reference(self, columns: &[usize]) -> bool {
        match self {
            Self::Insert | Self::Adopt(_) => false,
            Self::Update(set) | Self::InsertOrUpdate(set) => {
                columns.iter().any(|at| set.contains(at))
            }
            Self::Delete | Self::Any => true,
        }
    }

    /// The actions that a foreign key may take.
    fn actions(self, key: &ForeignKey) -> [Action; 2] {
        match self {
            Self::Insert | Self::Adopt(_) => [Action::NoAction; 2],
            Self::Delete => [key.on_delete, Action::NoAction],
            Self::Update(_) | Self::InsertOrUpdate(_) => [Action::NoAction, key.on_update],
            Self::Any => [key.on_delete, key.on_update],
        }
    }
}

/// The tables that a change may change, the first by itself; see the module.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) tables: Vec<Concerned>,
}

/// A table that a change may change.
#[derive(Debug)]
pub(crate) struct Concerned {
    pub(crate) table: Table,
    /// Its foreign keys.
    pub(crate) keys: Vec<Arc<Constraint>>,
    /// The foreign keys that refer to it.
    pub(crate) references: Vec<Reference>,
    /// The conditions for its new rows, where an action makes them.
    pub(crate) checks: Option<Checks>,
    /// The columns that are computed for them.
    pub(crate) generated: Option<Generated>,
}

/// A foreign key that refers to a table.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) constraint: Arc<Constraint>,
    /// Where the table that refers is in [`Foreign::tables`], if an action may change it.
    pub(crate) child: Option<usize>,
    /// The defaults of all its columns, if an action may set them.
    pub(crate) defaults: Vec<Cell>,
}

impl Binder<'_> {
    /// The foreign keys that a change of a table has to keep, if there are some.
    ///
    /// # Errors
    /// A table or a column of one does not exist; conditions that cannot be bound.
    pub(crate) fn foreign(
        &self,
        table: &Table,
        doing: Doing<'_>,
        compiler: &mut Compiler,
    ) -> Result<Option<Foreign>, Unbound> {
        let scope = self.scope;
        let references = Shared::of(&scope.db).references.of(&scope.catalog)?;
        let declared = Declared::of(table.schema())?;
        if declared.foreign_keys.is_empty() && !references.contains_key(table.name()) {
            return Ok(None);
        }
        let mut graph = Graph {
            binder: self,
            compiler,
            references,
            tables: Vec::new(),
            places: HashMap::new(),
        };
        let first = graph.add(table, &declared, doing)?;
        if graph.tables[first].keys.is_empty() && graph.tables[first].references.is_empty() {
            return Ok(None);
        }
        let Graph { tables, .. } = graph;
        for concerned in &tables {
            let references = concerned.references.iter().map(|reference| &reference.constraint);
            for constraint in concerned.keys.iter().chain(references) {
                let sides = [&constraint.child, &constraint.parent];
                compiler.tables.extend(sides.map(|side| side.table.clone()));
            }
        }
        Ok(Some(Foreign { tables }))
    }
}

/// Tables on their way into a [`Foreign`].
struct Graph<'g, 'b> {
    binder: &'g Binder<'b>,
    compiler: &'g mut Compiler,
    references: Arc<References>,
    tables: Vec<Concerned>,
    /// Those that actions may change, by name.
    places: HashMap<String, usize>,
}

impl Graph<'_, '_> {
    fn add(
        &mut self,
        table: &Table,
        declared: &Declared,
        doing: Doing<'_>,
    ) -> Result<usize, Unbound> {
        let keys = declared.foreign_keys.iter();
        let keys = keys.filter(|key| doing.concerns_key(key, table.schema()));
        let keys = keys.map(|key| self.constraint(key, table)).collect::<Result<Vec<_>, _>>()?;
        let at = self.tables.len();
        let (table, references) = (table.clone(), Vec::new());
        let (checks, generated) = (None, None);
        self.tables.push(Concerned { table, keys, references, checks, generated });
        let table = self.tables[at].table.clone();
        let all = Arc::clone(&self.references);
        for (child, key) in all.get(table.name()).into_iter().flatten() {
            if doing.concerns_reference(&positions(table.schema(), &key.referenced)) {
                let reference = self.reference(child, key, doing)?;
                self.tables[at].references.push(reference);
            }
        }
        Ok(at)
    }

    fn constraint(&self, key: &ForeignKey, child: &Table) -> Result<Arc<Constraint>, Unbound> {
        let parent = match key.table == child.name() {
            true => child.clone(),
            false => names::find_table(self.binder.scope, &key.table, Span::empty())?,
        };
        Ok(Arc::new(Constraint::new(key.clone(), child, &parent)?))
    }

    /// A foreign key that refers to a table.
    fn reference(
        &mut self,
        child: &str,
        key: &ForeignKey,
        doing: Doing<'_>,
    ) -> Result<Reference, Unbound> {
        let table = names::find_table(self.binder.scope, child, Span::empty())?;
        let constraint = self.constraint(key, &table)?;
        let actions = doing.actions(key);
        let is_changed = actions.iter().any(|action| action.changes_rows());
        let child = is_changed.then(|| self.changed(&table)).transpose()?;
        let mut defaults = Vec::new();
        if actions.contains(&Action::SetDefault) {
            let declared = Declared::of(table.schema())?;
            defaults = self.binder.defaults(&table, &declared, self.compiler)?;
        }
        Ok(Reference { constraint, child, defaults })
    }

    /// A table that actions may change.
    fn changed(&mut self, table: &Table) -> Result<usize, Unbound> {
        if let Some(at) = self.places.get(table.name()) {
            return Ok(*at);
        }
        self.places.insert(table.name().to_owned(), self.tables.len());
        let declared = Declared::of(table.schema())?;
        let at = self.add(table, &declared, Doing::Any)?;
        self.tables[at].generated = self.binder.generated(table, &declared, self.compiler)?;
        self.tables[at].checks = self.binder.checks(table, &declared, self.compiler)?;
        Ok(at)
    }
}

fn positions(schema: &Schema, names: &[String]) -> Vec<usize> {
    names.iter().filter_map(|name| schema.position(name)).collect()
}
