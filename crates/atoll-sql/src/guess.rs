//! Inference of the type of a CSV column from its fields.
//!
//! `GUESS-1`: no field loses information in the chosen type. A sign, a leading zero or a digit that
//! the value would not show again makes the column text, or decimal instead of double precision. A
//! different spelling of the same value (`1.50`, `1e3`, `TRUE`, a `T` between date and time) is no
//! loss.

use atoll::DataType;

use crate::csv::cut_to_micros;
use crate::records::Text;
use crate::text;

/// Possible types of a field, a bit for each, the preferred one first.
const INTEGER: u8 = 1;
const FLOAT: u8 = 1 << 1;
const DECIMAL: u8 = 1 << 2;
const BOOL: u8 = 1 << 3;
const DATE: u8 = 1 << 4;
const TIMESTAMP: u8 = 1 << 5;

/// Most digits of a decimal.
const DECIMAL_PRECISION_MAX: usize = 38;
/// Every number of so many significant digits comes back from a double unless it is near the ends
/// of its range.
const FLOAT_DIGITS: usize = 15;
/// Exponents for which this holds.
const FLOAT_EXPONENT: i64 = 290;

/// Infinite and undefined numbers as programs write them; other spellings may be codes.
const WORDS: [&str; 10] =
    ["NaN", "nan", "inf", "-inf", "Inf", "-Inf", "infinity", "-infinity", "Infinity", "-Infinity"];

/// The possible types of a column, from its fields so far.
#[derive(Debug, Clone)]
pub(crate) struct Guess {
    /// Types that all of them may have; `None` before the first.
    could: Option<u8>,
    /// One of them is a number with digits.
    has_digits: bool,
    /// Most digits before and behind the point.
    whole: usize,
    fraction: usize,
}

impl Guess {
    pub(crate) fn new() -> Self {
        Self { could: None, has_digits: false, whole: 0, fraction: 0 }
    }

    /// Takes a field that is not NULL into account; `truncate` tells whether timestamps may lose
    /// digits finer than a microsecond.
    pub(crate) fn add(&mut self, field: Text<'_>, truncate: bool) {
        let could = self.could.unwrap_or(u8::MAX);
        self.could = Some(if could == 0 { 0 } else { could & self.types(field.text, truncate) });
    }

    /// Whether all fields so far were NULL.
    pub(crate) fn is_blank(&self) -> bool {
        self.could.is_none()
    }

    /// The type that holds all fields.
    pub(crate) fn data_type(&self) -> DataType {
        let could = self.could.unwrap_or(0);
        let is = |bit| could & bit != 0;
        let precision = self.whole + self.fraction;
        if is(INTEGER) {
            DataType::Int64
        } else if is(FLOAT) && self.has_digits {
            DataType::Float64
        } else if is(DECIMAL) && (1..=DECIMAL_PRECISION_MAX).contains(&precision) {
            DataType::Decimal { precision: precision as u8, scale: self.fraction as u8 }
        } else if is(BOOL) {
            DataType::Bool
        } else if is(DATE) {
            DataType::Date
        } else if is(TIMESTAMP) {
            DataType::Timestamp
        } else {
            DataType::Text
        }
    }

    /// The possible types of a field.
    fn types(&mut self, field: &str, truncate: bool) -> u8 {
        let is_bare = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_graphic);
        let bytes = field.as_bytes();
        let bare = is_bare(bytes.first()) && is_bare(bytes.last());
        let field = if bare { field } else { field.trim() };
        let Some(first) = field.as_bytes().first() else { return 0 };
        match first {
            b'0'..=b'9' | b'.' | b'-' => {
                let number = short_number(field.as_bytes());
                let number = number.or_else(|| {
                    let number = Number::of(field)?;
                    Some((number.whole, number.fraction, number.types()))
                });
                let Some((whole, fraction, types)) = number else {
                    return moment(field, truncate) | word(field);
                };
                self.has_digits = true;
                self.whole = self.whole.max(whole);
                self.fraction = self.fraction.max(fraction);
                types
            }
            _ if field.eq_ignore_ascii_case("true") || field.eq_ignore_ascii_case("false") => BOOL,
            _ => word(field),
        }
    }
}

fn word(field: &str) -> u8 {
    if WORDS.contains(&field) { FLOAT } else { 0 }
}

/// Whether a field is a date or a timestamp in UTC, in the unambiguous format.
fn moment(field: &str, truncate: bool) -> u8 {
    let Some((day, rest)) = field.split_at_checked(10) else { return 0 };
    // With these, all other characters of a date can only be digits.
    if day.as_bytes()[4] != b'-' || day.as_bytes()[7] != b'-' {
        return 0;
    }
    if rest.is_empty() {
        return if text::parse(day, DataType::Date).is_ok() { DATE | TIMESTAMP } else { 0 };
    }
    let zone = rest.find(|c: char| !matches!(c, '0'..='9' | ':' | '.' | ' ' | 'T' | 't'));
    let zone = zone.map_or("", |at| &rest[at..]);
    let is_utc = matches!(zone, "" | "Z" | "z" | "+00" | "+0000" | "+00:00" | "-00" | "-00:00");
    let cut = cut_to_micros(field);
    let given = if truncate { &cut } else { field };
    if is_utc && text::parse(given, DataType::Timestamp).is_ok() { TIMESTAMP } else { 0 }
}

