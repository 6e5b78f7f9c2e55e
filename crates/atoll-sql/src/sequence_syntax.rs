//! Clauses of sequences that the parser does not know, or only in one order: `CREATE SEQUENCE` and
//! `ALTER SEQUENCE`, the options of identity columns, and `OVERRIDING`.
//!
//! A statement about a sequence becomes the one that the parser has for `CREATE SEQUENCE`. If it is
//! `temporary`, which no sequence can be, it is `ALTER SEQUENCE`; then `if_not_exists` stands for
//! `IF EXISTS`, and the new name of a sequence for its type.

use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, DataType as SqlType, Expr,
    Ident, Insert, MysqlInsertPriority, ObjectName, SequenceOptions, Statement, UnaryOperator,
    Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::dialect::AtollDialect;

/// Stands for `RESTART` before a number, and for `RENAME TO` before a name (`NAME-1`).
const RESTART: &str = "\u{1}restart";
const RENAME: &str = "\u{1}rename";
/// Stands for `SEQUENCE NAME` before a name.
const NAMED: &str = "\u{1}named";

type Parsed<T> = Result<T, ParserError>;

fn is(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// The statement that tokens are, if it is one about a sequence.
pub(crate) fn statement(tokens: &[TokenWithSpan]) -> Option<Parsed<Statement>> {
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let (first, second) = (words.next()?, words.next()?);
    let alters = is(first, "alter") && is(second, "sequence");
    let is_temporary = is(second, "temp") || is(second, "temporary");
    let creates = is(first, "create")
        && (is(second, "sequence")
            || is_temporary && words.next().is_some_and(|w| is(w, "sequence")));
    if !alters && !creates {
        return None;
    }
    if is_temporary {
        let message = "temporary sequences are not supported".to_owned();
        return Some(Err(ParserError::ParserError(message)));
    }
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    Some(sequence(&mut parser, alters))
}

fn sequence(parser: &mut Parser<'_>, alters: bool) -> Parsed<Statement> {
    parser.next_token();
    parser.next_token();
    let if_there = match alters {
        true => parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]),
        false => parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]),
    };
    let name = parser.parse_object_name(false)?;
    let renames = alters && parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]);
    let (data_type, sequence_options, owned_by) = if renames {
        let new = parser.parse_object_name(false)?;
        let new = SqlType::Custom(new, vec![RENAME.to_owned()]);
        (Some(new), Vec::new(), None)
    } else {
        let Written { data_type, options, owner, name: None } = options(parser, alters)? else {
            return parser.expected("an option of a sequence", parser.peek_token());
        };
        if alters && data_type.is_none() && options.is_empty() && owner.is_none() {
            return parser.expected("an option of ALTER SEQUENCE", parser.peek_token());
        }
        (data_type, options, owner)
    };
    if parser.peek_token().token != Token::EOF {
        return parser.expected("an option of a sequence", parser.peek_token());
    }
    Ok(Statement::CreateSequence {
        temporary: alters,
        if_not_exists: if_there,
        name,
        data_type,
        sequence_options,
        owned_by,
    })
}

#[derive(Default)]
struct Written {
    data_type: Option<SqlType>,
    options: Vec<SequenceOptions>,
    owner: Option<ObjectName>,
    /// Of the sequence of an identity column.
    name: Option<ObjectName>,
}

/// Options in any order, up to something else.
fn options(parser: &mut Parser<'_>, restarts: bool) -> Parsed<Written> {
    let mut written = Written::default();
    loop {
        let next = parser.peek_token();
        let option = if parser.parse_keyword(Keyword::AS) {
            let twice = written.data_type.replace(parser.parse_data_type()?).is_some();
            redundant(twice)?;
            continue;
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            let owner = parser.parse_object_name(false)?;
            redundant(written.owner.replace(owner).is_some())?;
            continue;
        } else if parser.parse_keywords(&[Keyword::SEQUENCE, Keyword::NAME]) {
            let name = parser.parse_object_name(false)?;
            redundant(written.name.replace(name).is_some())?;
            continue;
        } else if parser.parse_keyword(Keyword::INCREMENT) {
            let by = parser.parse_keyword(Keyword::BY);
            SequenceOptions::IncrementBy(number(parser)?, by)
        } else if parser.parse_keyword(Keyword::MINVALUE) {
            SequenceOptions::MinValue(Some(number(parser)?))
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
            SequenceOptions::MinValue(None)
        } else if parser.parse_keyword(Keyword::MAXVALUE) {
            SequenceOptions::MaxValue(Some(number(parser)?))
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
            SequenceOptions::MaxValue(None)
        } else if parser.parse_keyword(Keyword::START) {
            let with = parser.parse_keyword(Keyword::WITH);
            SequenceOptions::StartWith(number(parser)?, with)
        } else if restarts && parser.parse_keyword(Keyword::RESTART) {
            let with = parser.parse_keyword(Keyword::WITH);
            let number = match with || is_number(&parser.peek_token().token) {
                true => Box::new(number(parser)?),
                false => Box::new(Expr::value(Value::Null)),
            };
            let prefix = Ident::new(RESTART);
            SequenceOptions::StartWith(Expr::Prefixed { prefix, value: number }, with)
        } else if parser.parse_keyword(Keyword::CACHE) {
            SequenceOptions::Cache(number(parser)?)
        } else if parser.parse_keyword(Keyword::CYCLE) {
            SequenceOptions::Cycle(false)
        } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
            SequenceOptions::Cycle(true)
        } else {
            debug_assert_eq!(next, parser.peek_token());
            return Ok(written);
        };
        redundant(written.options.iter().any(|one| place(one) == place(&option)))?;
        written.options.push(option);
    }
}

