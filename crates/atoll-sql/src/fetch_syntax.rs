//! `FETCH FIRST (n) ROWS`: the parser takes a number and no expression in parentheses.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Puts what the parser takes in the place of a number of rows in parentheses: the number alone, or
/// `LIMIT (expression)`.
pub(crate) fn replace(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    while let Some(at) = (from..tokens.len()).find(|at| is(&tokens[*at].token, Keyword::FETCH)) {
        from = at + 1;
        let behind: Vec<usize> =
            (from..tokens.len()).filter(|at| !is_space(&tokens[*at])).take(2).collect();
        let [first, open] = behind[..] else { return };
        let is_first = is(&tokens[first].token, Keyword::FIRST);
        if !(is_first || is(&tokens[first].token, Keyword::NEXT))
            || tokens[open].token != Token::LParen
        {
            continue;
        }
        let Some(close) = closing(tokens, open) else { return };
        let mut inner = (open + 1..close).filter(|at| !is_space(&tokens[*at]));
        if let (Some(only), None) = (inner.next(), inner.next()) {
            let only = tokens[only].clone();
            tokens.splice(open..=close, [only]);
            continue;
        }
        let behind: Vec<usize> =
            (close + 1..tokens.len()).filter(|at| !is_space(&tokens[*at])).take(2).collect();
        let [rows, end] = behind[..] else { return };
        let is_rows = [Keyword::ROW, Keyword::ROWS].iter().any(|one| is(&tokens[rows].token, *one));
        if is_rows && is(&tokens[end].token, Keyword::ONLY) {
            tokens.drain(rows..=end);
            tokens.drain(at + 1..=first);
            let (value, keyword) = ("LIMIT".to_owned(), Keyword::LIMIT);
            tokens[at].token = Token::Word(Word { value, quote_style: None, keyword });
        }
    }
}

fn is(token: &Token, wanted: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == wanted && word.quote_style.is_none())
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// The parenthesis that closes the one at this place.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    tokens[open..]
        .iter()
        .position(|token| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
        .map(|at| open + at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::parse;

    #[test]
    fn a_number_of_rows_may_stand_in_parentheses() {
        for (sql, read) in [
            (
                "SELECT a FROM t FETCH FIRST (2) ROWS ONLY",
                "SELECT a FROM t FETCH FIRST 2 ROWS ONLY",
            ),
            (
                "SELECT a FROM t OFFSET 1 ROWS FETCH NEXT ($1) ROW ONLY",
                "SELECT a FROM t OFFSET 1 ROWS FETCH FIRST $1 ROWS ONLY",
            ),
            (
                "SELECT a FROM t FETCH FIRST (1 + (2)) ROWS ONLY FOR UPDATE",
                "SELECT a FROM t LIMIT (1 + (2)) FOR UPDATE",
            ),
            (
                "SELECT (SELECT a FROM t FETCH FIRST (1 + 2) ROWS ONLY)",
                "SELECT (SELECT a FROM t LIMIT (1 + 2))",
            ),
        ] {
            assert_eq!(parse::one(sql).unwrap().to_string(), read, "{sql}");
        }
    }
}
