//! From text to statements, with the place of every token kept.
//!
//! A script is split into tokens once and then into statements at its semicolons. Lines and columns
//! thus count from the start of the script, and a statement is parsed only after those before it
//! have been carried out.

use sqlparser::ast::table_constraints::IndexConstraint;
use sqlparser::ast::{
    AlterTableType, CopyOption, CreateTableOptions, Expr, Ident, SqlOption, Statement,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{IsOptional, Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Word};

use crate::catalog_names;
use crate::copy_syntax::{self, EXTRA};
use crate::depth;
use crate::dialect::AtollDialect;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign_syntax as syntax;
use crate::like_clause;
pub(crate) use crate::mark::MARK;
use crate::mode_syntax;
use crate::object_syntax;
use crate::operator_tokens;
use crate::question_marks;
use crate::sequence_syntax as sequences;
use crate::wording::sentence;
use crate::{domain_syntax, fetch_syntax, nulls_syntax, with_syntax};

/// Deepest recursion of the parser, beyond what `depth` lets through.
const NESTING_MAX: usize = 1024;

/// Longest name. One of a table or a column is shorter still.
const NAME_BYTES_MAX: usize = 1024;

/// Most indexes of one table that are looked at.
const INDEXES_MAX: usize = 1024;

/// The key of the option that names a table's tablespace.
pub(crate) const TABLESPACE: &str = "TABLESPACE";

/// The kind of table of an `ALTER VIEW`, which is parsed as an `ALTER TABLE`. No statement of
/// PostgreSQL has it.
pub(crate) const ALTER_VIEW: AlterTableType = AlterTableType::External;

/// The tokens of one statement, without its semicolon.
pub(crate) type StatementTokens = Vec<TokenWithSpan>;

/// Splits a script into the tokens of its statements and drops empty statements.
///
/// # Errors
/// Text that is not made of tokens, such as a string without its end.
pub(crate) fn split(sql: &str) -> Result<Vec<StatementTokens>, SqlError> {
    let dialect = AtollDialect;
    // Some editors put a byte-order mark before a text.
    let sql = sql.strip_prefix('\u{feff}').unwrap_or(sql);
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location()?;
    let tokens = operator_tokens::without_signs(tokens)?;
    tokens.iter().try_for_each(check_name)?;
    Ok(tokens
        .split(|token| token.token == Token::SemiColon)
        .filter(|part| !part.iter().all(is_space))
        .map(<[TokenWithSpan]>::to_vec)
        .collect())
}

/// Checks a name for length, and for the marks that names get inside (`NAME-1`).
fn check_name(token: &TokenWithSpan) -> Result<(), SqlError> {
    let Token::Word(word) = &token.token else { return Ok(()) };
    let (message, cause) = if word.value.len() > NAME_BYTES_MAX {
        let message = format!("a name has {NAME_BYTES_MAX} bytes at most");
        (message, Cause::LongName)
    } else if word.value.contains(['\0', MARK]) {
        let message = "a name cannot have the characters U+0000 and U+0001".to_owned();
        (message, Cause::InvalidName)
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlErrorKind::Syntax, message).with_cause(cause).at(token.span))
}

