//! Parameters that are written as question marks, as Python's database modules do.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{SqlError, SqlErrorKind};

/// Gives numbers to parameters that are written as question marks.
///
/// # Errors
/// Both ways of writing them in one statement.
pub(crate) fn number(tokens: &mut [TokenWithSpan]) -> Result<(), SqlError> {
    let is_mark = |token: &TokenWithSpan| token.token == Token::Question;
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
