//! Casts to domains: values are checked by the domain's rules.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, FieldRef};
use atoll::{DataType, Value};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::declared::domain::Domain;
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::query_error::external;
use crate::rules::lengths;
use crate::short::plan::Node;
use crate::short::run::{Run, Stop};
use crate::short::scalar::{Began, Surroundings};
use crate::short::value;
use crate::types;

/// A domain that a statement casts to, with its conditions bound over a row of one value.
pub(crate) struct Rule {
    pub(crate) domain: Domain,
    pub(crate) data_type: DataType,
    pub(crate) conditions: Node,
    /// The name by which the statement calls it.
    pub(crate) name: String,
}

/// The function that checks values of a domain.
pub(crate) fn function(rule: Rule) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Checked { rule: Arc::new(rule), signature })
}

struct Checked {
    rule: Arc<Rule>,
    signature: Signature,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checked").field(&self.rule.domain.name).finish()
    }
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.rule.domain == other.rule.domain && self.rule.data_type == other.rule.data_type
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rule.domain.hash(state);
    }
}

impl Rule {
    fn check(&self, value: &Value, around: &Surroundings) -> Result<(), SqlError> {
        let interrupt = Interrupt::default();
        let row = std::slice::from_ref(value);
        let given: [&[Value]; 2] = [&[], row];
        let mut run = Run {
            transaction: None,
            around,
            given: &given,
            interrupt: &interrupt,
            rows_left: u64::MAX,
            has_prefetched: false,
        };
        let found = self.conditions.run(&mut run, &[]).map_err(|stop| match stop {
            Stop::Error(error) => error,
            _ => SqlError::new(SqlErrorKind::Query, "the rule of a domain has no value"),
        })?;
        let mut values = found.iter().flatten();
        match values.position(|value| *value == Value::Bool(false)) {
            Some(at) => Err(self.domain.violated(at)),
            None => Ok(()),
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        &self.rule.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(types::to_arrow(self.rule.data_type))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let plain = || Field::new("", types::to_arrow(self.rule.data_type), true);
        let field = match self.rule.data_type {
            character @ DataType::Char(_) => lengths::wanted(character).unwrap_or_else(plain),
            _ => plain(),
        };
        Ok(Arc::new(field.with_name(self.name()).with_nullable(!self.rule.domain.not_null)))
    }

    fn display_name(&self, arguments: &[datafusion::logical_expr::Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {})", arguments[0], self.rule.domain.name))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let around = Surroundings::of_nothing(Began::default());
        let values = args.args[0].to_array(args.number_rows)?;
        for at in 0..values.len() {
            let value = value::of_array(values.as_ref(), at).unwrap_or(Value::Null);
            self.rule.check(&value, &around).map_err(external)?;
        }
        Ok(args.args[0].clone())
    }
}
