//! What `COPY` may say that the parser of sqlparser does not know: options, and a condition behind
//! `COPY t FROM …`.

use sqlparser::ast::{CopyOption, Ident};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::mark::MARK;

/// A `COPY` option that the parser does not know, as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExtraOption<'a> {
    pub(crate) name: &'a str,
    /// The word or the string behind it.
    pub(crate) value: Option<&'a str>,
    pub(crate) span: Span,
}

/// The quotes of the name of an [`ExtraOption`]: no name can have them.
pub(crate) const EXTRA: Option<char> = Some('=');

impl<'a> ExtraOption<'a> {
    /// The option, if it is one that the parser does not know.
    pub(crate) fn of(option: &'a CopyOption) -> Option<Self> {
        let CopyOption::ForceQuote(words) = option else { return None };
        let name = words.first().filter(|name| name.quote_style == EXTRA)?;
        let value = words.get(1).map(|value| value.value.as_str());
        Some(Self { name: &name.value, value, span: name.span })
    }
}

fn is(token: &TokenWithSpan, wanted: Keyword) -> bool {
    match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.keyword == wanted,
        _ => false,
    }
}

/// Takes the condition at the end of a `COPY … FROM` out of it. It comes back as an option with
/// a name that no option which is written has (`NAME-1`).
pub(crate) fn take_where(tokens: &mut Vec<TokenWithSpan>) -> Option<CopyOption> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    if !words.next().is_some_and(|first| is(first, Keyword::COPY)) {
        return None;
    }
    let (mut depth, mut is_behind_from) = (0u32, false);
    let at = tokens.iter().position(|token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ => is_behind_from |= is(token, Keyword::FROM),
        }
        depth == 0 && is_behind_from && is(token, Keyword::WHERE)
    })?;
    let span = tokens[at].span;
    let condition: String = tokens[at + 1..].iter().map(|token| token.token.to_string()).collect();
    tokens.truncate(at);
    let name = Ident { value: name(), quote_style: EXTRA, span };
    let condition = Ident { value: condition, quote_style: None, span };
    Some(CopyOption::ForceQuote(vec![name, condition]))
}

fn name() -> String {
    format!("{MARK}where")
}

/// The condition of a `COPY`, as it was written, if an option is one.
pub(crate) fn condition<'o>(option: &ExtraOption<'o>) -> Option<&'o str> {
    option.value.filter(|_| option.name == name())
}
