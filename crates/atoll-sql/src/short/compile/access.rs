//! Which way an access takes to the rows of its table.
//!
//! The order of preference: the whole primary key, a list of primary keys, the index with the most
//! columns fixed (a range of the next one counts half), all rows of the table.

use atoll::{DataType, IndexSpec, Table};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

use super::expr::{self, Scope};
use super::{Compiler, Equality, NotShort, conjuncts};
use crate::live::LiveTable;
use crate::short::access::{Access, End, KeyPart, ListedKeys, Path};
use crate::short::plan::Node;
use crate::short::scalar::{Comparison, Scalar};
use crate::short::value::Direction;

/// A condition that compares a column with something that does not depend on the table's row.
struct Comparand {
    column: usize,
    op: Comparison,
    part: KeyPart,
    /// The conjunct that it is; `None` for an equality that is checked elsewhere.
    conjunct: Option<usize>,
}

impl Compiler {
    /// Compiles the scan of a table.
    pub(super) fn scan(
        &mut self,
        scan: &TableScan,
        equalities: &[Equality],
    ) -> Result<Node, NotShort> {
        let provider = source_as_provider(&scan.source)?;
        let live = provider.downcast_ref::<LiveTable>();
        let live = live.ok_or_else(|| NotShort::new("a table of another kind"))?;
        if let (None, Some(at), true) = (&live.table, live.given, scan.filters.is_empty()) {
            let count = scan.source.schema().fields().len();
            let columns = scan.projection.clone().unwrap_or_else(|| (0..count).collect());
            return Ok(Node::Given { at, columns });
        }
        let table = live.table.clone().ok_or_else(|| {
            NotShort::new(format!("\"{}\", a table of another database", scan.table_name))
        })?;
        let schema = DFSchema::try_from_qualified_schema(
            scan.table_name.clone(),
            scan.source.schema().as_ref(),
        )?;
        let count = schema.fields().len();
        let mut loaded: Vec<usize> =
            scan.projection.clone().unwrap_or_else(|| (0..count).collect());
        let output: Vec<usize> = (0..loaded.len()).collect();
        let filters = conjuncts(&scan.filters);
        let given = live.given.filter(|_| self.gives_rows);
        let mut comparands = Vec::new();
        if given.is_none() {
            for (at, filter) in filters.iter().enumerate() {
                comparands.extend(self.comparand(filter, at, &table, &schema)?);
            }
            for one in equalities {
                let column = output.get(one.column).map(|place| loaded[*place]);
                let column = column.ok_or_else(|| NotShort::new("a column that is not there"))?;
                let to = table.schema().columns()[column].data_type;
                if converts(one.data_type, to) {
                    let part = KeyPart { scalar: one.scalar.clone(), from: one.data_type, to };
                    let op = Comparison::Equal;
                    comparands.push(Comparand { column, op, part, conjunct: None });
                }
            }
        }
        let (path, used) = match given {
            Some(given) => (Path::Given(given), Vec::new()),
            None => match self.keys(&filters, &table, &schema, &comparands)? {
                Some(path) => path,
                None => by_index(&table, &comparands)?,
            },
        };
        let mut condition = None;
        for (at, filter) in filters.iter().enumerate() {
            if used.contains(&at) {
                continue;
            }
            let mut missing = Vec::new();
            for column in filter.column_refs() {
                let at = schema.index_of_column(column)?;
                if !loaded.contains(&at) && !missing.contains(&at) {
                    missing.push(at);
                }
            }
            loaded.extend(missing);
            let place = |at: usize| loaded.iter().position(|column| *column == at);
            let scalar = expr::compile(filter, &Scope { schema: &schema, place: &place }, self)?;
            condition = Some(match condition {
                None => scalar,
                Some(before) => Scalar::And(Box::new([before, scalar])),
            });
        }
        let limit = scan.fetch;
        if given.is_none() {
            self.tables.push(table.clone());
        }
        Ok(Node::Access(Box::new(Access { table, path, loaded, condition, output, limit })))
    }

