//! Arguments of the commands that work on the files of a database: `backup`, `check`, `log` and
//! `restore`.

use std::path::PathBuf;

use clap::Args;

use super::owner::scheme_help;
use crate::{moment, size};

/// `atoll backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll serve bank --data ./bank        own a database and serve it
  atoll backup bank ./bank-monday       a copy of it, while clients work on it
  atoll serve bank --data ./bank-monday the copy is a database of its own
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs
                                        what was committed since, too

The server writes the copy: the folder is one of its machine and of its user. It has the roles of
the server, with the verifiers of their passwords. `BACKUP TO 'folder'` in SQL does the same.")]
pub struct BackupArgs {
    /// Name of the database that `atoll serve` serves
    pub name: String,
    /// The folder of the copy, which is empty or is made
    pub folder: PathBuf,
    /// Port of the server, which is in the name of its Unix socket
    #[arg(long, value_name = "PORT", default_value_t = 5432)]
    pub port: u16,
    /// Folder of the server's Unix socket [default: that of --runtime-dir]
    #[arg(long, value_name = "DIR")]
    pub socket_dir: Option<PathBuf>,
}

/// `atoll check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll check ./bank
  atoll check ./bank --json
  atoll check ./bank --archive ./bank-logs
                                        the copies of logs in its archive, too

Everything that opening the database could need is read: the control file, the last two checkpoints
and the logs behind them; of a backup, where in the logs it begins. Every damage is told with its
file, its offset there, and what was expected and found. The status is 1 when there is any.")]
pub struct CheckArgs {
    /// The folder of the database
    pub folder: PathBuf,

    /// The archive of its logs: to be checked as well
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
}

/// `atoll log`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll log ./bank                      what has been committed since the older checkpoint
  atoll log ./bank --tablespace 1 --limit 20 --json")]
pub struct LogArgs {
    /// The folder of the database
    pub folder: PathBuf,
    /// The log of this tablespace only
    #[arg(long, value_name = "N")]
    pub tablespace: Option<usize>,
    /// Blocks that are shown
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub limit: u64,
}

/// `atoll restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atoll sql bank --data ./bank --archive ./bank-logs
                                        own a database and archive its logs
  \\backup ./bank-monday                 in its shell: a copy that it can be restored from
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --to '2026-11-21 10:00:00'
                                        the state of that time, by the clock of this machine
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --to '2026-11-21 10:00:00+01:00'
  atoll restore ./bank-monday ./bank-again --archive ./bank-logs --logs ./bank
                                        all of it, with what was not archived yet

Restore points are written once a second: the last one not after the given time counts. The
backup must not have been opened since it was made. The archive, the backup and the folder of
--logs are only read; the database of --logs must not be open.")]
pub struct RestoreArgs {
    /// A backup, as `atoll backup` or `\backup` has written it
    pub backup: PathBuf,
    /// The folder of the new database, which is empty or is made
    pub new: PathBuf,
    /// The archive of the logs
    #[arg(long, value_name = "DIR")]
    pub archive: PathBuf,
    /// The folder of the database that was archived, if it is still there: for its last logs
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// The moment, in local time or with an offset from UTC [default: the last one there is]
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    pub to: Option<u64>,
    /// The global sequence number up to which to restore, as `atoll log` shows them
    #[arg(long, value_name = "N", conflicts_with = "to")]
    pub to_gsn: Option<u64>,
    /// Keep the tablespace of the next node in this folder; once for each node
    #[arg(long = "node-folder", value_name = "DIR")]
    pub node_folders: Vec<PathBuf>,
    /// Keep this much of it in DRAM while it is restored, and the rest in the folder of the new
    /// database or in its folder spill [default: everything in DRAM]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_bytes)]
    pub memory_budget: Option<u64>,
    /// The scheme that the database is opened with.
    #[arg(long, value_name = "SCHEME", help = scheme_help())]
    pub scheme: Option<atoll::SchemeKind>,
}
