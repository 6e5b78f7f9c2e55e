//! The functions that ask the system, such as `format_type` and `pg_get_indexdef`.
//!
//! They are functions of one query, since they know its definitions. While a statement is bound
//! they are volatile, so that no plan that is kept has their values.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow_schema::DataType as ArrowType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::definitions::What;
use super::function::{Definition, Gives, Run, oid, whole};
use super::{System, constraints, functions_of_server, oids, rows, types, written};
use crate::arrow_value;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::literal::Literal;
use crate::query_error::external;
use crate::rules::functions::column_of;
use crate::rules::plan_error;
use crate::rules::row_functions::ANCESTORS;
use crate::schemas;

/// Numbers of names, for the casts to `regclass` and its like.
pub(super) const REGCLASS: &str = "regclass_number";
pub(super) const REGCLASS_NAME: &str = "regclass_name";
pub(super) const REGTYPE: &str = "regtype_number";
pub(super) const REGTYPE_NAME: &str = "regtype_name";
pub(super) const REGNAMESPACE: &str = "regnamespace_number";
pub(super) const REGNAMESPACE_NAME: &str = "regnamespace_name";
pub(super) const REGROLE: &str = "regrole_number";
pub(super) const REGPROC: &str = "regproc_number";
pub(super) const REGPROC_NAME: &str = "regproc_name";

const fn text(name: &'static str, run: Run) -> Definition {
    Definition::new(name, Gives::Text, run)
}

const fn number(name: &'static str, run: Run) -> Definition {
    Definition::new(name, Gives::Number, run)
}

const fn flag(name: &'static str, run: Run) -> Definition {
    Definition::new(name, Gives::Flag, run)
}

/// Nothing of this kind exists.
fn nothing(_: &System, _: &[Literal]) -> std::result::Result<Literal, SqlError> {
    Ok(Literal::Null)
}

fn yes(_: &System, _: &[Literal]) -> std::result::Result<Literal, SqlError> {
    Ok(Literal::Bool(true))
}

fn user(system: &System, _: &[Literal]) -> std::result::Result<Literal, SqlError> {
    Ok(Literal::Text(system.around.user.clone()))
}

fn database(system: &System, _: &[Literal]) -> std::result::Result<Literal, SqlError> {
    Ok(Literal::Text(system.around.database.clone()))
}