    /// A conjunct as a comparison of a column with something else.
    fn comparand(
        &mut self,
        filter: &Expr,
        conjunct: usize,
        table: &Table,
        schema: &DFSchema,
    ) -> Result<Option<Comparand>, NotShort> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return Ok(None) };
        let op = match op {
            Operator::Eq => Comparison::Equal,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            _ => return Ok(None),
        };
        let (column, value, op) = match (plain_column(left, schema), plain_column(right, schema)) {
            (Some(column), None) => (column, right, op),
            (None, Some(column)) => (column, left, op.mirrored()),
            _ => return Ok(None),
        };
        if value.any_column_refs() || value.is_volatile() {
            return Ok(None);
        }
        let arrow = value.get_type(schema)?;
        let to = table.schema().columns()[column].data_type;
        let Ok(from) = expr::data_type(&arrow) else { return Ok(None) };
        // A bound of another type would have to be clamped.
        if !(converts(from, to) && (from == to || op == Comparison::Equal)) {
            return Ok(None);
        }
        let scope = Scope { schema, place: &|_| None };
        let scalar = expr::compile(value, &scope, self)?;
        let part = KeyPart { scalar, from, to };
        Ok(Some(Comparand { column, op, part, conjunct: Some(conjunct) }))
    }

    /// The way by primary keys, and the conjuncts that it makes unnecessary.
    fn keys(
        &mut self,
        filters: &[Expr],
        table: &Table,
        schema: &DFSchema,
        comparands: &[Comparand],
    ) -> Result<Option<(Path, Vec<usize>)>, NotShort> {
        let key = table.schema().primary_key();
        if let Some((parts, used)) = fixed(key, comparands)
            && parts.len() == key.len()
        {
            return Ok(Some((Path::Key(parts), used)));
        }
        let [key] = key else { return Ok(None) };
        let to = table.schema().columns()[*key].data_type;
        for (at, filter) in filters.iter().enumerate() {
            if let Some(listed) = self.listed(filter, *key, to, schema)? {
                return Ok(Some((Path::List(listed), vec![at])));
            }
            let Some(values) = alternatives(filter, *key, schema) else { continue };
            let scope = Scope { schema, place: &|_| None };
            let mut parts = Vec::with_capacity(values.len());
            for value in &values {
                let from = match expr::data_type(&value.get_type(schema)?) {
                    Ok(from) if converts(from, to) && !value.any_column_refs() => from,
                    _ => break,
                };
                parts.push(KeyPart { scalar: expr::compile(value, &scope, self)?, from, to });
            }
            if parts.len() == values.len() {
                return Ok(Some((Path::Keys(parts), vec![at])));
            }
        }
        Ok(None)
    }

    /// The list of keys of `column = ANY ($1)`.
    fn listed(
        &mut self,
        filter: &Expr,
        column: usize,
        to: DataType,
        schema: &DFSchema,
    ) -> Result<Option<ListedKeys>, NotShort> {
        let Some((quantified, value, slot)) = expr::listed(filter) else { return Ok(None) };
        let finds = quantified.op == Operator::Eq && !quantified.is_all;
        let from = slot.compared;
        let is_key = plain_column(value, schema) == Some(column) && converts(from, to);
        Ok((finds && is_key).then(|| ListedKeys { list: self.list(slot), from, to }))
    }
}

/// The values of which a column has to equal one: `column IN (…)`, of which the optimizer makes
/// `column = … OR column = …` where they are few.
fn alternatives<'e>(filter: &'e Expr, column: usize, schema: &DFSchema) -> Option<Vec<&'e Expr>> {
    match filter {
        Expr::InList(InList { expr, list, negated: false })
            if plain_column(expr, schema) == Some(column) =>
        {
            Some(list.iter().collect())
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            if plain_column(left, schema) == Some(column) {
                return Some(vec![right]);
            }
            (plain_column(right, schema) == Some(column)).then(|| vec![left.as_ref()])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut values = alternatives(left, column, schema)?;
            values.extend(alternatives(right, column, schema)?);
            Some(values)
        }
        _ => None,
    }
}

