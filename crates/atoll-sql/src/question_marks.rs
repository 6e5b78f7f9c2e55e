//! Parameters that are written as question marks, as Python's database modules do.
//!
//! A question mark between two operands is the operator of `jsonb` that asks for a key.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{SqlError, SqlErrorKind};

/// Gives numbers to parameters that are written as question marks.
///
/// # Errors
/// Both ways of writing them in one statement.
pub(crate) fn number(tokens: &mut [TokenWithSpan]) -> Result<(), SqlError> {
    let operators = operators(tokens);
    let is_mark =
        |token: &TokenWithSpan| token.token == Token::Question && !operators.contains(&token.span);
    let numbered =
        tokens.iter().find(|token| matches!(&token.token, Token::Placeholder(id) if id != "?"));
    if let Some(numbered) = numbered
        && tokens.iter().any(is_mark)
    {
        let message = "a statement has parameters as ? or as $1, not both";
        return Err(SqlError::new(SqlErrorKind::Syntax, message).at(numbered.span));
    }
    for (at, token) in tokens.iter_mut().filter(|token| is_mark(token)).enumerate() {
        token.token = Token::Placeholder(format!("${}", at + 1));
    }
    Ok(())
}

/// The places of the question marks that are operators: one stands behind an operand, and another
/// operand behind it. No parameter has a text or another parameter behind it.
fn operators(tokens: &[TokenWithSpan]) -> Vec<Span> {
    let plain = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let plain: Vec<&TokenWithSpan> = plain.collect();
    let mut found: Vec<Span> = Vec::new();
    for trio in plain.windows(3) {
        let [before, mark, behind] = trio else { continue };
        if mark.token != Token::Question {
            continue;
        }
        let is_operand = match &before.token {
            Token::Word(word) => word.keyword == Keyword::NoKeyword || word.quote_style.is_some(),
            Token::RParen | Token::RBracket | Token::Number(..) => true,
            Token::SingleQuotedString(_) | Token::Placeholder(_) => true,
            Token::Question => !found.contains(&before.span),
            _ => false,
        };
        let is_followed = match &behind.token {
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => true,
            Token::Placeholder(_) | Token::Question => true,
            Token::Word(word) => {
                is_operand && (word.keyword == Keyword::NoKeyword || word.quote_style.is_some())
            }
            Token::LParen => is_operand,
            _ => false,
        };
        let is_keyword = matches!(before.token, Token::Word(_));
        if is_followed && (is_operand || is_keyword) {
            found.push(mark.span);
        }
    }
    found
}
