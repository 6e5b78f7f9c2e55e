//! `CREATE DOMAIN`, `ALTER DOMAIN` and `DROP DOMAIN`.

use atoll::{Column, DataType, Schema, Table, TableOptions, Transaction};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, CreateTable,
    DropBehavior, DropDomain, Ident, RenameTableNameKind, TableConstraint,
};
use sqlparser::tokenizer::Span;

use super::alter::carry_out;
use super::dropping::Dropping;
use super::user_types::{drop_with_columns, type_exists, within};
use super::{Outcome, SqlSession};
use crate::alter::Alteration;
use crate::ddl_rules::Rules;
use crate::declared::Declared;
use crate::declared::domain::Domain;
use crate::domain_syntax::VALUE;
use crate::domain_type;
use crate::error::{ApplyError, Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::prepared::query::Binder;
use crate::scope::Scope;
use crate::short::scalar::Began;
use crate::user_types::domain;
use crate::user_types::follow::Mention;
use crate::user_types::{UserType, follow, resolve, unknown};
use crate::{comments, names, types};

/// The column that stands for the values of a domain.
fn value_of(data_type: DataType) -> Result<Schema, SqlError> {
    Ok(Schema::keyless(vec![Column::nullable(VALUE, data_type)])?)
}

/// A domain with these rules, which are checked.
fn with_rules(
    binder: &Binder<'_>,
    (name, data_type): (&str, DataType),
    not_null: bool,
    rules: Rules,
) -> Result<Domain, SqlError> {
    let schema = rules.declare(binder, name, (value_of(data_type)?, &[]), &[])?;
    let mut declared = Declared::of(&schema)?;
    let default = declared.defaults.remove(VALUE);
    Ok(Domain { name: name.to_owned(), not_null, default, checks: declared.checks })
}

/// The rules of a domain, to be changed.
fn rules_of(domain: &Domain) -> Result<Rules, SqlError> {
    let defaults = domain.default.iter().map(|default| (VALUE.to_owned(), default.clone()));
    let (defaults, checks) = (defaults.collect(), domain.checks.clone());
    Rules::of(&Declared { defaults, checks, ..Declared::default() })
}

/// The name of a condition without one: PostgreSQL's.
fn unnamed(domain: &str, rules: &mut Rules) -> Ident {
    let usual = format!("{domain}_check");
    let others = (1..).map(|number| format!("{usual}{number}"));
    let mut all = std::iter::once(usual.clone()).chain(others);
    let free = all.find(|name| rules.constraint_name(name).is_none());
    Ident::with_quote('"', free.unwrap_or(usual))
}

impl SqlSession {
    /// Carries out `CREATE DOMAIN`.
    ///
    /// # Errors
    /// A type or a clause that no domain has; conditions that cannot be bound; the name exists.
    pub(super) fn create_domain(&mut self, create: &CreateTable) -> Result<Outcome, SqlError> {
        const TAG: &str = "CREATE DOMAIN";
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(&create.name)?;
        let find = |name: &str| UserType::find(&scope.catalog, name);
        let create = resolve::create_table(create, &find)?;
        let [column] = create.columns.as_slice() else {
            let message = "CREATE DOMAIN needs a type: CREATE DOMAIN name AS type";
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(span));
        };
        let interrupt = self.interrupt();
        let binder = Binder { scope: &scope, interrupt: &interrupt };
        let (domain, data_type) =
            described(&binder, &name, column).map_err(|error| error.at(span))?;
        if scope.has(&name) {
            return Err(type_exists(&name).at(span));
        }
        let schema = domain.schema(data_type).map_err(|error| error.at(span))?;
        let made = self.define(&mut |transaction| {
            transaction.create_table(&name, schema.clone(), &TableOptions::default())?;
            comments::dropped(transaction, &name)
        });
        made.map_err(|error| error.at(span))?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `ALTER DOMAIN`.
    ///
    /// # Errors
    /// A domain or a constraint that does not exist; rows that do not keep a new rule; others use a
    /// table with a column of the domain, and the statement does not wait for them.
    pub(super) fn alter_domain(&mut self, alter: &AlterTable) -> Result<Outcome, SqlError> {
        const TAG: &str = "ALTER DOMAIN";
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(&alter.name)?;
        let (object, old, data_type) = find(&scope, &name).map_err(|error| error.at(span))?;
        let interrupt = self.interrupt();
        let binder = Binder { scope: &scope, interrupt: &interrupt };
        let [operation] = alter.operations.as_slice() else {
            let message = "ALTER DOMAIN has one part";
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(span));
        };
        let Some((new, checks_rows)) = altered(&binder, (&old, data_type), operation)? else {
            self.tell_no_constraint(operation, scope.bare(&old.name));
            return Ok(Outcome::done(TAG, 0));
        };
        if new.name != old.name {
            if scope.has(&new.name) {
                return Err(type_exists(&new.name).at(span));
            }
            let mention = Mention::Type(&old.name);
            if let Some(first) =
                follow::mentioning(&scope.catalog, mention, (&|_| true, true))?.first()
            {
                let message = format!("the name cannot be changed: {first} mentions it");
                let hint = "drop it first, and make it anew".to_owned();
                return Err(SqlError::unsupported(message).with_hint(Some(hint)));
            }
        }
        for (table, _) in domain::users(&scope.catalog, &old.name)? {
            self.check_none_pending(&table, TAG)?;
        }
        let began = self.began();
        let change = (&old, &new, data_type, checks_rows);
        self.define(&mut |transaction| {
            become_domain(transaction, &object, change, (&scope, &interrupt, &began))
        })?;
        Ok(Outcome::done(TAG, 0))
    }

    /// Carries out `DROP DOMAIN`.
    ///
    /// # Errors
    /// A domain that does not exist, or that something depends on; others use a table with a column
    /// of it, and the statement does not wait for them.
    pub(super) fn drop_domain(&mut self, drop: &DropDomain) -> Result<Outcome, SqlError> {
        const TAG: &str = "DROP DOMAIN";
        self.may_define(TAG)?;
        let scope = self.scope()?;
        let (name, span) = names::table_name(&drop.name)?;
        let (object, ..) = match find(&scope, &name) {
            Ok(found) => found,
            Err(error) if drop.if_exists && error.cause() == Some(Cause::UnknownObject) => {
                self.tell_missing(&scope, "type", &drop.name);
                return Ok(Outcome::done(TAG, 0));
            }
            Err(error) => return Err(error.at(span)),
        };
        for (table, _) in domain::users(&scope.catalog, &name)? {
            self.check_none_pending(&table, TAG)?;
        }
        let (interrupt, began) = (self.interrupt(), self.began());
        let cascades = drop.drop_behavior == Some(DropBehavior::Cascade);
        let dropping = Dropping { scope: &scope, interrupt: &interrupt, began: &began, cascades };
        let mut gone = Vec::new();
        self.define(&mut |transaction| {
            gone = drop_domain(transaction, &object, &dropping)?;
            Ok(())
        })?;
        self.tell_cascades(&gone);
        Ok(Outcome::done(TAG, 0))
    }
}

