//! `SQLNAME-1`: in a name without quotes the letters A to Z are folded to lower case, as PostgreSQL
//! does with UTF-8; all other letters, and quoted names, are not changed.

use sqlparser::ast::Ident;

/// The name that an identifier denotes.
pub(crate) fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}
