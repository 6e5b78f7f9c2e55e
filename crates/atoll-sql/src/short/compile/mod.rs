//! From a plan of DataFusion, analyzed and optimized, to a short plan.
//!
//! What a short plan cannot do is [`NotShort`]; the statement then runs as a query on a snapshot,
//! or is refused inside a transaction.

mod access;
mod aggregate;
pub(crate) mod expr;

use std::collections::HashMap;

use atoll::Table;
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::logical_plan::{Distinct, Join as JoinPlan};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan};

use self::expr::Scope;
use super::list::ListSlot;
use super::plan::{Join, JoinKind, Node};
use super::scalar::{Scalar, Slot};
use super::value::Direction;
use crate::error::SqlError;

/// What the short executor would have to be able to do for a plan.
#[derive(Debug, Clone)]
pub(crate) struct NotShort(pub(crate) String);

/// Behind a parameter to which nothing gives a type.
const UNTYPED: &str = ", a parameter without a type";

impl NotShort {
    /// Whether a parameter has no type, so that another binding may be short.
    pub(crate) fn lacks_type(&self) -> bool {
        self.0.ends_with(UNTYPED)
    }

    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<datafusion::common::DataFusionError> for NotShort {
    fn from(error: datafusion::common::DataFusionError) -> Self {
        Self(SqlError::from(error).message().to_owned())
    }
}

/// Collects what the parts of a plan share while it is compiled.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    pub(crate) slots: Vec<Slot>,
    /// Where in them each is.
    places: HashMap<Slot, usize>,
    /// Of the parameters that are lists.
    pub(crate) lists: Vec<ListSlot>,
    /// In the order in which they run.
    pub(crate) subqueries: Vec<Node>,
    /// The tables that are accessed.
    pub(crate) tables: Vec<Table>,
    /// Whether the caller gives the rows of the tables that have a place for it, see
    /// [`crate::live::TARGET`].
    pub(crate) gives_rows: bool,
}

/// A column of a plan that has to equal a scalar over the row of the outer side.
#[derive(Debug, Clone)]
struct Equality {
    column: usize,
    scalar: Scalar,
    data_type: atoll::DataType,
}

/// Compiles an expression over the columns of a schema.
fn over(expr: &Expr, schema: &DFSchema, compiler: &mut Compiler) -> Result<Scalar, NotShort> {
    expr::compile(expr, &Scope { schema, place: &Some }, compiler)
}

impl Compiler {
    /// Compiles a plan.
    pub(crate) fn plan(&mut self, plan: &LogicalPlan) -> Result<Node, NotShort> {
        self.node(plan, &[])
    }

    /// The scalar of a parameter with a known type.
    pub(crate) fn parameter(&mut self, slot: Slot) -> Scalar {
        let slots = &mut self.slots;
        Scalar::Param(*self.places.entry(slot).or_insert_with_key(|slot| {
            slots.push(slot.clone());
            slots.len() - 1
        }))
    }

    /// The place of a parameter that is a list.
    fn list(&mut self, slot: ListSlot) -> usize {
        self.lists.iter().position(|known| *known == slot).unwrap_or_else(|| {
            self.lists.push(slot);
            self.lists.len() - 1
        })
    }

    /// Compiles a subquery that refers to nothing outside.
    fn subquery(&mut self, plan: &LogicalPlan) -> Result<Scalar, NotShort> {
        let node = self.node(plan, &[])?;
        self.subqueries.push(node);
        Ok(Scalar::Subquery(self.subqueries.len() - 1))
    }

