//! The system calls of leases: packet sockets that carry file descriptors, pipes, epoll.
//!
//! All `unsafe` of the lease module is here. Every function hands out owned descriptors with
//! close-on-exec set and reports failures as [`io::Error`]; none retries, so that callers decide
//! about interruptions and deadlines.
//!
//! Invariants:
//! - `FDS-1`: a descriptor number becomes an [`OwnedFd`] once, right after the kernel made it.
//! - `FDS-2`: pointers given to the kernel point to locals that outlive the call, with their
//!   true lengths.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use atoll_machine::fork::{self, Unshared};

/// Longest path of a socket, in bytes, without its closing zero byte.
pub(super) const MAX_SOCKET_PATH: usize = 107;
/// Most file descriptors that the kernel carries with one message.
pub(super) const MAX_FDS: usize = 253;
/// Room for a control message with `MAX_FDS` descriptors, in words so that it is aligned.
const CONTROL_WORDS: usize = 130;

// SAFETY: CMSG_SPACE only computes with its argument.
const _: () = assert!(
    unsafe { libc::CMSG_SPACE((MAX_FDS * mem::size_of::<c_int>()) as u32) } as usize
        <= CONTROL_WORDS * 8
);

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

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn own(result: c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: FDS-1, every caller passes what a call that makes a descriptor has just returned.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The effective user id of this process.
pub(super) fn effective_uid() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

fn packet_socket(flags: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: takes no pointers.
    own(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_SOCKET_PATH || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: sockaddr_un is integers only, for which zero is a value.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((address, mem::size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// Makes a socket at `path`, where nothing may be. It does not listen yet.
pub(super) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket(libc::SOCK_NONBLOCK)?;
    let (address, len) = address(path)?;
    // SAFETY: FDS-2, `address` is a local of `len` bytes.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(socket)
}

/// Lets clients connect to a bound socket.
pub(super) fn listen(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 128) }).map(drop)
}

/// A socket for a client: sending, receiving and connecting wait at most `timeout` and fail with
/// `WouldBlock` after it.
pub(super) fn socket_with(timeout: Duration) -> io::Result<OwnedFd> {
    let socket = packet_socket(0)?;
    // A zero timeval would mean to wait without a limit.
    let timeout = timeout.max(Duration::from_millis(1));
    let time = libc::timeval {
        tv_sec: timeout.as_secs().min(1 << 31) as libc::time_t,
        tv_usec: timeout.subsec_micros() as libc::suseconds_t,
    };
    set_option(&socket, libc::SO_RCVTIMEO, &time)?;
    set_option(&socket, libc::SO_SNDTIMEO, &time)?;
    Ok(socket)
}

/// A socket that is connected to the one at `path`. Nothing waits.
pub(super) fn connect_at_once(path: &Path) -> io::Result<OwnedFd> {
    let socket = packet_socket(libc::SOCK_NONBLOCK)?;
    connect_to(socket.as_fd(), path)?;
    Ok(socket)
}

/// Connects a socket to the one at `path`.
pub(super) fn connect_to(socket: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (address, len) = address(path)?;
    // SAFETY: FDS-2, `address` is a local of `len` bytes.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

fn set_option(socket: &OwnedFd, option: c_int, value: &libc::timeval) -> io::Result<()> {
    let len = mem::size_of::<libc::timeval>() as libc::socklen_t;
    let value: *const libc::timeval = value;
    // SAFETY: FDS-2, `value` is a borrowed timeval of `len` bytes.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value.cast(), len)
    };
    check(result).map(drop)
}

/// Takes the next waiting client off a listening socket, as a socket that never waits.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let none = std::ptr::null_mut();
    // SAFETY: null pointers mean that the address is not wanted.
    own(unsafe { libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), flags) })
}

/// The process that made the other end: the one that connected, or the one that listened.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    let to: *mut libc::ucred = &mut found;
    // SAFETY: FDS-2, `found` is a local of `len` bytes.
    check(unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(socket.as_raw_fd(), level, option, to.cast(), &mut len)
    })?;
    Ok(Credentials { pid: found.pid.max(0) as u32, uid: found.uid })
}

