//! `coalesce`, `greatest`, `least` and `nullif` while a statement is planned: they return the type
//! that they will have once their quoted literals have the type of the other arguments.

use std::sync::Arc;

use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, internal_err};
use datafusion::functions::core;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::merged_type;

/// The functions of this module.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    [core::coalesce(), core::greatest(), core::least(), core::nullif()]
        .map(|builtin| {
            let signature = Signature::user_defined(Volatility::Immutable);
            ScalarUDF::from(Merging { builtin, signature })
        })
        .to_vec()
}

/// DataFusion's function, which runs on the arguments once they have one type.
pub(crate) fn builtin(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.inner().downcast_ref::<Merging>() {
        Some(merging) => Arc::clone(&merging.builtin),
        None => function,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Merging {
    builtin: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Merging {
    fn name(&self) -> &str {
        self.builtin.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    // The planner would refuse what it cannot convert itself.
    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        let is_text = |arrow: &&ArrowType| arrow.is_string();
        let typed = arguments.iter().filter(|arrow| !arrow.is_null());
        Ok(match typed.clone().find(|arrow| !is_text(arrow)) {
            None => typed.clone().next().cloned().unwrap_or(ArrowType::Null),
            Some(first) => {
                let others = typed.filter(|arrow| !is_text(arrow));
                merged_type::merged(others).unwrap_or_else(|| first.clone())
            }
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is replaced before it could be called", self.name())
    }
}
