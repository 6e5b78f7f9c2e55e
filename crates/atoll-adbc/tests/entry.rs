//! What a driver manager does with the entry of the driver, and with data as other libraries make
//! them.

#![allow(clippy::unwrap_used)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

use adbc_core::constants::{ADBC_STATUS_OK, ADBC_VERSION_1_0_0, ADBC_VERSION_1_1_0};
use adbc_core::error::Status;
use adbc_core::options::{AdbcVersion, OptionDatabase, OptionValue};
use adbc_core::{Connection as _, Database as _, Driver as _, Statement as _};
use adbc_driver_manager::ManagedDriver;
use adbc_ffi::{
    FFI_AdbcConnection, FFI_AdbcDatabase, FFI_AdbcDriver, FFI_AdbcDriverInitFunc, FFI_AdbcError,
    FFI_AdbcStatement,
};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, Int32Array, NullArray, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use atoll_adbc::{AdbcDriverInit, AtollDriverInit};

fn entered(version: c_int) -> (u8, FFI_AdbcDriver) {
    let mut driver = MaybeUninit::<FFI_AdbcDriver>::zeroed();
    // SAFETY: there is room for a driver; one that is all zeros has no functions.
    unsafe {
        let status = AtollDriverInit(version, driver.as_mut_ptr().cast::<c_void>(), null_mut());
        (status, driver.assume_init())
    }
}

#[test]
fn other_versions_and_null_pointers_are_refused() {
    for version in [0, ADBC_VERSION_1_0_0, ADBC_VERSION_1_1_0 + 1] {
        let (status, driver) = entered(version);
        assert_eq!(status, u8::from(Status::NotImplemented), "{version}");
        assert!(driver.DatabaseNew.is_none(), "{version}");
    }
    let mut error = FFI_AdbcError::default();
    // SAFETY: null pointers are permitted.
    let status = unsafe { AdbcDriverInit(ADBC_VERSION_1_1_0, null_mut(), &mut error) };
    assert_eq!(status, u8::from(Status::InvalidArguments));
    let error = adbc_core::error::Error::try_from(error).unwrap();
    assert!(error.message.contains("null pointer"), "{error}");
}

/// The shared object of this crate, which Cargo builds for its tests.
#[test]
fn the_shared_object_is_loaded_without_an_entry_point() {
    let deps = std::env::current_exe().unwrap();
    let object = deps.parent().unwrap().join("libatoll_adbc.so");
    let mut driver =
        ManagedDriver::load_dynamic_from_filename(&object, None, AdbcVersion::V110).unwrap();
    let mut connection = driver.new_database().unwrap().new_connection().unwrap();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT 1 AS a").unwrap();
    let rows: Vec<RecordBatch> = statement.execute().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows[0].num_rows(), 1);
    let options = [(OptionDatabase::Other("unknown".into()), "1".into())];
    let error = driver.new_database_with_opts(options).err().unwrap();
    assert_eq!(error.status, Status::NotImplemented, "{error}");

    // A folder is not shared with another copy of the driver.
    let entry: FFI_AdbcDriverInitFunc = AtollDriverInit;
    let mut other = ManagedDriver::load_static(&entry, AdbcVersion::V110).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = || [(OptionDatabase::Uri, OptionValue::String(dir.path().display().to_string()))];
    let first = driver.new_database_with_opts(options()).unwrap();
    let error = other.new_database_with_opts(options()).err().unwrap();
    assert_eq!(error.sqlstate.map(|one| one as u8), *b"55006", "{error}");
    drop(first);
    other.new_database_with_opts(options()).unwrap();
}

/// The functions of the driver, and a statement of a new database.
struct Raw {
    driver: FFI_AdbcDriver,
    database: FFI_AdbcDatabase,
    connection: FFI_AdbcConnection,
    statement: FFI_AdbcStatement,
}

impl Raw {
    fn new() -> Self {
        let (status, driver) = entered(ADBC_VERSION_1_1_0);
        assert_eq!(status, ADBC_STATUS_OK);
        let mut raw = Self {
            driver,
            database: FFI_AdbcDatabase::default(),
            connection: FFI_AdbcConnection::default(),
            statement: FFI_AdbcStatement::default(),
        };
        let (database, connection) = (&mut raw.database, &mut raw.connection);
        // SAFETY: everything is as the interface asks for.
        let all = unsafe {
            [
                raw.driver.DatabaseNew.unwrap()(database, null_mut()),
                raw.driver.DatabaseInit.unwrap()(database, null_mut()),
                raw.driver.ConnectionNew.unwrap()(connection, null_mut()),
                raw.driver.ConnectionInit.unwrap()(connection, database, null_mut()),
                raw.driver.StatementNew.unwrap()(connection, &mut raw.statement, null_mut()),
            ]
        };
        assert_eq!(all, [ADBC_STATUS_OK; 5]);
        raw
    }

