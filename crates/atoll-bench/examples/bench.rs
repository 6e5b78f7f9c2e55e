//! `atoll bench` without the rest of the command: built in seconds, for work on the engine. Prints
//! what a run measured as JSON.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use atoll_bench::durable::{checkpoint, commit, recovery};
use atoll_bench::progress::Unwatched;
use atoll_bench::{BenchError, floor, load, tpcb, tpcc, ycsb};
use clap::Parser;
use serde::Serialize;

#[derive(Parser)]
enum Bench {
    Ycsb(ycsb::YcsbArgs),
    Tpcb(tpcb::TpcbArgs),
    Tpcc(tpcc::TpccArgs),
    Floor(floor::FloorArgs),
    Load(load::LoadArgs),
    Commit(commit::CommitArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Recovery(recovery::RecoveryArgs),
}

fn show<R: Serialize>(report: Result<R, BenchError>) -> Result<(), BenchError> {
    println!("{}", serde_json::to_string(&report?).unwrap());
    Ok(())
}

fn main() -> Result<(), BenchError> {
    let progress = &mut Unwatched;
    match Bench::parse() {
        Bench::Ycsb(args) => show(ycsb::run(&args, progress)),
        Bench::Tpcb(args) => show(tpcb::run(&args, progress)),
        Bench::Tpcc(args) => show(tpcc::run(&args, progress)),
        Bench::Floor(args) => show(floor::run(&args, progress)),
        Bench::Load(args) => show(load::run(&args, progress)),
        Bench::Commit(args) => show(commit::run(&args, progress)),
        Bench::Checkpoint(args) => show(checkpoint::run(&args, progress)),
        Bench::Recovery(args) => show(recovery::run(&args, progress)),
    }
}
