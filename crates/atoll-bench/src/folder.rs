//! A temporary folder for a benchmark.

use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// A folder for this process; removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a folder in `parent`, or in the system's folder for temporary files.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in a folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
