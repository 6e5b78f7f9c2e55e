//! What durability costs: commits, checkpoints, recovery, each beside a probe of the medium.
//!
//! | module | room for |
//! |---|---|
//! | [`commit`] | clients that wait for their commits |
//! | [`recovery`] | opening a database with so much log |
//! | [`checkpoint`] | what a checkpoint writes after random updates |
//! | [`pm`], [`probe`] | emulated persistent memory, and what the medium can do |
//! | [`accounts`] | the table |

pub mod accounts;
pub mod checkpoint;
pub mod commit;
pub mod pm;
pub mod probe;
pub mod recovery;
