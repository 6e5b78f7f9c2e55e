//! Statements about objects that the parser of sqlparser does not know: `ALTER VIEW … RENAME` and
//! `COMMENT ON CONSTRAINT`.

use sqlparser::ast::{CommentObject, Ident, ObjectName, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::dialect::AtollDialect;
use crate::parse::MARK;

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
