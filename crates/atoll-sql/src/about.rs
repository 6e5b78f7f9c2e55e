//! What a constraint that a row would break is of, for programs that tell errors by it.

use atoll::Catalog;

use crate::error::{Cause, SqlError};
use crate::schemas;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table whose row would break it.
    pub table: Option<String>,
    /// The column that would be NULL.
    pub column: Option<String>,
    /// The name of the constraint.
    pub constraint: Option<String>,
}

impl About {
    pub(crate) fn table(name: &str) -> Self {
        Self { table: Some(name.to_owned()), ..Self::default() }
    }

    pub(crate) fn column(name: &str) -> Self {
        Self { column: Some(name.to_owned()), ..Self::default() }
    }

    pub(crate) fn column_of(self, name: &str) -> Self {
        Self { column: Some(name.to_owned()), ..self }
    }

    pub(crate) fn constraint(self, name: &str) -> Self {
        Self { constraint: Some(name.to_owned()), ..self }
    }

    /// Completes what was told by the flat name of a table alone.
    fn complete(&mut self, cause: Option<Cause>, catalog: &Catalog) {
        let Some(flat) = self.table.take_if(|_| self.schema.is_none()) else { return };
        let has = |name: &str| catalog.object(name).is_some();
        let (schema, name) = schemas::split(&flat, &has);
        if self.constraint.is_none() && cause == Some(Cause::DuplicateKey) {
            let order = catalog.table(&flat).and_then(|table| {
                let schema = table.schema();
                let key = schema.visible_key().iter().map(|at| &schema.columns()[*at].name);
                let key: Vec<&String> = key.collect();
                // The order of the primary key, if there is one, has its name.
                let is_it = |index: &atoll::IndexSpec| {
                    !index.unique && index.columns.iter().eq(key.iter().copied())
                };
                table.indexes().into_iter().find(is_it)
            });
            let name = order.map_or_else(|| format!("{name}_pkey"), |index| index.name);
            self.constraint = Some(name);
        }
        (self.schema, self.table) = (Some(schema.to_owned()), Some(name.to_owned()));
    }
}

impl SqlError {
    /// The same error, with the schema and the constraint that it is about.
    pub(crate) fn complete(
        mut self,
        catalog: impl FnOnce() -> Result<std::sync::Arc<Catalog>, Self>,
    ) -> Self {
        let cause = self.cause();
        if let Some(about) = self.about_mut()
            && let Ok(catalog) = catalog()
        {
            about.complete(cause, &catalog);
        }
        self
    }
}

/// The key of a row in PostgreSQL's form: of `id = 7, name = 'it''s'` it is `(id, name)=(7, it's)`.
pub(crate) fn key_shown(key: &str) -> String {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let mut rest = key;
    while let Some((name, behind)) = rest.split_once(" = ") {
        names.push(name);
        let Some(text) = behind.strip_prefix('\'') else {
            let end = behind.find(", ").unwrap_or(behind.len());
            values.push(behind[..end].to_owned());
            rest = behind[end..].trim_start_matches(", ");
            continue;
        };
        let (mut value, mut chars) = (String::new(), text.char_indices().peekable());
        let mut end = text.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\'' if chars.next_if(|(_, next)| *next == '\'').is_none() => {
                    end = at + 1;
                    break;
                }
                c => value.push(c),
            }
        }
        values.push(value);
        rest = text[end..].trim_start_matches(", ");
    }
    format!("({})=({})", names.join(", "), values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_in_postgresql() {
        for (key, wanted) in [
            ("id = 7", "(id)=(7)"),
            ("id = 7, name = 'it''s, a = 5'", "(id, name)=(7, it's, a = 5)"),
            ("name = '', d = '2024-05-01', n = 1.5", "(name, d, n)=(, 2024-05-01, 1.5)"),
            ("name = ''''", "(name)=(')"),
        ] {
            assert_eq!(key_shown(key), wanted);
        }
    }
}
