//! Reading the kernel's small text files. Errors name the file and show its content.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::MachineError;
use crate::sysfs::{ParseError, shorten};

/// Reads a whole file. Bytes that are not UTF-8 are replaced, so a parser finds garbage.
pub(crate) fn read_text(path: &Path) -> Result<String, MachineError> {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|source| MachineError::Unreadable { path: path.to_path_buf(), source })
}

/// Reads a whole file; `None` if it does not exist.
pub(crate) fn read_if_present(path: &Path) -> Result<Option<String>, MachineError> {
    match read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(MachineError::Unreadable { source, .. }) if absent(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Adds the path and the content of the file to the error of a parser.
pub(crate) fn in_file<T>(
    path: &Path,
    text: &str,
    parsed: Result<T, ParseError>,
) -> Result<T, MachineError> {
    parsed.map_err(|reason| MachineError::Malformed {
        path: path.to_path_buf(),
        content: shorten(text),
        reason,
    })
}

/// Reads a file and parses it.
pub(crate) fn read_parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, ParseError>,
) -> Result<T, MachineError> {
    let text = read_text(path)?;
    in_file(path, &text, parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::parse_id_list;

    #[test]
    fn an_error_names_the_file_and_shows_its_content() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("cpulist");
        fs::write(&path, b"0-\xff\n").expect("the folder is writable");
        let error = read_parsed(&path, parse_id_list).expect_err("that is garbage").to_string();
        assert!(error.contains("cpulist") && error.contains("0-\u{fffd}"), "{error}");
    }
}
