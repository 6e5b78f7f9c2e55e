//! Values in the JSON format (RFC 8259), as PostgreSQL has them in `json` and `jsonb`.
//!
//! `JSON-1`: a `json` is the text as it was written, once it was read without a fault. A `jsonb` is
//! the text that PostgreSQL shows for it: of equal keys of an object the last one counts, keys are
//! ordered by their length and then by their bytes, and a number is written without an exponent.
//! So two of them with one text are equal; `1` and `1.0` are equal too, which the
//! [`order key`](order::key) knows.
//! `JSON-2`: a number keeps all its digits.
//!
//! In reading order: [`parse`], [`write`](mod@write), [`order`].

pub(crate) mod order;
mod parse;
mod write;

use std::ops::Range;

use arrow_schema::Field;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use atoll::{DataType, JSON, JSONB};

pub(crate) use parse::{Fault, parse};
pub(crate) use write::{compact, of_jsonb, pretty, quoted};

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Json,
    /// The place in the text that was read; empty for a value that was made.
    pub(crate) place: Range<usize>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The digits as they were written.
    Number(String),
    Text(String),
    Array(Vec<Node>),
    /// In the order in which the keys were written, or in that of `jsonb` ([`Json::settled`]).
    Object(Vec<(String, Node)>),
}

impl From<Json> for Node {
    fn from(value: Json) -> Self {
        Self { value, place: 0..0 }
    }
}

/// Which of the two types a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Json,
    Jsonb,
}

impl Form {
    /// The type of columns.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Json => DataType::Json,
            Self::Jsonb => DataType::Jsonb,
        }
    }

    /// The form of a type of columns.
    pub(crate) fn of(data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::Json => Some(Self::Json),
            DataType::Jsonb => Some(Self::Jsonb),
            _ => None,
        }
    }

    /// The form of the values of a field.
    pub(crate) fn of_field(field: &Field) -> Option<Self> {
        let is_json = field.extension_type_name() == Some(JSON);
        let is_jsonb = field.metadata().contains_key(JSONB);
        is_json.then_some(if is_jsonb { Self::Jsonb } else { Self::Json })
    }

    /// The field with the extension type of this form.
    pub(crate) fn mark(self, field: Field) -> Field {
        let name = (EXTENSION_TYPE_NAME_KEY.to_owned(), JSON.to_owned());
        let none = (EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new());
        let jsonb = (self == Self::Jsonb).then(|| (JSONB.to_owned(), String::new()));
        field.with_metadata([name, none].into_iter().chain(jsonb).collect())
    }

    /// The text of a value of this form, from any text.
    ///
    /// # Errors
    /// It is no JSON.
    pub(crate) fn read(self, text: &str) -> Result<String, Fault> {
        let node = parse(text)?;
        match self {
            Self::Json => Ok(text.to_owned()),
            Self::Jsonb => Ok(of_jsonb(&node.value.settled()?)),
        }
    }

    /// The text of a part of a value that was read from a text.
    pub(crate) fn part(self, text: &str, node: &Node) -> String {
        match self {
            Self::Json => text.get(node.place.clone()).unwrap_or_default().to_owned(),
            Self::Jsonb => of_jsonb(&node.value),
        }
    }
}

impl Json {
    /// The value as a `jsonb` has it.
    ///
    /// # Errors
    /// A number with too many digits, and the character U+0000.
    pub(crate) fn settled(self) -> Result<Self, Fault> {
        let text = |text: String| match text.contains('\0') {
            true => Err(Fault::of_zero()),
            false => Ok(text),
        };
        let node = |node: Node| Ok::<_, Fault>(Node::from(node.value.settled()?));
        Ok(match self {
            Self::Number(digits) => Self::Number(write::without_exponent(&digits)?),
            Self::Text(value) => Self::Text(text(value)?),
            Self::Array(items) => {
                Self::Array(items.into_iter().map(node).collect::<Result<_, _>>()?)
            }
            Self::Object(pairs) => {
                let pairs = pairs.into_iter().map(|(key, value)| Ok((text(key)?, node(value)?)));
                let mut pairs = pairs.collect::<Result<Vec<_>, Fault>>()?;
                pairs.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
                // The sort keeps the order of equal keys; the last one counts.
                let mut kept: Vec<(String, Node)> = Vec::with_capacity(pairs.len());
                for pair in pairs {
                    match kept.last_mut().filter(|last| last.0 == pair.0) {
                        Some(last) => *last = pair,
                        None => kept.push(pair),
                    }
                }
                Self::Object(kept)
            }
            other => other,
        })
    }

