//! The input of a load: a file, or a stream that can be read only once.
//!
//! `INPUT-1`: an input is read from its start as often as needed: once to infer the types of its
//! columns, once to insert its rows, and again when the transaction is aborted. A pipe is therefore
//! spooled first, into memory up to [`SPOOL_MEMORY_BYTES`] and then into a temporary file without a
//! name. `INPUT-2`: the first bytes determine the compression, not the name; damaged or truncated
//! data is an error that names the file.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{SqlError, SqlErrorKind};

/// Bytes of a stream that are kept in memory; a longer one goes to a temporary file.
const SPOOL_MEMORY_BYTES: usize = 64 << 20;
/// Bytes that are read from a stream at once.
const CHUNK_BYTES: usize = 1 << 18;

/// A file or a stream from which tables are created and loaded.
///
/// Gzip and Zstandard data is decompressed. A stream, such as a pipe, is read to its end when it is
/// opened.
#[derive(Debug, Clone)]
pub struct Input {
    name: String,
    content: Content,
    packing: Option<Packing>,
    /// The number of its first line, where that counts.
    line: u64,
}

/// Bytes at offsets.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A file and its length when it was opened.
    File(Arc<File>, u64),
    /// Bytes in memory.
    Memory(Bytes),
}

/// How an input is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

impl Input {
    /// Opens a file, a FIFO or another stream by its path.
    ///
    /// # Errors
    /// A file that cannot be read, a directory, and a compression that is not supported.
    pub fn open(path: &Path) -> Result<Self, SqlError> {
        let name = path.display().to_string();
        let fault = |error: io::Error| unreadable(&name, &error);
        let file = File::open(path).map_err(fault)?;
        let meta = file.metadata().map_err(fault)?;
        if meta.is_dir() {
            return Err(input_error(format!("cannot read {name}: it is a directory")));
        }
        if !meta.is_file() {
            return Self::spool(name, file);
        }
        Self::of_content(name, Content::File(Arc::new(file), meta.len()))
    }

    /// Reads a stream to its end; errors report `name`.
    ///
    /// # Errors
    /// As [`Input::open`], and a temporary file that cannot be written.
    pub fn spool(name: impl Into<String>, stream: impl Read) -> Result<Self, SqlError> {
        let name = name.into();
        let content = spool(&name, stream, SPOOL_MEMORY_BYTES)?;
        Self::of_content(name, content)
    }

    fn of_content(name: String, content: Content) -> Result<Self, SqlError> {
        let mut first = [0; 10];
        let mut len = 0;
        while len < first.len() {
            match content.read_at(&mut first[len..], len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&name, &error)),
            }
        }
        let packing = packing(&name, &first[..len])?;
        Ok(Self { name, content, packing, line: 1 })
    }

    /// The same with another number for its first line: it is a part of a file.
    #[must_use]
    pub fn at_line(self, line: u64) -> Self {
        Self { line, ..self }
    }

    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the input as it is stored or was sent, compressed or not.
    pub fn bytes(&self) -> u64 {
        Length::len(&self.content)
    }

    /// A reader of the decompressed bytes, from the start.
    ///
    /// # Errors
    /// A decompressor that cannot be made.
    pub(crate) fn reader(&self) -> Result<Reader, SqlError> {
        let done = Rc::new(Cell::new(0));
        let raw = Window { content: self.content.clone(), at: 0, done: Rc::clone(&done) };
        let inner: Box<dyn Read> = match self.packing {
            None => Box::new(raw),
            Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(raw)),
            Some(Packing::Zstd) => {
                let decoder = zstd::stream::read::Decoder::new(raw);
                Box::new(decoder.map_err(|error| unreadable(&self.name, &error))?)
            }
        };
        Ok(Reader { inner, done, name: self.name.clone(), packing: self.packing })
    }

    /// The decompressed bytes at offsets, for formats that are not read from start to end.
    ///
    /// # Errors
    /// Those of [`Input::spool`].
    pub(crate) fn unpacked(&self) -> Result<Content, SqlError> {
        if self.packing.is_none() {
            return Ok(self.content.clone());
        }
        let mut reader = self.reader()?;
        let read = FnReader(|into: &mut [u8]| reader.read(into).map_err(io::Error::other));
        spool(&self.name, read, SPOOL_MEMORY_BYTES)
    }
}

