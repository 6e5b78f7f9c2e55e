//! The plan of a statement that has run, to see why it took so long.

use sqlparser::ast::Statement;

use super::SqlSession;
use super::bound::is_bound;
use crate::error::SqlError;
use crate::literal::Literal;
use crate::prepared::parameters;
use crate::{depth, parse};

impl SqlSession {
    /// The plan of a query or a change of rows, in lines, as `EXPLAIN` has it now; `None` if it has
    /// none, or none can be had. An open transaction is as before.
    pub fn plan(&mut self, sql: &str, values: &[Literal]) -> Option<String> {
        self.check_owner().ok()?;
        self.wake().ok()?;
        // The time of the statement is over.
        self.deadline = None;
        let plan = self.planned(sql, values);
        self.rest();
        plan.ok().flatten()
    }

    fn planned(&mut self, sql: &str, values: &[Literal]) -> Result<Option<String>, SqlError> {
        let tokens = parse::only_tokens(&format!("EXPLAIN {sql}"))?;
        depth::with_room_for(depth::of(&tokens)?, || {
            let mut statement = self.resolved(parse::statement(tokens)?)?;
            let Statement::Explain { statement: inner, .. } = &statement else { return Ok(None) };
            let count = parameters::count(inner)?;
            if !is_bound(inner) || count != values.len() {
                return Ok(None);
            }
            let short = match count {
                0 => self.explain(inner)?,
                _ => self.explain_with(inner, count, values)?,
            };
            let shown = match short {
                Some(shown) => shown,
                None => {
                    parameters::replace(&mut statement, |at| {
                        values.get(at).map(parameters::written)
                    });
                    self.rows(statement)?
                }
            };
            let mut lines: Vec<String> = Vec::new();
            shown.for_each_row(|row| {
                // The last column is the plan; others say of which kind it is.
                let last = row.width().saturating_sub(1);
                lines.push(row.text(last)?.to_owned());
                Ok::<_, SqlError>(())
            })?;
            Ok(Some(lines.join("\n")))
        })
    }
}
