//! Engines that wait for a query, of whatever session.
//!
//! An engine has a thread for each CPU, so a session borrows one for each query instead of keeping
//! one: there are as many as there are queries at a time.
//!
//! `ENGINES-1`: a forked child has none of its parent's engines, whose threads do not exist there.
//! No fork begins while one is made or the list is used, so a child can make its own.

use std::sync::{Mutex, PoisonError};

use atoll::machine::fork::{self, Here};

use crate::error::SqlError;
use crate::query::Engine;

/// Engines that are kept for the next queries.
const IDLE_MAX: usize = 4;

static IDLE: Mutex<Vec<Here<Engine>>> = Mutex::new(Vec::new());

/// Does something with the engines that wait, all of which are this process's.
fn with_idle<R>(work: impl FnOnce(&mut Vec<Here<Engine>>) -> R) -> R {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.retain(|engine| engine.mark().is_here());
    work(&mut idle)
}

/// Lends an engine to `query`.
///
/// # Errors
/// No threads could be had for one; those of `query`.
pub(crate) fn lend<R>(query: impl FnOnce(&Engine) -> Result<R, SqlError>) -> Result<R, SqlError> {
    let engine = {
        let _no_fork = fork::delay();
        match with_idle(Vec::pop) {
            Some(engine) => engine,
            // Here too: what DataFusion sets up once would stay half made in a child.
            None => Here::new(Engine::new()?),
        }
    };
    let result = query(&engine);
    let spare = {
        let _no_fork = fork::delay();
        with_idle(|idle| {
            // One that still works on a query that was ended is not lent again, nor one that
            // panicked.
            if idle.len() < IDLE_MAX && !engine.is_busy() && !engine.is_broken() {
                idle.push(engine);
                return None;
            }
            Some(engine)
        })
    };
    drop(spare);
    result
}
