//! A store in a forked child of the process that writes it: the child can only read it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use atoll_memory::{MemoryError, Store, StoreOptions, SwingConfig, SwingMalloc};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

fn swing() -> SwingMalloc {
    let config = SwingConfig { buddy_bytes: 64 << 20, ..SwingConfig::default() };
    let options = StoreOptions {
        capacity_bytes: SwingMalloc::capacity_for(&config),
        limit_bytes: 32 << 20,
        huge_pages: false,
    };
    let store = Arc::new(Store::create_memfd("forks", &options).unwrap());
    SwingMalloc::create(store, &config).unwrap()
}

/// The status of a forked child that runs `body`.
fn status(body: impl FnOnce()) -> WaitStatus {
    // SAFETY: the child runs `body` on the one thread that it has, and ends without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: neither call takes a pointer.
        unsafe {
            libc::alarm(60);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            libc::_exit(i32::from(done.is_err()));
        }
    }
    waitpid(Pid::from_raw(pid), WaitOptions::empty()).unwrap().unwrap().1
}

#[test]
fn a_child_can_neither_allocate_nor_free_nor_take_space_nor_give_it_back() {
    let swing = swing();
    let store = Arc::clone(swing.store());
    let extent = swing.allocate(4 << 20).unwrap();
    let address = store.base_mut().unwrap().wrapping_add(extent.offset as usize);
    // SAFETY: an extent of this test's own.
    unsafe { address.write_bytes(7, extent.size_bytes as usize) };
    let committed = store.committed_bytes();
    let mut swing = Some(swing);
    let done = status(|| {
        let swing = swing.take().unwrap();
        assert!(!store.is_writable() && store.base_mut().is_none());
        assert!(matches!(swing.allocate(64), Err(MemoryError::ReadOnly)));
        assert!(matches!(swing.free(extent.offset), Err(MemoryError::ReadOnly)));
        assert!(matches!(store.commit(0, 16 << 20), Err(MemoryError::ReadOnly)));
        store.decommit(extent.offset, extent.size_bytes);
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(store.fd(), mode, extent.offset, extent.size_bytes).is_err());
        // SAFETY: the extent is mapped, and nothing stores into it meanwhile.
        assert_eq!(unsafe { address.read() }, 7);
        // A store that the child attaches itself is not restricted.
        let attached = Store::attach(store.read_only_fd().unwrap()).unwrap();
        assert_eq!(attached.id(), store.id());
        let own = self::swing();
        assert!(own.free(own.allocate(64).unwrap().offset).is_ok());
        drop((swing, own));
    });
    assert_eq!(done.exit_status(), Some(0));
    let swing = swing.unwrap();
    assert_eq!(store.committed_bytes(), committed);
    // SAFETY: as above.
    assert_eq!(unsafe { address.read() }, 7);
    swing.free(extent.offset).unwrap();
}

#[test]
fn a_store_instruction_of_a_child_ends_the_child() {
    let swing = swing();
    let extent = swing.allocate(64).unwrap();
    let address = swing.store().base_mut().unwrap().wrapping_add(extent.offset as usize);
    // SAFETY: an extent of this test's own.
    unsafe { address.write_volatile(1) };
    // SAFETY: a child gets a signal.
    let status = status(|| unsafe { address.write_volatile(2) });
    assert_eq!(status.terminating_signal(), Some(libc::SIGSEGV));
    // SAFETY: as above.
    assert_eq!(unsafe { address.read_volatile() }, 1);
}
