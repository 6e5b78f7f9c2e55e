//! The peers: the same bytes in plain memory, with `fork()` as a snapshot, and sent over a Unix
//! socket.
//!
//! The memory is private and anonymous, because `fork()` copies on write only such memory: a store
//! is shared, and a child would see the parent's changes in it. The writer increments the counter
//! of random rows and idles after each for as long as a transaction of Atoll takes beyond the bare
//! store. So both start from the same throughput, and their losses are comparable.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::args::Plan;
use super::fork::{self, Child};
use super::reader::Reader;
use super::report::{ForkReport, SizeReport, SocketReport};
use super::rows::{COLUMNS, COUNTER};
use crate::cpus::Cpus;
use crate::error::BenchError;
use crate::keys::Random;
use crate::progress::Progress;
use crate::stats::spread_us;

/// Bytes written to the socket at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that are sent at least, when twice the size would not fit into memory.
const SENT_BYTES_LEAST: u64 = 1 << 30;
/// Memory that is kept free.
const SPARE_BYTES: u64 = 1 << 30;

/// Measures both peers and enters the results into `report`.
///
/// # Errors
/// [`BenchError::System`], [`BenchError::Reader`].
pub fn measure(
    plan: &Plan,
    cpus: &Cpus,
    gib: f64,
    rate: f64,
    report: &mut SizeReport,
    progress: Progress<'_>,
) -> Result<(), BenchError> {
    let bytes = report.data_bytes;
    let room = || atoll::machine::memory_allowed().available_bytes.saturating_sub(SPARE_BYTES);
    if room() < bytes {
        report.peers_left_out = Some(format!("{gib} GiB of plain memory are not available"));
        return Ok(());
    }
    let words: Vec<AtomicU64> = (0..bytes / 8).map(AtomicU64::new).collect();
    let can_hold = room() > bytes;
    report.fork = Some(measure_fork(plan, cpus, &words, rate, can_hold)?);
    progress.say(&format!("{gib} GiB: sending the rows over a Unix socket"));
    let sent = if room() > bytes { bytes } else { SENT_BYTES_LEAST.min(bytes) };
    report.socket = Some(measure_socket(&words[..(sent / 8) as usize], bytes)?);
    Ok(())
}

struct Pace {
    done: AtomicU64,
    idle: AtomicU64,
    stop: AtomicBool,
}

fn write_rows(words: &[AtomicU64], pace: &Pace, seed: u64) {
    let rows = (words.len() / COLUMNS) as u64;
    let mut random = Random::new(seed);
    let mut done = 0;
    while !pace.stop.load(Ordering::Relaxed) {
        let word = &words[random.below(rows) as usize * COLUMNS + COUNTER];
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        done += 1;
        pace.done.store(done, Ordering::Relaxed);
        (0..pace.idle.load(Ordering::Relaxed)).for_each(|_| std::hint::spin_loop());
    }
}

fn rate_over(pace: &Pace, seconds: f64) -> f64 {
    let (begin, before) = (Instant::now(), pace.done.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let done = pace.done.load(Ordering::Relaxed) - before;
    done as f64 / begin.elapsed().as_secs_f64()
}

/// Sets the idle time so that there are about `wanted` updates per second.
fn set_pace(pace: &Pace, wanted: f64) {
    let trial = 64;
    let bare_s = 1.0 / rate_over(pace, 0.2).max(1.0);
    pace.idle.store(trial, Ordering::Relaxed);
    let idling_s = 1.0 / rate_over(pace, 0.2).max(1.0);
    let each_s = ((idling_s - bare_s) / trial as f64).max(1e-10);
    let idle = ((1.0 / wanted.max(1.0) - bare_s) / each_s).max(0.0);
    pace.idle.store(idle.round() as u64, Ordering::Relaxed);
}

fn measure_fork(
    plan: &Plan,
    cpus: &Cpus,
    words: &[AtomicU64],
    wanted: f64,
    can_hold: bool,
) -> Result<ForkReport, BenchError> {
    let zero = || AtomicU64::new(0);
    let pace = Pace { done: zero(), idle: zero(), stop: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let pinned = cpus.pin_writer(0);
            write_rows(words, &pace, plan.seed);
            pinned
        });
        let measured = (|| {
            set_pace(&pace, wanted);
            let times = fork::times(plan.forks)?;
            std::thread::sleep(Duration::from_secs_f64(plan.seconds));
            let without = rate_over(&pace, plan.seconds);
            let mut report = ForkReport {
                fork_us: spread_us(&times),
                updates_per_s_without: without,
                ..ForkReport::default()
            };
            if can_hold {
                let faults = fork::page_faults();
                // The window begins before the fork, because the fork stops the writers too.
                let before = (Instant::now(), pace.done.load(Ordering::Relaxed));
                let child = Child::holding()?;
                std::thread::sleep(Duration::from_secs_f64(plan.interval_s));
                let done = pace.done.load(Ordering::Relaxed) - before.1;
                let with = done as f64 / before.0.elapsed().as_secs_f64();
                drop(child);
                report.updates_per_s_with = Some(with);
                report.loss_percent = Some((1.0 - with / without) * 100.0);
                report.page_faults = Some(fork::page_faults() - faults);
            }
            Ok(report)
        })();
        pace.stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| BenchError::Panicked("writer"))??;
        measured
    })
}

fn measure_socket(words: &[AtomicU64], all_bytes: u64) -> Result<SocketReport, BenchError> {
    let bytes = words.len() as u64 * 8;
    let folder = std::env::temp_dir();
    let path = folder.join(format!("atoll-bench-{}.socket", std::process::id()));
    let listener = UnixListener::bind(&path).map_err(BenchError::system("bind"))?;
    let mut reader = Reader::start()?;
    let sent = reader.start_receiving(&path, bytes).and_then(|()| send(&listener, words));
    // The name is not needed any more; a file that is left behind does no harm.
    let _ = std::fs::remove_file(&path);
    let seconds = sent?;
    let got = reader.end_receiving()?;
    reader.close()?;
    if got != bytes {
        return Err(BenchError::Reader(format!("{got} of {bytes} bytes came over the socket")));
    }
    Ok(SocketReport {
        sent_bytes: bytes,
        gib_per_s: bytes as f64 / (1u64 << 30) as f64 / seconds,
        total_ms: seconds * 1e3 * (all_bytes as f64 / bytes as f64),
    })
}

/// Seconds until the receiver has all bytes in memory.
fn send(listener: &UnixListener, words: &[AtomicU64]) -> Result<f64, BenchError> {
    let failed = |call| BenchError::system(call);
    let (mut stream, _) = listener.accept().map_err(failed("accept"))?;
    let begin = Instant::now();
    let mut piece = vec![0; PIECE_BYTES];
    for part in words.chunks(PIECE_BYTES / 8) {
        for (bytes, word) in piece.chunks_exact_mut(8).zip(part) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        stream.write_all(&piece[..part.len() * 8]).map_err(failed("sending rows"))?;
    }
    stream.read_exact(&mut [0]).map_err(failed("waiting for the receiver"))?;
    Ok(begin.elapsed().as_secs_f64())
}