/// The column that an expression is, perhaps as a wider integer.
fn plain_column(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.index_of_column(column).ok(),
        Expr::Cast(Cast { expr, field }) => {
            let column = plain_column(expr, schema)?;
            let is_wider = schema.field(column).data_type().is_signed_integer()
                && field.data_type().is_signed_integer();
            is_wider.then_some(column)
        }
        _ => None,
    }
}

/// Whether an equality with a value of a type can be looked up in a column of another type. Equal
/// floating-point numbers have several forms, and keys are compared by their bits.
fn converts(from: DataType, to: DataType) -> bool {
    let is_integer =
        |one: DataType| matches!(one, DataType::Int16 | DataType::Int32 | DataType::Int64);
    if matches!(to, DataType::Float32 | DataType::Float64) {
        return false;
    }
    from == to || is_integer(from) && is_integer(to)
}

/// The first of these columns that are fixed by equalities, and the conjuncts that are used.
fn fixed(columns: &[usize], comparands: &[Comparand]) -> Option<(Vec<KeyPart>, Vec<usize>)> {
    let (mut parts, mut used) = (Vec::new(), Vec::new());
    for column in columns {
        let is_equal = |one: &&Comparand| one.column == *column && one.op == Comparison::Equal;
        let Some(one) = comparands.iter().find(is_equal) else { break };
        parts.push(one.part.clone());
        used.extend(one.conjunct);
    }
    (!parts.is_empty()).then_some((parts, used))
}

/// The way by an ordered index, and the conjuncts that it makes unnecessary.
fn by_index(table: &Table, comparands: &[Comparand]) -> Result<(Path, Vec<usize>), NotShort> {
    let mut best: Option<(usize, Path, Vec<usize>)> = None;
    for spec in table.indexes() {
        let (score, path, used) = of_index(table, &spec, comparands)?;
        if score > best.as_ref().map_or(0, |(least, ..)| *least) {
            best = Some((score, path, used));
        }
    }
    Ok(best.map_or((Path::Heap, Vec::new()), |(_, path, used)| (path, used)))
}

fn of_index(
    table: &Table,
    spec: &IndexSpec,
    comparands: &[Comparand],
) -> Result<(usize, Path, Vec<usize>), NotShort> {
    let position = |name: &String| table.schema().position(name);
    let columns: Vec<usize> = spec.columns.iter().filter_map(position).collect();
    let (prefix, mut used) = fixed(&columns, comparands).unwrap_or_default();
    let mut ends = [None, None];
    if let Some(next) = columns.get(prefix.len()) {
        let nullable = table.schema().columns()[*next].nullable;
        for one in comparands.iter().filter(|one| one.column == *next) {
            let (end, is_included) = match one.op {
                Comparison::Greater => (0, false),
                Comparison::GreaterOrEqual => (0, true),
                Comparison::Less => (1, false),
                Comparison::LessOrEqual => (1, true),
                _ => continue,
            };
            if ends[end].is_none() {
                ends[end] = Some(End { part: one.part.clone(), is_included });
                // NULL is behind all values, so a range without an upper end has those rows too.
                if !nullable {
                    used.extend(one.conjunct);
                }
            }
        }
    }
    let score = 2 * prefix.len() + usize::from(ends.iter().any(Option::is_some));
    let index = table.index(&spec.name).map_err(|error| NotShort::new(error.to_string()))?;
    let name = spec.name.clone();
    let path = Path::Index { index, name, prefix, ends: Box::new(ends), descending: false };
    Ok((score, path, used))
}

impl Access {
    /// Limits its rows.
    pub(super) fn limit_to(&mut self, most: usize) {
        self.limit = Some(self.limit.map_or(most, |limit| limit.min(most)));
    }

