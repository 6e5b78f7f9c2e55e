//! Statements that are prepared: by a program, and by `PREPARE`.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Schema, SchemaRef};
use atoll::DataType;
use sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, Expr, Ident, ObjectName, Statement};

use super::bound::is_bound;
use super::{Outcome, SqlSession, Target};
use crate::error::{Cause, SqlError, SqlErrorKind};
use crate::interrupt::Interrupt;
use crate::literal::Literal;
use crate::prepared::cache::{Known, Shared};
use crate::prepared::parameters::ParameterType;
use crate::prepared::query::Binder;
use crate::prepared::written_types::{self, ToldType};
use crate::prepared::{Described, Unbound, parameters, wrong_count};
use crate::rows::{FromRow, Params};
use crate::scope::Scope;
use crate::{depth, names, parse, types};

/// A statement that has been parsed, and bound as far as that needs no values. Any session of the
/// database may run it, with [`SqlSession::execute_with`] and the like.
#[derive(Debug)]
pub struct PreparedStatement {
    parameters: usize,
    known: Mutex<Arc<Known>>,
    numbers: Vec<Number>,
}

/// A parameter that is declared as a number of any digits, in a place that is for no such number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) parameter: usize,
    /// Whether the place has no type.
    pub(super) is_open: bool,
}

/// A statement to run: a text, or one that has been prepared.
pub trait AsStatement: sealed::Sealed {
    /// Which of them it is.
    #[doc(hidden)]
    fn given(&self) -> Given<'_>;
}

#[doc(hidden)]
pub enum Given<'s> {
    Text(&'s str),
    Prepared(&'s PreparedStatement),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for &super::PreparedStatement {}
}

impl AsStatement for &str {
    fn given(&self) -> Given<'_> {
        Given::Text(self)
    }
}

impl AsStatement for &String {
    fn given(&self) -> Given<'_> {
        Given::Text(self)
    }
}

impl AsStatement for &PreparedStatement {
    fn given(&self) -> Given<'_> {
        Given::Prepared(self)
    }
}

impl PreparedStatement {
    pub(super) fn new(known: Arc<Known>) -> Self {
        Self { parameters: known.parameters, known: Mutex::new(known), numbers: Vec::new() }
    }

    /// The same with parameters that are declared as numbers.
    pub(super) fn with_numbers(self, numbers: Vec<Number>) -> Self {
        Self { numbers, ..self }
    }

    /// Whether a parameter is declared as a number of any digits where its place does not say so.
    pub(super) fn is_number(&self, parameter: usize) -> bool {
        self.numbers.iter().any(|number| number.parameter == parameter)
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The types that the places of its parameters give them; `None` for one that takes the type of
    /// its value.
    pub fn parameter_types(&self) -> Vec<Option<DataType>> {
        let mut types = self.described().map_or_else(Vec::new, |described| described.parameters);
        types.resize(self.parameters, None);
        types
    }

    /// The types of its parameters as PostgreSQL would tell them, where its text or the places say
    /// something.
    pub fn told_parameters(&self) -> Vec<Option<ToldType>> {
        let places = self.parameter_types().into_iter().map(|place| place.map(ToldType::Own));
        let known = self.known();
        let written = || written_types::of_parameters(&known.statement, self.parameters);
        let written = if known.is_deep { depth::with_room(written) } else { written() };
        written.into_iter().zip(places).map(|(written, place)| written.or(place)).collect()
    }

    /// The types of the columns of its result, of which there are so many, where PostgreSQL would
    /// tell others than those of [`PreparedStatement::columns`].
    pub fn told_columns(&self, count: usize) -> Vec<Option<ToldType>> {
        let known = self.known();
        let told = || written_types::of_columns(&known.statement, count);
        if known.is_deep { depth::with_room(told) } else { told() }
    }

    /// The columns of its result, none for a statement that returns no rows. `None` if they depend
    /// on the values of its parameters.
    pub fn columns(&self) -> Option<SchemaRef> {
        let known = self.known();
        if matches!(known.statement, Statement::Query(_)) && !self.numbers.is_empty() {
            return None;
        }
        if is_bound(&known.statement) {
            return self.described()?.columns;
        }
        let shows = matches!(
            known.statement,
            Statement::ShowVariable { .. }
                | Statement::ShowTables { .. }
                | Statement::ShowColumns { .. }
                | Statement::Explain { .. }
                | Statement::ExplainTable { .. }
                | Statement::Execute { .. }
        );
        (!shows).then(|| Arc::new(Schema::empty()))
    }

    /// The values, whole numbers among them as what they are declared to be.
    fn with_numbers_in(&self, values: &[Literal]) -> Vec<Literal> {
        let is_open = |at: usize| self.numbers.iter().any(|one| one.parameter == at && one.is_open);
        let value = |(at, value): (usize, &Literal)| match value {
            Literal::Integer(digits) if is_open(at) => Literal::Decimal(*digits, 0),
            other => other.clone(),
        };
        values.iter().enumerate().map(value).collect()
    }

    /// The statement as it was written.
    pub(super) fn statement(&self) -> Statement {
        self.known().statement.clone()
    }

    fn described(&self) -> Option<Described> {
        self.known().inferred()?.describe(self.parameters)
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The statement for a catalog of this version.
    fn known_at(&self, version: u64) -> Arc<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version != version {
            *known = Arc::new(known.again(version));
        }
        Arc::clone(&known)
    }
}

impl SqlSession {
    /// Parses a statement and resolves its names, without running it. `?` and `$1` stand for
    /// values.
    ///
    /// # Errors
    /// Those of the statement that can be told without values.
    pub fn prepare(&mut self, sql: &str) -> Result<PreparedStatement, SqlError> {
        self.statement(|session| session.prepared(sql)).map(PreparedStatement::new)
    }