/// A fast path for most numbers, in one pass: digits before and behind the point, and types. `None`
/// for numbers that [`Number`] must examine, and for text that is no number.
fn short_number(bytes: &[u8]) -> Option<(usize, usize, u8)> {
    let negative = bytes.first() == Some(&b'-');
    let digits = if negative { &bytes[1..] } else { bytes };
    if digits.len() > FLOAT_DIGITS {
        return None;
    }
    let mut point = None;
    let mut is_zero = true;
    let mut at = 0;
    while let Some(byte) = digits.get(at) {
        match byte {
            b'0' => {}
            b'1'..=b'9' => is_zero = false,
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
        at += 1;
    }
    let whole = point.unwrap_or(digits.len());
    let is_below_one = whole == 1 && digits[0] == b'0';
    if whole == 0 || !is_below_one && digits[0] == b'0' || negative && is_zero {
        return None;
    }
    let has_point = point.is_some();
    let fraction = digits.len() - whole - usize::from(has_point);
    let types = if has_point { FLOAT | DECIMAL } else { INTEGER | FLOAT | DECIMAL };
    Some((whole - usize::from(is_below_one), fraction, types))
}

/// A number as it is written.
#[derive(Debug)]
struct Number<'a> {
    text: &'a str,
    /// Digits before and behind the point, without zeros at their beginning.
    whole: usize,
    fraction: usize,
    /// Digits from the first to the last that is not 0 before or any behind the point.
    significant: usize,
    has_point: bool,
    exponent: Option<i64>,
}

impl<'a> Number<'a> {
    /// Reads a number that no code is written like: without a plus, without zeros before it.
    fn of(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (behind, has_point) = (fraction.unwrap_or(""), fraction.is_some());
        let code = whole.len() > 1 && whole.starts_with('0');
        if code || !digits(whole) || !digits(behind) || whole.len() + behind.len() == 0 {
            return None;
        }
        let exponent = match exponent {
            None => None,
            Some(written) => {
                let signed = written.starts_with(['-', '+']);
                // 12E5 is written like a part's number, 1.2E5 and 1e+05 are not.
                let code = !has_point && !signed && unsigned.contains('E');
                let unsigned = written.trim_start_matches(['-', '+']);
                if code || unsigned.is_empty() || !digits(unsigned) {
                    return None;
                }
                Some(written.parse().ok()?)
            }
        };
        let zeros = |text: &str| text.bytes().take_while(|byte| *byte == b'0').count();
        let lead = zeros(whole);
        let significant = match whole.len() - lead {
            0 => behind.len() - zeros(behind),
            before => before + behind.len(),
        };
        let (whole, fraction) = (whole.len() - lead, behind.len());
        Some(Self { text, whole, fraction, significant, has_point, exponent })
    }

    /// The types that hold all of it.
    fn types(&self) -> u8 {
        let is_whole = !self.has_point && self.exponent.is_none();
        // The sign of a zero is kept by a float alone.
        let is_exact = self.significant > 0 || !self.text.starts_with('-');
        if is_whole {
            // A whole number too long for bigint is rather a code.
            return match self.text.parse::<i64>() {
                Err(_) => 0,
                Ok(_) if !is_exact => FLOAT,
                Ok(_) if self.is_float() => INTEGER | FLOAT | DECIMAL,
                Ok(_) => INTEGER | DECIMAL,
            };
        }
        let decimal = if self.exponent.is_none() && is_exact { DECIMAL } else { 0 };
        decimal | if self.is_float() { FLOAT } else { 0 }
    }

