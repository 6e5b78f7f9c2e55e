//! `CREATE TABLE`: columns, `NOT NULL`, a primary key and a tablespace, and nothing that would be
//! ignored.
//!
//! ```text
//! CREATE TABLE [IF NOT EXISTS] name (column type [NOT NULL] [PRIMARY KEY], …
//!     [, PRIMARY KEY (column, …)]) [TABLESPACE node0 | node1 | …]
//! ```
//!
//! A table without the clause goes to a tablespace that the database chooses.
//!
//! `DDL-1`: a clause that Atoll does not carry out is an error, never silently dropped.

use atoll::{Column, Database, Schema, TableOptions};
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, Ident, IndexColumn, Spanned,
    SqlOption, TableConstraint,
};
use sqlparser::tokenizer::Span;

use crate::error::{SqlError, SqlErrorKind};
use crate::{names, parse, types};

/// Creates a table. `false` if it existed and the statement said `IF NOT EXISTS`.
///
/// # Errors
/// Clauses that are not supported, types that no column has, a schema that no table can have, a
/// tablespace that does not exist, and a table of the same name.
pub(crate) fn create_table(db: &Database, statement: &CreateTable) -> Result<bool, SqlError> {
    let (name, span) = names::table_name(&statement.name)?;
    let schema = schema(statement, span)?;
    let tablespace = tablespace(statement).map_err(|error| error.at(span))?;
    let tablespace =
        tablespace.map(|name| names::tablespace(name, db.tablespaces())).transpose()?;
    let options = TableOptions { tablespace, ..TableOptions::default() };
    if statement.if_not_exists && db.tables().contains(&name) {
        return Ok(false);
    }
    db.create_table_with(&name, schema, &options)
        .map_err(|error| SqlError::from(error).at(span))?;
    Ok(true)
}

/// The schema that a statement describes.
pub(crate) fn schema(statement: &CreateTable, span: Span) -> Result<Schema, SqlError> {
    refuse_clauses(statement, span)?;
    let mut columns = Vec::new();
    let mut key: Vec<String> = Vec::new();
    for definition in &statement.columns {
        let (column, is_key) = column(definition)?;
        if is_key {
            one_key(&key, definition.name.span)?;
            key.push(column.name.clone());
        }
        columns.push(column);
    }
    for constraint in &statement.constraints {
        let TableConstraint::PrimaryKey(primary) = constraint else {
            return Err(SqlError::unsupported(format!("{constraint} is not supported"))
                .at(constraint.span())
                .with_hint(Some("a table has a primary key and NOT NULL columns".to_owned())));
        };
        one_key(&key, constraint.span())?;
        key = primary.columns.iter().map(key_column).collect::<Result<_, _>>()?;
        for (name, at) in key.iter().zip(&primary.columns) {
            if !columns.iter().any(|column: &Column| column.name == *name) {
                let known = columns.iter().map(|column| column.name.as_str());
                return Err(names::unknown_column(name, None, known).at(at.column.span()));
            }
        }
    }
    // As in PostgreSQL, being in the primary key makes a column NOT NULL.
    for column in &mut columns {
        column.nullable &= !key.contains(&column.name);
    }
    if key.is_empty() {
        return Err(SqlError::new(SqlErrorKind::Schema, "the table has no primary key")
            .at(span)
            .with_hint(Some(
                "name one: PRIMARY KEY behind a column, or PRIMARY KEY (a, b)".into(),
            )));
    }
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    Schema::new(columns, &key).map_err(|error| SqlError::from(error).at(span))
}

fn one_key(key: &[String], span: Span) -> Result<(), SqlError> {
    if key.is_empty() {
        return Ok(());
    }
    Err(SqlError::new(SqlErrorKind::Schema, "the table has more than one primary key")
        .at(span)
        .with_hint(Some("for a key of several columns write PRIMARY KEY (a, b)".to_owned())))
}

/// A column and whether it is the primary key.
fn column(definition: &ColumnDef) -> Result<(Column, bool), SqlError> {
    let span = definition.name.span;
    let name = names::fold(&definition.name);
    let data_type = types::column_type(&definition.data_type).map_err(|error| error.at(span))?;
    let (mut nullable, mut is_key, mut said_null) = (true, false, false);
    for option in &definition.options {
        match &option.option {
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Null => said_null = true,
            ColumnOption::PrimaryKey(_) => is_key = true,
            other => {
                return Err(SqlError::unsupported(format!(
                    "column \"{name}\": {other} is not supported"
                ))
                .at(span)
                .with_hint(Some("a column can be NOT NULL and PRIMARY KEY".to_owned())));
            }
        }
    }
    if said_null && (!nullable || is_key) {
        let message = format!("column \"{name}\" is declared both NULL and not");
        return Err(SqlError::new(SqlErrorKind::Schema, message).at(span));
    }
    Ok((Column { name, data_type, nullable: nullable && !is_key }, is_key))
}

