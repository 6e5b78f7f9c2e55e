//! Queries: planned and run by DataFusion over the tables of one snapshot.
//!
//! A running query holds the snapshot, and no lease outlives it unless the rows that it returned
//! still refer to the snapshot's bytes.

mod checked;
mod domains;

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll::Snapshot;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::sql::parser::Statement as PlannedStatement;
use sqlparser::ast::{ObjectName, Statement, visit_relations};

use self::domains::resolved;
use crate::engine::{Engine, Guards, NowIsAParameter, engine};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::limits::Account;
use crate::live::LiveCatalog;
use crate::names;
use crate::provider::SnapshotCatalog;
use crate::result::QueryResult;
use crate::rules::prepare;
use crate::stream::{Ahead, QueryStream, Work};
use crate::user_types::UserType;
use crate::view::{View, expand};
use crate::{clauses, depth, sequence, watch};

/// Longest wait for the threads of a failed query,
const GRACE: Duration = Duration::from_millis(20);
/// and between two looks at them.
const PAUSE: Duration = Duration::from_micros(100);

/// Runs a query on a snapshot, to its end.
///
/// # Errors
/// Translated errors of DataFusion; anything but reading tables; a query that was cancelled or
/// exceeds the limits.
pub(crate) fn run(
    snapshot: &Snapshot,
    statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    run_on(&*engine()?, snapshot, statement, interrupt)
}

