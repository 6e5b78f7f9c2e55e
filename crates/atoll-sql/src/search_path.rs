//! The setting `search_path`: the schemas in which names without a schema are looked up.

use std::hash::{DefaultHasher, Hash, Hasher};

use sqlparser::ast::{Expr, Value, ValueWithSpan};
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::dialect::AtollDialect;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::fold::fold;
use crate::quoted::quoted_if_needed;
use crate::schemas::{PUBLIC, SYSTEM};

/// The schema that is named as the user. Atoll has no roles, so there is none.
const USER: &str = "$user";

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchPath {
    schemas: Vec<String>,
    /// As it was set.
    text: String,
    /// Tells paths apart; 0 for one that names `public` alone.
    mark: u64,
}

impl Default for SearchPath {
    fn default() -> Self {
        let schemas = vec![USER.to_owned(), PUBLIC.to_owned()];
        Self::of(schemas, "\"$user\", public".to_owned())
    }
}

impl SearchPath {
    fn of(schemas: Vec<String>, text: String) -> Self {
        let mut path = Self { schemas, text, mark: 0 };
        if path.schemas(&|_| true) != [PUBLIC] {
            let mut hasher = DefaultHasher::new();
            path.schemas.hash(&mut hasher);
            path.mark = hasher.finish().max(1);
        }
        path
    }

    /// The path that `SET search_path TO …` lists.
    ///
    /// # Errors
    /// Something in the list is no name.
    pub(crate) fn of_values(values: &[Expr]) -> Result<Self, SqlError> {
        let schemas = values.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let text: Vec<_> = schemas.iter().map(|name| shown(name)).collect();
        Ok(Self::of(schemas, text.join(", ")))
    }

    /// The path that a text lists.
    ///
    /// # Errors
    /// The text is no list of names.
    pub(crate) fn of_text(text: &str) -> Result<Self, SqlError> {
        let invalid = || {
            let message = format!("invalid value for parameter \"search_path\": \"{text}\"");
            SqlError::new(SqlErrorKind::Type, message)
                .with_cause(Cause::InvalidParameter)
                .with_detail("List syntax is invalid.".to_owned())
        };
        let dialect = AtollDialect;
        let tokens = Tokenizer::new(&dialect, text).tokenize().map_err(|_| invalid())?;
        let mut schemas = Vec::new();
        let mut wants_name = true;
        for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
            match token {
                Token::Word(word) if wants_name => schemas.push(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_ascii_lowercase(),
                }),
                Token::Comma if !wants_name => {}
                _ => return Err(invalid()),
            }
            wants_name = !wants_name;
        }
        match wants_name && !schemas.is_empty() {
            true => Err(invalid()),
            false => Ok(Self::of(schemas, text.to_owned())),
        }
    }

    /// As `SHOW` writes it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its schemas that exist.
    pub(crate) fn schemas<'p>(&'p self, exists: &dyn Fn(&str) -> bool) -> Vec<&'p str> {
        let mut found: Vec<&str> = Vec::new();
        for schema in self.schemas.iter().map(String::as_str) {
            let is_other = schema != USER && !SYSTEM.contains(&schema) && !found.contains(&schema);
            if is_other && exists(schema) {
                found.push(schema);
            }
        }
        found
    }

    /// A number that tells paths apart; 0 for one that names `public` alone.
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// Whether `public` is its one schema.
    pub(crate) fn is_usual(&self) -> bool {
        self.mark == 0
    }
}

/// A schema in a list.
fn named(value: &Expr) -> Result<String, SqlError> {
    match value {
        Expr::Identifier(ident) => Ok(fold(ident)),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => {
            Ok(name.clone())
        }
        other => {
            let message = format!("{other} is not the name of a schema");
            Err(SqlError::new(SqlErrorKind::Syntax, message))
        }
    }
}

/// A name as a list has it.
fn shown(name: &str) -> String {
    match name {
        "" => "\"\"".to_owned(),
        name => quoted_if_needed(name).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_list_of_names_is_read() {
        let schemas = |text: &str| SearchPath::of_text(text).map(|path| path.schemas);
        assert_eq!(schemas(r#"a, "B c" ,PUBLIC"#).unwrap(), ["a", "B c", "public"]);
        assert!(schemas("").unwrap().is_empty());
        for text in ["a,", ",", "a b", "a; b", "7"] {
            let error = schemas(text).unwrap_err();
            assert_eq!(error.sqlstate(), "22023", "{text}");
        }
    }

    #[test]
    fn schemas_that_do_not_exist_are_passed_over() {
        let path = SearchPath::of_text("a, pg_catalog, b, \"$user\", a").unwrap();
        assert_eq!(path.schemas(&|_| true), ["a", "b"]);
        assert_eq!(path.schemas(&|name| name == "b"), ["b"]);
        assert!(SearchPath::default().is_usual() && !path.is_usual());
    }
}
