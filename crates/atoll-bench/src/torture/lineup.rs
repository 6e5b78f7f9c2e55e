//! The schemes, and the rules by which each is judged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use atoll::machine::{Machine, Native};
use atoll_txn::schemes::{SchemeKind, SchemeOptions, SchemeVisitor};
use atoll_txn::{Scheme, TimestampKind};

use super::hesitant::Hesitant;
use super::machine::Stepped;
use super::rules::Rules;
use super::run::{Run, failed, run_native, run_seed};
use super::stage::words;
use crate::error::BenchError;

/// The settings that a seed selects: all sources of timestamps, timestamps at the begin or not, and
/// several numbers of partitions occur.
pub fn options(seed: u64) -> SchemeOptions {
    let kinds = TimestampKind::ALL;
    SchemeOptions {
        timestamps: kinds[(seed % kinds.len() as u64) as usize],
        begin_timestamps: seed / 16 % 2 == 1,
        partitions: 1 + (seed / 4 % 4) as u32,
        ..SchemeOptions::default()
    }
}

fn rules(kind: SchemeKind, options: &SchemeOptions, keep: bool) -> Rules {
    let strict = kind.is_strict(options.timestamps);
    Rules { strict, partitions: options.partitions, keep, ..Rules::default() }
}

struct Seeded<'r>(u64, &'r Rules);

impl SchemeVisitor<Stepped> for Seeded<'_> {
    type Output = Run;

    fn visit<S: Scheme<Stepped>>(self, scheme: S) -> Run {
        run_seed(scheme, self.0, self.1)
    }
}

struct Threads<'r>(u64, usize, &'r Rules);

impl<M: Machine> SchemeVisitor<M> for Threads<'_> {
    type Output = Run;

    fn visit<S: Scheme<M>>(self, scheme: S) -> Run {
        run_native(scheme, self.0, self.1, self.2)
    }
}

/// Runs `run`; a panic is a finding like any other.
fn caught(run: impl FnOnce() -> Run) -> Run {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| failed("panic", words(&*panic)))
}

/// Runs a seed under a scheme; `keep` as in [`Rules::keep`].
pub fn seed(kind: SchemeKind, seed: u64, keep: bool) -> Run {
    let options = options(seed);
    caught(|| kind.visit(&options, Seeded(seed, &rules(kind, &options, keep))))
}

/// Runs `threads` threads of this machine once under a scheme; with an odd seed they are
/// [`Hesitant`].
pub fn native(kind: SchemeKind, seed: u64, threads: usize) -> Run {
    let options = options(seed);
    let rules = rules(kind, &options, false);
    let threads = Threads(seed, threads, &rules);
    caught(|| match seed % 2 {
        0 => kind.visit::<Native, _>(&options, threads),
        _ => kind.visit::<Hesitant, _>(&options, threads),
    })
}

/// The schemes of a name: `all`, or one.
///
/// # Errors
/// [`BenchError::Scheme`] when there is no scheme of this name.
pub fn choose(name: &str) -> Result<Vec<SchemeKind>, BenchError> {
    if name.eq_ignore_ascii_case("all") {
        return Ok(SchemeKind::ALL.to_vec());
    }
    Ok(vec![name.parse()?])
}