/// Parses the tokens of one statement.
///
/// # Errors
/// Syntax errors, with the place where the parser stopped.
pub(crate) fn statement(mut tokens: StatementTokens) -> Result<Statement, SqlError> {
    depth::of(&tokens)?;
    catalog_names::strip(&mut tokens);
    object_syntax::replace_set_schema(&mut tokens);
    object_syntax::replace_owned_sequence(&mut tokens);
    mode_syntax::take_deferrable(&mut tokens);
    let end = tokens.last().map(|token| token.span.end);
    let placed = |error: ParserError| {
        let error = SqlError::from(error);
        // The end of the text has no place of its own; it is behind the last token.
        match end {
            Some(end) => error.at(sqlparser::tokenizer::Span::new(end, end)),
            None => error,
        }
    };
    if let Some(parsed) = syntax::set_constraints(&tokens) {
        return parsed.map_err(placed);
    }
    if let Some(parsed) = object_syntax::comment_on_constraint(&tokens) {
        return parsed.map_err(placed);
    }
    let domain = domain_syntax::take(&mut tokens);
    nulls_syntax::replace(&mut tokens);
    fetch_syntax::replace(&mut tokens);
    let alters_view = object_syntax::take_alter_view(&mut tokens);
    let table_of_query = object_syntax::take_table_of_query(&mut tokens);
    if let Some(parsed) = sequences::statement(&tokens) {
        return parsed.map_err(placed);
    }
    like_clause::replace(&mut tokens).map_err(placed)?;
    let identities = sequences::order_identity_options(&mut tokens).map_err(placed)?;
    let overriding = sequences::take_overriding(&mut tokens);
    let set_columns = syntax::take_set_columns(&mut tokens);
    let indexes = take_indexes(&mut tokens).map_err(placed)?;
    let condition = copy_syntax::take_where(&mut tokens);
    let extra = take_copy_options(&mut tokens);
    let last = tokens.iter().rfind(|token| !is_space(token)).cloned();
    let dialect = AtollDialect;
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().and_then(|statement| match parser.peek_token() {
        TokenWithSpan { token: Token::EOF, .. } => Ok(with_tablespace(statement, last)),
        _ => parser.expected("end of statement", parser.peek_token()),
    });
    let mut parsed = parsed.map_err(placed)?;
    with_syntax::rewrite(&mut parsed)?;
    if let Statement::CreateTable(create) = &mut parsed {
        create.constraints.extend(indexes.into_iter().map(Into::into));
        syntax::give_set_columns(create, set_columns);
    }
    sequences::give_sequence_names(&mut parsed, identities);
    object_syntax::give_table_of_query(&mut parsed, table_of_query);
    domain_syntax::mark(&mut parsed, domain);
    if let Statement::AlterTable(alter) = &mut parsed
        && alters_view
    {
        alter.table_type = Some(ALTER_VIEW);
    }
    if let Statement::Insert(insert) = &mut parsed {
        sequences::give_overriding(insert, overriding);
    }
    if let Statement::Copy { options, .. } = &mut parsed {
        options.extend(extra.into_iter().chain(condition));
    }
    Ok(parsed)
}

/// Takes the options out of `COPY … (option, …)` that the parser does not know. They come back in
/// the one kind of its options that has several words.
fn take_copy_options(tokens: &mut StatementTokens) -> Vec<CopyOption> {
    const KNOWN: [Keyword; 11] = [
        Keyword::FORMAT,
        Keyword::FREEZE,
        Keyword::DELIMITER,
        Keyword::NULL,
        Keyword::HEADER,
        Keyword::QUOTE,
        Keyword::ESCAPE,
        Keyword::FORCE_QUOTE,
        Keyword::FORCE_NOT_NULL,
        Keyword::FORCE_NULL,
        Keyword::ENCODING,
    ];
    let is = |token: &TokenWithSpan, wanted| match &token.token {
        Token::Word(word) => word.keyword == wanted,
        _ => false,
    };
    if !tokens.iter().find(|token| !is_space(token)).is_some_and(|first| is(first, Keyword::COPY)) {
        return Vec::new();
    }
    let mut depth = 0u32;
    let end = tokens.iter().position(|token| {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => return depth == 0 && (is(token, Keyword::TO) || is(token, Keyword::FROM)),
        }
        false
    });
    let Some(end) = end else { return Vec::new() };
    spell_switches(&mut tokens[end..]);
    // The parser knows all options of what writes, and the parentheses may hold a query.
    if is(&tokens[end], Keyword::TO) {
        return Vec::new();
    }
    // The last parentheses hold the options, unless they hold the columns before FROM.
    let from = tokens.iter().rposition(|token| is(token, Keyword::FROM));
    let open = tokens.iter().position(|token| {
        token.token == Token::LParen && {
            from.is_some_and(|from| token.span.start > tokens[from].span.start)
        }
    });
    let close = tokens.iter().rposition(|token| token.token == Token::RParen);
    let (Some(open), Some(close)) = (open, close.filter(|close| Some(*close) > open)) else {
        return Vec::new();
    };
    let mut taken = Vec::new();
    let mut kept: Vec<TokenWithSpan> = Vec::new();
    for option in tokens[open + 1..close].split(is_comma) {
        let words: Vec<&TokenWithSpan> = option.iter().filter(|token| !is_space(token)).collect();
        match extra_option(&words, &KNOWN) {
            Some(option) => taken.push(option),
            None => {
                if !kept.is_empty() {
                    kept.push(TokenWithSpan { token: Token::Comma, span: option_span(option) });
                }
                kept.extend_from_slice(option);
            }
        }
    }
    if taken.is_empty() {
        return taken;
    }
    if kept.iter().all(is_space) {
        // Neither the parentheses nor WITH before them.
        let with = tokens[..open].iter().rposition(|token| !is_space(token));
        let start = with.filter(|at| is(&tokens[*at], Keyword::WITH)).unwrap_or(open);
        tokens.drain(start..=close);
    } else {
        tokens.splice(open + 1..close, kept);
    }
    taken
}

