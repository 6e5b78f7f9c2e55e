//! The arguments of `atoll torture crash`.

use atoll::machine::medium::{SECTOR_BYTES, WORD_BYTES};
use clap::{Args, ValueEnum};

use atoll_bench::BenchError;

/// Crashes a database at any moment of a run, on a medium in memory, and recovers it.
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
    /// The medium that crashes
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub medium: CrashMedia,
    /// Violations after which a scheme is abandoned
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub violations_max: usize,
}

/// The unit in which a medium writes atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CrashMedia {
    /// Disks and persistent memory, alternating
    #[default]
    All,
    /// A disk: sectors of 512 bytes
    Disk,
    /// Persistent memory: words of 8 bytes
    Pm,
}

impl CrashMedia {
    /// Bytes that the medium writes atomically in the run of a seed.
    pub fn unit(self, seed: u64) -> u64 {
        match self {
            Self::Disk => SECTOR_BYTES,
            Self::Pm => WORD_BYTES,
            // Every fourth run is lazy; this spreads the lazy runs over both units.
            Self::All if seed / 4 % 2 == seed % 2 => WORD_BYTES,
            Self::All => SECTOR_BYTES,
        }
    }
}

impl CrashArgs {
    /// Checks the arguments.
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
