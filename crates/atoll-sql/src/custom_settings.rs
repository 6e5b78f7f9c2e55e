//! Settings that programs have for themselves, such as `app.user`: a name with a point, and a text.
//!
//! `CUSTOM-1`: as in PostgreSQL one that was set once exists until the session ends. It is empty
//! where it was reset, or the transaction was rolled back that has set it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast::Ident;

use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::names;

/// Names with values; a setting that was reset has none.
type Values = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// Those of a session that have been set, with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Customs(Option<Arc<Values>>);

impl Customs {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name)?.as_deref()
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|all| all.contains_key(name))
    }

    /// Adds one without a value, unless there is one of the name.
    pub(crate) fn know(&mut self, name: &Arc<str>) {
        if !self.knows(name) {
            self.set(name, None);
        }
    }

    pub(crate) fn set(&mut self, name: &Arc<str>, value: Option<Arc<str>>) {
        let all = self.0.get_or_insert_default();
        Arc::make_mut(all).insert(Arc::clone(name), value);
    }

    /// The same names without values.
    pub(crate) fn emptied(&self) -> Self {
        let names = self.0.as_ref().map(|all| all.keys().map(|name| (Arc::clone(name), None)));
        Self(names.map(|names| Arc::new(names.collect())))
    }
}

/// The name of these parts.
pub(crate) fn joined(parts: &[Ident]) -> Arc<str> {
    let parts: Vec<String> = parts.iter().map(|part| names::fold(part).to_lowercase()).collect();
    parts.join(".").into()
}

/// Checks that a program may have a setting of this name.
///
/// # Errors
/// A part of it is no plain identifier.
pub(crate) fn check(name: &str) -> Result<(), SqlError> {
    let is_plain = |part: &str| {
        let mut chars = part.chars();
        let starts = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
        starts && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
    };
    if name.contains('.') && name.split('.').all(is_plain) {
        return Ok(());
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    let detail = "Custom parameter names must be two or more simple identifiers separated by dots.";
    Err(SqlError::new(SqlErrorKind::Syntax, message)
        .with_cause(Cause::InvalidName)
        .with_detail(detail.to_owned()))
}
