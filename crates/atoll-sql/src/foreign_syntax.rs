//! Clauses of foreign keys that the parser does not know: the columns behind `ON DELETE SET NULL`
//! and `SET DEFAULT`, and `SET CONSTRAINTS`.

use sqlparser::ast::{
    ColumnOption, CreateTable, Expr, ForeignKeyConstraint, Ident, ObjectName, Set, Spanned,
    Statement, TableConstraint, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use crate::dialect::AtollDialect;

/// The quotes of a name that is such a list: no name can have them.
const SET_COLUMNS: Option<char> = Some('=');

/// The columns behind an action, as they are written, and where they stand.
pub(crate) struct SetColumns {
    at: Location,
    columns: String,
}

fn is(token: &TokenWithSpan, wanted: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == wanted)
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Takes the columns behind `ON DELETE SET NULL` and `SET DEFAULT` out of a statement.
pub(crate) fn take_set_columns(tokens: &mut Vec<TokenWithSpan>) -> Vec<SetColumns> {
    if !tokens.iter().any(|token| is(token, Keyword::REFERENCES)) {
        return Vec::new();
    }
    let mut taken = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let words: Vec<usize> =
            (at..tokens.len()).filter(|at| !is_space(&tokens[*at])).take(5).collect();
        let [on, delete, set, action, open] = words[..] else { break };
        let is_action = is(&tokens[on], Keyword::ON)
            && is(&tokens[delete], Keyword::DELETE)
            && is(&tokens[set], Keyword::SET)
            && (is(&tokens[action], Keyword::NULL) || is(&tokens[action], Keyword::DEFAULT))
            && tokens[open].token == Token::LParen;
        let close = tokens[open..].iter().position(|token| token.token == Token::RParen);
        if let Some(close) = close.filter(|_| is_action) {
            let inner = tokens[open + 1..open + close].iter();
            let columns = inner.map(|token| token.token.to_string()).collect();
            taken.push(SetColumns { at: tokens[on].span.start, columns });
            tokens.drain(open..=open + close);
        }
        at = on + 1;
    }
    taken
}

/// Gives columns that were taken back to their foreign keys: each to the last that begins before
/// them.
pub(crate) fn give_set_columns(create: &mut CreateTable, taken: Vec<SetColumns>) {
    if taken.is_empty() {
        return;
    }
    let options = create.columns.iter_mut().flat_map(|column| &mut column.options);
    let of_columns = options.filter_map(|option| match &mut option.option {
        ColumnOption::ForeignKey(key) => Some(key),
        _ => None,
    });
    let of_table = create.constraints.iter_mut().filter_map(|constraint| match constraint {
        TableConstraint::ForeignKey(key) => Some(key),
        _ => None,
    });
    let mut keys: Vec<&mut ForeignKeyConstraint> = of_columns.chain(of_table).collect();
    keys.sort_by_key(|key| key.foreign_table.span().start);
    for SetColumns { at, columns } in taken {
        let key = keys.iter_mut().rfind(|key| key.foreign_table.span().start < at);
        if let Some(key) = key {
            // PostgreSQL has nothing else that would stand here.
            let span = Span::new(at, at);
            key.index_name = Some(Ident { value: columns, quote_style: SET_COLUMNS, span });
        }
    }
}

/// The columns behind the action of a foreign key.
///
/// # Errors
/// They are not a list of names; the foreign key names an index, which PostgreSQL does not have.
pub(crate) fn set_columns(key: &ForeignKeyConstraint) -> Result<Vec<Ident>, ParserError> {
    let Some(columns) = &key.index_name else { return Ok(Vec::new()) };
    if columns.quote_style != SET_COLUMNS {
        let message = "a foreign key has no name of an index".to_owned();
        return Err(ParserError::ParserError(message));
    }
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).try_with_sql(&columns.value)?;
    let columns = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_token(&Token::EOF)?;
    Ok(columns)
}

/// The setting that stands for `SET CONSTRAINTS` in a syntax tree.
const CONSTRAINTS: &str = "\u{1}constraints";

/// What `SET CONSTRAINTS` says.
pub(crate) struct SetConstraints {
    /// `None` for all.
    pub(crate) names: Option<Vec<Ident>>,
    pub(crate) deferred: bool,
}

/// The statement that tokens are, if it is `SET CONSTRAINTS`.
pub(crate) fn set_constraints(tokens: &[TokenWithSpan]) -> Option<Result<Statement, ParserError>> {
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_space(token)).collect();
    let [first, second, rest @ ..] = words.as_slice() else { return None };
    let is_constraints = |token: &Token| match token {
        Token::Word(word) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case("constraints")
        }
        _ => false,
    };
    if !is(first, Keyword::SET) || !is_constraints(&second.token) {
        return None;
    }
    let dialect = AtollDialect;
    let rest = rest.iter().map(|token| (*token).clone()).collect();
    Some(parsed(&mut Parser::new(&dialect).with_tokens_with_locations(rest)))
}

fn parsed(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let names = match parser.parse_keyword(Keyword::ALL) {
        true => Vec::new(),
        false => parser.parse_comma_separated(Parser::parse_identifier)?,
    };
    let mode = parser.expect_one_of_keywords(&[Keyword::DEFERRED, Keyword::IMMEDIATE])?;
    if parser.peek_token().token != Token::EOF {
        return parser.expected("end of statement", parser.peek_token());
    }
    let mode = Expr::value(Value::Boolean(mode == Keyword::DEFERRED));
    let values = std::iter::once(mode).chain(names.into_iter().map(Expr::Identifier)).collect();
    let variable = ObjectName::from(vec![Ident::new(CONSTRAINTS)]);
    Ok(Set::SingleAssignment { scope: None, hivevar: false, variable, values }.into())
}

impl SetConstraints {
    /// What the statement says, if it is one of these.
    pub(crate) fn of(set: &Set) -> Option<Self> {
        let Set::SingleAssignment { variable, values, .. } = set else { return None };
        let [part] = variable.0.as_slice() else { return None };
        if part.as_ident().is_none_or(|ident| ident.value != CONSTRAINTS) {
            return None;
        }
        let (mode, names) = values.split_first()?;
        let deferred = *mode == Expr::value(Value::Boolean(true));
        let name = |expr: &Expr| match expr {
            Expr::Identifier(ident) => Some(ident.clone()),
            _ => None,
        };
        let names: Vec<Ident> = names.iter().filter_map(name).collect();
        Some(Self { names: (!names.is_empty()).then_some(names), deferred })
    }
}
