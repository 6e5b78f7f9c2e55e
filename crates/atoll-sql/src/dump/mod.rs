//! `dump`: a snapshot as a script of SQL that makes the same database again, here or in PostgreSQL.
//!
//! - `DUMP-1`: what the script says depends on the definitions and the rows alone, not on where
//!   they are stored: relations come by their names, rows by their keys, or by all their values
//!   where there is no key. The dump of a database that was made by the script is the script.
//! - `DUMP-2`: the script does not depend on the search path: every name has its schema.
//!
//! Tables come with their primary keys and conditions, then the rows, then the other indexes, then
//! foreign keys and comments.

mod definitions;
mod rows;

use std::fmt;
use std::io::{self, Write};

use atoll::{DataType, Labels, Snapshot, SnapshotTable};

use self::definitions::TableDump;
use crate::declared::domain::Domain;
use crate::error::SqlError;
use crate::schemas::{self, PUBLIC, split};
use crate::sequence::definition::Definition;
use crate::sequence::values::stored_in;
use crate::user_types::domain::KIND as DOMAIN;
use crate::user_types::{ENUM, UserType};
use crate::view::View;
use crate::{SqlErrorKind, quoted_if_needed};

/// What a dump has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpOptions {
    /// The definitions.
    pub definitions: bool,
    /// The rows, and where sequences are.
    pub rows: bool,
    /// Of these tables only, by their names below SQL; of all if there is none.
    pub tables: Vec<String>,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self { definitions: true, rows: true, tables: Vec::new() }
    }
}

/// Why a dump has failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpError {
    /// Something that cannot be read, or written as SQL.
    Sql(SqlError),
    /// The output.
    Write(io::Error),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sql(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<SqlError> for DumpError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<atoll::Error> for DumpError {
    fn from(error: atoll::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

type Result<T> = std::result::Result<T, DumpError>;

const HEAD: &str = "\
--
-- Atoll database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET client_min_messages = warning;
SET row_security = off;
";
const FOOT: &str = "
--
-- Atoll database dump complete
--

";

/// Writes a snapshot as SQL.
///
/// # Errors
/// A table that does not exist, an object of a kind that is not known, a snapshot that has expired,
/// and those of writing.
pub fn dump(
    snapshot: &Snapshot,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> std::result::Result<(), DumpError> {
    let dump = Dump::of(snapshot, options)?;
    out.write_all(HEAD.as_bytes())?;
    if options.definitions {
        dump.before_rows(out)?;
    }
    if options.rows {
        dump.rows(out)?;
    }
    if options.definitions {
        dump.behind_rows(out)?;
    }
    Ok(out.write_all(FOOT.as_bytes())?)
}

/// What is dumped.
struct Dump<'d> {
    snapshot: &'d Snapshot,
    schemas: Vec<String>,
    sequences: Vec<(SnapshotTable, Definition)>,
    enums: Vec<Labels>,
    domains: Vec<(Domain, DataType)>,
    tables: Vec<TableDump>,
    /// Each behind those that it reads.
    views: Vec<(String, View)>,
}

impl<'d> Dump<'d> {
    fn of(snapshot: &'d Snapshot, options: &DumpOptions) -> Result<Self> {
        let is_all = options.tables.is_empty();
        let mut names = match is_all {
            true => snapshot.tables(),
            false => options.tables.clone(),
        };
        names.sort();
        names.dedup();
        let mut tables = Vec::with_capacity(names.len());
        for name in &names {
            tables.push(TableDump::of(snapshot.table(name)?)?);
        }
        let (mut sequences, mut views) = (Vec::new(), Vec::new());
        let (mut enums, mut domains) = (Vec::new(), Vec::new());
        for object in snapshot.objects() {
            let kind = object.schema().object().map(|(kind, _)| kind.to_owned());
            match kind.as_deref().unwrap_or_default() {
                "sequence" => {
                    let definition = Definition::of_schema(object.schema(), object.name())?;
                    let mut owner = definition.owner.iter();
                    if is_all || owner.any(|owner| names.contains(&owner.table)) {
                        sequences.push((object, definition));
                    }
                }
                "view" => {
                    if let Some(view) = View::of(object.schema())?.filter(|_| is_all) {
                        views.push((object.name().to_owned(), view));
                    }
                }
                ENUM | DOMAIN => match UserType::of(object.name(), object.schema())? {
                    Some(UserType::Enum(labels)) if is_all => enums.push(labels),
                    Some(UserType::Domain(domain, of)) if is_all => domains.push((domain, of)),
                    _ => {}
                },
                "comments" | "schema" => {}
                other => {
                    let message =
                        format!("\"{}\" is of a kind that no dump has: {other}", object.name());
                    return Err(SqlError::unsupported(message).into());
                }
            }
        }
        enums.sort_by(|one, other| one.name().cmp(other.name()));
        domains.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        sequences.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
        let schemas = if is_all { schemas::schemas_in(snapshot) } else { Vec::new() };
        let views = in_order(views);
        Ok(Self { snapshot, schemas, sequences, enums, domains, tables, views })
    }

    /// Whether an object has this name.
    fn has(&self, name: &str) -> bool {
        self.snapshot.object(name).is_some() || schemas::is_inherited(self.snapshot.bases(), name)
    }

    /// A flat name as the script writes it.
    fn name(&self, flat: &str) -> String {
        let (schema, name) = split(flat, &|name| self.has(name));
        format!("{}.{}", quoted_if_needed(schema), quoted_if_needed(name))
    }

    /// The name that a relation has in its schema.
    fn bare<'n>(&self, flat: &'n str) -> &'n str {
        split(flat, &|name| self.has(name)).1
    }

    /// The rows of all tables, and where sequences are.
    fn rows(&self, out: &mut dyn Write) -> Result<()> {
        for table in &self.tables {
            rows::copy(self, table, out)?;
        }
        for (object, definition) in &self.sequences {
            let state = stored_in(object)?.unwrap_or((definition.last, definition.called));
            let (name, (last, called)) = (text(&self.name(object.name())), state);
            writeln!(out, "\nSELECT pg_catalog.setval({name}, {last}, {called});")?;
        }
        Ok(())
    }

    /// The schemas that are not always there.
    fn own_schemas(&self) -> impl Iterator<Item = &String> {
        self.schemas.iter().filter(|schema| *schema != PUBLIC)
    }
}

/// Views by their names, each behind those that it reads.
fn in_order(mut views: Vec<(String, View)>) -> Vec<(String, View)> {
    views.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut ordered: Vec<(String, View)> = Vec::with_capacity(views.len());
    while !views.is_empty() {
        let is_ready = |(_, view): &(String, View)| {
            !view.relations().any(|name| views.iter().any(|(other, _)| other == name))
        };
        // Views that read each other cannot be; the first would be written anyway.
        let at = views.iter().position(is_ready).unwrap_or_default();
        ordered.push(views.remove(at));
    }
    ordered
}

/// A text as SQL writes it.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The error for something that cannot be written.
fn unwritable(what: String) -> DumpError {
    SqlError::new(SqlErrorKind::Database, what).into()
}