    /// Compiles a plan. An access may use `equalities`; whether it does or not, they are checked
    /// where they come from.
    fn node(&mut self, plan: &LogicalPlan, equalities: &[Equality]) -> Result<Node, NotShort> {
        match plan {
            LogicalPlan::EmptyRelation(empty) => {
                let (has_row, width) = (empty.produce_one_row, empty.schema.fields().len());
                match has_row && width > 0 {
                    true => Err(NotShort::new("a row of NULL")),
                    false => Ok(Node::Empty { has_row, width }),
                }
            }
            LogicalPlan::Values(values) => {
                let nothing = DFSchema::empty();
                let row = |row: &Vec<Expr>| {
                    row.iter().map(|expr| over(expr, &nothing, self)).collect::<Result<_, _>>()
                };
                Ok(Node::Values(values.values.iter().map(row).collect::<Result<_, _>>()?))
            }
            LogicalPlan::TableScan(scan) => self.scan(scan, equalities),
            LogicalPlan::SubqueryAlias(alias) => self.node(&alias.input, equalities),
            LogicalPlan::Filter(filter) => {
                let input = self.node(&filter.input, equalities)?;
                let condition = over(&filter.predicate, filter.input.schema(), self)?;
                Ok(Node::Filter { input: Box::new(input), condition })
            }
            LogicalPlan::Projection(projection) => {
                let below = through(equalities, |at| {
                    column_below(&projection.expr[at], projection.input.schema())
                });
                let input = self.node(&projection.input, &below)?;
                let schema = projection.input.schema();
                let columns = projection.expr.iter().map(|expr| over(expr, schema, self));
                Ok(projected(input, columns.collect::<Result<_, _>>()?))
            }
            LogicalPlan::Join(join) => self.join(join, equalities),
            LogicalPlan::Aggregate(aggregate) => {
                let below = through(equalities, |at| {
                    let group = aggregate.group_expr.get(at)?;
                    column_below(group, aggregate.input.schema())
                });
                let input = self.node(&aggregate.input, &below)?;
                self.aggregate(aggregate, input)
            }
            LogicalPlan::Sort(sort) => {
                let mut input = self.node(&sort.input, equalities)?;
                let keys = self.order(&sort.expr, sort.input.schema())?;
                if has_order(&mut input, &keys) {
                    let Some(most) = sort.fetch else { return Ok(input) };
                    if limit(&mut input, most) {
                        return Ok(input);
                    }
                    let most = i64::try_from(most).unwrap_or(i64::MAX);
                    let fetch = Some(Scalar::Const(atoll::Value::Int64(most)));
                    return Ok(Node::Limit { input: Box::new(input), skip: None, fetch });
                }
                Ok(Node::Sort { input: Box::new(input), keys, limit: sort.fetch })
            }
            LogicalPlan::Limit(one) => {
                let mut input = self.node(&one.input, &[])?;
                let nothing = DFSchema::empty();
                let mut number = |expr: &Option<Box<Expr>>| {
                    expr.as_ref().map(|expr| over(expr, &nothing, self)).transpose()
                };
                let (skip, fetch) = (number(&one.skip)?, number(&one.fetch)?);
                let known = |scalar: &Option<Scalar>| match scalar {
                    None => Some(0),
                    Some(Scalar::Const(atoll::Value::Int64(v))) => usize::try_from(*v).ok(),
                    _ => None,
                };
                if let (Some(skip), Some(fetch), Some(_)) = (known(&skip), known(&fetch), &fetch) {
                    limit(&mut input, skip.saturating_add(fetch));
                }
                Ok(Node::Limit { input: Box::new(input), skip, fetch })
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                Ok(Node::Distinct { input: Box::new(self.node(input, equalities)?) })
            }
            other => Err(NotShort::new(kind(other))),
        }
    }

    fn order(
        &mut self,
        keys: &[SortKey],
        schema: &DFSchema,
    ) -> Result<Vec<(Scalar, Direction)>, NotShort> {
        let key = |key: &SortKey| {
            let how = Direction { descending: !key.asc, nulls_first: key.nulls_first };
            Ok((over(&key.expr, schema, self)?, how))
        };
        keys.iter().map(key).collect()
    }

