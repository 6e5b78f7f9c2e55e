//! The arguments of `atoll torture crash`.

use clap::Args;

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
    /// Violations after which a scheme is given up
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub violations_max: usize,
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
