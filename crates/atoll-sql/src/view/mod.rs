//! Views: queries under a name among those of tables.
//!
//! A view keeps its query as a text, and for each relation that the query reads (a *source*) which
//! columns the query uses and what they are called now. A statement that names views is rewritten:
//! each stands in it as the query in parentheses, and each source of the query as a list of its
//! columns under the names that the query knows.
//!
//! - `VIEW-1`: a view means the same as long as it exists. The text never changes; a source or a
//!   column with another name is noted beside it, and a column that is added is not seen.
//! - `VIEW-2`: no name inside a view means something of the statement around it: sources are named
//!   with their schema, which no `WITH` hides.
//! - `VIEW-3`: a relation or a column that a view uses is not dropped and gets no other type,
//!   unless the view goes with it.
//!
//! In reading order: [`relations`] (the sources of a query), [`expand`], [`follow`] (definitions
//! that concern views).

pub(crate) mod expand;
pub(crate) mod follow;
pub(crate) mod provider;
pub(crate) mod relations;

use atoll::{Catalog, Column, DataType, Schema, Table};
use serde::{Deserialize, Serialize};
use sqlparser::ast::{Ident, Query, Statement, TableAlias, TableAliasColumnDef, TableFactor};

use self::relations::Found;
use crate::error::{SqlError, SqlErrorKind};
use crate::quoted::quoted_if_needed;
use crate::{names, parse, schemas, sequence_names};

/// The kind of the objects that are views.
const KIND: &str = "view";

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Its columns.
    pub columns: Vec<ViewColumn>,
    /// Its query, as it was written.
    query: String,
    /// In the order of the query.
    sources: Vec<Source>,
}

/// A column of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewColumn {
    /// Its name.
    pub name: String,
    /// Its type, as SQL names it.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// A relation that the query of a view reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// Its name now.
    relation: String,
    /// The columns that the query uses: the names now, and those in the query.
    columns: Vec<(String, String)>,
}

