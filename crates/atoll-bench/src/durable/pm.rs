//! Emulated persistent memory.

use std::path::Path;
use std::time::Duration;

use atoll::Result;
use atoll::machine::{FileMedium, PmCost};
use clap::Args;
use serde::Serialize;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// Whether the medium is emulated persistent memory, and its cost in addition to that of memory.
#[derive(Debug, Clone, Args, Serialize)]
pub struct EmulatedPm {
    /// Write as to persistent memory, with the costs below
    #[arg(long)]
    pub emulate_pm: bool,
    /// Nanoseconds before the first byte of a read
    #[arg(long, default_value_t = 300, value_name = "NS")]
    pub pm_read_ns: u64,
    /// Nanoseconds before written bytes are durable
    #[arg(long, default_value_t = 100, value_name = "NS")]
    pub pm_write_ns: u64,
    /// MiB per second of one reader; 0: no limit
    #[arg(long, default_value_t = 6000, value_name = "N")]
    pub pm_read_mib_s: u64,
    /// MiB per second of one writer; 0: no limit
    #[arg(long, default_value_t = 2000, value_name = "N")]
    pub pm_write_mib_s: u64,
}

impl EmulatedPm {
    /// The parent of the folder: `said`, or a file system in memory if persistent memory is
    /// emulated.
    pub fn folder<'p>(&self, said: Option<&'p Path>) -> Option<&'p Path> {
        let memory = self.emulate_pm.then(|| Path::new(MEMORY)).filter(|path| path.is_dir());
        said.or(memory)
    }

    /// The medium in a folder.
    ///
    /// # Errors
    /// [`atoll::Error::Log`].
    pub fn medium(&self, folder: &Path) -> Result<FileMedium> {
        if !self.emulate_pm {
            return Ok(FileMedium::new(folder)?);
        }
        let cost = PmCost {
            read_latency: Duration::from_nanos(self.pm_read_ns),
            write_latency: Duration::from_nanos(self.pm_write_ns),
            read_bytes_s: self.pm_read_mib_s << 20,
            write_bytes_s: self.pm_write_mib_s << 20,
        };
        Ok(FileMedium::emulated_pm(folder, cost)?)
    }
}
