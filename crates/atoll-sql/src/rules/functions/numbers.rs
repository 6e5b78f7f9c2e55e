//! Functions of numbers: those of numerics are exact, those of doubles the C library's with
//! PostgreSQL's errors.

use arrow_buffer::i256;
use datafusion::functions::math;
use datafusion::logical_expr::{Operator, binary_expr};

use super::exact::{self, Decimal};
use super::pattern::int;
use super::{Function, Gives, Kind, Nulls, Overload, Run, builtin, refused, strict};
use crate::error::SqlError;
use crate::literal::Literal;

use Kind::{Float64, Int16, Int32, Int64, Numeric};

type Row = fn(&[Literal]) -> Result<Literal, SqlError>;

/// A function of numerics with a numeric as result.
const fn numeric(takes: &'static [Kind], scale: fn(&[u8]) -> u8, run: Row) -> Overload {
    let run = Run::Rows(run);
    Overload { takes, rest: None, gives: Gives::Scale(scale), nulls: Nulls::Pass, run }
}

const fn float(run: Row) -> Overload {
    strict(&[Float64], Float64, run)
}

/// As many digits behind the point as the first argument has.
fn first(scales: &[u8]) -> u8 {
    scales.first().copied().unwrap_or(0)
}

fn whole(_: &[u8]) -> u8 {
    0
}

fn most(scales: &[u8]) -> u8 {
    scales.iter().copied().max().unwrap_or(0)
}

const POWER: &[Overload] = &[
    strict(&[Float64, Float64], Float64, |v| power(double(v, 0), double(v, 1))),
    numeric(&[Numeric, Numeric], exact::scale, |v| {
        exact::power(decimal(v, 0), decimal(v, 1)).map(literal)
    }),
];
const CEIL: &[Overload] =
    &[builtin(&[Numeric], Numeric, math::ceil), builtin(&[Float64], Float64, math::ceil)];
