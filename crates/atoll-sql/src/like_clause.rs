//! `LIKE table [INCLUDING … | EXCLUDING …]` among the columns of `CREATE TABLE`.
//!
//! The parser does not know the clause there. It is taken for a column with a name that no column
//! can have, which says what is included, and the name of the other table as its type.

use sqlparser::ast::{ColumnDef, DataType, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::dialect::AtollDialect;

/// How the names of such columns begin (`NAME-1`).
const PREFIX: &str = "\u{1}like";

/// What is taken over from the other table, beside its columns with their types and NOT NULL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Including {
    pub(crate) defaults: bool,
    pub(crate) generated: bool,
    pub(crate) constraints: bool,
    pub(crate) indexes: bool,
    pub(crate) identity: bool,
}

impl Including {
    fn all(is: bool) -> Self {
        Self { defaults: is, generated: is, constraints: is, indexes: is, identity: is }
    }

    fn set(&mut self, option: &str, is: bool) -> bool {
        match option {
            "all" => *self = Self::all(is),
            "defaults" => self.defaults = is,
            "generated" => self.generated = is,
            "constraints" => self.constraints = is,
            "indexes" => self.indexes = is,
            "identity" => self.identity = is,
            // No table has any of these.
            "comments" | "compression" | "statistics" | "storage" => {}
            _ => return false,
        }
        true
    }

    fn flags(self) -> [bool; 5] {
        [self.defaults, self.generated, self.constraints, self.indexes, self.identity]
    }
}

/// The other table of the clause that a column stands for.
pub(crate) fn other_mut(column: &mut ColumnDef) -> Option<&mut ObjectName> {
    match &mut column.data_type {
        DataType::Custom(name, _) if column.name.value.starts_with(PREFIX) => Some(name),
        _ => None,
    }
}

/// The clause that a column stands for: the other table, and what is taken over.
pub(crate) fn of(column: &ColumnDef) -> Option<(&ObjectName, Including)> {
    let flags = column.name.value.strip_prefix(PREFIX)?;
    let DataType::Custom(name, _) = &column.data_type else { return None };
    let mut flags = flags.chars().map(|flag| flag == '1');
    let mut next = || flags.next().unwrap_or_default();
    let (defaults, generated, constraints, indexes) = (next(), next(), next(), next());
    let identity = next();
    Some((name, Including { defaults, generated, constraints, indexes, identity }))
}

fn is(token: &TokenWithSpan, wanted: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == wanted)
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Puts columns in the places of the clauses of a statement.
///
/// # Errors
/// A clause that is none.
pub(crate) fn replace(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let creates = words.next().is_some_and(|first| is(first, Keyword::CREATE))
        && words.next().is_some_and(|second| is(second, Keyword::TABLE));
    if !creates {
        return Ok(());
    }
    let (mut at, mut depth, mut begins) = (0, 0u32, false);
    while at < tokens.len() {
        match &tokens[at].token {
            Token::LParen => {
                depth += 1;
                begins = depth == 1;
            }
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 1 => begins = true,
            Token::Whitespace(_) => {}
            _ if begins && depth == 1 && is(&tokens[at], Keyword::LIKE) => {
                let rest = tokens[at..].iter();
                let ends =
                    |token: &TokenWithSpan| matches!(token.token, Token::Comma | Token::RParen);
                let length = rest.clone().position(ends).unwrap_or(tokens.len() - at);
                let column = column(tokens[at..at + length].to_vec())?;
                tokens.splice(at..at + length, column);
                begins = false;
            }
            _ => begins = false,
        }
        at += 1;
    }
    Ok(())
}

/// The column that stands for a clause.
fn column(clause: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, ParserError> {
    let span = clause[0].span;
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(clause);
    parser.expect_keyword_is(Keyword::LIKE)?;
    let other = parser.parse_object_name(false)?;
    let mut including = Including::default();
    loop {
        let next = parser.next_token();
        let is_included = match &next.token {
            Token::EOF => break,
            Token::Word(word) if word.value.eq_ignore_ascii_case("including") => true,
            Token::Word(word) if word.value.eq_ignore_ascii_case("excluding") => false,
            _ => return parser.expected("INCLUDING or EXCLUDING", next),
        };
        let option = parser.next_token();
        let known = match &option.token {
            Token::Word(word) => including.set(&word.value.to_ascii_lowercase(), is_included),
            _ => false,
        };
        if !known {
            return parser.expected("an option of LIKE", option);
        }
    }
    let flags = including.flags().map(|flag| if flag { '1' } else { '0' });
    // As no keyword, the name of the table is not taken for that of a type.
    let word = |value: String, quote_style: Option<char>| {
        Token::Word(Word { value, quote_style, keyword: Keyword::NoKeyword })
    };
    let mut tokens = vec![(word(format!("{PREFIX}{}", String::from_iter(flags)), Some('"')), span)];
    for (number, part) in other.0.iter().enumerate() {
        if number > 0 {
            tokens.push((Token::Period, span));
        }
        if let Some(ident) = part.as_ident() {
            tokens.push((word(ident.value.clone(), ident.quote_style), ident.span));
        }
    }
    Ok(tokens.into_iter().map(|(token, span)| TokenWithSpan { token, span }).collect())
}