/// A reader that is a function.
struct FnReader<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for FnReader<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (self.0)(into)
    }
}

/// A reader of an input's decompressed bytes.
pub(crate) struct Reader {
    inner: Box<dyn Read>,
    done: Rc<Cell<u64>>,
    name: String,
    packing: Option<Packing>,
}

impl Reader {
    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// Errors of the system, and compressed data that is damaged or truncated.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize, SqlError> {
        loop {
            match self.inner.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| self.fault(&error)),
            }
        }
    }

    /// Bytes of the input that have been read, compressed or not.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.done.get()
    }

    fn fault(&self, error: &io::Error) -> SqlError {
        let Some(packing) = self.packing.filter(|_| error.raw_os_error().is_none()) else {
            return unreadable(&self.name, error);
        };
        let (name, packing) = (&self.name, packing.name());
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "ends too early: the file is truncated".to_owned(),
            _ => format!("is damaged ({})", error.to_string().trim_end_matches('.')),
        };
        input_error(format!("cannot read {name}: its {packing} data {what}"))
    }
}

/// Reads content from a place on.
pub(crate) struct Window {
    content: Content,
    at: u64,
    done: Rc<Cell<u64>>,
}

impl Read for Window {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read_at(into, self.at)?;
        self.at += read as u64;
        self.done.set(self.done.get().max(self.at));
        Ok(read)
    }
}

impl Content {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file, _) => file.read_at(into, offset),
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let len = into.len().min(bytes.len() - start);
                into[..len].copy_from_slice(&bytes[start..start + len]);
                Ok(len)
            }
        }
    }
}

impl Length for Content {
    fn len(&self) -> u64 {
        match self {
            Self::File(_, bytes) => *bytes,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl ChunkReader for Content {
    type T = io::BufReader<Window>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(io::BufReader::new(Window { content: self.clone(), at: start, done: Rc::default() }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        match self {
            Self::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
            Self::Memory(bytes) => {
                let end = start.checked_add(length as u64).filter(|end| *end <= Length::len(self));
                if end.is_none() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                Ok(bytes.slice(start as usize..start as usize + length))
            }
        }
    }
}

/// Spools a stream, so that it can be read again.
fn spool(name: &str, mut stream: impl Read, memory_bytes: usize) -> Result<Content, SqlError> {
    let mut next = |into: &mut [u8]| loop {
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map_err(|error| stream_error(name, error)),
        }
    };
    let mut kept = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = next(&mut chunk)?;
        if read == 0 {
            return Ok(Content::Memory(kept.into()));
        }
        kept.extend_from_slice(&chunk[..read]);
        if kept.len() > memory_bytes {
            break;
        }
    }
    let fault = |error: io::Error| {
        let folder = std::env::temp_dir();
        let message = format!("cannot keep {name} in {}: {error}", folder.display());
        input_error(message).with_hint(Some(
            "a stream is kept until it is loaded; TMPDIR names a folder with more room".to_owned(),
        ))
    };
    let mut file = tempfile::tempfile().map_err(fault)?;
    file.write_all(&kept).map_err(fault)?;
    let mut bytes = kept.len() as u64;
    drop(kept);
    loop {
        let read = next(&mut chunk)?;
        if read == 0 {
            return Ok(Content::File(Arc::new(file), bytes));
        }
        file.write_all(&chunk[..read]).map_err(fault)?;
        bytes += read as u64;
    }
}

/// The error of a stream; one of ours that crossed [`io::Error`] on its way is taken out again.
fn stream_error(name: &str, error: io::Error) -> SqlError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<SqlError>()) {
        Some(own) => own.clone(),
        None => unreadable(name, &error),
    }
}