/// Drops a domain. Returns what is gone with it.
///
/// # Errors
/// As `DROP DOMAIN`.
pub(super) fn drop_domain(
    transaction: &mut Transaction,
    object: &Table,
    dropping: &Dropping<'_>,
) -> Result<Vec<String>, ApplyError> {
    transaction.lock_table(object)?;
    let users = domain::users(&transaction.catalog(), object.name())?;
    drop_with_columns(transaction, object, &users, dropping)
}

/// Makes a domain another one.
///
/// # Errors
/// Rows do not keep a new rule; others use a table with a column of the domain.
pub(super) fn become_domain(
    transaction: &mut Transaction,
    object: &Table,
    (old, new, data_type, checks_rows): (&Domain, &Domain, DataType, bool),
    (scope, interrupt, began): (&Scope, &Interrupt, &Began),
) -> Result<(), ApplyError> {
    transaction.lock_table(object)?;
    let users = domain::users(&transaction.catalog(), &old.name)?;
    transaction.drop_table(object)?;
    transaction.create_table(&new.name, new.schema(data_type)?, &TableOptions::default())?;
    comments::follow(transaction, (&old.name, &new.name), &[], |_| ())?;
    for (table, _) in &users {
        let scope = within(scope, transaction);
        let binder = Binder { scope: &scope, interrupt };
        let table = names::find_table(&scope, table.name(), Span::empty())?;
        transaction.lock_table(&table)?;
        let mut alteration = Alteration::of(&scope, table, Span::empty())?;
        alteration.change_domain(&old.name, new, checks_rows);
        let altered = alteration.finish(&binder)?;
        carry_out(transaction, &binder, &[altered], began)?;
    }
    Ok(())
}

