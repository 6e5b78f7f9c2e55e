//! The role of a session, and the checks of what it may do (`privileges`).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use atoll::{Catalog, Database, Table, Transaction};
use sqlparser::ast::{
    AlterTableOperation, ColumnOption, CommentObject, CopySource, CopyTarget, Ident, ObjectName,
    ObjectType, Query, Spanned, Statement, TableConstraint, Visit, Visitor,
};
use sqlparser::tokenizer::Span;

use super::SqlSession;
use crate::domain_syntax::ALTER_DOMAIN;
use crate::error::{ApplyError, SqlError};
use crate::like_clause;
use crate::mark::MARK;
use crate::names;
use crate::prepared::cache::Known;
use crate::privileges::Roles;
use crate::privileges::guard::{Guard, SessionRole, kind, on_relation, on_schema, rights};
use crate::privileges::needed::{self, Needed};
use crate::rights::{Privileges, denied, not_owner};
use crate::schemas;
use crate::{comments, copy};

impl SqlSession {
    /// Sets the role of the session: its privileges are checked from now on. Without one, it may do
    /// everything.
    pub fn set_role(&mut self, role: Option<(Arc<dyn Roles>, &str)>) {
        let role = role.map(|(roles, name)| Arc::new(SessionRole::new(roles, name)));
        self.context.set_role(role.clone());
        self.guard = role.map(|role| Box::new(Guard::new(role)));
    }

    /// What is owned by a role, or grants it something: `table t`; `None` for nothing.
    ///
    /// # Errors
    /// The database belongs to another process.
    pub fn mentions_of_role(&self, role: &str) -> Result<Option<String>, SqlError> {
        let catalog = self.catalog()?;
        for schema in schemas::schemas_of(&catalog) {
            if schemas::rights(&catalog, &schema)?.mentions(role) {
                return Ok(Some(format!("schema {schema}")));
            }
        }
        for object in catalog.tables().chain(catalog.objects()) {
            let name = object.name();
            if !name.starts_with(MARK) && rights(&catalog, name)?.mentions(role) {
                return Ok(Some(format!("{} {name}", kind(&catalog, name))));
            }
        }
        Ok(None)
    }

    fn catalog(&self) -> Result<Arc<Catalog>, SqlError> {
        Ok(self.scope()?.catalog)
    }

    /// The guard of a session that does not pass all checks.
    pub(super) fn restricted(&mut self) -> Option<&mut Guard> {
        let guard = self.guard.as_deref_mut()?;
        if guard.is_superuser() { None } else { Some(guard) }
    }

    /// Checks what a bound statement needs.
    ///
    /// # Errors
    /// The role of the session may not do it.
    pub(super) fn check_known(&mut self, known: &Known) -> Result<(), SqlError> {
        if self.restricted().is_none() {
            return Ok(());
        }
        let needed = known.needed()?;
        self.check_needed(&needed)
    }

    fn check_needed(&mut self, needed: &[Needed]) -> Result<(), SqlError> {
        let names = self.names_version();
        // The guard is set aside, for the catalog is the session's.
        let Some(mut guard) = self.guard.take() else { return Ok(()) };
        let checked = guard.check(needed, names, &|| self.catalog());
        self.guard = Some(guard);
        checked
    }

    pub(super) fn check_one(
        &mut self,
        relation: &str,
        privileges: Privileges,
    ) -> Result<(), SqlError> {
        // One that does not exist is told otherwise.
        if self.restricted().is_none() || !self.scope()?.has(relation) {
            return Ok(());
        }
        self.check_needed(&[Needed { relation: relation.to_owned(), privileges }])
    }

    /// Checks that the role owns a relation.
    fn check_owner_of(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        let (relation, _) = names::table_name(name)?;
        self.check_owner_of_flat(&relation)
    }

    pub(super) fn check_owner_of_flat(&mut self, relation: &str) -> Result<(), SqlError> {
        let scope = self.scope()?;
        let Some(guard) = self.restricted() else { return Ok(()) };
        if !scope.has(relation) || rights(&scope.catalog, relation)?.is_owned_by(&guard.info.roles)
        {
            return Ok(());
        }
        let bare = scope.bare(relation);
        Err(not_owner(&format!("{} {bare}", kind(&scope.catalog, relation))))
    }

    /// Checks that the role owns the table of an index.
    fn check_owner_of_index(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        let (index, _) = names::table_name(name)?;
        match self.scope()?.table_of_index(&index) {
            Some(table) => self.check_owner_of_flat(table.name()),
            None => Ok(()),
        }
    }

    fn check_owner_of_schema(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        let catalog = self.catalog()?;
        let schema = names::last(name);
        let Some(guard) = self.restricted() else { return Ok(()) };
        match schemas::rights(&catalog, &schema)?.is_owned_by(&guard.info.roles) {
            true => Ok(()),
            false => Err(not_owner(&format!("schema {schema}"))),
        }
    }

