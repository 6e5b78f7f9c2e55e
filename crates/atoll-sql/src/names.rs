//! Names in statements: folding as in PostgreSQL, and suggestions for mistyped names.
//!
//! `SQLNAME-1`: in a name without quotes the letters A to Z are folded to lower case, as PostgreSQL
//! does with UTF-8; all other letters, and quoted names, are not changed. Definitions, changes and
//! queries fold by this rule alone. `SQLNAME-2`: a column that is created for a file keeps its
//! name; SQL needs quotes for it unless it is a plain lower-case identifier.

use atoll::{Column, Schema, Table};
use sqlparser::ast::{Ident, ObjectName, Spanned};
use sqlparser::tokenizer::Span;

use crate::about::About;
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
pub(crate) use crate::fold::fold;
use crate::parse;
use crate::schemas::{self, SYSTEM};
use crate::scope::Scope;
use crate::sequence_names;

/// The name under which a database's catalog is known to queries.
pub(crate) const CATALOG: &str = "atoll";
/// Most names that an error proposes.
const NEAR_MAX: usize = 3;
/// Most names that an error lists.
const LIST_MAX: usize = 12;

/// The flat name of the relation that a resolved name denotes (`SCHEMA-1`), and its place.
///
/// # Errors
/// It is of the system, or of another database.
pub(crate) fn table_name(name: &ObjectName) -> Result<(String, Span), SqlError> {
    let idents: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
    let idents = idents.unwrap_or_default();
    let (schema, table) = match idents.as_slice() {
        [table] => return Ok((fold(table), table.span)),
        [schema, table] => (fold(schema), table),
        [database, schema, table] if fold(database) == CATALOG => (fold(schema), table),
        [database, _, _] => {
            let message = format!("cross-database references are not implemented: \"{name}\"");
            return Err(SqlError::unsupported(message).at(database.span));
        }
        _ => {
            let message = format!("improper relation name (too many dotted names): {name}");
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(name.span()));
        }
    };
    if SYSTEM.contains(&schema.as_str()) {
        let message = format!("relation \"{schema}.{}\" is not one of the database", fold(table));
        return Err(SqlError::new(SqlErrorKind::UnknownTable, message).at(table.span));
    }
    Ok((schemas::flat(&schema, &fold(table)), table.span))
}

/// The flat name of a relation in a text, as a command line has it.
pub fn relation_in_text(text: &str) -> Option<String> {
    let name = sequence_names::object_name(text.trim_end_matches(';')).ok()?;
    table_name(&name).ok().map(|(name, _)| name)
}

/// The last part of a name: what a relation is called in the statement that names it.
pub(crate) fn last(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default()
}

/// The names of a file's columns.
pub(crate) struct FileNames {
    /// A name for each, empty for none.
    pub(crate) names: Vec<String>,
    /// Those that have none in the file and were given one.
    pub(crate) given: Vec<String>,
}

/// The names that a file gives to its columns, without blanks around them. Line breaks and other
/// control characters, which no name may have, become spaces; a column without a name is called
/// `column` and its number.
pub(crate) fn of_header<'a>(fields: impl Iterator<Item = &'a str>) -> FileNames {
    let mut names: Vec<String> =
        fields.map(|name| name.replace(char::is_control, " ").trim().to_owned()).collect();
    let mut given = Vec::new();
    for at in 0..names.len() {
        if names[at].is_empty() {
            let mut name = format!("column{}", at + 1);
            while find(names.iter().map(String::as_str), &name).is_some() {
                name.push('_');
            }
            names[at].clone_from(&name);
            given.push(name);
        }
    }
    FileNames { names, given }
}

/// The position of a name: the same, or else the only one that is the same in lower case.
pub(crate) fn find<'a>(
    mut known: impl Iterator<Item = &'a str> + Clone,
    name: &str,
) -> Option<usize> {
    if let Some(at) = known.clone().position(|other| other == name) {
        return Some(at);
    }
    let lower = name.to_lowercase();
    let mut same = |other: &str| other.to_lowercase() == lower;
    let at = known.position(&mut same)?;
    if known.any(same) { None } else { Some(at) }
}

/// The column that a name without qualifier denotes.
pub(crate) fn column_name(name: &ObjectName) -> Result<&Ident, SqlError> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
    .ok_or_else(|| SqlError::new(SqlErrorKind::Syntax, format!("{name} is not a column name")))
}

/// Position of a column by its name in a statement.
pub(crate) fn position(schema: &Schema, table: &str, ident: &Ident) -> Result<usize, SqlError> {
    let name = fold(ident);
    schema.position(&name).ok_or_else(|| {
        let known = schema.visible().iter().map(|column| column.name.as_str());
        unknown_column(&name, Some(table), known).at(ident.span)
    })
}

