//! Roots, powers and logarithms of decimals, in fixed-point arithmetic of 36 digits behind the
//! point: what a double would give is right to 15 digits only, and a numeric has up to 38.

use arrow_buffer::i256;

use super::refused;
use crate::error::SqlError;

/// Digits behind the point of the arithmetic.
const DIGITS: u8 = 36;
/// The least of a result.
pub(crate) const RESULT_DIGITS: u8 = 16;
const LN_2: i128 = 693_147_180_559_945_309_417_232_121_458_176_568;
const LN_10: i128 = 2_302_585_092_994_045_684_017_991_454_684_364_208;
/// No result has a larger logarithm: 38 digits.
const EXPONENT_MAX: i128 = 90;

/// A decimal: digits, and how many of them stand behind the point.
pub(super) type Decimal = (i128, u8);

fn out_of_range() -> SqlError {
    refused("22003", "the result has more digits than numeric holds; it is out of range")
}

fn wide(value: i128) -> i256 {
    i256::from_i128(value)
}

fn power_of_ten(exponent: u8) -> i256 {
    let mut power = i256::ONE;
    for _ in 0..exponent {
        power = power.wrapping_mul(wide(10));
    }
    power
}

fn one() -> i256 {
    power_of_ten(DIGITS)
}

/// The product of two numbers of the arithmetic, of which none is above 10,000.
fn times(a: i256, b: i256) -> i256 {
    a.wrapping_mul(b).wrapping_div(one())
}

/// The quotient of two such numbers.
fn over(a: i256, b: i256) -> i256 {
    a.wrapping_mul(one()).wrapping_div(b)
}

/// A number as a decimal, rounded half away from zero.
fn rounded(value: i256, from: u8, to: u8) -> Result<Decimal, SqlError> {
    let digits = match from.checked_sub(to) {
        None | Some(0) => value.checked_mul(power_of_ten(to - from)),
        Some(more) => {
            let (factor, rest) = (power_of_ten(more), value.wrapping_rem(power_of_ten(more)));
            let up = rest.wrapping_abs().wrapping_mul(wide(2)) >= factor;
            let away = if value < i256::ZERO { i256::MINUS_ONE } else { i256::ONE };
            let quotient = value.wrapping_div(factor);
            Some(if up { quotient.wrapping_add(away) } else { quotient })
        }
    };
    let digits = digits.and_then(i256::to_i128).ok_or_else(out_of_range)?;
    Ok((digits, to))
}

/// The natural logarithm of a decimal above zero, as a number of the arithmetic.
fn log(value: Decimal) -> Result<i256, SqlError> {
    let (digits, scale) = value;
    if digits == 0 {
        return Err(refused("2201E", "cannot take logarithm of zero"));
    }
    if digits < 0 {
        return Err(refused("2201E", "cannot take logarithm of a negative number"));
    }
    // digits = first * 10^exponent, and first is from 1 to 10.
    let exponent = digits.ilog10() as u8;
    let mut first = match DIGITS.checked_sub(exponent) {
        Some(more) => wide(digits).wrapping_mul(power_of_ten(more)),
        None => wide(digits).wrapping_div(power_of_ten(exponent - DIGITS)),
    };
    let mut halvings = 0i128;
    while first > one().wrapping_add(one().wrapping_div(wide(2))) {
        first = first.wrapping_div(wide(2));
        halvings += 1;
    }
    // ln(first) = 2 artanh(z)
    let z = over(first.wrapping_sub(one()), first.wrapping_add(one()));
    let square = times(z, z);
    let (mut sum, mut power, mut count) = (i256::ZERO, z, 1i128);
    while power != i256::ZERO {
        sum = sum.wrapping_add(power.wrapping_div(wide(count)));
        power = times(power, square);
        count += 2;
    }
    let tens = i128::from(exponent) - i128::from(scale);
    let of_tens = wide(LN_10).wrapping_mul(wide(tens));
    let of_halvings = wide(LN_2).wrapping_mul(wide(halvings));
    Ok(sum.wrapping_mul(wide(2)).wrapping_add(of_tens).wrapping_add(of_halvings))
}

