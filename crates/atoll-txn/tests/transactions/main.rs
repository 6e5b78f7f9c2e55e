//! Transactions on machines that a test controls, and the checker of histories.
#![allow(clippy::unwrap_used, missing_docs)]

mod adaptive;
mod another_machine;
mod commit_cost;
mod history;
mod key_predictor;
mod large_transaction;
mod unique;
mod waiting;
