//! A store: a sparse, shareable memory file that each process maps once as a whole.
//!
//! The file is a memfd, or an ordinary file with or without a name. The owner maps it writable and
//! passes a read-only descriptor to other processes, which attach it. All references in the store
//! are offsets. A store on a file can be larger than memory, and a store in memory can be spread
//! over fast and slow memory nodes: [`Residency`] manages both.
//!
//! Space is reserved before use: [`Store::commit`] reserves space in chunks of 2 MiB and counts
//! them against a limit, so a full memory or disk is an error from `commit` and never a SIGBUS from
//! a store instruction. Only committed bytes may be written.
//!
//! Invariants:
//! - `STORE-1`: the mapping covers the capacity and does not move for the life of the `Store`.
//! - `STORE-2`: a chunk's bit in the ledger is set only while the file has space for the whole
//!   chunk. Bits change only under `latch`, and only by the call with a claim on the chunk.
//! - `STORE-3`: a failed call leaves ledger, limit and file as they were.
//! - `STORE-4`: the ledger is private to one process. Only one process may commit in a store at a
//!   time; the allocator's writer lock enforces that.
//! - `STORE-5`: a forked child of the process that maps a store for writing can only read it:
//!   mapping and descriptor are read-only there.

mod header;
mod ledger;
mod mapping;
mod residency;
mod space;
mod sys;

use crate::error::{MemoryError, Shortage};
use atoll_machine::fork::{self, Mark, Replaced, Unshared};
use header::{ENCODED_BYTES, Header};
pub(crate) use header::{HEADER_BYTES, fnv1a, read_u32, read_u64};
use ledger::Ledger;
use mapping::Mapping;
pub use residency::{Residency, Tended};
use space::Claim;
pub(crate) use space::Reach;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Condvar, Mutex};

/// The unit in which space is committed and decommitted: 2 MiB, a huge page.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// Settings of a new store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Sparse virtual size in bytes; rounded up to whole chunks.
    pub capacity_bytes: u64,
    /// Bytes that may be committed at once.
    pub limit_bytes: u64,
    /// Ask the kernel for huge pages where it allows them for shared memory. A store on a file
    /// ignores this, since its pages are evicted one by one.
    pub huge_pages: bool,
}

/// A random number that identifies a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u128);

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A mapped store.
#[derive(Debug)]
pub struct Store {
    mapping: Mapping,
    /// In a forked child, `fd` refers to the same file, opened for reading only (`STORE-5`).
    _in_children: Option<Replaced>,
    fd: OwnedFd,
    header: Header,
    writable: bool,
    mark: Mark,
    /// Whether the store is on an ordinary file, with pages that can be evicted, and not in memory.
    is_on_file: bool,
    limit_bytes: u64,
    ledger: Ledger,
    latch: Mutex<Vec<Claim>>,
    claim_ended: Condvar,
}

impl Store {
    /// Creates a store in DRAM. `name` is what `/proc` shows for the memfd.
    ///
    /// # Errors
    /// [`MemoryError::InvalidOption`] for an impossible capacity or name, [`MemoryError::System`],
    /// [`MemoryError::OutOfMemory`] if not even the header has room.
    pub fn create_memfd(name: &str, options: &StoreOptions) -> Result<Store, MemoryError> {
        let capacity = checked_capacity(options)?;
        Store::create(sys::memfd(name, capacity)?, capacity, options)
    }

    /// As [`Store::create_memfd`], with pages that [`Residency::on_node`] can move one by one: it
    /// has no huge pages, and attached processes unmap what they have read ([`Store::let_go`]).
    ///
    /// # Errors
    /// As [`Store::create_memfd`].
    pub fn create_moving(name: &str, options: &StoreOptions) -> Result<Store, MemoryError> {
        let capacity = checked_capacity(options)?;
        let options = StoreOptions { huge_pages: false, ..options.clone() };
        Store::create_as(sys::memfd(name, capacity)?, capacity, &options, true)
    }

    /// Creates a store on an unnamed file in `folder`. It can be larger than memory, and the file
    /// disappears with the last process that uses it, however that process ends.
    ///
    /// # Errors
    /// As [`Store::create_memfd`]; [`MemoryError::NoUnnamedFile`] if the folder, or its file
    /// system, cannot have such a file.
    pub fn create_unnamed(folder: &Path, options: &StoreOptions) -> Result<Store, MemoryError> {
        let capacity = checked_capacity(options)?;
        let options = StoreOptions { huge_pages: false, ..options.clone() };
        Store::create(sys::unnamed_file(folder, capacity)?, capacity, &options)
    }

