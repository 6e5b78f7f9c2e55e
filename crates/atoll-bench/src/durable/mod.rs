//! The cost of durability: commits, checkpoints and recovery, each compared with a probe of the
//! medium.
//!
//! | module | contents |
//! |---|---|
//! | [`commit`] | clients that wait for their commits |
//! | [`recovery`] | opens a database with a given amount of log |
//! | [`checkpoint`] | bytes that a checkpoint writes after random updates |
//! | [`pm`], [`probe`] | emulated persistent memory, and probes of the medium |
//! | [`accounts`] | the table |

pub mod accounts;
pub mod checkpoint;
pub mod commit;
pub mod pm;
pub mod probe;
pub mod recovery;
