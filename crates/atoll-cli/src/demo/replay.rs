//! The transaction load: workers replay the year as transactions, over and over, each time a year
//! later.
//!
//! An event is one transaction: a flight is scheduled (insert), departs (update), arrives (update
//! of the flight and of the running totals of its airline and both airports), is diverted or
//! cancelled (update). All flights leave from three airports, so arrivals meet on few rows; a
//! transaction that loses there aborts and tries again.
//!
//! - `REPLAY-1`: an airport's or airline's totals change only in the transaction that turns a
//!   flight into `arrived`. So at every moment they are the sums over the flights of that status.
//! - `REPLAY-2`: the first error stops all workers; [`Replay::check`] tells that they stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use atoll::{Table, Transaction, TxnResult, Value};

use super::board::Board;
use super::timetable::{Event, Kind, Timetable, date_of};
use crate::error::{CliError, Result};

/// Positions of the columns that events change, and positions of a flight's columns in the file.
struct Columns {
    /// For each column of the table: the file's; `None` for those that only the table has.
    sources: Vec<Option<usize>>,
    id: usize,
    year: usize,
    time_hour: usize,
    status: usize,
    /// Filled when the flight departs.
    departs: [usize; 2],
    /// Filled when the flight arrives.
    arrives: [usize; 3],
    dep_delay: usize,
    arr_delay: usize,
    distance: usize,
    origin: usize,
    dest: usize,
    carrier: usize,
    /// Of airports: departures, dep_delay_total.
    as_origin: [usize; 2],
    /// Of airports: arrivals, arr_delay_total.
    as_dest: [usize; 2],
    /// Of airlines: flights_arrived, arr_delay_total, distance_total.
    of_airline: [usize; 3],
}

fn position(table: &Table, name: &str) -> Result<usize> {
    let found = table.schema().position(name);
    found.ok_or_else(|| {
        CliError::new(format!("table \"{}\" has no column \"{name}\"", table.name()))
    })
}

fn positions<const N: usize>(table: &Table, names: [&str; N]) -> Result<[usize; N]> {
    let mut found = [0; N];
    for (place, name) in found.iter_mut().zip(names) {
        *place = position(table, name)?;
    }
    Ok(found)
}

impl Columns {
    fn new(board: &Board, timetable: &Timetable) -> Result<Self> {
        let (flights, airports) = (&board.flights, &board.airports);
        let file = &timetable.flights;
        let columns = flights.schema().columns();
        let of = |name| position(flights, name);
        let totals = ["flights_arrived", "arr_delay_total", "distance_total"];
        Ok(Self {
            sources: columns.iter().map(|column| file.find(&column.name)).collect(),
            id: of("id")?,
            year: of("year")?,
            time_hour: of("time_hour")?,
            status: of("status")?,
            departs: positions(flights, ["dep_time", "dep_delay"])?,
            arrives: positions(flights, ["arr_time", "arr_delay", "air_time"])?,
            dep_delay: file.column("dep_delay")?,
            arr_delay: file.column("arr_delay")?,
            distance: file.column("distance")?,
            origin: file.column("origin")?,
            dest: file.column("dest")?,
            carrier: file.column("carrier")?,
            as_origin: positions(airports, ["departures", "dep_delay_total"])?,
            as_dest: positions(airports, ["arrivals", "arr_delay_total"])?,
            of_airline: positions(&board.airlines, totals)?,
        })
    }
}

/// How far the workers have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Flights that came onto the board.
    pub scheduled: u64,
    /// Flights that arrived.
    pub arrived: u64,
    /// Transactions.
    pub events: u64,
}

/// The published progress of one worker.
#[derive(Default)]
struct Shown {
    scheduled: AtomicU64,
    arrived: AtomicU64,
    events: AtomicU64,
    /// Days since 1970 of the event that it is at.
    day: AtomicU64,
}

