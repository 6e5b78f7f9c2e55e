//! Queries: planned and run by DataFusion over the tables of one snapshot.
//!
//! The engine is made once for a session; a statement lends it a snapshot and takes it back, so
//! that no lease outlives its statement unless the result still refers to its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use atoll::Snapshot;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as PlannedStatement;
use sqlparser::ast::{ObjectName, Statement, visit_relations};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{SqlError, SqlErrorKind};
use crate::names::{self, CATALOG, SCHEMA};
use crate::provider::SnapshotCatalog;
use crate::rules::analyze::Analyzer;
use crate::rules::operands::QuotedLiterals;
use crate::rules::temporal::{Now, TypeNames};
use crate::rules::{extreme, merging, prepare, sum};
use crate::{clauses, panics, wording};

/// What a query returned. Its buffers may be the snapshot's; they keep the snapshot's lease.
#[derive(Debug, Clone)]
pub struct QueryResult {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl QueryResult {
    /// One row with one text.
    pub(crate) fn of_text(column: &str, text: &str) -> Self {
        let field = Field::new(column, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let text = Arc::new(StringArray::from(vec![text]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![text]);
        Self { schema, batches: vec![batch.expect("the column is the schema's")] }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The rows.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The rows, given away.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The planner and the threads of a session's queries.
pub(crate) struct Engine {
    context: SessionContext,
    runtime: Option<Runtime>,
    broken: AtomicBool,
}

impl Engine {
    /// An engine with a thread for each CPU that the process may use.
    ///
    /// # Errors
    /// No thread could be had.
    pub(crate) fn new() -> Result<Self, SqlError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let fault = |what: String| SqlError::new(SqlErrorKind::Database, what);
        panics::keep_quiet();
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
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
        // SQL-1: a query has no business in the file system, not even to spill.
        let environment = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()?;
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
        for function in merging::functions().into_iter().chain([ScalarUDF::from(Now::new())]) {
            state.register_udf(Arc::new(function))?;
        }
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::empty()));
        Ok(Self { context, runtime: Some(runtime), broken: AtomicBool::new(false) })
    }

    /// Runs a query on a snapshot.
    ///
    /// # Errors
    /// What DataFusion finds wrong with it, translated; anything but reading tables.
    pub(crate) fn run(
        &self,
        snapshot: &Snapshot,
        mut statement: Statement,
    ) -> Result<QueryResult, SqlError> {
        clauses::check(&mut statement, &|name| self.is_scalar(name))?;
        prepare::statement(&mut statement)?;
        check_tables(&statement, snapshot)?;
        self.context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::of(snapshot.clone())));
        let result = self.block_on(self.collect(statement));
        self.context.register_catalog(CATALOG, Arc::new(SnapshotCatalog::empty()));
        result
    }

    /// Whether a function of this name works on single values.
    fn is_scalar(&self, name: &str) -> bool {
        let state = self.context.state();
        state.scalar_functions().contains_key(name)
            && !state.aggregate_functions().contains_key(name)
            && !state.window_functions().contains_key(name)
    }

    /// Whether a query has panicked, which may have left the engine half changed.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    async fn physical(
        &self,
        state: &SessionState,
        statement: Statement,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let statement = PlannedStatement::Statement(Box::new(statement));
        let plan = state.statement_to_plan(statement).await?;
        // SQL-1.
        SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false)
            .verify_plan(&plan)?;
        Ok(state.create_physical_plan(&plan).await?)
    }

    async fn collect(&self, statement: Statement) -> Result<QueryResult, SqlError> {
        let state = self.context.state();
        let first = self.collect_with(&state, statement.clone()).await;
        match first {
            // A value may have failed for a row that another condition excludes (`rules::guard`).
            Err(error) if error.kind() == SqlErrorKind::Type => {
                let guarded = SessionStateBuilder::new_from_existing(state)
                    .with_analyzer_rules(analyzers(true))
                    .build();
                self.collect_with(&guarded, statement).await.map_err(|_| error)
            }
            result => result,
        }
    }

    async fn collect_with(
        &self,
        state: &SessionState,
        statement: Statement,
    ) -> Result<QueryResult, SqlError> {
        let plan = self.physical(state, statement).await?;
        let schema = plan.schema();
        let batches = collect(plan, state.task_ctx()).await?;
        Ok(QueryResult { schema, batches })
    }

    /// Waits for a query, also when the caller is itself inside a runtime.
    fn block_on<R: Send>(
        &self,
        future: impl Future<Output = Result<R, SqlError>> + Send,
    ) -> Result<R, SqlError> {
        let Some(runtime) = &self.runtime else {
            return Err(SqlError::new(SqlErrorKind::Database, "the session has ended"));
        };
        let run = || panics::caught(|| runtime.block_on(future));
        let done = if Handle::try_current().is_err() {
            run()
        } else {
            // A runtime's own thread must not wait for another; a thread of ours may.
            std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or(None)
        };
        done.unwrap_or_else(|| {
            self.broken.store(true, Ordering::Relaxed);
            Err(wording::fault())
        })
    }
}

/// DataFusion's rules for physical plans, without those that push filters down: they take columns
/// of a join for those of its input that have the same name (DataFusion 55, its issue 25296), and
/// what can be pushed has been pushed by the rules for logical plans.
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
        Arc::new(Analyzer { guards }),
        Arc::new(TypeCoercion::new()),
    ]
}

impl Drop for Engine {
    /// Lets go of the threads without waiting, which is allowed everywhere.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Checks the tables that a query names, to say better what is wrong than the planner would.
fn check_tables(statement: &Statement, snapshot: &Snapshot) -> Result<(), SqlError> {
    let known = snapshot.tables();
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
                std::ops::ControlFlow::Break(names::unknown_table(&table, &known).at(span))
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
        let run = |sql: &str| engine.run(&snapshot, crate::parse::one(sql).unwrap());
        for sql in [
            "SELECT \"Immutable\"(1)",
            "SELECT \"Volatile\"(1)",
            "SELECT sum(\"Volatile\"(a)) FROM generate_series(1, 100000) AS g(a) GROUP BY a % 7",
        ] {
            assert!(!engine.is_broken() || sql.contains("Volatile"));
            assert_eq!(run(sql).unwrap_err(), wording::fault(), "{sql}");
            assert!(engine.is_broken(), "{sql}");
        }
        assert_eq!(run("SELECT 1").unwrap().row_count(), 1);
    }
}
