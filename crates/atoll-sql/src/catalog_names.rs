//! `pg_catalog.` before the name of a function or a type that PostgreSQL has built in.
//!
//! The parser would read a type of another schema, and a function of one. What stands before the
//! name of a relation is left: there is no relation of that schema yet.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The types that may be named so.
const TYPES: [&str; 32] = [
    "bool",
    "bpchar",
    "bytea",
    "char",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "name",
    "numeric",
    "oid",
    "regclass",
    "regnamespace",
    "regproc",
    "regprocedure",
    "regrole",
    "regtype",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "uuid",
    "varchar",
    "bigint",
];
/// Words behind which a relation is named.
const BEFORE_RELATIONS: [&str; 11] = [
    "into",
    "table",
    "copy",
    "on",
    "references",
    "update",
    "only",
    "view",
    "index",
    "exists",
    "sequence",
];

fn is(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if match word.quote_style {
        Some(_) => word.value == wanted,
        None => word.value.eq_ignore_ascii_case(wanted),
    })
}

/// Takes the schema away where it stands before a function or a type.
pub(crate) fn strip(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(&token.token, "pg_catalog")) {
        return;
    }
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while at + 2 < tokens.len() {
        let is_qualified =
            is(&tokens[at].token, "pg_catalog") && tokens[at + 1].token == Token::Period;
        let before = tokens[..at].iter().rfind(|token| !is_space(token));
        let names_relation =
            before.is_some_and(|token| BEFORE_RELATIONS.iter().any(|word| is(&token.token, word)));
        let is_call = tokens[at + 3..]
            .iter()
            .find(|token| !is_space(token))
            .is_some_and(|next| next.token == Token::LParen);
        let is_type = TYPES.iter().any(|name| is(&tokens[at + 2].token, name));
        if is_qualified && (is_type || is_call && !names_relation) {
            tokens.drain(at..at + 2);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn the_schema_goes_where_a_function_or_a_type_is_named() {
        for (sql, wanted) in [
            ("SELECT pg_catalog.lower('A')", "SELECT lower('A')"),
            ("SELECT \"pg_catalog\".lower ('A')", "SELECT lower('A')"),
            ("SELECT '1'::pg_catalog.int4", "SELECT '1'::INT4"),
            ("SELECT * FROM pg_catalog.pg_class", "SELECT * FROM pg_catalog.pg_class"),
            ("INSERT INTO pg_catalog.t (a) VALUES (1)", "INSERT INTO pg_catalog.t (a) VALUES (1)"),
        ] {
            assert_eq!(crate::parse::one(sql).unwrap().to_string(), wanted);
        }
    }
}
