//! The shape of a table while statements describe or alter it.
//!
//! `DDL-1` holds here, too: a clause that Atoll does not carry out is an error.

mod column;

use atoll::{Column, DataType, IndexSpec, Schema, Table};
use sqlparser::ast::{
    ColumnDef, Expr, Ident, IndexColumn, IndexOption, IndexType, NullsDistinctOption,
    SequenceOptions, Spanned, TableConstraint,
};
use sqlparser::tokenizer::Span;

use self::column::{Described, Numbered, column, marked, numbered};
use crate::ddl_rules::Rules;
use crate::declared::Declared;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign::define::Written;
use crate::like_clause::Including;
use crate::sequence::definition::{Definition, Options, Owner};
use crate::sequence::mentions::renamed;
use crate::sequence_syntax::sequence_name;
use crate::{names, schemas};

/// Columns, keys, indexes and rules of a table, which need not fit together yet.
#[derive(Default)]
pub(crate) struct TableShape {
    pub(crate) columns: Vec<ShapeColumn>,
    pub(crate) key: Vec<String>,
    pub(crate) indexes: Vec<ShapeIndex>,
    pub(crate) rules: Rules,
    /// The columns that get sequences of their own.
    numbered: Vec<Numbered>,
    /// There is no order of the primary key.
    is_hashed: bool,
}

/// A column of a [`TableShape`].
pub(crate) struct ShapeColumn {
    pub(crate) column: Column,
    /// The column of an older table that it comes from, under its name there.
    pub(crate) origin: Option<String>,
    /// Its values, computed from a row of the older table.
    pub(crate) using: Option<Expr>,
}

/// A sequence that is made with a table.
pub(crate) struct NewSequence {
    pub(crate) name: String,
    pub(crate) definition: Definition,
}

/// An index of a [`TableShape`].
pub(crate) struct ShapeIndex {
    /// `None` until the shape is finished.
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
    /// NULL equals NULL, where it is unique.
    nulls_not_distinct: bool,
    /// What the name of one without a name ends with.
    suffix: &'static str,
}

/// What a finished shape defines.
pub(crate) struct Defined {
    pub(crate) schema: Schema,
    pub(crate) indexes: Vec<IndexSpec>,
    pub(crate) rules: Rules,
    pub(crate) sequences: Vec<NewSequence>,
}

impl TableShape {
    /// The shape of a table as it is.
    ///
    /// # Errors
    /// As [`Declared::of`].
    pub(crate) fn of(table: &Table) -> Result<Self, SqlError> {
        let schema = table.schema();
        let columns = schema.visible().iter().map(|column| ShapeColumn {
            origin: Some(column.name.clone()),
            column: column.clone(),
            using: None,
        });
        let key: Vec<String> =
            schema.visible_key().iter().map(|at| schema.columns()[*at].name.clone()).collect();
        let indexes: Vec<_> = table.indexes().into_iter().map(ShapeIndex::of).collect();
        let is_hashed =
            !key.is_empty() && !indexes.iter().any(|index| index.columns.starts_with(&key));
        let rules = Rules::of(&Declared::of(schema)?)?;
        Ok(Self {
            columns: columns.collect(),
            key,
            indexes,
            rules,
            numbered: Vec::new(),
            is_hashed,
        })
    }

