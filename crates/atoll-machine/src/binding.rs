//! Placing memory on a node, moving it to another node, and finding the node of memory.
//!
//! [`bind_memory`] sets the policy of the address range, which also moves the pages that are
//! allocated already; pages that are touched later are then allocated on the node. The policy
//! *prefers* the node instead of requiring it: when a node is full, a requirement makes the kernel
//! kill the process, while a preference uses the next nearest node and the database continues.
//!
//! [`move_pages`] moves single pages, which keep their policy. It needs permission from the kernel
//! and has no fallback, so it returns an error in a container that forbids it.
//!
//! - BINDING-1: binding and moving never change the contents of memory, only its place; a thread
//!   that uses the memory meanwhile waits for the kernel at most.
//! - BINDING-2: if a container forbids the call, work continues with unbound memory; the result
//!   says so, and [`Binding::warn_if_forbidden`] warns the user once.
//!
//! After a failed call, the range may be bound in part; it is usable in any case.

use crate::error::MachineError;
use crate::ids::NodeId;
use crate::warn_once::WarnOnce;
use std::io;

/// Bits of the node mask for the kernel; more nodes than any kernel is built for.
const MASK_BITS: u32 = 1024;

/// Constants of the kernel's interface that the C library's headers leave to libnuma.
const MPOL_PREFERRED: libc::c_long = 1;
const MPOL_MF_MOVE: libc::c_ulong = 1 << 1;
const MPOL_F_NODE: libc::c_ulong = 1 << 0;
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

static UNBOUND: WarnOnce = WarnOnce::new();

/// The result of a request to bind memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Binding {
    /// The memory now prefers this node.
    Bound {
        /// The node, as the kernel numbers it.
        node: NodeId,
    },
    /// This process may not bind memory; pages are allocated on the node of the thread that touches
    /// them first.
    Forbidden {
        /// The requested node.
        node: NodeId,
        /// The kernel's error number: EPERM, EACCES or ENOSYS.
        errno: i32,
    },
}

impl Binding {
    /// Passes a warning to `say` if binding was forbidden: the first time in this process only.
    pub fn warn_if_forbidden(self, say: impl FnOnce(&str)) {
        if let Self::Forbidden { node, errno } = self {
            UNBOUND.warn(|| {
                say(&format!(
                    "memory cannot be bound to node {node} ({}); it is used unbound, and may be \
                     on another node. Allow mbind to this container (CAP_SYS_NICE) to change this",
                    io::Error::from_raw_os_error(errno)
                ));
            });
        }
    }
}

/// Bytes of a page of normal memory.
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Makes the kernel allocate the pages of `len` bytes at `ptr` on `node` (as the kernel numbers it:
/// [`Node::physical`](crate::Node)), and moves those that this process alone has mapped there.
///
/// The memory must be mapped. When the node is full, pages are allocated on the nearest other one.
///
/// # Errors
///
/// [`MachineError::Misaligned`] when `ptr` does not begin a page, [`MachineError::NoSuchNode`]
/// when the node has no memory for this process, [`MachineError::SystemCall`] for anything else,
/// such as a range that is not mapped. A container that forbids the call is not an error, see
/// [`Binding::Forbidden`].
pub fn bind_memory(ptr: *mut u8, len: usize, node: NodeId) -> Result<Binding, MachineError> {
    let page = page_bytes();
    if !ptr.addr().is_multiple_of(page) {
        return Err(MachineError::Misaligned { address: ptr.addr(), page });
    }
    if node.0 >= MASK_BITS {
        return Err(MachineError::NoSuchNode { node });
    }
    if len == 0 {
        return Ok(Binding::Bound { node });
    }
    if ptr.addr().checked_add(len).and_then(|end| end.checked_add(page)).is_none() {
        // The kernel would report the same error number as for a bad node.
        let source = io::Error::from_raw_os_error(libc::EFAULT);
        return Err(MachineError::SystemCall { call: "mbind", source });
    }
    let mut mask = [0_u64; (MASK_BITS / 64) as usize];
    mask[node.0 as usize / 64] |= 1 << (node.0 % 64);
    // The kernel reads one bit less than this number.
    let bits = libc::c_ulong::from(MASK_BITS + 1);
    // SAFETY: `mask` is readable for all the bits named. The range is a plain number to the
    // kernel, which checks it and changes its placement, never its bytes (BINDING-1).
    let rc = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            ptr.addr(),
            len as libc::c_ulong,
            MPOL_PREFERRED,
            mask.as_ptr(),
            bits,
            MPOL_MF_MOVE,
        )
    };
    if rc >= 0 {
        return Ok(Binding::Bound { node });
    }
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS)) => {
            Ok(Binding::Forbidden { node, errno })
        }
        // All other causes of this error number are excluded above.
        Some(libc::EINVAL) => Err(MachineError::NoSuchNode { node }),
        _ => Err(MachineError::SystemCall { call: "mbind", source }),
    }
}

