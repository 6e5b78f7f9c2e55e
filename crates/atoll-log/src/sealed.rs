//! Small files that are read in one request: a magic, the format and a body with its checksum.
//!
//! ```text
//! magic (8 bytes) | format u32 | CRC32C u32 | bytes of the body u32 | 0 u32 | body
//! ```
//! The checksum is that of the format and the body; in format 4, of the body.
//! Each of the two slots of the control file is one of these; so are the file with the origin of a
//! backup and the file with the owner of an archive.

use atoll_machine::Medium;
use atoll_machine::medium::Open;

use crate::error::LogError;

/// The format of the files of a database that this version of Atoll writes.
pub const FORMAT: u32 = 8;
/// The oldest format that it reads. A log of format 4 has no segments that were loaded in bulk;
/// before format 6 no table was ever dropped, before format 7 none was altered, and before format 8
/// none has got columns.
pub const FORMAT_OLDEST: u32 = 4;
/// Bytes in front of the body.
pub const HEADER_BYTES: usize = 24;

fn checksum(format: u32, body: &[u8]) -> u32 {
    let first = if format == 4 { 0 } else { crc32c::crc32c(&format.to_le_bytes()) };
    crc32c::crc32c_append(first, body)
}

/// Puts the header in front of a body.
pub fn seal(magic: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend(FORMAT.to_le_bytes());
    out.extend(checksum(FORMAT, body).to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    out.extend(body);
    out
}

/// Verifies sealed bytes and returns their format and body; `path` and `offset` name their place in
/// errors.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::Version`].
pub fn unseal<'b>(
    magic: [u8; 8],
    bytes: &'b [u8],
    path: &str,
    offset: u64,
) -> Result<(u32, &'b [u8]), LogError> {
    let damaged = |at: u64, expected: &str, found: String| {
        LogError::damaged(path, offset + at, expected, found)
    };
    if bytes.len() < HEADER_BYTES {
        return Err(damaged(0, "a header", "the end of the file".to_owned()));
    }
    if bytes[..8] != magic {
        let [expected, found] = [&magic[..], &bytes[..8]].map(String::from_utf8_lossy);
        return Err(damaged(0, &format!("{expected:?}"), format!("{found:?}")));
    }
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    if !(FORMAT_OLDEST..=FORMAT).contains(&half(8)) {
        return Err(LogError::Version { file: path.to_owned(), found: half(8), known: FORMAT });
    }
    let len = half(16) as usize;
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES + len);
    let body = body.ok_or_else(|| damaged(16, "a length that fits", len.to_string()))?;
    let crc = checksum(half(8), body);
    if crc != half(12) {
        return Err(damaged(12, &format!("checksum {crc:08x}"), format!("{:08x}", half(12))));
    }
    Ok((half(8), body))
}

/// Writes a sealed file atomically; it is durable when this returns.
///
/// # Errors
/// [`LogError::Medium`].
pub fn write(medium: &dyn Medium, name: &str, magic: [u8; 8], body: &[u8]) -> Result<(), LogError> {
    let unfinished = unfinished(name);
    if medium.names()?.contains(&unfinished) {
        medium.remove(&unfinished)?;
    }
    let file = medium.open(&unfinished, Open::Create)?;
    file.write_at(0, &seal(magic, body))?;
    file.sync()?;
    medium.rename(&unfinished, name)?;
    Ok(medium.sync_names()?)
}

/// The name of a file while it is being written.
pub fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

/// Reads a sealed file and decodes its body.
///
/// # Errors
/// [`LogError::Damaged`], [`LogError::Version`], [`LogError::Medium`].
pub fn read<T>(
    medium: &dyn Medium,
    name: &str,
    magic: [u8; 8],
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<T, LogError> {
    let file = medium.open(name, Open::Read)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.read_at(0, &mut bytes)?;
    let (_, body) = unseal(magic, &bytes, file.path(), 0)?;
    decode(body).ok_or_else(|| {
        LogError::damaged(file.path(), HEADER_BYTES as u64, "what was written", "something else")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use atoll_machine::CrashMedium;

    use super::*;

    #[test]
    fn what_was_sealed_comes_back_and_every_flipped_byte_is_found() {
        let (medium, magic) = (CrashMedium::default(), *b"ATOLLTST");
        write(&medium, "name", magic, b"first").unwrap();
        write(&medium, "name", magic, b"body").unwrap();
        let read =
            |medium: &CrashMedium| super::read(medium, "name", magic, |body| Some(body.to_vec()));
        assert_eq!(read(&medium).unwrap(), b"body");
        for at in (0..HEADER_BYTES as u64 + 4).filter(|at| !(20..24).contains(at)) {
            let damaged = medium.copy();
            damaged.damage("name", at, 1);
            let error = read(&damaged).unwrap_err();
            let is_told = matches!(error, LogError::Damaged { .. } | LogError::Version { .. });
            assert!(is_told, "{at}: {error}");
        }
    }
}
