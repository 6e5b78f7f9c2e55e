//! Signals that arrive while a statement runs, especially Ctrl-C.
//!
//! Python handles signals on its main thread, between two of its instructions, and so not while a
//! statement runs. So the statement asks now and then (`SqlSession::set_interrupt`), with Python's
//! lock; an exception of a handler ends the statement and is raised instead of its result.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use atoll::machine::fork::Mark;
use atoll_sql::Question;
use pyo3::prelude::*;

use crate::errors::{Fault, Outcome};

/// Runs a statement without Python's lock. `work` receives the question for the statement.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(Option<Arc<Question>>) -> Outcome<R> + Send,
) -> Outcome<R> {
    if !is_main_thread(py).map_err(Fault::Python)? {
        return py.detach(|| work(None));
    }
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let told = Arc::clone(&raised);
    let question = move || {
        let signal = Python::attach(|py| py.check_signals());
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = signal.err().or(told.take());
        told.is_some()
    };
    let done = py.detach(|| work(Some(Arc::new(question))));
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    raised.map_or(done, |raised| Err(Fault::Python(raised)))
}

/// Whether this is the main thread, which runs signal handlers. A thread asks once in each process:
/// in a forked child, the thread that forked becomes the main one.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        static KNOWN: RefCell<Option<(Mark, bool)>> = const { RefCell::new(None) };
    }
    let known = |known: &RefCell<Option<(Mark, bool)>>| match &*known.borrow() {
        Some((mark, is_main)) if mark.is_here() => Some(*is_main),
        _ => None,
    };
    if let Some(is_main) = KNOWN.with(known) {
        return Ok(is_main);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = main.eq(threading.call_method0("get_ident")?)?;
    KNOWN.with(|known| *known.borrow_mut() = Some((Mark::new(), is_main)));
    Ok(is_main)
}