/// Starts a query on a snapshot. Its rows come as they are asked for, so it cannot begin again when
/// a value fails: it has guards from the start (`rules::guard`).
///
/// # Errors
/// As those of [`run`], where they are found by planning.
pub(crate) fn start(
    snapshot: &Snapshot,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryStream, SqlError> {
    let engine = engine()?;
    let start = |mut statement| {
        check(&engine, &mut statement, &snapshot.tables())?;
        let find = |name: &str| type_in(snapshot, name);
        let rules = resolved(&mut statement, (&find, interrupt))?;
        let (account, how) = (Account::default(), (Guards::With, Ahead::Few));
        start_on(&engine, snapshot, (statement, &rules), (interrupt, &account), how)
    };
    match with_views(&mut statement, snapshot)? {
        true => depth::with_room(|| start(statement)),
        false => start(statement),
    }
}

/// Puts the queries of a snapshot's views in their places; returns whether it named any.
fn with_views(statement: &mut Statement, snapshot: &Snapshot) -> Result<bool, SqlError> {
    if !expand::is_needed(statement, &|name| snapshot.object(name).is_some()) {
        return Ok(false);
    }
    let find = |name: &str| match snapshot.object(name) {
        Some(object) => View::of(object.schema()),
        None => Ok(None),
    };
    depth::with_room(|| expand::statement(statement, &find)).map(|()| true)
}

/// Plans and optimizes a query over the tables of a live database.
///
/// # Errors
/// Those of the query; anything but reading tables; a statement that was cancelled.
pub(crate) fn bind(
    catalog: LiveCatalog,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<LogicalPlan, SqlError> {
    let engine = engine()?;
    if !expand::is_needed(&statement, &|name| catalog.has_object(name)) {
        return bind_plain(&engine, catalog, statement, interrupt);
    }
    depth::with_room(|| {
        expand::statement(&mut statement, &|name| catalog.view(name))?;
        bind_plain(&engine, catalog, statement, interrupt)
    })
}

/// Plans a query that names no views.
fn bind_plain(
    engine: &Engine,
    catalog: LiveCatalog,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<LogicalPlan, SqlError> {
    check(engine, &mut statement, &catalog.known())?;
    let find = |name: &str| catalog.user_type(name);
    let rules = resolved(&mut statement, (&find, interrupt))?;
    let mut settings = engine.settings(Arc::new(catalog), Guards::Without);
    register(&mut settings, &rules)?;
    settings.add_analyzer_rule(Arc::new(NowIsAParameter));
    let plan = async move { Ok(settings.optimize(&logical(&settings, statement).await?)?) };
    engine.plan(plan, interrupt)
}

fn run_on(
    engine: &Engine,
    snapshot: &Snapshot,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    match with_views(&mut statement, snapshot)? {
        true => depth::with_room(|| run_plain(engine, snapshot, statement, interrupt)),
        false => run_plain(engine, snapshot, statement, interrupt),
    }
}

/// Runs a query that names no views.
fn run_plain(
    engine: &Engine,
    snapshot: &Snapshot,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    check(engine, &mut statement, &snapshot.tables())?;
    let rules = resolved(&mut statement, (&|name| type_in(snapshot, name), interrupt))?;
    let attempt = |statement: Statement, guards: Guards| {
        let (account, how) = (Account::default(), (guards, Ahead::All));
        start_on(engine, snapshot, (statement, &rules), (interrupt, &account), how)
            .and_then(QueryStream::collect)
            .inspect_err(|_| settle(&account))
    };
    match attempt(statement.clone(), Guards::Without) {
        // A value may have failed for a row that another condition excludes (`rules::guard`).
        Err(error) if error.kind() == SqlErrorKind::Type => attempt(statement, Guards::With)
            .map_err(|second| match second.kind() {
                SqlErrorKind::Cancelled => second,
                _ => error,
            }),
        result => result,
    }
}

/// Plans a query and starts it.
fn start_on(
    engine: &Engine,
    snapshot: &Snapshot,
    (statement, rules): (Statement, &[ScalarUDF]),
    (interrupt, account): (&Interrupt, &Account),
    (guards, ahead): (Guards, Ahead),
) -> Result<QueryStream, SqlError> {
    let catalog = Arc::new(SnapshotCatalog::of(snapshot.clone()));
    let mut settings = engine.settings(catalog, guards);
    register(&mut settings, rules)?;
    let context = Arc::new(account.context(&settings));
    let asking = sequence::context::current();
    let planning = async move {
        sequence::context::set(asking.as_ref());
        let plan = logical(&settings, statement).await?;
        Ok(settings.create_physical_plan(&plan).await?)
    };
    let plan = engine.plan(planning, interrupt)?;
    // One of its own: an attempt that has ended does not end the next one.
    let flag = Arc::default();
    let plan = watch::joins(plan, &flag)?;
    let work = Work { plan, context, snapshot: snapshot.clone(), flag };
    Ok(QueryStream::start(engine.threads(), work, interrupt.clone(), ahead))
}

/// Makes functions known to the planner of one query.
fn register(settings: &mut SessionState, functions: &[ScalarUDF]) -> Result<(), SqlError> {
    for function in functions {
        settings.register_udf(Arc::new(function.clone()))?;
    }
    Ok(())
}

/// The type of a name in a snapshot.
fn type_in(snapshot: &Snapshot, name: &str) -> Result<Option<UserType>, SqlError> {
    snapshot.object(name).map_or(Ok(None), |object| UserType::of(name, object.schema()))
}

/// Waits a moment for the threads of a failed query, which then return its memory.
fn settle(account: &Account) {
    let begin = Instant::now();
    while account.bytes() > 0 && begin.elapsed() < GRACE {
        std::thread::sleep(PAUSE);
    }
}

/// Checks a query that may name these tables, and prepares it for the planner.
fn check(engine: &Engine, statement: &mut Statement, tables: &[String]) -> Result<(), SqlError> {
    clauses::check(statement, &|name| engine.is_scalar(name))?;
    prepare::statement(statement)?;
    check_tables(statement, tables)
}

async fn logical(settings: &SessionState, statement: Statement) -> Result<LogicalPlan, SqlError> {
    let statement = PlannedStatement::Statement(Box::new(statement));
    let plan = settings.statement_to_plan(statement).await?;
    // SQL-1.
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)?;
    Ok(plan)
}

/// Checks the tables that a query names, for better messages than those of the planner.
fn check_tables(statement: &Statement, known: &[String]) -> Result<(), SqlError> {
    let local = common_table_names(statement);
    let found = visit_relations(statement, |name: &ObjectName| {
        let unknown = match names::table_name(name) {
            Ok((table, span)) if !known.contains(&table) && !local.contains(&table) => {
                // A function that makes a table looks the same; the planner knows them.
                Some((table, span)).filter(|(table, _)| !is_function(table))
            }
            Err(error) if error.kind() != SqlErrorKind::UnknownTable => {
                return std::ops::ControlFlow::Break(error);
            }
            _ => None,
        };
        match unknown {
            Some((table, span)) => {
                std::ops::ControlFlow::Break(names::unknown_table(&table, known).at(span))
            }
            None => std::ops::ControlFlow::Continue(()),
        }
    });
    match found {
        std::ops::ControlFlow::Break(error) => Err(error),
        std::ops::ControlFlow::Continue(()) => Ok(()),
    }
}

fn is_function(name: &str) -> bool {
    matches!(name, "generate_series" | "range" | "unnest")
}

/// Names that `WITH` gives to queries anywhere in a statement.
fn common_table_names(statement: &Statement) -> Vec<String> {
    struct Names(Vec<String>);
    impl sqlparser::ast::Visitor for Names {
        type Break = ();
        fn pre_visit_query(&mut self, query: &sqlparser::ast::Query) -> std::ops::ControlFlow<()> {
            if let Some(with) = &query.with {
                self.0.extend(with.cte_tables.iter().map(|cte| names::fold(&cte.alias.name)));
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut found = Names(Vec::new());
    // The visitor never breaks off.
    let _ = sqlparser::ast::Visit::visit(statement, &mut found);
    found.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use arrow_schema::DataType;
    use atoll::{Database, DatabaseOptions};
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};

    use super::*;
    use crate::query_error;

    /// A function that panics for each value, in the planner for a constant and in a thread of the
    /// engine for the values of a table. The queries beside it and behind it go on.
    #[test]
    fn a_query_that_panics_is_an_error() {
        let panicking = |_: &[ColumnarValue]| panic!("on purpose");
        let functions = [Volatility::Immutable, Volatility::Volatile].map(|volatility| {
            let (name, types) = (format!("{volatility:?}"), vec![DataType::Int64]);
            create_udf(&name, types, DataType::Int64, volatility, Arc::new(panicking))
        });
        let engine = Engine::with_functions(functions).unwrap();
        let snapshot = Database::create(DatabaseOptions::default()).unwrap().snapshot().unwrap();
        let run = |sql: &str| {
            run_on(&engine, &snapshot, crate::parse::one(sql).unwrap(), &Interrupt::default())
        };
        for sql in [
            "SELECT \"Immutable\"(1)",
            "SELECT \"Volatile\"(1)",
            "SELECT sum(\"Volatile\"(a)) FROM generate_series(1, 100000) AS g(a) GROUP BY a % 7",
        ] {
            assert_eq!(run(sql).unwrap_err(), query_error::fault(), "{sql}");
            assert_eq!(run("SELECT 1").unwrap().row_count(), 1);
        }
    }
}
