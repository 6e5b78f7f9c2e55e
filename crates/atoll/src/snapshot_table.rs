//! Tables and segments of a snapshot as Arrow arrays over the store, without a copy.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::SchemaRef;
use atoll_memory::stitch::{Piece, Stitched};
use atoll_storage::reader::{SegmentView, TableView};
use atoll_storage::undo::Was;
use atoll_storage::{Column, SEGMENT_ROWS, Schema, StorageError, TableSerial, Value};
use atoll_txn::{IndexSpec, describe};

use crate::arrow_types::arrow_field;
use crate::error::{Error, Result};
use crate::export::{self, ColumnSource};
use crate::snapshot::{Shared, Snapshot};

/// A table of a snapshot; keeps the snapshot.
#[derive(Clone)]
pub struct SnapshotTable {
    shared: Arc<Shared>,
    table: Arc<TableView>,
    /// Made with the table: a forked child would wait for ever for a thread that was making it
    /// lazily.
    arrow: SchemaRef,
}

/// A segment, up to 8,192 rows, of a table of a snapshot; keeps the snapshot.
#[derive(Clone)]
pub struct SnapshotSegment {
    shared: Arc<Shared>,
    table: Arc<TableView>,
    arrow: SchemaRef,
    number: u64,
    view: SegmentView,
    presence: Option<BooleanBuffer>,
}

/// A whole column at one address; keeps the snapshot.
pub struct Contiguous {
    stitched: Stitched,
    rows: usize,
    column: Column,
    _shared: Arc<Shared>,
}

impl Snapshot {
    /// The snapshot's own tables, in the order of their creation.
    pub(crate) fn own_tables(&self) -> impl Iterator<Item = SnapshotTable> {
        self.shared().tables().iter().map(|table| self.own_table(table))
    }

    fn own_table(&self, table: &Arc<TableView>) -> SnapshotTable {
        SnapshotTable::new(Arc::clone(self.shared()), Arc::clone(table))
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`Error::Storage`] when there is none, [`Error::SnapshotExpired`].
    pub fn table(&self, name: &str) -> Result<SnapshotTable> {
        self.check()?;
        let unknown = || StorageError::UnknownTable(name.to_owned()).into();
        match self.shared().tables().iter().find(|table| table.name == name) {
            Some(table) if table.schema.object().is_none() => Ok(self.own_table(table)),
            Some(_) => Err(unknown()),
            None => {
                let mut bases = self.bases().iter();
                bases.find_map(|base| base.table(name).ok()).ok_or_else(unknown)
            }
        }
    }

    /// Its own objects that are no tables, such as views, in the order of creation. Those of its
    /// bases are not among them: what they refer to may be hidden.
    pub fn objects(&self) -> impl Iterator<Item = SnapshotTable> {
        let mut objects = self.shared().tables().iter();
        let mut next = move || objects.find(|table| table.schema.object().is_some());
        std::iter::from_fn(move || next().map(|table| self.own_table(table)))
    }

    /// An object of its own that is no table, by name.
    pub fn object(&self, name: &str) -> Option<SnapshotTable> {
        let mut tables = self.shared().tables().iter();
        let object = tables.find(|table| table.name == name && table.schema.object().is_some());
        object.map(|table| self.own_table(table))
    }
}

impl SnapshotTable {
    pub(crate) fn new(shared: Arc<Shared>, table: Arc<TableView>) -> Self {
        let fields: Vec<_> = table.schema.visible().iter().map(arrow_field).collect();
        let arrow = Arc::new(arrow_schema::Schema::new(fields));
        Self { shared, table, arrow }
    }

    /// Its serial number.
    pub(crate) fn serial(&self) -> TableSerial {
        self.table.serial
    }

    /// As [`Table::serial`](crate::Table::serial).
    pub fn serial_number(&self) -> u64 {
        self.table.serial.0
    }

    /// Its options, as the engine has encoded them.
    pub(crate) fn encoded_options(&self) -> &[u8] {
        &self.table.options
    }

