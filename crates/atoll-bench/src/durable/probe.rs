//! What the medium can do: the floor of everything here.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use atoll::machine::Medium;
use atoll::machine::medium::Open;

use crate::error::BenchError;
use crate::stats::median;

/// What a disk writes for a flush, at least.
pub const FLUSH_BYTES: usize = 4096;
const FLUSHES: usize = 300;
const READ_BYTES: usize = 4 << 20;

fn system(call: &'static str) -> impl Fn(io::Error) -> BenchError {
    move |source| BenchError::System { call, source }
}

/// Median microseconds of writing so many bytes to places that have been written before, each of
/// which is then made durable.
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

/// All files below a folder whose names begin so.
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

/// Sees to it that files are read from the medium and not from memory.
///
/// # Errors
/// [`BenchError::System`].
pub fn forget(files: &[PathBuf]) -> Result<(), BenchError> {
    for path in files {
        let file = File::open(path).map_err(system("open"))?;
        file.sync_all().map_err(system("fsync"))?;
        // SAFETY: the descriptor is open.
        let done =
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if done != 0 {
            return Err(system("posix_fadvise")(io::Error::from_raw_os_error(done)));
        }
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
