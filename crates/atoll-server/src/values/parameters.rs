//! The values of parameters that a client sends, as text or in their binary forms.

use atoll::DataType;
use atoll_sql::{Literal, from_binary};

use super::oids;
use crate::wire::fields::Malformed;
use crate::wire::out::Report;

/// Reads the value of a parameter of a type; format 0 is text.
///
/// # Errors
/// The bytes are no value of the type.
pub(crate) fn parameter(bytes: &[u8], format: i16, oid: u32) -> Result<Literal, Report> {
    if format == 0 {
        let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
        return of_text(text, oid);
    }
    of_binary(bytes, oid)
}

fn not_utf8() -> Report {
    report("22021", Malformed::Utf8.to_string())
}

fn report(state: &'static str, message: impl Into<String>) -> Report {
    Report { state, message: message.into(), ..Report::default() }
}

/// A value that is written. Where its type decides how it is written into a statement, it is read
/// here; the rest is read by the place where it stands.
fn of_text(text: &str, oid: u32) -> Result<Literal, Report> {
    if text.contains('\0') {
        return Err(report("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    let read = |data_type: DataType| {
        let value = Literal::Text(text.to_owned()).as_type(data_type);
        value.map(|value| Literal::of_value(&value, data_type)).map_err(|why| {
            let state = if why.contains("out of range") { "22003" } else { "22P02" };
            report(state, format!("invalid input syntax for type {data_type}: {why}"))
        })
    };
    match oid {
        oids::BOOL => read(DataType::Bool),
        oids::INT2 => read(DataType::Int16),
        oids::INT4 => read(DataType::Int32),
        oids::INT8 | oids::OID => read(DataType::Int64),
        oids::FLOAT4 => read(DataType::Float32),
        oids::FLOAT8 => read(DataType::Float64),
        oids::NUMERIC => Literal::number(text.trim()).ok_or_else(|| {
            report("22P02", format!("invalid input syntax for type numeric: \"{text}\""))
        }),
        array => match oids::element_of(array) {
            // Its place says how many digits its elements have.
            Some(oids::NUMERIC) => read(DataType::Text.array().unwrap_or(DataType::Text)),
            Some(element) => {
                let element = oids::declared(element).unwrap_or(DataType::Text);
                match element.array() {
                    Some(array) => read(array),
                    None => Ok(Literal::Text(text.to_owned())),
                }
            }
            None => Ok(Literal::Text(text.to_owned())),
        },
    }
}

fn of_binary(bytes: &[u8], oid: u32) -> Result<Literal, Report> {
    let of_type = |data_type| {
        from_binary(bytes, data_type)
            .map_err(|error| report(error.sqlstate(), error.message().to_owned()))
    };
    let array_of = |element: DataType| match element.array() {
        Some(array) => of_type(array),
        None => Err(report("0A000", "arrays of this type are not supported")),
    };
    if oids::is_number_of_system(oid) {
        return of_type(DataType::Int32).map(unsigned);
    }
    if let Some(data_type) = oids::declared(oid).filter(|_| oid != oids::array_of(oids::OID)) {
        return of_type(data_type);
    }
    match oids::element_of(oid) {
        Some(element) if oids::is_number_of_system(element) => match array_of(DataType::Int32)? {
            Literal::List(items) => Ok(Literal::List(items.into_iter().map(unsigned).collect())),
            other => Ok(other),
        },
        Some(element) => array_of(oids::declared(element).unwrap_or(DataType::Text)),
        None if oids::is_text(oid) => of_type(DataType::Text),
        None => Err(report("42704", format!("the type with number {oid} is not supported"))),
    }
}

/// A number of what the system has, which has no sign.
fn unsigned(number: Literal) -> Literal {
    match number {
        Literal::Integer(number) => i32::try_from(number)
            .map_or(Literal::Integer(number), |bits| Literal::from(bits.cast_unsigned())),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::values::Cell;
    use crate::values::binary::put;

    #[test]
    fn what_is_written_in_binary_form_is_read_back() {
        for (literal, oid) in [
            (Literal::Decimal(-12_345_678, 2), oids::NUMERIC),
            (Literal::Decimal(1, 5), oids::NUMERIC),
            (Literal::Integer(10_i128.pow(30) + 7), oids::NUMERIC),
            (Literal::Date(-719_163), oids::DATE),
            (Literal::Instant(-1), oids::TIMESTAMPTZ),
            (Literal::Uuid([7; 16]), oids::UUID),
            (Literal::Json("{}".to_owned()), oids::JSONB),
            (Literal::List(vec!["a".into(), Literal::Null]), 1009),
            (Literal::Float(-0.0), oids::FLOAT8),
            (Literal::List(vec![Literal::Decimal(150, 2), Literal::Null]), 1231),
            (Literal::Integer(4_000_000_000), oids::OID),
            (Literal::List(vec![23.into(), 4_000_000_000_i64.into()]), 1028),
            (Literal::Text("sad".to_owned()), 16_640),
        ] {
            let mut out = Vec::new();
            put(&Cell::of_literal(&literal), oid, &mut out).unwrap();
            assert_eq!(parameter(&out, 1, oid), Ok(literal));
        }
    }

    #[test]
    fn texts_are_read_where_their_type_decides_what_they_mean() {
        assert_eq!(parameter(b"TRUE", 0, oids::BOOL), Ok(Literal::Bool(true)));
        assert_eq!(parameter(b"7", 0, oids::INT8), Ok(Literal::Integer(7)));
        assert_eq!(parameter(b"x", 0, oids::INT8).unwrap_err().state, "22P02");
        let list = Literal::List(vec!["p".into(), "f".into()]);
        assert_eq!(parameter(b"{\"p\", \"f\"}", 0, 1009), Ok(list));
        assert_eq!(parameter(b"2020-01-01", 0, oids::DATE), Ok("2020-01-01".into()));
    }

    #[test]
    fn a_type_that_is_not_known_has_no_binary_form() {
        for oid in [869, 3904, 1041] {
            let refused = parameter(&[0, 255], 1, oid).unwrap_err();
            assert_eq!(refused.state, "42704");
            assert!(refused.message.contains(&oid.to_string()), "{}", refused.message);
            // Its text may be one of another type.
            assert_eq!(parameter(b"1.2.3.4", 0, oid), Ok(Literal::Text("1.2.3.4".to_owned())));
        }
    }
}
