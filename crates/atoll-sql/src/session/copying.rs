//! `COPY` through a client: what it reads and writes, so that a server can carry it out.

use arrow_schema::SchemaRef;
use sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, SetExpr,
    Statement,
};

use super::{Outcome, SqlSession};
use crate::copy_syntax::ExtraOption;
use crate::error::{SqlError, SqlErrorKind};
use crate::parse;
use crate::quoted::quoted_if_needed;
use crate::view::View;
use crate::{copy, depth, names};

/// Where the data of a `COPY` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    /// The client sends them.
    FromClient,
    /// The client gets them.
    ToClient,
    /// A file of the server, or a program.
    Server,
}

/// What a `COPY … FROM STDIN` expects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyIn {
    /// The name of the table, in its schema.
    pub table: String,
    /// How many columns each row has.
    pub columns: usize,
    /// Whether the rows are in the binary format.
    pub is_binary: bool,
}

/// How a `COPY … TO STDOUT` writes its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines of fields with backslashes.
    Text {
        /// The names of the columns come first.
        header: bool,
        /// Between two fields.
        delimiter: u8,
        /// A field without a value.
        null: String,
    },
    /// Comma-separated values.
    Csv {
        /// The names of the columns come first.
        header: bool,
        /// Between two fields.
        delimiter: u8,
        /// A field without a value.
        null: String,
        /// Around a field, and before a quote in it.
        quote: u8,
        /// Before a quote in a field.
        escape: u8,
        /// For each column, whether its fields are always in quotes.
        forced: Vec<bool>,
    },
    /// The forms in which values are sent.
    Binary,
}

/// A `COPY … TO STDOUT` that has begun.
#[derive(Debug)]
pub struct CopyOut {
    /// How its rows are written.
    pub format: CopyFormat,
    /// The rows.
    pub rows: Outcome,
}

impl SqlSession {
    /// Where the data of a `COPY` are.
    ///
    /// # Errors
    /// Those of the parser; the statement is no `COPY`.
    pub fn copy_end(sql: &str) -> Result<CopyEnd, SqlError> {
        match parsed(sql)? {
            Statement::Copy { to: false, target: CopyTarget::Stdin, .. } => Ok(CopyEnd::FromClient),
            Statement::Copy { to: true, target: CopyTarget::Stdout, .. } => Ok(CopyEnd::ToClient),
            Statement::Copy { .. } => Ok(CopyEnd::Server),
            _ => Err(SqlError::new(SqlErrorKind::Syntax, "the statement is no COPY")),
        }
    }

    /// What a `COPY … FROM STDIN` expects, before its data are there
    /// ([`SqlSession::copy_in`]).
    ///
    /// # Errors
    /// Those of the statement that can be told before.
    pub fn copy_in_shape(&mut self, sql: &str) -> Result<CopyIn, SqlError> {
        self.statement(|session| session.shape(sql))
    }

    fn shape(&mut self, sql: &str) -> Result<CopyIn, SqlError> {
        self.writable("COPY")?;
        let statement = self.resolved(parsed(sql)?)?;
        self.check_allowed(&statement)?;
        let Statement::Copy { source, options, legacy_options, .. } = statement else {
            return Err(SqlError::new(SqlErrorKind::Syntax, "the statement is no COPY"));
        };
        let CopySource::Table { table_name, columns } = source else {
            return Err(SqlError::unsupported("COPY needs the name of a table"));
        };
        let scope = self.scope()?;
        let (name, span) = names::table_name(&table_name)?;
        if View::find(&scope.catalog, &name)?.is_some() {
            return Err(copy::no_copy_to_view(&name, span));
        }
        let table = names::find_table(&scope, &name, span)?;
        let targets = match columns.as_slice() {
            [] => names::copied_columns(table.schema())?,
            given => names::target_columns(&table, given.iter().map(Ok::<&Ident, SqlError>))?,
        };
        names::check_copied(table.schema(), &targets)?;
        let is_binary = copy::is_binary(&options, &legacy_options);
        copy::check_options(&options, &legacy_options)?;
        let table = scope.bare(table.name()).to_owned();
        Ok(CopyIn { table, columns: targets.len(), is_binary })
    }

