//! Types and their numbers.

use std::sync::LazyLock;

use atoll::DataType;
use sqlparser::ast::DataType as SqlType;

use super::definitions::{Definitions, Named, TypeOf};
use super::{oids, written};
use crate::lengths::NO_LIMIT;
use crate::types;

/// A type that PostgreSQL has built in.
pub(super) struct Builtin {
    pub(super) oid: u32,
    pub(super) name: &'static str,
    pub(super) length: i64,
    pub(super) by_value: bool,
    pub(super) kind: &'static str,
    pub(super) category: &'static str,
    pub(super) is_preferred: bool,
    pub(super) element: u32,
    pub(super) array: u32,
    /// Its functions: input, output, receive, send, and those of its modifier.
    pub(super) functions: [u32; 6],
    pub(super) align: &'static str,
    pub(super) storage: &'static str,
    pub(super) collation: u32,
    pub(super) subscript: u32,
}

/// A line of a file of this folder, without comments.
pub(super) fn lines(file: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(' ').collect())
}

/// The types that are built in, by number.
pub(super) static BUILTIN: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
    let of = |fields: Vec<&'static str>| {
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let number = |at: usize| field(at).parse().unwrap_or_default();
        Builtin {
            oid: number(0),
            name: field(1),
            length: field(2).parse().unwrap_or_default(),
            by_value: field(3) == "t",
            kind: field(4),
            category: field(5),
            is_preferred: field(6) == "t",
            element: number(7),
            array: number(8),
            functions: [9, 10, 11, 12, 13, 14].map(number),
            align: field(15),
            storage: field(16),
            collation: number(17),
            subscript: number(18),
        }
    };
    lines(include_str!("types.txt")).map(of).collect()
});

/// The type of a number.
pub(super) fn builtin(oid: u32) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|one| one.oid == oid)
}

/// The number of a type that is built in, by any of its names; 0 if there is none.
pub(super) fn named_number(name: &str) -> u32 {
    let name = match name {
        "boolean" => "bool",
        "smallint" => "int2",
        "integer" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        other => other,
    };
    let array = || named(&format!("_{}", name.strip_suffix("[]")?));
    named(name).or_else(array).map_or(0, |one| one.oid)
}

fn named(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|one| one.name == name)
}

/// The name that PostgreSQL has for a type in its catalogs.
fn catalog_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Int16 => "int2",
        DataType::Int32 => "int4",
        DataType::Int64 => "int8",
        DataType::Float32 => "float4",
        DataType::Float64 => "float8",
        DataType::Bool => "bool",
        DataType::Date => "date",
        DataType::Timestamp => "timestamp",
        DataType::TimestampTz => "timestamptz",
        DataType::Time => "time",
        DataType::Interval => "interval",
        DataType::Decimal { .. } => "numeric",
        DataType::Text | DataType::Enum(_) | DataType::Array(_) => "text",
        DataType::Varchar(_) => "varchar",
        DataType::Char(_) => "bpchar",
        DataType::Binary | DataType::FixedBinary(_) => "bytea",
        DataType::Uuid => "uuid",
        DataType::Json => "json",
        DataType::Jsonb => "jsonb",
    }
}

impl Definitions {
    /// The number of a type.
    pub(super) fn number_of(&self, data_type: DataType) -> u32 {
        let builtin = named(catalog_name(data_type));
        match data_type {
            DataType::Enum(labels) if let Some(own) = self.type_named(labels.name()) => own.oid,
            DataType::Array(_) => {
                let element = data_type.element().map_or(0, |element| self.number_of(element));
                let array = types_of(element).map(|one| one.array);
                array.or(builtin.map(|text| text.array)).unwrap_or_default()
            }
            _ => builtin.map_or(0, |one| one.oid),
        }
    }

    /// The type of its own of a number, and whether the number is that of its arrays.
    pub(super) fn own_type(&self, oid: u32) -> Option<(&Named, bool)> {
        self.types.iter().find_map(|one| match oid.checked_sub(one.oid) {
            Some(0) => Some((one, false)),
            Some(1) => Some((one, true)),
            _ => None,
        })
    }

