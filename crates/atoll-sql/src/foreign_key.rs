//! What is declared of a foreign key; [`crate::foreign`] keeps it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quoted::{quoted_if_needed, quoted_list};

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// The name of the constraint, unique in its table.
    pub name: String,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: String,
    /// The columns of that table, in the order of `columns`.
    pub referenced: Vec<String>,
    /// Either all columns are NULL or none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub match_full: bool,
    /// What becomes of the rows that refer to a deleted row.
    #[serde(default, skip_serializing_if = "Action::is_none")]
    pub on_delete: Action,
    /// The columns that `on_delete` sets; all of them if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_delete_columns: Vec<String>,
    /// What becomes of the rows that refer to a row with new values.
    #[serde(default, skip_serializing_if = "Action::is_none")]
    pub on_update: Action,
    /// When it is checked.
    #[serde(default, skip_serializing_if = "Timing::is_immediate")]
    pub timing: Timing,
}

/// As SQL writes it behind `CONSTRAINT name`.
impl fmt::Display for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&quoted_if_needed(&self.table)))
    }
}

impl ForeignKey {
    /// As SQL writes it behind `CONSTRAINT name`, with this name of the other table.
    pub(crate) fn written(&self, table: &str) -> String {
        let (columns, referenced) = (quoted_list(&self.columns), quoted_list(&self.referenced));
        format!("FOREIGN KEY ({columns}) REFERENCES {table} ({referenced}){}", self.clauses())
    }

    /// What stands behind the columns.
    pub(crate) fn clauses(&self) -> String {
        let mut text = String::new();
        if self.match_full {
            text.push_str(" MATCH FULL");
        }
        if let Some(action) = self.on_update.name() {
            text.push_str(&format!(" ON UPDATE {action}"));
        }
        if let Some(action) = self.on_delete.name() {
            text.push_str(&format!(" ON DELETE {action}"));
        }
        if !self.on_delete_columns.is_empty() {
            text.push_str(&format!(" ({})", quoted_list(&self.on_delete_columns)));
        }
        text.push_str(match self.timing {
            Timing::Immediate => "",
            Timing::Deferrable => " DEFERRABLE",
            Timing::Deferred => " DEFERRABLE INITIALLY DEFERRED",
        });
        text
    }
}

/// What becomes of rows when the row that they refer to goes, or gets another key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// The change is an error, unless the statement ends with a row of the old key.
    #[default]
    NoAction,
    /// The change is an error.
    Restrict,
    /// They follow.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

impl Action {
    fn is_none(&self) -> bool {
        *self == Self::NoAction
    }

    /// Its name in SQL, unless it is what SQL takes where none is written.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::NoAction => None,
            Self::Restrict => Some("RESTRICT"),
            Self::Cascade => Some("CASCADE"),
            Self::SetNull => Some("SET NULL"),
            Self::SetDefault => Some("SET DEFAULT"),
        }
    }

    /// Whether it changes rows that refer.
    pub(crate) fn changes_rows(self) -> bool {
        !matches!(self, Self::NoAction | Self::Restrict)
    }
}

/// When a foreign key is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// At the end of each statement.
    #[default]
    Immediate,
    /// At the end of each statement, unless `SET CONSTRAINTS` says otherwise.
    Deferrable,
    /// When the transaction commits, unless `SET CONSTRAINTS` says otherwise.
    Deferred,
}

impl Timing {
    fn is_immediate(&self) -> bool {
        *self == Self::Immediate
    }

    /// Whether it is checked when the transaction commits, if nothing else is said.
    pub(crate) fn is_deferred(self) -> bool {
        self == Self::Deferred
    }

    /// Whether it may be checked when the transaction commits.
    pub(crate) fn is_deferrable(self) -> bool {
        self != Self::Immediate
    }
}
