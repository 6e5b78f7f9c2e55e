//! Commits on their way from the thread that reads a log to the appliers, with the log chunks that
//! contain them.

use std::sync::Arc;

use atoll_log::block::Header;
use atoll_log::scan::LogChunk;

/// A batch of commits is sent to the appliers when it has this many bytes.
const BYTES: usize = 1 << 20;
/// A batch keeps at most this many log chunks in memory, even if few of their bytes count.
const CHUNKS: usize = 2;

/// A block that waits for the horizon, with the chunk that contains it.
pub(super) struct PendingBlock {
    pub(super) header: Header,
    pub(super) chunk: Arc<LogChunk>,
}

/// Commits that are at or below the horizon.
#[derive(Default)]
pub(super) struct Batch {
    commits: Vec<(Header, ChangesIn)>,
    /// The chunks that contain them. The batch holds each chunk once, because counting references
    /// for each commit would take most of the threads' time.
    chunks: Vec<Arc<LogChunk>>,
    bytes: usize,
}

/// The place of a commit's changes.
enum ChangesIn {
    /// In the chunk of this number.
    Chunk(usize),
    /// In memory, joined from pieces.
    Joined(Vec<u8>),
}

impl Batch {
    pub(super) fn push(&mut self, held: PendingBlock) {
        self.bytes += held.header.payload_bytes as usize;
        if self.chunks.last().is_none_or(|last| !Arc::ptr_eq(last, &held.chunk)) {
            self.chunks.push(held.chunk);
        }
        self.commits.push((held.header, ChangesIn::Chunk(self.chunks.len() - 1)));
    }

    pub(super) fn push_joined(&mut self, header: Header, changes: Vec<u8>) {
        self.bytes += changes.len();
        self.commits.push((header, ChangesIn::Joined(changes)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Whether it is time to send the batch to the appliers.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES || self.chunks.len() >= CHUNKS
    }

    /// The commits with their changes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Header, &[u8])> {
        self.commits.iter().map(|(header, place)| match place {
            ChangesIn::Chunk(number) => (header, self.chunks[*number].payload(header)),
            ChangesIn::Joined(changes) => (header, &changes[..]),
        })
    }
}
