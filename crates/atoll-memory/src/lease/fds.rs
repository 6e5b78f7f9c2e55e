//! The system calls of leases: packet sockets that carry file descriptors, pipes, epoll.
//!
//! All `unsafe` of the lease module is here. Every function hands out owned descriptors with
//! close-on-exec set and reports failures as [`io::Error`]; none retries, so that callers decide
//! about interruptions and deadlines.
//!
//! Invariant `FDS-1`: pointers given to the kernel point to locals that outlive the call, with
//! their true lengths.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, recvmsg, sendmsg, socket_with as new_socket,
};
use rustix::pipe::{PipeFlags, pipe_with};

use atoll_machine::fork::{self, Unshared};
pub(super) use atoll_machine::process::user_id as effective_uid;

/// Longest path of a socket, in bytes, without its closing zero byte.
pub(super) const MAX_SOCKET_PATH: usize = 107;
/// Most file descriptors that the kernel carries with one message.
pub(super) const MAX_FDS: usize = 253;
/// Space for a control message with `MAX_FDS` descriptors.
const CONTROL_BYTES: usize = cmsg_space!(ScmRights(MAX_FDS));

/// What came with one packet.
pub(super) struct Received {
    /// Bytes written to the buffer; 0 when the peer has closed.
    pub(super) len: usize,
    /// The packet was longer than the buffer.
    pub(super) truncated: bool,
    /// The packet carried descriptors that were not handed over.
    pub(super) lost_fds: bool,
}

/// The process at the other end of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credentials {
    pub(super) pid: u32,
    pub(super) uid: u32,
}

fn packet_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | flags;
    Ok(new_socket(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    // `SocketAddrUnix` permits a path without a closing zero byte, too.
    if path.as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(SocketAddrUnix::new(path)?)
}

/// Makes a socket at `path`, where nothing may be. It does not listen yet.
pub(super) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    rustix::net::bind(&socket, &address(path)?)?;
    Ok(socket)
}

/// Lets clients connect to a bound socket.
pub(super) fn listen(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::listen(socket, 128)?)
}

/// A socket for a client: sending, receiving and connecting wait at most `timeout` and fail with
/// `WouldBlock` after it.
pub(super) fn socket_with(timeout: Duration) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::empty())?;
    // The kernel has no timeout of zero.
    let timeout = timeout.clamp(Duration::from_millis(1), Duration::from_secs(1 << 31));
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout))?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    Ok(socket)
}

/// A socket that is connected to the one at `path`. Nothing waits.
pub(super) fn connect_at_once(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket(SocketFlags::NONBLOCK)?;
    connect_to(socket.as_fd(), path)?;
    Ok(socket)
}

/// Connects a socket to the one at `path`.
pub(super) fn connect_to(socket: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &address(path)?)?)
}

/// Takes the next waiting client off a listening socket, as a socket that never waits.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?)
}

/// The process that made the other end: the one that connected, or the one that listened. Its id is
/// 0 if this process cannot see it, which `rustix::net::sockopt::socket_peercred` has no value for.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    let to: *mut libc::ucred = &mut found;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: FDS-1, `found` is a local of `len` bytes.
    let rc =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, to.cast(), &raw mut len) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: found.pid.max(0) as u32, uid: found.uid })
}

/// Bytes sent on a socket that the peer has not received yet.
pub(super) fn unread(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: FDS-1, the request (SIOCOUTQ by another name) writes one int.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count.max(0) as usize)
}

/// Sends one packet with descriptors; all of it or nothing.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut control = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut control);
    if fds.len() > MAX_FDS || !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds))
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one packet into `bytes`. Descriptors that come with it are appended to `fds`; without
/// a place for them the kernel never installs them and `lost_fds` tells.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    fds: Option<&mut Vec<OwnedFd>>,
) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let space = if fds.is_some() { &mut space[..] } else { &mut [] };
    let mut control = RecvAncillaryBuffer::new(space);
    let mut iov = [IoSliceMut::new(bytes)];
    let got = recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if let Some(fds) = fds {
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
    }
    Ok(Received {
        len: got.bytes,
        truncated: got.flags.contains(ReturnFlags::TRUNC),
        lost_fds: got.flags.contains(ReturnFlags::CTRUNC),
    })
}

/// A pipe as (reading end, writing end), of which a forked child gets neither: a reading end that
/// stayed there would keep a lease of another object.
pub(super) fn pipe() -> io::Result<(Unshared, Unshared)> {
    let mut no_fork = fork::delay();
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    no_fork.unshare_both(reading, writing)
}

/// An event counter that can be polled.
pub(super) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Something may be read, or accepted.
pub(super) const READABLE: EventFlags = EventFlags::IN;
/// Nothing but hang-up and error.
pub(super) const NOTHING: EventFlags = EventFlags::empty();

/// A set of descriptors to wait for, each known by a token.
pub(super) struct Epoll {
    fd: Unshared,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        let made = Unshared::make(|| Ok(epoll::create(CreateFlags::CLOEXEC)?));
        made.map(|fd| Self { fd })
    }

    /// Starts waiting for `events`; hang-up and error are always waited for.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, events: EventFlags, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), events)?)
    }

    /// Changes what is waited for.
    pub(super) fn change(
        &self,
        fd: BorrowedFd<'_>,
        events: EventFlags,
        token: u64,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, fd, EventData::new_u64(token), events)?)
    }

    /// Stops waiting. Closing alone is not enough where a forked child has the descriptor too.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        // It fails only for a descriptor that was never added, and then there is nothing to do.
        let _ = epoll::delete(&self.fd, fd);
    }

    /// Waits until something happened or `timeout` is over, and puts the tokens into `ready`.
    pub(super) fn wait(&self, ready: &mut Vec<u64>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let mut events = [MaybeUninit::uninit(); 64];
        // Rounded up: an early end would find nothing that is due.
        let millis = timeout.map(|timeout| timeout.as_millis().min(60_000) as u64 + 1);
        let timeout = millis.map(|millis| Timespec {
            tv_sec: (millis / 1000) as i64,
            tv_nsec: (millis % 1000 * 1_000_000) as i64,
        });
        let (events, _) = epoll::wait(&self.fd, &mut events[..], timeout.as_ref())?;
        ready.extend(events.iter().map(|event| event.data.u64()));
        Ok(())
    }
}