fn key_column(column: &IndexColumn) -> Result<String, SqlError> {
    match &column.column.expr {
        Expr::Identifier(ident) => Ok(names::fold(ident)),
        other => {
            Err(SqlError::unsupported(format!("{other} cannot be in a primary key; name columns"))
                .at(other.span()))
        }
    }
}

/// The name behind `TABLESPACE`; any other option is refused.
fn tablespace(statement: &CreateTable) -> Result<Option<&Ident>, SqlError> {
    let options = match &statement.table_options {
        CreateTableOptions::None => return Ok(None),
        CreateTableOptions::Plain(options) => options.as_slice(),
        _ => &[],
    };
    match options {
        [SqlOption::KeyValue { key, value: Expr::Identifier(name) }]
            if key.value == parse::TABLESPACE =>
        {
            Ok(Some(name))
        }
        _ => Err(SqlError::unsupported("this option is not supported in CREATE TABLE")
            .with_hint(Some("behind the columns there can be TABLESPACE and a name".to_owned()))),
    }
}

fn refuse_clauses(statement: &CreateTable, span: Span) -> Result<(), SqlError> {
    let clause = if statement.query.is_some() {
        "CREATE TABLE … AS"
    } else if statement.or_replace {
        "OR REPLACE"
    } else if statement.temporary {
        "TEMPORARY"
    } else if statement.external || statement.location.is_some() {
        "an external table"
    } else if statement.like.is_some() {
        "LIKE"
    } else if statement.inherits.is_some() {
        "INHERITS"
    } else if statement.partition_by.is_some() || statement.partition_of.is_some() {
        "partitioning"
    } else if statement.on_commit.is_some() {
        "ON COMMIT"
    } else if *statement != without_clauses(statement) {
        "what stands behind the columns"
    } else {
        return Ok(());
    };
    let hint = statement
        .query
        .is_some()
        .then(|| "create the table with its columns and key, then INSERT INTO … SELECT".to_owned());
    Err(SqlError::unsupported(format!("{clause} is not supported in CREATE TABLE"))
        .at(span)
        .with_hint(hint))
}

