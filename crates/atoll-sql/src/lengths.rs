//! Texts with a limit of characters: `varchar(n)` and `character(n)`.
//!
//! `LENGTH-1`: blanks at the end of a `character(n)` have no meaning. They are not stored, so that
//! values compare as texts do, and are there again in results, which show `n` characters.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringViewArray};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType as ArrowType, Field, Schema, SchemaRef};
use atoll::{CHARACTER, CHARACTERS_MAX, Column, DataType};

use crate::json::Form;
use crate::written::quote;

/// The first characters of a text, and whether it has only blanks behind them.
fn split(text: &str, most: u32) -> (&str, bool) {
    match text.char_indices().nth(most as usize) {
        Some((end, _)) => (&text[..end], text[end..].bytes().all(|byte| byte == b' ')),
        None => (text, true),
    }
}

/// What a column of the type stores of a text; the text itself for other types.
fn stored(text: &str, data_type: DataType) -> &str {
    match data_type {
        DataType::Char(_) => text.trim_end_matches(' '),
        _ => text,
    }
}

/// The characters of a `character` without a limit, which no column can be: it is shown without
/// blanks.
pub(crate) const NO_LIMIT: u32 = 0;

fn limit(data_type: DataType) -> u32 {
    match data_type {
        DataType::Char(NO_LIMIT) => u32::MAX,
        DataType::Varchar(most) | DataType::Char(most) => most,
        _ => u32::MAX,
    }
}

/// The text in a column of a type, to which it is assigned.
///
/// # Errors
/// It is longer than the type allows; blanks do not count.
pub(crate) fn assigned(text: &str, data_type: DataType) -> Result<&str, String> {
    match split(text, limit(data_type)) {
        (kept, true) => Ok(stored(kept, data_type)),
        (_, false) => Err(format!("value too long for type {data_type}: {}", quote(text))),
    }
}

/// As [`assigned`], for rows that come as Arrow data; JSON is read.
///
/// # Errors
/// As there; the text is no JSON.
pub fn text_in_column(text: &str, data_type: DataType) -> Result<Cow<'_, str>, String> {
    match Form::of(data_type) {
        Some(form) => form.read(text).map(Cow::Owned).map_err(|fault| fault.message),
        None => assigned(text, data_type).map(Cow::Borrowed),
    }
}

/// The text as a cast that is written makes it: what is too long is cut off.
pub(crate) fn cut(text: &str, data_type: DataType) -> &str {
    stored(split(text, limit(data_type)).0, data_type)
}

/// A stored `character(n)` as results show it.
pub(crate) fn padded(text: &str, characters: u32) -> Cow<'_, str> {
    let missing = (characters as usize).saturating_sub(text.chars().count());
    match missing {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(format!("{text}{}", " ".repeat(missing))),
    }
}

/// A field with the extension type of `character(n)`.
pub(crate) fn as_character(field: Field, most: u32) -> Field {
    let name = (EXTENSION_TYPE_NAME_KEY.to_owned(), CHARACTER.to_owned());
    let parameter = (EXTENSION_TYPE_METADATA_KEY.to_owned(), most.to_string());
    field.with_metadata([name, parameter].into())
}

/// The characters of a field of the type `character(n)`.
pub(crate) fn character(field: &Field) -> Option<u32> {
    let is_it = field.extension_type_name() == Some(CHARACTER);
    if is_it { field.extension_type_metadata()?.parse().ok() } else { None }
}

/// The key of the metadata of a field with texts of a column of the type `varchar(n)`, with `n`: in
/// queries they are like other texts, but clients are told of the limit.
const LIMIT: &str = "atoll.varchar";

/// The schema of a table with the limits of these columns, which are its own.
pub(crate) fn with_limits(schema: SchemaRef, columns: &[Column]) -> SchemaRef {
    let limit = |column: &Column| match column.data_type {
        DataType::Varchar(most) => Some(most),
        _ => None,
    };
    if columns.iter().all(|column| limit(column).is_none()) {
        return schema;
    }
    let fields = schema.fields().iter().zip(columns).map(|(field, column)| match limit(column) {
        Some(most) => {
            let limit = (LIMIT.to_owned(), most.to_string());
            Arc::new(field.as_ref().clone().with_metadata([limit].into()))
        }
        None => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The limit of the characters of a column of a result that is one of the type `varchar(n)`.
pub fn varchar_limit(field: &Field) -> Option<u32> {
    field.metadata().get(LIMIT).filter(|_| field.data_type().is_string())?.parse().ok()
}

/// The field without its limit, if it has one.
pub(crate) fn without_limit(mut field: Field) -> Field {
    field.metadata_mut().remove(LIMIT);
    field
}

/// The field of a `character(n)` of whatever length.
pub(crate) fn any_character() -> Field {
    as_character(Field::new("", ArrowType::Utf8View, true), CHARACTERS_MAX)
}

/// An array of a result as it is shown: with the blanks at the end of a `character(n)`.
pub(crate) fn padded_array(array: &ArrayRef, field: &Field) -> ArrayRef {
    let Some(most) = character(field) else { return Arc::clone(array) };
    let texts = array.as_string_view().iter();
    Arc::new(texts.map(|text| text.map(|text| padded(text, most))).collect::<StringViewArray>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_by_a_cast_and_refused_by_a_column() {
        let (varchar, char) = (DataType::Varchar(3), DataType::Char(3));
        assert_eq!(assigned("äöü", varchar), Ok("äöü"));
        assert_eq!(assigned("ab   ", varchar), Ok("ab "));
        assert_eq!(assigned("abc  ", char), Ok("abc"));
        assert_eq!(assigned("a    ", char), Ok("a"));
        assert!(assigned("abc x", varchar).is_err_and(|e| e.contains("character varying(3)")));
        assert!(assigned("abcd", char).is_err());
        assert_eq!((cut("abcdef", varchar), cut("a  def", varchar)), ("abc", "a  "));
        assert_eq!((cut("äöüß", char), cut("a  def", char)), ("äöü", "a"));
        assert_eq!((padded("ä", 3), padded("abc", 3)), ("ä  ".into(), "abc".into()));
    }

    #[test]
    fn every_text_that_fits_is_read_back_as_it_is_shown() {
        let mut state = 7u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let length = (state >> 60) as usize;
            let text: String = (0..length)
                .map(|at| ['a', ' ', 'ü', '\t'][(state >> (at * 2)) as usize % 4])
                .collect();
            for most in [15, 20] {
                let stored = assigned(&text, DataType::Char(most));
                let shown = stored.map(|stored| padded(stored, most).into_owned());
                assert_eq!(shown, Ok(format!("{text:<width$}", width = most as usize)));
                assert_eq!(assigned(&text, DataType::Varchar(most)), Ok(text.as_str()));
                assert_eq!(cut(&text, DataType::Varchar(most)), text);
            }
        }
    }
}
