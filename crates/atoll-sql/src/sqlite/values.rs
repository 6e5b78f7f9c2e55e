//! Rows of a dump of sqlite3: `INSERT INTO t VALUES(…)`.

use sqlparser::tokenizer::Token;

use super::{SqliteScript, behind_parenthesis, is_word, one, parts, quote, word, written};
use crate::error::SqlError;
use crate::quoted::quoted_if_needed;

/// What the values of a column are, where SQLite writes them otherwise than Atoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// 0 and 1 are truth values.
    Bool,
    /// A number that is too large is infinite.
    Float,
    /// A text is its bytes.
    Bytes,
    Other,
}

impl SqliteScript {
    /// `INSERT INTO t VALUES(…)`, with the columns that get the values.
    pub(super) fn insert(&mut self, tokens: &[Token]) -> Result<Vec<String>, SqlError> {
        let name = word(&tokens[2]);
        let Some(table) = self.tables.get_mut(&name) else { return Ok(vec![written(tokens)]) };
        let (true, Some(Token::LParen)) = (is_word(tokens.get(3), "VALUES"), tokens.get(4)) else {
            return Ok(vec![written(tokens)]);
        };
        let end = behind_parenthesis(tokens, 4);
        let values = parts(&tokens[5..end - 1]);
        if end != tokens.len() || values.len() != table.columns.len() {
            return Ok(vec![written(tokens)]);
        }
        if let Some((at, last)) = &mut table.numbered
            && let [Token::Number(digits, _)] = values[*at]
            && let Ok(number) = digits.parse::<i64>()
        {
            *last = number.max(*last);
        }
        let mut names = Vec::with_capacity(values.len());
        let mut texts = Vec::with_capacity(values.len());
        for (value, (column, kind)) in values.iter().zip(&table.columns) {
            names.push(quoted_if_needed(column));
            texts.push(converted(value, *kind));
        }
        let name = quoted_if_needed(&name);
        Ok(vec![format!("INSERT INTO {name} ({}) VALUES ({})", names.join(", "), texts.join(", "))])
    }
}

/// A value as Atoll writes it.
fn converted(value: &[Token], kind: Kind) -> String {
    let (sign, number) = match value {
        [Token::Minus, rest @ ..] => ("-", rest),
        all => ("", all),
    };
    match (kind, number) {
        (Kind::Bool, [Token::Number(digits, _)]) if digits == "0" || digits == "1" => {
            if digits == "1" { "true" } else { "false" }.to_owned()
        }
        (Kind::Float, [Token::Number(digits, _)])
            if digits.parse::<f64>().is_ok_and(f64::is_infinite) =>
        {
            format!("'{sign}Infinity'")
        }
        (Kind::Bytes, [Token::SingleQuotedString(text)]) => {
            let bytes: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("X'{bytes}'")
        }
        (_, [one_token]) if sign.is_empty() => one(one_token),
        _ => match text_of(value) {
            Some(text) => quote(&text),
            None => written(value),
        },
    }
}

/// The text that `replace('…','\n',char(10))` is, which sqlite3 writes for one with several lines.
fn text_of(tokens: &[Token]) -> Option<String> {
    if let [Token::SingleQuotedString(text)] = tokens {
        return Some(text.clone());
    }
    if !is_word(tokens.first(), "replace") || tokens.get(1) != Some(&Token::LParen) {
        return None;
    }
    let inner = tokens.get(2..tokens.len().checked_sub(1)?)?;
    let [text, old, new] = parts(inner).try_into().ok()?;
    let [Token::SingleQuotedString(old)] = old else { return None };
    let [name, Token::LParen, Token::Number(code, _), Token::RParen] = new else { return None };
    let letter = char::from_u32(code.parse().ok()?).filter(|_| is_word(Some(name), "char"))?;
    Some(text_of(text)?.replace(old.as_str(), &letter.to_string()))
}