/// The running load. Dropping it stops the workers.
pub struct Replay {
    stop: Arc<AtomicBool>,
    shown: Vec<Arc<Shown>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Replay {
    /// Starts as many workers as the timetable was made for.
    ///
    /// # Errors
    /// A timetable or tables that lack a column; no thread can be had.
    pub fn start(board: &Board, timetable: Timetable, workers: usize) -> Result<Self> {
        let columns = Arc::new(Columns::new(board, &timetable)?);
        let timetable = Arc::new(timetable);
        let stop = Arc::new(AtomicBool::new(false));
        let mut replay = Self { stop, shown: Vec::new(), threads: Vec::new() };
        for number in 0..workers {
            let shown = Arc::new(Shown::default());
            let worker = Worker {
                number,
                board: board.clone(),
                columns: Arc::clone(&columns),
                timetable: Arc::clone(&timetable),
                stop: Arc::clone(&replay.stop),
                shown: Arc::clone(&shown),
            };
            let named = std::thread::Builder::new().name(format!("replay-{number}"));
            let thread = named.spawn(move || worker.run());
            let thread =
                thread.map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
            replay.shown.push(shown);
            replay.threads.push(thread);
        }
        Ok(replay)
    }

    /// The date that the slowest worker has reached, such as `2013-05-17`.
    pub fn date(&self) -> String {
        let days = self.shown.iter().map(|shown| shown.day.load(Ordering::Relaxed)).min();
        let (year, month, day) = date_of(days.unwrap_or(0) as i64);
        format!("{year}-{month:02}-{day:02}")
    }

    /// How far the workers have come.
    pub fn tally(&self) -> Tally {
        self.shown.iter().fold(Tally::default(), |sum, shown| Tally {
            scheduled: sum.scheduled + shown.scheduled.load(Ordering::Relaxed),
            arrived: sum.arrived + shown.arrived.load(Ordering::Relaxed),
            events: sum.events + shown.events.load(Ordering::Relaxed),
        })
    }

    /// Sees whether the workers still work.
    ///
    /// # Errors
    /// The error that stopped them.
    pub fn check(&mut self) -> Result<()> {
        if self.threads.iter().any(JoinHandle::is_finished) {
            self.stop()?;
        }
        Ok(())
    }

    /// Stops the workers between two transactions.
    ///
    /// # Errors
    /// The error that one of them met.
    pub fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            let outcome = thread.join();
            let outcome = outcome.unwrap_or_else(|_| Err(CliError::new("a worker panicked")));
            ended = ended.and(outcome);
        }
        ended
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // A caller that needs the outcome has called `stop`.
        let _ = self.stop();
    }
}

struct Worker {
    number: usize,
    board: Board,
    columns: Arc<Columns>,
    timetable: Arc<Timetable>,
    stop: Arc<AtomicBool>,
    shown: Arc<Shown>,
}

impl Worker {
    fn run(&self) -> Result<()> {
        let replayed = self.replay();
        if replayed.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        replayed
    }

