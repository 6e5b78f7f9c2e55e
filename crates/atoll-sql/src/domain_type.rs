//! The type of SQL that stands for a domain which a name has been looked up for.

use atoll::{DataType, Labels};
use sqlparser::ast::{DataType as SqlType, Ident, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::declared::domain::Domain;
use crate::enums;

/// The name of such a type, see `enums::marked`.
const MARKED: &str = "\u{1}domain";

/// The type of SQL that stands for a domain over a type.
pub(crate) fn marked(domain: &Domain, data_type: DataType) -> SqlType {
    let text = serde_json::to_string(domain).expect("texts can be written as JSON");
    let mut parts = vec![text, data_type.to_string()];
    if let DataType::Enum(labels) = data_type {
        parts.push(labels.text().to_owned());
    }
    SqlType::Custom(ObjectName::from(vec![Ident::new(MARKED)]), parts)
}

/// The domain that a type of SQL stands for, and the type of its values.
pub(crate) fn of_marked(name: &SqlType) -> Option<(Domain, SqlType)> {
    let SqlType::Custom(ObjectName(parts), text) = name else { return None };
    let [part] = parts.as_slice() else { return None };
    if part.as_ident().is_none_or(|ident| ident.value != MARKED) {
        return None;
    }
    let (domain, of) = match text.as_slice() {
        [domain, _, labels] => (domain, enums::marked(Labels::of_text(labels)?)),
        [domain, of] => {
            let dialect = PostgreSqlDialect {};
            let mut parser = Parser::new(&dialect).try_with_sql(of).ok()?;
            (domain, parser.parse_data_type().ok()?)
        }
        _ => return None,
    };
    Some((serde_json::from_str(domain).ok()?, of))
}