/// e to the power of a number of the arithmetic, as a decimal.
fn raised(exponent: i256, digits: u8) -> Result<Decimal, SqlError> {
    let limit = one().wrapping_mul(wide(EXPONENT_MAX));
    if exponent > limit {
        return Err(out_of_range());
    }
    if exponent < limit.wrapping_neg() {
        return Ok((0, digits));
    }
    let mut doublings = exponent.wrapping_div(wide(LN_2));
    let mut rest = exponent.wrapping_sub(doublings.wrapping_mul(wide(LN_2)));
    if rest < i256::ZERO {
        rest = rest.wrapping_add(wide(LN_2));
        doublings = doublings.wrapping_sub(i256::ONE);
    }
    let (mut sum, mut term, mut count) = (i256::ZERO, one(), 1i128);
    while term != i256::ZERO {
        sum = sum.wrapping_add(term);
        term = times(term, rest).wrapping_div(wide(count));
        count += 1;
    }
    let doublings = doublings.to_i128().unwrap_or_default();
    for _ in 0..doublings.unsigned_abs() {
        sum = match doublings > 0 {
            true => sum.checked_mul(wide(2)).ok_or_else(out_of_range)?,
            false => sum.wrapping_div(wide(2)),
        };
    }
    rounded(sum, DIGITS, digits)
}

/// Digits behind the point of a result over operands with these.
pub(super) fn scale(scales: &[u8]) -> u8 {
    scales.iter().copied().fold(RESULT_DIGITS, u8::max)
}

/// The natural logarithm.
pub(super) fn ln(value: Decimal) -> Result<Decimal, SqlError> {
    rounded(log(value)?, DIGITS, scale(&[value.1]))
}

/// The logarithm to a base.
pub(super) fn logarithm(base: Decimal, value: Decimal) -> Result<Decimal, SqlError> {
    let (base_log, value_log) = (log(base)?, log(value)?);
    if base_log == i256::ZERO {
        return Err(refused("22012", "division by zero"));
    }
    rounded(over(value_log, base_log), DIGITS, scale(&[base.1, value.1]))
}

/// e to the power of a decimal.
pub(super) fn exp(value: Decimal) -> Result<Decimal, SqlError> {
    let (digits, scale_of_value) = value;
    let result = scale(&[scale_of_value]);
    let whole = digits / 10i128.pow(scale_of_value.into());
    if whole.unsigned_abs() > EXPONENT_MAX.unsigned_abs() {
        return if digits > 0 { Err(out_of_range()) } else { Ok((0, result)) };
    }
    let exponent = match DIGITS.checked_sub(scale_of_value) {
        Some(more) => wide(digits).wrapping_mul(power_of_ten(more)),
        None => wide(digits).wrapping_div(power_of_ten(scale_of_value - DIGITS)),
    };
    raised(exponent, result)
}

/// The square root.
pub(super) fn sqrt(value: Decimal) -> Result<Decimal, SqlError> {
    let (digits, scale_of_value) = value;
    if digits < 0 {
        return Err(refused("2201F", "cannot take square root of a negative number"));
    }
    let result = scale(&[scale_of_value]);
    // An even number of digits behind the point, half of which the root has.
    let more = (2 * result).saturating_sub(scale_of_value).min(DIGITS);
    let more = more - (more + scale_of_value) % 2;
    let square = wide(digits).wrapping_mul(power_of_ten(more));
    let root = integer_root(square);
    rounded(root, (more + scale_of_value) / 2, result)
}

/// The whole number nearest to the root of one that is not negative.
fn integer_root(square: i256) -> i256 {
    let mut root = wide((square.to_string().parse::<f64>().unwrap_or(0.0)).sqrt() as i128);
    while root != i256::ZERO {
        let next = root.wrapping_add(square.wrapping_div(root)).wrapping_div(wide(2));
        let change = next.wrapping_sub(root);
        root = next;
        if change.wrapping_abs() <= i256::ONE {
            break;
        }
    }
    while root.wrapping_mul(root) > square {
        root = root.wrapping_sub(i256::ONE);
    }
    let up = square.wrapping_sub(root.wrapping_mul(root)) > root;
    if up { root.wrapping_add(i256::ONE) } else { root }
}

