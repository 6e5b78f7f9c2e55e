//! Arguments of the commands that show databases and the machine: `snapshots`, `list` and `nodes`.

use std::path::PathBuf;

use clap::Args;

/// `atoll snapshots`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll snapshots bank
  atoll snapshots bank --json

Columns:
  shared  bytes of the database when the snapshot was taken, which it reads without a copy
  copied  bytes that writers have copied since, because this or another snapshot showed them
  kept    bytes of replaced data that live for this snapshot and older ones alone

Below them is where the memory of the owner's process is, as \\memory shows it.")]
pub struct SnapshotsArgs {
    /// Name of the database
    pub name: String,
}

/// `atoll list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll list
  atoll list --runtime-dir /run/user/1000/atoll
  atoll list --json

After its owner was killed, a database is listed as stale until its name is used again.")]
pub struct ListArgs {}

/// `atoll nodes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll nodes
  atoll nodes --nodes 4                 as four logical nodes
  atoll nodes --sysfs DIR               a machine that a copy of its /sys describes
  atoll nodes --json

Distances are the kernel's: 10 is a node's own memory, 20 is twice as far.")]
pub struct NodesArgs {
    /// Read the machine from a folder that holds what its /sys holds
    #[arg(long, value_name = "DIR")]
    pub sysfs: Option<PathBuf>,
}