    fn replay(&self) -> Result<()> {
        for round in 0.. {
            for event in self.timetable.events(self.number) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let shift_us = self.timetable.shift_us(event.row as usize, round);
                self.apply(*event, round, shift_us)?;
                let counts = match event.kind {
                    Kind::Schedule => Some(&self.shown.scheduled),
                    Kind::Arrive => Some(&self.shown.arrived),
                    _ => None,
                };
                counts.into_iter().chain([&self.shown.events]).for_each(|count| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                let day = (i64::from(event.at) * 60_000_000 + shift_us) / 86_400_000_000;
                self.shown.day.store(day as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Key of a flight in this round.
    fn key(&self, row: usize, round: i64) -> i64 {
        let file = &self.timetable.flights;
        // The column of the key comes first in the file as in the table.
        let id = self.columns.sources[self.columns.id].and_then(|column| file.number(row, column));
        id.unwrap_or(row as i64 + 1) + round * file.len() as i64
    }

    /// The row that is inserted when a flight comes onto the board.
    fn planned(&self, row: usize, round: i64, shift_us: i64) -> Vec<Value> {
        let (columns, file) = (&self.columns, &self.timetable.flights);
        let mut values: Vec<Value> = columns
            .sources
            .iter()
            .enumerate()
            .map(|(at, source)| match source {
                Some(_) if columns.departs.contains(&at) => Value::Null,
                Some(_) if columns.arrives.contains(&at) => Value::Null,
                Some(column) => file.value(row, *column),
                None => Value::Null,
            })
            .collect();
        values[columns.id] = self.key(row, round).into();
        values[columns.year] = self.timetable.year(row, round);
        if let Value::Timestamp(hour) = &mut values[columns.time_hour] {
            *hour += shift_us;
        }
        values[columns.status] = "scheduled".into();
        values
    }

    /// The values that an update of a flight writes: these columns from the file, and the state.
    fn changes(&self, row: usize, columns: &[usize], status: &str) -> Vec<(usize, Value)> {
        let file = &self.timetable.flights;
        let filled = columns.iter().filter_map(|at| {
            self.columns.sources[*at].map(|source| (*at, file.value(row, source)))
        });
        filled.chain([(self.columns.status, status.into())]).collect()
    }

    /// One event, one transaction.
    fn apply(&self, event: Event, round: i64, shift_us: i64) -> Result<()> {
        let (row, columns, board) = (event.row as usize, &self.columns, &self.board);
        if event.kind == Kind::Schedule {
            let planned = self.planned(row, round, shift_us);
            return Ok(board.db.transaction(|tx| tx.insert(&board.flights, &planned))?);
        }
        let key = [Value::Int64(self.key(row, round))];
        let changes = match event.kind {
            Kind::Depart => self.changes(row, &columns.departs, "departed"),
            Kind::Arrive => self.changes(row, &columns.arrives, "arrived"),
            Kind::Divert => self.changes(row, &columns.arrives, "diverted"),
            _ => self.changes(row, &[], "cancelled"),
        };
        let totals = (event.kind == Kind::Arrive).then(|| self.totals(row));
        let found = board.db.transaction(|tx| {
            let mut found = tx.update(&board.flights, &key, &changes)?;
            for total in totals.iter().flatten() {
                found &= total.add(tx)?;
            }
            Ok(found)
        })?;
        if found {
            return Ok(());
        }
        Err(CliError::new(format!("flight {key:?}, its airports or its airline are not there")))
    }

    /// The amounts that an arrival adds to the running totals.
    fn totals(&self, row: usize) -> [Total<'_>; 3] {
        let (columns, board, file) = (&self.columns, &self.board, &self.timetable.flights);
        let number = |column| file.number(row, column).unwrap_or(0);
        let (dep_delay, arr_delay) = (number(columns.dep_delay), number(columns.arr_delay));
        let total = |table, column, columns, add| Total {
            table,
            key: file.value(row, column),
            columns,
            add,
        };
        // The most contended row last: its lock is held for the shortest time.
        let of_airline = vec![1, arr_delay, number(columns.distance)];
        [
            total(&board.airlines, columns.carrier, &columns.of_airline[..], of_airline),
            total(&board.airports, columns.dest, &columns.as_dest[..], vec![1, arr_delay]),
            total(&board.airports, columns.origin, &columns.as_origin[..], vec![1, dep_delay]),
        ]
    }
}

/// Numbers to be added to a row.
struct Total<'a> {
    table: &'a Table,
    key: Value,
    columns: &'a [usize],
    add: Vec<i64>,
}

impl Total<'_> {
    /// Adds; false when there is no such row.
    fn add(&self, tx: &mut Transaction) -> TxnResult<bool> {
        let key = std::slice::from_ref(&self.key);
        let added = tx.update_with(self.table, key, |row| {
            for (column, add) in self.columns.iter().zip(&self.add) {
                if let Value::Int64(before) = row.value(*column) {
                    row.set_i64(*column, before + add);
                }
            }
        })?;
        Ok(added.is_some())
    }
}