    /// Whether a double shows all digits again.
    fn is_float(&self) -> bool {
        let exponent = self.exponent.unwrap_or(0);
        if self.significant == 0 {
            return true;
        }
        let digits = (self.whole + self.fraction) as i64;
        let near = exponent.saturating_abs().saturating_add(digits) <= FLOAT_EXPONENT;
        if self.significant <= FLOAT_DIGITS && near {
            return true;
        }
        let Ok(value) = self.text.parse::<f64>() else { return false };
        if !value.is_finite() {
            return false;
        }
        let shown = format!("{value:.*e}", self.significant - 1);
        let shown = shown.split('e').next().unwrap_or_default().bytes();
        let mantissa = self.text.split(['e', 'E']).next().unwrap_or_default().bytes();
        let written = mantissa.filter(u8::is_ascii_digit).skip_while(|byte| *byte == b'0');
        written.eq(shown.filter(u8::is_ascii_digit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> DataType {
        guess(fields, false)
    }

    fn guess(fields: &[&str], truncate: bool) -> DataType {
        let mut guess = Guess::new();
        for text in fields {
            guess.add(Text { text, quoted: false }, truncate);
        }
        guess.data_type()
    }

    fn decimal(precision: u8, scale: u8) -> DataType {
        DataType::Decimal { precision, scale }
    }

    #[test]
    fn a_column_has_the_first_type_that_all_its_fields_are() {
        assert_eq!(of(&["1", "-2", "0"]), DataType::Int64);
        assert_eq!(of(&["1", "2.5", "1e-05", "-1E+10", "1e21", "6.0E5"]), DataType::Float64);
        assert_eq!(of(&["true", "FALSE"]), DataType::Bool);
        assert_eq!(of(&["2013-01-01", "2013-01-02"]), DataType::Date);
        assert_eq!(of(&["2013-01-01", "2013-01-01T10:00:00Z"]), DataType::Timestamp);
        assert_eq!(of(&["1", "x", "2"]), DataType::Text);
        assert_eq!(of(&["2013-01-01", "5"]), DataType::Text);
        assert_eq!(of(&["true", "1"]), DataType::Text);
        assert_eq!(of(&[]), DataType::Text);
        assert_eq!(of(&["1", ""]), DataType::Text);
    }

    #[test]
    fn codes_that_look_like_numbers_stay_text() {
        for codes in [
            &["007"][..],
            &["7", "007"],
            &["-007"],
            &["00.5"],
            &["99999999999999999999"],
            &["9223372036854775808"],
            &["0.5", "99999999999999999999"],
            &["t", "f"],
            &["+4915112345678"],
            &["+1.5"],
            &["1", "+2"],
            &["12E5"],
            &["1e", "1"],
            &["-"],
            &["."],
            &["1.2.3"],
            &["1_000"],
            &["0x10"],
        ] {
            assert_eq!(of(codes), DataType::Text, "{codes:?}");
        }
    }

    #[test]
    fn short_numbers_are_seen_as_all_others() {
        for text in [
            "0",
            "-0",
            "7",
            "-7",
            "10",
            "007",
            "-07",
            "0.5",
            "-0.5",
            "0.0",
            "-0.0",
            "00.5",
            ".5",
            "5.",
            "-",
            ".",
            "",
            "1.2.3",
            "1e5",
            "123456789012345",
            "-12345678.901234",
            "0.000001",
        ] {
            let long = Number::of(text).map(|one| (one.whole, one.fraction, one.types()));
            let short = short_number(text.as_bytes());
            assert!(short.is_none() || short == long, "{text}: {short:?} and {long:?}");
        }
        assert!(short_number(b"-12.50").is_some() && short_number(b"0.5").is_some());
    }

    #[test]
    fn words_are_numbers_only_beside_numbers_and_as_programs_write_them() {
        assert_eq!(of(&["1.5", "NaN", "inf", "-Inf"]), DataType::Float64);
        for codes in [
            &["NAN", "INF", "Nan"][..],
            &["NaN"],
            &["nan", "inf"],
            &["1", "NAN"],
            &["1", "Nan"],
            &["1", "-nan"],
            &["1", "+inf"],
            &["-true"],
            &["+false", "true"],
        ] {
            assert_eq!(of(codes), DataType::Text, "{codes:?}");
        }
    }

    #[test]
    fn no_digit_of_a_number_is_lost() {
        assert_eq!(of(&["9007199254740993", "0.5"]), decimal(17, 1));
        assert_eq!(of(&["0.5", "-9007199254740993"]), decimal(17, 1));
        assert_eq!(of(&["9007199254740992", "0.5"]), DataType::Float64);
        assert_eq!(of(&["0.1234567890123456789"]), decimal(19, 19));
        assert_eq!(of(&["9007199254740993", "1e-05"]), DataType::Text);
        assert_eq!(of(&["9007199254740993", "NaN"]), DataType::Text);
        assert_eq!(of(&["0.12345678901234567890123456789012345678901"]), DataType::Text);
        // As other programs write a double in full.
        assert_eq!(of(&["0.10000000000000001"]), DataType::Float64);
        assert_eq!(of(&["1.234567890123456690e+00"]), DataType::Float64);
        assert_eq!(of(&["1.7976931348623157e+308", "5e-324"]), DataType::Float64);
        assert_eq!(of(&["1e400"]), DataType::Text);
        assert_eq!(of(&["1e-400"]), DataType::Text);
        // The sign of a zero.
        assert_eq!(of(&["-0", "1"]), DataType::Float64);
        assert_eq!(of(&["-0.0"]), DataType::Float64);
        assert_eq!(of(&["-0", "9007199254740993"]), DataType::Text);
    }

    #[test]
    fn moments_are_exact_and_in_utc() {
        assert_eq!(of(&["2013-01-01 10:00:00.123456+00:00"]), DataType::Timestamp);
        for texts in ["2013-01-01 10:00:00+02", "2013-02-30", "2013-1-1", "20130101T10", "today"] {
            assert_eq!(of(&[texts]), DataType::Text, "{texts}");
        }
        let fine = ["2013-01-01 10:00:00.123456789"];
        assert_eq!(of(&fine), DataType::Text);
        assert_eq!(guess(&fine, true), DataType::Timestamp);
    }
}
