//! `to_char` of numbers: the number is written into a pattern position by position, as
//! `NUM_processor` of PostgreSQL's `formatting.c` does it.

use super::refused;
use crate::error::SqlError;
use crate::literal::Literal;
use crate::show;

/// Digits of a double that count.
const FLOAT_DIGITS: usize = 15;
const ROMAN_WIDTH: usize = 15;

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Nine,
    Zero,
    Point,
    Comma,
    Sign,
    Minus,
    Plus,
    Signed,
    Brackets,
    Roman {
        is_upper: bool,
    },
    Ordinal {
        is_upper: bool,
    },
    Shift,
    Exponent,
    /// What has no output in a locale without a sign of money, and `FM`.
    Nothing,
    Money,
    Letter(char),
}

/// What the parts of a pattern say together.
#[derive(Default)]
struct Shape {
    before: usize,
    behind: usize,
    shifted: usize,
    has_point: bool,
    is_filled: bool,
    has_zero: bool,
    zero_start: usize,
    zero_end: usize,
    /// Digits before an `S`, if there is one before the point.
    sign_at: Option<usize>,
    sign_behind: bool,
    has_minus: bool,
    has_plus: bool,
    has_brackets: bool,
    roman: Option<bool>,
    has_exponent: bool,
    has_shift: bool,
}

/// The parts of a pattern, the longest first where one begins like another.
const WORDS: &[(&str, Part)] = &[
    ("EEEE", Part::Exponent),
    ("FM", Part::Nothing),
    ("MI", Part::Minus),
    ("PL", Part::Plus),
    ("PR", Part::Brackets),
    ("SG", Part::Signed),
    ("9", Part::Nine),
    ("0", Part::Zero),
    (".", Part::Point),
    ("D", Part::Point),
    (",", Part::Comma),
    ("G", Part::Comma),
    ("S", Part::Sign),
    ("L", Part::Money),
    ("V", Part::Shift),
];

fn parts(pattern: &str) -> Result<(Vec<Part>, Shape), SqlError> {
    let wrong = |message: &str| Err(refused("42601", message));
    let (mut parts, mut shape) = (Vec::new(), Shape::default());
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        if letter == '"' {
            let inner = &rest[1..];
            let end = inner.find('"').unwrap_or(inner.len());
            parts.extend(inner[..end].chars().map(Part::Letter));
            rest = inner.get(end + 1..).unwrap_or("");
            continue;
        }
        let begins =
            |word: &str| rest.get(..word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word));
        let two = rest.get(..2).unwrap_or("");
        let (length, part) = if begins("RN") {
            (2, Part::Roman { is_upper: two.starts_with('R') })
        } else if begins("TH") {
            (2, Part::Ordinal { is_upper: two.starts_with('T') })
        } else {
            match WORDS.iter().find(|(word, _)| begins(word)) {
                Some((word, part)) => (word.len(), part.clone()),
                None => (letter.len_utf8(), Part::Letter(letter)),
            }
        };
        let is_fill = begins("FM");
        rest = &rest[length..];
        match &part {
            Part::Nine | Part::Zero if shape.has_brackets => {
                return wrong("\"9\" must be ahead of \"PR\"");
            }
            Part::Nine if shape.has_shift => shape.shifted += 1,
            Part::Nine if shape.has_point => shape.behind += 1,
            Part::Nine => shape.before += 1,
            Part::Zero => {
                if !shape.has_zero && !shape.has_point {
                    (shape.has_zero, shape.zero_start) = (true, shape.before + 1);
                }
                *(if shape.has_point { &mut shape.behind } else { &mut shape.before }) += 1;
                shape.zero_end = shape.before + shape.behind;
            }
            Part::Point if shape.has_point => return wrong("multiple decimal points"),
            Part::Point if shape.has_shift => {
                return wrong("cannot use \"V\" and decimal point together");
            }
            Part::Point => shape.has_point = true,
            Part::Sign if shape.sign_at.is_some() || shape.sign_behind => {
                return wrong("cannot use \"S\" twice");
            }
            Part::Sign if shape.has_minus || shape.has_plus || shape.has_brackets => {
                return wrong("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together");
            }
            Part::Minus | Part::Plus | Part::Signed | Part::Brackets
                if shape.sign_at.is_some() || shape.sign_behind =>
            {
                return wrong(&format!("cannot use \"S\" and \"{two}\" together"));
            }
            Part::Sign if shape.has_point => shape.sign_behind = true,
            Part::Sign => shape.sign_at = Some(shape.before),
            Part::Minus => shape.has_minus = true,
            Part::Plus => shape.has_plus = true,
            Part::Signed => (shape.has_minus, shape.has_plus) = (true, true),
            Part::Brackets => shape.has_brackets = true,
            Part::Roman { is_upper } => shape.roman = Some(*is_upper),
            Part::Shift if shape.has_point => {
                return wrong("cannot use \"V\" and decimal point together");
            }
            Part::Shift => shape.has_shift = true,
            Part::Exponent => shape.has_exponent = true,
            Part::Nothing if is_fill => shape.is_filled = true,
            _ => {}
        }
        parts.push(part);
    }
    Ok((parts, shape))
}