/// Writes what is behind HEADER and FREEZE as the parser knows it.
fn spell_switches(tokens: &mut [TokenWithSpan]) {
    let mut is_behind = false;
    for token in tokens {
        match &token.token {
            Token::Word(word) if matches!(word.keyword, Keyword::HEADER | Keyword::FREEZE) => {
                is_behind = true;
            }
            Token::Whitespace(_) => {}
            Token::Word(word) if is_behind => {
                let spelt = match word.value.to_ascii_lowercase().as_str() {
                    "on" => Some("TRUE"),
                    "off" => Some("FALSE"),
                    _ => None,
                };
                if let Some(spelt) = spelt {
                    token.token = Token::make_keyword(spelt);
                }
                is_behind = false;
            }
            _ => is_behind = false,
        }
    }
}

fn option_span(option: &[TokenWithSpan]) -> Span {
    option.first().map_or_else(Span::empty, |token| token.span)
}

/// The option that these words are, if the parser knows none that begins like it.
fn extra_option(words: &[&TokenWithSpan], known: &[Keyword]) -> Option<CopyOption> {
    let (name, value) = match words {
        [name] => (name, None),
        [name, value] => (name, Some(value)),
        _ => return None,
    };
    let Token::Word(word) = &name.token else { return None };
    if word.quote_style.is_some() || known.contains(&word.keyword) {
        return None;
    }
    let mut idents = vec![Ident { value: word.value.clone(), quote_style: EXTRA, span: name.span }];
    if let Some(value) = value {
        let text = match &value.token {
            Token::Word(word) => word.value.clone(),
            Token::SingleQuotedString(text) | Token::Number(text, _) => text.clone(),
            _ => return None,
        };
        idents.push(Ident { value: text, quote_style: None, span: value.span });
    }
    Some(CopyOption::ForceQuote(idents))
}

/// Takes `INDEX name (column, …)` out of `CREATE TABLE … (…)`. The dialect of PostgreSQL has no
/// such clause and would read a column with the name index. It may still be one: the type of a
/// column has no name in its parentheses.
fn take_indexes(tokens: &mut StatementTokens) -> Result<Vec<IndexConstraint>, ParserError> {
    let is = |token: &Token, wanted| matches!(token, Token::Word(word) if word.keyword == wanted);
    let mut words = tokens.iter().filter(|token| !is_space(token));
    let [first, second] = [words.next(), words.next()];
    let creates = first.is_some_and(|first| is(&first.token, Keyword::CREATE))
        && second.is_some_and(|second| is(&second.token, Keyword::TABLE));
    if !creates {
        return Ok(Vec::new());
    }
    let mut taken = Vec::new();
    let (mut at, mut depth) = (0, 0u32);
    // Where the item of the list begins that comes next.
    let mut begin = None;
    while at < tokens.len() {
        match &tokens[at].token {
            Token::LParen => {
                depth += 1;
                begin = (depth == 1).then_some(at);
            }
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 1 => begin = Some(at),
            Token::Whitespace(_) => {}
            word if is(word, Keyword::INDEX) && begin.is_some() => {
                if taken.len() == INDEXES_MAX {
                    let message = format!("a table cannot have more than {INDEXES_MAX} indexes");
                    return Err(ParserError::ParserError(message));
                }
                let rest = &tokens[at + 1..];
                let close = rest.iter().position(|token| token.token == Token::RParen);
                let rest = rest[..close.map_or(rest.len(), |close| close + 1)].to_vec();
                let shape: Vec<&Token> = rest
                    .iter()
                    .filter(|token| !is_space(token))
                    .map(|token| &token.token)
                    .collect();
                if let [Token::Word(_), Token::LParen, Token::Word(_), ..] = shape[..] {
                    let (index, length) = index(rest)?;
                    taken.push(index);
                    let end = at + 1 + length;
                    // With the comma before it, or behind it where it is the first.
                    let first = begin.unwrap_or(at);
                    let behind = tokens[end..].iter().position(|token| !is_space(token));
                    let behind = behind.map_or(end, |more| end + more);
                    let is_first = tokens[first].token == Token::LParen;
                    let comma = is_first && tokens.get(behind).is_some_and(is_comma);
                    let cut = if comma { behind + 1 } else { end };
                    let keep = first + usize::from(is_first);
                    tokens.drain(keep..cut);
                    (at, begin) = (keep, is_first.then_some(first));
                    continue;
                }
                begin = None;
            }
            _ => begin = None,
        }
        at += 1;
    }
    Ok(taken)
}

fn is_comma(token: &TokenWithSpan) -> bool {
    token.token == Token::Comma
}

