//! `CREATE TABLE`: columns, `NOT NULL`, a primary key, ordered indexes, unique or not, defaults,
//! conditions, foreign keys and a tablespace. No clause is ignored.
//!
//! ```text
//! CREATE TABLE [IF NOT EXISTS] name (
//!     column type [NOT NULL] [PRIMARY KEY] [UNIQUE] [DEFAULT value] [CHECK (condition)]
//!         [GENERATED ALWAYS AS (expression) STORED]
//!         [GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(option …)]]
//!         [REFERENCES table [(column)] …], …
//!     [, LIKE table [INCLUDING … | EXCLUDING …]]…
//!     [, PRIMARY KEY (column, …) [USING HASH]]
//!     [, [CONSTRAINT name] UNIQUE (column, …)]… [, [CONSTRAINT name] CHECK (condition)]…
//!     [, [CONSTRAINT name] FOREIGN KEY (column, …) REFERENCES table [(column, …)]
//!         [MATCH FULL | SIMPLE] [ON DELETE action] [ON UPDATE action] [DEFERRABLE …]]…
//!     [, INDEX name (column, …)]…)
//!     [TABLESPACE node0 | node1 | …]
//! ```
//!
//! The rows of a table are found by the hash of their primary key. Unless it says `USING HASH`, an
//! ordered index over the key is made too, for ranges and for orders. A table without a primary key
//! has numbers of rows in its place, which no statement sees.
//!
//! Without the last clause the database chooses the tablespace. `alter` changes what is made here.
//!
//! `DDL-1`: a clause that Atoll does not carry out is an error, never silently dropped.

use atoll::{Schema, Table, TableOptions};
use sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use sqlparser::ast::{CreateTable, CreateTableOptions, Expr, Ident, ObjectName, SqlOption};
use sqlparser::tokenizer::Span;

use crate::error::SqlError;
use crate::prepared::query::Binder;
use crate::table_shape::{Defined, NewSequence, TableShape};
use crate::{like_clause, names, parse};

/// A table that a statement describes.
pub(crate) struct NewTable {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    pub(crate) options: TableOptions,
    /// The sequences of its columns.
    pub(crate) sequences: Vec<NewSequence>,
}

/// The table that a statement describes; `None` if one of its name exists and the statement says
/// `IF NOT EXISTS`.
///
/// # Errors
/// Clauses that are not supported, types that no column has, a schema that no table can have, a
/// tablespace that does not exist.
pub(crate) fn new_table(
    binder: &Binder<'_>,
    statement: &CreateTable,
) -> Result<Option<NewTable>, SqlError> {
    let db = &binder.scope.db;
    let (name, span) = names::table_name(&statement.name)?;
    let find = |name: &ObjectName| {
        let (name, span) = names::table_name(name)?;
        names::find_table(binder.scope, &name, span)
    };
    let is_taken = |name: &str| binder.scope.catalog.get(name).is_some();
    let Defined { schema, indexes, rules, sequences } =
        defined(statement, (&find, &is_taken), &name, span)?;
    let new: Vec<String> = sequences.iter().map(|one| one.name.clone()).collect();
    let schema = rules.declare(binder, &name, (schema, &indexes), &new)?;
    let tablespace = tablespace(statement).map_err(|error| error.at(span))?;
    if let (Some(name), None) = (tablespace, db.durability()) {
        let message = "a database that is in memory only has no tablespaces";
        return Err(SqlError::unsupported(message).at(name.span).with_hint(Some(
            "leave TABLESPACE away, or keep the database in a folder: atoll sql NAME --data DIR"
                .to_owned(),
        )));
    }
    let tablespace =
        tablespace.map(|name| names::tablespace(name, db.tablespaces())).transpose()?;
    let options = TableOptions { tablespace, indexes, ..TableOptions::default() };
    if statement.if_not_exists && (binder.scope.has(&name) || binder.scope.table(&name).is_ok()) {
        return Ok(None);
    }
    Ok(Some(NewTable { name, schema, options, sequences }))
}

/// Finds the table of a name.
type Find<'f> = dyn Fn(&ObjectName) -> Result<Table, SqlError> + 'f;

