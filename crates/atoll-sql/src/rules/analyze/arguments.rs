//! The arguments of aggregates and window functions.

use arrow_schema::DataType as ArrowType;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

use super::scope::Scope;
use crate::error::SqlErrorKind;
use crate::rules::{enums, functions, plan_error};

impl Scope<'_> {
    /// Checks the arguments of an aggregate for enums; an array is made of their labels.
    fn check_enums(&self, name: &str, arguments: &mut [Expr]) -> Result<()> {
        if enums::takes_any(name) {
            return Ok(());
        }
        let typed = arguments.iter().map(|one| self.typed(one.clone()));
        let typed = typed.collect::<Result<Vec<_>>>()?;
        if name != "array_agg" {
            return enums::check_arguments(name, typed.iter());
        }
        for (argument, value) in arguments.iter_mut().zip(typed) {
            if enums::labels_of(&value).is_some() {
                *argument = value.into_type(&ArrowType::Utf8View)?.expr;
            }
        }
        Ok(())
    }

    /// Whole numbers that are written as arguments of an aggregate have the type of PostgreSQL.
    ///
    /// # Errors
    /// A text, an enum, or a value of another type that the function does not take.
    pub(super) fn arguments(&self, name: &str, mut arguments: Vec<Expr>) -> Result<Vec<Expr>> {
        self.check_enums(name, &mut arguments)?;
        let of_values = matches!(name, "first_value" | "last_value" | "lag" | "lead");
        if !of_values && !matches!(name, "sum" | "avg" | "min" | "max") {
            return Ok(arguments);
        }
        if of_values {
            // The others are distances and counts.
            if let Some(value) = arguments.first_mut() {
                *value = self.typed(std::mem::take(value))?.narrowed()?.expr;
            }
            return Ok(arguments);
        }
        let narrowed = |argument| {
            let value = self.typed(argument)?.narrowed()?;
            let has_no_order = matches!(value.arrow, ArrowType::Boolean)
                || value.arrow.is_binary()
                || matches!(value.arrow, ArrowType::FixedSizeBinary(_));
            if value.json.is_some() || matches!(name, "min" | "max") && has_no_order {
                return Err(functions::takes_none(name, &[value]));
            }
            if matches!(name, "sum" | "avg") && value.arrow.is_string() {
                let message = format!("{name} takes numbers, not text; cast the text");
                return Err(plan_error(SqlErrorKind::Type, message));
            }
            Ok(value.expr)
        };
        arguments.into_iter().map(narrowed).collect()
    }
}
