//! The errors of stores and of the allocator: what failed, with which input, and what the user can
//! do about it.

use atoll_machine::{MachineError, NodeId};
use std::io;

/// Why memory could not be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// The store's limit on committed bytes would be passed.
    Limit,
    /// The limit less the headroom that is reserved for rollbacks would be passed.
    Headroom,
    /// The operating system or the file system has no space left.
    System,
    /// The allocator's address space has no free extent of that size.
    AddressSpace,
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Shortage::Limit => "raise the store's limit or free extents",
            Shortage::Headroom => "what is left is kept for rollbacks: raise the limit or free",
            Shortage::System => "the system has no space left: free memory or disk space",
            Shortage::AddressSpace => {
                "no free extent is that large: free extents or make the \
                                       buddy part or the table of large blocks larger"
            }
        })
    }
}

/// An error of a store or of the allocator in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// No memory; nothing was changed.
    #[error(
        "no memory for {asked_bytes} bytes ({committed_bytes} of {limit_bytes} committed): \
         {shortage}"
    )]
    OutOfMemory {
        /// Bytes that the caller asked for.
        asked_bytes: u64,
        /// Bytes committed at that moment.
        committed_bytes: u64,
        /// The store's limit in bytes.
        limit_bytes: u64,
        /// What ran out.
        shortage: Shortage,
    },
    /// A request larger than anything that the allocator was configured for.
    #[error(
        "an extent of {asked_bytes} bytes is larger than the largest possible one of \
         {largest_bytes} bytes: ask for less or configure larger blocks"
    )]
    TooLarge {
        /// Bytes that the caller asked for.
        asked_bytes: u64,
        /// The largest extent that the configuration knows, in bytes.
        largest_bytes: u64,
    },
    /// A setting that cannot work.
    #[error("{option} is {value}, but {need}")]
    InvalidOption {
        /// The name of the setting.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it has to be.
        need: &'static str,
    },
    /// The file is not a store, or the store holds no allocator.
    #[error("this is not {what}: its first bytes are foreign; name another file")]
    BadMagic {
        /// What was expected to be there.
        what: &'static str,
    },
    /// Written by another version of the format.
    #[error(
        "{what} has format version {found}, this program reads version {expected}: use the \
         program that wrote it"
    )]
    ForeignVersion {
        /// What has the version.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The version that this program reads.
        expected: u32,
    },
    /// Shorter than its header says.
    #[error("the store has {size_bytes} bytes but needs {need_bytes}: it was cut off")]
    Truncated {
        /// The size of the file in bytes.
        size_bytes: u64,
        /// The size that it should have.
        need_bytes: u64,
    },
    /// A header that contradicts itself.
    #[error("the store is damaged: {what}; do not use it")]
    Corrupt {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A range outside the store.
    #[error("{len} bytes at offset {offset} are not inside a store of {capacity_bytes} bytes")]
    OutOfBounds {
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
        /// Size of the store in bytes.
        capacity_bytes: u64,
    },
    /// A change of a store that is mapped for reading only.
    #[error("the store is mapped read-only: only its owner may change it")]
    ReadOnly,
    /// Another allocator handle has the store.
    #[error("another allocator has this store open for writing: close that one first")]
    InUse,
    /// The store has an allocator already.
    #[error("this store has an allocator already: open it instead of creating one")]
    HasAllocator,
    /// Not the start of a live extent.
    #[error(
        "offset {offset} is not the start of a live extent: it was freed before or never allocated"
    )]
    NotAllocated {
        /// The offset that was given.
        offset: u64,
    },
    /// A folder that cannot hold a store.
    #[error(
        "{folder} cannot hold the file for data that exceeds the memory budget: {source}; name a \
         folder that this user may write, on ext4, XFS or tmpfs"
    )]
    NoUnnamedFile {
        /// The folder.
        folder: String,
        /// Why not.
        source: io::Error,
    },
    /// Evicted pages of a store could not be written to its file.
    #[error(
        "evicting data from memory to its file has failed: {source}; some of it may be lost: mend \
         the medium and open the database again, which has everything that was acknowledged"
    )]
    SpillFailed {
        /// Why.
        source: io::Error,
    },
    /// The cold node cannot take the unused pages of a store.
    #[error("node {node} cannot hold unused pages: {source}; or do without a cold node")]
    ColdNode {
        /// The node, as the kernel numbers it.
        node: NodeId,
        /// Why not, and what to do.
        source: MachineError,
    },
    /// The process may not map that many addresses.
    #[error(
        "no addresses for a store of {bytes} bytes, of which most is never used: raise the limit \
         of the process (ulimit -v)"
    )]
    Addresses {
        /// The size of the store.
        bytes: u64,
    },
    /// The process may not make a file that large.
    #[error(
        "a store of {bytes} bytes, of which most is never used, is a larger file than this process \
         may make: raise the limit (ulimit -f)"
    )]
    FileSize {
        /// The size of the store.
        bytes: u64,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl From<io::Error> for MemoryError {
    /// Wraps an error of `Unshared::make`, which keeps a descriptor from forked children.
    fn from(source: io::Error) -> Self {
        Self::System { call: "eventfd", source }
    }
}

impl MemoryError {
    /// The error of a system call of this name.
    pub(crate) fn system<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> MemoryError {
        move |source| MemoryError::System { call, source: source.into() }
    }

    /// The same error, naming the bytes that the caller asked for instead of the part that failed.
    pub(crate) fn asked(mut self, asked: u64) -> MemoryError {
        if let MemoryError::OutOfMemory { asked_bytes, .. } = &mut self {
            *asked_bytes = asked;
        }
        self
    }

    /// Whether the same request can succeed after memory is freed or a limit is raised.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, MemoryError::OutOfMemory { .. })
    }
}
