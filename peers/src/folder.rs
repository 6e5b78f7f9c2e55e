//! A temporary folder for the files of a peer.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::PeerError;

/// Removed with its contents when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder below `parent`, with a name that is unique in this process.
    ///
    /// # Errors
    /// [`PeerError::Folder`].
    pub fn new(parent: &Path) -> Result<Self, PeerError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("atoll-peers-{}-{number}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(PeerError::Folder { path: path.display().to_string(), source }),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}
