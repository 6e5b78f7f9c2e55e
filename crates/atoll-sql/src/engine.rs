//! What the queries of a process share: the settings of the planner, and one set of threads.
//!
//! A query is planned on a thread of its own, since planning neither yields nor ends early, and
//! runs beside the other queries on little more than one thread for each CPU.
//!
//! - `ENGINE-1`: nothing in here changes after it was made. What belongs to one query (its tables,
//!   its account of memory) is in a copy of the settings.
//! - `ENGINE-2`: a forked child does not use its parent's engine, because the threads do not exist
//!   there. No fork begins while one is made, so a child can make its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::Field;
use atoll::machine::fork::{self, Here};
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProviderList};
use datafusion::common::Result as DataFusionResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{
    FunctionRegistry, SessionState, SessionStateBuilder, SessionStateDefaults,
};
use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{SqlError, SqlErrorKind};
use crate::interrupt::{Interrupt, NoAnswer};
use crate::names::CATALOG;
use crate::rules::analyze::Analyzer;
use crate::rules::decorrelate::{Decorrelate, Planner};
use crate::rules::quoted::QuotedLiterals;
use crate::rules::rowless::Rowless;
use crate::rules::series::Series;
use crate::rules::subqueries::Subqueries;
use crate::rules::temporal::{AnyTrunc, Now, TypeNames};
use crate::rules::{
    array_query, at_zone, enums, extreme, functions, grouped, merging, quantified, ranked, spread,
    sum, temporal,
};
use crate::schemas::PUBLIC;
use crate::sequence::context;
use crate::short::compile::expr::NOW;
use crate::{depth, limits, panics, query_error, zone};

/// Threads beside one for each CPU.
const SPARE_THREADS: usize = 2;

/// See the module.
pub(crate) struct Engine {
    /// The settings of queries.
    plain: SessionState,
    /// The same, with operands that are computed only where they count (`rules::guard`).
    guarded: SessionState,
    runtime: Runtime,
}

/// Whether operands are computed only for the rows for which they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guards {
    With,
    Without,
}

/// The engine of this process.
///
/// # Errors
/// Its threads cannot be started.
pub(crate) fn engine() -> Result<Arc<Engine>, SqlError> {
    static ENGINE: Mutex<Option<Here<Arc<Engine>>>> = Mutex::new(None);
    let _no_fork = fork::delay();
    let mut shared = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = shared.as_ref().filter(|engine| engine.mark().is_here()) {
        return Ok(Arc::clone(engine));
    }
    let engine = Arc::new(Engine::new()?);
    *shared = Some(Here::new(Arc::clone(&engine)));
    Ok(engine)
}

impl Engine {
    fn new() -> Result<Self, SqlError> {
        Self::with_functions([])
    }

    /// An engine with further functions.
    pub(crate) fn with_functions(
        functions: impl IntoIterator<Item = ScalarUDF>,
    ) -> Result<Self, SqlError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let fault = |what: String| SqlError::new(SqlErrorKind::Database, what);
        panics::keep_quiet();
        let runtime = Builder::new_multi_thread()
            // A query that was ended may keep a thread for a while, if it does not yield; the
            // others go on meanwhile. The parts of a query are as many as CPUs.
            .worker_threads(threads + SPARE_THREADS)
            // Plans are made there, deep ones too (`DEPTH-2`).
            .thread_stack_size(depth::STACK_BYTES)
            .thread_name(panics::THREADS)
            .build()
            .map_err(|error| fault(format!("no threads could be started for queries: {error}")))?;
        let mut plain = settings(threads)?;
        for function in functions {
            plain.register_udf(Arc::new(function))?;
        }
        let guarded = SessionStateBuilder::new_from_existing(plain.clone())
            .with_analyzer_rules(analyzers(Guards::With))
            .build();
        Ok(Self { plain, guarded, runtime })
    }

    /// Whether a function of this name works on single values.
    pub(crate) fn is_scalar(&self, name: &str) -> bool {
        self.plain.scalar_functions().contains_key(name)
            && !self.plain.aggregate_functions().contains_key(name)
            && !self.plain.window_functions().contains_key(name)
    }

    /// The settings for a query over the tables of a catalog.
    pub(crate) fn settings(
        &self,
        catalog: Arc<dyn CatalogProvider>,
        guards: Guards,
    ) -> SessionState {
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), catalog);
        let mut settings = match guards {
            Guards::With => self.guarded.clone(),
            Guards::Without => self.plain.clone(),
        };
        settings.register_catalog_list(Arc::new(catalogs));
        settings.mark_start_execution();
        settings
    }

    /// The threads of queries.
    pub(crate) fn threads(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Plans on a thread of its own, which a statement that is ended leaves behind.
    ///
    /// # Errors
    /// Those of `planning`; a panic in it; the statement was cancelled.
    pub(crate) fn plan<R: Send + 'static>(
        &self,
        planning: impl Future<Output = Result<R, SqlError>> + Send + 'static,
        interrupt: &Interrupt,
    ) -> Result<R, SqlError> {
        let (answer, answers) = sync_channel(1);
        let handle = self.threads().clone();
        let zone = zone::current();
        let work = move || {
            zone::set(zone);
            // A bound statement is not one of a session.
            context::set(None);
            let planned = handle.block_on(planning);
            context::set(None);
            // A statement that was ended has no receiver any more.
            let _ = answer.send(planned);
        };
        // It panics where no thread can be started; nothing of the engine is left half changed.
        let begun = catch_unwind(AssertUnwindSafe(|| self.runtime.spawn_blocking(work)));
        if begun.is_err() {
            let message = "no thread could be started to plan the query";
            return Err(SqlError::new(SqlErrorKind::Database, message)
                .with_hint(Some("allow the process more threads".to_owned())));
        }
        match interrupt.wait(&answers) {
            Ok(plan) => plan,
            Err(NoAnswer::Gone) => Err(query_error::fault()),
            Err(NoAnswer::Cancelled) => Err(interrupt.error()),
        }
    }
}

