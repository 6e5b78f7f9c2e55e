//! Queries: planned and run by DataFusion over the tables of one snapshot, or over the system.
//!
//! A running query holds the snapshot, and no lease outlives it unless the rows that it returned
//! still refer to the snapshot's bytes.

mod checked;
mod domains;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::catalog::CatalogProvider;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::sql::parser::Statement as PlannedStatement;
use sqlparser::ast::{ObjectName, Statement, visit_relations};

use self::domains::resolved;
pub(crate) use self::source::{Reading, Source};
use crate::engine::{Engine, Guards, NowIsAParameter, engine};
use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::limits::Account;
use crate::live::LiveCatalog;
use crate::names;
use crate::result::QueryResult;
use crate::rules::prepare;
use crate::stream::{Ahead, QueryStream, Work};
use crate::system::{self, System};
use crate::view::expand;
use crate::{clauses, depth, sequence, watch};

/// Longest wait for the threads of a failed query,
const GRACE: Duration = Duration::from_millis(20);
/// and between two looks at them.
const PAUSE: Duration = Duration::from_micros(100);

/// Runs a query to its end.
///
/// # Errors
/// Translated errors of DataFusion; anything but reading tables; a query that was cancelled or
/// exceeds the limits.
pub(crate) fn run(
    reading: &Reading<'_>,
    statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    run_on(&*engine()?, reading, statement, interrupt)
}

/// Starts a query. Its rows come as they are asked for, so it cannot begin again when a value
/// fails: it has guards from the start (`rules::guard`).
///
/// # Errors
/// As those of [`run`], where they are found by planning.
pub(crate) fn start(
    reading: &Reading<'_>,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryStream, SqlError> {
    let engine = engine()?;
    let start = |statement| {
        let ready = Ready::of(&engine, reading, statement, interrupt)?;
        let (account, how) = (Account::default(), (Guards::With, Ahead::Few));
        start_on(&engine, reading, &ready, (interrupt, &account), how)
    };
    match with_views(&mut statement, &reading.source)? {
        true => depth::with_room(|| start(statement)),
        false => start(statement),
    }
}

/// Puts the queries of views in their places; returns whether any was named.
fn with_views(statement: &mut Statement, source: &Source) -> Result<bool, SqlError> {
    if !expand::is_needed(statement, &|name| source.has_object(name)) {
        return Ok(false);
    }
    let find = |name: &str| source.view(name);
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
    let reads_system = system::reads_system(&statement);
    let system =
        system::is_used_apart_from_sequences(&mut statement).then(|| Arc::new(System::default()));
    if system.is_some() {
        System::rewrite(&mut statement)?;
    }
    check(engine, &mut statement, &catalog.known())?;
    let find = |name: &str| catalog.user_type(name);
    let mut functions = resolved(&mut statement, (&find, interrupt))?;
    let mut catalog: Arc<dyn CatalogProvider> = Arc::new(catalog);
    if let Some(system) = &system {
        functions.extend(system.functions_to_bind());
        catalog = Arc::new(system.beside(catalog));
    }
    let mut settings = engine.settings(catalog, Guards::Without);
    register(&mut settings, &functions)?;
    settings.add_analyzer_rule(Arc::new(NowIsAParameter));
    let plan = async move {
        let plan = logical(&settings, statement).await?;
        Ok(match reads_system {
            // It is described by this plan, and runs by another one.
            true => {
                settings.analyzer().execute_and_check(plan, settings.config_options(), |_, _| {})?
            }
            false => settings.optimize(&plan)?,
        })
    };
    engine.plan(plan, interrupt)
}

fn run_on(
    engine: &Engine,
    reading: &Reading<'_>,
    mut statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    match with_views(&mut statement, &reading.source)? {
        true => depth::with_room(|| run_plain(engine, reading, statement, interrupt)),
        false => run_plain(engine, reading, statement, interrupt),
    }
}

/// Runs a query that names no views.
fn run_plain(
    engine: &Engine,
    reading: &Reading<'_>,
    statement: Statement,
    interrupt: &Interrupt,
) -> Result<QueryResult, SqlError> {
    let ready = Ready::of(engine, reading, statement, interrupt)?;
    let attempt = |guards: Guards| {
        let (account, how) = (Account::default(), (guards, Ahead::All));
        start_on(engine, reading, &ready, (interrupt, &account), how)
            .and_then(QueryStream::collect)
            .inspect_err(|_| settle(&account))
    };
    match attempt(Guards::Without) {
        // A value may have failed for a row that another condition excludes (`rules::guard`).
        Err(error) if error.kind() == SqlErrorKind::Type => {
            attempt(Guards::With).map_err(|second| match second.kind() {
                SqlErrorKind::Cancelled => second,
                _ => error,
            })
        }
        result => result,
    }
}

/// A query that the planner can take.
struct Ready {
    statement: Statement,
    /// The functions that it has by itself.
    functions: Vec<ScalarUDF>,
    catalog: Arc<dyn CatalogProvider>,
}

impl Ready {
    fn of(
        engine: &Engine,
        reading: &Reading<'_>,
        mut statement: Statement,
        interrupt: &Interrupt,
    ) -> Result<Self, SqlError> {
        let (source, mut catalog) = (&reading.source, reading.source.catalog());
        let mut functions = Vec::new();
        if system::is_used_apart_from_sequences(&mut statement) {
            System::rewrite(&mut statement)?;
            let (definitions, around) = (source.definitions()?, (reading.around)());
            let system = Arc::new(System { definitions, around });
            functions = system.functions();
            catalog = Arc::new(system.beside(catalog));
        }
        check(engine, &mut statement, &source.tables())?;
        let find = |name: &str| source.user_type(name);
        functions.extend(resolved(&mut statement, (&find, interrupt))?);
        Ok(Self { statement, functions, catalog })
    }
}

/// Plans a query and starts it.
fn start_on(
    engine: &Engine,
    reading: &Reading<'_>,
    ready: &Ready,
    (interrupt, account): (&Interrupt, &Account),
    (guards, ahead): (Guards, Ahead),
) -> Result<QueryStream, SqlError> {
    let mut settings = engine.settings(Arc::clone(&ready.catalog), guards);
    register(&mut settings, &ready.functions)?;
    let context = Arc::new(account.context(&settings));
    let (asking, statement) = (sequence::context::current(), ready.statement.clone());
    let planning = async move {
        sequence::context::set(asking.as_ref());
        let plan = logical(&settings, statement).await?;
        Ok(settings.create_physical_plan(&plan).await?)
    };
    let plan = engine.plan(planning, interrupt)?;
    // One of its own: an attempt that has ended does not end the next one.
    let flag = Arc::default();
    let plan = watch::joins(plan, &flag)?;
    let work = Work { plan, context, snapshot: reading.source.snapshot(), flag };
    Ok(QueryStream::start(engine.threads(), work, interrupt.clone(), ahead))
}

/// Makes functions known to the planner of one query.
fn register(settings: &mut SessionState, functions: &[ScalarUDF]) -> Result<(), SqlError> {
    for function in functions {
        settings.register_udf(Arc::new(function.clone()))?;
    }
    Ok(())
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
    use crate::system::Around;

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
        let reading = Reading { source: Source::Snapshot(snapshot), around: &Around::default };
        let run = |sql: &str| {
            run_on(&engine, &reading, crate::parse::one(sql).unwrap(), &Interrupt::default())
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