    /// Creates a store on a new file, readable by its owner only.
    ///
    /// # Errors
    /// As [`Store::create_memfd`]; an existing file is an error and stays as it is. A failure
    /// leaves no file behind.
    pub fn create_file(path: &Path, options: &StoreOptions) -> Result<Store, MemoryError> {
        let capacity = checked_capacity(options)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| MemoryError::System { call: "open of a new store file", source })?;
        let fd = OwnedFd::from(file);
        let options = StoreOptions { huge_pages: false, ..options.clone() };
        let made =
            sys::set_size(&fd, capacity).and_then(|()| Store::create(fd, capacity, &options));
        if made.is_err() {
            // If the removal fails, too, the first error is the more useful one.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn create(fd: OwnedFd, capacity: u64, options: &StoreOptions) -> Result<Store, MemoryError> {
        Store::create_as(fd, capacity, options, false)
    }

    fn create_as(
        fd: OwnedFd,
        capacity_bytes: u64,
        options: &StoreOptions,
        pages_move: bool,
    ) -> Result<Store, MemoryError> {
        let header = Header { id: StoreId(sys::random_u128()?), capacity_bytes, pages_move };
        let in_children = read_only_in_children(&fd)?;
        let mapping = Mapping::new(fd.as_fd(), capacity_bytes, true)?;
        mapping.advise(options.huge_pages);
        if pages_move {
            mapping.refuse_huge_pages();
        }
        let is_on_file = !sys::is_in_memory(fd.as_fd());
        if is_on_file {
            mapping.expect_no_order();
        }
        let store = Store {
            mapping,
            _in_children: Some(in_children),
            fd,
            header,
            writable: true,
            mark: Mark::new(),
            is_on_file,
            limit_bytes: options.limit_bytes,
            ledger: Ledger::new(capacity_bytes / CHUNK_BYTES),
            latch: Mutex::new(Vec::new()),
            claim_ended: Condvar::new(),
        };
        store.commit(0, HEADER_BYTES)?;
        let bytes = header.encode();
        // SAFETY: STORE-1 and the commit above: the first page is mapped, writable and has space;
        // no other code knows this store yet.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), store.mapping.base(), bytes.len());
        }
        Ok(store)
    }

    /// Maps an existing store of any process for reading only.
    ///
    /// # Errors
    /// [`MemoryError::BadMagic`], [`MemoryError::ForeignVersion`], [`MemoryError::Truncated`] or
    /// [`MemoryError::Corrupt`] if `fd` is not a whole store of this version;
    /// [`MemoryError::System`].
    pub fn attach(fd: OwnedFd) -> Result<Store, MemoryError> {
        Store::attach_as(fd, false, 0)
    }

    /// Maps an existing store for writing, with a new limit, for a process that takes over a store
    /// or opens a store file again. `fd` must be open for reading and writing.
    ///
    /// Chunks that hold data count as committed, even if they are more than `limit_bytes`.
    ///
    /// # Errors
    /// As [`Store::attach`], and [`MemoryError::System`] if `fd` may not be written.
    pub fn attach_writable(fd: OwnedFd, limit_bytes: u64) -> Result<Store, MemoryError> {
        let store = Store::attach_as(fd, true, limit_bytes)?;
        store.find_committed()?;
        Ok(store)
    }

    fn attach_as(fd: OwnedFd, writable: bool, limit_bytes: u64) -> Result<Store, MemoryError> {
        let (file_bytes, _) = sys::sizes(fd.as_fd())?;
        let file = File::from(fd);
        let mut bytes = [0_u8; ENCODED_BYTES];
        let mut got = 0;
        while got < bytes.len() {
            match file.read_at(&mut bytes[got..], got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(MemoryError::System { call: "read", source });
                }
            }
        }
        let header = Header::decode(&bytes[..got], file_bytes)?;
        let fd = OwnedFd::from(file);
        let in_children = writable.then(|| read_only_in_children(&fd)).transpose()?;
        let mapping = Mapping::new(fd.as_fd(), header.capacity_bytes, writable)?;
        mapping.advise(false);
        if header.pages_move {
            mapping.refuse_huge_pages();
        }
        let is_on_file = !sys::is_in_memory(fd.as_fd());
        let ledger = Ledger::new(header.capacity_bytes / CHUNK_BYTES);
        let (latch, claim_ended) = (Mutex::new(Vec::new()), Condvar::new());
        Ok(Store {
            mapping,
            _in_children: in_children,
            fd,
            header,
            writable,
            mark: Mark::new(),
            is_on_file,
            limit_bytes,
            ledger,
            latch,
            claim_ended,
        })
    }

    /// The id of the store.
    #[must_use]
    pub fn id(&self) -> StoreId {
        self.header.id
    }

    /// Virtual size in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.header.capacity_bytes
    }

    /// Whether this process may write to the mapping: it was made for writing, by this process and
    /// not by its parent before a fork.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable && self.mark.is_here()
    }

    /// The address of offset 0; the same for the life of the `Store`, a multiple of 2 MiB.
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.mapping.base()
    }

    /// As [`Store::base`], for writing; `None` if the store is mapped read-only. Only committed
    /// bytes may be written.
    #[must_use]
    pub fn base_mut(&self) -> Option<*mut u8> {
        self.is_writable().then(|| self.mapping.base())
    }

    /// The address of `len` bytes at `offset`, or `None` if they are not inside the store.
    #[must_use]
    pub fn slice(&self, offset: u64, len: u64) -> Option<*const u8> {
        self.check(offset, len).ok()?;
        // SAFETY: STORE-1 and the check: the offset is inside the mapping.
        Some(unsafe { self.mapping.base().add(offset as usize) })
    }

    /// A new descriptor of the store that allows reading but no writable mapping.
    ///
    /// # Errors
    /// [`MemoryError::System`] if `/proc` is not there or descriptors have run out.
    pub fn read_only_fd(&self) -> Result<OwnedFd, MemoryError> {
        sys::reopen_read_only(self.fd())
    }

    /// The store's own descriptor, with the same rights as the mapping.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that have space: the committed chunks, or, for a read-only mapping, the bytes that the
    /// file occupies.
    #[must_use]
    pub fn committed_bytes(&self) -> u64 {
        if self.writable {
            return self.ledger.committed_bytes();
        }
        sys::sizes(self.fd()).map_or(0, |(_, occupied)| occupied)
    }

    /// Bytes that may be committed; 0 in a read-only mapping.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Prefetches a range that the caller is about to read from start to end, so that missing pages
    /// are read together and not one by one. Does nothing for a range outside the store.
    #[inline]
    pub fn will_need(&self, offset: u64, len: u64) {
        if self.is_on_file && self.check(offset, len).is_ok() {
            self.mapping.fetch(offset, len);
        }
    }

    /// Unmaps all pages of a store with pages that its owner evicts or moves: the owner cannot
    /// evict or move a page while this process has it mapped. The next read maps the page again.
    pub fn let_go(&self) {
        if self.is_on_file || self.header.pages_move {
            // An optimisation only: pages that stay mapped count as used.
            let _ = self.mapping.unmap_pages(0, self.capacity_bytes());
        }
    }

    /// Takes the store's writer lock, held until the descriptor is dropped or the process ends.
    pub(crate) fn lock_for_writing(&self) -> Result<Unshared, MemoryError> {
        if !self.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        // An open file description of its own: descriptors that are passed to other processes must
        // not share the lock.
        let fd = Unshared::make(|| sys::reopen_read_only(self.fd()))?;
        if sys::try_lock(&fd)? { Ok(fd) } else { Err(MemoryError::InUse) }
    }

    /// An out-of-memory error with the current figures of the store.
    pub(crate) fn out_of_memory(&self, asked_bytes: u64, shortage: Shortage) -> MemoryError {
        MemoryError::OutOfMemory {
            asked_bytes,
            committed_bytes: self.committed_bytes(),
            limit_bytes: self.limit_bytes,
            shortage,
        }
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), MemoryError> {
        let capacity_bytes = self.capacity_bytes();
        match offset.checked_add(len) {
            Some(end) if end <= capacity_bytes => Ok(()),
            _ => Err(MemoryError::OutOfBounds { offset, len, capacity_bytes }),
        }
    }
}

impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// Makes the store's own descriptor refer to the same file in forked children, but for reading
/// only, so that a child can neither reserve nor free space (`STORE-2`).
fn read_only_in_children(fd: &OwnedFd) -> Result<Replaced, MemoryError> {
    let read_only = sys::reopen_read_only(fd.as_fd())?;
    Ok(fork::delay().replace(fd.as_fd(), read_only))
}

/// The capacity in whole chunks.
fn checked_capacity(options: &StoreOptions) -> Result<u64, MemoryError> {
    let value = options.capacity_bytes;
    match value.checked_next_multiple_of(CHUNK_BYTES) {
        Some(capacity) if capacity > 0 && i64::try_from(capacity).is_ok() => Ok(capacity),
        _ => Err(MemoryError::InvalidOption {
            option: "the store's capacity in bytes",
            value,
            need: "it must be more than 0 and less than 2^63",
        }),
    }
}
