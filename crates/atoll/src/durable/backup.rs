//! Backups: copies a checkpoint into a database of its own while transactions go on.
//!
//! The last checkpoint is copied, part by part, into the checkpoint stores of a new database with
//! empty logs. The control file has another name until the copy is complete, so an interrupted
//! backup does not open as a database. No other checkpoint is taken meanwhile, so no block is
//! overwritten while it is read. The backup records the positions in the logs at which it begins
//! ([`atoll_log::origin`]), for [`crate::restore`].

use std::sync::Arc;

use atoll_log::LogError;
use atoll_log::checkpoint_store::{
    CheckpointStore, ColumnMap, Map, Part, PartName, SegmentMap, TableMap, Waiting, Writer,
};
use atoll_log::control::{self, Checkpoint, CheckpointPart, Control, ControlFile};
use atoll_log::files::Files;
use atoll_log::origin::Origin;
use atoll_machine::Medium;
use atoll_machine::medium::Locked;

use super::checkpoint::Checkpointer;
use super::open::{check_may_create, folder_name};
use crate::error::{Error, Result};
use crate::restore_point::now_us;

/// The incarnation of a database that was written and has not been opened.
pub(crate) const FIRST_INCARNATION: u32 = 1;
pub(crate) const CHECKPOINT: u64 = 1;

/// Locks a folder in which a database is to be created from the files of another one; the folder
/// must not contain anything.
pub(crate) fn lock_empty(root: &dyn Medium) -> Result<Box<dyn Locked>> {
    let check = || -> Result<()> {
        if root.names()?.iter().any(|name| name == control::FILE || name == control::NEW) {
            return Err(LogError::NotEmpty { path: root.path("") }.into());
        }
        check_may_create(root)
    };
    check()?; // Before a lock is taken in a foreign folder.
    let locked = lock(root)?;
    check()?;
    Ok(locked)
}

/// Locks a folder exclusively for this process.
pub(super) fn lock(root: &dyn Medium) -> Result<Box<dyn Locked>> {
    root.lock()?.map_err(|pid| Error::InUse { path: root.path(""), pid })
}

/// Locks a folder so that no process changes it while this one reads it.
pub(crate) fn lock_to_read(root: &dyn Medium) -> Result<Box<dyn Locked>> {
    root.lock_to_read()?.map_err(|pid| Error::InUse { path: root.path(""), pid })
}

impl Checkpointer {
    /// Copies the last checkpoint into an empty folder; returns the bytes written to the checkpoint
    /// stores.
    pub(super) fn copy_to(&mut self, root: &dyn Medium) -> Result<u64> {
        let _locked = lock_empty(root)?;
        let origin = self.origin()?;
        let tablespaces = self.stores.len();
        let next_serial = self.control.checkpoints.first().map_or(0, |one| one.next_serial);
        let mut control = Control {
            id: control::new_id(),
            file_bytes: self.control.file_bytes,
            tablespaces,
            cuts: vec![0; tablespaces],
            ..Control::default()
        };
        ControlFile::begin(root, control::COPY, &mut control)?;
        let mut bytes = 0;
        let mut parts = Vec::with_capacity(tablespaces);
        for (tablespace, from) in self.stores.iter().enumerate() {
            let medium = root.folder(&folder_name(tablespace))?;
            Files::open(Arc::clone(&medium), control.file_bytes, 0)?.make_until(0)?;
            let to = CheckpointStore::open(medium)?;
            let waiting = Waiting::new();
            let mut writer = to.writer(&[], &waiting, false);
            let mut copy = Copy { from, writer: &mut writer, room: Vec::new() };
            let map = match self.maps.first() {
                Some(maps) => copy.map(&maps[tablespace])?,
                None => Map::default(),
            };
            bytes += writer.finish()?.0;
            let file = to.write_map(CHECKPOINT, &map)?;
            parts.push(CheckpointPart { start: 0, base: CHECKPOINT, file });
        }
        root.sync_names()?;
        if let Some(origin) = origin {
            origin.write(root)?;
        }
        control.incarnation = FIRST_INCARNATION;
        control.checkpoints = vec![Checkpoint {
            number: CHECKPOINT,
            epoch: 0,
            incarnation: FIRST_INCARNATION,
            next_serial,
            parts,
        }];
        ControlFile::begin(root, control::COPY, &mut control)?;
        ControlFile::finish(root, control::COPY)?;
        Ok(bytes)
    }

    /// The positions in the logs at which the last checkpoint begins.
    fn origin(&mut self) -> Result<Option<Origin>> {
        let Some(checkpoint) = self.control.checkpoints.first() else { return Ok(None) };
        let mark = self.logs.mark(now_us)?;
        self.logs.settle(mark.gsn)?;
        let starts = checkpoint.parts.iter().map(|part| part.start);
        let origin = Origin {
            id: self.control.id,
            incarnation: checkpoint.incarnation,
            epoch: checkpoint.epoch,
            gsn: mark.gsn,
            time_us: mark.time_us,
            logs: starts.zip(mark.ends.iter().copied()).collect(),
        };
        // Archives up to the mark, so that the archive has a restore point right after the backup.
        self.archive_to(&mark.ends);
        Ok(Some(origin))
    }
}

/// Copies parts from one checkpoint store to another.
struct Copy<'h, 'w> {
    from: &'h CheckpointStore,
    writer: &'h mut Writer<'w>,
    room: Vec<u8>,
}

impl Copy<'_, '_> {
    fn map(&mut self, map: &Map) -> Result<Map> {
        let tables = map.tables.iter().map(|table| {
            let segments = table.segments.iter();
            let segments = segments.map(|segment| Ok(Arc::new(self.segment(segment)?)));
            let segments = segments.collect::<Result<_>>()?;
            Ok(TableMap { serial: table.serial, description: table.description.clone(), segments })
        });
        Ok(Map { tables: tables.collect::<Result<_>>()? })
    }

    fn segment(&mut self, segment: &SegmentMap) -> Result<SegmentMap> {
        let presence = self.part(PartName::Presence, &segment.presence)?;
        let columns = segment.columns.iter().enumerate().map(|(at, column)| {
            let at = at as u32;
            let values = self.part(PartName::Values(at), &column.values)?;
            let validity = column.validity.as_ref();
            let validity = validity.map(|part| self.part(PartName::Validity(at), part));
            let validity = validity.transpose()?;
            let heap = column.heap.iter().enumerate();
            let heap = heap.map(|(block, part)| self.part(PartName::Heap(at, block as u32), part));
            let heap = heap.collect::<Result<_>>()?;
            Ok(ColumnMap { values, validity, heap, zone: column.zone })
        });
        Ok(SegmentMap {
            filled: segment.filled,
            presence,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// The checkpoint was written as a map, so its blocks are complete and no lines of steps apply.
    fn part(&mut self, name: PartName, part: &Part) -> Result<Part> {
        self.from.read(part, None, &mut self.room)?;
        Ok(self.writer.part(name, &self.room, None)?)
    }
}
