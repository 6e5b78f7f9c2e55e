//! Errors of the machine, and of requests that it cannot meet.

use crate::ids::{CpuId, NodeId, write_cpus};
use crate::sysfs::ParseError;
use std::io;
use std::path::PathBuf;

/// An error of the outside world, or a request that the machine cannot meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// A file of the kernel could not be read.
    #[error("cannot read {}: {source}; is it mounted, and may this process read it?",
        path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the kernel has unexpected content.
    #[error("{} holds {content:?}, but {reason}; check the mount of that file system",
        path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The beginning of its content.
        content: String,
        /// What is wrong with it.
        reason: ParseError,
    },
    /// This process may not use any CPU.
    #[error("no CPU of {} is allowed to this process; widen its CPU set", origin.display())]
    NoCpus {
        /// The folder that described the machine.
        origin: PathBuf,
    },
    /// A machine cannot be split into this number of logical nodes.
    #[error("cannot make {asked} logical nodes; ask for 1 to {most}")]
    LogicalNodes {
        /// The requested number.
        asked: usize,
        /// The largest number possible.
        most: usize,
    },
    /// Pinning to an empty list of CPUs.
    #[error("cannot pin a thread to an empty list of CPUs; name at least one")]
    NoCpusNamed,
    /// Pinning to CPUs that this process may not use.
    #[error(
        "cpus {} are not allowed to this process; choose among {}",
        write_cpus(cpus),
        write_cpus(allowed)
    )]
    CpusForbidden {
        /// The requested CPUs that are not allowed, sorted.
        cpus: Vec<CpuId>,
        /// The allowed CPUs, sorted.
        allowed: Vec<CpuId>,
    },
    /// A request for memory on a node that has none for this process.
    #[error("node {node} has no memory for this process; use one listed by the topology")]
    NoSuchNode {
        /// The node.
        node: NodeId,
    },
    /// Binding memory that does not begin at a page boundary.
    #[error("address {address:#x} is not a multiple of the page size {page} bytes; align it")]
    Misaligned {
        /// The address.
        address: usize,
        /// Bytes of a page.
        page: usize,
    },
    /// This process may not move pages from one node to another.
    #[error(
        "this process may not move pages between nodes ({source}); allow move_pages to its \
         container (CAP_SYS_NICE, or a seccomp profile that lists the call)"
    )]
    MovingForbidden {
        /// Why.
        source: io::Error,
    },
    /// The kernel has no barrier across threads for this process.
    #[error("the membarrier call is not available: {source}; use fences on both sides")]
    NoMembarrier {
        /// Why.
        source: io::Error,
    },
    /// Any other failed system call.
    #[error("the system call {call} failed: {source}; see its manual page for this error")]
    SystemCall {
        /// The name of the call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl MachineError {
    /// The error of the system call that has just failed on this thread.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::SystemCall { call, source: io::Error::last_os_error() }
    }
}
