//! The folder of a benchmark, which goes with it.

use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// A folder of this process's own; removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one in `parent`, or where temporary files go.
    ///
    /// # Errors
    /// [`BenchError::System`].
    pub fn new(parent: Option<&Path>) -> Result<Self, BenchError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("atoll-bench-{}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|source| BenchError::System { call: "mkdir", source })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whatever cannot be removed is in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