/// The domain that a column describes.
fn described(
    binder: &Binder<'_>,
    name: &str,
    column: &ColumnDef,
) -> Result<(Domain, DataType), SqlError> {
    if domain_type::of_marked(&column.data_type).is_some() {
        return Err(SqlError::unsupported("a domain over another domain is not supported"));
    }
    let data_type = types::column_type(&column.data_type)?;
    let (mut rules, mut not_null, mut said_null) = (Rules::default(), false, false);
    for option in &column.options {
        match &option.option {
            ColumnOption::NotNull => not_null = true,
            ColumnOption::Null => said_null = true,
            ColumnOption::Default(expr) => rules.add_default(VALUE, expr)?,
            ColumnOption::Check(check) if check.enforced.is_none() => {
                let given = option.name.as_ref().or(check.name.as_ref()).cloned();
                let given = given.unwrap_or_else(|| unnamed(binder.scope.bare(name), &mut rules));
                rules.add_check(Some(&given), &check.expr)?;
            }
            other => {
                let message = format!("{other} is not possible for domains");
                return Err(SqlError::new(SqlErrorKind::Syntax, message).with_hint(Some(
                    "a domain has DEFAULT, NOT NULL and CHECK (… VALUE …)".to_owned(),
                )));
            }
        }
    }
    if said_null && not_null {
        return Err(SqlError::new(SqlErrorKind::Syntax, "conflicting NULL/NOT NULL constraints"));
    }
    Ok((with_rules(binder, (name, data_type), not_null, rules)?, data_type))
}

/// A domain as a part of `ALTER DOMAIN` makes it, and whether rows have to be checked for it;
/// `None` if it stays the same.
fn altered(
    binder: &Binder<'_>,
    (old, data_type): (&Domain, DataType),
    operation: &AlterTableOperation,
) -> Result<Option<(Domain, bool)>, SqlError> {
    use AlterTableOperation as Operation;
    let (mut rules, mut name) = (rules_of(old)?, old.name.clone());
    let (mut not_null, mut checks_rows) = (old.not_null, false);
    let no_constraint = |ident: &Ident| {
        let name = names::fold(ident);
        let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", old.name);
        let error = SqlError::new(SqlErrorKind::Schema, message).at(ident.span);
        error.with_cause(Cause::UnknownObject)
    };
    match operation {
        Operation::AlterColumn { op: AlterColumnOperation::SetDefault { value }, .. } => {
            rules.drop_default(VALUE);
            rules.add_default(VALUE, value)?;
        }
        Operation::AlterColumn { op: AlterColumnOperation::DropDefault, .. } => {
            rules.drop_default(VALUE);
        }
        Operation::AlterColumn { op: AlterColumnOperation::SetNotNull, .. } => {
            (not_null, checks_rows) = (true, true);
        }
        Operation::AlterColumn { op: AlterColumnOperation::DropNotNull, .. } => not_null = false,
        Operation::AddConstraint { constraint: TableConstraint::Check(check), not_valid } => {
            let given = check
                .name
                .clone()
                .unwrap_or_else(|| unnamed(binder.scope.bare(&old.name), &mut rules));
            if rules.constraint_name(&names::fold(&given)).is_some() {
                let (constraint, domain) = (names::fold(&given), &old.name);
                let message =
                    format!("constraint \"{constraint}\" for domain \"{domain}\" already exists");
                let error = SqlError::new(SqlErrorKind::Schema, message).at(given.span);
                return Err(error.with_cause(Cause::ConstraintExists));
            }
            rules.add_check(Some(&given), &check.expr)?;
            checks_rows = !not_valid;
        }
        Operation::ValidateConstraint { name } => {
            if rules.constraint_name(&names::fold(name)).is_none() {
                return Err(no_constraint(name));
            }
            checks_rows = true;
        }
        Operation::DropConstraint { if_exists, name, .. } => {
            if !rules.drop_constraint(&names::fold(name)) {
                return if *if_exists { Ok(None) } else { Err(no_constraint(name)) };
            }
        }
        Operation::RenameConstraint { old_name, new_name } => {
            match rules.constraint_name(&names::fold(old_name)) {
                Some(name) => *name = names::fold(new_name),
                None => return Err(no_constraint(old_name)),
            }
        }
        Operation::RenameTable {
            table_name: RenameTableNameKind::To(new) | RenameTableNameKind::As(new),
        } => name = names::table_name(new)?.0,
        other => {
            let message = format!("ALTER DOMAIN … {other} is not supported");
            return Err(SqlError::unsupported(message).with_hint(Some(
                "the parts are SET and DROP DEFAULT, SET and DROP NOT NULL, ADD, DROP, RENAME and \
                 VALIDATE CONSTRAINT, and RENAME TO"
                    .to_owned(),
            )));
        }
    }
    let new = with_rules(binder, (&name, data_type), not_null, rules)?;
    Ok(Some((new, checks_rows)))
}

/// The domain of a name, its object and the type of its values.
fn find(scope: &Scope, name: &str) -> Result<(Table, Domain, DataType), SqlError> {
    let object = scope.catalog.get(name).ok_or_else(|| unknown(name))?;
    match UserType::find(&scope.catalog, name)? {
        Some(UserType::Domain(domain, data_type)) => Ok((object.clone(), domain, data_type)),
        _ => {
            let message = format!("\"{name}\" is not a domain");
            Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::OtherObject))
        }
    }
}