    /// The name of a type as SQL writes it; `None` if there is none of the number.
    pub(super) fn format(
        &self,
        oid: u32,
        modifier: Option<i64>,
        path: &[String],
    ) -> Option<String> {
        if let Some((own, is_array)) = self.own_type(oid) {
            let name = match path.contains(&own.schema) {
                true => crate::quoted::quoted_if_needed(&own.name).into_owned(),
                false => written::qualified(&own.schema, &own.name),
            };
            return Some(if is_array { name + "[]" } else { name });
        }
        let found = builtin(oid)?;
        if found.category == "A" && found.element != 0 && found.name.starts_with('_') {
            return Some(self.format(found.element, modifier, path)? + "[]");
        }
        let limit = modifier.filter(|modifier| *modifier >= 4).map(|modifier| modifier - 4);
        Some(match (found.name, limit) {
            ("bool", _) => "boolean".to_owned(),
            ("int2", _) => "smallint".to_owned(),
            ("int4", _) => "integer".to_owned(),
            ("int8", _) => "bigint".to_owned(),
            ("float4", _) => "real".to_owned(),
            ("float8", _) => "double precision".to_owned(),
            ("time", _) => "time without time zone".to_owned(),
            ("timestamp", _) => "timestamp without time zone".to_owned(),
            ("timestamptz", _) => "timestamp with time zone".to_owned(),
            ("char" | "any", _) => format!("\"{}\"", found.name),
            ("varchar", None) => "character varying".to_owned(),
            ("varchar", Some(limit)) => format!("character varying({limit})"),
            // Without a limit only where none was asked for: then it is one character.
            ("bpchar", None) if modifier.is_none() => "character".to_owned(),
            ("bpchar", Some(limit)) => format!("character({limit})"),
            ("numeric", Some(digits)) => format!("numeric({},{})", digits >> 16, digits & 0xffff),
            (name, _) => name.to_owned(),
        })
    }

    /// The number of the type that a text names.
    pub(super) fn type_in(&self, text: &str, path: &[String]) -> Option<u32> {
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        let bare = text.strip_prefix("pg_catalog.").unwrap_or(text);
        if let Some(builtin) = named(bare.trim_matches('"')).filter(|_| bare != "char") {
            return Some(builtin.oid);
        }
        if let Some(element) = bare.strip_suffix("[]") {
            let element = self.type_in(element, path)?;
            return match self.own_type(element) {
                Some(_) => Some(element + 1),
                None => types_of(element).map(|one| one.array).filter(|array| *array != 0),
            };
        }
        let parsed = match crate::declared::expression(&format!("CAST(NULL AS {bare})")) {
            Ok(sqlparser::ast::Expr::Cast { data_type, .. }) => data_type,
            _ => return None,
        };
        if let SqlType::Custom(name, _) = &parsed {
            let idents: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).collect();
            let own = |schema: &str, name: &str| {
                let is_it = |one: &&Named| one.schema == schema && one.name == name;
                self.types.iter().find(is_it).map(|one| one.oid)
            };
            return match idents.as_slice() {
                [name] => path.iter().find_map(|schema| own(schema, &crate::fold::fold(name))),
                [schema, name] => own(&crate::fold::fold(schema), &crate::fold::fold(name)),
                _ => None,
            };
        }
        // Without a number of digits it is that of PostgreSQL.
        if matches!(parsed, SqlType::Numeric(_) | SqlType::Decimal(_)) {
            return named("numeric").map(|one| one.oid);
        }
        types::column_type(&parsed).ok().map(|data_type| match (parsed, data_type) {
            (SqlType::Varchar(None) | SqlType::CharacterVarying(None), _) => {
                named("varchar").map_or(0, |one| one.oid)
            }
            (_, data_type) => self.number_of(data_type),
        })
    }
}

fn types_of(oid: u32) -> Option<&'static Builtin> {
    builtin(oid)
}

/// The limit or the digits of a type, as PostgreSQL keeps them; -1 for none.
pub(super) fn modifier_of(data_type: DataType) -> i64 {
    match data_type {
        DataType::Char(NO_LIMIT) => -1,
        DataType::Varchar(most) | DataType::Char(most) => i64::from(most) + 4,
        DataType::Decimal { precision, scale } => {
            ((i64::from(precision) << 16) | i64::from(scale)) + 4
        }
        DataType::Array(_) => data_type.element().map_or(-1, modifier_of),
        _ => -1,
    }
}

/// The number of the collation of a type.
pub(super) fn collation_of(oid: u32, definitions: &Definitions) -> u32 {
    match definitions.own_type(oid) {
        Some((Named { of: TypeOf::Domain(_, below), .. }, false)) => {
            collation_of(definitions.number_of(*below), definitions)
        }
        Some(_) => 0,
        None => builtin(oid).map_or(oids::DEFAULT_COLLATION, |one| one.collation),
    }
}