/// Positions of the columns that an `INSERT` or a `COPY` names; all of them if it names none.
///
/// # Errors
/// Names that do not exist, or are there twice.
pub(crate) fn named_columns<'a>(
    table: &Table,
    named: impl ExactSizeIterator<Item = Result<&'a Ident, SqlError>>,
) -> Result<Vec<usize>, SqlError> {
    let schema = table.schema();
    if named.len() == 0 {
        return Ok((0..schema.visible().len()).collect());
    }
    let mut targets = Vec::with_capacity(named.len());
    for ident in named {
        let ident = ident?;
        let at = position(schema, table.name(), ident)?;
        if targets.contains(&at) {
            let message = format!("column \"{}\" is named twice", fold(ident));
            return Err(SqlError::new(SqlErrorKind::Syntax, message).at(ident.span));
        }
        targets.push(at);
    }
    Ok(targets)
}

/// As [`named_columns`], for rows that there certainly are.
///
/// # Errors
/// As there; another column would be NULL in all rows, and must not be.
pub(crate) fn target_columns<'a>(
    table: &Table,
    named: impl ExactSizeIterator<Item = Result<&'a Ident, SqlError>>,
) -> Result<Vec<usize>, SqlError> {
    let names_all = named.len() == 0;
    let targets = named_columns(table, named)?;
    if !names_all {
        check_others(table, &targets)?;
    }
    Ok(targets)
}

/// Checks that the columns which are not among the targets may be left away.
///
/// # Errors
/// One would be NULL, and must not be.
pub(crate) fn check_others(table: &Table, targets: &[usize]) -> Result<(), SqlError> {
    match without_value(table.schema(), targets)? {
        None => Ok(()),
        Some(column) => Err(SqlError::new(
            SqlErrorKind::Constraint,
            format!("column \"{}\" must not be NULL and is given no value", column.name),
        )
        .with_cause(Cause::NullValue)
        .with_about(About::table(table.name()).column_of(&column.name))),
    }
}

/// Positions of the columns that a file has, if it does not say which: all that are not computed.
pub(crate) fn copied_columns(schema: &Schema) -> Result<Vec<usize>, SqlError> {
    let declared = Declared::of(schema)?;
    let is_copied = |at: &usize| !declared.generated.contains_key(&schema.columns()[*at].name);
    Ok((0..schema.visible().len()).filter(is_copied).collect())
}

/// Checks that a file may have these columns.
///
/// # Errors
/// One is computed.
pub(crate) fn check_copied(schema: &Schema, columns: &[usize]) -> Result<(), SqlError> {
    let declared = Declared::of(schema)?;
    let mut names = columns.iter().map(|at| &schema.columns()[*at].name);
    let Some(name) = names.find(|name| declared.generated.contains_key(*name)) else {
        return Ok(());
    };
    let error =
        SqlError::new(SqlErrorKind::Schema, format!("column \"{name}\" is a generated column"));
    Err(error
        .with_cause(Cause::InvalidReference)
        .with_detail("Generated columns cannot be used in COPY.".to_owned()))
}

/// A column that must have a value, which neither is given nor has a default.
pub(crate) fn without_value<'s>(
    schema: &'s Schema,
    given: &[usize],
) -> Result<Option<&'s Column>, SqlError> {
    let columns = schema.visible().iter().enumerate();
    let lacks = |(at, column): &(usize, &Column)| !column.nullable && !given.contains(at);
    let mut lacking = columns.filter(lacks).map(|(_, column)| column).peekable();
    if lacking.peek().is_none() {
        return Ok(None);
    }
    let declared = Declared::of(schema)?;
    Ok(lacking.find(|column| !declared.has_value(&column.name)))
}

/// The name of a tablespace, as `CREATE TABLE … TABLESPACE` takes it.
pub fn tablespace_name(number: u32) -> String {
    format!("node{number}")
}

/// The number of the tablespace that an identifier denotes, of so many.
pub(crate) fn tablespace(ident: &Ident, count: usize) -> Result<u32, SqlError> {
    let name = fold(ident);
    let all: Vec<String> = (0..).take(count).map(tablespace_name).collect();
    if let Some(number) = all.iter().position(|known| *known == name) {
        return Ok(number as u32);
    }
    let hint = match all.as_slice() {
        [first, .., last] if count > LIST_MAX => format!("the tablespaces are {first} to {last}"),
        [only] => format!("the only tablespace is {only}"),
        all => format!("the tablespaces are {}", all.join(", ")),
    };
    let message = format!("tablespace \"{name}\" does not exist");
    Err(SqlError::new(SqlErrorKind::UnknownTablespace, message)
        .at(ident.span)
        .with_hint(Some(hint)))
}