/// What is carried out of a statement: an equal one has no other clause (`DDL-1`).
fn without_clauses(statement: &CreateTable) -> CreateTable {
    CreateTableBuilder::new(statement.name.clone())
        .if_not_exists(statement.if_not_exists)
        .columns(statement.columns.clone())
        .constraints(statement.constraints.clone())
        .table_options(statement.table_options.clone())
        .build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use atoll::{DataType, DatabaseOptions};
    use sqlparser::ast::Statement;

    use super::*;

    fn of(sql: &str) -> Result<Schema, SqlError> {
        match crate::parse::one(sql)? {
            Statement::CreateTable(create) => schema(&create, Span::empty()),
            other => panic!("{other} is not CREATE TABLE"),
        }
    }

    #[test]
    fn columns_keys_and_not_null_are_read() {
        let schema = of("CREATE TABLE T (Id bigint PRIMARY KEY, \"Name\" text NOT NULL, x int)");
        let schema = schema.unwrap();
        assert_eq!(schema.columns()[0], Column::new("id", DataType::Int64));
        assert_eq!(schema.columns()[1], Column::new("Name", DataType::Text));
        assert_eq!(schema.columns()[2], Column::nullable("x", DataType::Int32));
        assert_eq!(schema.primary_key(), [0]);
    }

    #[test]
    fn a_table_constraint_names_the_key_in_its_order() {
        let schema = of("CREATE TABLE t (a int, b int, PRIMARY KEY (b, a))").unwrap();
        assert_eq!(schema.primary_key(), [1, 0]);
        assert!(schema.columns().iter().all(|column| !column.nullable));
    }

    #[test]
    fn what_is_not_carried_out_is_refused() {
        for sql in [
            "CREATE TABLE t (a int PRIMARY KEY DEFAULT 3)",
            "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE)",
            "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES u(b))",
            "CREATE TABLE t (a int PRIMARY KEY, CHECK (a > 0))",
            "CREATE TEMPORARY TABLE t (a int PRIMARY KEY)",
            "CREATE TABLE t AS SELECT 1",
            "CREATE TABLE t (a int PRIMARY KEY) ORDER BY a",
            "CREATE TABLE t (a int PRIMARY KEY) STRICT",
            "CREATE TABLE t (a int PRIMARY KEY) WITHOUT ROWID",
            "CREATE TABLE t (a int PRIMARY KEY) TABLESPACE node0 ORDER BY node0",
        ] {
            assert_eq!(of(sql).unwrap_err().kind(), SqlErrorKind::Unsupported, "{sql}");
        }
    }

    /// A database in memory with two nodes.
    fn database() -> Database {
        let options = DatabaseOptions {
            nodes: Some(2),
            memory_limit_bytes: Some(64 << 20),
            ..DatabaseOptions::default()
        };
        Database::create(options).unwrap()
    }

    fn create(db: &Database, sql: &str) -> Result<bool, SqlError> {
        match crate::parse::one(sql)? {
            Statement::CreateTable(statement) => create_table(db, &statement),
            other => panic!("{other} is not CREATE TABLE"),
        }
    }

    #[test]
    fn a_table_goes_to_the_tablespace_that_is_named() {
        let db = database();
        for (name, clause, wanted) in [
            ("a", "TABLESPACE node1", 1),
            ("b", "tablespace NODE1;", 1),
            ("c", "Tablespace \"node1\" -- node0", 1),
            ("d", "TABLESPACE /* node1 */ node0", 0),
        ] {
            let sql = format!("CREATE TABLE {name} (id int PRIMARY KEY) {clause}");
            assert!(create(&db, &sql).unwrap(), "{sql}");
            assert_eq!(db.table(name).unwrap().tablespace(), wanted, "{sql}");
        }
        let again = "CREATE TABLE IF NOT EXISTS a (id int PRIMARY KEY) TABLESPACE node0";
        assert!(!create(&db, again).unwrap());
        assert_eq!(db.table("a").unwrap().tablespace(), 1);
        let new = "CREATE TABLE IF NOT EXISTS e (id int PRIMARY KEY) TABLESPACE node1";
        assert!(create(&db, new).unwrap());
        assert_eq!(db.table("e").unwrap().tablespace(), 1);
    }

    #[test]
    fn the_word_tablespace_elsewhere_is_a_name() {
        let db = database();
        let sql = "CREATE TABLE tablespace (tablespace int PRIMARY KEY, node1 text)";
        assert!(create(&db, sql).unwrap());
        let table = db.table("tablespace").unwrap();
        assert_eq!(table.schema().columns()[0].name, "tablespace");
        assert_eq!(table.tablespace(), 0);
    }

    #[test]
    fn an_unknown_tablespace_is_answered_with_those_that_there_are() {
        let db = database();
        let sql = "CREATE TABLE t (id int PRIMARY KEY)\n  TABLESPACE node2";
        let error = create(&db, sql).unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::UnknownTablespace);
        assert_eq!(error.message(), "tablespace \"node2\" does not exist");
        assert_eq!(error.hint(), Some("the tablespaces are node0, node1"));
        assert_eq!(error.position(), Some((2, 14)));
        // NAME-1: quoted, it is taken as it stands.
        let error = create(&db, "CREATE TABLE t (a int PRIMARY KEY) TABLESPACE \"NODE1\"");
        assert_eq!(error.unwrap_err().kind(), SqlErrorKind::UnknownTablespace);
        assert!(db.tables().is_empty());
    }

    #[test]
    fn other_ways_to_write_a_tablespace_and_other_options_are_refused() {
        let db = database();
        for clause in [
            "TABLESPACE 'node1'",
            "TABLESPACE node1 STORAGE DISK",
            "TABLESPACE node0 TABLESPACE node1",
            "TABLESPACE node0, TABLESPACE node1",
            "COMMENT 'TABLESPACE node1'",
            "WITH (fillfactor = 70)",
        ] {
            let sql = format!("CREATE TABLE t (a int PRIMARY KEY) {clause}");
            assert_eq!(create(&db, &sql).unwrap_err().kind(), SqlErrorKind::Unsupported, "{sql}");
        }
        for clause in ["TABLESPACE", "TABLESPACE node1 node1", "TABLESPACE 7"] {
            let sql = format!("CREATE TABLE t (a int PRIMARY KEY) {clause}");
            assert_eq!(create(&db, &sql).unwrap_err().kind(), SqlErrorKind::Syntax, "{sql}");
        }
        assert!(db.tables().is_empty());
    }

    #[test]
    fn a_schema_without_one_key_is_an_error() {
        for sql in [
            "CREATE TABLE t (a int)",
            "CREATE TABLE t (a int PRIMARY KEY, b int PRIMARY KEY)",
            "CREATE TABLE t (a int PRIMARY KEY, b int, PRIMARY KEY (b))",
            "CREATE TABLE t (a int PRIMARY KEY, a int)",
            "CREATE TABLE t (a real PRIMARY KEY)",
            "CREATE TABLE t (a int NULL PRIMARY KEY)",
        ] {
            assert_eq!(of(sql).unwrap_err().kind(), SqlErrorKind::Schema, "{sql}");
        }
        let error = of("CREATE TABLE t (abc int, PRIMARY KEY (abd))").unwrap_err();
        assert_eq!(error.hint(), Some("did you mean abc?"));
    }
}
