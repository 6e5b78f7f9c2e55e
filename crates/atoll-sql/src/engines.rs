//! A pool of idle query engines that all sessions share.
//!
//! An engine has a thread for each CPU. A session borrows one for each query instead of keeping
//! one, so there are as many engines as concurrent queries.
//!
//! `ENGINES-1`: a forked child uses none of its parent's engines, because their threads do not
//! exist there. No fork begins while an engine is made or the list is used, so a child can make its
//! own.

use std::sync::{Mutex, PoisonError};

use atoll::machine::fork::{self, Here};

use crate::error::SqlError;
use crate::query::Engine;

/// Engines that are kept for the next queries.
const IDLE_MAX: usize = 4;

static IDLE: Mutex<Vec<Here<Engine>>> = Mutex::new(Vec::new());

/// Runs a function on the idle engines, all of which belong to this process.
fn with_idle<R>(work: impl FnOnce(&mut Vec<Here<Engine>>) -> R) -> R {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.retain(|engine| engine.mark().is_here());
    work(&mut idle)
}

/// Lends an engine to `query`.
///
/// # Errors
/// The threads of an engine cannot be started; those of `query`.
pub(crate) fn lend<R>(query: impl FnOnce(&Engine) -> Result<R, SqlError>) -> Result<R, SqlError> {
    let engine = {
        let _no_fork = fork::delay();
        match with_idle(Vec::pop) {
            Some(engine) => engine,
            // Here too: one-time initialisation of DataFusion would stay half done in a child.
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
