//! The types that the text of a statement gives its parameters and the columns of its result, for
//! clients that ask before it runs. Where the text says nothing, the plan tells.
//!
//! - A parameter under a cast has the type of the cast, as in PostgreSQL, and so has an argument of
//!   a function of the system. The first place in the text decides.
//! - A column may be told as another type than its values have here: a whole number that is written
//!   is an `integer`, and some types are those of the system catalogs alone.

use std::ops::ControlFlow;

use atoll::DataType;
use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType as SqlType, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement, UnaryOperator,
    Value as SqlValue, Visit, Visitor,
};

use super::catalog_columns;
use super::parameters::parameter;
use crate::frame_offsets;
use crate::rules::number::DIGITS_MAX;
use crate::{names, types};

/// A type as a client is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldType {
    /// One that a column of a table may have.
    Own(DataType),
    /// One that only the system catalogs have, by its name there ([`crate::SYSTEM_TYPE`]).
    System(&'static str),
}

/// A number of any digits: an expression has as many as there can be.
pub(crate) const ANY_NUMBER: DataType = DataType::Decimal { precision: DIGITS_MAX, scale: 10 };

/// The types that the text gives parameters, of which there are so many.
pub(crate) fn of_parameters(statement: &Statement, count: usize) -> Vec<Option<ToldType>> {
    struct Places(Vec<Option<ToldType>>);
    impl Visitor for Places {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { expr, data_type, .. } => self.tell(expr, of_type(data_type)),
                Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
                    for (side, other) in [(left, right), (right, left)] {
                        self.tell(side, of_number(other));
                    }
                }
                Expr::Function(function) => {
                    let offsets = frame_offsets::of_function(function).map(frame_offsets::counted);
                    offsets.into_iter().flatten().for_each(|one| self.tell(one, Some(INT8)));
                    for (argument, wanted) in arguments(function).zip(taken_by(function)) {
                        self.tell(argument, Some(*wanted));
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    impl Places {
        fn tell(&mut self, expr: &Expr, wanted: Option<ToldType>) {
            if let Some(at) = parameter(expr)
                && let Some(told @ None) = self.0.get_mut(at)
            {
                *told = wanted;
            }
        }
    }
    let mut places = Places(vec![None; count]);
    // The visitor never breaks off.
    let _ = statement.visit(&mut places);
    places.0
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// The type of a number that is written: what stands beside it in an operation has it, too.
fn of_number(expr: &Expr) -> Option<ToldType> {
    let Expr::Value(value) = expr else { return None };
    let SqlValue::Number(digits, _) = &value.value else { return None };
    Some(match (digits.parse::<i32>(), digits.parse::<i64>()) {
        (Ok(_), _) => INT4,
        (_, Ok(_)) => INT8,
        _ => ToldType::Own(ANY_NUMBER),
    })
}

/// The types that the text gives the columns of a result, of which there are so many.
pub(crate) fn of_columns(statement: &Statement, count: usize) -> Vec<Option<ToldType>> {
    match statement {
        Statement::Query(query) => {
            let mut told = of_body(&query.body, count);
            let found = catalog_columns::of_query(query).filter(|found| found.len() == count);
            for (told, (_, found)) in told.iter_mut().zip(found.into_iter().flatten()) {
                // What is no array is known to the plan.
                let array = found.filter(|name| name.ends_with("[]"));
                *told = told.or(array.map(ToldType::System));
            }
            told
        }
        _ => vec![None; count],
    }
}

fn of_body(body: &SetExpr, count: usize) -> Vec<Option<ToldType>> {
    let nothing = || vec![None; count];
    let of_row = |row: &[Expr]| match row.len() == count {
        true => row.iter().map(of_column).collect(),
        false => nothing(),
    };
    match body {
        SetExpr::Select(select) => of_items(&select.projection, count),
        SetExpr::Query(query) => of_body(&query.body, count),
        SetExpr::Values(values) => {
            let rows = values.rows.iter().map(|row| of_row(&row.content));
            rows.reduce(common).unwrap_or_else(nothing)
        }
        SetExpr::SetOperation { left, right, .. } => {
            common(of_body(left, count), of_body(right, count))
        }
        _ => nothing(),
    }
}

/// What both sides of a union say.
fn common(a: Vec<Option<ToldType>>, b: Vec<Option<ToldType>>) -> Vec<Option<ToldType>> {
    a.into_iter().zip(b).map(|(a, b)| a.filter(|a| Some(*a) == b)).collect()
}

/// The items of a list; a wildcard among them stands for the rest of the columns.
fn of_items(items: &[SelectItem], count: usize) -> Vec<Option<ToldType>> {
    let is_wildcard = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let wildcards = items.iter().filter(|item| is_wildcard(item)).count();
    let rest = (count + wildcards).checked_sub(items.len());
    let (Some(rest), 0 | 1) = (rest, wildcards) else { return vec![None; count] };
    if wildcards == 0 && rest > 0 {
        return vec![None; count];
    }
    let mut told = Vec::with_capacity(count);
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                told.push(of_column(expr));
            }
            item if is_wildcard(item) => told.extend(std::iter::repeat_n(None, rest)),
            _ => told.push(None),
        }
    }
    told
}

