//! Backups: a database of its own, made from a checkpoint while transactions go on.
//!
//! The checkpoint that was just taken is copied, part by part, into the home of a new database that
//! has no log yet. Until that is whole its control file has another name, so a backup that was cut
//! short is none. Nobody takes another checkpoint meanwhile, so no block that is being read is
//! written.

use std::sync::Arc;

use atoll_log::LogError;
use atoll_log::control::{self, Checkpoint, CheckpointPart, Control, ControlFile};
use atoll_log::files::Files;
use atoll_log::home::{ColumnMap, Home, Map, Part, SegmentMap, TableMap, Writer};
use atoll_machine::Medium;

use super::checkpoint::Checkpointer;
use super::open::{check_may_create, folder_name};
use crate::error::{Error, Result};

/// The life of a database that has been written and not opened.
const LIFE: u32 = 1;
const CHECKPOINT: u64 = 1;

impl Checkpointer {
    /// Copies the last checkpoint into an empty folder; returns the bytes written home.
    pub(super) fn copy_to(&self, root: &dyn Medium) -> Result<u64> {
        let check = || -> Result<()> {
            if root.names()?.iter().any(|name| name == control::FILE || name == control::NEW) {
                return Err(LogError::NotEmpty { path: root.path("") }.into());
            }
            check_may_create(root)
        };
        check()?; // Before a file is locked that is somebody else's.
        let _locked = match root.lock()? {
            Ok(locked) => locked,
            Err(pid) => return Err(Error::InUse { path: root.path(""), pid }),
        };
        check()?;
        let tablespaces = self.homes.len();
        let mut control = Control {
            file_bytes: self.control.file_bytes,
            tablespaces,
            cuts: vec![0; tablespaces],
            ..Control::default()
        };
        ControlFile::begin(root, control::COPY, &mut control)?;
        let mut bytes = 0;
        let mut parts = Vec::with_capacity(tablespaces);
        for (tablespace, from) in self.homes.iter().enumerate() {
            let medium = root.folder(&folder_name(tablespace))?;
            Files::open(Arc::clone(&medium), control.file_bytes, 0)?;
            let to = Home::open(medium)?;
            let mut writer = to.writer(&[]);
            let mut copy = Copy { from, writer: &mut writer, room: Vec::new() };
            let map = match self.maps.first() {
                Some(maps) => copy.map(&maps[tablespace])?,
                None => Map::default(),
            };
            bytes += writer.finish()?;
            let (map_bytes, map_crc) = to.write_map(CHECKPOINT, &map)?;
            parts.push(CheckpointPart { start: 0, map_bytes, map_crc });
        }
        root.sync_names()?;
        control.life = LIFE;
        control.checkpoints = vec![Checkpoint { number: CHECKPOINT, epoch: 0, life: LIFE, parts }];
        ControlFile::begin(root, control::COPY, &mut control)?;
        ControlFile::finish(root, control::COPY)?;
        Ok(bytes)
    }
}

/// On the way from one home to another.
struct Copy<'h, 'w> {
    from: &'h Home,
    writer: &'h mut Writer<'w>,
    room: Vec<u8>,
}

impl Copy<'_, '_> {
    fn map(&mut self, map: &Map) -> Result<Map> {
        let tables = map.tables.iter().map(|table| {
            let segments = table.segments.iter();
            let segments = segments.map(|segment| Ok(Arc::new(self.segment(segment)?)));
            let segments = segments.collect::<Result<_>>()?;
            Ok(TableMap { id: table.id, description: table.description.clone(), segments })
        });
        Ok(Map { tables: tables.collect::<Result<_>>()? })
    }

    fn segment(&mut self, segment: &SegmentMap) -> Result<SegmentMap> {
        let presence = self.part(&segment.presence)?;
        let columns = segment.columns.iter().map(|column| {
            let values = self.part(&column.values)?;
            let validity = column.validity.as_ref().map(|part| self.part(part)).transpose()?;
            let heap = column.heap.iter().map(|part| self.part(part)).collect::<Result<_>>()?;
            Ok(ColumnMap { values, validity, heap, zone: column.zone })
        });
        Ok(SegmentMap {
            filled: segment.filled,
            presence,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    fn part(&mut self, part: &Part) -> Result<Part> {
        self.from.read(part, &mut self.room)?;
        Ok(self.writer.part(&self.room, None)?)
    }
}
