//! A column of a segment as an Arrow array over the store, without a copy; that of an array is
//! copied.
//!
//! Invariants
//! - `EXPORT-1`: the buffers of an array keep the snapshot, and its lease keeps their bytes
//!   unchanged and allocated (`MEMORY-1` of `atoll-memory`). A heap block may grow behind the bytes
//!   to which the snapshot's views point; those bytes themselves do not change.
//! - `EXPORT-2`: the views of a text column are validated once per snapshot: they point inside
//!   their blocks and the bytes are UTF-8. By `EXPORT-1` a validated column stays valid.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryViewType, ByteViewType, Date32Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, StringViewType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    GenericByteViewArray, PrimitiveArray, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use atoll_storage::labels::Labels;
use atoll_storage::reader::{ColumnView, Span};
use atoll_storage::undo::{Entry, Was};
use atoll_storage::{Column, DataType, StorageError};

use crate::arrow_types::UTC;
use crate::error::{Error, Result};
use crate::lists;
use crate::snapshot::{ColumnKey, PatchedColumn, Shared};

/// Values of an enum as an array, from their keys (`LABELS-1`).
///
/// # Errors
/// A key that is none of a label.
pub fn dictionary(
    keys: PrimitiveArray<Int32Type>,
    labels: Labels,
) -> std::result::Result<ArrayRef, ArrowError> {
    let labels = StringArray::from_iter_values(labels.labels());
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(labels))?))
}

/// Sets a bit of an Arrow bitmap.
pub(crate) fn set_bit(bits: &mut [u8], slot: usize, on: bool) {
    let bit = 1u8 << (slot % 8);
    if on {
        bits[slot / 8] |= bit;
    } else {
        bits[slot / 8] &= !bit;
    }
}

/// The values of one column of a segment: in the store, or in a private copy with the patch
/// applied.
pub(crate) struct ColumnSource {
    shared: Arc<Shared>,
    key: ColumnKey,
    column: Column,
    view: ColumnView,
    patched: Option<PatchedColumn>,
}