/// `name (column, …)` at the beginning of tokens, and how many of them it has.
fn index(tokens: StatementTokens) -> Result<(IndexConstraint, usize), ParserError> {
    let dialect = AtollDialect;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let name = Some(parser.parse_identifier()?);
    let columns = parser.parse_parenthesized_column_list(IsOptional::Mandatory, false)?;
    let columns = columns.into_iter().map(Into::into).collect();
    let (display_as_key, index_type, index_options) = (false, None, Vec::new());
    let index = IndexConstraint { display_as_key, name, index_type, columns, index_options };
    Ok((index, parser.index()))
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// The statement with the name behind `TABLESPACE` as it was written. The parser keeps neither its
/// quotes nor its place; where it has found the clause and nothing else behind the columns, the
/// name is the last token. Other statements are left unchanged and refused later.
fn with_tablespace(mut statement: Statement, last: Option<TokenWithSpan>) -> Statement {
    if let Statement::CreateTable(create) = &mut statement
        && let CreateTableOptions::Plain(options) = &mut create.table_options
        && let [SqlOption::TableSpace(clause)] = options.as_mut_slice()
        && clause.storage.is_none()
        && let Some(TokenWithSpan { token: Token::Word(word), span }) = last
        && word.value == clause.name
    {
        let Word { value, quote_style, .. } = word;
        let value = Expr::Identifier(Ident { value, quote_style, span });
        options[0] = SqlOption::KeyValue { key: Ident::new(TABLESPACE), value };
    }
    statement
}

/// Parses text that holds exactly one statement.
///
/// # Errors
/// No statement, more than one, or a syntax error.
pub(crate) fn one(sql: &str) -> Result<Statement, SqlError> {
    statement(only(split(sql)?)?)
}

/// Parses a text that the database keeps, and tells how deep it may be. Nothing of it has a place:
/// errors have those of what a user has written.
///
/// # Errors
/// As [`one`].
pub(crate) fn kept(sql: &str) -> Result<(Statement, usize), SqlError> {
    let mut tokens = only(split(sql)?)?;
    tokens.iter_mut().for_each(|token| token.span = Span::empty());
    let depth = depth::of(&tokens)?;
    Ok((statement(tokens)?, depth))
}

/// The tokens of text that holds exactly one statement. A question mark is a parameter.
///
/// # Errors
/// No statement, or more than one; parameters in both ways of writing them.
pub(crate) fn only_tokens(sql: &str) -> Result<StatementTokens, SqlError> {
    let mut tokens = only(split(sql)?)?;
    question_marks::number(&mut tokens)?;
    Ok(tokens)
}

fn only(mut statements: Vec<StatementTokens>) -> Result<StatementTokens, SqlError> {
    match statements.len() {
        1 => Ok(statements.remove(0)),
        0 => Err(SqlError::new(SqlErrorKind::Syntax, "there is no statement in the text")),
        _ => {
            let second =
                statements[1].iter().find(|token| !is_space(token)).map(|token| token.span);
            let error = SqlError::new(
                SqlErrorKind::Syntax,
                format!("one statement is expected, the text holds {}", statements.len()),
            );
            Err(second.map_or(error.clone(), |span| error.at(span)))
        }
    }
}

impl From<TokenizerError> for SqlError {
    fn from(error: TokenizerError) -> Self {
        let span = Span::new(error.location, error.location);
        Self::new(SqlErrorKind::Syntax, sentence(&error.message)).at(span)
    }
}

impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
            ParserError::RecursionLimitExceeded => return depth::too_complex(),
        };
        // The parser keeps the place at the end of its message only.
        let (text, place) = match text.rsplit_once(" at Line: ") {
            Some((before, place)) => (before.to_owned(), parse_location(place)),
            None => (text, None),
        };
        let error = Self::new(SqlErrorKind::Syntax, sentence(&text));
        match place {
            Some(location) => error.at(Span::new(location, location)),
            None => error,
        }
    }
}