/// The compression of data with this beginning.
fn packing(name: &str, first: &[u8]) -> Result<Option<Packing>, SqlError> {
    let is = |magic: &[u8]| first.starts_with(magic);
    let other = if is(&[0x1f, 0x8b, 8]) {
        return Ok(Some(Packing::Gzip));
    } else if is(&[0x28, 0xb5, 0x2f, 0xfd]) || matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
    {
        // A frame, or one to be skipped, such as pzstd writes first.
        return Ok(Some(Packing::Zstd));
    } else if first.len() == 10 && is(b"BZh") && first[4..] == [0x31, 0x41, 0x59, 0x26, 0x53, 0x59]
    {
        ("bzip2 data", "bzip2 -dc")
    } else if is(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        ("xz data", "xz -dc")
    } else if is(&[4, 0x22, 0x4d, 0x18]) {
        ("lz4 data", "lz4 -dc")
    } else if is(b"PK\x03\x04") {
        ("a zip archive or a spreadsheet", "unzip -p")
    } else {
        return Ok(None);
    };
    let (what, program) = other;
    Err(input_error(format!("cannot read {name}: it is {what}; gzip and zstd can be read"))
        .with_hint(Some(format!("unpack it with {program}, or pipe what that writes"))))
}

fn unreadable(name: &str, error: &io::Error) -> SqlError {
    input_error(format!("cannot read {name}: {error}"))
}

fn input_error(message: String) -> SqlError {
    SqlError::new(SqlErrorKind::Input, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn all(input: &Input) -> Result<Vec<u8>, SqlError> {
        let mut reader = input.reader()?;
        let (mut all, mut chunk) = (Vec::new(), [0; 1000]);
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(all),
                read => all.extend_from_slice(&chunk[..read]),
            }
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_stream_can_be_read_again_from_memory_and_from_a_file() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
        for memory in [1 << 20, 100_000, 0] {
            let content = spool("s", bytes.as_slice(), memory).unwrap();
            assert_eq!(matches!(content, Content::Memory(_)), memory > bytes.len());
            let input = Input::of_content("s".to_owned(), content).unwrap();
            assert_eq!(input.bytes(), bytes.len() as u64);
            assert!(all(&input).unwrap() == bytes && all(&input).unwrap() == bytes);
            let part = input.content.get_bytes(999_998, 2).unwrap();
            assert_eq!(part, bytes[999_998..]);
            assert!(input.content.get_bytes(999_998, 3).is_err());
        }
    }

    #[test]
    fn compressed_data_is_told_by_its_first_bytes() {
        let bytes = b"id,name\n1,a\n".repeat(10_000);
        let two = [gzip(&bytes[..50_000]), gzip(&bytes[50_000..])].concat();
        let zstd = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7], zstd.as_slice()].concat();
        for packed in [gzip(&bytes), two, zstd, skipped] {
            let input = Input::spool("s", packed.as_slice()).unwrap();
            assert!(all(&input).unwrap() == bytes);
            let Content::Memory(unpacked) = input.unpacked().unwrap() else { panic!() };
            assert!(unpacked == bytes);
        }
    }

    #[test]
    fn damaged_and_truncated_data_is_an_error_that_names_the_file() {
        let bytes: Vec<u8> = (0..100_000u32).flat_map(|at| (at * at).to_le_bytes()).collect();
        for (packed, kind) in
            [(gzip(&bytes), "gzip"), (zstd::encode_all(bytes.as_slice(), 1).unwrap(), "zstd")]
        {
            for cut in [packed.len() - 1, packed.len() / 2, 12] {
                let input = Input::spool("f.csv.gz", &packed[..cut]).unwrap();
                let error = all(&input).unwrap_err();
                let wanted = format!("cannot read f.csv.gz: its {kind} data ends too early");
                assert!(error.message().starts_with(&wanted), "{cut}: {error}");
                assert!(input.unpacked().unwrap_err().message().starts_with(&wanted));
            }
        }
        let mut wrong = gzip(&bytes);
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        let error = all(&Input::spool("f", wrong.as_slice()).unwrap()).unwrap_err();
        assert!(error.message().starts_with("cannot read f: its gzip data is damaged"), "{error}");
    }

    #[test]
    fn other_compressions_are_named() {
        for (first, wanted) in [
            (&b"BZh91AY&SY__"[..], "bzip2"),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0, 0][..], "xz"),
            (&[4, 0x22, 0x4d, 0x18][..], "lz4"),
            (&b"PK\x03\x04xxxx"[..], "zip"),
        ] {
            let error = Input::spool("f", first).unwrap_err();
            assert!(error.message().contains(wanted), "{error}");
        }
        assert!(Input::spool("f", &b"BZh9,name\n1,2"[..]).is_ok());
        assert!(Input::spool("f", &b""[..]).is_ok());
    }
}
