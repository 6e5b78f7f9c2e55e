//! Statements about objects that the parser of sqlparser does not know: `ALTER VIEW … RENAME`,
//! `COMMENT ON CONSTRAINT`, and what `CREATE TABLE … AS` says beside its query.

use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{
    ColumnDef, CommentObject, DataType, Expr, Ident, LimitClause, ObjectName, Query, SelectInto,
    SetExpr, Statement, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::dialect::AtollDialect;
use crate::mark::MARK;

fn is(token: &TokenWithSpan, wanted: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == wanted)
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Makes an `ALTER VIEW` that does not give the view another query an `ALTER TABLE`, and tells
/// whether it was one.
pub(crate) fn take_alter_view(tokens: &mut [TokenWithSpan]) -> bool {
    let mut words = tokens.iter_mut().filter(|token| !is_space(token));
    let alters = words.next().is_some_and(|first| is(first, Keyword::ALTER));
    let Some(view) = words.next().filter(|second| alters && is(second, Keyword::VIEW)) else {
        return false;
    };
    let word = Word { value: "TABLE".to_owned(), quote_style: None, keyword: Keyword::TABLE };
    view.token = Token::Word(word);
    true
}

/// Stands for `SET SCHEMA` in the new name of a relation, before the schema (`NAME-1`).
pub(crate) const SET_SCHEMA: &str = "\u{1}schema";

/// Makes the `SET SCHEMA` at the end of an `ALTER` a `RENAME TO`, see [`SET_SCHEMA`].
pub(crate) fn replace_set_schema(tokens: &mut Vec<TokenWithSpan>) {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let [first, .., set, schema, name] = places[..] else { return };
    let is_one = is(&tokens[first], Keyword::ALTER)
        && is(&tokens[set], Keyword::SET)
        && is(&tokens[schema], Keyword::SCHEMA)
        && matches!(tokens[name].token, Token::Word(_));
    if !is_one {
        return;
    }
    let word = |value: &str, quote_style, keyword| {
        Token::Word(Word { value: value.to_owned(), quote_style, keyword })
    };
    let span = tokens[name].span;
    tokens[set].token = word("RENAME", None, Keyword::RENAME);
    tokens[schema].token = word("TO", None, Keyword::TO);
    let mark = word(SET_SCHEMA, Some('"'), Keyword::NoKeyword);
    tokens.splice(name..name, [mark, Token::Period].map(|token| TokenWithSpan { token, span }));
}

/// Makes an `ALTER SEQUENCE … OWNER TO`, or one of a type, an `ALTER TABLE`.
pub(crate) fn replace_owned_sequence(tokens: &mut [TokenWithSpan]) {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let [first, second, .., owner, to, _] = places[..] else { return };
    let is_one = is(&tokens[first], Keyword::ALTER)
        && [Keyword::SEQUENCE, Keyword::TYPE].iter().any(|kind| is(&tokens[second], *kind))
        && is(&tokens[owner], Keyword::OWNER)
        && is(&tokens[to], Keyword::TO);
    if is_one {
        let word = Word { value: "TABLE".to_owned(), quote_style: None, keyword: Keyword::TABLE };
        tokens[second].token = Token::Word(word);
    }
}

/// `COMMENT ON CONSTRAINT name ON table IS comment`, as a comment on a table; a mark, the table and
/// the constraint are its name.
pub(crate) fn comment_on_constraint(
    tokens: &[TokenWithSpan],
) -> Option<Result<Statement, ParserError>> {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let wanted = [Keyword::COMMENT, Keyword::ON, Keyword::CONSTRAINT];
    if !wanted.into_iter().all(|wanted| words.next().is_some_and(|word| is(word, wanted))) {
        return None;
    }
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    Some(constraint(&mut parser))
}

fn constraint(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    parser.expect_keywords(&[Keyword::COMMENT, Keyword::ON, Keyword::CONSTRAINT])?;
    let constraint = parser.parse_identifier()?;
    parser.expect_keyword(Keyword::ON)?;
    let ObjectName(table) = parser.parse_object_name(false)?;
    parser.expect_keyword(Keyword::IS)?;
    let comment = match parser.parse_keyword(Keyword::NULL) {
        true => None,
        false => Some(parser.parse_literal_string()?),
    };
    match parser.peek_token().token {
        Token::EOF => {}
        _ => return parser.expected("end of statement", parser.peek_token()),
    }
    let mark: ObjectName = vec![Ident::new(MARK)].into();
    let mut object_name = mark;
    object_name.0.extend(table);
    object_name.0.extend(ObjectName::from(vec![constraint]).0);
    let (object_type, if_exists) = (CommentObject::Table, false);
    Ok(Statement::Comment { object_type, object_name, comment, if_exists })
}

/// What a `CREATE TABLE … AS` says beside its query.
#[derive(Default)]
pub(crate) struct TableOfQuery {
    columns: Vec<Ident>,
    has_no_data: bool,
}

/// Takes the names of columns, and `WITH DATA` or `WITH NO DATA`, out of a `CREATE TABLE … AS`.
pub(crate) fn take_table_of_query(tokens: &mut Vec<TokenWithSpan>) -> Option<TableOfQuery> {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let token = |at: usize| places.get(at).map(|place| &tokens[*place]);
    let word = |at: usize, wanted| token(at).is_some_and(|token| is(token, wanted));
    if !(word(0, Keyword::CREATE) && word(1, Keyword::TABLE)) {
        return None;
    }
    let mut at = 2;
    if word(2, Keyword::IF) && word(3, Keyword::NOT) && word(4, Keyword::EXISTS) {
        at = 5;
    }
    let is_word = |at| token(at).is_some_and(|one| matches!(one.token, Token::Word(_)));
    let is_token = |at, wanted: &Token| token(at).is_some_and(|one| one.token == *wanted);
    if !is_word(at) {
        return None;
    }
    at += 1;
    while is_token(at, &Token::Period) && is_word(at + 1) {
        at += 2;
    }
    let (open, mut columns) = (at, Vec::new());
    if is_token(open, &Token::LParen) {
        loop {
            let Some(TokenWithSpan { token: Token::Word(word), span }) = token(at + 1) else {
                return None;
            };
            let Word { value, quote_style, .. } = word.clone();
            columns.push(Ident { value, quote_style, span: *span });
            at += 2;
            if is_token(at, &Token::RParen) {
                break;
            }
            if !is_token(at, &Token::Comma) {
                return None;
            }
        }
        at += 1;
    }
    if !word(at, Keyword::AS) {
        return None;
    }
    let last = places.len().checked_sub(1)?;
    let is_data = |at: usize| {
        token(at).is_some_and(|one| match &one.token {
            Token::Word(word) => word.value.eq_ignore_ascii_case("data"),
            _ => false,
        })
    };
    let has_no_data =
        last > 2 && is_data(last) && word(last - 1, Keyword::NO) && word(last - 2, Keyword::WITH);
    let has_data = last > 1 && is_data(last) && word(last - 1, Keyword::WITH);
    let cut = match (has_no_data, has_data) {
        (true, _) => Some(places[last - 2]),
        (_, true) => Some(places[last - 1]),
        _ => None,
    };
    let names = places[open]..places[at];
    if let Some(cut) = cut {
        tokens.truncate(cut);
    }
    if !columns.is_empty() {
        tokens.drain(names);
    }
    Some(TableOfQuery { columns, has_no_data })
}

/// Gives a statement what was taken out of it, and makes a `SELECT … INTO` a `CREATE TABLE … AS`.
pub(crate) fn give_table_of_query(statement: &mut Statement, taken: Option<TableOfQuery>) {
    if let Statement::Query(query) = statement
        && let Some(SelectInto { temporary, unlogged, name, .. }) = take_into(&mut query.body)
    {
        let mut builder = CreateTableBuilder::new(name).query(Some(query.clone()));
        builder = builder.temporary(temporary || unlogged);
        *statement = Statement::CreateTable(builder.build());
        return;
    }
    let Statement::CreateTable(create) = statement else { return };
    let (Some(query), Some(TableOfQuery { columns, has_no_data })) = (&mut create.query, taken)
    else {
        return;
    };
    create.columns.extend(columns.into_iter().map(|name| ColumnDef {
        name,
        data_type: DataType::Unspecified,
        options: Vec::new(),
    }));
    if has_no_data {
        without_rows(query);
    }
}

/// The table that a `SELECT`, or the first of several, fills.
fn take_into(body: &mut SetExpr) -> Option<SelectInto> {
    match body {
        SetExpr::Select(select) => select.into.take(),
        SetExpr::SetOperation { left, .. } => take_into(left),
        SetExpr::Query(query) => take_into(&mut query.body),
        _ => None,
    }
}

/// Makes a query return none of its rows.
fn without_rows(query: &mut Query) {
    let none = Expr::value(Value::Number("0".to_owned(), false));
    let (limit, offset, limit_by) = (Some(none), None, Vec::new());
    query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by });
    query.fetch = None;
}
