//! What is around the relations of a database.

use super::super::{Around, oids};
use super::{Row, flag, number, oid, text};
use crate::literal::Literal;

pub(super) fn access_methods() -> Vec<Row> {
    let row = |(number, name, kind)| {
        vec![("oid", oid(number)), ("amname", text(name)), ("amtype", text(kind))]
    };
    [(oids::HEAP, "heap", "t"), (oids::BTREE, "btree", "i")].map(row).into()
}

pub(super) fn collations() -> Vec<Row> {
    let row = |(number_of, name, provider)| {
        vec![
            ("oid", oid(number_of)),
            ("collname", text(name)),
            ("collnamespace", oid(oids::PG_CATALOG)),
            ("collowner", oid(oids::OWNER)),
            ("collprovider", text(provider)),
            ("collisdeterministic", flag(true)),
            ("collencoding", number(-1)),
        ]
    };
    let all = [
        (oids::DEFAULT_COLLATION, "default", "d"),
        (oids::C_COLLATION, "C", "c"),
        (951, "POSIX", "c"),
    ];
    all.map(row).into()
}

pub(super) fn databases(around: &Around) -> Vec<Row> {
    vec![vec![
        ("oid", oid(oids::DATABASE)),
        ("datname", text(&around.database)),
        ("datdba", oid(oids::OWNER)),
        ("encoding", number(6)),
        ("datlocprovider", text("c")),
        ("datallowconn", flag(true)),
        ("datconnlimit", number(-1)),
        ("dattablespace", oid(oids::TABLESPACE)),
        ("datcollate", text("C")),
        ("datctype", text("C.UTF-8")),
    ]]
}

pub(super) fn languages() -> Vec<Row> {
    let row = |(number, name)| {
        vec![("oid", oid(number)), ("lanname", text(name)), ("lanowner", oid(oids::OWNER))]
    };
    [(12, "internal"), (13, "c"), (14, "sql")].map(row).into()
}

pub(super) fn tablespaces() -> Vec<Row> {
    let row = |(number, name)| {
        vec![("oid", oid(number)), ("spcname", text(name)), ("spcowner", oid(oids::OWNER))]
    };
    [(oids::TABLESPACE, "pg_default"), (1664, "pg_global")].map(row).into()
}

pub(super) fn roles(around: &Around) -> Vec<Row> {
    let row = |role: &super::super::SystemRole| {
        vec![
            ("oid", oid(role.number)),
            ("rolname", text(&role.name)),
            ("rolsuper", flag(role.is_superuser)),
            ("rolinherit", flag(true)),
            ("rolcreaterole", flag(role.is_superuser)),
            ("rolcreatedb", flag(role.is_superuser)),
            ("rolcanlogin", flag(role.can_log_in)),
            ("rolreplication", flag(role.is_superuser)),
            ("rolconnlimit", number(-1)),
            ("rolpassword", text("********")),
            ("rolbypassrls", flag(role.is_superuser)),
        ]
    };
    around.roles.iter().map(row).collect()
}

pub(super) fn settings(around: &Around) -> Vec<Row> {
    let row = |(name, value): &(String, String)| {
        let is_bool = matches!(value.as_str(), "on" | "off");
        let is_number = value.parse::<i64>().is_ok();
        let of = if is_bool {
            "bool"
        } else if is_number {
            "integer"
        } else {
            "string"
        };
        vec![
            ("name", text(name)),
            ("setting", text(value)),
            ("unit", Literal::Null),
            ("context", text("user")),
            ("vartype", text(of)),
            ("source", text("session")),
            ("boot_val", text(value)),
            ("reset_val", text(value)),
        ]
    };
    around.settings.iter().map(row).collect()
}
