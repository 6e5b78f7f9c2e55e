//! `VACUUM`, `ANALYZE` and `CHECKPOINT`.
//!
//! What no transaction and no snapshot can see is freed by a thread of the database all the time,
//! and plans need no statistics that are gathered beforehand. So there is nothing left to do for
//! the first two, and their tables only have to exist.

use sqlparser::ast::Statement;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Outcome, SqlSession, Target};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::{names, parse};

/// The verb of such a statement, and the names behind it.
struct Maintenance {
    verb: &'static str,
    /// As they are written; empty for all tables.
    tables: Vec<String>,
}

/// Whether the tokens are those of such a statement, as far as it is correct.
pub(super) fn is_correct(tokens: &[TokenWithSpan]) -> Option<Result<(), SqlError>> {
    Maintenance::of(tokens).map(|read| read.map(drop))
}

impl Maintenance {
    /// Reads a statement, if it begins as one of these.
    fn of(tokens: &[TokenWithSpan]) -> Option<Result<Self, SqlError>> {
        let mut told =
            tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let is = |token: &TokenWithSpan, word: &str| match &token.token {
            Token::Word(found) => {
                found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word)
            }
            _ => false,
        };
        let first = told.next()?;
        let verb = ["VACUUM", "ANALYZE", "ANALYSE", "CHECKPOINT"];
        let verb = verb.into_iter().find(|verb| is(first, verb))?;
        let verb = if verb == "ANALYSE" { "ANALYZE" } else { verb };
        let mut rest: Vec<&TokenWithSpan> = told.collect();
        if verb == "CHECKPOINT" {
            return Some(match rest.first() {
                None => Ok(Self { verb, tables: Vec::new() }),
                Some(more) => Err(unexpected(more)),
            });
        }
        if rest.first().is_some_and(|token| token.token == Token::LParen) {
            let close = rest.iter().position(|token| token.token == Token::RParen);
            rest.drain(..close.map_or(rest.len(), |close| close + 1));
        }
        let options: &[&str] = match verb {
            "VACUUM" => &["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"],
            _ => &["VERBOSE"],
        };
        let count = rest.iter().take_while(|token| options.iter().any(|one| is(token, one)));
        let count = count.count();
        rest.drain(..count);
        Some(Self::tables(&rest).map(|tables| Self { verb, tables }))
    }

    /// The names of a list, each perhaps with columns in parentheses behind it.
    fn tables(rest: &[&TokenWithSpan]) -> Result<Vec<String>, SqlError> {
        let (mut tables, mut depth) = (Vec::new(), 0u32);
        let mut name = String::new();
        for token in rest {
            match &token.token {
                Token::LParen if !name.is_empty() => depth += 1,
                Token::RParen if depth > 0 => depth -= 1,
                _ if depth > 0 => {}
                Token::Comma if !name.is_empty() => tables.push(std::mem::take(&mut name)),
                Token::Word(_) if name.is_empty() || name.ends_with('.') => {
                    name.push_str(&token.token.to_string());
                }
                Token::Period if !name.is_empty() && !name.ends_with('.') => name.push('.'),
                _ => return Err(unexpected(token)),
            }
        }
        match (name.is_empty(), tables.is_empty(), name.ends_with('.')) {
            (false, _, false) => tables.push(name),
            (true, true, _) => {}
            _ => return Err(SqlError::new(SqlErrorKind::Syntax, "syntax error at end of input")),
        }
        Ok(tables)
    }
}

fn unexpected(token: &TokenWithSpan) -> SqlError {
    let message = format!("syntax error at or near \"{}\"", token.token);
    SqlError::new(SqlErrorKind::Syntax, message).at(token.span)
}

impl SqlSession {
    /// Carries out a statement of these, if the tokens are those of one.
    pub(super) fn maintain(
        &mut self,
        tokens: &[TokenWithSpan],
    ) -> Result<Option<Outcome>, SqlError> {
        let Some(read) = Maintenance::of(tokens) else { return Ok(None) };
        let Maintenance { verb, tables } = read?;
        let db = self.writable(verb)?.clone();
        if verb == "CHECKPOINT" && self.restricted().is_some() {
            let message = "must be superuser to do CHECKPOINT";
            return Err(SqlError::new(SqlErrorKind::Schema, message).with_state("42501"));
        }
        if verb == "VACUUM" && self.in_transaction() {
            let message = "VACUUM cannot run inside a transaction block";
            return Err(SqlError::new(SqlErrorKind::Unsupported, message)
                .with_cause(Cause::OpenTransaction));
        }
        if !tables.is_empty() {
            let lock = parse::one(&format!("LOCK TABLE {}", tables.join(", ")))?;
            let Statement::Lock(lock) = self.resolved(lock)? else { return Ok(None) };
            let scope = self.scope()?;
            for target in &lock.tables {
                let (name, span) = names::table_name(&target.name)?;
                names::find_table(&scope, &name, span)?;
            }
        }
        if verb == "CHECKPOINT" && matches!(&self.target, Target::Database { .. }) {
            // A database in memory has none to take.
            if db.durability().is_some() {
                db.checkpoint()?;
            }
        }
        Ok(Some(Outcome::done(verb, 0)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(sql: &str) -> Result<(String, Vec<String>), SqlError> {
        let tokens = parse::only_tokens(sql).unwrap();
        let read = Maintenance::of(&tokens).unwrap()?;
        Ok((read.verb.to_owned(), read.tables))
    }

    #[test]
    fn statements_are_read_with_their_options() {
        for (sql, verb, tables) in [
            ("vacuum", "VACUUM", vec![]),
            ("VACUUM FULL VERBOSE ANALYZE a.\"B c\", d", "VACUUM", vec!["a.\"B c\"", "d"]),
            ("VACUUM (ANALYZE, FULL off) t", "VACUUM", vec!["t"]),
            ("analyze t (a, b), u", "ANALYZE", vec!["t", "u"]),
            ("CHECKPOINT", "CHECKPOINT", vec![]),
        ] {
            let tables: Vec<String> = tables.into_iter().map(str::to_owned).collect();
            assert_eq!(read(sql), Ok((verb.to_owned(), tables)), "{sql}");
        }
        for sql in
            ["CHECKPOINT now", "VACUUM a b", "VACUUM a,", "ANALYZE .", "VACUUM 1", "ANALYZE a."]
        {
            assert!(read(sql).is_err(), "{sql}");
        }
        assert!(Maintenance::of(&parse::only_tokens("SELECT 1").unwrap()).is_none());
    }
}