impl View {
    /// The view of an object; `None` if the object is of another kind.
    ///
    /// # Errors
    /// A later version of Atoll has written something that this one does not know.
    pub fn of(schema: &Schema) -> Result<Option<Self>, SqlError> {
        let Some((KIND, text)) = schema.object() else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            let message = format!("the definition of a view cannot be read: {error}");
            SqlError::new(SqlErrorKind::Database, message)
                .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
        })
    }

    /// The view of a name.
    ///
    /// # Errors
    /// As [`View::of`].
    pub fn find(catalog: &Catalog, name: &str) -> Result<Option<Self>, SqlError> {
        catalog.object(name).map_or(Ok(None), |object| Self::of(object.schema()))
    }

    /// All views of a catalog, in the order of creation.
    ///
    /// # Errors
    /// As [`View::of`].
    pub fn all(catalog: &Catalog) -> Result<Vec<(&Table, Self)>, SqlError> {
        let view = |object| Ok(Self::of(Table::schema(object))?.map(|view| (object, view)));
        catalog.objects().filter_map(|object| view(object).transpose()).collect()
    }

    /// A view of a query with these columns. `columns_of` tells the columns of a relation, `None`
    /// if there is none of the name. With `all`, the query uses all of them.
    ///
    /// # Errors
    /// The query has a form that no view can have.
    pub(crate) fn new(
        query: &Query,
        columns: Vec<ViewColumn>,
        columns_of: &dyn Fn(&str) -> Option<Vec<String>>,
        all: bool,
    ) -> Result<Self, SqlError> {
        let mut sources = Vec::new();
        let mut text = query.clone();
        relations::each(&mut text, &mut |Found { factor, uses }| {
            let TableFactor::Table { name, alias, .. } = factor else { return Ok(()) };
            let (relation, span) = names::table_name(name)?;
            let Some(known) = columns_of(&relation) else {
                let message = format!("table \"{relation}\" does not exist");
                return Err(SqlError::new(SqlErrorKind::UnknownTable, message).at(span));
            };
            let called = alias.as_ref().map(|alias| names::fold(&alias.name));
            let called = called.unwrap_or_else(|| names::last(name));
            // Its columns have other names in the query, so all count as used.
            let all = all || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
            let used = known.into_iter().filter(|column| all || uses.has(&called, column));
            let columns = used.map(|column| (column.clone(), column)).collect();
            sources.push(Source { relation, columns });
            Ok(())
        })?;
        Ok(Self { columns, query: query.to_string(), sources })
    }

    /// A view of a query that reads no relation.
    pub(crate) fn without_sources(query: String, columns: Vec<ViewColumn>) -> Self {
        Self { columns, query, sources: Vec::new() }
    }

    /// The schema of the object that keeps the view.
    ///
    /// # Errors
    /// The query is too long.
    pub(crate) fn schema(&self) -> Result<Schema, SqlError> {
        let text = serde_json::to_string(self).expect("texts and lists can be written as JSON");
        let column = Column::new("view", DataType::Int64);
        Ok(Schema::new(vec![column], &["view"])?.of_object(KIND, &text)?)
    }

    /// The names of the relations that it reads.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|source| source.relation.as_str())
    }

    /// The query as it would be written now, with the names that its sources have.
    ///
    /// # Errors
    /// The text cannot be parsed.
    pub fn definition(&self) -> Result<String, SqlError> {
        let (mut query, _) = self.parsed()?;
        let mut sources = self.sources.iter();
        relations::each(&mut query, &mut |Found { factor, .. }| {
            let TableFactor::Table { name, alias, .. } = factor else { return Ok(()) };
            let Some(source) = sources.next() else { return Ok(()) };
            let (written, called) = (names::table_name(name)?.0, names::last(name));
            let has_others = source.columns.iter().any(|(now, then)| now != then);
            if has_others {
                *factor = expand::columns_of(source, &called, alias.as_ref())?;
            } else if written != source.relation {
                *name = sequence_names::object_name(&schemas::as_path(&source.relation))?;
                if names::last(name) != called {
                    alias.get_or_insert_with(|| table_alias(ident(&called), Vec::new()));
                }
            }
            Ok(())
        })?;
        Ok(query.to_string())
    }

    /// The query as it would be written now, with what `name` makes of the flat names of its
    /// sources.
    ///
    /// # Errors
    /// As [`View::definition`].
    pub(crate) fn qualified_query(&self, name: &dyn Fn(&str) -> String) -> Result<Query, SqlError> {
        let (mut query, _) = self.parsed()?;
        let mut sources = self.sources.iter();
        relations::each(&mut query, &mut |Found { factor, .. }| {
            let TableFactor::Table { name: written, alias, .. } = factor else { return Ok(()) };
            let Some(source) = sources.next() else { return Ok(()) };
            let called = names::last(written);
            let qualified = sequence_names::object_name(&name(&source.relation))?;
            if source.columns.iter().any(|(now, then)| now != then) {
                *factor = expand::columns_of_named(source, &qualified, &called, alias.as_ref())?;
                return Ok(());
            }
            *written = qualified;
            if names::last(written) != called {
                alias.get_or_insert_with(|| table_alias(ident(&called), Vec::new()));
            }
            Ok(())
        })?;
        Ok(query)
    }

    /// Its query, without places, and how deep it may be.
    pub(crate) fn parsed(&self) -> Result<(Query, usize), SqlError> {
        match parse::kept(&self.query)? {
            (Statement::Query(mut query), depth) => {
                sequence_names::with_schemas(&mut query);
                Ok((*query, depth))
            }
            (other, _) => {
                let message = format!("the definition of a view is no query: {other}");
                Err(SqlError::new(SqlErrorKind::Database, message))
            }
        }
    }
}

/// A name, in quotes where it needs them.
fn ident(name: &str) -> Ident {
    match quoted_if_needed(name) {
        std::borrow::Cow::Borrowed(plain) => Ident::new(plain),
        std::borrow::Cow::Owned(_) => Ident::with_quote('"', name),
    }
}

fn table_alias(name: Ident, columns: Vec<TableAliasColumnDef>) -> TableAlias {
    TableAlias { explicit: true, name, columns, at: None }
}
