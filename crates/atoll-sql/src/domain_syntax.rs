//! `CREATE DOMAIN` and `ALTER DOMAIN`. The parser reads them as those of a table with one column,
//! which has a type, a default, NOT NULL and conditions as a domain has.

use sqlparser::ast::{AlterTableType, Statement};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// What the conditions of a domain call its value, and the column of the table.
pub(crate) const VALUE: &str = "value";
/// The kind of table of an `ALTER DOMAIN`. No statement of PostgreSQL has it.
pub(crate) const ALTER_DOMAIN: AlterTableType = AlterTableType::Iceberg;

/// What a statement does with a domain.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    Create,
    Alter,
}

fn is(token: &TokenWithSpan, wanted: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == wanted)
}

fn word(value: &str, keyword: Keyword) -> Token {
    let quote_style = (keyword == Keyword::NoKeyword).then_some('"');
    Token::Word(Word { value: value.to_owned(), quote_style, keyword })
}

/// Makes a statement about a domain one about a table, and tells which it was.
pub(crate) fn take(tokens: &mut Vec<TokenWithSpan>) -> Option<Taken> {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at])).collect();
    let token = |at: usize| places.get(at).map(|place| &tokens[*place]);
    let has = |at: usize, wanted| token(at).is_some_and(|token| is(token, wanted));
    let taken = match (has(0, Keyword::CREATE), has(0, Keyword::ALTER)) {
        (true, _) => Taken::Create,
        (_, true) => Taken::Alter,
        _ => return None,
    };
    if !has(1, Keyword::DOMAIN) {
        return None;
    }
    // Behind the name, which may have a schema.
    let mut at = 3;
    while token(at).is_some_and(|one| one.token == Token::Period) {
        at += 2;
    }
    let (behind, last) = (*places.get(at)?, tokens.len());
    let span = tokens[behind].span;
    let placed = |token| TokenWithSpan { token, span };
    match taken {
        Taken::Create => {
            let begin = behind + usize::from(has(at, Keyword::AS));
            tokens.insert(last, placed(Token::RParen));
            let open = [Token::LParen, word(VALUE, Keyword::NoKeyword)];
            tokens.splice(behind..begin, open.map(placed));
        }
        Taken::Alter => {
            let sets = has(at, Keyword::SET) || has(at, Keyword::DROP);
            if sets && (has(at + 1, Keyword::DEFAULT) || has(at + 1, Keyword::NOT)) {
                let column = [
                    word("ALTER", Keyword::ALTER),
                    word("COLUMN", Keyword::COLUMN),
                    word(VALUE, Keyword::NoKeyword),
                ];
                tokens.splice(behind..behind, column.map(placed));
            }
        }
    }
    tokens[places[1]].token = word("TABLE", Keyword::TABLE);
    Some(taken)
}

/// Marks a statement that was taken.
pub(crate) fn mark(statement: &mut Statement, taken: Option<Taken>) {
    match (statement, taken) {
        (Statement::CreateTable(create), Some(Taken::Create)) => create.iceberg = true,
        (Statement::AlterTable(alter), Some(Taken::Alter)) => {
            alter.table_type = Some(ALTER_DOMAIN);
        }
        _ => {}
    }
}
