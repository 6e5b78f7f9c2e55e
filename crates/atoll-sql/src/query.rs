//! Queries: planned and run by DataFusion over the tables of one snapshot.
//!
//! A statement lends an engine a snapshot and takes it back, so that no lease outlives its
//! statement unless the result still refers to its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use arrow_schema::Field;
use atoll::Snapshot;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as PlannedStatement;
use futures::StreamExt;
use sqlparser::ast::{ObjectName, Statement, visit_relations};
use tokio::runtime::{Builder, Runtime};

use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, NoAnswer};
use crate::limits::{self, Ledger};
use crate::live::LiveCatalog;
use crate::names::{self, CATALOG, SCHEMA};
use crate::output_names;
use crate::provider::SnapshotCatalog;
use crate::result::QueryResult;
use crate::rules::analyze::Analyzer;
use crate::rules::quoted::QuotedLiterals;
use crate::rules::subqueries::Subqueries;
use crate::rules::temporal::{Now, TIMESTAMP, TypeNames};
use crate::rules::{extreme, grouped, merging, prepare, quantified, sum};
use crate::short::compile::expr::NOW;
use crate::{clauses, depth, panics, query_error, watch};

/// Longest wait for the threads of a failed query,
const GRACE: Duration = Duration::from_millis(20);
/// and between two looks at them.
const PAUSE: Duration = Duration::from_micros(100);

/// A planner and the threads of its queries.
pub(crate) struct Engine {
    context: SessionContext,
    runtime: Option<Runtime>,
    /// Whether a cancelled query has threads that have not noticed yet.
    is_busy: AtomicBool,
    /// Whether a query has panicked, which may have left the engine half changed.
    is_broken: AtomicBool,
}