    /// The field of an object: the last one of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Object(pairs) => {
                pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The element of an array; a negative number counts from its end.
    pub(crate) fn element(&self, at: i64) -> Option<&Node> {
        match self {
            Self::Array(items) => items.get(place(items.len(), at)?),
            _ => None,
        }
    }

    /// What a path of at least one step leads to: names of fields and numbers of elements.
    pub(crate) fn node_at(&self, path: &[String]) -> Option<&Node> {
        let (first, rest) = path.split_first()?;
        let next = match self {
            Self::Array(_) => self.element(first.trim().parse().ok()?)?,
            _ => self.field(first)?,
        };
        if rest.is_empty() { Some(next) } else { next.value.node_at(rest) }
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Whether it has all that another one has, which both are settled: each pair of an object and
    /// each element of an array, at the same depth.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(pairs), Self::Object(others)) => others.iter().all(|(name, other)| {
                let own = pairs.iter().find(|(key, _)| key == name);
                own.is_some_and(|(_, own)| own.value.contains(&other.value))
            }),
            (Self::Array(items), Self::Array(others)) => others
                .iter()
                .all(|other| items.iter().any(|item| item.value.contains_alike(&other.value))),
            (Self::Array(_), Self::Object(_)) => false,
            // As in PostgreSQL, an array contains what is one of its elements.
            (Self::Array(items), scalar) => items.iter().any(|item| item.value.is_same(scalar)),
            _ => self.is_same(other),
        }
    }

    /// Elements of arrays contain each other where they are of one kind.
    fn contains_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(_), Self::Array(_)) | (Self::Object(_), Self::Object(_)) => {
                self.contains(other)
            }
            (Self::Array(_) | Self::Object(_), _) | (_, Self::Array(_) | Self::Object(_)) => false,
            _ => self.is_same(other),
        }
    }

    /// Whether two values, which are settled, are equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        order::key(self) == order::key(other)
    }
}

/// The position of an element, which may be counted from the end.
pub(crate) fn place(len: usize, at: i64) -> Option<usize> {
    match at {
        0.. => usize::try_from(at).ok(),
        _ => len.checked_sub(usize::try_from(at.unsigned_abs()).ok()?),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn jsonb_is_shown_as_in_postgresql() {
        for (text, wanted) in [
            (
                r#" {"b":1, "a" : [1,2 , {}], "aa":null, "a":true} "#,
                r#"{"a": true, "b": 1, "aa": null}"#,
            ),
            ("[]", "[]"),
            ("1.50e2", "150"),
            ("1.5e1", "15"),
            ("1.50", "1.50"),
            ("-1e-3", "-0.001"),
            ("-0", "0"),
            (r#""\u00e4\n\"\\\/\ud83d\ude00\u0001""#, "\"ä\\n\\\"\\\\/😀\\u0001\""),
        ] {
            assert_eq!(Form::Jsonb.read(text).as_deref(), Ok(wanted), "{text}");
            assert_eq!(Form::Jsonb.read(wanted).as_deref(), Ok(wanted), "{wanted}");
            assert_eq!(Form::Json.read(text).as_deref(), Ok(text));
        }
        for text in [
            "", "{", "[1,]", "{\"a\"}", "01", "1.", "'a'", "nul", "\"a", "[1] 2", "\"\\x\"",
            "\"\t\"",
        ] {
            assert!(Form::Json.read(text).is_err(), "{text}");
        }
        assert!(Form::Json.read("\"\\u0000\"").is_ok() && Form::Jsonb.read("\"\\u0000\"").is_err());
        assert!(Form::Json.read("\"\\ud83d\"").is_err());
        assert!(Form::Json.read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn what_contains_what_is_as_in_postgresql() {
        let of = |text: &str| parse(text).unwrap().value.settled().unwrap();
        for (left, right, wanted) in [
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#, true),
            (r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1}}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"b":1}"#, false),
            ("[1,2,[1,3]]", "[1,3]", false),
            ("[1,2,[1,3]]", "[[1]]", true),
            ("[1,2,3]", "[3,1,1]", true),
            (r#"["foo","bar"]"#, r#""bar""#, true),
            (r#""bar""#, r#"["bar"]"#, false),
            ("1", "1.0", true),
            (r#"[{"a":1}]"#, r#"{"a":1}"#, false),
        ] {
            assert_eq!(of(left).contains(&of(right)), wanted, "{left} @> {right}");
        }
    }
}
