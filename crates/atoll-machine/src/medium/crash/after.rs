//! The state that is found after a crash.
//!
//! - `AFTER-1`: what a sync or a fence has made durable is found. Of all other bytes any units are
//!   found, so a caller that chooses them at random reaches every state that a medium may leave.
//! - `AFTER-2`: in each folder, a prefix of the changes of names is found, which includes those
//!   that a sync of the folder has made durable.

use std::collections::BTreeSet;

use super::super::SECTOR_BYTES;
use super::lines::{LineEvent, durable_stores};
use super::{CrashMedium, Event, lock, put};

impl CrashMedium {
    /// The world as it could be found after a crash behind `events` events. `keeps` decides for
    /// each unit, size and name that no sync has made durable, and that would make a difference,
    /// whether it survives.
    pub fn crash(&self, events: usize, mut keeps: impl FnMut() -> bool) -> Self {
        let world = lock(&self.world);
        let happened = &world.events[..events];
        let unit = if world.unit == 0 { SECTOR_BYTES } else { world.unit };
        let mut files = world.began.clone();
        files.resize(world.files.len(), Vec::new());
        let mut last_sync = vec![0; files.len()];
        for event in happened {
            if let Event::Sync { file, begun } = event {
                last_sync[*file] = last_sync[*file].max(*begun);
            }
        }
        let durable_stores = durable_stores(happened);
        for (at, event) in happened.iter().enumerate() {
            match event {
                Event::Write { file, offset, bytes } if at < last_sync[*file] => {
                    put(&mut files[*file], *offset, bytes);
                }
                Event::Write { file, offset, bytes } => {
                    put_some(&mut files[*file], *offset, bytes, unit, &mut keeps);
                }
                Event::Line(_, LineEvent::Store { file, offset, bytes, .. }) => {
                    // A store does not restore a size that was lost.
                    let room = files[*file].len().saturating_sub(*offset as usize);
                    let bytes = &bytes[..bytes.len().min(room)];
                    if durable_stores.contains(&at) {
                        put(&mut files[*file], *offset, bytes);
                    } else {
                        put_some(&mut files[*file], *offset, bytes, unit, &mut keeps);
                    }
                }
                Event::Reserve { file, size_bytes } => {
                    let size = *size_bytes as usize;
                    if files[*file].len() < size && (at < last_sync[*file] || keeps()) {
                        files[*file].resize(size, 0);
                    }
                }
                _ => {}
            }
        }
        let mut names = world.began_names.clone();
        let mut lost = BTreeSet::new();
        for (at, event) in happened.iter().enumerate() {
            let Event::Name(naming) = event else { continue };
            let folder = naming.folder();
            let is_durable = happened[at..].iter().any(
                |later| matches!(later, Event::SyncNames { folder: synced } if synced == folder),
            );
            // Changes of names reach the medium in their order.
            if !is_durable && (lost.contains(folder) || !keeps()) {
                lost.insert(folder.to_owned());
                continue;
            }
            naming.apply(&mut names);
        }
        Self::of(names, files, world.unit)
    }
}

/// Writes the units that `keeps` selects; does not ask for a unit that would not change.
fn put_some(
    content: &mut Vec<u8>,
    offset: u64,
    bytes: &[u8],
    unit: u64,
    keeps: &mut impl FnMut() -> bool,
) {
    let mut done = 0;
    while done < bytes.len() {
        let place = offset + done as u64;
        let unit_end = (place / unit + 1) * unit;
        let len = ((unit_end - place) as usize).min(bytes.len() - done);
        let part = &bytes[done..done + len];
        if !holds(content, place, part) && keeps() {
            put(content, place, part);
        }
        done += len;
    }
}

fn holds(content: &[u8], offset: u64, bytes: &[u8]) -> bool {
    content.get(offset as usize..offset as usize + bytes.len()) == Some(bytes)
}
