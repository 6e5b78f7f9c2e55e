//! The write-ahead logs, the checkpoint stores, and reading both again.
//!
//! Every tablespace has a log of its own, so workers of different NUMA nodes share no log. The
//! global sequence number (GSN) orders commits across logs.
//!
//! | module | what it holds |
//! |---|---|
//! | [`block`] | the format of a block, which holds the changes of one commit in one log |
//! | [`ring`] | the ring buffer in DRAM in which blocks wait for their flush |
//! | [`files`] | the files of a log |
//! | [`log`] | one log: admit, reserve, fill, flush |
//! | [`logs`] | all logs: commits across them, the durable horizon |
//! | `options` | the settings of the logs, and their limits |
//! | [`beginning`] | what is written before the first commit after opening |
//! | [`time_mark`] | time marks in the logs, to which a database can be restored |
//! | `recorder` | the recorder with which a transaction commits to several logs |
//! | `helpers` | threads that flush several logs in parallel |
//! | `group_commit` | how long the leader of a flush waits for further commits |
//! | [`scan`] | reading a log from a medium |
//! | `ahead` | read-ahead for a scan |
//! | [`archive`] | copies of log files, taken before the log reuses them |
//! | [`archived`] | finding and reading these copies |
//! | [`checkpoint_store`] | the checkpoint stores of tablespaces: blocks, maps, steps |
//! | [`control`] | the control file, which names the current checkpoints |
//! | [`origin`] | where in the logs a backup begins |
//! | [`sealed`] | small files with a checksum |
//! | [`error`] | the errors of all of these |
//!
//! The crate depends on no scheme and not on SQL, and it does not rebuild tables: recovery in
//! `atoll` does, from what this crate reads.

mod ahead;
pub mod archive;
pub mod archived;
pub mod beginning;
pub mod block;
pub mod checkpoint_store;
pub mod control;
pub mod error;
pub mod files;
mod group_commit;
mod helpers;
pub mod log;
pub mod logs;
mod options;
pub mod origin;
mod recorder;
pub mod ring;
pub mod scan;
pub mod sealed;
pub mod time_mark;

pub use error::LogError;
pub use logs::Logs;
pub use options::{LogsOptions, Planted};