/// The node of the page at `ptr`, or `None` if the kernel does not say or the address is not
/// mapped.
///
/// A page that was never touched has no node yet, and the call makes the kernel read it; so a
/// caller touches pages before it asks.
#[must_use]
pub fn node_of(ptr: *const u8) -> Option<NodeId> {
    let mut node: libc::c_int = -1;
    // SAFETY: `node` is writable and the node mask is absent, as its size of zero says. The
    // kernel checks the address itself and reports an unmapped one.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut node,
            std::ptr::null_mut::<libc::c_ulong>(),
            0 as libc::c_ulong,
            ptr.addr(),
            MPOL_F_NODE | MPOL_F_ADDR,
        )
    };
    if rc == 0 { u32::try_from(node).ok().map(NodeId) } else { None }
}

/// Moves pages of normal memory to `node` (as the kernel numbers it), while other threads may use
/// them. Each page is named by an address in it.
///
/// Some pages may not move: those that are not in this process's page table or that are mapped by
/// another mapping too, those that a device uses, and those for which the node has no space.
/// Returns `false` if the node was full; [`nodes_of`] returns the result for each page.
///
/// # Errors
///
/// [`MachineError::MovingForbidden`] where this process may not move pages,
/// [`MachineError::NoSuchNode`] when the node has no memory for it, [`MachineError::SystemCall`].
pub fn move_pages(pages: &[*const u8], node: NodeId) -> Result<bool, MachineError> {
    let Ok(number) = libc::c_int::try_from(node.0) else {
        return Err(MachineError::NoSuchNode { node });
    };
    // The per-page states are not used: kernels differ in what they report here.
    let (targets, mut states) = (vec![number; pages.len()], vec![0; pages.len()]);
    match pages_call(pages, Some(&targets), &mut states) {
        Ok(()) => Ok(true),
        Err(source) => match source.raw_os_error() {
            Some(libc::ENOMEM) => Ok(false),
            Some(libc::ENODEV | libc::EACCES | libc::EINVAL) => {
                Err(MachineError::NoSuchNode { node })
            }
            _ => Err(moving_error(source)),
        },
    }
}

/// The nodes of pages of normal memory, each named by an address in it; `None` for a page that is
/// not in this process's page table. The call touches none of them.
///
/// # Errors
///
/// As [`move_pages`].
pub fn nodes_of(pages: &[*const u8]) -> Result<Vec<Option<NodeId>>, MachineError> {
    let mut states = vec![-1; pages.len()];
    pages_call(pages, None, &mut states).map_err(moving_error)?;
    Ok(states.into_iter().map(|state| u32::try_from(state).ok().map(NodeId)).collect())
}

fn moving_error(source: io::Error) -> MachineError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => MachineError::MovingForbidden { source },
        _ => MachineError::SystemCall { call: "move_pages", source },
    }
}