const LOG_10: &[Overload] = &[
    float(|v| logarithm(double(v, 0), f64::log10)),
    numeric(&[Numeric], exact::scale, |v| exact::logarithm((10, 0), decimal(v, 0)).map(literal)),
    numeric(&[Numeric, Numeric], exact::scale, |v| {
        exact::logarithm(decimal(v, 0), decimal(v, 1)).map(literal)
    }),
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "mod",
        overloads: &[
            modulo(&[Int16, Int16], Gives::Kind(Int16)),
            modulo(&[Int32, Int32], Gives::Kind(Int32)),
            modulo(&[Int64, Int64], Gives::Kind(Int64)),
            modulo(&[Numeric, Numeric], Gives::Scale(most)),
        ],
    },
    Function {
        name: "div",
        overloads: &[numeric(&[Numeric, Numeric], whole, |v| {
            let (a, b, _) = aligned(decimal(v, 0), decimal(v, 1));
            match a.checked_div(b).and_then(i256::to_i128) {
                Some(quotient) => Ok(Literal::Decimal(quotient, 0)),
                None => Err(refused("22012", "division by zero")),
            }
        })],
    },
    Function {
        name: "sign",
        overloads: &[
            numeric(&[Numeric], whole, |v| Ok(Literal::Decimal(decimal(v, 0).0.signum(), 0))),
            float(|v| {
                let value = double(v, 0);
                let sign = if value == 0.0 { 0.0 } else { value.signum() };
                Ok(Literal::Float(if value.is_nan() { 0.0 } else { sign }))
            }),
        ],
    },
    Function { name: "power", overloads: POWER },
    Function { name: "pow", overloads: POWER },
    Function {
        name: "exp",
        overloads: &[
            numeric(&[Numeric], exact::scale, |v| exact::exp(decimal(v, 0)).map(literal)),
            float(|v| {
                let value = double(v, 0);
                checked(value.exp(), value.is_infinite())
            }),
        ],
    },
    Function {
        name: "sqrt",
        overloads: &[
            numeric(&[Numeric], exact::scale, |v| exact::sqrt(decimal(v, 0)).map(literal)),
            float(|v| match double(v, 0) {
                ..0.0 => Err(refused("2201F", "cannot take square root of a negative number")),
                value => Ok(Literal::Float(value.sqrt())),
            }),
        ],
    },
    Function {
        name: "ln",
        overloads: &[
            numeric(&[Numeric], exact::scale, |v| exact::ln(decimal(v, 0)).map(literal)),
            float(|v| logarithm(double(v, 0), f64::ln)),
        ],
    },
    Function { name: "log", overloads: LOG_10 },
    Function { name: "log10", overloads: LOG_10 },
    Function { name: "asin", overloads: &[float(|v| of_unit(double(v, 0), f64::asin))] },
    Function { name: "acos", overloads: &[float(|v| of_unit(double(v, 0), f64::acos))] },
    Function {
        name: "round",
        overloads: &[
            builtin(&[Numeric], Numeric, math::round),
            builtin(&[Numeric, Int32], Numeric, math::round),
            float(|v| Ok(Literal::Float(double(v, 0).round_ties_even()))),
        ],
    },
    Function {
        name: "trunc",
        overloads: &[
            builtin(&[Numeric], Numeric, math::trunc),
            numeric(&[Numeric, Int32], first, |v| {
                let (digits, scale) = decimal(v, 0);
                let dropped = i64::from(scale) - int(v, 1);
                let unit = u32::try_from(dropped).map_or(Some(1), |d| 10i128.checked_pow(d));
                Ok(Literal::Decimal(unit.map_or(0, |unit| digits / unit * unit), scale))
            }),
            builtin(&[Float64], Float64, math::trunc),
        ],
    },
    Function { name: "ceil", overloads: CEIL },
    Function { name: "ceiling", overloads: CEIL },
    Function {
        name: "floor",
        overloads: &[
            builtin(&[Numeric], Numeric, math::floor),
            builtin(&[Float64], Float64, math::floor),
        ],
    },
    Function {
        name: "gcd",
        overloads: &[
            strict(&[Int32, Int32], Int32, |v| divisor(v, "integer", i32::MAX.into())),
            strict(&[Int64, Int64], Int64, |v| divisor(v, "bigint", i64::MAX.into())),
            numeric(&[Numeric, Numeric], most, |v| divisor(v, "numeric", i128::MAX)),
        ],
    },
    Function {
        name: "lcm",
        overloads: &[
            strict(&[Int32, Int32], Int32, |v| multiple(v, "integer", i32::MAX.into())),
            strict(&[Int64, Int64], Int64, |v| multiple(v, "bigint", i64::MAX.into())),
            numeric(&[Numeric, Numeric], most, |v| multiple(v, "numeric", i128::MAX)),
        ],
    },
    Function {
        name: "factorial",
        overloads: &[numeric(&[Int64], whole, |v| {
            let number = int(v, 0);
            if number < 0 {
                return Err(refused("22003", "factorial of a negative number is undefined"));
            }
            let product = (1..=i128::from(number)).try_fold(1i128, i128::checked_mul);
            let product = product.ok_or_else(|| refused("22003", "value overflows numeric format"));
            product.map(|product| Literal::Decimal(product, 0))
        })],
    },
    Function {
        name: "scale",
        overloads: &[strict(&[Numeric], Int32, |v| Ok(Literal::Integer(decimal(v, 0).1.into())))],
    },
    Function {
        name: "min_scale",
        overloads: &[strict(&[Numeric], Int32, |v| {
            let (mut digits, mut scale) = decimal(v, 0);
            while scale > 0 && digits % 10 == 0 {
                (digits, scale) = (digits / 10, scale - 1);
            }
            Ok(Literal::Integer(scale.into()))
        })],
    },
    // The digits behind the point are those of the type, not of the value.
    Function { name: "trim_scale", overloads: &[numeric(&[Numeric], first, |v| Ok(v[0].clone()))] },
    Function {
        name: "width_bucket",
        overloads: &[
            strict(&[Numeric, Numeric, Numeric, Int32], Int32, bucket_of_numeric),
            strict(&[Float64, Float64, Float64, Int32], Int32, bucket_of_float),
        ],
    },
];

/// The remainder: the operator, which the caller gives its types.
const fn modulo(takes: &'static [Kind], gives: Gives) -> Overload {
    let run = Run::Rewrite(|mut values| {
        let (right, left) = (values.pop(), values.pop());
        match left.zip(right) {
            Some((left, right)) => Ok(binary_expr(left.expr, Operator::Modulo, right.expr)),
            None => datafusion::common::internal_err!("mod has two arguments"),
        }
    });
    Overload { takes, rest: None, gives, nulls: Nulls::Pass, run }
}

fn double(values: &[Literal], at: usize) -> f64 {
    values.get(at).map_or(f64::NAN, Literal::float)
}

fn decimal(values: &[Literal], at: usize) -> Decimal {
    match values.get(at) {
        Some(Literal::Decimal(digits, scale)) => (*digits, *scale),
        Some(Literal::Integer(value)) => (*value, 0),
        _ => (0, 0),
    }
}

fn literal((digits, scale): Decimal) -> Literal {
    Literal::Decimal(digits, scale)
}

/// The digits of two decimals with as many of them behind the point.
fn aligned(a: Decimal, b: Decimal) -> (i256, i256, u8) {
    let scale = a.1.max(b.1);
    let wide = |(digits, own): Decimal| {
        let factor = i256::from_i128(10i128.pow((scale - own).into()));
        i256::from_i128(digits).wrapping_mul(factor)
    };
    (wide(a), wide(b), scale)
}

