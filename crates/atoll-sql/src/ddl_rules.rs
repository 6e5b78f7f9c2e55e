//! `DEFAULT`, generated columns, `CHECK` and foreign keys in definitions of tables.
//!
//! They are checked when the table is defined: what could not be computed for a row is refused
//! then, and not when the first row comes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use atoll::{DataType, IndexSpec, Schema};
use sqlparser::ast::{
    Expr, FunctionArguments, Ident, Spanned, visit_expressions, visit_expressions_mut,
};

use crate::declared::domain::Domain;
use crate::declared::{Check, Declared, expression};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign::define::{Child, Written};
use crate::foreign_key::{Action, ForeignKey};
use crate::like_clause::Including;
use crate::literal::Literal;
use crate::prepared::change::invalid;
use crate::prepared::query::Binder;
use crate::sequence::definition::unknown;
use crate::sequence::mentions;
use crate::{eval, names, types};

/// What the definition of a table says about its rows.
#[derive(Default)]
pub(crate) struct Rules {
    defaults: Vec<(String, Expr)>,
    generated: Vec<(String, Expr)>,
    /// The columns that are numbered, and whether they always are.
    identities: BTreeMap<String, bool>,
    checks: Vec<(Option<String>, Expr)>,
    domains: BTreeMap<String, Domain>,
    /// Those that the table has already, and new ones.
    foreign_keys: Vec<ForeignKey>,
    written: Vec<Written>,
}