    /// Its indexes, without their rows: those are the owner's.
    ///
    /// # Errors
    /// [`Error::Storage`] for a damaged directory.
    pub fn indexes(&self) -> Result<Vec<IndexSpec>> {
        let options = describe::decode_options(self.encoded_options(), self.schema());
        let damaged = || StorageError::Corrupt { what: "options of a table", offset: 0 };
        Ok(options.ok_or_else(damaged)?.indexes)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Its columns and primary key.
    pub fn schema(&self) -> &Schema {
        &self.table.schema
    }

    /// Its columns as an Arrow schema, without numbers of rows
    /// ([`ROW_NUMBER`](crate::ROW_NUMBER)).
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::clone(&self.arrow)
    }

    /// Number of segments, empty ones included.
    pub fn segment_count(&self) -> usize {
        self.table.segments as usize
    }

    /// Number of rows.
    ///
    /// # Errors
    /// [`Error::Storage`] for a damaged directory.
    pub fn row_count(&self) -> Result<u64> {
        (0..self.segment_count()).map(|at| Ok(self.segment(at)?.row_count() as u64)).sum()
    }

    /// A segment; `index` is less than [`SnapshotTable::segment_count`].
    ///
    /// # Errors
    /// [`Error::Storage`] for a damaged directory or a number out of range,
    /// [`Error::SnapshotExpired`].
    pub fn segment(&self, index: usize) -> Result<SnapshotSegment> {
        self.shared.check()?;
        let number = index as u64;
        let mut view = self.table.segment(self.shared.view(), number)?;
        let patch = self.shared.patch(self.table.id, number);
        if patch.iter().any(|entry| entry.row.slot() >= view.capacity) {
            return Err(StorageError::Corrupt { what: "patch", offset: view.node() }.into());
        }
        let presence = patched_presence(&self.shared, &view, patch);
        // Transactions that the snapshot does not show may have filled the segment further.
        let last = (0..view.filled).rev().find(|slot| presence.value(*slot));
        view.filled = last.map_or(0, |slot| slot + 1);
        let presence = presence.slice(0, view.filled);
        let is_full = presence.count_set_bits() == view.filled;
        Ok(SnapshotSegment {
            shared: Arc::clone(&self.shared),
            table: Arc::clone(&self.table),
            arrow: self.arrow_schema(),
            number,
            view,
            presence: (!is_full).then_some(presence),
        })
    }

    /// A whole fixed-width column at one address, without copying: the extents are mapped one
    /// behind the other. Only those of a small segment, and patched ones, are copied. A NULL has
    /// the value zero, or NaN for floating point.
    ///
    /// # Errors
    /// [`Error::NotContiguous`], with the reason, for `boolean`, `text` and `bytea`, when rows were
    /// deleted, or when a segment other than the last is not full; [`Error::Memory`] when the
    /// mapping fails.
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn contiguous(&self, column: usize) -> Result<Contiguous> {
        let described = &self.table.schema.columns()[column];
        let refuse = |why| Error::NotContiguous {
            table: self.table.name.clone(),
            column: described.name.clone(),
            why,
        };
        let width = described.data_type.width();
        if width == 0 || described.data_type.is_view() {
            return Err(refuse("its values have no fixed number of bytes"));
        }
        let segments: Vec<SnapshotSegment> =
            (0..self.segment_count()).map(|at| self.segment(at)).collect::<Result<_>>()?;
        let filled: Vec<&SnapshotSegment> =
            segments.iter().filter(|segment| segment.slots() > 0).collect();
        if filled.iter().any(|segment| segment.presence.is_some()) {
            return Err(refuse("rows between others were deleted or are not committed"));
        }
        if filled.iter().rev().skip(1).any(|segment| segment.slots() < SEGMENT_ROWS) {
            return Err(refuse(
                "its blocks of 8,192 rows are not all full, as after inserts by several threads",
            ));
        }
        let sources = filled
            .iter()
            .map(|segment| segment.source(column))
            .collect::<Result<Vec<ColumnSource>>>()?;
        // The extents of a small segment are parts of pages. Only the last segment can be small.
        let is_copied = |segment: &SnapshotSegment, source: &ColumnSource| {
            segment.view.capacity < SEGMENT_ROWS || source.is_patched()
        };
        let copies = filled.iter().zip(&sources).map(|(segment, source)| {
            is_copied(segment, source).then(|| source.values_buffer()).transpose()
        });
        let copies = copies.collect::<Result<Vec<Option<Buffer>>>>()?;
        let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(sources.len());
        for ((source, copy), segment) in sources.iter().zip(&copies).zip(&filled) {
            let bytes = segment.slots() * width;
            pieces.push(match copy {
                Some(copy) => Piece::Private(&copy[..bytes]),
                None => Piece::Shared(source.values().offset, bytes as u64),
            });
        }
        let stitched = Stitched::map(self.shared.view().store(), &pieces)?;
        let rows = filled.iter().map(|segment| segment.slots()).sum();
        let column = described.clone();
        Ok(Contiguous { stitched, rows, column, _shared: Arc::clone(&self.shared) })
    }
}