    /// Begins a `COPY … TO STDOUT`: its rows are read as they are written.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn copy_out(&mut self, sql: &str) -> Result<CopyOut, SqlError> {
        self.statement(|session| {
            session.streams = true;
            let tokens = parse::only_tokens(sql)?;
            depth::with_room_for(depth::of(&tokens)?, || session.copied(sql))
        })
    }

    fn copied(&mut self, sql: &str) -> Result<CopyOut, SqlError> {
        let Statement::Copy { source, options, legacy_options, .. } = parsed(sql)? else {
            return Err(SqlError::new(SqlErrorKind::Syntax, "the statement is no COPY"));
        };
        let written = Written::of(&options, &legacy_options)?;
        let statement = match source {
            CopySource::Query(query) => match *query.body {
                SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => {
                    change
                }
                _ => Statement::Query(query),
            },
            CopySource::Table { table_name, columns } => self.rows_of(&Statement::Copy {
                source: CopySource::Table { table_name, columns },
                to: true,
                target: CopyTarget::Stdout,
                options: Vec::new(),
                legacy_options: Vec::new(),
                values: Vec::new(),
            })?,
        };
        let statement = self.resolved(statement)?;
        let rows = self.run_parsed(None, statement, &[])?;
        let schema = match &rows {
            Outcome::Rows(rows) => rows.schema(),
            Outcome::Stream(rows) => rows.schema(),
            Outcome::Done { .. } => {
                let message = "COPY query must have a RETURNING clause";
                return Err(SqlError::unsupported(message));
            }
        };
        Ok(CopyOut { format: written.format(&schema)?, rows })
    }

    /// The query for all rows of a table, or of some columns of it.
    fn rows_of(&self, copy: &Statement) -> Result<Statement, SqlError> {
        let Statement::Copy { source: CopySource::Table { table_name, columns }, .. } =
            self.resolved(copy.clone())?
        else {
            return Err(SqlError::unsupported("COPY needs the name of a table"));
        };
        let scope = self.scope()?;
        let (name, span) = names::table_name(&table_name)?;
        if View::find(&scope.catalog, &name)?.is_some() {
            let message = format!("cannot copy from view \"{name}\"");
            let hint = "Try the COPY (SELECT ...) TO variant.".to_owned();
            let error = SqlError::unsupported(message).with_state("42809").at(span);
            return Err(error.with_hint(Some(hint)));
        }
        let table = names::find_table(&scope, &name, span)?;
        let targets = match columns.as_slice() {
            [] => names::copied_columns(table.schema())?,
            given => names::target_columns(&table, given.iter().map(Ok::<&Ident, SqlError>))?,
        };
        names::check_copied(table.schema(), &targets)?;
        let columns = table.schema().columns();
        let listed: Vec<_> =
            targets.iter().map(|at| quoted_if_needed(&columns[*at].name)).collect();
        parse::one(&format!("SELECT {} FROM {table_name}", listed.join(", ")))
    }
}

/// Parses a statement, on a stack that has room for it.
fn parsed(sql: &str) -> Result<Statement, SqlError> {
    let tokens = parse::only_tokens(sql)?;
    depth::with_room_for(depth::of(&tokens)?, || parse::statement(tokens))
}

/// The options of a `COPY … TO`, as they are written.
#[derive(Default)]
struct Written {
    format: Option<String>,
    header: bool,
    delimiter: Option<u8>,
    null: Option<String>,
    quote: Option<u8>,
    escape: Option<u8>,
    /// The columns of FORCE_QUOTE; `*` is all.
    forced: Vec<Ident>,
}

