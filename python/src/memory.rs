//! Memory that Python reads in place: the only `unsafe` code of the package.
//!
//! Invariants
//! - `PYMEM-1`: the bytes stay at their address, readable and unchanged as long as the object
//!   lives: it owns the mapping of a column, which keeps the snapshot's lease, or an Arrow buffer,
//!   which keeps the owner of its bytes.
//! - `PYMEM-2`: the holder of the address holds a reference to the object: `PyBuffer_FillInfo`
//!   takes one for the view, and Python returns it when the view is released.

use std::ffi::{c_int, c_void};

use atoll::Contiguous;
use pyo3::ffi;
use pyo3::prelude::*;

/// A column of a snapshot at one address, for the buffer protocol; NumPy arrays are made over it.
#[pyclass(frozen, module = "atolldb._atolldb")]
pub(crate) struct ColumnMemory {
    column: Contiguous,
    bytes: usize,
}

impl ColumnMemory {
    /// The memory of a column.
    pub(crate) fn new(column: Contiguous) -> Self {
        let bytes = column.rows() * column.column().data_type.width();
        Self { column, bytes }
    }
}

#[pymethods]
impl ColumnMemory {
    fn __len__(&self) -> usize {
        self.bytes
    }

    /// Exports the bytes, read-only.
    ///
    /// # Safety
    /// Python calls this with a `view` to fill in.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get();
        let address = memory.column.address().cast_mut().cast::<c_void>();
        let bytes = memory.bytes as ffi::Py_ssize_t;
        // SAFETY: Python passes a view to fill in; the bytes are valid while the object lives to
        // which the view then holds a reference (PYMEM-1, PYMEM-2), and are exported read-only.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, bytes, 1, flags) };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}