    fn join(&mut self, join: &JoinPlan, equalities: &[Equality]) -> Result<Node, NotShort> {
        let kind = match join.join_type {
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left => JoinKind::Left,
            JoinType::LeftSemi => JoinKind::Semi,
            JoinType::LeftAnti => JoinKind::Anti,
            JoinType::LeftMark => JoinKind::Mark,
            JoinType::Right => return self.exchanged(join, JoinType::Left),
            JoinType::RightSemi => return self.exchanged(join, JoinType::LeftSemi),
            JoinType::RightAnti => return self.exchanged(join, JoinType::LeftAnti),
            other => return Err(NotShort::new(format!("a join of the kind {other}"))),
        };
        if join.null_equality == NullEquality::NullEqualsNull {
            return Err(NotShort::new("a join in which NULL equals NULL"));
        }
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let left_width = left_schema.fields().len();
        let mine: Vec<Equality> =
            equalities.iter().filter(|one| one.column < left_width).cloned().collect();
        let left = self.node(&join.left, &mine)?;
        let mut keys = Vec::with_capacity(join.on.len());
        let mut for_right = Vec::new();
        for (a, b) in &join.on {
            let (scalar, right) = (over(a, left_schema, self)?, over(b, right_schema, self)?);
            if let Some(column) = column_below(b, right_schema) {
                use datafusion::logical_expr::ExprSchemable;
                let data_type = expr::data_type(&a.get_type(left_schema)?)?;
                for_right.push(Equality { column, scalar: scalar.clone(), data_type });
            }
            keys.push((scalar, right));
        }
        let right = match join.null_aware {
            true => self.node(&join.right, &[])?,
            false => self.node(&join.right, &for_right)?,
        };
        let both = left_schema.join(right_schema)?;
        let condition = join.filter.as_ref().map(|filter| over(filter, &both, self)).transpose()?;
        let is_dependent = right.is_dependent();
        if kind == JoinKind::Semi
            && !is_dependent
            && join.filter.is_none()
            && !join.null_aware
            && left.is_access()
            && let Some(turned) = self.looked_up(join, &right)?
        {
            return Ok(turned);
        }
        let right_width = right.width();
        let null_aware = join.null_aware;
        let join =
            Join { left, right, kind, keys, condition, is_dependent, right_width, null_aware };
        Ok(Node::Join(Box::new(join)))
    }

    /// A semi join as lookups of the left rows by their primary key, for the distinct keys of few
    /// right rows, which the compiled right side makes; `None` if it cannot be one. No side with
    /// joins is compiled again: nested ones would take a time exponential in their depth.
    fn looked_up(&mut self, join: &JoinPlan, right: &Node) -> Result<Option<Node>, NotShort> {
        use datafusion::logical_expr::ExprSchemable;
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        if !right.is_bounded() {
            return Ok(None);
        }
        let (mut keys, mut distinct, mut for_left) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (a, b)) in join.on.iter().enumerate() {
            let Some(column) = column_below(a, left_schema) else { return Ok(None) };
            let data_type = expr::data_type(&b.get_type(right_schema)?)?;
            for_left.push(Equality { column, scalar: Scalar::Column(at), data_type });
            distinct.push(over(b, right_schema, self)?);
            keys.push((Scalar::Column(at), over(a, left_schema, self)?));
        }
        let left = self.node(&join.left, &for_left)?;
        if !left.is_dependent() || !left.is_lookup() {
            return Ok(None);
        }
        let (right_width, key_width) = (left.width(), distinct.len());
        let distinct = Node::Distinct { input: Box::new(projected(right.clone(), distinct)) };
        let joined = Join {
            left: distinct,
            right: left,
            kind: JoinKind::Inner,
            keys,
            condition: None,
            is_dependent: true,
            right_width,
            null_aware: false,
        };
        let columns = (key_width..key_width + right_width).map(Scalar::Column).collect();
        let input = Box::new(Node::Join(Box::new(joined)));
        Ok(Some(Node::Project { input, columns }))
    }

    /// A join with its sides exchanged.
    fn exchanged(&mut self, join: &JoinPlan, kind: JoinType) -> Result<Node, NotShort> {
        let on = join.on.iter().map(|(a, b)| (b.clone(), a.clone())).collect();
        let (left, right) = (join.right.clone(), join.left.clone());
        let (left_width, right_width) =
            (left.schema().fields().len(), right.schema().fields().len());
        let turned = JoinPlan { left, right, on, join_type: kind, ..join.clone() };
        let node = self.join(&turned, &[])?;
        if kind != JoinType::Left {
            return Ok(node);
        }
        let columns = (left_width..left_width + right_width).chain(0..left_width);
        Ok(projected(node, columns.map(Scalar::Column).collect()))
    }
}

