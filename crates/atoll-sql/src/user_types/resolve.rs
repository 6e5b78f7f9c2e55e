//! The definitions of types in the place of their names (`TYPE-3`).

use std::ops::ControlFlow;

use atoll::DataType;
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ArrayElemTypeDef, CastKind, CreateTable,
    DataType as SqlType, Expr, ObjectName, Parens, Query, SetExpr, Statement, TypedString,
    Value as SqlValue, VisitMut, VisitorMut,
};

use super::UserType;
use crate::declared::domain::Domain;
use crate::error::SqlError;
use crate::mark::MARK;
use crate::quoted::written;
use crate::{domain_type, enums, names, types};

/// Finds a type by its name.
pub(crate) type Find<'f> = &'f dyn Fn(&str) -> Result<Option<UserType>, SqlError>;

/// The name of a type that is none of SQL's own, or of the elements of an array, if it is one.
pub(crate) fn named(data_type: &SqlType) -> Option<&ObjectName> {
    match data_type {
        SqlType::Custom(name, modifiers) if modifiers.is_empty() => Some(name),
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => named(element),
        _ => None,
    }
}

/// As [`named`].
pub(crate) fn named_mut(data_type: &mut SqlType) -> Option<&mut ObjectName> {
    match data_type {
        SqlType::Custom(name, modifiers) if modifiers.is_empty() => Some(name),
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => named_mut(element),
        _ => None,
    }
}

/// Puts the definition of a type in the place of its name; any other type stays as it is.
///
/// # Errors
/// A definition cannot be read.
pub(crate) fn data_type(data_type: &mut SqlType, find: Find<'_>) -> Result<(), SqlError> {
    let Some(name) = named(data_type) else { return Ok(()) };
    let Ok((name, _)) = names::table_name(name) else { return Ok(()) };
    let found = find(&name)?;
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = data_type {
        return match found {
            // The elements would be values that the domain refuses.
            Some(UserType::Domain(..)) => {
                let message = format!("an array of the domain {name} is not supported");
                Err(SqlError::unsupported(message))
            }
            _ => self::data_type(element, find),
        };
    }
    match found {
        Some(UserType::Enum(labels)) => *data_type = enums::marked(labels),
        Some(UserType::Domain(domain, of)) => *data_type = domain_type::marked(&domain, of),
        None => {}
    }
    Ok(())
}

/// A domain that a statement casts to, and the name of the function that checks its values.
pub(crate) struct Cast {
    pub(crate) name: String,
    pub(crate) domain: Domain,
    pub(crate) data_type: DataType,
}

/// The same in the casts of a statement. A cast to a domain that refuses values becomes the call of
/// a function around one to the type below; these functions are returned.
///
/// # Errors
/// As [`data_type`].
pub(crate) fn statement(statement: &mut Statement, find: Find<'_>) -> Result<Vec<Cast>, SqlError> {
    let mut casts = Casts { find, domains: Vec::new() };
    match VisitMut::visit(statement, &mut casts) {
        ControlFlow::Continue(()) => Ok(casts.domains),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Casts<'f> {
    find: Find<'f>,
    domains: Vec<Cast>,
}

impl Casts<'_> {
    /// The name of the function that checks the values of a domain.
    fn function(&mut self, domain: Domain, data_type: DataType) -> String {
        if let Some(known) = self.domains.iter().find(|one| one.domain == domain) {
            return known.name.clone();
        }
        let name = format!("{MARK}domain{}", self.domains.len());
        self.domains.push(Cast { name: name.clone(), domain, data_type });
        name
    }
}

impl VisitorMut for Casts<'_> {
    type Break = SqlError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            (0..width).for_each(|at| like_others(&mut values.rows, at));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let (Expr::Cast { data_type: of, .. }
        | Expr::TypedString(TypedString { data_type: of, .. })) = expr
        else {
            return ControlFlow::Continue(());
        };
        if let Err(error) = data_type(of, self.find) {
            return ControlFlow::Break(error);
        }
        if let Some((domain, below)) = domain_type::of_marked(of)
            && let Ok(below) = types::column_type(&below)
            && domain.has_rules()
        {
            let name = self.function(domain, below);
            let value = expr.clone();
            *expr = written(&name, [value]);
        }
        ControlFlow::Continue(())
    }
}

/// In rows that are written out, a quoted literal above or below a cast to an enum is a label.
fn like_others(rows: &mut [Parens<Vec<Expr>>], at: usize) {
    let of_cast = |row: &Parens<Vec<Expr>>| match row.content.get(at) {
        Some(Expr::Cast { data_type, .. }) => enums::of_marked(data_type),
        _ => None,
    };
    let Some(labels) = rows.iter().find_map(of_cast) else { return };
    for value in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
        if let Expr::Value(written) = &*value
            && matches!(written.value, SqlValue::SingleQuotedString(_))
        {
            let (kind, expr) = (CastKind::Cast, Box::new(value.clone()));
            let data_type = enums::marked(labels);
            *value = Expr::Cast { kind, expr, data_type, array: false, format: None };
        }
    }
}

/// The same for the columns of a `CREATE TABLE`.
///
/// # Errors
/// As [`data_type`].
pub(crate) fn create_table(create: &CreateTable, find: Find<'_>) -> Result<CreateTable, SqlError> {
    let mut create = create.clone();
    create.columns.iter_mut().try_for_each(|column| data_type(&mut column.data_type, find))?;
    Ok(create)
}

/// The same for the columns of an `ALTER TABLE`.
///
/// # Errors
/// As [`data_type`].
pub(crate) fn alter_table(alter: &AlterTable, find: Find<'_>) -> Result<AlterTable, SqlError> {
    let mut alter = alter.clone();
    for operation in &mut alter.operations {
        match operation {
            AlterTableOperation::AddColumn { column_def, .. } => {
                data_type(&mut column_def.data_type, find)?;
            }
            AlterTableOperation::AlterColumn {
                op: AlterColumnOperation::SetDataType { data_type: of, .. },
                ..
            } => data_type(of, find)?,
            _ => {}
        }
    }
    Ok(alter)
}
