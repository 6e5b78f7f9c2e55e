//! The entry of the driver in the C interface.
//!
//! `adbc_ffi` exports the traits. Three functions of it are wrapped: the one that runs a statement
//! tells no number of rows beside a stream, and those that bind data refuse or do not survive some
//! of them ([`crate::foreign`]). It lacks the one that tells the error of a stream
//! ([`crate::stream_errors`]).

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use adbc_core::constants::{ADBC_STATUS_OK, ADBC_VERSION_1_1_0};
use adbc_core::error::{AdbcStatusCode, Error, Status};
use adbc_ffi::{FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement, FFIDriver, export_error};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;

use crate::driver::Driver;
use crate::foreign;
use crate::stream_errors;
use crate::tally;

type ExecuteQuery = unsafe extern "C" fn(
    *mut FFI_AdbcStatement,
    *mut FFI_ArrowArrayStream,
    *mut i64,
    *mut FFI_AdbcError,
) -> AdbcStatusCode;

type BindStream = unsafe extern "C" fn(
    *mut FFI_AdbcStatement,
    *mut FFI_ArrowArrayStream,
    *mut FFI_AdbcError,
) -> AdbcStatusCode;

/// The wrapped functions.
static EXECUTE_QUERY: OnceLock<ExecuteQuery> = OnceLock::new();
static BIND_STREAM: OnceLock<BindStream> = OnceLock::new();

/// Fills the table of functions of a driver manager that looks for the driver by this name.
///
/// # Safety
/// As `AdbcDriverInitFunc` of `adbc.h` says: `driver` is null or has room for an `AdbcDriver` of
/// version 1.1.0, and `error` is null or an `AdbcError`.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AtollDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: the arguments are passed on.
    unsafe { init(version, driver, error) }
}

/// The same for a driver manager that is given no name.
///
/// # Safety
/// As [`AtollDriverInit`].
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AdbcDriverInit(
    version: c_int,
    driver: *mut c_void,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    // SAFETY: the arguments are passed on.
    unsafe { init(version, driver, error) }
}

/// # Safety
/// As [`AtollDriverInit`].
unsafe fn init(version: c_int, driver: *mut c_void, error: *mut FFI_AdbcError) -> AdbcStatusCode {
    let refusal = match version {
        _ if driver.is_null() => Some((Status::InvalidArguments, "the driver is a null pointer")),
        ADBC_VERSION_1_1_0 => None,
        _ => Some((Status::NotImplemented, "this driver has version 1.1.0 of ADBC's interface")),
    };
    if let Some((status, message)) = refusal {
        let refused = Error::with_message_and_status(message, status);
        // SAFETY: `error` is null or an `AdbcError`.
        unsafe { export_error(error, refused) };
        return status.into();
    }
    let mut exported = Driver::ffi_driver();
    if let Some(function) = exported.StatementExecuteQuery {
        EXECUTE_QUERY.get_or_init(|| function);
        exported.StatementExecuteQuery = Some(execute_query);
        exported.ErrorFromArrayStream = Some(error_from_array_stream);
    }
    if let Some(function) = exported.StatementBindStream {
        BIND_STREAM.get_or_init(|| function);
        exported.StatementBindStream = Some(bind_stream);
        exported.StatementBind = Some(bind);
    }
    // SAFETY: it is not null, and has room for the functions of this version.
    unsafe { driver.cast::<FFI_AdbcDriver>().write_unaligned(exported) };
    ADBC_STATUS_OK
}

/// Runs a statement, and tells the number of rows also beside a stream.
///
/// # Safety
/// As `AdbcStatementExecuteQuery`.
unsafe extern "C" fn execute_query(
    statement: *mut FFI_AdbcStatement,
    out: *mut FFI_ArrowArrayStream,
    rows_affected: *mut i64,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let Some(function) = EXECUTE_QUERY.get() else { return Status::InvalidState.into() };
    tally::take();
    stream_errors::forget();
    // SAFETY: the arguments are passed on.
    let status = unsafe { function(statement, out, rows_affected, error) };
    if let Some(rows) = tally::take()
        && status == ADBC_STATUS_OK
        && !rows_affected.is_null()
    {
        // SAFETY: it is not null, so it is a place for the number.
        unsafe { rows_affected.write_unaligned(rows) };
    }
    if status == ADBC_STATUS_OK && !out.is_null() {
        // SAFETY: it is not null, so the function has written a stream there.
        let private_data = unsafe { (&raw const (*out).private_data).read_unaligned() };
        stream_errors::give_away(private_data.addr());
    }
    status
}

/// Tells the error that ended a stream; null if the stream is not one of this driver's, or has had
/// none.
///
/// # Safety
/// As `AdbcDriver.ErrorFromArrayStream`.
unsafe extern "C" fn error_from_array_stream(
    stream: *mut FFI_ArrowArrayStream,
    status: *mut AdbcStatusCode,
) -> *const FFI_AdbcError {
    if stream.is_null() {
        return std::ptr::null();
    }
    // SAFETY: it is not null, so it is a stream.
    let private_data = unsafe { (&raw const (*stream).private_data).read_unaligned() };
    let (error, code) = stream_errors::of(private_data.addr());
    if !error.is_null() && !status.is_null() {
        // SAFETY: it is not null, so it is a place for the status.
        unsafe { status.write_unaligned(code) };
    }
    error
}

/// Binds a stream.
///
/// # Safety
/// As `AdbcStatementBindStream`.
unsafe extern "C" fn bind_stream(
    statement: *mut FFI_AdbcStatement,
    stream: *mut FFI_ArrowArrayStream,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let Some(function) = BIND_STREAM.get() else { return Status::InvalidState.into() };
    // SAFETY: the arguments are passed on.
    unsafe {
        foreign::mend(stream);
        function(statement, stream, error)
    }
}

/// Binds one batch, as a stream.
///
/// # Safety
/// As `AdbcStatementBind`.
unsafe extern "C" fn bind(
    statement: *mut FFI_AdbcStatement,
    values: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
    error: *mut FFI_AdbcError,
) -> AdbcStatusCode {
    let Some(function) = BIND_STREAM.get() else { return Status::InvalidState.into() };
    // SAFETY: the arguments are those of the caller.
    match unsafe { foreign::stream_of(values, schema) } {
        // SAFETY: the stream is valid; what the function does not take is released here.
        Ok(mut stream) => unsafe { function(statement, &mut stream, error) },
        Err(refused) => {
            let status = refused.status;
            // SAFETY: `error` is null or an `AdbcError`.
            unsafe { export_error(error, refused) };
            status.into()
        }
    }
}
