//! `NULLS NOT DISTINCT` behind the `UNIQUE` of a column, which the parser takes for a table only.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The comment of a column that stands for it. No statement can write it.
pub(crate) const NOT_DISTINCT: &str = "\u{1}nulls not distinct";

/// Puts what the parser takes in the place of the words behind the `UNIQUE` of a column.
pub(crate) fn replace(tokens: &mut Vec<TokenWithSpan>) {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let has = |tokens: &[TokenWithSpan], at: usize, wanted: Keyword| {
        let token = places.get(at).map(|place| &tokens[*place].token);
        matches!(token, Some(Token::Word(word))
            if word.keyword == wanted && word.quote_style.is_none())
    };
    let mut dropped = Vec::new();
    for at in 0..places.len() {
        if !has(tokens, at, Keyword::UNIQUE) || !has(tokens, at + 1, Keyword::NULLS) {
            continue;
        }
        let negated = usize::from(has(tokens, at + 2, Keyword::NOT));
        let behind = at + 3 + negated;
        let is_of_table = places.get(behind).is_some_and(|at| tokens[*at].token == Token::LParen);
        if is_of_table || !has(tokens, behind - 1, Keyword::DISTINCT) {
            continue;
        }
        if negated == 1 {
            let word =
                Word { value: "COMMENT".to_owned(), quote_style: None, keyword: Keyword::COMMENT };
            tokens[places[at + 1]].token = Token::Word(word);
            tokens[places[at + 2]].token = Token::SingleQuotedString(NOT_DISTINCT.to_owned());
            dropped.push(places[at + 3]);
        } else {
            dropped.extend(&places[at + 1..behind]);
        }
    }
    dropped.into_iter().rev().for_each(|at| drop(tokens.remove(at)));
}
