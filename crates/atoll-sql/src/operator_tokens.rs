//! Operators with the sign of the operand behind them: `b->-1`, `a*-1`.
//!
//! As in PostgreSQL (its manual, chapter 4.1.3), an operator ends with `+` or `-` only if it has
//! one of the characters of [`MARKS`]; otherwise these are the signs of what comes next. The
//! tokenizer takes all characters of operators that stand together for one.

use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::dialect::AtollDialect;
use crate::error::SqlError;

/// The characters that let an operator end with a sign.
const MARKS: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// The tokens with signs that stand for themselves.
///
/// # Errors
/// What is left of an operator is none.
pub(crate) fn without_signs(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    let is_together = |token: &TokenWithSpan| operator(token).is_some();
    if !tokens.iter().any(is_together) {
        return Ok(tokens);
    }
    let mut split = Vec::with_capacity(tokens.len() + 2);
    for token in tokens {
        match operator(&token) {
            Some((name, signs)) => split.extend(parts(name, signs, token.span.start)?),
            None => split.push(token),
        }
    }
    Ok(split)
}

/// The operator and the signs behind it that a token is.
fn operator(token: &TokenWithSpan) -> Option<(&str, &str)> {
    let Token::CustomBinaryOperator(text) = &token.token else { return None };
    let name = text.trim_end_matches(['+', '-']);
    let is_one = name.is_empty() || name.len() == text.len() || name.contains(MARKS);
    (!is_one).then(|| text.split_at(name.len()))
}

/// The tokens of an operator and of signs behind it, which begin at a place.
fn parts(name: &str, signs: &str, start: Location) -> Result<Vec<TokenWithSpan>, SqlError> {
    let place = |at: usize| Location::new(start.line, start.column + at as u64);
    let mut parts = Tokenizer::new(&AtollDialect, name).tokenize_with_location()?;
    for part in &mut parts {
        let within = |location: Location| place(location.column.saturating_sub(1) as usize);
        part.span = Span::new(within(part.span.start), within(part.span.end));
    }
    for (at, sign) in signs.chars().enumerate() {
        let token = if sign == '+' { Token::Plus } else { Token::Minus };
        let (begin, end) = (place(name.len() + at), place(name.len() + at + 1));
        parts.push(TokenWithSpan { token, span: Span::new(begin, end) });
    }
    Ok(parts)
}