    /// Adds a column.
    ///
    /// # Errors
    /// Clauses that are not supported; a second primary key, or a second column of the name.
    pub(crate) fn add_column(&mut self, definition: &ColumnDef) -> Result<(), SqlError> {
        let Described { column, is_key, unique, nulls_not_distinct, numbered } =
            column(definition, &mut self.rules)?;
        let span = definition.name.span;
        if self.columns.iter().any(|other| other.column.name == column.name) {
            let message = format!("column \"{}\" is named twice", column.name);
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::ColumnExists)
                .at(span));
        }
        if is_key {
            check_key(column.data_type).map_err(|error| error.at(span))?;
            self.set_key(vec![column.name.clone()], false, span)?;
        }
        if let Some(name) = unique {
            check_key(column.data_type).map_err(|error| error.at(span))?;
            self.add_index(name, vec![column.name.clone()], true);
            if let Some(index) = self.indexes.last_mut() {
                index.nulls_not_distinct = nulls_not_distinct;
            }
        }
        self.numbered.extend(numbered);
        self.columns.push(ShapeColumn { column, origin: None, using: None });
        Ok(())
    }

    /// A column is numbered from now on.
    ///
    /// # Errors
    /// It has a default, is computed or numbered, or its values are no whole numbers.
    pub(crate) fn number(
        &mut self,
        ident: &Ident,
        always: bool,
        options: &[SequenceOptions],
        table: &str,
    ) -> Result<(), SqlError> {
        let name = names::fold(ident);
        let column = &self.column(ident, table)?.column;
        let (data_type, nullable) = (column.data_type, column.nullable);
        let wrong = |message: String| {
            let error = SqlError::new(SqlErrorKind::Schema, message).at(ident.span);
            Err(error.with_state("55000"))
        };
        if nullable {
            return wrong(format!(
                "column \"{name}\" of relation \"{table}\" must be declared NOT NULL before \
                 identity can be added"
            ));
        }
        if self.rules.identity(&name).is_some() {
            return wrong(format!(
                "column \"{name}\" of relation \"{table}\" is already an identity column"
            ));
        }
        if self.rules.default_of(&name).is_some() {
            return wrong(format!(
                "column \"{name}\" of relation \"{table}\" already has a default value"
            ));
        }
        let numbered = numbered(&name, data_type, options)?;
        self.rules.number(&name, &marked(&name), Some(always)).map_err(|e| e.at(ident.span))?;
        self.numbered.push(numbered);
        Ok(())
    }

    /// Adds what another table has, for a table of this name.
    ///
    /// # Errors
    /// A second primary key, or a second column of a name; as [`Declared::of`].
    pub(crate) fn add_like(
        &mut self,
        other: &Table,
        including: Including,
        name: &str,
    ) -> Result<(), SqlError> {
        let TableShape { columns, key, indexes, rules, is_hashed, .. } = Self::of(other)?;
        if including.identity && columns.iter().any(|one| rules.is_numbered(&one.column.name)) {
            let message = "LIKE … INCLUDING IDENTITY is not supported for a table with identities";
            return Err(SqlError::unsupported(message));
        }
        for ShapeColumn { column, .. } in columns {
            if self.columns.iter().any(|other| other.column.name == column.name) {
                let message = format!("column \"{}\" is named twice", column.name);
                return Err(
                    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::ColumnExists)
                );
            }
            self.columns.push(ShapeColumn { column, origin: None, using: None });
        }
        self.rules.add_like(rules, including, (other.name(), name));
        if !including.indexes {
            return Ok(());
        }
        let of_key = |index: &ShapeIndex| index.columns == key && !index.unique;
        for index in indexes.into_iter().filter(|one| !of_key(one)) {
            let suffix = if index.unique { "key" } else { "idx" };
            self.indexes.push(ShapeIndex { name: None, suffix, ..index });
        }
        if key.is_empty() {
            return Ok(());
        }
        self.set_key(key, is_hashed, Span::empty())
    }

    /// Adds a constraint, or an index that is written like one.
    ///
    /// # Errors
    /// Clauses that are not supported; a second primary key; columns that do not exist.
    pub(crate) fn add_constraint(&mut self, constraint: &TableConstraint) -> Result<(), SqlError> {
        let refuse = || {
            let message = format!("{constraint} is not supported");
            SqlError::unsupported(message).at(constraint.span()).with_hint(Some(
                "a table has NOT NULL columns, PRIMARY KEY (a, b), UNIQUE (a, b), CHECK (…), \
                 FOREIGN KEY (a, b) REFERENCES t and INDEX name (a, b)"
                    .to_owned(),
            ))
        };
        if *constraint != plain(constraint) {
            return Err(refuse());
        }
        match constraint {
            TableConstraint::PrimaryKey(primary) => {
                let is_hashed = primary.index_options == [IndexOption::Using(IndexType::Hash)];
                let key = self.named(&primary.columns)?;
                self.set_key(key.clone(), is_hashed, constraint.span())?;
                if let Some(name) = primary.name.as_ref().filter(|_| !is_hashed) {
                    self.add_index(Some(names::fold(name)), key, false);
                }
            }
            TableConstraint::Check(check) => {
                self.rules.add_check(check.name.as_ref(), &check.expr)?;
            }
            TableConstraint::ForeignKey(key) => {
                self.rules.add_foreign_key(Written::of_table(key));
            }
            TableConstraint::Unique(unique) => {
                let name = unique.name.as_ref().or(unique.index_name.as_ref()).map(names::fold);
                let columns = self.named(&unique.columns)?;
                self.add_index(name, columns, true);
                if let Some(index) = self.indexes.last_mut() {
                    index.nulls_not_distinct =
                        unique.nulls_distinct == NullsDistinctOption::NotDistinct;
                }
            }
            TableConstraint::Index(index) => {
                let name = index.name.as_ref().map(names::fold);
                let columns = self.named(&index.columns)?;
                self.add_index(name, columns, false);
            }
            _ => return Err(refuse()),
        }
        Ok(())
    }

    /// Adds an index; one without a name gets that of a constraint.
    pub(crate) fn add_index(&mut self, name: Option<String>, columns: Vec<String>, unique: bool) {
        let (nulls_not_distinct, suffix) = (false, "key");
        self.indexes.push(ShapeIndex { name, columns, unique, nulls_not_distinct, suffix });
    }

    /// Adds an index of `CREATE INDEX`.
    ///
    /// # Errors
    /// As [`TableShape::named`].
    pub(crate) fn create_index(
        &mut self,
        name: Option<String>,
        columns: &[IndexColumn],
        (unique, nulls_not_distinct): (bool, bool),
    ) -> Result<(), SqlError> {
        let (columns, suffix) = (self.named(columns)?, "idx");
        self.indexes.push(ShapeIndex { name, columns, unique, nulls_not_distinct, suffix });
        Ok(())
    }

    fn set_key(&mut self, key: Vec<String>, is_hashed: bool, span: Span) -> Result<(), SqlError> {
        if !self.key.is_empty() {
            let message = "the table has more than one primary key";
            return Err(SqlError::new(SqlErrorKind::Schema, message).at(span).with_hint(Some(
                "for a key of several columns write PRIMARY KEY (a, b)".to_owned(),
            )));
        }
        (self.key, self.is_hashed) = (key, is_hashed);
        Ok(())
    }

    /// The column of a name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn column(
        &mut self,
        ident: &Ident,
        table: &str,
    ) -> Result<&mut ShapeColumn, SqlError> {
        let name = names::fold(ident);
        match self.columns.iter().position(|one| one.column.name == name) {
            Some(at) => Ok(&mut self.columns[at]),
            None => {
                let known = self.columns.iter().map(|one| one.column.name.as_str());
                Err(names::unknown_column(&name, Some(table), known).at(ident.span))
            }
        }
    }

    /// The names of columns in a list, each of them there.
    fn named(&self, list: &[IndexColumn]) -> Result<Vec<String>, SqlError> {
        let mut named = Vec::with_capacity(list.len());
        for one in list {
            let name = key_column(one)?;
            if !self.columns.iter().any(|known| known.column.name == name) {
                let known = self.columns.iter().map(|known| known.column.name.as_str());
                return Err(names::unknown_column(&name, None, known).at(one.column.span()));
            }
            let known = self.columns.iter().find(|known| known.column.name == name);
            if let Some(known) = known {
                check_key(known.column.data_type).map_err(|e| e.at(one.column.span()))?;
            }
            if named.contains(&name) {
                let message = format!("column \"{name}\" is named twice");
                return Err(SqlError::new(SqlErrorKind::Schema, message).at(one.column.span()));
            }
            named.push(name);
        }
        Ok(named)
    }

    /// What the shape defines for a table of this name.
    ///
    /// # Errors
    /// The parts do not fit together.
    pub(crate) fn finish(
        mut self,
        table: &str,
        is_taken: &dyn Fn(&str) -> bool,
        span: Span,
    ) -> Result<Defined, SqlError> {
        let sequences = self.sequences(table, is_taken)?;
        let bare = schemas::bare(table, is_taken);
        let key = std::mem::take(&mut self.key);
        let mut columns: Vec<_> = self.columns.into_iter().map(|one| one.column).collect();
        // As in PostgreSQL, being in the primary key makes a column NOT NULL.
        for column in &mut columns {
            column.nullable &= !key.contains(&column.name);
        }
        let has_order = self.indexes.iter().any(|index| index.columns.starts_with(&key));
        if !key.is_empty() && !self.is_hashed && !has_order {
            let name = format!("{bare}_pkey");
            let is_free = !self.indexes.iter().any(|index| index.name.as_ref() == Some(&name));
            let name = is_free.then_some(name);
            // The key is unique already, by its hash.
            let columns = key.clone();
            let (unique, nulls_not_distinct, suffix) = (false, false, "key");
            self.indexes.push(ShapeIndex { name, columns, unique, nulls_not_distinct, suffix });
        }
        let key: Vec<&str> = key.iter().map(String::as_str).collect();
        let schema = match key.is_empty() {
            true => Schema::keyless(columns),
            false => Schema::new(columns, &key),
        };
        let schema = schema.map_err(|error| SqlError::from(error).at(span))?;
        let (indexes, rules) = (index_specs(bare, self.indexes), self.rules);
        Ok(Defined { schema, indexes, rules, sequences })
    }

    /// Gives names to the sequences of new columns: PostgreSQL's, with a number if it is taken.
    pub(crate) fn sequences(
        &mut self,
        table: &str,
        is_taken: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<NewSequence>, SqlError> {
        let mut sequences: Vec<NewSequence> = Vec::new();
        for Numbered { column, kind, options, is_identity } in std::mem::take(&mut self.numbered) {
            // A column may be dropped in the statement that has added it.
            if !self.columns.iter().any(|one| one.column.name == column) {
                continue;
            }
            let usual = format!("{table}_{column}_seq");
            let others = (1..).map(|number| format!("{usual}{number}"));
            let is_free = |name: &String| {
                !is_taken(name) && !sequences.iter().any(|other| other.name == *name)
            };
            let given = sequence_name(&options).map(|name| match name.0.len() {
                1 => Ok(schemas::beside(table, &names::last(&name), is_taken)),
                _ => names::table_name(&name).map(|(name, _)| name),
            });
            let name = match given.transpose()? {
                Some(given) => given,
                None => std::iter::once(usual.clone()).chain(others).find(is_free).unwrap_or(usual),
            };
            self.rules.rename_sequence(&marked(&column), &name);
            for one in &mut self.columns {
                one.using = one.using.take().map(|using| renamed(&using, &marked(&column), &name));
            }
            let owner = Owner { table: table.to_owned(), column, is_identity };
            let definition =
                Definition::of_column(kind, &Options::of(None, &options, None)?, owner)?;
            sequences.push(NewSequence { name, definition });
        }
        Ok(sequences)
    }
}