    /// Checks that the role may create something of this name.
    fn check_creates(&mut self, name: &ObjectName) -> Result<(), SqlError> {
        let (relation, _) = names::table_name(name)?;
        self.check_creates_flat(&relation)
    }

    fn check_queries(&mut self, statement: &Statement) -> Result<(), SqlError> {
        let needed = needed::of(statement)?;
        self.check_needed(&needed)
    }

    /// Checks what any other statement needs.
    ///
    /// # Errors
    /// The role of the session may not do it.
    pub(super) fn check_allowed(&mut self, statement: &Statement) -> Result<(), SqlError> {
        if self.restricted().is_none() {
            return Ok(());
        }
        match statement {
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_) => self.check_queries(statement),
            Statement::Explain { statement, .. } => self.check_allowed(statement),
            Statement::CreateDomain(create) => {
                self.check_creates(&create.name)?;
                no_query(statement)
            }
            // Whatever the server has told of the statement: it is no check of its own.
            Statement::Copy { target, .. }
                if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) =>
            {
                let hint = "COPY … FROM STDIN and TO STDOUT are for every role";
                Err(denied("COPY with a file of the server").with_hint(Some(hint.to_owned())))
            }
            Statement::Copy { source, to, options, .. } => match source {
                CopySource::Table { table_name, .. } => {
                    let (relation, _) = names::table_name(table_name)?;
                    let changes_others = copy::may_meet_rows(options);
                    let privilege = match (to, changes_others) {
                        (true, _) => Privileges::SELECT,
                        (false, false) => Privileges::INSERT,
                        (false, true) => {
                            self.check_one(&relation, Privileges::SELECT)?;
                            self.check_one(&relation, Privileges::UPDATE)?;
                            Privileges::INSERT
                        }
                    };
                    self.check_one(&relation, privilege)
                }
                CopySource::Query(query) => self.check_queries(&Statement::Query(query.clone())),
            },
            Statement::Truncate(truncate) => truncate.table_names.iter().try_for_each(|one| {
                let (relation, _) = names::table_name(&one.name)?;
                self.check_one(&relation, Privileges::TRUNCATE)
            }),
            Statement::Lock(lock) => lock.tables.iter().try_for_each(|one| {
                let (relation, _) = names::table_name(&one.name)?;
                self.check_lock(&relation)
            }),
            Statement::CreateTable(create) => {
                self.check_creates(&create.name)?;
                for column in &create.columns {
                    if let Some(other) = like_clause::other_mut(&mut column.clone()) {
                        let (relation, _) = names::table_name(other)?;
                        self.check_one(&relation, Privileges::SELECT)?;
                    }
                    for option in &column.options {
                        if let ColumnOption::ForeignKey(key) = &option.option {
                            self.check_references(&key.foreign_table, &create.name)?;
                        }
                    }
                }
                for constraint in &create.constraints {
                    if let TableConstraint::ForeignKey(key) = constraint {
                        self.check_references(&key.foreign_table, &create.name)?;
                    }
                }
                match &create.query {
                    Some(query) => self.check_queries(&Statement::Query(query.clone())),
                    None => no_query(statement),
                }
            }
            Statement::CreateView(create) => {
                self.check_creates(&create.name)?;
                match create.or_replace {
                    true => self.check_owner_of(&create.name),
                    false => Ok(()),
                }
            }
            Statement::CreateSequence { temporary: alters, name, .. } => match *alters {
                true => self.check_owner_of(name),
                false => self.check_creates(name),
            },
            Statement::CreateType { name, .. } => {
                self.check_creates(name)?;
                no_query(statement)
            }
            Statement::CreateSchema { .. } => Err(denied("database")),
            Statement::AlterTable(alter) => {
                self.check_owner_of(&alter.name)?;
                no_query(statement)?;
                if alter.table_type == Some(ALTER_DOMAIN) {
                    return Ok(());
                }
                for operation in &alter.operations {
                    match operation {
                        AlterTableOperation::AddConstraint {
                            constraint: TableConstraint::ForeignKey(key),
                            ..
                        } => self.check_references(&key.foreign_table, &alter.name)?,
                        AlterTableOperation::AddColumn { column_def, .. } => {
                            for option in &column_def.options {
                                if let ColumnOption::ForeignKey(key) = &option.option {
                                    self.check_references(&key.foreign_table, &alter.name)?;
                                }
                            }
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Statement::AlterType(alter) => self.check_owner_of(&alter.name),
            Statement::AlterIndex { name, .. } => self.check_owner_of_index(name),
            Statement::AlterSchema(alter) => self.check_owner_of_schema(&alter.name),
            Statement::CreateIndex(create) => self.check_owner_of(&create.table_name),
            Statement::DropDomain(drop) => self.check_owner_of(&drop.name),
            Statement::Drop { object_type, names, .. } => {
                names.iter().try_for_each(|name| match object_type {
                    ObjectType::Schema => self.check_owner_of_schema(name),
                    ObjectType::Index => self.check_owner_of_index(name),
                    _ => self.check_owner_of(name),
                })
            }
            Statement::Comment { object_type, object_name, .. } => match object_type {
                CommentObject::Schema => self.check_owner_of_schema(object_name),
                CommentObject::Index => self.check_owner_of_index(object_name),
                CommentObject::Table if !is_marked(object_name) => self.check_owner_of(object_name),
                CommentObject::View
                | CommentObject::Sequence
                | CommentObject::Type
                | CommentObject::Domain => self.check_owner_of(object_name),
                _ => {
                    // A part of a relation, behind its name; perhaps a mark before that.
                    let is_mark = |part: &&Ident| part.value.starts_with(MARK);
                    let idents: Vec<&Ident> =
                        object_name.0.iter().filter_map(|part| part.as_ident()).collect();
                    let idents: Vec<Ident> =
                        idents.into_iter().filter(|part| !is_mark(part)).cloned().collect();
                    let relation = idents[..idents.len().saturating_sub(1)].to_vec();
                    match relation.is_empty() {
                        true => Ok(()),
                        false => self.check_owner_of(&relation.into()),
                    }
                }
            },
            _ => Ok(()),
        }
    }

    /// Checks that something may be created under a flat name, or come to have it.
    pub(super) fn check_creates_flat(&mut self, relation: &str) -> Result<(), SqlError> {
        let catalog = self.catalog()?;
        let Some(guard) = self.restricted() else { return Ok(()) };
        let (schema, _) = schemas::split(relation, &|name| catalog.get(name).is_some());
        match on_schema(&catalog, schema, &guard.info.roles)?.has(Privileges::CREATE) {
            true => Ok(()),
            false => Err(denied(&format!("schema {schema}"))),
        }
    }

    fn check_lock(&mut self, relation: &str) -> Result<(), SqlError> {
        let scope = self.scope()?;
        let Some(guard) = self.restricted() else { return Ok(()) };
        let changes = Privileges::UPDATE | Privileges::DELETE | Privileges::TRUNCATE;
        let has = on_relation(&scope.catalog, relation, &guard.info.roles)?;
        match has.has_any(changes) || !scope.has(relation) {
            true => Ok(()),
            false => Err(denied(&format!("table {}", scope.bare(relation)))),
        }
    }

    fn check_references(
        &mut self,
        parent: &ObjectName,
        child: &ObjectName,
    ) -> Result<(), SqlError> {
        let ((parent, _), (child, _)) = (names::table_name(parent)?, names::table_name(child)?);
        // A table that refers to itself may be a new one.
        if parent == child { Ok(()) } else { self.check_one(&parent, Privileges::REFERENCES) }
    }

    /// The owner of what this session creates; none of a superuser's.
    pub(super) fn owner(&mut self) -> Option<String> {
        self.restricted().map(|guard| guard.role.name.clone())
    }
}

/// Whether the name of what a comment is on is that of a constraint of a table.
fn is_marked(name: &ObjectName) -> bool {
    let first = name.0.first().and_then(|part| part.as_ident());
    first.is_some_and(|part| part.value.starts_with(MARK))
}

/// Checks that a definition has no query in it: it would run for the owner of the definition, or
/// for those that use what is defined.
///
/// # Errors
/// It has one.
fn no_query(statement: &Statement) -> Result<(), SqlError> {
    /// Stops at a query.
    struct Queries;
    impl Visitor for Queries {
        type Break = Span;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Span> {
            ControlFlow::Break(query.span())
        }
    }
    match statement.visit(&mut Queries) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(span) => {
            Err(SqlError::unsupported("a definition cannot use a subquery").at(span))
        }
    }
}

/// The names of the relations of a database.
fn relations(catalog: &Catalog) -> Vec<String> {
    let all = catalog.tables().chain(catalog.objects());
    let all = all.map(|one| one.name().to_owned());
    all.filter(|name| !name.starts_with(MARK)).collect()
}

/// Gives what a definition has made to its owner: what was not there before, in any schema, and was
/// not committed by others meanwhile.
///
/// # Errors
/// Those of the definition.
pub(super) fn with_owner(
    db: &Database,
    transaction: &mut Transaction,
    owner: &str,
    define: &mut dyn FnMut(&mut Transaction) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let before = transaction.catalog();
    define(transaction)?;
    let after = transaction.catalog();
    let committed = db.catalog().map_err(SqlError::from)?;
    let all = |catalog: &Catalog| -> HashSet<u64> {
        catalog.tables().chain(catalog.objects()).map(Table::serial).collect()
    };
    let known: HashSet<u64> = all(&before).union(&all(&committed)).copied().collect();
    for name in relations(&after) {
        let is_new = after.get(&name).is_some_and(|one| !known.contains(&one.serial()));
        if is_new && before.get(&name).is_none() && rights(&after, &name)?.owner.is_none() {
            comments::change(transaction, &name, |all| {
                all.rights.owner = Some(owner.to_owned());
            })?;
        }
    }
    Ok(())
}
