//! Probes of the medium and of memory: the limits of the other benchmarks here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use atoll::machine::medium::Open;
use atoll::machine::{FileMedium, Hints, Medium, Native};

use crate::error::BenchError;
use crate::keys::Random;
use crate::stats::median;

/// Bytes that a disk writes for a flush, at least.
pub const FLUSH_BYTES: usize = 4096;
const FLUSHES: usize = 300;
const READ_BYTES: usize = 4 << 20;

fn system(call: &'static str) -> impl Fn(io::Error) -> BenchError {
    move |source| BenchError::System { call, source }
}

/// Median microseconds of writing `bytes` bytes to places that were written before and making them
/// durable.
///
/// # Errors
/// [`atoll::Error::Log`].
pub fn flush_us(medium: &dyn Medium, bytes: usize) -> atoll::Result<f64> {
    const NAME: &str = "probe";
    let file = medium.open(NAME, Open::Create)?;
    let bytes = vec![7; bytes];
    file.reserve((FLUSHES * bytes.len()) as u64)?;
    file.sync()?;
    let mut times = Vec::with_capacity(FLUSHES);
    for at in 0..FLUSHES {
        let begin = Instant::now();
        file.write_at((at * bytes.len()) as u64, &bytes)?;
        file.sync()?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    medium.remove(NAME)?;
    Ok(median(&times))
}

/// As [`flush_us`], with the smallest flush, on files in a folder: a probe for other benchmarks.
///
/// # Errors
/// [`BenchError::Database`].
pub fn flush_us_in(folder: &Path) -> Result<f64, BenchError> {
    let medium = FileMedium::new(folder).map_err(atoll::Error::from)?;
    Ok(flush_us(&medium, FLUSH_BYTES)?)
}

/// All files below a folder with names that begin with `prefix`.
///
/// # Errors
/// [`BenchError::System`].
pub fn files(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>, BenchError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(system("readdir"))? {
        let path = entry.map_err(system("readdir"))?.path();
        if path.is_dir() {
            found.extend(files(&path, prefix)?);
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Drops files from the page cache, so that they are read from the medium.
///
/// # Errors
/// [`BenchError::System`].
pub fn forget(files: &[PathBuf]) -> Result<(), BenchError> {
    for path in files {
        let file = File::open(path).map_err(system("open"))?;
        file.sync_all().map_err(system("fsync"))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| system("posix_fadvise")(error.into()))?;
    }
    Ok(())
}

/// MiB per second of reading files one after the other from the medium.
///
/// # Errors
/// [`BenchError::System`].
pub fn read_mib_s(files: &[PathBuf]) -> Result<f64, BenchError> {
    forget(files)?;
    let mut buffer = vec![0; READ_BYTES];
    let (begin, mut bytes) = (Instant::now(), 0);
    for path in files {
        let file = File::open(path).map_err(system("open"))?;
        let mut at = 0;
        loop {
            let read = file.read_at(&mut buffer, at).map_err(system("pread"))?;
            if read == 0 {
                break;
            }
            at += read as u64;
        }
        bytes += at;
    }
    Ok(bytes as f64 / (1 << 20) as f64 / begin.elapsed().as_secs_f64())
}

/// Seconds that memory needs for the stores of a recovery and nothing else: `changes` stores into
/// `rows` rows in random order, by `threads` threads, each with its own share of both; a store is a
/// word and a filler, in arrays of their own, with prefetches that overlap.
pub fn store_s(rows: u64, changes: u64, threads: usize) -> f64 {
    const WORD: usize = 8;
    const FILLER: usize = super::accounts::FILLER_BYTES as usize;
    const TOGETHER: usize = 64;
    let own = (rows as usize / threads).max(1);
    let shares: Vec<_> =
        (0..threads).map(|_| (vec![1u8; own * WORD], vec![1u8; own * FILLER])).collect();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for (thread, (mut words, mut fillers)) in shares.into_iter().enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 1);
                let mut left = changes / threads as u64;
                let mut chosen = [0; TOGETHER];
                let mut hints = Hints::default();
                while left > 0 {
                    let count = left.min(TOGETHER as u64) as usize;
                    for row in &mut chosen[..count] {
                        *row = random.below(own as u64) as usize;
                        hints.add::<Native>(&raw const words[*row * WORD], WORD);
                        hints.add::<Native>(&raw const fillers[*row * FILLER], FILLER);
                    }
                    hints.give::<Native>();
                    for row in &chosen[..count] {
                        words[row * WORD..][..WORD].copy_from_slice(&left.to_le_bytes());
                        fillers[row * FILLER..][..FILLER].fill(left as u8);
                    }
                    left -= count as u64;
                }
                std::hint::black_box((words, fillers));
            });
        }
    });
    begin.elapsed().as_secs_f64()
}