/// The quotient of two whole numbers, of which the first has digits behind the point, with as many
/// of them as are wanted.
///
/// # Errors
/// It has too many digits.
pub(crate) fn quotient(above: i256, below: i256, scale: u8, wanted: u8) -> Result<i256, SqlError> {
    let (above, below) = match wanted.checked_sub(scale) {
        Some(more) => (above.checked_mul(power_of_ten(more)), Some(below)),
        None => (Some(above), below.checked_mul(power_of_ten(scale - wanted))),
    };
    let (above, below) = above.zip(below).ok_or_else(out_of_range)?;
    let (quotient, rest) = (above.wrapping_div(below), above.wrapping_rem(below));
    let up = rest.wrapping_abs().wrapping_mul(wide(2)) >= below.wrapping_abs();
    Ok(if up { quotient.wrapping_add(i256::ONE) } else { quotient })
}

/// The root of a number with twice the digits behind the point that a result has.
///
/// # Errors
/// It has too many digits.
pub(crate) fn root(square: i256, digits: u8) -> Result<i128, SqlError> {
    rounded(integer_root(square), digits / 2, RESULT_DIGITS).map(|(digits, _)| digits)
}

/// A decimal to the power of another.
pub(super) fn power(base: Decimal, exponent: Decimal) -> Result<Decimal, SqlError> {
    let result = scale(&[base.1, exponent.1]);
    let unit = 10i128.pow(exponent.1.into());
    let is_whole = exponent.0 % unit == 0;
    if base.0 == 0 {
        return match exponent.0.signum() {
            -1 => Err(refused("2201F", "zero raised to a negative power is undefined")),
            0 => rounded(i256::ONE, 0, result),
            _ => Ok((0, result)),
        };
    }
    if base.0 < 0 && !is_whole {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(refused("2201F", message));
    }
    let whole = exponent.0 / unit;
    if is_whole
        && let Ok(times) = u32::try_from(whole)
        && let Some(exact) = repeated(base, times)
    {
        return rounded(exact.0, exact.1, result);
    }
    let log = log((base.0.abs(), base.1))?;
    // Digits of the exponent before the arithmetic's point times a logarithm of at most 90.
    let product = log.checked_mul(wide(exponent.0)).ok_or_else(out_of_range)?;
    let (digits, _) = raised(product.wrapping_div(wide(unit)), result)?;
    let is_odd = is_whole && whole % 2 != 0;
    Ok((if base.0 < 0 && is_odd { -digits } else { digits }, result))
}

/// A power by multiplication, where its digits are not too many.
fn repeated(base: Decimal, times: u32) -> Option<(i256, u8)> {
    const TIMES_MAX: u32 = 256;
    if times > TIMES_MAX {
        return None;
    }
    let (mut made, mut scale) = (i256::ONE, 0u8);
    for _ in 0..times {
        made = made.checked_mul(wide(base.0))?;
        scale = scale.checked_add(base.1).filter(|scale| *scale <= 2 * DIGITS)?;
    }
    Some((made, scale))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The digits are those of PostgreSQL, which has as many as are asked for.
    #[test]
    fn results_are_right_to_their_last_digit() {
        assert_eq!(exp((1, 0)).unwrap(), (27_182_818_284_590_452, 16));
        assert_eq!(exp((405, 1)).unwrap(), (3_880_846_962_436_203_240_231_721_875_726_995, 16));
        assert_eq!(exp((-10, 0)).unwrap(), (453_999_297_625, 16));
        assert_eq!(ln((2, 0)).unwrap(), (6_931_471_805_599_453, 16));
        assert_eq!(ln((1, 30)).unwrap().0, -69_077_552_789_821_370_520_539_743_640_531);
        assert_eq!(logarithm((2, 0), (64, 0)).unwrap(), (60_000_000_000_000_000, 16));
        assert_eq!(sqrt((2, 0)).unwrap(), (14_142_135_623_730_950, 16));
        assert_eq!(sqrt((625, 2)).unwrap(), (25_000_000_000_000_000, 16));
        assert_eq!(sqrt((0, 2)).unwrap(), (0, 16));
        assert_eq!(power((1255, 2), (2, 0)).unwrap(), (1_575_025_000_000_000_000, 16));
        assert_eq!(power((-2, 0), (3, 0)).unwrap(), (-80_000_000_000_000_000, 16));
        assert_eq!(power((-2, 0), (-3, 0)).unwrap(), (-1_250_000_000_000_000, 16));
        assert_eq!(power((2, 0), (5, 1)).unwrap(), (14_142_135_623_730_950, 16));
        assert!(power((10, 0), (38, 0)).is_err());
    }
}