const ALL: &[Definition] = &[
    text("current_user", user),
    text("session_user", user),
    text("user", user),
    text("current_role", user),
    text("system_user", nothing),
    text("current_database", database),
    text("current_catalog", database),
    number("pg_backend_pid", |system, _| Ok(Literal::Integer(system.around.process.into()))),
    flag("pg_is_in_recovery", |_, _| Ok(Literal::Bool(false))),
    flag("pg_is_other_temp_schema", |_, _| Ok(Literal::Bool(false))),
    number("pg_my_temp_schema", |_, _| Ok(Literal::Integer(0))),
    Definition {
        name: "format_type",
        gives: Gives::Text,
        sees_null: true,
        acts: false,
        run: |system, values| {
            let Some(of) = oid(values, 0) else { return Ok(Literal::Null) };
            let modifier = whole(values, 1);
            let name = system.definitions.format(of, modifier, &system.around.path);
            Ok(Literal::Text(name.unwrap_or_else(|| if of == 0 { "-" } else { "???" }.to_owned())))
        },
    },
    // The texts of expressions are kept as they are.
    text("pg_get_expr", |_, values| Ok(values.first().cloned().unwrap_or(Literal::Null))),
    text("pg_get_constraintdef", |system, values| {
        let all = constraints::all(&system.definitions);
        let found = all.iter().find(|one| Some(one.oid) == oid(values, 0));
        let pretty = values.get(1) == Some(&Literal::Bool(true));
        let (all, path) = (&system.definitions, &system.around.path);
        Ok(optional(found.map(|one| one.text(all, path, pretty))))
    }),
    text("pg_get_indexdef", |system, values| {
        let found = oid(values, 0).and_then(|oid| system.definitions.index(oid));
        Ok(optional(found.and_then(|(relation, _, index)| match whole(values, 1) {
            None | Some(0) => Some(written::index(relation, index)),
            Some(at) => {
                let column = index.columns.get(usize::try_from(at - 1).ok()?)?;
                Some(crate::quoted::quoted_if_needed(column).into_owned())
            }
        })))
    }),
    text("pg_get_viewdef", |system, values| {
        let relation = match values.first() {
            Some(Literal::Text(name)) => system.relation_in(name)?,
            _ => oid(values, 0).and_then(|oid| system.definitions.relation(oid)),
        };
        match relation.map(|relation| &relation.what) {
            Some(What::View(view)) => Ok(Literal::Text(format!(" {};", view.definition()?))),
            _ => Ok(Literal::Null),
        }
    }),
    text("pg_get_serial_sequence", |system, values| {
        let (Some(Literal::Text(table)), Some(Literal::Text(column))) =
            (values.first(), values.get(1))
        else {
            return Ok(Literal::Null);
        };
        let table = system.relation_in(table)?.ok_or_else(|| unknown(table))?;
        let flat = schemas::flat(&table.schema, &table.name);
        let owned = system.definitions.relations.iter().find(|one| match &one.what {
            What::Sequence(definition) => {
                let owner = definition.owner.as_ref();
                owner.is_some_and(|owner| owner.table == flat && owner.column == *column)
            }
            _ => false,
        });
        Ok(optional(owned.map(|one| written::qualified(&one.schema, &one.name))))
    }),
    text("pg_get_userbyid", |system, values| {
        let role = system.around.roles.iter().find(|role| Some(role.number) == oid(values, 0));
        let number = oid(values, 0).unwrap_or_default();
        let name = role.map(|role| role.name.clone());
        Ok(Literal::Text(name.unwrap_or_else(|| format!("unknown (OID={number})"))))
    }),
    text("obj_description", |system, values| {
        let catalog = match values.get(1) {
            Some(Literal::Text(name)) => super::tables::named(name).map(|table| table.oid),
            _ => None,
        };
        Ok(description(system, oid(values, 0), 0, catalog))
    }),
    text("col_description", |system, values| {
        let column = whole(values, 1).unwrap_or(-1);
        Ok(description(system, oid(values, 0), column, Some(oids::PG_CLASS)))
    }),
    text("shobj_description", nothing),
    text("pg_encoding_to_char", |_, values| {
        Ok(Literal::Text(if whole(values, 0) == Some(6) { "UTF8" } else { "" }.to_owned()))
    }),
    Definition {
        // There are no partitions.
        name: ANCESTORS,
        gives: Gives::Numbers,
        run: |_, _| Ok(Literal::List(Vec::new())),
        sees_null: true,
        acts: false,
    },
    text("pg_get_triggerdef", nothing),
    text("pg_get_ruledef", nothing),
    text("pg_get_functiondef", nothing),
    text("pg_get_function_result", nothing),
    text("pg_get_function_arguments", nothing),
    text("pg_get_function_identity_arguments", nothing),
    text("pg_get_partkeydef", nothing),
    text("pg_get_statisticsobjdef", nothing),
    text("pg_get_statisticsobjdef_columns", nothing),
    text("pg_tablespace_location", |_, _| Ok(Literal::Text(String::new()))),
    flag("pg_table_is_visible", |system, values| {
        let Some(of) = oid(values, 0) else { return Ok(Literal::Null) };
        Ok(system.is_visible(of).map_or(Literal::Null, Literal::Bool))
    }),
    flag("pg_type_is_visible", |system, values| {
        let Some(of) = oid(values, 0) else { return Ok(Literal::Null) };
        let own = system.definitions.own_type(of);
        let is_visible = |schema: &String| system.around.path.contains(schema);
        Ok(Literal::Bool(
            own.map_or(types::builtin(of).is_some(), |(own, _)| is_visible(&own.schema)),
        ))
    }),
    flag("pg_function_is_visible", yes),
    flag("pg_operator_is_visible", yes),
    flag("pg_opclass_is_visible", yes),
    flag("pg_opfamily_is_visible", yes),
    flag("pg_collation_is_visible", yes),
    flag("pg_conversion_is_visible", yes),
    flag("pg_statistics_obj_is_visible", yes),
    flag("pg_ts_config_is_visible", yes),
    flag("pg_relation_is_publishable", |_, _| Ok(Literal::Bool(false))),
    number("to_regclass", |system, values| {
        let Some(Literal::Text(name)) = values.first() else { return Ok(Literal::Null) };
        Ok(system.number_in(name)?.map_or(Literal::Null, |oid| Literal::Integer(oid.into())))
    }),
    number("to_regtype", |system, values| {
        let Some(Literal::Text(name)) = values.first() else { return Ok(Literal::Null) };
        let found = system.definitions.type_in(name, &system.around.path);
        Ok(found.map_or(Literal::Null, |oid| Literal::Integer(oid.into())))
    }),
    number("to_regnamespace", |system, values| {
        let Some(Literal::Text(name)) = values.first() else { return Ok(Literal::Null) };
        Ok(system.space_in(name).map_or(Literal::Null, |oid| Literal::Integer(oid.into())))
    }),
    number("to_regrole", |system, values| {
        let Some(Literal::Text(name)) = values.first() else { return Ok(Literal::Null) };
        Ok(system.role_in(name).map_or(Literal::Null, |oid| Literal::Integer(oid.into())))
    }),
    number(REGCLASS, |system, values| by_name(values, |name| system.number_in(name), unknown)),
    number(REGTYPE, |system, values| {
        let find = |name: &str| Ok(system.definitions.type_in(name, &system.around.path));
        by_name(values, find, |name| missing("type", name))
    }),
    number(REGNAMESPACE, |system, values| {
        by_name(values, |name| Ok(system.space_in(name)), schemas::unknown)
    }),
    number(REGROLE, |system, values| {
        by_name(values, |name| Ok(system.role_in(name)), |name| missing("role", name))
    }),
    number(REGPROC, |_, values| {
        let functions = || types::lines(include_str!("functions.txt"));
        let find = |name: &str| {
            let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
            let found = functions().find(|line| line.get(1) == Some(&name));
            Ok(found.and_then(|line| line[0].parse().ok()))
        };
        by_name(values, find, |name| missing("function", name))
    }),
    text(REGCLASS_NAME, |system, values| Ok(shown(values, |oid| system.relation_name(oid)))),
    text(REGTYPE_NAME, |system, values| {
        Ok(shown(values, |oid| system.definitions.format(oid, None, &system.around.path)))
    }),
    text(REGNAMESPACE_NAME, |system, values| {
        let spaces = &system.definitions.spaces;
        let own = |oid| spaces.iter().find(|one| one.oid == oid).map(|one| one.name.clone());
        Ok(shown(values, |oid| match oid {
            oids::PG_CATALOG => Some("pg_catalog".to_owned()),
            oids::INFORMATION_SCHEMA => Some("information_schema".to_owned()),
            other => own(other),
        }))
    }),
    text(REGPROC_NAME, |_, values| Ok(shown(values, |oid| function_name(oid).map(str::to_owned)))),
];