/// The equalities of the columns that a step below has, by their positions there.
fn through(equalities: &[Equality], below: impl Fn(usize) -> Option<usize>) -> Vec<Equality> {
    let moved = |one: &Equality| Some(Equality { column: below(one.column)?, ..one.clone() });
    equalities.iter().filter_map(moved).collect()
}

/// The position of the column that an expression is.
fn column_below(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => column_below(&alias.expr, schema),
        Expr::Column(column) => schema.index_of_column(column).ok(),
        _ => None,
    }
}

/// A projection, which an access carries out itself where it only chooses columns.
fn projected(input: Node, columns: Vec<Scalar>) -> Node {
    let chosen: Option<Vec<usize>> = columns
        .iter()
        .map(|column| if let Scalar::Column(at) = column { Some(*at) } else { None })
        .collect();
    match (input, chosen) {
        (Node::Access(mut access), Some(chosen)) => {
            access.output = chosen.iter().map(|at| access.output[*at]).collect();
            Node::Access(access)
        }
        (input, _) => Node::Project { input: Box::new(input), columns },
    }
}

/// Limits the rows that an access makes, where every row of it is a row of the plan. Returns
/// whether that limits the rows of the plan.
fn limit(node: &mut Node, most: usize) -> bool {
    match node {
        Node::Access(access) => {
            access.limit_to(most);
            true
        }
        Node::Project { input, .. } => limit(input, most),
        _ => false,
    }
}

/// Whether the rows come in an order, perhaps after an access has been turned into it.
fn has_order(node: &mut Node, keys: &[(Scalar, Direction)]) -> bool {
    match node {
        Node::Access(access) => {
            let places: Option<Vec<_>> = keys
                .iter()
                .map(|(key, how)| match key {
                    Scalar::Column(at) => Some((*at, *how)),
                    _ => None,
                })
                .collect();
            places.is_some_and(|keys| access.put_in_order(&keys))
        }
        Node::Project { input, columns } => {
            let below = keys.iter().map(|(key, how)| match key {
                Scalar::Column(at) => Some((columns[*at].clone(), *how)),
                _ => None,
            });
            let below: Option<Vec<_>> = below.collect();
            below.is_some_and(|keys| has_order(input, &keys))
        }
        Node::Filter { input, .. } => has_order(input, keys),
        _ => false,
    }
}

/// What a plan is that no node carries out.
fn kind(plan: &LogicalPlan) -> String {
    match plan {
        LogicalPlan::Window(_) => "a window function".to_owned(),
        LogicalPlan::Union(_) => "UNION".to_owned(),
        LogicalPlan::RecursiveQuery(_) => "WITH RECURSIVE".to_owned(),
        LogicalPlan::Distinct(_) => "DISTINCT ON".to_owned(),
        LogicalPlan::Unnest(_) => "unnest".to_owned(),
        other => other.display().to_string(),
    }
}

/// The conjuncts of several conditions.
fn conjuncts(filters: &[Expr]) -> Vec<Expr> {
    match conjunction(filters.iter().cloned()) {
        Some(all) => split_conjunction(&all).into_iter().cloned().collect(),
        None => Vec::new(),
    }
}
