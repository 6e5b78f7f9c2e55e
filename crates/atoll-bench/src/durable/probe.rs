//! What the medium can do: the floor of everything here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::BenchError;
use crate::stats::median;

/// What is written for a flush.
const FLUSH_BYTES: usize = 4096;
const FLUSHES: usize = 300;
const READ_BYTES: usize = 4 << 20;

fn system(call: &'static str) -> impl Fn(io::Error) -> BenchError {
    move |source| BenchError::System { call, source }
}

/// Median microseconds of a write of 4 KiB and the `fdatasync` after it, into blocks that have been
/// written before.
///
/// # Errors
/// [`BenchError::System`].
pub fn flush_us(folder: &Path) -> Result<f64, BenchError> {
    let path = folder.join("probe");
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create(true).truncate(true).open(&path).map_err(system("open"))?;
    let bytes = [7; FLUSH_BYTES];
    for at in 0..FLUSHES {
        file.write_all_at(&bytes, (at * FLUSH_BYTES) as u64).map_err(system("pwrite"))?;
    }
    file.sync_all().map_err(system("fsync"))?;
    let mut times = Vec::with_capacity(FLUSHES);
    for at in 0..FLUSHES {
        let begin = Instant::now();
        file.write_all_at(&bytes, (at * FLUSH_BYTES) as u64).map_err(system("pwrite"))?;
        file.sync_data().map_err(system("fdatasync"))?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(system("unlink"))?;
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