impl Written {
    fn of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self, SqlError> {
        let mut written = Self::default();
        let unknown = |shown: String| {
            let hint = "the options are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE and \
                        FORCE_QUOTE";
            let message = format!("COPY … TO with {shown} is not supported");
            SqlError::unsupported(message).with_hint(Some(hint.to_owned()))
        };
        for option in options {
            if let Some(extra) = ExtraOption::of(option) {
                return Err(unknown(extra.name.to_owned()).at(extra.span));
            }
            match option {
                CopyOption::Format(name) => written.format = Some(names::fold(name)),
                CopyOption::Header(is_on) => written.header = *is_on,
                CopyOption::Delimiter(c) => written.delimiter = Some(copy::ascii(*c)?),
                CopyOption::Null(text) => written.null = Some(text.clone()),
                CopyOption::Quote(c) => written.quote = Some(one_byte(*c)?),
                CopyOption::Escape(c) => written.escape = Some(one_byte(*c)?),
                CopyOption::ForceQuote(columns) => written.forced.clone_from(columns),
                CopyOption::Encoding(name) if copy::is_utf8(name) => {}
                other => return Err(unknown(other.to_string())),
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => written.format = Some("binary".to_owned()),
                CopyLegacyOption::Header => written.header = true,
                CopyLegacyOption::Delimiter(c) => written.delimiter = Some(copy::ascii(*c)?),
                CopyLegacyOption::Null(text) => written.null = Some(text.clone()),
                CopyLegacyOption::Csv(inner) => {
                    written.format = Some("csv".to_owned());
                    for option in inner {
                        match option {
                            CopyLegacyCsvOption::Header => written.header = true,
                            CopyLegacyCsvOption::Quote(c) => written.quote = Some(one_byte(*c)?),
                            CopyLegacyCsvOption::Escape(c) => {
                                written.escape = Some(one_byte(*c)?);
                            }
                            CopyLegacyCsvOption::ForceQuote(columns) => {
                                written.forced.clone_from(columns);
                            }
                            other => return Err(unknown(other.to_string())),
                        }
                    }
                }
                other => return Err(unknown(other.to_string())),
            }
        }
        Ok(written)
    }

    fn format(self, schema: &SchemaRef) -> Result<CopyFormat, SqlError> {
        let Self { header, delimiter, null, quote, escape, forced, .. } = self;
        let only_csv = |is_given: bool, name: &str| match is_given {
            true => {
                let message = format!("COPY {name} available only in CSV mode");
                Err(SqlError::unsupported(message))
            }
            false => Ok(()),
        };
        match self.format.as_deref() {
            None | Some("text") => {
                only_csv(quote.is_some(), "quote")?;
                only_csv(escape.is_some(), "escape")?;
                only_csv(!forced.is_empty(), "force quote")?;
                let null = null.unwrap_or_else(|| "\\N".to_owned());
                Ok(CopyFormat::Text { header, delimiter: delimiter.unwrap_or(b'\t'), null })
            }
            Some("csv") => {
                let quote = quote.unwrap_or(b'"');
                let names = schema.fields().iter().map(|field| field.name());
                let is_all = forced.iter().any(|column| column.value == "*");
                let is_forced = |name: &String| {
                    is_all || forced.iter().any(|column| names::fold(column) == *name)
                };
                Ok(CopyFormat::Csv {
                    header,
                    delimiter: delimiter.unwrap_or(b','),
                    null: null.unwrap_or_default(),
                    quote,
                    escape: escape.unwrap_or(quote),
                    forced: names.map(is_forced).collect(),
                })
            }
            Some("binary") if header || delimiter.is_some() || null.is_some() => {
                let message = "HEADER, DELIMITER and NULL are no options of the binary format";
                Err(SqlError::new(SqlErrorKind::Syntax, message))
            }
            Some("binary") => Ok(CopyFormat::Binary),
            Some(other) => {
                let message = format!("COPY format \"{other}\" not recognized");
                let hint = "COPY … TO writes text, csv and binary".to_owned();
                let error = SqlError::unsupported(message).with_state("22023");
                Err(error.with_hint(Some(hint)))
            }
        }
    }
}

fn one_byte(c: char) -> Result<u8, SqlError> {
    u8::try_from(c).ok().filter(u8::is_ascii).ok_or_else(|| {
        let message = format!("'{c}' cannot be a quote; use one ASCII character");
        SqlError::new(SqlErrorKind::Input, message)
    })
}
