//! The arguments of TPC-B.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::oltp::{OltpArgs, require};

/// The bank of TPC-B.
#[derive(Debug, Clone, Args, Serialize)]
pub struct TpcbArgs {
    /// The arguments that all workloads share.
    #[command(flatten)]
    #[serde(flatten)]
    pub oltp: OltpArgs,
    /// Branches; each has 10 tellers and 100,000 accounts
    #[arg(long, default_value_t = 10, value_name = "BRANCHES")]
    pub scale: u16,
    /// Operation of a transaction
    #[arg(long, value_enum, default_value = "transfer", value_name = "WHAT")]
    pub operation: Operation,
    /// Accounts of a branch
    #[arg(long, default_value_t = 100_000, hide = true)]
    pub accounts_per_branch: u32,
}

/// The operation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// The standard transaction: an account, its teller and branch change, a history row is added
    Transfer,
    /// The balance of an account is read
    Select,
    /// The balance of an account changes
    Update,
    /// A history row is added
    Insert,
}

impl TpcbArgs {
    /// Checks the arguments.
    ///
    /// # Errors
    /// [`BenchError::Argument`].
    pub fn check(&self) -> Result<(), BenchError> {
        self.oltp.check()?;
        let scale = self.scale;
        require((1..=32_767).contains(&scale), "--scale", scale, "1 to 32767 branches will do")?;
        let accounts = self.accounts_per_branch;
        let need = "1 to 100000000 will do";
        require((1..=100_000_000).contains(&accounts), "--accounts-per-branch", accounts, need)
    }
}