/// What a statement defines for a table of this name, perhaps like others.
fn defined(
    statement: &CreateTable,
    (find, is_taken): (&Find<'_>, &dyn Fn(&str) -> bool),
    table: &str,
    span: Span,
) -> Result<Defined, SqlError> {
    refuse_clauses(statement, span)?;
    let mut shape = TableShape::default();
    for column in &statement.columns {
        match like_clause::of(column) {
            Some((other, including)) => {
                let span = column.name.span;
                let other = find(other)?;
                shape.add_like(&other, including, table).map_err(|error| error.at(span))?;
            }
            None => shape.add_column(column)?,
        }
    }
    statement.constraints.iter().try_for_each(|constraint| shape.add_constraint(constraint))?;
    shape.finish(table, is_taken, span)
}

/// The name behind `TABLESPACE`; any other option is refused.
fn tablespace(statement: &CreateTable) -> Result<Option<&Ident>, SqlError> {
    let options = match &statement.table_options {
        // Storage parameters have been looked at.
        CreateTableOptions::None | CreateTableOptions::With(_) => return Ok(None),
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

/// Refuses clauses of a `CREATE TABLE … AS` that are not carried out.
///
/// # Errors
/// There is one.
pub(crate) fn refuse_clauses_of_query(statement: &CreateTable, span: Span) -> Result<(), SqlError> {
    let mut rest = CreateTable { query: None, ..statement.clone() };
    rest.columns.clear();
    if rest.table_options != CreateTableOptions::None || !rest.constraints.is_empty() {
        let message = "options and constraints are not supported in CREATE TABLE … AS";
        return Err(SqlError::unsupported(message).at(span));
    }
    refuse_clauses(&rest, span)
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

/// The supported part of a statement: an equal one has no other clause (`DDL-1`).
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

    use atoll::{Column, DataType, Database, DatabaseOptions};
    use sqlparser::ast::Statement;

    use super::*;
    use crate::error::SqlErrorKind;

    fn of(sql: &str) -> Result<Schema, SqlError> {
        match crate::parse::one(sql)? {
            Statement::CreateTable(create) => {
                Ok(defined(&create, (&|_| panic!("LIKE"), &|_| false), "t", Span::empty())?.schema)
            }
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
    fn indexes_have_the_names_that_they_were_given_or_postgresqls() {
        let sql = "CREATE TABLE t (a int PRIMARY KEY, B int UNIQUE, c int CONSTRAINT Mine UNIQUE,
            UNIQUE (b), UNIQUE (c, b), CONSTRAINT t_b_key1 UNIQUE (a), INDEX \"Second\" (c, a),
            INDEX again (c))";
        let Statement::CreateTable(create) = crate::parse::one(sql).unwrap() else { panic!() };
        let indexes = defined(&create, (&|_| panic!("LIKE"), &|_| false), "t", Span::empty())
            .unwrap()
            .indexes;
        let found: Vec<_> = indexes
            .iter()
            .map(|one| (one.name.as_str(), one.columns.join(" "), one.unique))
            .collect();
        let wanted = [
            ("t_b_key", "b", true),
            ("mine", "c", true),
            ("t_b_key2", "b", true),
            ("t_c_b_key", "c b", true),
            ("t_b_key1", "a", true),
            ("Second", "c a", false),
            ("again", "c", false),
        ];
        assert_eq!(found, wanted.map(|(name, columns, unique)| (name, columns.to_owned(), unique)));
    }

    #[test]
    fn an_index_of_columns_that_are_not_there_is_an_error() {
        for (clause, kind, at) in [
            ("UNIQUE (bb)", SqlErrorKind::UnknownColumn, (1, 51)),
            ("INDEX i (bb)", SqlErrorKind::UnknownColumn, (1, 52)),
            ("UNIQUE (b, b)", SqlErrorKind::Schema, (1, 54)),
        ] {
            let error = of(&format!("CREATE TABLE t (a int PRIMARY KEY, b int, {clause})"));
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.position()), (kind, Some(at)), "{clause}");
        }
        let (db, _folder) = database();
        let sql = "CREATE TABLE t (a int PRIMARY KEY, INDEX i (a), INDEX i (a))";
        assert_eq!(create(&db, sql).unwrap_err().kind(), SqlErrorKind::Schema);
        assert!(db.tables().is_empty());
    }

    #[test]
    fn what_is_not_carried_out_is_refused() {
        for sql in [
            "CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)",
            "CREATE TABLE t (a int, PRIMARY KEY (a) INITIALLY DEFERRED)",
            "CREATE TABLE t (a int, PRIMARY KEY (a DESC))",
            "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE DEFERRABLE)",
            "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE (b) DEFERRABLE)",
            "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE (b DESC))",
            "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE (b NULLS FIRST))",
            "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE (b + 1))",
            "CREATE TABLE t (a int PRIMARY KEY, b int, UNIQUE USING INDEX u)",
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

    fn options() -> DatabaseOptions {
        let memory_limit_bytes = Some(64 << 20);
        DatabaseOptions { nodes: Some(2), memory_limit_bytes, ..DatabaseOptions::default() }
    }

    /// A database in a folder with two nodes.
    fn database() -> (Database, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Database::open(folder.path(), options()).unwrap(), folder)
    }

    #[test]
    fn a_database_in_memory_has_no_tablespaces() {
        let db = Database::create(options()).unwrap();
        let error = create(&db, "CREATE TABLE t (a int PRIMARY KEY) TABLESPACE node1").unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::Unsupported);
        assert!(error.message().contains("no tablespaces"), "{error}");
        assert!(db.tables().is_empty());
        assert!(create(&db, "CREATE TABLE t (a int PRIMARY KEY)").unwrap());
    }

    fn create(db: &Database, sql: &str) -> Result<bool, SqlError> {
        match crate::parse::one(sql)? {
            Statement::CreateTable(statement) => {
                let scope = crate::scope::Scope::of(db)?;
                let interrupt = crate::interrupt::Interrupt::new(None, None, None);
                let binder = Binder { scope: &scope, interrupt: &interrupt };
                let Some(new) = new_table(&binder, &statement)? else { return Ok(false) };
                db.create_table_with(&new.name, new.schema, &new.options)?;
                Ok(true)
            }
            other => panic!("{other} is not CREATE TABLE"),
        }
    }

    #[test]
    fn a_table_goes_to_the_tablespace_that_is_named() {
        let (db, _folder) = database();
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
        let (db, _folder) = database();
        let sql = "CREATE TABLE tablespace (tablespace int PRIMARY KEY, node1 text)";
        assert!(create(&db, sql).unwrap());
        let table = db.table("tablespace").unwrap();
        assert_eq!(table.schema().columns()[0].name, "tablespace");
        assert_eq!(table.tablespace(), 0);
    }

    #[test]
    fn an_unknown_tablespace_is_answered_with_those_that_there_are() {
        let (db, _folder) = database();
        let sql = "CREATE TABLE t (id int PRIMARY KEY)\n  TABLESPACE node2";
        let error = create(&db, sql).unwrap_err();
        assert_eq!(error.kind(), SqlErrorKind::UnknownTablespace);
        assert_eq!(error.message(), "tablespace \"node2\" does not exist");
        assert_eq!(error.hint(), Some("the tablespaces are node0, node1"));
        assert_eq!(error.position(), Some((2, 14)));
        // SQLNAME-1: a quoted name is not folded.
        let error = create(&db, "CREATE TABLE t (a int PRIMARY KEY) TABLESPACE \"NODE1\"");
        assert_eq!(error.unwrap_err().kind(), SqlErrorKind::UnknownTablespace);
        assert!(db.tables().is_empty());
    }

    #[test]
    fn other_ways_to_write_a_tablespace_and_other_options_are_refused() {
        let (db, _folder) = database();
        for clause in [
            "TABLESPACE 'node1'",
            "TABLESPACE node1 STORAGE DISK",
            "TABLESPACE node0 TABLESPACE node1",
            "TABLESPACE node0, TABLESPACE node1",
            "COMMENT 'TABLESPACE node1'",
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
    fn a_schema_has_no_key_or_one() {
        assert!(of("CREATE TABLE t (a int)").unwrap().is_keyless());
        for sql in [
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