/// A result of doubles that is neither too large nor too near to zero.
fn checked(result: f64, is_special: bool) -> Result<Literal, SqlError> {
    match result {
        _ if is_special => Ok(Literal::Float(result)),
        _ if result.is_infinite() => Err(refused("22003", "value out of range: overflow")),
        0.0 => Err(refused("22003", "value out of range: underflow")),
        result => Ok(Literal::Float(result)),
    }
}

fn power(base: f64, exponent: f64) -> Result<Literal, SqlError> {
    if base == 0.0 && exponent < 0.0 {
        return Err(refused("2201F", "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(refused("2201F", message));
    }
    let is_special = base == 0.0 || !base.is_finite() || !exponent.is_finite();
    checked(base.powf(exponent), is_special)
}

fn logarithm(value: f64, log: fn(f64) -> f64) -> Result<Literal, SqlError> {
    if value == 0.0 {
        return Err(refused("2201E", "cannot take logarithm of zero"));
    }
    if value < 0.0 {
        return Err(refused("2201E", "cannot take logarithm of a negative number"));
    }
    Ok(Literal::Float(log(value)))
}

fn of_unit(value: f64, function: fn(f64) -> f64) -> Result<Literal, SqlError> {
    if value.abs() > 1.0 {
        return Err(refused("22003", "input is out of range"));
    }
    Ok(Literal::Float(function(value)))
}

fn common(a: i256, b: i256) -> i256 {
    let (mut a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    while b != i256::ZERO {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a
}

fn bounded(value: i256, scale: u8, name: &str, max: i128) -> Result<Literal, SqlError> {
    match value.to_i128().filter(|value| *value <= max) {
        Some(digits) if name == "numeric" => Ok(Literal::Decimal(digits, scale)),
        Some(value) => Ok(Literal::Integer(value)),
        None => Err(refused("22003", format!("{name} out of range"))),
    }
}

fn divisor(values: &[Literal], name: &str, max: i128) -> Result<Literal, SqlError> {
    let (a, b, scale) = aligned(decimal(values, 0), decimal(values, 1));
    bounded(common(a, b), scale, name, max)
}

fn multiple(values: &[Literal], name: &str, max: i128) -> Result<Literal, SqlError> {
    let (a, b, scale) = aligned(decimal(values, 0), decimal(values, 1));
    let common = common(a, b);
    if a == i256::ZERO || b == i256::ZERO {
        return bounded(i256::ZERO, scale, name, max);
    }
    let product = a.wrapping_div(common).checked_mul(b).map(i256::wrapping_abs);
    bounded(product.unwrap_or(i256::MAX), scale, name, max)
}

fn no_bucket(message: &str) -> SqlError {
    refused("2201G", message)
}

fn buckets(values: &[Literal]) -> Result<i64, SqlError> {
    match int(values, 3) {
        count @ 1.. => Ok(count),
        _ => Err(no_bucket("count must be greater than zero")),
    }
}

/// The bucket, of which the one behind the last may be no integer.
fn bucket(number: i64) -> Result<Literal, SqlError> {
    match i32::try_from(number) {
        Ok(number) => Ok(Literal::Integer(number.into())),
        Err(_) => Err(refused("22003", "integer out of range")),
    }
}

fn bucket_of_numeric(values: &[Literal]) -> Result<Literal, SqlError> {
    let count = buckets(values)?;
    let [value, low, high] = [0, 1, 2].map(|at| decimal(values, at));
    let scale = value.1.max(low.1).max(high.1);
    let wide = |number| aligned(number, (0, scale)).0;
    let (mut value, mut low, mut high) = (wide(value), wide(low), wide(high));
    if low == high {
        return Err(no_bucket("lower bound cannot equal upper bound"));
    }
    if low > high {
        [value, low, high] = [value, low, high].map(i256::wrapping_neg);
    }
    if value < low {
        return bucket(0);
    }
    if value >= high {
        return bucket(count + 1);
    }
    let (above, width) = (value.wrapping_sub(low), high.wrapping_sub(low));
    let scaled = above.checked_mul(i256::from_i128(count.into()));
    let number = scaled.unwrap_or(i256::MAX).wrapping_div(width);
    bucket(number.to_i128().and_then(|number| i64::try_from(number).ok()).unwrap_or(count) + 1)
}

fn bucket_of_float(values: &[Literal]) -> Result<Literal, SqlError> {
    let count = buckets(values)?;
    let [mut value, mut low, mut high] = [0, 1, 2].map(|at| double(values, at));
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(no_bucket("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(no_bucket("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(no_bucket("lower bound cannot equal upper bound"));
    }
    if low > high {
        [value, low, high] = [-value, -low, -high];
    }
    if value < low {
        return bucket(0);
    }
    if value >= high {
        return bucket(count + 1);
    }
    let number = (count as f64 * ((value - low) / (high - low))) as i64;
    bucket(number.min(count - 1) + 1)
}