impl Rules {
    /// Adds the default of a column.
    ///
    /// # Errors
    /// The column has one already; the expression has parts that no default has.
    pub(crate) fn add_default(&mut self, column: &str, expr: &Expr) -> Result<(), SqlError> {
        if self.is_generated(column) {
            let message = format!("column \"{column}\" is a generated column");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(expr.span()));
        }
        if self.identities.contains_key(column) {
            let message = format!("column \"{column}\" is an identity column");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(expr.span()));
        }
        if self.defaults.iter().any(|(other, _)| other == column) {
            let message = format!("column \"{column}\" has two defaults");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(expr.span()));
        }
        refuse_subqueries(expr, "DEFAULT")?;
        if let Some(name) = columns(expr).into_iter().next() {
            let message = format!("DEFAULT cannot use a column, here \"{}\"", name.value);
            return Err(SqlError::unsupported(message).at(name.span));
        }
        self.defaults.push((column.to_owned(), expr.clone()));
        Ok(())
    }

    /// Adds the expression of a generated column.
    ///
    /// # Errors
    /// The column has a default; the expression has parts that no such expression has.
    pub(crate) fn add_generated(&mut self, column: &str, expr: &Expr) -> Result<(), SqlError> {
        if self.defaults.iter().chain(&self.generated).any(|(other, _)| other == column) {
            let message =
                format!("both default and generation expression specified for column \"{column}\"");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(expr.span()));
        }
        refuse_subqueries(expr, "a column generation expression")?;
        self.generated.push((column.to_owned(), expr.clone()));
        Ok(())
    }

    /// Adds what another table says about its rows, which calls itself by the first name.
    pub(crate) fn add_like(&mut self, mut other: Self, including: Including, names: (&str, &str)) {
        other.rename_table(names.0, names.1);
        self.domains.append(&mut other.domains);
        if including.defaults {
            // A sequence of a numbered column is its own.
            let others = other.defaults.into_iter();
            self.defaults.extend(others.filter(|(one, _)| !other.identities.contains_key(one)));
        }
        if including.generated {
            self.generated.extend(other.generated);
        }
        if including.constraints {
            self.checks.extend(other.checks);
        }
    }

    /// Whether a column is generated.
    pub(crate) fn is_generated(&self, column: &str) -> bool {
        self.generated.iter().any(|(other, _)| other == column)
    }

    /// The generated columns that are computed from a column.
    pub(crate) fn generated_from(&self, column: &str) -> Vec<String> {
        let names_it = |expr: &Expr| columns(expr).iter().any(|ident| names::fold(ident) == column);
        let generated = self.generated.iter().filter(|(_, expr)| names_it(expr));
        generated.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a column is numbered, and whether it always is.
    pub(crate) fn identity(&self, column: &str) -> Option<bool> {
        self.identities.get(column).copied()
    }

    /// Whether a column is numbered.
    pub(crate) fn is_numbered(&self, column: &str) -> bool {
        self.identities.contains_key(column)
    }

    /// A column is numbered by a sequence.
    ///
    /// # Errors
    /// It has a default, or is computed.
    pub(crate) fn number(
        &mut self,
        column: &str,
        sequence: &str,
        identity: Option<bool>,
    ) -> Result<(), SqlError> {
        let has_default = self.defaults.iter().chain(&self.generated).any(|(one, _)| one == column);
        if has_default {
            let message = match identity {
                Some(_) => {
                    format!("both default and identity specified for column \"{column}\"")
                }
                None => format!("multiple default values specified for column \"{column}\""),
            };
            return Err(SqlError::new(SqlErrorKind::Syntax, message));
        }
        self.defaults.push((column.to_owned(), mentions::next_of(sequence)?));
        if let Some(always) = identity {
            self.identities.insert(column.to_owned(), always);
        }
        Ok(())
    }

    /// A sequence has another name.
    pub(crate) fn rename_sequence(&mut self, old: &str, new: &str) {
        for (_, expr) in &mut self.defaults {
            *expr = mentions::renamed(expr, old, new);
        }
    }

    /// A column is no longer generated.
    pub(crate) fn drop_generated(&mut self, column: &str) {
        self.generated.retain(|(other, _)| other != column);
    }

    /// Adds a condition, perhaps with a name.
    ///
    /// # Errors
    /// It has parts that no condition has.
    pub(crate) fn add_check(&mut self, name: Option<&Ident>, expr: &Expr) -> Result<(), SqlError> {
        refuse_subqueries(expr, "CHECK")?;
        self.checks.push((name.map(names::fold), expr.clone()));
        Ok(())
    }

    /// What was declared of a table, to be changed.
    ///
    /// # Errors
    /// An expression cannot be parsed.
    pub(crate) fn of(declared: &Declared) -> Result<Self, SqlError> {
        let Declared { defaults, generated, identities, domains, checks, foreign_keys } = declared;
        let (identities, domains) = (identities.clone(), domains.clone());
        let of_column = |(column, text): (&String, &String)| -> Result<_, SqlError> {
            Ok((column.clone(), expression(text)?))
        };
        let defaults = defaults.iter().map(of_column);
        let generated = generated.iter().map(of_column).collect::<Result<_, _>>()?;
        let checks =
            checks.iter().map(|one| Ok((Some(one.name.clone()), expression(&one.condition)?)));
        let defaults = defaults.collect::<Result<_, SqlError>>()?;
        let checks = checks.collect::<Result<_, SqlError>>()?;
        let (foreign_keys, written) = (foreign_keys.clone(), Vec::new());
        Ok(Self { defaults, generated, identities, checks, domains, foreign_keys, written })
    }

    /// The default of a column.
    pub(crate) fn default_of(&self, column: &str) -> Option<&Expr> {
        self.defaults.iter().find(|(other, _)| other == column).map(|(_, expr)| expr)
    }

    /// The value that rows get for a column that is added.
    ///
    /// # Errors
    /// The default of its domain cannot be parsed.
    pub(crate) fn first_value(&self, column: &str) -> Result<Option<Expr>, SqlError> {
        let of_domain = || self.domains.get(column)?.default.as_deref();
        match self.default_of(column) {
            Some(default) => Ok(Some(default.clone())),
            None => of_domain().map(expression).transpose(),
        }
    }

    /// A column is one of a domain, or of none.
    pub(crate) fn set_domain(&mut self, column: &str, domain: Option<Domain>) {
        match domain {
            Some(domain) => drop(self.domains.insert(column.to_owned(), domain)),
            None => drop(self.domains.remove(column)),
        }
    }

    /// A domain has become another one.
    pub(crate) fn change_domain(&mut self, old: &str, new: &Domain) {
        let of = self.domains.values_mut().filter(|domain| domain.name == old);
        of.for_each(|domain| domain.clone_from(new));
    }

    /// The default of a column, to be changed.
    pub(crate) fn default_mut(&mut self, column: &str) -> Option<&mut Expr> {
        let mut defaults = self.defaults.iter_mut();
        defaults.find(|(other, _)| other == column).map(|(_, default)| default)
    }

    /// Drops the default of a column.
    pub(crate) fn drop_default(&mut self, column: &str) {
        self.defaults.retain(|(other, _)| other != column);
        self.identities.remove(column);
    }

    /// A column is gone, and all that depends on it.
    pub(crate) fn drop_column(&mut self, column: &str) {
        self.drop_default(column);
        self.drop_generated(column);
        self.domains.remove(column);
        let names_it = |expr: &Expr| columns(expr).iter().any(|ident| names::fold(ident) == column);
        self.checks.retain(|(_, condition)| !names_it(condition));
        self.foreign_keys.retain(|key| !key.columns.iter().any(|one| one == column));
    }

    /// A column has another name.
    pub(crate) fn rename_column(&mut self, old: &str, new: &str) {
        for (column, _) in self.defaults.iter_mut().chain(&mut self.generated) {
            if column == old {
                new.clone_into(column);
            }
        }
        if let Some(always) = self.identities.remove(old) {
            self.identities.insert(new.to_owned(), always);
        }
        if let Some(domain) = self.domains.remove(old) {
            self.domains.insert(new.to_owned(), domain);
        }
        let of_keys = self.foreign_keys.iter_mut().flat_map(|key| {
            let ForeignKey { columns, on_delete_columns, .. } = key;
            columns.iter_mut().chain(on_delete_columns)
        });
        of_keys.filter(|column| *column == old).for_each(|column| new.clone_into(column));
        let rename = |ident: &mut Ident| {
            if names::fold(ident) == old {
                *ident = Ident::with_quote('"', new);
            }
        };
        let of_checks = self.checks.iter_mut().map(|(_, condition)| condition);
        for expr in of_checks.chain(self.generated.iter_mut().map(|(_, expr)| expr)) {
            let _ = visit_expressions_mut(expr, |inner| {
                match inner {
                    Expr::Identifier(ident) => rename(ident),
                    Expr::CompoundIdentifier(idents) => {
                        idents.last_mut().into_iter().for_each(rename)
                    }
                    _ => {}
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }

    /// The table has another name, by which its conditions may call it.
    pub(crate) fn rename_table(&mut self, old: &str, new: &str) {
        let of_checks = self.checks.iter_mut().map(|(_, condition)| condition);
        for expr in of_checks.chain(self.generated.iter_mut().map(|(_, expr)| expr)) {
            let _ = visit_expressions_mut(expr, |inner| {
                if let Expr::CompoundIdentifier(idents) = inner
                    && let [.., table, _] = idents.as_mut_slice()
                    && names::fold(table) == old
                {
                    *table = Ident::with_quote('"', new);
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }

    /// The name of a condition or a foreign key, to be changed.
    pub(crate) fn constraint_name(&mut self, name: &str) -> Option<&mut String> {
        let of_checks = self.checks.iter_mut().filter_map(|(name, _)| name.as_mut());
        let mut names = of_checks.chain(self.foreign_keys.iter_mut().map(|key| &mut key.name));
        names.find(|one| *one == name)
    }

    /// Drops the condition or the foreign key of a name; returns whether there was one.
    pub(crate) fn drop_constraint(&mut self, name: &str) -> bool {
        let count = self.checks.len() + self.foreign_keys.len();
        self.checks.retain(|(one, _)| one.as_deref() != Some(name));
        self.foreign_keys.retain(|key| key.name != name);
        self.checks.len() + self.foreign_keys.len() < count
    }

    /// The foreign keys that the table has already.
    pub(crate) fn foreign_keys(&mut self) -> &mut Vec<ForeignKey> {
        &mut self.foreign_keys
    }

    /// Adds a foreign key.
    pub(crate) fn add_foreign_key(&mut self, key: Written) {
        self.written.push(key);
    }

    /// Checks everything against the columns and the indexes of the table, which does not exist
    /// yet, and against the tables that it refers to.
    ///
    /// # Errors
    /// Names that do not exist, types that do not fit, a name of a constraint that is used twice.
    pub(crate) fn declare(
        self,
        binder: &Binder<'_>,
        table: &str,
        (schema, indexes): (Schema, &[IndexSpec]),
        new_sequences: &[String],
    ) -> Result<Schema, SqlError> {
        let bare = binder.scope.bare(table);
        let Self { foreign_keys, identities, domains, .. } = self;
        let mut declared = Declared { foreign_keys, identities, domains, ..Declared::default() };
        for (column, expr) in self.defaults {
            let at = schema.position(&column).unwrap_or_default();
            match eval::constant(&expr) {
                Some(literal) => {
                    // A default of NULL is no error, even where NULL is none.
                    let literal = literal?;
                    if !matches!(literal, Literal::Null) {
                        literal.into_column(&schema, at).map_err(|e| e.at(expr.span()))?;
                    }
                }
                None => binder.check_default(&expr).map_err(|error| error.at(expr.span()))?,
            }
            for name in mentions::of(&expr) {
                if binder.scope.catalog.get(&name).is_none() && !new_sequences.contains(&name) {
                    return Err(unknown(&name).at(expr.span()));
                }
            }
            declared.defaults.insert(column, expr.to_string());
        }
        for (column, expr) in &self.generated {
            let at = schema.position(column).unwrap_or_default();
            let of_generated = columns(expr)
                .into_iter()
                .find(|ident| self.generated.iter().any(|(other, _)| *other == names::fold(ident)));
            if let Some(other) = of_generated {
                let message = format!(
                    "cannot use generated column \"{}\" in column generation expression",
                    names::fold(&other)
                );
                let detail = "A generated column cannot reference another generated column.";
                return Err(invalid(message).with_detail(detail.to_owned()).at(other.span));
            }
            let checked = binder.check_generated(expr, bare, (&schema, at));
            let from = checked.map_err(|error| error.at(expr.span()))?;
            declared.generated.insert(column.clone(), as_stored(expr, from, &schema, at));
        }
        for (name, expr) in self.checks {
            let name = match name {
                Some(name) if declared.has_constraint(&name) => {
                    let message = format!("two constraints have the name \"{name}\"");
                    return Err(SqlError::new(SqlErrorKind::Schema, message)
                        .with_cause(Cause::ConstraintExists)
                        .at(expr.span()));
                }
                Some(name) => name,
                None => unnamed(bare, &columns(&expr), &declared),
            };
            let checked = binder.check_condition(&expr, bare, &schema);
            checked.map_err(|error| error.at(expr.span()))?;
            declared.checks.push(Check { name, condition: expr.to_string() });
        }
        for written in self.written {
            let child = Child { name: table, schema: &schema, indexes };
            let key = written.define(binder.scope, child, &declared)?;
            check_actions(&key, &declared)?;
            declared.foreign_keys.push(key);
        }
        declared.on(schema)
    }
}

/// The text of an expression that gives values of a type to a column: what is no text is made one.
fn as_stored(expr: &Expr, from: Option<DataType>, schema: &Schema, at: usize) -> String {
    let is_text = |one| types::assigned(one) == DataType::Text;
    match from {
        Some(from) if is_text(schema.columns()[at].data_type) && !is_text(from) => {
            format!("CAST({expr} AS TEXT)")
        }
        _ => expr.to_string(),
    }
}

/// Checks that no action of a foreign key sets a generated column.
fn check_actions(key: &ForeignKey, declared: &Declared) -> Result<(), SqlError> {
    let is_generated = key.columns.iter().any(|column| declared.generated.contains_key(column));
    let clause = match (key.on_update, key.on_delete) {
        (Action::Cascade | Action::SetNull | Action::SetDefault, _) => "ON UPDATE",
        (_, Action::SetNull | Action::SetDefault) => "ON DELETE",
        _ => return Ok(()),
    };
    if !is_generated {
        return Ok(());
    }
    let message =
        format!("invalid {clause} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlErrorKind::Syntax, message))
}

/// The name of a condition without one: PostgreSQL's.
fn unnamed(table: &str, columns: &[Ident], declared: &Declared) -> String {
    let mut names: Vec<String> = columns.iter().map(names::fold).collect();
    names.dedup();
    let usual = match names.as_slice() {
        [only] => format!("{table}_{only}_check"),
        _ => format!("{table}_check"),
    };
    let others = (1..).map(|number| format!("{usual}{number}"));
    let is_free = |name: &String| !declared.has_constraint(name);
    let free = std::iter::once(usual.clone()).chain(others).find(is_free);
    free.unwrap_or(usual)
}

/// The columns that an expression names.
fn columns(expr: &Expr) -> Vec<Ident> {
    let mut columns = Vec::new();
    let _ = visit_expressions(expr, |inner| {
        match inner {
            Expr::Identifier(ident) => columns.push(ident.clone()),
            Expr::CompoundIdentifier(idents) => columns.extend(idents.last().cloned()),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    columns
}

fn refuse_subqueries(expr: &Expr, clause: &str) -> Result<(), SqlError> {
    let has_one = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        Expr::Function(function) if matches!(function.args, FunctionArguments::Subquery(_)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if has_one.is_continue() {
        return Ok(());
    }
    let message = format!("{clause} cannot use a subquery");
    Err(SqlError::unsupported(message).at(expr.span()))
}