    pub(super) fn prepared(&self, sql: &str) -> Result<Arc<Known>, SqlError> {
        let Target::Database { db, open } = &self.target else {
            let tokens = parse::only_tokens(sql)?;
            return depth::with_room_for(depth::of(&tokens)?, || {
                known(self.resolved(parse::statement(tokens)?)?, 0)
            });
        };
        let version = self.names_version();
        open.as_ref().map_or(Ok(()), |open| open.check())?;
        if let Some(known) = Shared::of(db).find(sql, version) {
            return Ok(known);
        }
        let tokens = parse::only_tokens(sql)?;
        let known = depth::with_room_for(depth::of(&tokens)?, || {
            let known = known(self.resolved(parse::statement(tokens)?)?, version)?;
            bind(&self.scope()?, &known, &self.interrupt())?;
            Ok::<_, SqlError>(known)
        })?;
        if known.inferred().is_some() {
            Shared::of(db).keep(sql, &known);
        }
        Ok(known)
    }

    /// Runs a statement and returns its rows as values of Rust: tuples, or a type of the caller. A
    /// change returns those of its `RETURNING`.
    ///
    /// ```
    /// # use atoll_sql::SqlSession;
    /// # let db = atoll::Database::create(atoll::DatabaseOptions::default()).unwrap();
    /// # let mut session = SqlSession::on_database(db);
    /// session.execute("CREATE TABLE book (id bigint PRIMARY KEY, title text)")?;
    /// session.execute_with("INSERT INTO book VALUES ($1, $2)", (7, "Ulysses"))?;
    /// let titles = session.prepare("SELECT id, title FROM book WHERE id >= $1")?;
    /// let found: Vec<(i64, Option<String>)> = session.query(&titles, (1,))?;
    /// assert_eq!(found, [(7, Some("Ulysses".to_owned()))]);
    /// # Ok::<(), atoll_sql::SqlError>(())
    /// ```
    ///
    /// # Errors
    /// As [`SqlSession::execute_with`] and [`FromRow::from_row`]; the statement has been carried
    /// out if it is its rows that cannot be read.
    pub fn query<T: FromRow>(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<Vec<T>, SqlError> {
        match self.execute_with(statement, params)? {
            Outcome::Rows(rows) => rows.typed(),
            _ => Ok(Vec::new()),
        }
    }

    /// As [`SqlSession::query`]; the first row, if there is one.
    ///
    /// # Errors
    /// As [`SqlSession::query`].
    pub fn query_first<T: FromRow>(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<Option<T>, SqlError> {
        Ok(self.query(statement, params)?.into_iter().next())
    }

    pub(super) fn run_prepared(
        &mut self,
        statement: &PreparedStatement,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        let with_numbers: Vec<Literal>;
        let mut values = values;
        if statement.numbers.iter().any(|number| number.is_open) {
            with_numbers = statement.with_numbers_in(values);
            values = &with_numbers;
        }
        if statement.known().is_deep {
            return depth::with_room(|| self.run_known_statement(statement, values));
        }
        self.run_known_statement(statement, values)
    }

    fn run_known_statement(
        &mut self,
        statement: &PreparedStatement,
        values: &[Literal],
    ) -> Result<Outcome, SqlError> {
        let Target::Database { open, .. } = &self.target else {
            return self.run_parsed(None, statement.known().statement.clone(), values);
        };
        let known = statement.known_at(self.names_version());
        if !is_bound(&known.statement) {
            return self.run_parsed(None, known.statement.clone(), values);
        }
        open.as_ref().map_or(Ok(()), |open| open.check())?;
        self.run_known(&known, values)
    }

    /// `PREPARE name (types) AS statement`.
    pub(super) fn prepare_named(
        &mut self,
        name: &Ident,
        declared: &[SqlType],
        mut statement: Statement,
    ) -> Result<Outcome, SqlError> {
        if !is_bound(&statement) {
            let message = "PREPARE takes SELECT, INSERT, UPDATE, DELETE and VALUES";
            return Err(SqlError::new(SqlErrorKind::Syntax, message));
        }
        let name = names::fold(name);
        if self.named.contains_key(&name) {
            let message = format!("a statement \"{name}\" is prepared already");
            return Err(SqlError::new(SqlErrorKind::Schema, message)
                .with_cause(Cause::PreparedExists)
                .with_hint(Some(format!("DEALLOCATE {name} forgets it"))));
        }
        let types = declared.iter().map(parameter_type).collect::<Result<Vec<_>, _>>()?;
        parameters::replace(&mut statement, |at| {
            types.get(at).and_then(|data_type| parameters::declared(at, *data_type))
        });
        let version = self.names_version();
        let known = known(statement, version)?;
        if let Target::Database { .. } = &self.target {
            bind(&self.scope()?, &known, &self.interrupt())?;
        }
        let prepared = PreparedStatement::new(known);
        self.named.insert(name, Arc::new(prepared));
        Ok(Outcome::done("PREPARE", 0))
    }

    /// The statement that `EXECUTE` names.
    pub(super) fn named(
        &self,
        name: Option<&ObjectName>,
    ) -> Result<Arc<PreparedStatement>, SqlError> {
        let name = match name {
            Some(name) => names::fold(names::column_name(name)?),
            None => return Err(SqlError::unsupported("EXECUTE IMMEDIATE is not supported")),
        };
        self.named.get(&name).cloned().ok_or_else(|| not_prepared(&name))
    }

    /// `EXECUTE name (values)`.
    pub(super) fn execute_named(
        &mut self,
        name: Option<&ObjectName>,
        arguments: &[Expr],
    ) -> Result<Outcome, SqlError> {
        let prepared = self.named(name)?;
        wrong_count(prepared.parameters(), arguments.len()).map_or(Ok(()), Err)?;
        let mut values = Vec::with_capacity(arguments.len());
        // These are read here, whole.
        let streams = std::mem::take(&mut self.streams);
        for argument in arguments {
            values.push(self.value(argument)?);
        }
        self.streams = streams;
        self.run_prepared(&prepared, &values)
    }

    /// The value of an expression without columns.
    fn value(&mut self, expr: &Expr) -> Result<Literal, SqlError> {
        if let Some(constant) = crate::eval::constant(expr) {
            return constant;
        }
        if let Expr::Array(array) = expr {
            let items = array.elem.iter().map(|item| self.value(item));
            return items.collect::<Result<_, _>>().map(Literal::List);
        }
        let statement = parse::one(&format!("SELECT {expr}"))?;
        let mut value = None;
        if let Outcome::Rows(rows) = self.run_parsed(None, statement, &[])? {
            rows.for_each_row(|row| {
                value = Some(row.get(0)?);
                Ok::<_, SqlError>(())
            })?;
        }
        value.ok_or_else(|| SqlError::new(SqlErrorKind::Query, format!("{expr} has no value")))
    }

    /// `DEALLOCATE name`, or `ALL`.
    pub(super) fn deallocate(&mut self, name: &Ident) -> Result<Outcome, SqlError> {
        let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
        if is_all {
            self.named.clear();
            return Ok(Outcome::done("DEALLOCATE ALL", 0));
        }
        let name = names::fold(name);
        match self.named.remove(&name) {
            Some(_) => Ok(Outcome::done("DEALLOCATE", 0)),
            None => Err(not_prepared(&name)),
        }
    }
}

/// The type that PREPARE gives a parameter.
fn parameter_type(declared: &SqlType) -> Result<ParameterType, SqlError> {
    match declared {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            types::column_type(element).map(ParameterType::List)
        }
        one => types::column_type(one).map(ParameterType::One),
    }
}

fn not_prepared(name: &str) -> SqlError {
    let message = format!("no statement \"{name}\" is prepared in this session");
    SqlError::new(SqlErrorKind::Syntax, message).with_cause(Cause::UnknownPrepared)
}

pub(super) fn known(statement: Statement, version: u64) -> Result<Arc<Known>, SqlError> {
    let count = parameters::count(&statement)?;
    Ok(Arc::new(Known::new(statement, count, version)))
}

/// Binds a statement as far as that needs no values.
pub(super) fn bind(scope: &Scope, known: &Known, interrupt: &Interrupt) -> Result<(), SqlError> {
    if !is_bound(&known.statement) {
        return Ok(());
    }
    match (Binder { scope, interrupt }).bind(&known.statement) {
        Ok(prepared) => drop(known.keep_inferred(prepared)),
        Err(Unbound::Error(error)) if known.parameters == 0 || is_about_a_name(&error) => {
            return Err(error);
        }
        // Values may give the types that are missing; the run tells what else is wrong.
        Err(Unbound::Error(_)) => {}
        Err(Unbound::NotShort(_)) => {}
    }
    Ok(())
}

/// Whether an error is that of a name or of a group, which no value of a parameter mends.
fn is_about_a_name(error: &SqlError) -> bool {
    // A function that has the name may take the type of a value.
    let is_function = || error.message().starts_with("function ") && !error.message().contains('(');
    matches!(error.kind(), SqlErrorKind::UnknownTable | SqlErrorKind::UnknownColumn)
        || error.cause() == Some(Cause::Grouping)
        || error.cause() == Some(Cause::NoSuchOperator) && is_function()
}