    fn set(&mut self, text: &std::ffi::CStr) {
        let set = self.driver.StatementSetSqlQuery.unwrap();
        // SAFETY: the statement is valid.
        let status = unsafe { set(&mut self.statement, text.as_ptr(), null_mut()) };
        assert_eq!(status, ADBC_STATUS_OK);
    }

    fn bind(&mut self, rows: &StructArray, change: fn(&mut FFI_ArrowArray)) -> u8 {
        let (mut values, mut schema): (FFI_ArrowArray, FFI_ArrowSchema) =
            to_ffi(&rows.to_data()).unwrap();
        change(&mut values);
        let bind = self.driver.StatementBind.unwrap();
        // SAFETY: the statement and the values are valid.
        unsafe { bind(&mut self.statement, &mut values, &mut schema, null_mut()) }
    }

    /// The rows, and how many the driver says there are.
    fn run(&mut self) -> (Vec<RecordBatch>, i64) {
        let (mut out, mut count) = (FFI_ArrowArrayStream::empty(), 0);
        let execute = self.driver.StatementExecuteQuery.unwrap();
        // SAFETY: the statement is valid, and there is room for a stream.
        let rows = unsafe {
            let status = execute(&mut self.statement, &mut out, &mut count, null_mut());
            assert_eq!(status, ADBC_STATUS_OK);
            ArrowArrayStreamReader::from_raw(&mut out).unwrap()
        };
        (rows.map(Result::unwrap).collect(), count)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: each is released once, here.
        let all = unsafe {
            [
                self.driver.StatementRelease.unwrap()(&mut self.statement, null_mut()),
                self.driver.ConnectionRelease.unwrap()(&mut self.connection, null_mut()),
                self.driver.DatabaseRelease.unwrap()(&mut self.database, null_mut()),
            ]
        };
        assert_eq!(all, [ADBC_STATUS_OK; 3]);
        // SAFETY: a second time is refused.
        let again = unsafe { self.driver.DatabaseRelease.unwrap()(&mut self.database, null_mut()) };
        assert_eq!(again, u8::from(Status::InvalidState));
    }
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> StructArray {
    StructArray::from(RecordBatch::try_from_iter(columns).unwrap())
}

/// Makes of the second column what polars makes of one without values.
fn give_nulls_a_buffer(values: &mut FFI_ArrowArray) {
    let words = std::ptr::from_mut(values).cast::<*mut *mut i64>();
    // SAFETY: the words are length, null_count, offset, n_buffers, n_children, buffers, children,
    // and there are two children.
    unsafe { *(*(*words.add(6)).add(1)).add(3) = 1 };
}

#[test]
fn a_column_of_nulls_may_say_that_it_has_a_buffer() {
    let mut raw = Raw::new();
    raw.set(c"SELECT $1, $2");
    let columns: Vec<(&str, ArrayRef)> =
        vec![("0", Arc::new(Int32Array::from(vec![1, 2]))), ("1", Arc::new(NullArray::new(2)))];
    assert_eq!(raw.bind(&rows(columns), give_nulls_a_buffer), ADBC_STATUS_OK);
    let (found, count) = raw.run();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    assert_eq!(found[0].column(1).logical_null_count(), 1);
    assert_eq!(count, 2);
}

#[test]
fn rows_that_are_null_are_refused_and_nothing_else_is() {
    let mut raw = Raw::new();
    raw.set(c"SELECT $1");
    let plain = rows(vec![("0", Arc::new(Int32Array::from(vec![1, 2])))]);
    let (fields, columns, _) = plain.clone().into_parts();
    let nulls = NullBuffer::from(vec![true, false]);
    let with_null = StructArray::new(fields, columns, Some(nulls));
    assert_eq!(raw.bind(&with_null, |_| {}), u8::from(Status::InvalidArguments));
    assert_eq!(raw.bind(&plain, |_| {}), ADBC_STATUS_OK);
    assert_eq!(raw.run().1, 2);
}