fn of_column(expr: &Expr) -> Option<ToldType> {
    match expr {
        Expr::Nested(inner) => of_column(inner),
        Expr::Cast { data_type, .. } => match of_type(data_type)? {
            // Values of these are texts here, which are told as names.
            ToldType::System(name) if name.starts_with("reg") => None,
            told @ (ToldType::System(_) | ToldType::Own(DataType::Varchar(_) | DataType::Text)) => {
                Some(told)
            }
            ToldType::Own(_) => None,
        },
        Expr::Value(value) => match &value.value {
            SqlValue::Number(digits, _) => {
                digits.parse::<i32>().is_ok().then_some(ToldType::Own(DataType::Int32))
            }
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus, expr }
            if matches!(**expr, Expr::Value(_)) =>
        {
            of_column(expr)
        }
        Expr::Identifier(name) if name.quote_style.is_none() => {
            given_by(&names::fold(name)).filter(|_| is_bare(&names::fold(name)))
        }
        Expr::Function(function) => given_by(&names::last(&function.name)),
        _ => None,
    }
}

/// The type of a cast; `None` for one that the plan knows better.
fn of_type(data_type: &SqlType) -> Option<ToldType> {
    use ToldType::{Own, System};
    match data_type {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => match of_type(element)? {
            Own(element) => element.array().map(Own),
            System("oid") => Some(System("oid[]")),
            System("name") => Some(System("name[]")),
            System("char") => Some(System("char[]")),
            System("varchar") => Some(System("varchar[]")),
            System(_) => None,
        },
        SqlType::Varchar(None) | SqlType::CharacterVarying(None) => Some(System("varchar")),
        SqlType::Numeric(ExactNumberInfo::None)
        | SqlType::Decimal(ExactNumberInfo::None)
        | SqlType::Dec(ExactNumberInfo::None) => Some(Own(ANY_NUMBER)),
        SqlType::Regclass => Some(System("regclass")),
        SqlType::Custom(name, modifiers) if modifiers.is_empty() => {
            let name = names::last(name);
            let known = [
                "oid",
                "xid",
                "name",
                "char",
                "regclass",
                "regtype",
                "regproc",
                "regnamespace",
                "regrole",
            ];
            known.into_iter().find(|known| *known == name).map(System)
        }
        other => types::column_type(other).ok().map(Own),
    }
}

fn arguments(function: &Function) -> impl Iterator<Item = &Expr> {
    let all = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    all.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

const INT4: ToldType = ToldType::Own(DataType::Int32);
const INT8: ToldType = ToldType::Own(DataType::Int64);
const FLOAT8: ToldType = ToldType::Own(DataType::Float64);
const BOOL: ToldType = ToldType::Own(DataType::Bool);
const TEXT: ToldType = ToldType::Own(DataType::Text);
const OID: ToldType = ToldType::System("oid");
const NAME: ToldType = ToldType::System("name");
const REGCLASS: ToldType = ToldType::System("regclass");

/// The types that a function of the system takes.
fn taken_by(function: &Function) -> &'static [ToldType] {
    let name = names::last(&function.name);
    if name.starts_with("pg_") && name.contains("_advisory_") {
        return if arguments(function).count() == 2 { &[INT4, INT4] } else { &[INT8] };
    }
    match name.as_str() {
        "pg_cancel_backend" => &[INT4],
        "pg_terminate_backend" => &[INT4, INT8],
        "pg_sleep" => &[FLOAT8],
        "pg_notify" => &[TEXT, TEXT],
        "set_config" => &[TEXT, TEXT, BOOL],
        "current_setting" => &[TEXT, BOOL],
        "to_regclass" | "to_regtype" | "to_regnamespace" | "to_regrole" => &[TEXT],
        "format_type" => &[OID, INT4],
        "pg_get_userbyid" | "pg_table_is_visible" | "pg_type_is_visible" | "pg_get_viewdef" => {
            &[OID]
        }
        "pg_get_constraintdef" => &[OID, BOOL],
        "pg_get_indexdef" => &[OID, INT4, BOOL],
        "pg_get_serial_sequence" => &[TEXT, TEXT],
        "obj_description" | "shobj_description" => &[OID, NAME],
        "col_description" => &[OID, INT4],
        "pg_encoding_to_char" => &[INT4],
        "pg_relation_size" | "pg_table_size" | "pg_indexes_size" | "pg_total_relation_size" => {
            &[REGCLASS]
        }
        "nextval" | "currval" => &[REGCLASS],
        "setval" => &[REGCLASS, INT8, BOOL],
        _ => &[],
    }
}