/// Reads `3, Column: 14`.
fn parse_location(text: &str) -> Option<Location> {
    let (line, column) = text.split_once(", Column: ")?;
    Some(Location::new(line.trim().parse().ok()?, column.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::copy_syntax::ExtraOption;

    #[test]
    fn a_script_is_cut_at_semicolons_outside_strings() {
        let parts = split("SELECT ';' AS a; ;\n-- c;\nSELECT 2;").unwrap();
        assert_eq!(parts.len(), 2);
        assert!(matches!(statement(parts[1].clone()).unwrap(), Statement::Query(_)));
    }

    #[test]
    fn a_syntax_error_has_its_place_in_the_whole_script() {
        let parts = split("SELECT 1;\nSELECT (1").unwrap();
        let error = statement(parts[1].clone()).unwrap_err();
        assert_eq!(error.position().map(|(line, _)| line), Some(2));
        assert_eq!(error.kind(), SqlErrorKind::Syntax);
    }

    #[test]
    fn an_error_at_the_end_of_the_text_has_a_place() {
        let error = one("SELECT * FROM").unwrap_err();
        assert_eq!(error.position(), Some((1, 14)), "{error}");
    }

    #[test]
    fn indexes_are_taken_from_anywhere_in_a_table() {
        for (list, wanted) in [
            ("INDEX i (a), a int, b int", "a INT, b INT, INDEX i (a)"),
            ("a int, index i (a, b) , b int", "a INT, b INT, INDEX i (a, b)"),
            (
                "a int, INDEX text (a), INDEX \"J\" (\"B\")",
                "a INT, INDEX text (a), INDEX \"J\" (\"B\")",
            ),
            ("INDEX i (a), INDEX j (b), a int", "a INT, INDEX i (a), INDEX j (b)"),
            // Columns.
            ("index numeric(10,2), a int", "index NUMERIC(10,2), a INT"),
            ("a int, index int, \"index\" bytea", "a INT, index INT, \"index\" BYTEA"),
        ] {
            let parsed = one(&format!("CREATE TABLE t ({list})")).unwrap();
            assert_eq!(parsed.to_string(), format!("CREATE TABLE t ({wanted})"), "{list}");
        }
        for (sql, at) in [
            ("CREATE TABLE t (a int, INDEX i (a DESC))", (1, 35)),
            ("CREATE TABLE t (a int, INDEX i (a, ))", (1, 36)),
            ("CREATE TABLE t (a int, INDEX i (a", (1, 34)),
            ("CREATE TABLE t (a int, INDEX i (a) b)", (1, 36)),
            ("CREATE TABLE t (a int INDEX i (a))", (1, 23)),
        ] {
            assert_eq!(one(sql).unwrap_err().position(), Some(at), "{sql}");
        }
    }

    #[test]
    fn copy_options_that_the_parser_does_not_know_are_kept() {
        let of = |sql: &str| {
            let Statement::Copy { options, .. } = one(sql).unwrap() else { panic!("{sql}") };
            let extra: Vec<String> = options
                .iter()
                .filter_map(ExtraOption::of)
                .map(|option| format!("{} {:?}", option.name, option.value))
                .collect();
            (options.len() - extra.len(), extra.join(", "))
        };
        for (options, known, wanted) in [
            ("WITH (ON_CONFLICT skip)", 0, "ON_CONFLICT Some(\"skip\")"),
            ("(on_conflict 'skip', FORMAT csv)", 1, "on_conflict Some(\"skip\")"),
            ("WITH (FORMAT csv, A, HEADER, B 1)", 2, "A None, B Some(\"1\")"),
            ("WITH (FORMAT csv, NULL 'ON_CONFLICT skip')", 2, ""),
            ("WITH (FORCE_QUOTE (a))", 1, ""),
            ("CSV HEADER", 0, ""),
        ] {
            for columns in ["", " (on_conflict, a)"] {
                let sql = format!("COPY t{columns} FROM 'f.csv' {options}");
                assert_eq!(of(&sql), (known, wanted.to_owned()), "{sql}");
            }
        }
        let error = one("COPY t FROM 'f' WITH (ON_CONFLICT skip, FORMAT 7 8)").unwrap_err();
        assert!(error.position().is_some_and(|(_, column)| column > 40), "{error:?}");
    }

    #[test]
    fn rubbish_behind_a_statement_is_an_error() {
        assert!(one("INSERT INTO t VALUES (1) 2").is_err());
        assert!(one("SELECT 1; SELECT 2").unwrap_err().message().contains("holds 2"));
        assert!(one(" -- nothing").is_err());
    }

    #[test]
    fn a_string_without_end_is_an_error_with_a_place() {
        assert!(split("SELECT 'abc").unwrap_err().position().is_some());
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let sql = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(one(&sql).unwrap_err().message().contains("nested too deeply"));
    }

    #[test]
    fn the_place_of_a_parse_error_is_read_from_its_end() {
        let error = SqlError::from(ParserError::ParserError(
            "Expected: an expression, found: ; at Line: 3, Column: 14".into(),
        ));
        assert_eq!(error.position(), Some((3, 14)));
        assert_eq!(error.message(), "expected: an expression, found: ;");
    }
}