impl Engine {
    /// An engine with a thread for each CPU that the process may use.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new() -> Result<Self, SqlError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let fault = |what: String| SqlError::new(SqlErrorKind::Database, what);
        panics::keep_quiet();
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            // Plans are made there, deep ones too (`DEPTH-2`).
            .thread_stack_size(depth::STACK_BYTES)
            .thread_name(panics::THREADS)
            .build()
            .map_err(|error| fault(format!("no threads could be started for queries: {error}")))?;
        let mut config = SessionConfig::new()
            .with_target_partitions(threads)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA);
        // DataFusion's two kinds of plans do not always agree on what may be NULL, which harms
        // nothing.
        config.options_mut().execution.skip_physical_aggregate_schema_check = true;
        let parser = &mut config.options_mut().sql_parser;
        parser.collect_spans = true;
        // As in PostgreSQL, 0.1 is exactly one tenth.
        parser.parse_float_as_decimal = true;
        // SQL-1: a query uses the file system for spilling only.
        let environment = limits::environment()?;
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment)
            .with_default_features()
            .with_analyzer_rules(analyzers(false))
            .with_physical_optimizer_rules(physical_rules())
            .with_type_planner(Arc::new(TypeNames))
            .build();
        state.register_expr_planner(Arc::new(QuotedLiterals))?;
        for aggregate in sum::aggregates().into_iter().chain(extreme::aggregates()) {
            state.register_udaf(Arc::new(aggregate))?;
        }
        let ours = merging::functions().into_iter().chain(quantified::functions());
        for function in ours.chain([ScalarUDF::from(Now::new()), grouped::function()]) {
            state.register_udf(Arc::new(function))?;
        }
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::empty()));
        let (is_busy, is_broken) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { context, runtime: Some(runtime), is_busy, is_broken })
    }

    /// Whether a query has panicked on it.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Whether a function of this name works on single values.
    fn is_scalar(&self, name: &str) -> bool {
        let state = self.context.state();
        state.scalar_functions().contains_key(name)
            && !state.aggregate_functions().contains_key(name)
            && !state.window_functions().contains_key(name)
    }

    /// Whether it still works on a query that was ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Runs a query on a snapshot.
    ///
    /// # Errors
    /// Translated errors of DataFusion; anything but reading tables; a query that was cancelled or
    /// exceeds the limits.
    pub(crate) fn run(
        &self,
        snapshot: &Snapshot,
        mut statement: Statement,
        interrupt: &Interrupt,
    ) -> Result<QueryResult, SqlError> {
        self.check(&mut statement, &snapshot.tables())?;
        self.context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::of(snapshot.clone())));
        let query = collect(self.context.state(), statement, snapshot.clone(), interrupt.flag());
        let result = self.wait(query, interrupt);
        self.context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::empty()));
        result
    }

    /// Checks a query that may name these tables, and prepares it for the planner.
    fn check(&self, statement: &mut Statement, tables: &[String]) -> Result<(), SqlError> {
        clauses::check(statement, &|name| self.is_scalar(name))?;
        prepare::statement(statement)?;
        check_tables(statement, tables)
    }

    /// Plans and optimizes a query over the tables of a live database.
    ///
    /// # Errors
    /// Those of the query; anything but reading tables; a statement that was cancelled.
    pub(crate) fn bind(
        &self,
        catalog: LiveCatalog,
        mut statement: Statement,
        interrupt: &Interrupt,
    ) -> Result<LogicalPlan, SqlError> {
        self.check(&mut statement, &catalog.known())?;
        self.context.register_catalog(CATALOG, Arc::new(catalog));
        let mut rules = analyzers(false);
        rules.push(Arc::new(NowIsAParameter));
        let state = SessionStateBuilder::new_from_existing(self.context.state())
            .with_analyzer_rules(rules)
            .build();
        let plan = async move { Ok(state.optimize(&logical(&state, statement).await?)?) };
        let plan = self.wait(plan, interrupt);
        self.context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::empty()));
        plan
    }

    /// Waits for a query, which runs on the engine's threads.
    fn wait<R: Send + 'static>(
        &self,
        query: impl Future<Output = Result<R, SqlError>> + Send + 'static,
        interrupt: &Interrupt,
    ) -> Result<R, SqlError> {
        let Some(runtime) = &self.runtime else {
            return Err(SqlError::new(SqlErrorKind::Database, "the session has ended"));
        };
        let (answer, answers) = sync_channel(1);
        let task = runtime.spawn(async move {
            let result = query.await;
            // A query that was ended has no receiver any more.
            let _ = answer.send(result);
        });
        let result = match interrupt.wait(&answers) {
            Ok(result) => result,
            Err(NoAnswer::Gone) => {
                self.is_broken.store(true, Ordering::Relaxed);
                Err(query_error::fault())
            }
            Err(NoAnswer::Cancelled) => {
                task.abort();
                Err(interrupt.error())
            }
        };
        match result {
            Ok(result) => Ok(result),
            Err(error) => {
                self.settle(runtime);
                // A thread of the query that has noticed does not know why.
                let is_cancelled = error.kind() == SqlErrorKind::Cancelled;
                Err(if is_cancelled { interrupt.error() } else { error })
            }
        }
    }

    /// Waits a moment for the threads of a failed query, which then return its memory.
    fn settle(&self, runtime: &Runtime) {
        let begin = Instant::now();
        let is_busy = loop {
            match runtime.metrics().num_alive_tasks() {
                0 => break false,
                _ if begin.elapsed() > GRACE => break true,
                _ => std::thread::sleep(PAUSE),
            }
        };
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

async fn collect(
    state: SessionState,
    statement: Statement,
    snapshot: Snapshot,
    flag: Option<Arc<AtomicBool>>,
) -> Result<QueryResult, SqlError> {
    let (snapshot, flag) = (&snapshot, flag.as_ref());
    let first = collect_with(&state, statement.clone(), snapshot, flag).await;
    match first {
        // A value may have failed for a row that another condition excludes (`rules::guard`).
        Err(error) if error.kind() == SqlErrorKind::Type => {
            let guarded = SessionStateBuilder::new_from_existing(state)
                .with_analyzer_rules(analyzers(true))
                .build();
            collect_with(&guarded, statement, snapshot, flag).await.map_err(|_| error)
        }
        result => result,
    }
}

async fn collect_with(
    state: &SessionState,
    statement: Statement,
    snapshot: &Snapshot,
    flag: Option<&Arc<AtomicBool>>,
) -> Result<QueryResult, SqlError> {
    let mut plan = physical(state, statement).await?;
    if let Some(flag) = flag {
        plan = watch::joins(plan, flag)?;
    }
    let schema = output_names::shown_schema(&plan.schema());
    let context = Arc::new(limits::context(state));
    let mut ledger = Ledger::new(snapshot.clone(), &context);
    let mut stream = execute_stream(plan, context)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        ledger.add(&batch)?;
        batches.push(output_names::shown_batch(batch)?);
    }
    Ok(QueryResult::of_batches(schema, batches, ledger.close()))
}