/// The type that a function of the system gives, where its values have another one here.
fn given_by(function: &str) -> Option<ToldType> {
    Some(match function {
        "pg_backend_pid" => INT4,
        "current_database" | "current_catalog" | "current_schema" | "pg_get_userbyid" => NAME,
        "pg_my_temp_schema" => OID,
        user if is_bare(user) => NAME,
        _ => return None,
    })
}

/// Whether a name is that of a function without parentheses.
fn is_bare(name: &str) -> bool {
    matches!(
        name,
        "current_user"
            | "session_user"
            | "user"
            | "current_role"
            | "current_catalog"
            | "current_schema"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ToldType::{Own, System};

    use super::*;

    fn parameters(sql: &str) -> Vec<Option<ToldType>> {
        let statement = crate::parse::one(sql).unwrap();
        let count = super::super::parameters::count(&statement).unwrap();
        of_parameters(&statement, count)
    }

    /// As PostgreSQL 15 describes them.
    #[test]
    fn casts_and_functions_of_the_system_give_parameters_their_types() {
        let own = |data_type| Some(Own(data_type));
        for (sql, wanted) in [
            (
                "SELECT * FROM unnest($1::int[], ($2)::text[])",
                vec![own(DataType::Int32.array().unwrap()), own(DataType::Text.array().unwrap())],
            ),
            ("SELECT CAST($1 AS bigint) WHERE 1 = $1::int", vec![own(DataType::Int64)]),
            ("SELECT $1::numeric, $2::varchar", vec![own(ANY_NUMBER), Some(System("varchar"))]),
            ("SELECT $1::oid[], $2::\"char\"", vec![Some(System("oid[]")), Some(System("char"))]),
            ("SELECT pg_terminate_backend($1), $2", vec![Some(INT4), None]),
            (
                "SELECT pg_advisory_lock($1), pg_try_advisory_xact_lock($2, $3)",
                vec![Some(INT8), Some(INT4), Some(INT4)],
            ),
            (
                "SELECT $1 + 1, 5000000000 * $2, $3 - 1.5",
                vec![Some(INT4), Some(INT8), own(ANY_NUMBER)],
            ),
            (
                "SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN $1 PRECEDING AND $2 FOLLOWING)",
                vec![Some(INT8), Some(INT8)],
            ),
            ("UPDATE t SET a = $1::date", vec![own(DataType::Date)]),
        ] {
            assert_eq!(parameters(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn columns_are_told_as_in_postgresql() {
        let columns = |sql: &str, count| of_columns(&crate::parse::one(sql).unwrap(), count);
        let int = Some(INT4);
        for (sql, wanted) in [
            ("SELECT 1, 2147483648, -1, 1.5, 'x'", vec![int, None, int, None, None]),
            ("SELECT 1, *, 2 AS b FROM t", vec![int, None, None, int]),
            ("SELECT 1, *, t.* FROM t", vec![None; 5]),
            ("SELECT 1 UNION SELECT 2", vec![int]),
            ("SELECT 1 UNION SELECT a FROM t", vec![None]),
            ("VALUES (1, 2), (3, 4000000000)", vec![int, None]),
            (
                "SELECT 1::bigint, '1'::oid, 'x'::name",
                vec![None, Some(System("oid")), Some(System("name"))],
            ),
            ("SELECT 'x'::varchar(3)", vec![Some(Own(DataType::Varchar(3)))]),
            ("SELECT 't'::regclass", vec![None]),
            ("SELECT v::text", vec![Some(TEXT)]),
        ] {
            assert_eq!(columns(sql, wanted.len()), wanted, "{sql}");
        }
    }
}
