//! The text forms of values, as PostgreSQL writes them.

use std::io::Write;

use atoll_sql::{
    function_name, show_bytes, show_date, show_decimal, show_double, show_instant, show_interval,
    show_real, show_time, show_timestamp, show_uuid,
};

use super::cell::Cell;

/// Writes a value that is not NULL.
pub(crate) fn put(cell: &Cell<'_>, out: &mut Vec<u8>) {
    let text = match cell {
        Cell::Null => return,
        Cell::Bool(value) => {
            out.push(if *value { b't' } else { b'f' });
            return;
        }
        Cell::Int(value) => {
            // Writing to memory does not fail.
            let _ = write!(out, "{value}");
            return;
        }
        Cell::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        Cell::Float(value) => show_double(*value),
        Cell::Real(value) => show_real(*value),
        Cell::Decimal(digits, scale) => show_decimal(*digits, *scale),
        Cell::Bytes(bytes) => show_bytes(bytes),
        Cell::Uuid(bytes) => show_uuid(bytes),
        Cell::Date(days) => show_date(*days),
        Cell::Timestamp(micros) => show_timestamp(*micros),
        Cell::Instant(micros) => show_instant(*micros),
        Cell::Time(micros) => show_time(*micros),
        Cell::Interval(value) => show_interval(*value),
        Cell::Other(literal) => array(literal),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Writes the number of a function as its name, as far as it has one.
pub(crate) fn put_function(cell: &Cell<'_>, out: &mut Vec<u8>) {
    let number = match cell {
        Cell::Int(number) => u32::try_from(*number).ok(),
        _ => None,
    };
    match number {
        Some(0) => out.push(b'-'),
        Some(number) if let Some(name) = function_name(number) => {
            out.extend_from_slice(name.as_bytes());
        }
        _ => put(cell, out),
    }
}

/// Writes a vector: its elements stand behind each other.
pub(crate) fn put_vector(cell: &Cell<'_>, out: &mut Vec<u8>) {
    let Cell::Other(atoll_sql::Literal::List(items)) = cell else { return put(cell, out) };
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(item.text().unwrap_or_default().as_bytes());
    }
}

/// The text of an array: as a cast writes it, but with truth values as one letter.
fn array(literal: &atoll_sql::Literal) -> String {
    use atoll_sql::Literal;
    match literal {
        Literal::List(items) if items.iter().any(|item| matches!(item, Literal::Bool(_))) => {
            let items = items.iter().map(|item| match item {
                Literal::Bool(true) => Literal::Text("t".to_owned()),
                Literal::Bool(false) => Literal::Text("f".to_owned()),
                other => other.clone(),
            });
            Literal::List(items.collect()).text().unwrap_or_default()
        }
        other => other.text().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use atoll_sql::Literal;

    use super::*;

    fn shown(cell: &Cell<'_>) -> String {
        let mut out = Vec::new();
        put(cell, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_written_as_postgresql_writes_them() {
        for (cell, wanted) in [
            (Cell::Bool(true), "t"),
            (Cell::Float(f64::INFINITY), "Infinity"),
            (Cell::Float(1e20), "1e+20"),
            (Cell::Real(1e-7), "1e-07"),
            (Cell::Decimal(-5, 2), "-0.05"),
            (Cell::Bytes(&[0, 255]), "\\x00ff"),
            (Cell::Date(-719_163), "0001-12-31 BC"),
            (Cell::Other(Literal::List(vec![true.into(), Literal::Null])), "{t,NULL}"),
            (Cell::Other(Literal::List(vec!["a b".into(), "NULL".into()])), "{\"a b\",\"NULL\"}"),
        ] {
            assert_eq!(shown(&cell), wanted);
        }
    }
}
