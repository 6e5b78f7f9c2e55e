//! The log: what makes commits last, and what is found of them again.
//!
//! Every tablespace has a log of its own, so that workers of different nodes meet nowhere. What
//! orders commits across logs is the global sequence number (GSN).
//!
//! | module | room for |
//! |---|---|
//! | [`block`] | the format of a block, which holds a commit's changes in one log |
//! | [`ring`] | the DRAM in which blocks wait for their flush |
//! | [`files`] | the files of a log |
//! | [`log`] | one log: reserve, fill, flush |
//! | [`logs`] | all logs: the durable horizon, waiting for it |
//! | [`beginning`] | what is written before the first commit after opening |
//! | [`time_mark`] | moments in the logs, to which a database can be restored |
//! | `recorder` | what a worker commits with, across logs |
//! | `helpers` | flushing logs beside each other |
//! | `group_commit` | whom the leader of a flush waits for |
//! | [`scan`] | reading a log from a medium |
//! | [`archive`] | copies of the files of logs that are needed no more |
//! | [`archived`] | finding them again |
//! | [`checkpoint_store`] | the checkpoint stores of tablespaces: blocks, maps of checkpoints |
//! | [`control`] | the file that says which checkpoints there are |
//! | [`origin`] | where in the logs a backup begins |
//! | [`sealed`] | small files with a checksum |
//! | [`error`] | what can go wrong |
//!
//! The crate knows nothing of schemes and nothing of SQL, and it does not know how a table is made
//! again from what it finds: `atoll` joins the two.

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
pub mod origin;
mod recorder;
pub mod ring;
pub mod scan;
pub mod sealed;
pub mod time_mark;

pub use error::LogError;
pub use logs::{Logs, LogsOptions, Planted};
