//! Names as SQL takes them, and calls of functions.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, SelectItem, SetExpr, Statement,
};
use sqlparser::keywords::RESERVED_FOR_COLUMN_ALIAS;
use sqlparser::tokenizer::Token;

use crate::parse;

/// A name as SQL takes it: in quotes unless it is a plain lower-case identifier.
pub fn quoted_if_needed(name: &str) -> std::borrow::Cow<'_, str> {
    if is_plain(name) { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")).into() }
}

/// Names in a list, each as SQL takes it.
pub(crate) fn quoted_list<N: AsRef<str>>(names: &[N]) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted_if_needed(name.as_ref())).collect();
    names.join(", ")
}

/// The same as an identifier of a statement.
pub(crate) fn quoted_ident(name: &str) -> Ident {
    if is_plain(name) { Ident::new(name) } else { Ident::with_quote('"', name) }
}

/// Whether SQL takes a name without quotes for this very column.
fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c == '_' || c.is_alphanumeric() && !c.is_ascii_uppercase();
    let begins = name.starts_with(|c: char| !c.is_numeric());
    if !begins || !name.chars().all(allowed) {
        return false;
    }
    // The parser takes some words that other places of a statement, or other databases, do not.
    let keyword = Token::make_keyword(name);
    if matches!(keyword, Token::Word(word) if RESERVED_FOR_COLUMN_ALIAS.contains(&word.keyword)) {
        return false;
    }
    let Ok(Statement::Query(query)) = parse::one(&format!("SELECT {name} FROM t")) else {
        return false;
    };
    let SetExpr::Select(select) = *query.body else { return false };
    matches!(select.projection.as_slice(),
        [SelectItem::UnnamedExpr(Expr::Identifier(ident))] if ident.value == name)
}

/// The call of a function as a statement has it.
pub(crate) fn written<const N: usize>(name: &str, arguments: [Expr; N]) -> Expr {
    let argument = |side| FunctionArg::Unnamed(FunctionArgExpr::Expr(side));
    let args = arguments.map(argument).into();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sql_takes_otherwise_are_quoted() {
        for name in ["id", "_x1", "größe", "date", "name"] {
            assert_eq!(quoted_if_needed(name), name);
        }
        for name in
            ["Id", "order", "select", "from", "a b", "1st", "", "Größe", "a-b", "current_date"]
        {
            assert_eq!(quoted_if_needed(name), format!("\"{name}\""));
        }
        assert_eq!(quoted_if_needed("a\"b"), "\"a\"\"b\"");
    }
}