fn redundant(is: bool) -> Parsed<()> {
    match is {
        true => Err(ParserError::ParserError("conflicting or redundant options".to_owned())),
        false => Ok(()),
    }
}

fn is_number(token: &Token) -> bool {
    matches!(token, Token::Number(..) | Token::Minus | Token::Plus)
}

fn number(parser: &mut Parser<'_>) -> Parsed<Expr> {
    let next = parser.next_token();
    match next.token {
        Token::Number(digits, _) => Ok(Expr::value(Value::Number(digits, false))),
        Token::Minus => {
            let (op, expr) = (UnaryOperator::Minus, Box::new(number(parser)?));
            Ok(Expr::UnaryOp { op, expr })
        }
        Token::Plus => number(parser),
        _ => parser.expected("a number", next),
    }
}

/// Where the parser has an option among others.
fn place(option: &SequenceOptions) -> u8 {
    match option {
        SequenceOptions::IncrementBy(..) => 0,
        SequenceOptions::MinValue(_) => 1,
        SequenceOptions::MaxValue(_) => 2,
        SequenceOptions::StartWith(Expr::Prefixed { .. }, _) => 6,
        SequenceOptions::StartWith(..) => 3,
        SequenceOptions::Cache(_) => 4,
        SequenceOptions::Cycle(_) => 5,
    }
}

/// The number behind `RESTART`, if a start stands for that; the inner `None` if there is none.
pub(crate) fn restart(start: &Expr) -> Option<Option<&Expr>> {
    match start {
        Expr::Prefixed { prefix, value } if prefix.value == RESTART => {
            let is_given = **value != Expr::value(Value::Null);
            Some(is_given.then_some(value.as_ref()))
        }
        _ => None,
    }
}

/// Whether `OWNED BY` names nothing.
pub(crate) fn is_none(owner: &ObjectName) -> bool {
    matches!(owner.0.as_slice(), [part] if part.as_ident().is_some_and(|name| {
        name.quote_style.is_none() && name.value.eq_ignore_ascii_case("none")
    }))
}

/// The new name of a sequence, if a type stands for that.
pub(crate) fn new_name(data_type: Option<&SqlType>) -> Option<&ObjectName> {
    match data_type? {
        SqlType::Custom(name, marks) if *marks == [RENAME] => Some(name),
        _ => None,
    }
}

/// The same, to be resolved.
pub(crate) fn new_name_mut(data_type: Option<&mut SqlType>) -> Option<&mut ObjectName> {
    match data_type? {
        SqlType::Custom(name, marks) if *marks == [RENAME] => Some(name),
        _ => None,
    }
}

/// Puts the options of identity columns in the order that the parser has, and returns the names of
/// their sequences, in the order of the columns.
///
/// # Errors
/// Something that is no such option.
pub(crate) fn order_identity_options(
    tokens: &mut Vec<TokenWithSpan>,
) -> Parsed<Vec<Option<ObjectName>>> {
    let mut names = Vec::new();
    if !tokens.iter().any(|token| is(token, "identity")) {
        return Ok(names);
    }
    let mut at = 0;
    while at < tokens.len() {
        let words: Vec<usize> =
            (at..tokens.len()).filter(|at| !is_space(&tokens[*at])).take(3).collect();
        let (first, second, open) = match words[..] {
            [first, second, open] => (first, second, open),
            [first, second] => (first, second, second),
            _ => break,
        };
        at = first + 1;
        let begins = is(&tokens[first], "as")
            && is(&tokens[second], "identity")
            && tokens[open].token == Token::LParen;
        let close = tokens[open..].iter().position(|token| token.token == Token::RParen);
        let is_identity = is(&tokens[first], "as") && is(&tokens[second], "identity");
        let Some(close) = close.filter(|_| begins).map(|close| open + close) else {
            if is_identity {
                names.push(None);
            }
            continue;
        };
        let dialect = AtollDialect;
        let inner = tokens[open + 1..close].to_vec();
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(inner);
        let Written { data_type: None, mut options, owner: None, name } =
            options(&mut parser, false)?
        else {
            return Err(ParserError::ParserError("conflicting or redundant options".to_owned()));
        };
        if parser.peek_token().token != Token::EOF {
            return parser.expected("an option of a sequence", parser.peek_token());
        }
        names.push(name);
        options.sort_by_key(place);
        let text: String = options.iter().map(ToString::to_string).collect();
        let span = tokens[open].span;
        let ordered = Tokenizer::new(&dialect, &text).tokenize()?.into_iter();
        let ordered = ordered.map(|token| TokenWithSpan { token, span });
        let empty = options.is_empty();
        tokens.splice(open + 1..close, ordered);
        if empty {
            tokens.drain(open..=open + 1);
        }
        at = open.min(tokens.len());
    }
    Ok(names)
}

