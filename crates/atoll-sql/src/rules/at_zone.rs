//! `moment AT TIME ZONE zone`, or `timezone(zone, moment)`: the instant of a local time in a zone,
//! and the local time at an instant.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::DataType as ArrowType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::plan_error;
use super::temporal::{TIMESTAMP, instant, out_of_range};
use super::typed::Typed;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::query_error::external;
use crate::text::quote;
use crate::zone::Zone;

/// The name of the function.
pub(crate) const NAME: &str = "timezone";

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(AtZone { signature: Signature::any(2, Volatility::Immutable) })
}

/// A call with operands of the types that it takes. What is no timestamp is an instant.
///
/// # Errors
/// A zone that is no text, and a moment that is none.
pub(crate) fn call(zone: Typed, moment: Typed) -> Result<Expr> {
    let zone = zone.into_type(&ArrowType::Utf8View)?;
    let moment = match moment.arrow == TIMESTAMP {
        true => moment,
        false => moment.into_type(&instant())?,
    };
    Ok(function().call(vec![zone.expr, moment.expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtZone {
    signature: Signature,
}

fn find(name: &str) -> Result<Zone> {
    Zone::specified(name).ok_or_else(|| {
        let message = format!("time zone {} is not known", quote(name));
        external(SqlError::new(SqlErrorKind::Type, message).with_cause(Cause::InvalidParameter))
    })
}

impl ScalarUDFImpl for AtZone {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(match arguments {
            [_, moment] if *moment == TIMESTAMP => instant(),
            [_, _] => TIMESTAMP,
            _ => {
                let message = "timezone takes a zone and a moment";
                return Err(plan_error(SqlErrorKind::Type, message));
            }
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let names = args.args[0].to_array(args.number_rows)?;
        let names = names.as_string_view();
        let moments = args.args[1].to_array(args.number_rows)?;
        let to_instant = *moments.data_type() == TIMESTAMP;
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        let mut last: Option<(&str, Zone)> = None;
        let mut moved: Vec<Option<i64>> = Vec::with_capacity(moments.len());
        for pair in names.iter().zip(moments.iter()) {
            let (Some(name), Some(micros)) = pair else {
                moved.push(None);
                continue;
            };
            let zone = match last {
                Some((known, zone)) if known == name => zone,
                _ => find(name)?,
            };
            last = Some((name, zone));
            let micros = if to_instant { zone.instant(micros) } else { zone.local(micros) };
            moved.push(Some(micros.ok_or_else(|| out_of_range("the timestamp"))?));
        }
        let moved = PrimitiveArray::<TimestampMicrosecondType>::from(moved);
        let zone = to_instant.then(|| atoll::UTC.into());
        Ok(ColumnarValue::Array(Arc::new(moved.with_timezone_opt::<Arc<str>>(zone))))
    }
}