/// A number in the form of a pattern.
///
/// # Errors
/// A pattern with parts that do not go together.
pub(super) fn to_char(value: &Literal, pattern: &str) -> Result<String, SqlError> {
    let (parts, mut shape) = parts(pattern)?;
    if let Some(is_upper) = shape.roman {
        return Ok(roman(value, is_upper, shape.is_filled));
    }
    if shape.has_exponent {
        return Ok(scientific(value, shape.behind));
    }
    let (is_negative, mut digits) = digits(value, &mut shape);
    shape.before += shape.shifted;
    let whole = digits.find('.').unwrap_or(digits.len());
    let spaces = shape.before.saturating_sub(whole);
    if whole > shape.before {
        digits = format!("{}.{}", "#".repeat(shape.before), "#".repeat(shape.behind));
    }
    let mut writer = Writer::new(&shape, digits.into_bytes(), spaces, is_negative);
    for part in &parts {
        writer.part(part);
    }
    Ok(writer.made)
}

/// The sign of a number, and its digits rounded to those behind the point.
fn digits(value: &Literal, shape: &mut Shape) -> (bool, String) {
    let text = match value {
        Literal::Float(_) | Literal::Real(_) => {
            let mut float = value.float();
            float *= 10f64.powi(i32::try_from(shape.shifted).unwrap_or(0));
            let whole = format!("{:.0}", float.abs()).len();
            shape.behind = shape.behind.min(FLOAT_DIGITS.saturating_sub(whole));
            format!("{:.*}", shape.behind, float)
        }
        number => {
            let (digits, scale) = match number {
                Literal::Decimal(digits, scale) => (*digits, *scale),
                Literal::Integer(digits) => (*digits, 0),
                _ => (0, 0),
            };
            let wanted = u8::try_from(shape.behind).unwrap_or(u8::MAX);
            // `V` moves the point.
            let moved = u8::try_from(shape.shifted).unwrap_or(u8::MAX);
            let (digits, scale) = match scale.checked_sub(moved) {
                Some(scale) => (digits, scale),
                None => (digits.saturating_mul(10i128.saturating_pow((moved - scale).into())), 0),
            };
            if wanted >= scale {
                let shown = show::decimal(digits, scale);
                let point = if scale == 0 && wanted > 0 { "." } else { "" };
                format!("{shown}{point}{}", "0".repeat((wanted - scale).into()))
            } else {
                let unit = 10i128.pow((scale - wanted).into());
                let (quotient, rest) = (digits / unit, digits % unit);
                let up = rest.unsigned_abs() * 2 >= unit.unsigned_abs();
                show::decimal(if up { quotient + digits.signum() } else { quotient }, wanted)
            }
        }
    };
    match text.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, text),
    }
}