fn settings(threads: usize) -> Result<SessionState, SqlError> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, PUBLIC);
    // DataFusion's two kinds of plans do not always agree on what may be NULL, which harms
    // nothing.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    let parser = &mut config.options_mut().sql_parser;
    parser.collect_spans = true;
    // As in PostgreSQL, 0.1 is exactly one tenth.
    parser.parse_float_as_decimal = true;
    // SQL-1: a query uses the file system for spilling only.
    let environment = limits::environment()?;
    let mut settings = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(environment)
        .with_default_features()
        .with_analyzer_rules(analyzers(Guards::Without))
        .with_physical_optimizer_rules(physical_rules())
        .with_query_planner(Arc::new(Planner))
        .with_type_planner(Arc::new(TypeNames))
        .with_expr_planners(expr_planners())
        .build();
    let spreads = spread::aggregates().into_iter().chain(ranked::aggregates());
    let every = Arc::unwrap_or_clone(bool_and_udaf()).with_aliases(["every"]);
    let ours = sum::aggregates().into_iter().chain(extreme::aggregates());
    for aggregate in ours.chain(spreads).chain([every]) {
        settings.register_udaf(Arc::new(aggregate))?;
    }
    let ours = merging::functions().into_iter().chain(quantified::functions());
    let ours = ours.chain(functions::functions()).chain(enums::functions());
    let ours = ours.chain(array_query::functions());
    let now = [Now::new(), Now::local()].map(ScalarUDF::from);
    let trunc = ScalarUDF::from(AnyTrunc::new());
    let ours = ours.chain(now).chain([trunc]).chain([grouped::function(), at_zone::function()]);
    let ours: Vec<ScalarUDF> = ours.collect();
    for function in &ours {
        // By its first name, with all others: settings that are made of these would find the old
        // function by one of them again.
        let old = settings.scalar_functions().get(function.name());
        if let Some(first) = old.map(|old| old.name().to_owned()) {
            settings.deregister_udf(&first)?;
        }
    }
    for function in ours {
        settings.register_udf(Arc::new(function))?;
    }
    settings.register_udtf("generate_series", Arc::new(Series));
    Ok(settings)
}

/// The rule that makes a parameter of `now()`, so that a plan can be kept for later transactions.
#[derive(Debug)]
pub(crate) struct NowIsAParameter;

impl AnalyzerRule for NowIsAParameter {
    fn name(&self) -> &str {
        "now_is_a_parameter"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let parameter = |expr: Expr| match &expr {
            Expr::ScalarFunction(call) if call.func.name() == "now" => {
                let field = Some(Arc::new(Field::new(NOW, temporal::instant(), true)));
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

/// What plans operators: ours comes before DataFusion's, which would take those of arrays.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(QuotedLiterals)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    planners
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
/// then has little left to do. Behind them are those that need the types.
fn analyzers(guards: Guards) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(Subqueries),
        Arc::new(Analyzer { guards: guards == Guards::With }),
        Arc::new(TypeCoercion::new()),
        Arc::new(Decorrelate),
        Arc::new(Rowless),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::rules::functions::Call;

    #[test]
    fn a_function_is_ours_with_guards_and_without() {
        let engine = Engine::new().unwrap();
        for settings in [&engine.plain, &engine.guarded] {
            for function in functions::functions() {
                let found = settings.scalar_functions().get(function.name()).unwrap();
                assert!(found.inner().is::<Call>(), "{}", function.name());
            }
        }
    }
}