/// The name of a function of the system catalogs, by its number.
pub fn function_name(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<u32, &str>> = LazyLock::new(|| {
        let lines = types::lines(include_str!("functions.txt"));
        lines.filter_map(|line| Some((line.first()?.parse().ok()?, *line.get(1)?))).collect()
    });
    NAMES.get(&number).copied()
}

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    all().any(|one| one.name == name)
}

fn all() -> impl Iterator<Item = &'static Definition> {
    ALL.iter().chain(functions_of_server::ALL)
}

/// The function that shows the names of the numbers that a function makes.
pub(super) fn shows(name: &str) -> Option<&'static str> {
    Some(match name {
        REGCLASS | "to_regclass" => REGCLASS_NAME,
        REGTYPE | "to_regtype" => REGTYPE_NAME,
        REGNAMESPACE | "to_regnamespace" => REGNAMESPACE_NAME,
        REGROLE | "to_regrole" => "pg_get_userbyid",
        REGPROC => REGPROC_NAME,
        _ => return None,
    })
}

/// Whether a function asks the system.
pub(crate) fn asks(function: &ScalarUDF) -> bool {
    function.inner().is::<Asked>()
}

/// The functions of a query.
pub(super) fn functions(system: &Arc<System>, volatility: Volatility) -> Vec<ScalarUDF> {
    let function = |definition: &'static Definition| {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let volatility = if definition.acts { Volatility::Volatile } else { volatility };
        let (system, signature) = (Arc::clone(system), Signature::one_of(any, volatility));
        ScalarUDF::from(Asked { definition, system, signature })
    };
    all().map(function).collect()
}