    /// Puts its rows in an order, if an index has it; the keys are places in the output.
    pub(super) fn put_in_order(&mut self, keys: &[(usize, Direction)]) -> bool {
        let columns: Vec<usize> =
            keys.iter().map(|(place, _)| self.loaded[self.output[*place]]).collect();
        let Some((_, first)) = keys.first() else { return true };
        let nullable = |column: &usize| self.table.schema().columns()[*column].nullable;
        let one_way = keys.iter().zip(&columns).all(|((_, how), column)| {
            how.descending == first.descending
                && (how.nulls_first == how.descending || !nullable(column))
        });
        if !one_way {
            return false;
        }
        let in_order = |table: &Table, spec: &IndexSpec, skip: usize| {
            let names = spec.columns.iter().skip(skip);
            let position = |name: &String| table.schema().position(name);
            names.filter_map(position).take(columns.len()).eq(columns.iter().copied())
        };
        let specs = self.table.indexes();
        match &mut self.path {
            // At most one row.
            Path::Key(_) => true,
            Path::Heap => {
                // No condition decides for an index, so one in this order serves.
                let spec = specs.iter().find(|spec| in_order(&self.table, spec, 0));
                let Some((spec, index)) =
                    spec.and_then(|spec| Some((spec, self.table.index(&spec.name).ok()?)))
                else {
                    return false;
                };
                self.path = Path::Index {
                    index,
                    name: spec.name.clone(),
                    prefix: Vec::new(),
                    ends: Box::new([None, None]),
                    descending: first.descending,
                };
                true
            }
            Path::Index { name, prefix, descending, .. } => {
                let spec = specs.iter().find(|spec| spec.name == *name);
                let fits = spec.is_some_and(|spec| {
                    in_order(&self.table, spec, prefix.len()) || in_order(&self.table, spec, 0)
                });
                if fits {
                    *descending = first.descending;
                }
                fits
            }
            Path::Keys(_) | Path::List(_) | Path::Given(_) => false,
        }
    }
}

impl KeyPart {
    /// Whether it refers to the row of the outer side.
    pub(in crate::short) fn is_dependent(&self) -> bool {
        let mut refers = false;
        self.scalar.columns(&mut |_| refers = true);
        refers
    }
}

impl Node {
    /// Whether it makes at most one row, of a primary key.
    pub(super) fn is_lookup(&self) -> bool {
        match self {
            Self::Access(access) => matches!(access.path, Path::Key(_)),
            Self::Filter { input, .. } | Self::Project { input, .. } => input.is_lookup(),
            _ => false,
        }
    }

    /// Whether it is an access, perhaps with conditions and other columns.
    pub(super) fn is_access(&self) -> bool {
        match self {
            Self::Access(_) => true,
            Self::Filter { input, .. } | Self::Project { input, .. } => input.is_access(),
            _ => false,
        }
    }

    /// Whether it visits a part of a table, by keys or by a range of an index.
    pub(super) fn is_bounded(&self) -> bool {
        match self {
            Self::Access(access) => match &access.path {
                Path::Key(_) | Path::Keys(_) | Path::List(_) | Path::Given(_) => true,
                Path::Index { prefix, ends, .. } => {
                    !prefix.is_empty() || ends.iter().any(Option::is_some)
                }
                Path::Heap => false,
            },
            Self::Filter { input, .. } | Self::Project { input, .. } => input.is_bounded(),
            _ => false,
        }
    }

    /// Whether it refers to the row of the outer side.
    pub(super) fn is_dependent(&self) -> bool {
        match self {
            Self::Empty { .. } | Self::Values(_) | Self::Given { .. } => false,
            Self::Access(access) => match &access.path {
                Path::Key(parts) | Path::Keys(parts) => parts.iter().any(KeyPart::is_dependent),
                Path::Index { prefix, ends, .. } => {
                    prefix.iter().any(KeyPart::is_dependent)
                        || ends.iter().flatten().any(|end| end.part.is_dependent())
                }
                Path::Heap | Path::List(_) | Path::Given(_) => false,
            },
            // The right side refers to the left one of this very join.
            Self::Join(join) => {
                join.left.is_dependent() || !join.is_dependent && join.right.is_dependent()
            }
            Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Aggregate { input, .. }
            | Self::Distinct { input } => input.is_dependent(),
        }
    }
}
