//! Types, the labels of enums, and the functions of types.

use super::super::definitions::{Definitions, Named, TypeOf};
use super::super::types::{BUILTIN, Builtin, builtin, lines, modifier_of, named_number};
use super::super::{oids, written};
use super::{Row, flag, number, numbers, oid, optional, text};
use crate::literal::Literal;

/// The columns of the functions of a type.
const FUNCTIONS: [&str; 6] =
    ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout"];

pub(super) fn types(definitions: &Definitions) -> Vec<Row> {
    let mut rows: Vec<Row> = BUILTIN.iter().map(built_in).collect();
    for own in &definitions.types {
        rows.push(one_of_its_own(own, definitions));
        rows.push(array_of(own));
    }
    rows
}

fn built_in(one: &Builtin) -> Row {
    let mut row = vec![
        ("oid", oid(one.oid)),
        ("typname", text(one.name)),
        ("typnamespace", oid(oids::PG_CATALOG)),
        ("typowner", oid(oids::OWNER)),
        ("typlen", number(one.length)),
        ("typbyval", flag(one.by_value)),
        ("typtype", text(one.kind)),
        ("typcategory", text(one.category)),
        ("typispreferred", flag(one.is_preferred)),
        ("typisdefined", flag(true)),
        ("typdelim", text(",")),
        ("typsubscript", oid(one.subscript)),
        ("typelem", oid(one.element)),
        ("typarray", oid(one.array)),
        ("typalign", text(one.align)),
        ("typstorage", text(one.storage)),
        ("typtypmod", number(-1)),
        ("typcollation", oid(one.collation)),
    ];
    row.extend(FUNCTIONS.into_iter().zip(one.functions.map(oid)));
    row
}

/// As a type of another one's form, under its own name.
fn like(one: &Builtin, own: &Named, name: &str, number_of: u32) -> Row {
    let mut row = built_in(one);
    let others = [
        ("oid", oid(number_of)),
        ("typname", text(name)),
        ("typnamespace", oid(own.space)),
        ("typispreferred", flag(false)),
    ];
    for (column, value) in others {
        set(&mut row, column, value);
    }
    row
}

fn set(row: &mut Row, column: &'static str, value: Literal) {
    row.retain(|(name, _)| *name != column);
    row.push((column, value));
}

fn one_of_its_own(own: &Named, definitions: &Definitions) -> Row {
    let model = |number: u32| builtin(number).unwrap_or(&BUILTIN[0]);
    let mut row = match &own.of {
        TypeOf::Enum(_) => {
            let mut row = like(model(named_number("int4")), own, &own.name, own.oid);
            set(&mut row, "typtype", text("e"));
            set(&mut row, "typcategory", text("E"));
            for function in FUNCTIONS {
                set(&mut row, function, oid(0));
            }
            row
        }
        TypeOf::Domain(domain, below) => {
            let base = definitions.number_of(*below);
            let mut row = like(model(base), own, &own.name, own.oid);
            set(&mut row, "typtype", text("d"));
            set(&mut row, "typbasetype", oid(base));
            set(&mut row, "typtypmod", number(modifier_of(*below)));
            set(&mut row, "typnotnull", flag(domain.not_null));
            set(&mut row, "typelem", oid(0));
            let default = domain.default.as_deref().map(written::expression);
            set(&mut row, "typdefault", optional(default));
            row
        }
    };
    set(&mut row, "typarray", oid(own.oid + 1));
    row
}

fn array_of(own: &Named) -> Row {
    let model = builtin(named_number("_int4")).unwrap_or(&BUILTIN[0]);
    let mut row = like(model, own, &format!("_{}", own.name), own.oid + 1);
    set(&mut row, "typelem", oid(own.oid));
    row
}

impl Named {
    /// How PostgreSQL keeps its values: length, whether by value, alignment and storage.
    pub(super) fn layout(
        &self,
        definitions: &Definitions,
    ) -> (i64, bool, &'static str, &'static str) {
        let below = match &self.of {
            TypeOf::Enum(_) => named_number("int4"),
            TypeOf::Domain(_, below) => definitions.number_of(*below),
        };
        let below = builtin(below).unwrap_or(&BUILTIN[0]);
        (below.length, below.by_value, below.align, below.storage)
    }
}

pub(super) fn labels(definitions: &Definitions) -> Vec<Row> {
    let mut rows = Vec::new();
    for own in &definitions.types {
        let TypeOf::Enum(labels) = &own.of else { continue };
        for (at, label) in labels.labels().iter().enumerate() {
            rows.push(vec![
                ("oid", oid(own.oid.wrapping_add(at as u32))),
                ("enumtypid", oid(own.oid)),
                ("enumsortorder", Literal::Real((at + 1) as f32)),
                ("enumlabel", text(label)),
            ]);
        }
    }
    rows
}

pub(super) fn functions() -> Vec<Row> {
    let row = |function: Vec<&'static str>| {
        let field = |at: usize| function.get(at).copied().unwrap_or_default();
        let arguments: Vec<i64> = field(3).split(',').filter_map(|one| one.parse().ok()).collect();
        vec![
            ("oid", oid(field(0).parse().unwrap_or_default())),
            ("proname", text(field(1))),
            ("pronamespace", oid(oids::PG_CATALOG)),
            ("proowner", oid(oids::OWNER)),
            ("prolang", oid(12)),
            ("procost", Literal::Real(1.0)),
            ("prokind", text("f")),
            ("proisstrict", flag(true)),
            ("provolatile", text("i")),
            ("proparallel", text("s")),
            ("pronargs", number(arguments.len() as i64)),
            ("prorettype", oid(field(2).parse().unwrap_or_default())),
            ("proargtypes", numbers(arguments)),
            ("prosrc", text(field(1))),
        ]
    };
    lines(include_str!("../functions.txt")).map(row).collect()
}