fn optional(text: Option<String>) -> Literal {
    text.map_or(Literal::Null, Literal::Text)
}

/// The number of a name; a number stays as it is.
fn by_name(
    values: &[Literal],
    find: impl Fn(&str) -> std::result::Result<Option<u32>, SqlError>,
    missing: impl Fn(&str) -> SqlError,
) -> std::result::Result<Literal, SqlError> {
    match values.first() {
        Some(Literal::Text(name)) => match name.trim().parse::<u32>() {
            Ok(number) => Ok(Literal::Integer(number.into())),
            Err(_) if name == "-" => Ok(Literal::Integer(0)),
            Err(_) => {
                find(name)?.map(|oid| Literal::Integer(oid.into())).ok_or_else(|| missing(name))
            }
        },
        Some(number @ Literal::Integer(_)) => Ok(number.clone()),
        _ => Ok(Literal::Null),
    }
}

/// The name of a number, or the number where there is none.
fn shown(values: &[Literal], name: impl Fn(u32) -> Option<String>) -> Literal {
    match oid(values, 0) {
        Some(0) => Literal::Text("-".to_owned()),
        Some(oid) => Literal::Text(name(oid).unwrap_or_else(|| oid.to_string())),
        None => Literal::Null,
    }
}

fn missing(kind: &str, name: &str) -> SqlError {
    let message = format!("{kind} \"{name}\" does not exist");
    SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::UnknownObject)
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlErrorKind::UnknownTable, format!("relation \"{name}\" does not exist"))
}

/// A comment; in any catalog if none is named.
fn description(system: &System, of: Option<u32>, column: i64, catalog: Option<u32>) -> Literal {
    let rows = rows::of("pg_description", &system.definitions, &system.around);
    let is = |row: &rows::Row, name: &str, wanted: i64| {
        row.iter()
            .any(|(column, value)| *column == name && *value == Literal::Integer(wanted.into()))
    };
    let found = rows.into_iter().find(|row| {
        of.is_some_and(|of| is(row, "objoid", of.into()))
            && is(row, "objsubid", column)
            && catalog.is_none_or(|catalog| is(row, "classoid", catalog.into()))
    });
    let text = found.and_then(|row| row.into_iter().find(|(column, _)| *column == "description"));
    text.map_or(Literal::Null, |(_, text)| text)
}

/// A function as DataFusion calls it.
struct Asked {
    definition: &'static Definition,
    system: Arc<System>,
    signature: Signature,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asked").field(&self.definition.name).finish()
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && Arc::ptr_eq(&self.system, &other.system)
    }
}

impl Eq for Asked {}

impl Hash for Asked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Asked {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        Ok(self.definition.gives.arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = |one: &ColumnarValue| matches!(one, ColumnarValue::Scalar(_));
        let is_scalar = args.args.iter().all(is_constant);
        let count = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|value| {
            let array = value.to_array(count)?;
            arrow_value::plain(&array).map_err(|reason| plan_error(SqlErrorKind::Type, reason))
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let mut results = Vec::with_capacity(count);
        for row in 0..count {
            let values = arrays.iter().map(|array| {
                let value = arrow_value::at(array.as_ref(), row);
                value.map_err(|reason| plan_error(SqlErrorKind::Type, reason))
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let passes = !self.definition.sees_null && values.contains(&Literal::Null);
            results.push(match passes {
                true => Literal::Null,
                false => (self.definition.run)(&self.system, &values).map_err(external)?,
            });
        }
        let arrow = self.definition.gives.arrow();
        let results = column_of(results, &arrow).map_err(external)?;
        match is_scalar {
            true => ScalarValue::try_from_array(&results, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(results)),
        }
    }
}
