//! Arrow data of clients, before `adbc_ffi` imports them.
//!
//! The C data interface gives an array of type null no buffer. polars (2.1.0) gives it one, which
//! arrow-rs (59) refuses and other importers ignore, so the count is set to none here. And rows
//! that are NULL as a whole are refused here, since arrow-rs panics when it makes a batch of them.

use std::ffi::{c_char, c_int, c_void};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{ArrowError, DataType, Schema};

use crate::errors::{Result, of_source, wrong_argument};

/// `ArrowArray` of the C data interface; arrow-rs does not show its fields.
#[repr(C)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut CArray,
    dictionary: *mut CArray,
    release: Option<unsafe extern "C" fn(*mut CArray)>,
    private_data: *mut c_void,
}

/// A stream, and which of its columns have the type null.
struct Mended {
    inner: FFI_ArrowArrayStream,
    nulls: Vec<usize>,
}

/// The columns that have the type null.
fn nulls(schema: &FFI_ArrowSchema) -> std::result::Result<Vec<usize>, ArrowError> {
    let schema = Schema::try_from(schema)?;
    let fields = schema.fields().iter().enumerate();
    Ok(fields.filter(|(_, field)| field.data_type().is_null()).map(|(at, _)| at).collect())
}

/// Sets right how many buffers these columns have.
///
/// # Safety
/// `array` is a valid `ArrowArray`.
unsafe fn mend_array(array: *mut FFI_ArrowArray, nulls: &[usize]) {
    let array = array.cast::<CArray>();
    // SAFETY: it is valid, so it has as many children as it says, if any.
    let columns = unsafe {
        match (*array).children {
            children if children.is_null() || (*array).n_children <= 0 => &[],
            children => std::slice::from_raw_parts(children, (*array).n_children as usize),
        }
    };
    for column in nulls.iter().filter_map(|at| columns.get(*at)) {
        // SAFETY: each child is valid. Its release does not depend on the number, since an importer
        // may move the structure.
        unsafe { (**column).n_buffers = 0 };
    }
}

/// The one array as a stream.
///
/// # Safety
/// `values` is null or a valid `ArrowArray`, which is moved from there, and `schema` is null or its
/// `ArrowSchema`.
pub(crate) unsafe fn stream_of(
    values: *mut FFI_ArrowArray,
    schema: *const FFI_ArrowSchema,
) -> Result<FFI_ArrowArrayStream> {
    // SAFETY: as the caller has promised.
    let Some(schema) = (unsafe { schema.as_ref() }) else {
        return Err(wrong_argument("the schema of the values is a null pointer"));
    };
    if values.is_null() {
        return Err(wrong_argument("the values are a null pointer"));
    }
    let nulls = nulls(schema).map_err(|error| of_source(&error))?;
    // SAFETY: it is valid, and of the schema.
    let data = unsafe {
        mend_array(values, &nulls);
        from_ffi(FFI_ArrowArray::from_raw(values), schema)
    };
    let data = data.map_err(|error| of_source(&error))?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(wrong_argument("the values are no struct of columns"));
    }
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        return Err(wrong_argument("a row of the values is NULL as a whole; give NULL in columns"));
    }
    let batch = RecordBatch::from(rows);
    let schema = batch.schema();
    Ok(FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

/// Replaces a stream by one that is mended, if it has columns to mend.
///
/// # Safety
/// `stream` is null or a valid `ArrowArrayStream`.
pub(crate) unsafe fn mend(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: as the caller has promised.
    let Some(get_schema) = (unsafe { stream.as_ref() }).and_then(|one| one.get_schema) else {
        return;
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is valid. What fails here fails again, and is told, when it is imported.
    let Ok(nulls) = (match unsafe { get_schema(stream, &mut schema) } {
        0 => nulls(&schema),
        _ => return,
    }) else {
        return;
    };
    if nulls.is_empty() {
        return;
    }
    // SAFETY: the stream is valid, and moved from there.
    let inner = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    let mended = FFI_ArrowArrayStream {
        get_schema: Some(mended_schema),
        get_next: Some(mended_next),
        get_last_error: Some(mended_error),
        release: Some(mended_release),
        private_data: Box::into_raw(Box::new(Mended { inner, nulls })).cast(),
    };
    // SAFETY: there is room for a stream, and the one there was moved away.
    unsafe { stream.write(mended) };
}

/// The stream that `mend` has put into another.
///
/// # Safety
/// `stream` was made by [`mend`] and is not released.
unsafe fn of<'m>(stream: *mut FFI_ArrowArrayStream) -> &'m mut Mended {
    // SAFETY: as the caller has promised; calls of a stream come one after the other.
    unsafe { &mut *(*stream).private_data.cast::<Mended>() }
}

/// An error number that says no more.
const FAILED: c_int = 5;

unsafe extern "C" fn mended_schema(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    // SAFETY: the importer gives the stream, and room for a schema.
    unsafe {
        let inner = &mut of(stream).inner;
        inner.get_schema.map_or(FAILED, |get_schema| get_schema(inner, out))
    }
}

unsafe extern "C" fn mended_next(
    stream: *mut FFI_ArrowArrayStream,
    out: *mut FFI_ArrowArray,
) -> c_int {
    // SAFETY: the importer gives the stream, and room for an array, which is valid after a success.
    unsafe {
        let Mended { inner, nulls } = of(stream);
        let status = inner.get_next.map_or(FAILED, |get_next| get_next(inner, out));
        if status == 0 {
            mend_array(out, nulls);
        }
        status
    }
}

unsafe extern "C" fn mended_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: the importer gives the stream.
    unsafe {
        let inner = &mut of(stream).inner;
        inner.get_last_error.map_or(std::ptr::null(), |get_last_error| get_last_error(inner))
    }
}

unsafe extern "C" fn mended_release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: the importer gives the stream, once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Mended>()));
        (*stream).private_data = std::ptr::null_mut();
        (*stream).release = None;
    }
}