/// Gives the sequences of identity columns the names that were taken out of a statement.
pub(crate) fn give_sequence_names(statement: &mut Statement, names: Vec<Option<ObjectName>>) {
    let mut names = names.into_iter();
    let mut each = |options: &mut Option<Vec<SequenceOptions>>| {
        let Some(Some(ObjectName(parts))) = names.next() else { return };
        let idents = parts.iter().filter_map(|part| part.as_ident().cloned()).collect();
        let value = Box::new(Expr::CompoundIdentifier(idents));
        let name = Expr::Prefixed { prefix: Ident::new(NAMED), value };
        options.get_or_insert_default().push(SequenceOptions::StartWith(name, false));
    };
    match statement {
        Statement::CreateTable(create) => {
            create.columns.iter_mut().for_each(|one| of_column(one, &mut each))
        }
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                match operation {
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        of_column(column_def, &mut each);
                    }
                    AlterTableOperation::AlterColumn {
                        op: AlterColumnOperation::AddGenerated { sequence_options, .. },
                        ..
                    } => each(sequence_options),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn of_column(column: &mut ColumnDef, each: &mut dyn FnMut(&mut Option<Vec<SequenceOptions>>)) {
    for option in &mut column.options {
        if let ColumnOption::Generated { sequence_options, generation_expr: None, .. } =
            &mut option.option
        {
            each(sequence_options);
        }
    }
}

/// Whether a start stands for the name of a sequence.
pub(crate) fn is_sequence_name(start: &Expr) -> bool {
    matches!(start, Expr::Prefixed { prefix, .. } if prefix.value == NAMED)
}

/// The name of the sequence of an identity column, if its options give one.
pub(crate) fn sequence_name(options: &[SequenceOptions]) -> Option<ObjectName> {
    options.iter().find_map(|option| match option {
        SequenceOptions::StartWith(Expr::Prefixed { prefix, value }, _)
            if prefix.value == NAMED =>
        {
            match value.as_ref() {
                Expr::CompoundIdentifier(idents) => Some(idents.clone().into()),
                _ => None,
            }
        }
        _ => None,
    })
}

/// What `OVERRIDING` says of the values for identity columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// The given ones count.
    System,
    /// Those of the sequences count.
    User,
}

/// Takes `OVERRIDING … VALUE` out of an `INSERT`.
pub(crate) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    if !tokens.iter().find(|token| !is_space(token)).is_some_and(|first| is(first, "insert")) {
        return None;
    }
    let mut depth = 0u32;
    for at in 0..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(_) if depth == 0 => {
                if is(&tokens[at], "values") || is(&tokens[at], "select") {
                    return None;
                }
                let words: Vec<usize> =
                    (at..tokens.len()).filter(|at| !is_space(&tokens[*at])).take(3).collect();
                if let [first, kind, last] = words[..]
                    && is(&tokens[first], "overriding")
                    && is(&tokens[last], "value")
                {
                    let found = if is(&tokens[kind], "system") {
                        Overriding::System
                    } else if is(&tokens[kind], "user") {
                        Overriding::User
                    } else {
                        return None;
                    };
                    tokens.drain(first..=last);
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

/// Gives what was taken back to its statement: no statement of PostgreSQL has a priority.
pub(crate) fn give_overriding(insert: &mut Insert, taken: Option<Overriding>) {
    insert.priority = taken.map(|taken| match taken {
        Overriding::System => MysqlInsertPriority::HighPriority,
        Overriding::User => MysqlInsertPriority::LowPriority,
    });
}

/// What `OVERRIDING` says in a statement.
pub(crate) fn overriding(insert: &Insert) -> Option<Overriding> {
    match insert.priority {
        Some(MysqlInsertPriority::HighPriority) => Some(Overriding::System),
        Some(MysqlInsertPriority::LowPriority) => Some(Overriding::User),
        _ => None,
    }
}
