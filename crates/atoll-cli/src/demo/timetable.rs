//! The year as events in the order of time: what happens to which flight, and when.
//!
//! - `TIMETABLE-1`: all events of a flight are in the list of one worker, in their order. So a
//!   worker never finds a flight in a state that another one has yet to bring about.

use atoll::Value;

use super::files::Rows;
use crate::error::Result;

/// How long before its departure a flight comes onto the board, in minutes.
const SCHEDULED_BEFORE: i64 = 24 * 60;
/// Minutes on the ground between leaving the gate and reaching the other one. The data has no
/// instant of arrival (its times are local to the destination), so this one is estimated; it only
/// decides the order of events.
const TAXI: i64 = 25;
/// Minutes after which a diverted flight is known to be one.
const DIVERTED_AFTER: i64 = 240;
const MINUTE_US: i64 = 60_000_000;
const DAY_US: i64 = 24 * 60 * MINUTE_US;

/// What happens to a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It comes onto the board.
    Schedule,
    /// It leaves.
    Depart,
    /// It arrives; the running totals grow.
    Arrive,
    /// It lands elsewhere or turns back; it counts in no total.
    Divert,
    /// It never leaves.
    Cancel,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// Minutes since 1970.
    pub at: i32,
    /// Row of the flight in the file.
    pub row: u32,
    /// What happens.
    pub kind: Kind,
}

/// The flights and the events of each worker.
pub struct Timetable {
    /// The file.
    pub flights: Rows,
    events: Vec<Vec<Event>>,
    year: usize,
    month: usize,
    day: usize,
}

impl Timetable {
    /// Makes the events of all flights for some workers.
    ///
    /// # Errors
    /// A file without the columns that tell when.
    pub fn new(flights: Rows, workers: usize) -> Result<Self> {
        let column = |name| flights.column(name);
        let (year, month, day) = (column("year")?, column("month")?, column("day")?);
        let (time_hour, minute) = (column("time_hour")?, column("minute")?);
        let (dep_delay, arr_delay) = (column("dep_delay")?, column("arr_delay")?);
        let air_time = column("air_time")?;
        let mut events = vec![Vec::new(); workers];
        for row in 0..flights.len() {
            let number = |column| flights.number(row, column);
            let hour = number(time_hour).unwrap_or(0) / MINUTE_US;
            let planned = hour + number(minute).unwrap_or(0);
            let list: &mut Vec<Event> = &mut events[row % workers];
            let mut add = |at: i64, kind| {
                list.push(Event { at: at as i32, row: row as u32, kind });
            };
            add(planned - SCHEDULED_BEFORE, Kind::Schedule);
            let Some(late) = number(dep_delay) else {
                add(planned, Kind::Cancel);
                continue;
            };
            add(planned + late, Kind::Depart);
            match (number(arr_delay), number(air_time)) {
                (Some(_), Some(air)) => add(planned + late + air + TAXI, Kind::Arrive),
                _ => add(planned + late + DIVERTED_AFTER, Kind::Divert),
            }
        }
        events.iter_mut().for_each(|list| list.sort_unstable());
        Ok(Self { flights, events, year, month, day })
    }

    /// The events of a worker in the order of time.
    pub fn events(&self, worker: usize) -> &[Event] {
        &self.events[worker]
    }

    /// Microseconds between a flight's day and the same day `round` years later.
    pub fn shift_us(&self, row: usize, round: i64) -> i64 {
        let number = |column| self.flights.number(row, column).unwrap_or(1);
        let (year, month, day) = (number(self.year), number(self.month), number(self.day));
        (days_since_1970(year + round, month, day) - days_since_1970(year, month, day)) * DAY_US
    }

    /// Year of a flight, `round` years later.
    pub fn year(&self, row: usize, round: i64) -> Value {
        let year = self.flights.number(row, self.year).unwrap_or(0) + round;
        Value::Int16(i16::try_from(year).unwrap_or(i16::MAX))
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The date (year, month, day) of a day since 1970.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days_since_1970(year, *month, 1) <= days).unwrap_or(1);
    (year, month, days - days_since_1970(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_leap_years_and_read_back() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2013, 1, 1), 15_706);
        assert_eq!(days_since_1970(2016, 3, 1) - days_since_1970(2016, 2, 28), 2);
        assert_eq!(days_since_1970(2100, 3, 1) - days_since_1970(2100, 2, 28), 1);
        for days in (0..40_000).step_by(7) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_since_1970(year, month, day), days, "{year}-{month}-{day}");
        }
    }
}
