//! The binary forms of values, as PostgreSQL sends them (its `…send` functions).

use atoll::{DataType, Interval};
use atoll_sql::Literal;

use super::cell::Cell;
use super::oids;

/// Days and microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Writes a value that is not NULL as one of a type.
///
/// # Errors
/// One clause: the type cannot hold the value.
pub(crate) fn put(cell: &Cell<'_>, oid: u32, out: &mut Vec<u8>) -> Result<(), String> {
    let outside = |what: &str| format!("the {what} is out of range for its binary form");
    match (cell, oid) {
        (Cell::Null, _) => {}
        (Cell::Bool(value), oids::BOOL) => out.push((*value).into()),
        (Cell::Int(value), oids::INT8) => out.extend_from_slice(&value.to_be_bytes()),
        (Cell::Int(value), oids::INT4) => {
            let value = i32::try_from(*value).map_err(|_| outside("integer"))?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Cell::Int(value), oids::INT2) => {
            let value = i16::try_from(*value).map_err(|_| outside("integer"))?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Cell::Int(value), oid) if oids::is_number_of_system(oid) => {
            let value = u32::try_from(*value).map_err(|_| outside("number"))?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Cell::Float(value), oids::FLOAT8) => out.extend_from_slice(&value.to_be_bytes()),
        (Cell::Real(value), oids::FLOAT4) => out.extend_from_slice(&value.to_be_bytes()),
        (Cell::Decimal(digits, scale), oids::NUMERIC) => numeric(*digits, *scale, out),
        (Cell::Int(value), oids::NUMERIC) => numeric((*value).into(), 0, out),
        (Cell::Bytes(bytes), oids::BYTEA) => out.extend_from_slice(bytes),
        (Cell::Uuid(bytes), oids::UUID | oids::BYTEA) => out.extend_from_slice(bytes),
        (Cell::Date(days), oids::DATE) => {
            let days = days.checked_sub(EPOCH_DAYS).ok_or_else(|| outside("date"))?;
            out.extend_from_slice(&days.to_be_bytes());
        }
        (Cell::Timestamp(micros), oids::TIMESTAMP) | (Cell::Instant(micros), oids::TIMESTAMPTZ) => {
            let micros = micros.checked_sub(EPOCH_MICROS).ok_or_else(|| outside("timestamp"))?;
            out.extend_from_slice(&micros.to_be_bytes());
        }
        (Cell::Time(micros), oids::TIME) => out.extend_from_slice(&micros.to_be_bytes()),
        (Cell::Interval(value), oids::INTERVAL) => {
            let Interval { months, days, nanos } = value;
            out.extend_from_slice(&(nanos / 1000).to_be_bytes());
            out.extend_from_slice(&days.to_be_bytes());
            out.extend_from_slice(&months.to_be_bytes());
        }
        (Cell::Text(text), oids::JSONB) => {
            out.push(1);
            out.extend_from_slice(text.as_bytes());
        }
        (Cell::Text(text), oid) if oids::is_text(oid) => out.extend_from_slice(text.as_bytes()),
        (Cell::Other(Literal::List(items)), oid) => match oids::element_of(oid) {
            Some(element) => list(items, element, out)?,
            None => super::text::put(cell, out),
        },
        (Cell::Other(literal), oid) if !matches!(literal, Literal::List(_)) => {
            let cell = Cell::of_literal(literal);
            // A literal of this kind has a form of its own.
            return put(&cell, oid, out);
        }
        (cell, oid) if oids::is_text(oid) => super::text::put(cell, out),
        (cell, oid) => return converted(cell, oid, out),
    }
    Ok(())
}

/// A value of another type than its column was described with.
fn converted(cell: &Cell<'_>, oid: u32, out: &mut Vec<u8>) -> Result<(), String> {
    let wanted = match (oid, cell) {
        (oids::NUMERIC, _) => DataType::Decimal { precision: 38, scale: 10 },
        (oid, _) => oids::declared(oid).ok_or("the value has no such binary form")?,
    };
    let value = cell.literal().as_type(wanted)?;
    let converted = Cell::of_value(&value, wanted);
    // It is of the kind of the type now.
    if std::mem::discriminant(&converted) == std::mem::discriminant(cell) {
        return Err("the value has no such binary form".to_owned());
    }
    put(&converted, oid, out)
}