fn scientific(value: &Literal, behind: usize) -> String {
    let float = match value {
        Literal::Float(_) | Literal::Real(_) => value.float(),
        other => other.show().parse().unwrap_or(f64::NAN),
    };
    let shown = format!("{float:.behind$e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let space = if float < 0.0 { "" } else { " " };
    format!("{space}{mantissa}e{sign}{:02}", exponent.abs())
}

fn roman(value: &Literal, is_upper: bool, is_filled: bool) -> String {
    const NUMERALS: &[(i64, &str)] = &[
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let (_, shown) = digits(value, &mut Shape::default());
    let mut number: i64 = shown.parse().unwrap_or(0);
    let is_negative = value.float() < 0.0;
    if !(1..=3999).contains(&number) || is_negative {
        return "#".repeat(ROMAN_WIDTH);
    }
    let mut made = String::new();
    for (worth, numeral) in NUMERALS {
        while number >= *worth {
            made.push_str(numeral);
            number -= worth;
        }
    }
    let made = if is_upper { made } else { made.to_lowercase() };
    if is_filled { made } else { format!("{made:>ROMAN_WIDTH$}") }
}

/// Where in a pattern the writing is.
struct Writer<'a> {
    shape: &'a Shape,
    /// The digits, those behind a point among them.
    number: Vec<u8>,
    at: usize,
    /// Positions before the first digit, the positions so far, and all of them.
    spaces: usize,
    position: usize,
    count: isize,
    is_negative: bool,
    is_signed: bool,
    /// `S` stands behind the digits.
    sign_behind: bool,
    has_brackets: bool,
    /// The last digit that `FM` keeps.
    last: Option<usize>,
    has_digits: bool,
    made: String,
    /// A position behind the last digit ends a text of C, and so does it here.
    is_ended: bool,
}

impl<'a> Writer<'a> {
    fn new(shape: &'a Shape, number: Vec<u8>, spaces: usize, is_negative: bool) -> Self {
        let has_sign = shape.sign_at.is_some() || shape.sign_behind;
        let has_words = shape.has_minus || shape.has_plus;
        let is_signed = match has_words {
            true => !shape.has_plus || shape.has_minus,
            false => !is_negative && shape.is_filled && !has_sign,
        };
        let last = (shape.is_filled && shape.has_point).then(|| {
            let point = number.iter().position(|digit| *digit == b'.').unwrap_or(number.len());
            let behind = number.iter().skip(point + 1);
            let behind: Vec<u8> = behind.copied().collect();
            let last = behind.iter().rposition(|digit| *digit != b'0');
            let last = last.map_or(point, |at| point + 1 + at);
            match shape.zero_end > spaces {
                true => last.max((number.len().saturating_sub(1)).min(shape.zero_end - spaces)),
                false => last,
            }
        });
        let last = last.filter(|last| *last < number.len());
        let mut count = (shape.behind + shape.before).cast_signed() - 1;
        if !is_signed && spaces == 0 {
            count += 1;
        }
        Self {
            shape,
            number,
            at: 0,
            spaces,
            position: 0,
            count,
            is_negative,
            is_signed,
            sign_behind: shape.sign_behind || shape.sign_at == Some(shape.before),
            has_brackets: shape.has_brackets && (is_negative || !shape.is_filled),
            last,
            has_digits: false,
            made: String::new(),
            is_ended: false,
        }
    }

    fn part(&mut self, part: &Part) {
        let fill = self.shape.is_filled;
        if self.is_ended {
            return;
        }
        match part {
            Part::Nine | Part::Zero | Part::Point => self.digit(*part == Part::Zero),
            Part::Comma if self.has_digits => self.made.push(','),
            Part::Comma | Part::Money if fill => {}
            Part::Comma | Part::Money => self.made.push(' '),
            Part::Minus if self.is_negative => self.made.push('-'),
            Part::Plus if !self.is_negative => self.made.push('+'),
            Part::Minus | Part::Plus if fill => {}
            Part::Minus | Part::Plus => self.made.push(' '),
            Part::Signed => self.made.push(if self.is_negative { '-' } else { '+' }),
            Part::Ordinal { is_upper } => {
                let is_odd = self.number.first() == Some(&b'#');
                if !is_odd && !self.is_negative && !self.shape.has_point {
                    let suffix = ordinal(&String::from_utf8_lossy(&self.number));
                    match is_upper {
                        true => self.made.push_str(&suffix.to_uppercase()),
                        false => self.made.push_str(suffix),
                    }
                }
            }
            Part::Letter(letter) => self.made.push(*letter),
            Part::Sign
            | Part::Brackets
            | Part::Roman { .. }
            | Part::Shift
            | Part::Exponent
            | Part::Nothing => {}
        }
    }

    fn current(&self) -> Option<u8> {
        self.number.get(self.at).copied()
    }

    /// Whether a zero before the point is left out.
    fn is_left_out(&self) -> bool {
        !self.shape.has_zero
            && self.at == 0
            && self.current() == Some(b'0')
            && self.shape.behind != 0
    }

    fn last_is_point(&self) -> bool {
        self.last.is_some_and(|last| self.number[last] == b'.')
    }

    fn sign(&mut self) {
        let zero_start = self.shape.zero_start.saturating_sub(1);
        let is_at_digits =
            self.position >= self.spaces || self.shape.has_zero && zero_start == self.position;
        if self.is_signed || !is_at_digits || self.is_left_out() && !self.last_is_point() {
            return;
        }
        let has_sign = self.shape.sign_at.is_some() || self.shape.sign_behind;
        if has_sign {
            if !self.sign_behind {
                self.made.push(if self.is_negative { '-' } else { '+' });
                self.is_signed = true;
            }
            return;
        }
        self.is_signed = true;
        match (self.has_brackets, self.is_negative) {
            (true, true) => self.made.push('<'),
            (true, false) => self.made.push(' '),
            (false, true) => self.made.push('-'),
            (false, false) if !self.shape.is_filled => self.made.push(' '),
            (false, false) => {}
        }
    }

    fn digit(&mut self, is_zero: bool) {
        self.sign();
        let fill = self.shape.is_filled;
        let zero_start = self.shape.zero_start.saturating_sub(1);
        let is_before = self.position < self.spaces;
        if is_before && (!self.shape.has_zero || zero_start > self.position) {
            if !fill {
                self.made.push(' ');
            }
        } else if is_before {
            self.made.push('0');
            self.has_digits = true;
        } else {
            match self.current() {
                Some(b'.') => {
                    if !self.last_is_point() || fill {
                        self.made.push('.');
                    }
                }
                Some(_) if self.last.is_some_and(|last| self.at > last) && !is_zero => {}
                Some(_) if self.is_left_out() => {
                    if !fill {
                        self.made.push(' ');
                    } else if self.last_is_point() {
                        self.made.push('0');
                    }
                }
                Some(digit) => {
                    self.made.push(char::from(digit));
                    self.has_digits = true;
                }
                None => self.is_ended = true,
            }
            self.at = (self.at + 1).min(self.number.len());
        }
        let mut end = self.count + isize::from(self.spaces > 0) + isize::from(self.shape.has_point);
        if self.last == Some(self.at) {
            end = self.position.cast_signed();
        }
        if self.position.cast_signed() + 1 == end {
            let has_sign = self.shape.sign_at.is_some() || self.shape.sign_behind;
            if self.is_signed && self.has_brackets {
                self.made.push(if self.is_negative { '>' } else { ' ' });
            } else if has_sign && self.sign_behind {
                self.made.push(if self.is_negative { '-' } else { '+' });
            }
        }
        self.position += 1;
    }
}

/// The ending of an ordinal number.
pub(super) fn ordinal(digits: &str) -> &'static str {
    let mut last = digits.bytes().rev();
    let (ones, tens) = (last.next(), last.next());
    match (tens, ones) {
        (Some(b'1'), _) => "th",
        (_, Some(b'1')) => "st",
        (_, Some(b'2')) => "nd",
        (_, Some(b'3')) => "rd",
        _ => "th",
    }
}
