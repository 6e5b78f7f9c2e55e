//! Comments on relations and their parts, and the rights of a relation.
//!
//! The comments and the rights of a relation are an object of their own, with a hidden name that is
//! made of the relation's: so a comment needs no new table, and the rows of a table stay where they
//! are.
//! `COMMENT-1`: whatever gives a relation or a part of it another name, or drops it, does the same
//! with its comments, in the same transaction.

use std::collections::BTreeMap;

use atoll::{Catalog, Column, DataType, Error, Schema, Snapshot, StorageError, TableOptions};
use atoll::{Transaction, TxnError};
use serde::{Deserialize, Serialize};

use crate::error::{ApplyError, SqlError, SqlErrorKind};
use crate::parse::MARK;
use crate::rights::Rights;
use crate::view::follow::Kept;

const KIND: &str = "comments";

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Comments {
    /// On the relation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// On its columns.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// On its indexes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
    /// On its constraints.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub constraints: BTreeMap<String, String>,
    /// The owner of the relation, and what others may do with it (`PRIVILEGE-2`).
    #[serde(skip_serializing_if = "Rights::is_empty")]
    pub(crate) rights: Rights,
}

/// The name of the object that has the comments of a relation.
fn hidden(relation: &str) -> String {
    format!("{MARK}{relation}")
}

impl Comments {
    /// The name of the object that has the comments of a relation.
    pub(crate) fn object_of(relation: &str) -> String {
        hidden(relation)
    }

    /// The comments of a relation of a database.
    ///
    /// # Errors
    /// A later version of Atoll has written something that this one does not know.
    pub fn in_catalog(catalog: &Catalog, relation: &str) -> Result<Self, SqlError> {
        let object = catalog.object(&hidden(relation));
        object.map_or(Ok(Self::default()), |object| Self::of(object.schema()))
    }

    /// The comments of a relation of a snapshot.
    ///
    /// # Errors
    /// As [`Comments::in_catalog`].
    pub fn in_snapshot(snapshot: &Snapshot, relation: &str) -> Result<Self, SqlError> {
        let object = snapshot.object(&hidden(relation));
        object.map_or(Ok(Self::default()), |object| Self::of(object.schema()))
    }

    /// The comments that an object has.
    pub(crate) fn of(schema: &Schema) -> Result<Self, SqlError> {
        let Some((KIND, text)) = schema.object() else { return Ok(Self::default()) };
        serde_json::from_str(text).map_err(|error| {
            let message = format!("the comments of a table cannot be read: {error}");
            SqlError::new(SqlErrorKind::Database, message)
                .with_hint(Some("open the database with a newer version of Atoll".to_owned()))
        })
    }

    fn schema(&self) -> Result<Schema, SqlError> {
        let text = serde_json::to_string(self).expect("maps and texts can be written as JSON");
        let column = Column::new("comments", DataType::Int64);
        Ok(Schema::new(vec![column], &["comments"])?.of_object(KIND, &text)?)
    }
}

/// Whether an object has comments: one of another kind may have such a name (`SCHEMA-2`).
fn is_comments(schema: &Schema) -> bool {
    schema.object().is_some_and(|(kind, _)| kind == KIND)
}

/// Changes the comments of a relation.
///
/// # Errors
/// Those of the definition. [`Error::TableChanged`] if another transaction has made the first
/// comment meanwhile.
pub(crate) fn change(
    transaction: &mut Transaction,
    relation: &str,
    change: impl FnOnce(&mut Comments),
) -> Result<(), ApplyError> {
    moved(transaction, relation, relation, change)
}

/// A relation gets another name, and its columns do; those without a new one are dropped.
///
/// # Errors
/// As [`change`].
pub(crate) fn follow(
    transaction: &mut Transaction,
    (old, new): (&str, &str),
    columns: &[Kept],
    others: impl FnOnce(&mut Comments),
) -> Result<(), ApplyError> {
    if transaction.catalog().object(&hidden(old)).is_none() {
        return Ok(());
    }
    moved(transaction, old, new, |comments| {
        let before = std::mem::take(&mut comments.columns);
        let kept = columns.iter().filter_map(|column| {
            let comment = before.get(&column.old)?;
            Some((column.new.clone(), comment.clone()))
        });
        comments.columns = kept.collect();
        others(comments);
    })
}

/// A relation is dropped.
///
/// # Errors
/// As [`change`].
pub(crate) fn dropped(transaction: &mut Transaction, relation: &str) -> Result<(), ApplyError> {
    let catalog = transaction.catalog();
    let object = catalog.object(&hidden(relation));
    if let Some(object) = object.filter(|one| is_comments(one.schema())) {
        transaction.drop_table(object)?;
    }
    Ok(())
}

fn moved(
    transaction: &mut Transaction,
    old: &str,
    new: &str,
    change: impl FnOnce(&mut Comments),
) -> Result<(), ApplyError> {
    let mut comments = Comments::default();
    let catalog = transaction.catalog();
    let object = catalog.object(&hidden(old));
    if let Some(object) = object.filter(|one| is_comments(one.schema())) {
        transaction.lock_table(object)?;
        comments = Comments::of(object.schema())?;
        let before = comments.clone();
        change(&mut comments);
        if old == new && comments == before {
            return Ok(());
        }
        transaction.drop_table(object)?;
    } else {
        change(&mut comments);
    }
    if comments == Comments::default() {
        return Ok(());
    }
    let name = hidden(new);
    match transaction.create_table(&name, comments.schema()?, &TableOptions::default()) {
        Err(TxnError::Error(Error::Storage(StorageError::TableExists(_)))) => {
            Err(TxnError::Error(Error::TableChanged(new.to_owned())).into())
        }
        made => Ok(made.map(drop)?),
    }
}
