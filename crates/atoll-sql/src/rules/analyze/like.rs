//! `LIKE` and `ILIKE`, and functions that see the blanks at the end of a text.

use datafusion::common::Result;
use datafusion::logical_expr::{Expr, Like};

use super::scope::Scope;
use crate::rules::typed::Typed;
use crate::rules::{functions, lengths};

impl Scope<'_> {
    /// DataFusion's own takes what escapes at the end of a pattern for a character.
    pub(super) fn like(&self, like: Like) -> Result<Expr> {
        let pattern = self.typed(like.pattern.as_ref().clone())?;
        let is_plain = pattern.arrow.is_null()
            || pattern.untyped().is_some_and(|written| {
                let behind = written.trim_end_matches('\\');
                (written.len() - behind.len()) % 2 == 0
            });
        let text = self.typed(like.expr.as_ref().clone())?;
        if is_plain || !text.arrow.is_string() || !pattern.arrow.is_string() {
            return Ok(Expr::Like(like));
        }
        let name = if like.case_insensitive { "texticlike" } else { "textlike" };
        let found = functions::call(name, vec![text, pattern])?;
        Ok(if like.negated { Expr::Not(Box::new(found)) } else { found })
    }

    /// The arguments of a function; one that counts bytes sees the blanks of a `character(n)`.
    pub(super) fn with_blanks(&self, name: &str, arguments: Vec<Typed>) -> Result<Vec<Typed>> {
        if !matches!(name, "octet_length" | "bit_length") {
            return Ok(arguments);
        }
        arguments.into_iter().map(|one| self.typed(lengths::shown(one))).collect()
    }
}
