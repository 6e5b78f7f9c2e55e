//! The schemes, and the rules by which each is judged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use atoll::machine::{Machine, Native};
use atoll_txn::TimestampKind;
use atoll_txn::any;
use atoll_txn::schemes::{SchemeKind, SchemeOptions};

use super::hands::Maker;
use super::hesitant::Hesitant;
use super::rules::Rules;
use super::run::{Run, failed, run_native, run_seed};
use super::stage::words;
use atoll_bench::BenchError;

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
    let readers_never_abort = kind.readers_never_abort();
    let partitions = options.partitions;
    Rules { strict, readers_never_abort, partitions, keep, ..Rules::default() }
}

fn maker<M: Machine>(kind: SchemeKind, options: SchemeOptions) -> Maker<M> {
    Box::new(move |directory, engine| any::engine(kind, &options, directory, engine))
}

/// Runs `run`; a panic is a finding like any other.
fn caught(run: impl FnOnce() -> Run) -> Run {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| failed("panic", words(&*panic)))
}

/// Runs a seed under a scheme; `keep` as in [`Rules::keep`].
pub fn seed(kind: SchemeKind, seed: u64, keep: bool) -> Run {
    let options = options(seed);
    let rules = rules(kind, &options, keep);
    caught(|| run_seed(maker(kind, options), seed, &rules))
}

/// Runs `threads` threads of this machine once under a scheme; with an odd seed they are
/// [`Hesitant`].
pub fn native(kind: SchemeKind, seed: u64, threads: usize) -> Run {
    let options = options(seed);
    let rules = rules(kind, &options, false);
    caught(|| match seed % 2 {
        0 => {
            // What programs run, and no copy of it.
            let make: Maker<Native> = Box::new(move |directory, engine| {
                any::native_engine(kind, &options, directory, engine)
            });
            run_native(make, seed, threads, &rules)
        }
        _ => run_native(maker::<Hesitant>(kind, options), seed, threads, &rules),
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
