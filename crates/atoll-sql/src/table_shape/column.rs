//! The declaration of a column.

use atoll::{Column, DataType};
use sqlparser::ast::{ColumnDef, ColumnOption, DataType as SqlType, GeneratedAs, SequenceOptions};

use crate::ddl_rules::Rules;
use crate::domain_type;
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::foreign::define::Written;
use crate::nulls_syntax::NOT_DISTINCT;
use crate::sequence::definition::Whole;
use crate::{names, types};

/// A column that gets a sequence of its own. Until that has a name, the default of the column names
/// it by the name of the column with a mark (`NAME-1`).
pub(super) struct Numbered {
    pub(super) column: String,
    pub(super) kind: Whole,
    pub(super) options: Vec<SequenceOptions>,
    pub(super) is_identity: bool,
}

/// The declarations of a column.
pub(super) struct Described {
    pub(super) column: Column,
    /// It is the primary key.
    pub(super) is_key: bool,
    /// It is unique, perhaps under a name.
    pub(super) unique: Option<Option<String>>,
    /// NULL equals NULL for that.
    pub(super) nulls_not_distinct: bool,
    pub(super) numbered: Option<Numbered>,
}

/// The name that the sequence of a column has before it has one.
pub(super) fn marked(column: &str) -> String {
    format!("\u{1}{column}")
}

/// A column that is an identity.
///
/// # Errors
/// Its values are no whole numbers.
pub(super) fn numbered(
    column: &str,
    data_type: DataType,
    options: &[SequenceOptions],
) -> Result<Numbered, SqlError> {
    let kind = Whole::of(data_type).map_err(|_| {
        let message = "identity column type must be smallint, integer, or bigint";
        SqlError::new(SqlErrorKind::Schema, message).with_cause(Cause::InvalidParameter)
    })?;
    let options = options.to_vec();
    Ok(Numbered { column: column.to_owned(), kind, options, is_identity: true })
}

/// The type of a column that is declared as `serial`, or as one of its kin.
fn serial(data_type: &SqlType) -> Option<(SqlType, Whole)> {
    let SqlType::Custom(name, marks) = data_type else { return None };
    let [part] = name.0.as_slice() else { return None };
    if !marks.is_empty() {
        return None;
    }
    match part.as_ident().map(names::fold)?.as_str() {
        "smallserial" | "serial2" => Some((SqlType::SmallInt(None), Whole::Smallint)),
        "serial" | "serial4" => Some((SqlType::Integer(None), Whole::Integer)),
        "bigserial" | "serial8" => Some((SqlType::BigInt(None), Whole::Bigint)),
        _ => None,
    }
}

/// What a definition says of a column.
///
/// # Errors
/// Clauses that are not supported, or that do not go together.
pub(super) fn column(definition: &ColumnDef, rules: &mut Rules) -> Result<Described, SqlError> {
    let span = definition.name.span;
    let name = names::fold(&definition.name);
    let (mut nullable, mut is_key, mut said_null) = (true, false, false);
    let (mut unique, mut of_sequence) = (None, None);
    let mut nulls_not_distinct = false;
    let data_type = match serial(&definition.data_type) {
        Some((data_type, kind)) => {
            rules.number(&name, &marked(&name), None).map_err(|error| error.at(span))?;
            let (options, is_identity) = (Vec::new(), false);
            of_sequence = Some(Numbered { column: name.clone(), kind, options, is_identity });
            nullable = false;
            types::column_type(&data_type)
        }
        None => types::column_type(&definition.data_type),
    };
    let data_type = data_type.map_err(|error| error.at(span))?;
    let domain = domain_type::of_marked(&definition.data_type);
    rules.set_domain(&name, domain.map(|(domain, _)| domain));
    for option in &definition.options {
        match &option.option {
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Null => said_null = true,
            ColumnOption::Default(expr) => rules.add_default(&name, expr)?,
            ColumnOption::Check(check) if check.enforced.is_none() => {
                let name = option.name.as_ref().or(check.name.as_ref());
                rules.add_check(name, &check.expr)?;
            }
            ColumnOption::Generated {
                generated_as: GeneratedAs::ExpStored,
                generation_expr: Some(expr),
                sequence_options: None,
                ..
            } => rules.add_generated(&name, expr)?,
            ColumnOption::Generated {
                generated_as: generated_as @ (GeneratedAs::Always | GeneratedAs::ByDefault),
                generation_expr: None,
                sequence_options,
                ..
            } => {
                if of_sequence.is_some() {
                    let message = format!("multiple identity specifications for column \"{name}\"");
                    return Err(SqlError::new(SqlErrorKind::Syntax, message).at(span));
                }
                let options = sequence_options.as_deref().unwrap_or_default();
                let one = numbered(&name, data_type, options).map_err(|error| error.at(span))?;
                let always = *generated_as == GeneratedAs::Always;
                let done = rules.number(&name, &marked(&name), Some(always));
                done.map_err(|error| error.at(span))?;
                of_sequence = Some(one);
                nullable = false;
            }
            ColumnOption::ForeignKey(key) => {
                rules.add_foreign_key(Written::of_column(&name, option.name.as_ref(), key));
            }
            ColumnOption::PrimaryKey(key) if key.characteristics.is_none() => is_key = true,
            ColumnOption::Unique(one) if one.characteristics.is_none() => {
                unique = Some(option.name.as_ref().map(names::fold));
            }
            ColumnOption::Comment(text) if text == NOT_DISTINCT => nulls_not_distinct = true,
            other => {
                return Err(SqlError::unsupported(format!(
                    "column \"{name}\": {other} is not supported"
                ))
                .at(span)
                .with_hint(Some(
                    "a column can be NOT NULL, UNIQUE and PRIMARY KEY, and have DEFAULT, CHECK, \
                     REFERENCES, GENERATED ALWAYS AS (…) STORED and GENERATED … AS IDENTITY"
                        .to_owned(),
                )));
            }
        }
    }
    if said_null && (!nullable || is_key) {
        let message = format!("column \"{name}\" is declared both NULL and not");
        return Err(SqlError::new(SqlErrorKind::Schema, message).at(span));
    }
    let column = Column { name, data_type, nullable: nullable && !is_key };
    Ok(Described { column, is_key, unique, nulls_not_distinct, numbered: of_sequence })
}