fn patched_presence(
    shared: &Shared,
    view: &SegmentView,
    patch: &[atoll_storage::undo::Entry],
) -> BooleanBuffer {
    let mut bits = vec![0u8; view.presence.bytes as usize];
    shared.view().read(view.presence.offset, &mut bits);
    for entry in patch {
        if let Was::Presence(present) = entry.was {
            export::set_bit(&mut bits, entry.row.slot(), present);
        }
    }
    BooleanBuffer::new(bits.into(), 0, view.capacity)
}

impl SnapshotSegment {
    /// Number of slots up to the last row: the length of the segment's arrays.
    pub fn slots(&self) -> usize {
        self.view.filled
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.presence.as_ref().map_or(self.view.filled, BooleanBuffer::count_set_bits)
    }

    /// The slots that hold a row; `None` when all do.
    pub fn presence(&self) -> Option<BooleanBuffer> {
        self.presence.clone()
    }

    /// Runs of slots that hold rows, as (first, length).
    pub fn runs(&self) -> Vec<(usize, usize)> {
        match &self.presence {
            None if self.view.filled == 0 => Vec::new(),
            None => vec![(0, self.view.filled)],
            Some(bits) => bits.set_slices().map(|(start, end)| (start, end - start)).collect(),
        }
    }

    /// Offset of the segment's node, see [`SegmentView::node`].
    pub(crate) fn node(&self) -> u64 {
        self.view.node()
    }

    /// Whether the snapshot has patch entries for the segment.
    pub(crate) fn has_patch(&self) -> bool {
        !self.shared.patch(self.table.id, self.number).is_empty()
    }

    /// The zone of a column as words.
    pub(crate) fn zone_words(&self, column: usize) -> (u64, u64) {
        self.table.zone_words(self.shared.view(), &self.view, column)
    }

    pub(crate) fn source(&self, column: usize) -> Result<ColumnSource> {
        let described = &self.table.schema.columns()[column];
        let view = self.table.column(self.shared.view(), &self.view, column)?;
        let patch = self.shared.patch(self.table.id, self.number);
        let key = (self.table.id, self.number, column);
        Ok(ColumnSource::new(&self.shared, key, described, view, patch))
    }

    /// A column as an Arrow array over the store, `slots()` long; a slot without a row holds some
    /// well-formed value.
    ///
    /// # Errors
    /// [`Error::Storage`] and [`Error::Damaged`] for a damaged snapshot,
    /// [`Error::SnapshotExpired`].
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn array(&self, column: usize) -> Result<ArrayRef> {
        self.shared.check()?;
        self.source(column)?.array(self.view.filled)
    }

    /// Several columns as a record batch, `slots()` long.
    ///
    /// # Errors
    /// As [`SnapshotSegment::array`].
    ///
    /// # Panics
    /// When the table has no such column.
    pub fn batch(&self, columns: &[usize]) -> Result<RecordBatch> {
        let arrays = columns.iter().map(|at| self.array(*at)).collect::<Result<Vec<_>>>()?;
        let described = self.table.schema.columns();
        let fields = columns.iter().map(|at| match self.arrow.fields().get(*at) {
            Some(field) => Arc::clone(field),
            None => Arc::new(arrow_field(&described[*at])),
        });
        let schema = arrow_schema::Schema::new(fields.collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(self.view.filled));
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options);
        batch.map_err(|error| Error::Damaged {
            column: self.table.name.clone(),
            detail: error.to_string(),
        })
    }

    /// Smallest and greatest value that a column of the segment has ever held; `None` where that is
    /// not known.
    pub fn zone(&self, column: usize) -> Option<(Value, Value)> {
        self.table.zone(self.shared.view(), &self.view, column)
    }
}

impl Contiguous {
    /// Address of the first value.
    pub fn address(&self) -> *const u8 {
        self.stitched.address()
    }

    /// Number of values.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The column.
    pub fn column(&self) -> &Column {
        &self.column
    }
}
