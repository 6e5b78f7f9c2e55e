//! What a constraint that a row would break is of, for programs that tell errors by it.

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table with the row that would break it.
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
