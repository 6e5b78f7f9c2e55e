//! Archives of logs (`atoll_log::archive`, `archived`).
//!
//! A log is archived in several steps, and the archive is damaged; the log's own folder may exist
//! as well. The blocks that are found must be the first ones that were archived. Archived files
//! have checksums over all their bytes, so the log ends early only where a file is missing, and is
//! refused otherwise.

use std::sync::Arc;

use atoll_log::LogError;
use atoll_log::archive::{Archive, Owner, folder_name};
use atoll_log::archived::{Archived, Places};
use atoll_machine::{CrashMedium, Medium};

use super::input::{Input, files_of, harm, medium_of};
use super::written::{OPTIONS, Written};

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let log = Written::new(&mut input);
    let root = CrashMedium::default();
    let owner = Owner { id: 7, file_bytes: OPTIONS.file_bytes, tablespaces: 1 };
    let mut archive = Archive::open(&root, owner).unwrap().unwrap();
    let mut count = 0;
    for _ in 0..1 + input.below(3) {
        if count == log.blocks.len() {
            break;
        }
        count += 1 + input.below(log.blocks.len() - count);
        let (header, _) = log.blocks[count - 1];
        archive.add(0, &*log.medium, header.lsn + header.block_bytes()).unwrap();
        if input.flag() {
            drop(archive);
            archive = Archive::open(&root, owner).unwrap().unwrap();
        }
    }
    let mut files = files_of(&*root.folder(&folder_name(0)).unwrap());
    let sound = files.clone();
    let is_damaged = input.byte() % 8 != 0;
    if is_damaged {
        harm(&mut files, &mut input, 3);
    }
    let damaged: Arc<dyn Medium> = Arc::new(medium_of(&files));
    let own = input.flag().then(|| &*log.medium);
    match read(&log, &*damaged, own) {
        Ok(found) if files.keys().eq(sound.keys()) => {
            assert!(found >= count, "{found} of {count} blocks");
            assert!(own.is_some() || files == sound, "damage is not told");
        }
        Ok(_) => {}
        Err(error) => assert!(is_damaged, "a sound archive is refused: {error}"),
    }
}

/// The number of blocks found; checks that they are those that were written.
fn read(log: &Written, archive: &dyn Medium, own: Option<&dyn Medium>) -> Result<usize, LogError> {
    let places = Places { archive, own, file_bytes: OPTIONS.file_bytes };
    let archived = Archived::find(places, 0, log.start)?;
    let mut scan = archived.scan();
    if own.is_some() {
        scan.cut(log.incarnation, log.cut);
        scan.reach(OPTIONS.ring_bytes);
    }
    let mut count = 0;
    while let Some((header, payload)) = scan.read_next()? {
        let written = log.blocks.get(count).map(|(header, payload)| (*header, &payload[..]));
        assert_eq!(written, Some((header, payload)), "block {count} was not written");
        count += 1;
    }
    // What was found can be copied, and is found again in the copy.
    let to: Arc<dyn Medium> = Arc::new(CrashMedium::default());
    archived.copy_to(&*to, scan.at())?;
    let mut again = log.scan(to)?;
    let mut copied = 0;
    while again.read_next()?.is_some() {
        copied += 1;
    }
    assert_eq!(copied, count, "a copy has as many blocks");
    Ok(count)
}
