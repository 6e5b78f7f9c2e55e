//! `[NOT] DEFERRABLE` among the modes of a transaction, which sqlparser does not know.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Takes `[NOT] DEFERRABLE`, with one of the commas beside it, out of a statement with modes.
pub(crate) fn take_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let word = |at: usize| places.get(at).and_then(|at| keyword(&tokens[*at]));
    let has_modes = match word(0) {
        Some(Keyword::BEGIN) => true,
        Some(Keyword::START) => word(1) == Some(Keyword::TRANSACTION),
        Some(Keyword::SET) => {
            matches!(word(1), Some(Keyword::TRANSACTION | Keyword::SESSION | Keyword::LOCAL))
                && (1..5).any(|at| word(at) == Some(Keyword::TRANSACTION))
        }
        _ => false,
    };
    if !has_modes {
        return;
    }
    let is_comma = |at: usize| places.get(at).is_some_and(|at| tokens[*at].token == Token::Comma);
    let mut gone = Vec::new();
    for last in (1..places.len()).filter(|at| word(*at) == Some(Keyword::DEFERRABLE)) {
        let is_negated = word(last - 1) == Some(Keyword::NOT);
        let first = if is_negated { last - 1 } else { last };
        let is_free = |at: usize| is_comma(at) && !gone.contains(&places[at]);
        let comma = [first - 1, last + 1].into_iter().find(|at| is_free(*at));
        gone.extend((first..=last).chain(comma).map(|at| places[at]));
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn transactions_may_be_deferrable() {
        for (sql, read) in [
            ("BEGIN DEFERRABLE", "BEGIN"),
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            ("BEGIN NOT DEFERRABLE, READ ONLY", "BEGIN READ ONLY"),
            ("START TRANSACTION READ ONLY, NOT DEFERRABLE", "START READ ONLY"),
            ("SET TRANSACTION READ ONLY, DEFERRABLE, READ WRITE", "SET READ ONLY, READ WRITE"),
        ] {
            let parsed = crate::parse::one(sql).unwrap().to_string();
            assert_eq!(parsed.replace(" TRANSACTION", ""), read, "{sql}");
        }
        assert!(crate::parse::one("SELECT deferrable FROM t").is_ok());
        assert!(crate::parse::one("BEGIN NOT").is_err());
    }
}