/// Moves pages of this process or, without targets, only queries their nodes.
fn pages_call(
    pages: &[*const u8],
    targets: Option<&[libc::c_int]>,
    states: &mut [libc::c_int],
) -> io::Result<()> {
    assert_eq!(pages.len(), states.len());
    assert!(targets.is_none_or(|targets| targets.len() == pages.len()));
    if pages.is_empty() {
        return Ok(());
    }
    // SAFETY: each of the arrays has an entry for each page, and `states` is writable. The pages
    // themselves are plain numbers to the kernel, which checks them and changes their placement,
    // never their bytes (BINDING-1).
    let rc = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as libc::c_ulong, // this process
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            targets.map_or(std::ptr::null(), <[_]>::as_ptr),
            states.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    // A positive result is the number of pages that were not moved.
    if rc >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Mapping;

    /// Pages of private memory.
    struct Pages(Mapping);

    impl Pages {
        fn new(count: usize) -> Self {
            Self(Mapping::anonymous(count * page_bytes()).unwrap())
        }

        fn start(&self) -> *mut u8 {
            self.0.start().as_ptr()
        }

        fn addresses(&self) -> Vec<*const u8> {
            let each = (0..self.0.bytes()).step_by(page_bytes());
            each.map(|at| self.start().wrapping_add(at).cast_const()).collect()
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: the mapping is this long, zeroed by the kernel, and borrowed through `self`.
            unsafe { std::slice::from_raw_parts_mut(self.start(), self.0.bytes()) }
        }
    }

    #[test]
    fn bound_memory_keeps_its_bytes_and_is_on_the_node() {
        let topology = crate::Topology::discover().unwrap();
        for node in topology.nodes.iter().filter(|node| node.memory_bytes > 0) {
            let mut pages = Pages::new(8);
            pages.bytes().fill(7);
            let start = pages.start();
            match bind_memory(start, pages.0.bytes(), node.physical).unwrap() {
                Binding::Bound { node: bound } => {
                    assert_eq!(bound, node.physical);
                    assert_eq!(node_of(start), Some(node.physical));
                }
                Binding::Forbidden { errno, .. } => assert_ne!(errno, 0),
            }
            assert!(pages.bytes().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn binding_between_pages_is_an_error() {
        let mut pages = Pages::new(1);
        let inside = pages.bytes()[8..].as_mut_ptr();
        let error = bind_memory(inside, 8, NodeId(0)).unwrap_err();
        assert!(matches!(error, MachineError::Misaligned { .. }));
    }

    #[test]
    fn binding_to_a_node_that_does_not_exist_is_an_error() {
        let pages = Pages::new(1);
        for node in [NodeId(1023), NodeId(1024), NodeId(u32::MAX)] {
            match bind_memory(pages.start(), pages.0.bytes(), node) {
                Err(MachineError::NoSuchNode { node: named }) => assert_eq!(named, node),
                Ok(Binding::Forbidden { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_address_that_is_not_mapped_has_no_node() {
        assert_eq!(node_of(std::ptr::null()), None);
    }

    #[test]
    fn a_container_that_forbids_binding_is_warned_about_once() {
        let mut said = Vec::new();
        Binding::Bound { node: NodeId(1) }.warn_if_forbidden(|text| said.push(text.to_owned()));
        assert!(said.is_empty());
        for _ in 0..3 {
            let forbidden = Binding::Forbidden { node: NodeId(1), errno: libc::EPERM };
            forbidden.warn_if_forbidden(|text| said.push(text.to_owned()));
        }
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("node 1"), "{said:?}");
    }

    #[test]
    fn moved_pages_keep_their_bytes_and_are_on_the_node() {
        let topology = crate::Topology::discover().unwrap();
        for node in topology.nodes.iter().filter(|node| node.memory_bytes > 0) {
            let mut pages = Pages::new(8);
            pages.bytes().fill(7);
            let addresses = pages.addresses();
            match move_pages(&addresses, node.physical) {
                Ok(had_room) => {
                    assert!(had_room);
                    assert_eq!(nodes_of(&addresses).unwrap(), [Some(node.physical); 8]);
                }
                Err(error) => assert!(matches!(error, MachineError::MovingForbidden { .. })),
            }
            assert!(pages.bytes().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn untouched_pages_have_no_node_and_asking_changes_nothing() {
        let mut pages = Pages::new(3);
        pages.bytes()[page_bytes()] = 1;
        let Ok(nodes) = nodes_of(&pages.addresses()) else { return };
        assert_eq!(nodes.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(nodes_of(&pages.addresses()).unwrap(), nodes);
        assert!(move_pages(&[], NodeId(0)).unwrap() && nodes_of(&[]).unwrap().is_empty());
    }

    #[test]
    fn moving_to_a_node_that_does_not_exist_is_an_error() {
        let mut pages = Pages::new(1);
        pages.bytes()[0] = 1;
        for node in [NodeId(1023), NodeId(1024), NodeId(u32::MAX)] {
            match move_pages(&pages.addresses(), node) {
                Err(MachineError::NoSuchNode { node: named }) => assert_eq!(named, node),
                Err(MachineError::MovingForbidden { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_container_that_forbids_moving_is_an_error_that_says_so() {
        let mut pages = Pages::new(1);
        pages.bytes()[0] = 1;
        let addresses: Vec<usize> = pages.addresses().iter().map(|page| page.addr()).collect();
        let forbidden = std::thread::spawn(move || {
            let pages: Vec<_> = addresses.into_iter().map(std::ptr::without_provenance).collect();
            forbid_moving_pages()
                .then(|| [move_pages(&pages, NodeId(0)).err(), nodes_of(&pages).err()])
        });
        let Some(errors) = forbidden.join().unwrap() else {
            crate::skipped::say("system calls cannot be forbidden here");
            return;
        };
        for error in errors {
            let error = error.unwrap();
            assert!(matches!(error, MachineError::MovingForbidden { .. }), "{error}");
            assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
        }
    }

    /// Makes the kernel fail `move_pages` with EPERM on this thread from now on, as a container
    /// may; `false` if the kernel does not accept such a filter.
    fn forbid_moving_pages() -> bool {
        let does =
            |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut rules = [
            // Loads the number of the call; if it is `move_pages`, returns an error, otherwise
            // allows it.
            does(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            does(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_move_pages as u32),
            does(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            does(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
        // SAFETY: `program` and its rules live through the calls, which are about this thread only.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        }
    }
}