impl ShapeIndex {
    fn of(index: IndexSpec) -> Self {
        let IndexSpec { name, columns, unique, nulls_not_distinct } = index;
        Self { name: Some(name), columns, unique, nulls_not_distinct, suffix: "key" }
    }
}

/// Indexes with their names; an unnamed one gets PostgreSQL's, with a number if it is taken.
fn index_specs(table: &str, indexes: Vec<ShapeIndex>) -> Vec<IndexSpec> {
    let mut taken: Vec<String> = indexes.iter().filter_map(|index| index.name.clone()).collect();
    let specs = indexes.into_iter().map(|index| {
        let ShapeIndex { name, columns, unique, nulls_not_distinct, suffix } = index;
        let name = name.unwrap_or_else(|| {
            let usual = format!("{table}_{}_{suffix}", columns.join("_"));
            let others = (1..).map(|number| format!("{usual}{number}"));
            let mut names = std::iter::once(usual.clone()).chain(others);
            let free = names.find(|name| !taken.contains(name)).unwrap_or(usual);
            taken.push(free.clone());
            free
        });
        IndexSpec { name, columns, unique, nulls_not_distinct }
    });
    specs.collect()
}

/// The supported part of a constraint: an equal one has nothing else (`DDL-1`).
fn plain(constraint: &TableConstraint) -> TableConstraint {
    let mut plain = constraint.clone();
    match &mut plain {
        TableConstraint::PrimaryKey(key) => {
            (key.index_type, key.characteristics) = (None, None);
            key.index_options.retain(|option| *option == IndexOption::Using(IndexType::Hash));
        }
        TableConstraint::Unique(unique) => {
            (unique.index_type, unique.index_options) = (None, Vec::new());
            unique.characteristics = None;
        }
        _ => {}
    }
    plain
}

/// Checks that a column can be in a key or an index.
///
/// # Errors
/// JSON, of which equal values may have different bytes.
fn check_key(data_type: DataType) -> Result<(), SqlError> {
    match data_type {
        DataType::Json => {
            let message =
                "data type json has no default operator class for access method \"btree\"";
            Err(SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject))
        }
        DataType::Jsonb => {
            let message = "a jsonb column in a key or an index is not supported";
            let hint = "index a generated column with the value, as in (doc ->> 'id')";
            Err(SqlError::unsupported(message).with_hint(Some(hint.to_owned())))
        }
        _ => Ok(()),
    }
}

fn key_column(column: &IndexColumn) -> Result<String, SqlError> {
    match &column.column.expr {
        Expr::Identifier(ident) if *column == IndexColumn::from(ident.clone()) => {
            Ok(names::fold(ident))
        }
        other => {
            let message = format!("{column} cannot be in a key or an index; name columns");
            Err(SqlError::unsupported(message).at(other.span()))
        }
    }
}
