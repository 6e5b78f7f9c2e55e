//! Enums in plans, and their values as Arrow arrays.
//!
//! - `ENUM-1`: inside a plan, values of an enum are timestamps of whole seconds: the codes of their
//!   labels (`LABELS-1`), in a time zone that is the definition of the type. No other type of Arrow
//!   has the order of numbers and a name in it; so every node of a plan, whatever it merges, moves
//!   or keeps, knows of which enum its values are. No column has other timestamps of seconds
//!   (`TIME-1`).
//! - `ENUM-2`: outside of plans, in results and in snapshots, they are dictionaries of the labels.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampSecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};
use atoll::{Column, DataType, Labels};
use sqlparser::ast::{DataType as SqlType, Ident, ObjectName};

/// Stands before the definition in a time zone.
const ZONE: &str = "enum ";
/// The name of a type that stands for an enum, with its definition behind it. No name that is
/// written has the mark (`NAME-1`).
const MARKED: &str = "\u{1}enum";

/// The type of an enum inside a plan.
pub(crate) fn arrow(labels: Labels) -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Second, Some(format!("{ZONE}{}", labels.text()).into()))
}

/// The enum of a type inside a plan.
pub(crate) fn of(arrow: &ArrowType) -> Option<Labels> {
    match arrow {
        ArrowType::Timestamp(TimeUnit::Second, Some(zone)) => {
            Labels::of_text(zone.strip_prefix(ZONE)?)
        }
        _ => None,
    }
}

/// The enum of a field of a result or a snapshot.
pub(crate) fn of_field(field: &Field) -> Option<Labels> {
    let is_it = field.extension_type_name() == Some(atoll::ENUM);
    if is_it { Labels::of_text(field.extension_type_metadata()?) } else { None }
}

/// A field of a result with values of an enum.
pub(crate) fn shown(name: &str, labels: Labels, nullable: bool) -> Field {
    let (name, data_type) = (name.to_owned(), DataType::Enum(labels));
    atoll::arrow_field(&Column { name, data_type, nullable })
}

/// The columns of a table as plans have them.
pub(crate) fn inside(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| of_field(field).is_some()) {
        return Arc::clone(schema);
    }
    let field = |field: &Arc<Field>| match of_field(field) {
        Some(labels) => Arc::new(Field::new(field.name(), arrow(labels), field.is_nullable())),
        None => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// An array of a table as plans have it of this type.
pub(crate) fn array_inside(array: ArrayRef, wanted: &ArrowType) -> ArrayRef {
    match (wanted, array.as_dictionary_opt::<Int32Type>()) {
        (ArrowType::Timestamp(_, Some(zone)), Some(dictionary)) => {
            let codes = dictionary.keys().unary::<_, TimestampSecondType>(i64::from);
            Arc::new(codes.with_timezone(Arc::clone(zone)))
        }
        _ => array,
    }
}

/// An array of a plan as results have it.
///
/// # Errors
/// A value is none of a label.
pub(crate) fn array_outside(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match of(array.data_type()) {
        Some(labels) => {
            let codes = array.as_primitive::<TimestampSecondType>();
            atoll::dictionary(codes.unary(|code| i32::try_from(code).unwrap_or(-1)), labels)
        }
        None => Ok(Arc::clone(array)),
    }
}

/// The label at a place of an array of a plan, which is not NULL there.
pub(crate) fn label(array: &dyn Array, at: usize) -> Option<&'static str> {
    let labels = of(array.data_type())?;
    labels.label(i32::try_from(array.as_primitive::<TimestampSecondType>().value(at)).ok()?)
}

/// The value of a label.
///
/// # Errors
/// The type has no such label.
pub(crate) fn parse(text: &str, labels: Labels) -> Result<i32, String> {
    let unknown = || format!("invalid input value for enum {}: \"{text}\"", labels.shown());
    labels.code(text).ok_or_else(unknown)
}

/// The type of SQL that stands for an enum which a name has been looked up for.
pub(crate) fn marked(labels: Labels) -> SqlType {
    let name = ObjectName::from(vec![Ident::new(MARKED)]);
    SqlType::Custom(name, vec![labels.text().to_owned()])
}

/// The enum that a type of SQL stands for.
pub(crate) fn of_marked(name: &SqlType) -> Option<Labels> {
    let SqlType::Custom(ObjectName(parts), text) = name else { return None };
    let [part] = parts.as_slice() else { return None };
    match (part.as_ident().map(|ident| ident.value.as_str()), text.as_slice()) {
        (Some(MARKED), [text]) => Labels::of_text(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_array::{Int32Array, StringArray};

    use super::*;

    #[test]
    fn values_go_into_a_plan_and_out_of_it() {
        let labels = ["sad", "ok", "happy"].map(str::to_owned);
        let labels = Labels::new("mood", &labels).unwrap();
        assert_eq!(of(&arrow(labels)), Some(labels));
        assert_eq!(of(&ArrowType::Timestamp(TimeUnit::Second, Some("UTC".into()))), None);
        assert_eq!(of_marked(&marked(labels)), Some(labels));
        let field = shown("a", labels, true);
        assert_eq!(of_field(&field), Some(labels));
        let schema = inside(&Arc::new(Schema::new(vec![field])));
        let keys = Int32Array::from(vec![Some(2), None, Some(0)]);
        let outside = atoll::dictionary(keys, labels).unwrap();
        let within = array_inside(Arc::clone(&outside), schema.field(0).data_type());
        assert_eq!(within.data_type(), schema.field(0).data_type());
        assert_eq!((label(&within, 0), label(&within, 2)), (Some("happy"), Some("sad")));
        assert_eq!(&array_outside(&within).unwrap(), &outside);
        let texts = outside.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), [Some("happy"), None, Some("sad")]);
    }
}
