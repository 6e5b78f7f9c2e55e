//! The arguments of `atoll torture crash`.

use atoll::machine::medium::{SECTOR_BYTES, WORD_BYTES};
use clap::{Args, ValueEnum};

use crate::error::BenchError;

/// Crashes a database at any moment of its run, on a medium in memory, and opens it again.
#[derive(Debug, Clone, Args)]
pub struct CrashArgs {
    /// Scheme, or `all`
    #[arg(long, default_value = "all", value_name = "NAME")]
    pub scheme: String,
    /// Runs of each scheme
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "K")]
    pub first_seed: u64,
    /// Crashes that are tried of each run
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub crashes: u64,
    /// What is crashed
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub medium: CrashMedia,
    /// Violations after which a scheme is given up
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub violations_max: usize,
}

/// What a medium may leave half written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CrashMedia {
    /// Disks and persistent memory in turns
    #[default]
    All,
    /// A disk: any of its sectors of 512 bytes
    Disk,
    /// Persistent memory: any of its words of 8 bytes
    Pm,
}

impl CrashMedia {
    /// Bytes that are written whole or not at all, in the run of a seed.
    pub fn unit(self, seed: u64) -> u64 {
        match self {
            Self::Disk => SECTOR_BYTES,
            Self::Pm => WORD_BYTES,
            // Every fourth run is one in which nobody waits.
            Self::All if seed / 4 % 2 == seed % 2 => WORD_BYTES,
            Self::All => SECTOR_BYTES,
        }
    }
}

impl CrashArgs {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn check(&self) -> Result<(), BenchError> {
        let counts = [
            ("--seeds", self.seeds),
            ("--crashes", self.crashes),
            ("--violations-max", self.violations_max as u64),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((what, _)) => {
                let (value, need) = ("0".to_owned(), "at least one is needed");
                Err(BenchError::Argument { what, value, need })
            }
            None => Ok(()),
        }
    }
}
