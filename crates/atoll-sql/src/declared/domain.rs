//! Domains: types with a default, and with rules for their values.

use serde::{Deserialize, Serialize};

use super::Check;

/// The rules of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its values are not NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_null: bool,
    /// The expression of the value of a column that is given none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Conditions for `VALUE`, of which none may be false.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl Domain {
    /// Whether it refuses some values.
    pub(crate) fn has_rules(&self) -> bool {
        self.not_null || !self.checks.is_empty()
    }
}
