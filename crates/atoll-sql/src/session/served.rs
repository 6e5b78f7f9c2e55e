//! What a server of a wire protocol asks of a session: types that a client declares for parameters,
//! the columns of a prepared statement, and the state of the transaction.

use arrow_schema::SchemaRef;
use atoll::{DataType, Labels};

use super::prepare::{Number, bind, known};
use super::{AsStatement, Outcome, PreparedStatement, SqlSession, Target};
use super::{backups, maintenance};
use crate::error::SqlError;
use crate::literal::Literal;
use crate::parse;
use crate::prepared::parameters::{self, ParameterType, is_of};
use crate::prepared::written_types::{self, ToldType};
use crate::rows::Params;
use crate::settings::Setting;
use crate::{depth, system, zone};

/// The state of the transaction of a session between two statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is open.
    Idle,
    /// One is open.
    Open,
    /// One is open, and takes no statement but a rollback.
    Failed,
}

impl SqlSession {
    /// The state of the transaction. One that was idle for too long, and is to say so, has failed.
    pub fn transaction_status(&self) -> TransactionStatus {
        let of = |failed| if failed { TransactionStatus::Failed } else { TransactionStatus::Open };
        match (&self.target, &self.resting) {
            (_, Some(slot)) => {
                of(crate::idle::lock(slot).as_ref().is_none_or(|open| open.has_failed()))
            }
            (Target::Database { open: Some(open), .. }, None) => of(open.has_failed()),
            _ => TransactionStatus::Idle,
        }
    }

    /// Fails the open transaction, if there is one: its client has done something that is an error
    /// and no statement.
    ///
    /// # Errors
    /// It was idle for too long.
    pub fn fail_transaction(&mut self) -> Result<(), SqlError> {
        self.wake()?;
        self.fail();
        self.rest();
        Ok(())
    }

    /// As [`SqlSession::stream`], but the rows of a short statement are not made Arrow data.
    ///
    /// # Errors
    /// As there.
    pub fn execute_streaming(
        &mut self,
        statement: impl AsStatement,
        params: impl Params,
    ) -> Result<Outcome, SqlError> {
        self.statement(|session| {
            session.streams = true;
            session.run_given(statement, params)
        })
    }

    /// What a setting is, as `SHOW` writes it; `None` for one that there is not.
    pub fn setting(&self, name: &str) -> Option<String> {
        if let Some(shown) = self.shown_modes().show(name) {
            return Some(shown.to_owned());
        }
        let setting = self.settings.existing(Setting::of_text(name), name).ok()?;
        Some(setting.show(self.settings.now(), self.default_durability()))
    }

    /// Whether settings may have changed since the last call.
    pub fn settings_have_changed(&mut self) -> bool {
        self.settings.take_changed()
    }

    /// Sets the time zone of this session for this thread, in which the texts of instants are.
    /// Statements do that themselves.
    pub fn enter_zone(&self) {
        zone::set(self.settings.now().zone);
    }

    /// The number that the catalogs have for an enum; `None` if there is none of its name.
    pub fn number_of_type(&self, labels: Labels) -> Option<u32> {
        match &self.target {
            Target::Snapshot(snapshot) => {
                let object = snapshot.objects().into_iter().find(|one| one.name() == labels.name());
                object.map(|object| system::number_of(object.serial_number()))
            }
            Target::Database { .. } => {
                let scope = self.scope().ok()?;
                let object = scope.catalog.object(labels.name());
                object.map(|object| system::number_of(object.serial()))
            }
        }
    }