/// A number by its groups of four decimal digits.
fn numeric(digits: i128, scale: u8, out: &mut Vec<u8>) {
    const NEGATIVE: u16 = 0x4000;
    let scale = u32::from(scale);
    let mut rest = digits.unsigned_abs();
    // Groups from the last, which is filled up with zeros behind the point.
    let missing = (4 - scale % 4) % 4;
    let mut groups = [0u16; 12];
    let mut count = 0;
    let mut take = |group: u128| {
        groups[count] = group as u16;
        count += 1;
    };
    if missing > 0 {
        let first = 10u128.pow(4 - missing);
        take(rest % first * 10u128.pow(missing));
        rest /= first;
    }
    while rest > 0 {
        take(rest % 10_000);
        rest /= 10_000;
    }
    let behind_point = scale.div_ceil(4) as usize;
    // The weight of the first group that is no zero, and the groups without zeros at the end.
    let significant = &groups[..count];
    let zeros = significant.iter().take_while(|group| **group == 0).count();
    let mut used = &significant[zeros.min(count)..];
    while let [rest @ .., 0] = used {
        used = rest;
    }
    let weight = match used.len() {
        0 => 0,
        length => (zeros + length) as i16 - behind_point as i16 - 1,
    };
    let sign = if digits < 0 { NEGATIVE } else { 0 };
    out.extend_from_slice(&(used.len() as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    used.iter().rev().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

/// An array of one dimension.
fn list(items: &[Literal], element: u32, out: &mut Vec<u8>) -> Result<(), String> {
    let has_null = items.contains(&Literal::Null);
    let dimensions = i32::from(!items.is_empty());
    out.extend_from_slice(&dimensions.to_be_bytes());
    out.extend_from_slice(&i32::from(has_null).to_be_bytes());
    out.extend_from_slice(&element.to_be_bytes());
    if items.is_empty() {
        return Ok(());
    }
    let length = i32::try_from(items.len()).map_err(|_| "the array is too long")?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    for item in items {
        let start = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if *item == Literal::Null {
            continue;
        }
        put(&Cell::of_literal(item), element, out)?;
        let length = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn groups(digits: i128, scale: u8) -> (Vec<u16>, i16, u16, u16) {
        let mut out = Vec::new();
        numeric(digits, scale, &mut out);
        let words: Vec<u16> =
            out.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        (words[4..].to_vec(), words[1] as i16, words[2], words[3])
    }

    #[test]
    fn numbers_have_the_groups_of_postgresql() {
        assert_eq!(groups(0, 0), (vec![], 0, 0, 0));
        assert_eq!(groups(0, 3), (vec![], 0, 0, 3));
        assert_eq!(groups(1, 0), (vec![1], 0, 0, 0));
        assert_eq!(groups(-10_000, 0), (vec![1], 1, 0x4000, 0));
        assert_eq!(groups(12_345_678, 2), (vec![12, 3456, 7800], 1, 0, 2));
        assert_eq!(groups(1, 5), (vec![1000], -2, 0, 5));
        assert_eq!(groups(5, 1), (vec![5000], -1, 0, 1));
        assert_eq!(groups(100, 2), (vec![1], 0, 0, 2));
    }

    #[test]
    fn moments_count_from_2000_and_arrays_name_their_elements() {
        let bytes = |cell: &Cell<'_>, oid| {
            let mut out = Vec::new();
            put(cell, oid, &mut out).map(|()| out)
        };
        assert_eq!(bytes(&Cell::Date(10_958), oids::DATE), Ok(vec![0, 0, 0, 1]));
        assert_eq!(
            bytes(&Cell::Timestamp(946_684_800_000_001), oids::TIMESTAMP),
            Ok(vec![0, 0, 0, 0, 0, 0, 0, 1])
        );
        assert!(bytes(&Cell::Timestamp(i64::MIN), oids::TIMESTAMP).is_err());
        let list = Cell::Other(Literal::List(vec![7.into(), Literal::Null]));
        let wanted = [
            &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1][..],
            &[0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255],
        ];
        assert_eq!(bytes(&list, 1007), Ok(wanted.concat()));
        // A column that was described otherwise.
        assert_eq!(bytes(&Cell::Int(7), oids::FLOAT8), Ok(7f64.to_be_bytes().to_vec()));
        assert_eq!(bytes(&Cell::Int(7), oids::TEXT), Ok(b"7".to_vec()));
        assert!(bytes(&Cell::Int(70_000), oids::INT2).is_err());
    }
}
