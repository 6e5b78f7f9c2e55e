//! Values for the parameters of statements, `$1`, `$2`, …: those of `\bind` for the next one,
//! and those of `--param` for every statement of the scripts.
//!
//! A value is a text, which takes the type of what its parameter stands beside, as a quoted literal
//! does. `\N` is NULL, as in the text format of COPY.

use atoll_sql::{Literal, SqlError};

use crate::session::Session;
use crate::shell::meta::Word;

/// The value that stands for NULL.
const NULL: &str = r"\N";

/// See the module.
#[derive(Debug, Default)]
pub struct Values {
    /// Of `\bind`, until the next statement.
    bound: Option<Vec<Literal>>,
    /// Of `--param`.
    given: Vec<Literal>,
    /// How many of those have been used, from the first on.
    used: usize,
}

impl Values {
    /// The values of `--param`.
    pub fn give(&mut self, texts: &[String]) {
        let value = |text: &String| value(text, false);
        (self.given, self.used) = (texts.iter().map(value).collect(), 0);
    }

    /// The values of `\bind`.
    pub fn bind(&mut self, words: &[Word]) {
        self.bound = Some(words.iter().map(|word| value(&word.text, word.is_quoted)).collect());
    }

    /// The values for the next statement. Of those of `--param` it gets as many as it has
    /// parameters, since a script may need `$2` in one statement only.
    ///
    /// # Errors
    /// Those of the statement that can be told without values.
    pub fn of(&mut self, session: &mut Session, sql: &str) -> Result<Vec<Literal>, SqlError> {
        if let Some(bound) = self.bound.take() {
            return Ok(bound);
        }
        let has_parameters = !self.given.is_empty() && sql.contains(['$', '?']);
        let parameters = if has_parameters { session.parameters(sql)? } else { 0 };
        let most = parameters.min(self.given.len());
        self.used = self.used.max(most);
        Ok(self.given[..most].to_vec())
    }

    /// Complains of values that no statement has used.
    pub fn unused(&self) -> Option<String> {
        if let Some(bound) = self.bound.as_ref().filter(|bound| !bound.is_empty()) {
            let count = bound.len();
            return Some(format!("no statement came behind \\bind; its values ({count}) are lost"));
        }
        let first = self.used + 1;
        (self.used < self.given.len())
            .then(|| format!("no statement has a parameter ${first}; its --param was not used"))
    }
}

fn value(text: &str, is_quoted: bool) -> Literal {
    if text == NULL && !is_quoted { Literal::Null } else { Literal::from(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_text_unless_it_is_the_mark_of_null() {
        assert_eq!(value("7", false), Literal::from("7"));
        assert_eq!(value("NULL", false), Literal::from("NULL"));
        assert_eq!(value(NULL, true), Literal::from(NULL));
        assert_eq!(value(NULL, false), Literal::Null);
    }
}