    /// As [`SqlSession::prepare`], with types that are declared for some parameters. Where the
    /// place of a parameter takes values of the declared type as they are, it is that of the place.
    /// A number of any digits is declared as a decimal of any precision.
    ///
    /// # Errors
    /// As there.
    pub fn prepare_declared(
        &mut self,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> Result<PreparedStatement, SqlError> {
        self.statement(|session| session.prepared_declared(sql, declared))
    }

    fn prepared_declared(
        &self,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> Result<PreparedStatement, SqlError> {
        let plain = match self.prepared(sql) {
            Ok(known) => PreparedStatement::new(known),
            Err(error) if declared.iter().all(Option::is_none) => return Err(error),
            // With the types it may be right.
            Err(_) => {
                let told = |at: usize| declared.get(at).copied().flatten();
                return self.with_types(sql, |at| told(at).filter(|one| !has_any_digits(*one)));
            }
        };
        let places = plain.parameter_types();
        let numbers = declared.iter().zip(&places).enumerate();
        let numbers = numbers.filter_map(|(parameter, (declared, place))| {
            let is_number = |one| matches!(one, &Some(DataType::Decimal { .. }));
            let is_one = is_number(declared) && !is_number(place);
            is_one.then_some(Number { parameter, is_open: place.is_none() })
        });
        let numbers = numbers.collect();
        let missing: Vec<Option<DataType>> = places
            .iter()
            .zip(declared.iter().chain(std::iter::repeat(&None)))
            .map(|(place, declared)| {
                let declared = declared.filter(|declared| !has_any_digits(*declared))?;
                (!takes(*place, declared)).then_some(declared)
            })
            .collect();
        if missing.iter().all(Option::is_none) {
            return Ok(plain.with_numbers(numbers));
        }
        let typed = self.with_types(sql, |at| missing.get(at).copied().flatten())?;
        Ok(typed.with_numbers(numbers))
    }

    /// A statement with these types written to its parameters.
    fn with_types(
        &self,
        sql: &str,
        declared: impl Fn(usize) -> Option<DataType>,
    ) -> Result<PreparedStatement, SqlError> {
        let tokens = parse::only_tokens(sql)?;
        depth::with_room_for(depth::of(&tokens)?, || {
            let mut statement = self.resolved(parse::statement(tokens)?)?;
            parameters::replace(&mut statement, |at| {
                parameters::declared(at, written(declared(at)?))
            });
            let known = known(statement, self.names_version())?;
            if let Target::Database { .. } = &self.target {
                bind(&self.scope()?, &known, &self.interrupt())?;
            }
            Ok(PreparedStatement::new(known))
        })
    }

    /// The columns of the result of a prepared statement, none for one that returns no rows. Where
    /// they depend on the values of its parameters, they are those for NULL. For some statements a
    /// query runs on a snapshot, cut to no rows.
    ///
    /// # Errors
    /// Those of such a query.
    pub fn columns_of_prepared(
        &mut self,
        prepared: &PreparedStatement,
    ) -> Result<SchemaRef, SqlError> {
        if let Some(columns) = prepared.columns() {
            return Ok(columns);
        }
        self.begin_statement()?;
        let columns = self.columns_of(prepared.statement(), &|at| prepared.is_number(at));
        self.rest();
        columns
    }

    /// As [`PreparedStatement::told_columns`], of a statement by its text.
    pub fn told_columns(sql: &str, count: usize) -> Vec<Option<ToldType>> {
        let told = || {
            let tokens = parse::only_tokens(sql)?;
            depth::with_room_for(depth::of(&tokens)?, || {
                Ok::<_, SqlError>(written_types::of_columns(&parse::statement(tokens)?, count))
            })
        };
        // What is no statement has no columns.
        told().unwrap_or_else(|_| vec![None; count])
    }

    /// Checks that a text is one statement, as far as the parser can tell.
    ///
    /// # Errors
    /// Those of the parser.
    pub fn check_syntax(sql: &str) -> Result<(), SqlError> {
        let tokens = parse::only_tokens(sql)?;
        let is_correct = maintenance::is_correct(&tokens);
        if let Some(read) = is_correct.or_else(|| backups::is_correct(&tokens)) {
            return read;
        }
        depth::with_room_for(depth::of(&tokens)?, || parse::statement(tokens).map(drop))
    }
}

fn written(data_type: DataType) -> ParameterType {
    match data_type.element() {
        Some(element) => ParameterType::List(element),
        None => ParameterType::One(data_type),
    }
}

/// Whether the values of a declared type have more digits than a type of ours says: they tell.
fn has_any_digits(declared: DataType) -> bool {
    let element = declared.element().unwrap_or(declared);
    matches!(element, DataType::Decimal { .. })
}

/// Whether a place of a type takes values of a declared type as they are.
fn takes(place: Option<DataType>, declared: DataType) -> bool {
    let Some(place) = place else { return false };
    let sample = match declared {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Literal::Integer(0),
        DataType::Float64 => Literal::Float(0.0),
        DataType::Float32 => Literal::Real(0.0),
        DataType::Bool => Literal::Bool(false),
        DataType::Date => Literal::Date(0),
        DataType::Timestamp => Literal::Timestamp(0),
        DataType::TimestampTz => Literal::Instant(0),
        DataType::Time => Literal::Time(0),
        DataType::Uuid => Literal::Uuid([0; 16]),
        DataType::Binary => Literal::Bytes(Vec::new()),
        other => return other == place,
    };
    is_of(&sample, place)
}