/// The table of a name.
pub(crate) fn find_table(scope: &Scope, name: &str, span: Span) -> Result<Table, SqlError> {
    let known = scope.tables();
    if scope.catalog.object(name).is_some() {
        let message = format!("\"{name}\" is not a table");
        return Err(SqlError::new(SqlErrorKind::Schema, message)
            .with_cause(Cause::OtherObject)
            .at(span));
    }
    let error = match scope.table(name) {
        Ok(table) => return Ok(table),
        Err(inherited @ atoll::Error::InheritedTable(_)) => SqlError::from(inherited),
        Err(_) if !known.iter().any(|table| table == name) => unknown_table(name, &known),
        Err(other) => SqlError::from(other),
    };
    Err(error.at(span))
}

/// The error for a table that does not exist.
pub(crate) fn unknown_table(name: &str, known: &[String]) -> SqlError {
    let error =
        SqlError::new(SqlErrorKind::UnknownTable, format!("table \"{name}\" does not exist"));
    error.with_hint(hint(name, known.iter().map(String::as_str), "the tables are"))
}

/// The error for a column that does not exist.
pub(crate) fn unknown_column<'a>(
    name: &str,
    table: Option<&str>,
    known: impl Iterator<Item = &'a str> + Clone,
) -> SqlError {
    let of = table.map(|table| format!(" in table \"{table}\"")).unwrap_or_default();
    SqlError::new(SqlErrorKind::UnknownColumn, format!("column \"{name}\" does not exist{of}"))
        .with_hint(hint(name, known, "the columns are"))
}

/// The error for a column of a table that the statement does not read.
pub(crate) fn unknown_qualifier<'a>(
    table: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> SqlError {
    let message = format!("table \"{table}\" is not among the tables of this query");
    SqlError::new(SqlErrorKind::UnknownTable, message).with_hint(hint(
        table,
        known,
        "its tables are",
    ))
}

/// "did you mean", or the list of known names if none is near and the list is short.
fn hint<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    list: &str,
) -> Option<String> {
    // Names that statements get inside are not shown.
    let known = known.filter(|known| !known.contains(parse::MARK));
    let near = near(name, known.clone());
    if !near.is_empty() {
        return Some(format!("did you mean {}?", near.join(" or ")));
    }
    let all: Vec<&str> = known.collect();
    (!all.is_empty() && all.len() <= LIST_MAX).then(|| format!("{list} {}", all.join(", ")))
}

/// The known names nearest to a mistyped one, best first.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let allowed = (lower.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = known
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        // The name exists, but not for this statement: a proposal would not help.
        .filter(|(distance, candidate)| *distance <= allowed && *candidate != name)
        .collect();
    found.sort();
    found.truncate(NEAR_MAX);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_name_are_given_one() {
        let of = |fields: &[&str]| of_header(fields.iter().copied());
        let header = of(&["", " Name ", "column3", "", "  "]);
        assert_eq!(header.names, ["column1", "Name", "column3", "column4", "column5"]);
        assert_eq!(header.given, ["column1", "column4", "column5"]);
        assert_eq!(of(&["Column2", ""]).names, ["Column2", "column2_"]);
        assert_eq!(of(&["Price\n(EUR)"]).names, ["Price (EUR)"]);
    }

    #[test]
    fn a_name_is_found_as_it_stands_or_in_the_only_other_case() {
        let find = |name| find(["Name", "name", "ID"].into_iter(), name);
        assert_eq!((find("Name"), find("name"), find("NAME")), (Some(0), Some(1), None));
        assert_eq!((find("id"), find("Id"), find("x")), (Some(2), Some(2), None));
    }

    #[test]
    fn a_swap_of_two_letters_is_near() {
        assert_eq!(near("flihgts", ["flights", "planes"].into_iter()), ["flights"]);
        assert_eq!(near("flights", ["flights", "flight"].into_iter()), ["flight"]);
    }

    #[test]
    fn a_short_name_has_no_far_neighbours() {
        assert!(near("ab", ["xy", "zz"].into_iter()).is_empty());
        assert_eq!(near("ab", ["abc"].into_iter()), ["abc"]);
    }

    #[test]
    fn unquoted_names_are_folded_and_quoted_ones_kept() {
        assert_eq!(fold(&Ident::new("Flights")), "flights");
        assert_eq!(fold(&Ident::with_quote('"', "Flights")), "Flights");
        assert_eq!(fold(&Ident::new("GRÖSSE")), "grÖsse");
        assert_eq!(fold(&Ident::new("İSTANBUL")), "İstanbul");
    }
}
