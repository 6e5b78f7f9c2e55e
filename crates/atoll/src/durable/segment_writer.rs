//! Writes a segment of a snapshot into a checkpoint store.

use arrow_buffer::Buffer;
use atoll_log::checkpoint_store::{ColumnMap, Part, PartName, SegmentMap, Writer};
use atoll_storage::image::heap_place;
use atoll_storage::{Column, SEGMENT_ROWS};

use crate::error::Result;
use crate::export::ColumnSource;
use crate::snapshot_table::SnapshotSegment;

/// The same segment in the checkpoint before: its snapshot, and the map of its blocks.
#[derive(Clone, Copy)]
pub(super) struct Before<'b> {
    pub(super) segment: &'b SnapshotSegment,
    pub(super) map: &'b SegmentMap,
}

/// Whether the segment has not changed since the checkpoint before. Both snapshots are held, so a
/// writer that changed anything had to copy the node; and neither snapshot has patch entries for
/// the segment.
pub(super) fn is_same(now: &SnapshotSegment, before: Before<'_>) -> bool {
    now.node() == before.segment.node() && !now.has_patch() && !before.segment.has_patch()
}

/// Writes the parts of a segment that have changed.
pub(super) fn write(
    writer: &mut Writer<'_>,
    schema: &[Column],
    now: &SnapshotSegment,
    before: Option<Before<'_>>,
) -> Result<SegmentMap> {
    let filled = now.slots();
    let presence = presence_bytes(now);
    let old = before.map(|before| presence_bytes(before.segment));
    let known = before.map(|before| &before.map.presence).zip(old.as_deref());
    let same_rows = old.as_ref() == Some(&presence);
    let mut map = SegmentMap {
        filled: filled as u32,
        presence: writer.part(PartName::Presence, &presence, known)?,
        columns: Vec::with_capacity(schema.len()),
    };
    for (at, column) in schema.iter().enumerate() {
        let before = before.and_then(|before| Some((before.segment, before.map.columns.get(at)?)));
        map.columns.push(write_column(writer, column, (now, at), before, same_rows)?);
    }
    Ok(map)
}

/// One bit for each slot up to the last row.
fn presence_bytes(segment: &SnapshotSegment) -> Vec<u8> {
    let mut bytes = vec![0; segment.slots().div_ceil(8)];
    for (first, len) in segment.runs() {
        (first..first + len).for_each(|slot| bytes[slot / 8] |= 1 << (slot % 8));
    }
    bytes
}

fn write_column(
    writer: &mut Writer<'_>,
    column: &Column,
    (now, at): (&SnapshotSegment, usize),
    before: Option<(&SnapshotSegment, &ColumnMap)>,
    same_rows: bool,
) -> Result<ColumnMap> {
    let source = now.source(at)?;
    let old_source = before.map(|(segment, _)| segment.source(at)).transpose()?;
    let name = at as u32;
    if let (Some((_, map)), Some(old)) = (before, &old_source)
        && same_rows
        && is_in_place(&source, old)
        && writer.may_stay(Some(name))
    {
        return Ok(ColumnMap { zone: now.zone_words(at), ..map.clone() });
    }
    let bits = |segment: &SnapshotSegment| segment.slots().div_ceil(8);
    let bytes_of = |segment: &SnapshotSegment| match column.data_type.width() {
        0 => bits(segment),
        width => segment.slots() * width,
    };
    let buffers = (source.values_buffer()?, source.validity_buffer()?);
    let old_buffers = match &old_source {
        Some(old) => Some((old.values_buffer()?, old.validity_buffer()?)),
        None => None,
    };
    let old = before.zip(old_buffers.as_ref());
    let known =
        old.map(|((segment, map), (values, _))| (&map.values, &values[..bytes_of(segment)]));
    let values = writer.part(PartName::Values(name), &buffers.0[..bytes_of(now)], known)?;
    let validity = match &buffers.1 {
        None => None,
        Some(validity) => {
            let known = old.and_then(|((segment, map), (_, validity))| {
                Some((map.validity.as_ref()?, &validity.as_ref()?[..bits(segment)]))
            });
            Some(writer.part(PartName::Validity(name), &validity[..bits(now)], known)?)
        }
    };
    let known = before.zip(old_source.as_ref()).map(|((_, map), source)| (source, &map.heap[..]));
    let heap = write_heap(writer, (now, name), &source, &buffers.0, known)?;
    Ok(ColumnMap { values, validity, heap, zone: now.zone_words(at) })
}

/// Whether a column is at the same positions in both snapshots, and not patched. Then the values of
/// rows that both snapshots show are equal. This does not hold for a row that was added since: its
/// long values may have been in the heap already, and the checkpoint before did not write them.
fn is_in_place(now: &ColumnSource, before: &ColumnSource) -> bool {
    let is_patched = now.is_patched() || before.is_patched();
    let place = |source: &ColumnSource| (source.values(), source.validity());
    !is_patched && place(now) == place(before)
}

/// Writes the heap blocks of a column. A heap block only grows, so if it is at the same position as
/// before, the bytes that the checkpoint before wrote are its beginning.
fn write_heap(
    writer: &mut Writer<'_>,
    (segment, column): (&SnapshotSegment, u32),
    source: &ColumnSource,
    views: &Buffer,
    before: Option<(&ColumnSource, &[Part])>,
) -> Result<Vec<Part>> {
    let mut used = vec![0; source.heap().len()];
    if !used.is_empty() {
        debug_assert!(views.len() >= 16 * segment.slots() && segment.slots() <= SEGMENT_ROWS);
        for (first, len) in segment.runs() {
            for view in views[first * 16..(first + len) * 16].chunks_exact(16) {
                let Some(place) = heap_place(view) else { continue };
                let end = u64::from(place.offset) + u64::from(place.len);
                if let Some(used) = used.get_mut(place.block as usize) {
                    *used = end.max(*used);
                }
            }
        }
    }
    let mut parts = Vec::with_capacity(used.len());
    for (number, (span, used)) in source.heap().iter().zip(used).enumerate() {
        let bytes = source.buffer(*span)?;
        let bytes = &bytes[..(used as usize).min(bytes.len())];
        let known = before.and_then(|(source, parts)| {
            let old = parts.get(number)?;
            let is_there = source.heap().get(number)?.offset == span.offset && span.bytes > 0;
            is_there.then(|| (old, &bytes[..(old.bytes as usize).min(bytes.len())]))
        });
        let name = PartName::Heap(column, number as u32);
        parts.push(writer.part(name, bytes, known)?);
    }
    Ok(parts)
}