async fn physical(
    state: &SessionState,
    statement: Statement,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    Ok(state.create_physical_plan(&logical(state, statement).await?).await?)
}

async fn logical(state: &SessionState, statement: Statement) -> Result<LogicalPlan, SqlError> {
    let statement = PlannedStatement::Statement(Box::new(statement));
    let plan = state.statement_to_plan(statement).await?;
    // SQL-1.
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(&plan)?;
    Ok(plan)
}

/// The rule that makes a parameter of `now()`, so that a plan can be kept for later transactions.
#[derive(Debug)]
struct NowIsAParameter;

impl AnalyzerRule for NowIsAParameter {
    fn name(&self) -> &str {
        "now_is_a_parameter"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let parameter = |expr: Expr| match &expr {
            Expr::ScalarFunction(call) if call.func.name() == "now" => {
                let field = Some(Arc::new(Field::new(NOW, TIMESTAMP, true)));
                let now = Placeholder::new_with_field(NOW.to_owned(), field);
                Ok(Transformed::yes(Expr::Placeholder(now)))
            }
            _ => Ok(Transformed::no(expr)),
        };
        let node = |node: LogicalPlan| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(parameter)?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        };
        Ok(plan.transform_up_with_subqueries(node)?.data)
    }
}

/// DataFusion's rules for physical plans, without filter pushdown: it confuses columns of a join
/// with those of its input that have the same name (DataFusion 55, its issue 25296), and the rules
/// for logical plans have pushed filters down already.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    rules
}

/// The rules that give expressions their types: ours come before the coercion of DataFusion, which
/// then has little left to do.
fn analyzers(guards: bool) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(Subqueries),
        Arc::new(Analyzer { guards }),
        Arc::new(TypeCoercion::new()),
    ]
}

impl Drop for Engine {
    /// Detaches the threads without waiting, which is permitted everywhere.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
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

    /// A function that panics for each value, in the planner for a constant and in a thread of the
    /// engine for the values of a table.
    #[test]
    fn a_query_that_panics_is_an_error() {
        let engine = Engine::new().unwrap();
        let panicking = |_: &[ColumnarValue]| panic!("on purpose");
        for volatility in [Volatility::Immutable, Volatility::Volatile] {
            let (name, types) = (format!("{volatility:?}"), vec![DataType::Int64]);
            let function =
                create_udf(&name, types, DataType::Int64, volatility, Arc::new(panicking));
            engine.context.register_udf(function);
        }
        let snapshot = Database::create(DatabaseOptions::default()).unwrap().snapshot().unwrap();
        let run = |sql: &str| {
            engine.run(&snapshot, crate::parse::one(sql).unwrap(), &Interrupt::default())
        };
        for sql in [
            "SELECT \"Immutable\"(1)",
            "SELECT \"Volatile\"(1)",
            "SELECT sum(\"Volatile\"(a)) FROM generate_series(1, 100000) AS g(a) GROUP BY a % 7",
        ] {
            assert!(!engine.is_broken() || sql.contains("Volatile"));
            assert_eq!(run(sql).unwrap_err(), query_error::fault(), "{sql}");
            assert!(engine.is_broken(), "{sql}");
        }
        assert_eq!(run("SELECT 1").unwrap().row_count(), 1);
    }
}