impl ColumnSource {
    /// The column `key` of a snapshot; `patch` is the patch of its segment.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        key: ColumnKey,
        column: &Column,
        view: ColumnView,
        patch: &[Entry],
    ) -> Self {
        let touches = |entry: &Entry| match &entry.was {
            Was::Value { column, .. } => usize::from(*column) == key.2,
            Was::Presence(_) => false,
        };
        let patched = patch.iter().any(touches).then(|| {
            shared.patched(key, || patched_column(shared, column.data_type, &view, key.2, patch))
        });
        Self { shared: Arc::clone(shared), key, column: column.clone(), view, patched }
    }

    /// The position of the values in the store.
    pub(crate) fn values(&self) -> Span {
        self.view.values
    }

    /// The positions of the heap blocks.
    pub(crate) fn heap(&self) -> &[Span] {
        &self.view.heap
    }

    /// Whether the column is a private copy with the patch applied.
    pub(crate) fn is_patched(&self) -> bool {
        self.patched.is_some()
    }

    /// The position of the validity bits in the store, for a column that can be NULL.
    pub(crate) fn validity(&self) -> Option<Span> {
        self.view.validity
    }

    /// The validity bits of all slots, for a column that can be NULL.
    pub(crate) fn validity_buffer(&self) -> Result<Option<Buffer>> {
        let Some(span) = self.view.validity else { return Ok(None) };
        match self.patched.as_ref().and_then(|patched| patched.validity.clone()) {
            Some(bits) => Ok(Some(bits)),
            None => self.buffer(span).map(Some),
        }
    }

    pub(crate) fn buffer(&self, span: Span) -> Result<Buffer> {
        if span.bytes == 0 {
            return Ok(MutableBuffer::new(0).into());
        }
        let corrupt = StorageError::Corrupt { what: "extent", offset: span.offset };
        self.shared.view().store().will_need(span.offset, span.bytes);
        let address = self.shared.view().address(span.offset, span.bytes).ok_or(corrupt)?;
        let address = NonNull::new(address.cast_mut()).expect("a mapping is not at 0");
        let keeper = Arc::clone(&self.shared);
        // SAFETY: the bytes are in a mapping that the snapshot keeps, and do not change while it
        // lives (EXPORT-1); the buffer holds the snapshot.
        Ok(unsafe { Buffer::from_custom_allocation(address, span.bytes as usize, keeper) })
    }

    /// The values of all slots.
    pub(crate) fn values_buffer(&self) -> Result<Buffer> {
        match &self.patched {
            Some(patched) => Ok(patched.values.clone()),
            None => self.buffer(self.view.values),
        }
    }

    fn nulls(&self, slots: usize) -> Result<Option<NullBuffer>> {
        let Some(bits) = self.validity_buffer()? else { return Ok(None) };
        let nulls = NullBuffer::new(BooleanBuffer::new(bits, 0, slots));
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    fn damaged(&self, error: &ArrowError) -> Error {
        Error::Damaged { column: self.column.name.clone(), detail: error.to_string() }
    }

    fn primitive<T: ArrowPrimitiveType>(&self, slots: usize) -> Result<ArrayRef> {
        let values = ScalarBuffer::<T::Native>::new(self.values_buffer()?, 0, slots);
        let array = PrimitiveArray::<T>::try_new(values, self.nulls(slots)?);
        Ok(Arc::new(array.map_err(|error| self.damaged(&error))?))
    }

    /// The array of the first `slots` values.
    ///
    /// # Errors
    /// [`Error::Storage`] and [`Error::Damaged`] for a damaged snapshot.
    pub(crate) fn array(&self, slots: usize) -> Result<ArrayRef> {
        Ok(match self.column.data_type.stored_as() {
            _ if self.column.data_type == DataType::Time => {
                self.primitive::<Time64MicrosecondType>(slots)?
            }
            DataType::Int32 if let DataType::Enum(labels) = self.column.data_type => {
                let keys = ScalarBuffer::<i32>::new(self.values_buffer()?, 0, slots);
                let array = PrimitiveArray::<Int32Type>::try_new(keys, self.nulls(slots)?)
                    .and_then(|keys| dictionary(keys, labels));
                array.map_err(|error| self.damaged(&error))?
            }
            DataType::Int16 => self.primitive::<Int16Type>(slots)?,
            DataType::Int32 => self.primitive::<Int32Type>(slots)?,
            DataType::Int64 => self.primitive::<Int64Type>(slots)?,
            DataType::Float32 => self.primitive::<Float32Type>(slots)?,
            DataType::Float64 => self.primitive::<Float64Type>(slots)?,
            DataType::Date => self.primitive::<Date32Type>(slots)?,
            DataType::Timestamp if self.column.data_type == DataType::TimestampTz => {
                let values = ScalarBuffer::<i64>::new(self.values_buffer()?, 0, slots);
                let array = TimestampMicrosecondArray::try_new(values, self.nulls(slots)?)
                    .map(|array| array.with_timezone(UTC));
                Arc::new(array.map_err(|error| self.damaged(&error))?)
            }
            DataType::Timestamp => self.primitive::<TimestampMicrosecondType>(slots)?,
            DataType::Interval => self.primitive::<IntervalMonthDayNanoType>(slots)?,
            DataType::Bool => {
                let bits = BooleanBuffer::new(self.values_buffer()?, 0, slots);
                Arc::new(BooleanArray::new(bits, self.nulls(slots)?))
            }
            DataType::Decimal { precision, scale } => {
                let values = ScalarBuffer::<i128>::new(self.values_buffer()?, 0, slots);
                let array = Decimal128Array::try_new(values, self.nulls(slots)?)
                    .and_then(|array| array.with_precision_and_scale(precision, scale as i8));
                Arc::new(array.map_err(|error| self.damaged(&error))?)
            }
            DataType::FixedBinary(width) => {
                let values = self.values_buffer()?.slice_with_length(0, slots * width as usize);
                let nulls = self.nulls(slots)?;
                let array = FixedSizeBinaryArray::try_new(width as i32, values, nulls);
                Arc::new(array.map_err(|error| self.damaged(&error))?)
            }
            DataType::Text => self.views::<StringViewType>(slots)?,
            DataType::Binary if let Some(element) = self.column.data_type.element() => {
                let bytes = self.views::<BinaryViewType>(slots)?;
                let list = lists::list_array(element, bytes.as_binary_view().iter());
                Arc::new(list.map_err(|error| self.damaged(&error))?)
            }
            _ => self.views::<BinaryViewType>(slots)?,
        })
    }

    fn views<T: ByteViewType>(&self, slots: usize) -> Result<ArrayRef> {
        let views = ScalarBuffer::<u128>::new(self.values_buffer()?, 0, slots);
        let blocks = self.view.heap.iter().map(|block| self.buffer(*block));
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let nulls = self.nulls(slots)?;
        if self.shared.is_sound(self.key, slots) {
            // SAFETY: `try_new` accepted the same views over the same blocks before (EXPORT-2).
            let array = unsafe { GenericByteViewArray::<T>::new_unchecked(views, blocks, nulls) };
            return Ok(Arc::new(array));
        }
        let array = GenericByteViewArray::<T>::try_new(views, blocks, nulls);
        let array = array.map_err(|error| self.damaged(&error))?;
        self.shared.set_sound(self.key, slots);
        Ok(Arc::new(array))
    }
}

/// A private copy of a column with the patch applied.
fn patched_column(
    shared: &Shared,
    data_type: DataType,
    view: &ColumnView,
    at: usize,
    patch: &[Entry],
) -> PatchedColumn {
    let copy = |span: Span| {
        // Allocated in words of 16 bytes, so that the widest values are aligned.
        let mut buffer = MutableBuffer::from_len_zeroed(span.bytes as usize);
        shared.view().read(span.offset, buffer.as_slice_mut());
        shared.count_patched(span.bytes as usize);
        buffer
    };
    let mut values = copy(view.values);
    let mut validity = view.validity.map(copy);
    for entry in patch {
        let slot = entry.row.slot();
        let (valid, image) = match &entry.was {
            Was::Value { column, valid, image } if usize::from(*column) == at => (valid, image),
            // The snapshot undoes an insert. The patch entries before this one restore a view into
            // a block that may be freed already, if the cut was taken during the rollback; so the
            // view becomes NULL.
            Was::Presence(false) if data_type.is_view() => (&false, &vec![0; data_type.width()]),
            _ => continue,
        };
        match data_type.width() {
            0 => set_bit(values.as_slice_mut(), slot, image.first().is_some_and(|b| *b != 0)),
            width => {
                values.as_slice_mut()[slot * width..][..width].copy_from_slice(&image[..width])
            }
        }
        if let Some(bits) = &mut validity {
            set_bit(bits.as_slice_mut(), slot, *valid);
        }
    }
    PatchedColumn { values: values.into(), validity: validity.map(Buffer::from) }
}
