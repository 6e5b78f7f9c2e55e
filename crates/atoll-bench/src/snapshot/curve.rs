//! The writers' loss at each interval between snapshots, compared with its lower bound.
//!
//! Stretches with and without snapshots alternate, so each stretch with snapshots is between two
//! without. A snapshot is held until the next has been taken, so the writers copy all the time; the
//! last snapshot of a stretch is released after it.

use std::time::{Duration, Instant};

use super::args::Plan;
use super::copy_cost::EXTENT_BYTES;
use super::reader::Reader;
use super::report::{CopyCost, CurvePoint};
use super::rows::Loaded;
use super::writer::Writers;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::stats::{median, spread_us};

/// Time for the keeper to free memory that is not leased any more.
const SETTLE: Duration = Duration::from_millis(300);

/// The subject of a measurement.
pub struct Field<'f> {
    /// The plan.
    pub plan: &'f Plan,
    /// The database.
    pub loaded: &'f Loaded,
    /// The running writers.
    pub writers: &'f Writers<'f>,
    /// The cost of a copy.
    pub cost: &'f CopyCost,
}

/// A stretch with snapshots.
struct Stretch {
    rate: f64,
    seconds: f64,
    extents: u64,
    bytes: u64,
    take_ns: Vec<u64>,
}

/// Measures a point for each interval.
///
/// # Errors
/// [`BenchError`].
pub fn measure(
    field: &Field<'_>,
    reader: &mut Reader,
    intervals_s: &[f64],
    progress: Progress<'_>,
) -> Result<Vec<CurvePoint>, BenchError> {
    std::thread::sleep(SETTLE);
    let mut points = Vec::new();
    for interval_s in intervals_s {
        let skew = field.writers.theta;
        progress.say(&format!("writers (theta {skew}) with a snapshot each {interval_s} s"));
        let point = point(field, reader, *interval_s)?;
        let (loss, floor) = (point.loss_percent, point.floor_percent);
        progress.say(&format!("  the writers lose {loss:.1} %, copying alone is {floor:.1} %"));
        points.push(point);
    }
    Ok(points)
}

fn point(
    field: &Field<'_>,
    reader: &mut Reader,
    interval_s: f64,
) -> Result<CurvePoint, BenchError> {
    let plan = field.plan;
    let mut without = vec![field.writers.rate_over(plan.seconds)?];
    let mut stretches = Vec::new();
    let mut losses = Vec::new();
    for _ in 0..plan.repeats {
        let stretch = stretch(field, reader, interval_s)?;
        reader.give_up()?;
        std::thread::sleep(SETTLE);
        let before = without[without.len() - 1];
        let after = field.writers.rate_over(plan.seconds)?;
        without.push(after);
        losses.push((1.0 - stretch.rate / before.midpoint(after)) * 100.0);
        stretches.push(stretch);
    }
    let seconds: f64 = stretches.iter().map(|stretch| stretch.seconds).sum();
    let bytes: u64 = stretches.iter().map(|stretch| stretch.bytes).sum();
    let extents: u64 = stretches.iter().map(|stretch| stretch.extents).sum();
    let takes: Vec<u64> = stretches.iter().flat_map(|stretch| stretch.take_ns.clone()).collect();
    let rates: Vec<f64> = stretches.iter().map(|stretch| stretch.rate).collect();
    let copies_per_s = bytes as f64 / EXTENT_BYTES as f64 / seconds;
    Ok(CurvePoint {
        theta: field.writers.theta,
        interval_s,
        updates_per_s_without: median(&without),
        updates_per_s_with: median(&rates),
        loss_percent: median(&losses),
        losses_percent: losses,
        floor_percent: copies_per_s * field.cost.recycled_us / 1e4,
        floor_fresh_percent: copies_per_s * field.cost.fresh_us / 1e4,
        snapshots: takes.len(),
        take_us: spread_us(&takes),
        seconds,
        bytes_copied: bytes,
        extents_copied: extents,
        extents_per_s: extents as f64 / seconds,
    })
}

fn stretch(field: &Field<'_>, reader: &mut Reader, interval_s: f64) -> Result<Stretch, BenchError> {
    let before = field.loaded.db.counters();
    let window = field.writers.begin();
    let begin = Instant::now();
    let snapshots = (field.plan.seconds / interval_s).round().max(1.0) as u32;
    let mut take_ns = Vec::new();
    for number in 1..=snapshots {
        take_ns.push(reader.take()?.take_ns);
        let next = Duration::from_secs_f64(interval_s * f64::from(number));
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
    }
    let (rate, seconds) = field.writers.rate(&window)?;
    let after = field.loaded.db.counters();
    Ok(Stretch {
        rate,
        seconds,
        extents: after.extents_copied - before.extents_copied,
        bytes: after.bytes_copied_on_write - before.bytes_copied_on_write,
        take_ns,
    })
}