/// Bytes sent on a socket that the peer has not received yet.
pub(super) fn unread(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: FDS-2, the request (SIOCOUTQ by another name) writes one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    Ok(count.max(0) as usize)
}

/// Sends one packet with descriptors; all of it or nothing.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > MAX_FDS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is integers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let payload = mem::size_of_val(fds) as u32;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute; CMSG_FIRSTHDR gives the start of
        // `control`, which is aligned and has room for MAX_FDS descriptors (asserted above), so
        // the header and every descriptor number are written within it.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(payload) as _;
            let data = libc::CMSG_DATA(first).cast::<c_int>();
            for (at, fd) in fds.iter().enumerate() {
                data.add(at).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: FDS-2, `header` points to `iov`, `bytes` and `control`, which all outlive the call;
    // the kernel only reads `bytes`.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one packet into `bytes`. Descriptors that come with it are appended to `fds`; without
/// a place for them the kernel never installs them and `lost_fds` tells.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    fds: Option<&mut Vec<OwnedFd>>,
) -> io::Result<Received> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is integers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    if fds.is_some() {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = mem::size_of_val(&control) as _;
    }
    let flags = libc::MSG_CMSG_CLOEXEC;
    // SAFETY: FDS-2, `header` points to `iov`, `bytes` and `control`, which outlive the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(fds) = fds {
        // SAFETY: recvmsg has just filled `header` and `control`.
        unsafe { collect(&header, fds) };
    }
    Ok(Received {
        len: got as usize,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
        lost_fds: header.msg_flags & libc::MSG_CTRUNC != 0,
    })
}

/// Owns every descriptor that the kernel installed for a packet.
///
/// # Safety
/// `header` must be as recvmsg left it, its control buffer alive, and this the first call for it.
unsafe fn collect(header: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: the kernel wrote a chain of well-formed control messages (caller's promise), and a
    // SCM_RIGHTS message holds whole descriptor numbers that are this process's own now (FDS-1).
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let rights = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            if ((*message).cmsg_level, (*message).cmsg_type) == rights {
                let payload = ((*message).cmsg_len as usize) - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message).cast::<c_int>();
                for at in 0..payload / mem::size_of::<c_int>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(at).read_unaligned()));
                }
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

/// A pipe as (reading end, writing end), of which a forked child gets neither: a reading end that
/// stayed there would keep a lease of another object.
pub(super) fn pipe() -> io::Result<(Unshared, Unshared)> {
    let mut no_fork = fork::delay();
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: FDS-2, pipe2 writes two ints.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    let (reading, writing) = (own(ends[0])?, own(ends[1])?);
    no_fork.unshare_both(reading, writing)
}

/// An event counter that can be polled.
pub(super) fn event() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Something may be read, or accepted.
pub(super) const READABLE: u32 = libc::EPOLLIN as u32;

/// A set of descriptors to wait for, each known by a token.
pub(super) struct Epoll {
    fd: Unshared,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let made = Unshared::make(|| own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }));
        made.map(|fd| Self { fd })
    }

    /// Starts waiting for `events`; hang-up and error are always waited for.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    /// Changes what is waited for.
    pub(super) fn change(&self, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    /// Stops waiting. Closing alone is not enough where a forked child has the descriptor too.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        // It fails only for a descriptor that was never added, and then there is nothing to do.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(&self, op: c_int, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, fd) = (self.fd.as_fd().as_raw_fd(), fd.as_raw_fd());
        // SAFETY: FDS-2, `event` is a local.
        check(unsafe { libc::epoll_ctl(epoll, op, fd, &raw mut event) }).map(drop)
    }

    /// Waits until something happened or `timeout` is over, and puts the tokens into `ready`.
    pub(super) fn wait(&self, ready: &mut Vec<u64>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let millis = timeout.map_or(-1, |t| t.as_millis().min(60_000) as c_int + 1);
        let (to, room) = (events.as_mut_ptr(), events.len() as c_int);
        // SAFETY: FDS-2, the kernel writes at most `room` events to the local array.
        let count =
            check(unsafe { libc::epoll_wait(self.fd.as_fd().as_raw_fd(), to, room, millis) })?
                as usize;
        ready.extend(events.iter().take(count).map(|event| event.u64));
        Ok(())
    }
}
