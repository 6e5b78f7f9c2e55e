//! Scripts of sqlite3's `.dump`, as statements of Atoll.
//!
//! 1. `PRAGMA foreign_keys=OFF` begins such a script ([`SqliteScript::begins`]).
//! 2. Each statement of it becomes statements of Atoll, which run in its place. Names are in lower
//!    case, since SQLite finds them in any case.
//! 3. What needs all rows is done before `COMMIT`: foreign keys, which may refer to tables that
//!    come later, and the next numbers of identity columns.
//!
//! `SQLITE-1`: what would mean something else in Atoll is refused rather than left away.

mod tables;
mod values;

use std::collections::HashMap;

use sqlparser::dialect::SQLiteDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use self::values::Kind;
use crate::error::SqlError;
use crate::quoted::quoted_if_needed;

/// A script that is read; see the module.
#[derive(Debug, Default)]
pub struct SqliteScript {
    tables: HashMap<String, Table>,
    /// The tables in the order of their creation.
    order: Vec<String>,
}

/// What is known of a table.
#[derive(Debug, Default)]
struct Table {
    /// The columns that get values, in their order.
    columns: Vec<(String, Kind)>,
    /// The column with the number of the row, and the largest number so far.
    numbered: Option<(usize, i64)>,
    /// The clauses that add its foreign keys.
    foreign_keys: Vec<String>,
}

impl SqliteScript {
    /// Whether a statement begins such a script.
    pub fn begins(statement: &str) -> bool {
        let words = tokens(statement).unwrap_or_default();
        let words: Vec<String> = words.iter().map(|token| token.to_string()).collect();
        let text = words.concat().to_ascii_lowercase();
        text.trim_end_matches(';') == "pragmaforeign_keys=off"
    }

    /// The statements that stand for one of the script.
    ///
    /// # Errors
    /// It has something that would mean something else in Atoll (`SQLITE-1`).
    pub fn translate(&mut self, statement: &str) -> Result<Vec<String>, SqlError> {
        let mut tokens = tokens(statement)?;
        while tokens.last() == Some(&Token::SemiColon) {
            tokens.pop();
        }
        let first: Vec<String> = tokens.iter().take(3).map(word).collect();
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        match first.as_slice() {
            ["pragma", "foreign_keys", ..] => Ok(Vec::new()),
            // Statistics, and the numbers of rows, which are those of the rows themselves.
            ["analyze", ..] => Ok(Vec::new()),
            ["create", "table", name] if is_of_system(name) => Ok(Vec::new()),
            ["delete", "from", name] if is_of_system(name) => Ok(Vec::new()),
            ["insert", "into", "sqlite_sequence"] => {
                self.sequence(&tokens);
                Ok(Vec::new())
            }
            ["insert", "into", name] if is_of_system(name) => Ok(Vec::new()),
            ["create", "table", _] => self.create_table(&tokens),
            ["insert", "into", _] => self.insert(&tokens),
            ["commit", ..] => {
                let mut all = self.rest();
                all.push("COMMIT".to_owned());
                Ok(all)
            }
            _ => Ok(vec![written(&tokens)]),
        }
    }

    /// What is done when all rows are there.
    fn rest(&self) -> Vec<String> {
        let tables = self.order.iter().filter_map(|name| Some((name, self.tables.get(name)?)));
        let mut all = Vec::new();
        for (name, table) in tables {
            if let Some((at, last)) = table.numbered
                && last > 0
            {
                let sequence = format!("\"{name}_{}_seq\"", table.columns[at].0);
                all.push(format!("SELECT setval({}, {last})", quote(&sequence)));
            }
            let name = quoted_if_needed(name);
            let keys = table.foreign_keys.iter();
            all.extend(keys.map(|clause| format!("ALTER TABLE {name} ADD {clause}")));
        }
        all
    }

    /// `INSERT INTO sqlite_sequence VALUES('table',number)`.
    fn sequence(&mut self, tokens: &[Token]) {
        let name = tokens.iter().find_map(|token| match token {
            Token::SingleQuotedString(name) => Some(name.to_lowercase()),
            _ => None,
        });
        let number = tokens.iter().find_map(|token| match token {
            Token::Number(digits, _) => digits.parse::<i64>().ok(),
            _ => None,
        });
        let table = name.and_then(|name| self.tables.get_mut(&name));
        if let (Some(Table { numbered: Some((_, last)), .. }), Some(number)) = (table, number) {
            *last = number.max(*last);
        }
    }
}

fn is_of_system(name: &str) -> bool {
    matches!(name, "sqlite_sequence" | "sqlite_stat1" | "sqlite_stat3" | "sqlite_stat4")
}

/// The tokens of a statement of SQLite, without what stands between them.
fn tokens(statement: &str) -> Result<Vec<Token>, SqlError> {
    let tokens = Tokenizer::new(&SQLiteDialect {}, statement).tokenize()?;
    Ok(tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect())
}

/// A word in lower case; nothing for other tokens.
fn word(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.to_lowercase(),
        _ => String::new(),
    }
}

/// Whether a token is this keyword.
fn is_word(token: Option<&Token>, keyword: &str) -> bool {
    matches!(token, Some(Token::Word(Word { value, quote_style: None, .. }))
        if value.eq_ignore_ascii_case(keyword))
}

/// A token as Atoll reads it.
fn one(token: &Token) -> String {
    match token {
        Token::Word(Word { value, quote_style: Some(_), .. }) => {
            quoted_if_needed(&value.to_lowercase()).into_owned()
        }
        Token::SingleQuotedString(text) => quote(text),
        other => other.to_string(),
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Tokens as a text.
fn written(tokens: &[Token]) -> String {
    let mut text = String::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_tight = matches!(token, Token::Comma | Token::RParen | Token::Period)
            || at > 0 && matches!(tokens[at - 1], Token::LParen | Token::Period);
        let is_call =
            matches!(token, Token::LParen) && at > 0 && matches!(&tokens[at - 1], Token::Word(_));
        if at > 0 && !is_tight && !is_call {
            text.push(' ');
        }
        text.push_str(&one(token));
    }
    text
}

/// The place behind the parenthesis that closes the one at a place.
fn behind_parenthesis(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// Parts between commas outside of parentheses.
fn parts(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[begin..]);
    parts
}

#[cfg(test)]
mod tests;
