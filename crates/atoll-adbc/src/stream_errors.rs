//! The errors that ended streams, with their status and SQLSTATE.
//!
//! A stream of Arrow's C interface has a text for its error and nothing else. A client of ADBC asks
//! the driver for more (`AdbcDriver.ErrorFromArrayStream`), by the stream. So the driver remembers
//! the streams that it gave away, by the address of their private data.
//!
//! `STREAMERROR-1`: the private data of a stream has its address until the stream is released. The
//! reader in it keeps its [`Failure`], so one that can still be upgraded belongs to that address.

use std::cell::{Cell, UnsafeCell};
use std::ffi::CString;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use adbc_core::constants::ADBC_STATUS_OK;
use adbc_core::error::{AdbcStatusCode, Error};
use adbc_ffi::FFI_AdbcError;
use atoll::machine::fork;

/// How a stream has failed, if it has.
#[derive(Default)]
pub(crate) struct Failure(OnceLock<Told>);

/// An error as the C interface gives it. The client does not release it.
struct Told {
    error: UnsafeCell<FFI_AdbcError>,
    status: AdbcStatusCode,
    /// What `error` points to.
    _message: CString,
}

// SAFETY: the pointers lead to `_message`, which is never changed, or are null. Only the client, to
// which a stream belongs, changes the error: a driver manager notes itself there.
unsafe impl Send for Told {}
// SAFETY: as above.
unsafe impl Sync for Told {}

impl Failure {
    /// Notes the error; the first one counts.
    pub(crate) fn note(&self, error: &Error) {
        self.0.get_or_init(|| {
            let message = CString::new(error.message.replace('\0', " ")).unwrap_or_default();
            let told = FFI_AdbcError {
                message: message.as_ptr().cast_mut(),
                vendor_code: error.vendor_code,
                sqlstate: error.sqlstate,
                release: None,
                private_data: std::ptr::null_mut(),
                private_driver: std::ptr::null(),
            };
            Told { error: told.into(), status: error.status.into(), _message: message }
        });
    }
}

/// Streams that were given away, by the addresses of their private data.
static STREAMS: Mutex<Vec<(usize, Weak<Failure>)>> = Mutex::new(Vec::new());

thread_local! {
    /// Of the stream that this thread has made last.
    static LAST: Cell<Option<Weak<Failure>>> = const { Cell::new(None) };
}

/// Notes that the calling thread has made a stream, which it may give away.
pub(crate) fn made(failure: &Arc<Failure>) {
    LAST.set(Some(Arc::downgrade(failure)));
}

/// Forgets the stream that the calling thread has made last.
pub(crate) fn forget() {
    LAST.set(None);
}

/// Remembers that the stream that this thread has made last is given away as one with this private
/// data.
pub(crate) fn give_away(private_data: usize) {
    let Some(failure) = LAST.take() else { return };
    let _no_fork = fork::delay();
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    streams.retain(|(at, other)| *at != private_data && other.strong_count() > 0);
    streams.push((private_data, failure));
}

/// The error of the stream with this private data, and its status; null if it has had none. The
/// error is there until the stream is released (`STREAMERROR-1`).
pub(crate) fn of(private_data: usize) -> (*const FFI_AdbcError, AdbcStatusCode) {
    let failure = {
        let _no_fork = fork::delay();
        let streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = streams.iter().find(|(at, _)| *at == private_data);
        found.and_then(|(_, failure)| failure.upgrade())
    };
    match failure.as_ref().and_then(|failure| failure.0.get()) {
        Some(told) => (told.error.get().cast_const(), told.status),
        None => (std::ptr::null(), ADBC_STATUS_OK),
    }
}
