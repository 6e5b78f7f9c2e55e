//! A packet socket for peers that violate the protocol; it uses no code of the crate.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// A packet socket that can send anything.
pub struct Raw(OwnedFd);

/// A packet socket that waits at most 20 s for a packet, so that a broken test does not hang.
fn raw_socket() -> OwnedFd {
    let time = libc::timeval { tv_sec: 20, tv_usec: 0 };
    let len = size_of_val(&time) as u32;
    // SAFETY: the descriptor is new; the kernel reads one timeval.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        let result = libc::setsockopt(fd, level, option, (&raw const time).cast(), len);
        assert_eq!(result, 0);
        OwnedFd::from_raw_fd(fd)
    }
}

fn raw_address(path: &Path) -> libc::sockaddr_un {
    // SAFETY: zero is a value of sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
        *to = from as libc::c_char;
    }
    address
}

impl Raw {
    pub fn connect(path: &Path) -> Self {
        let socket = raw_socket();
        let address = raw_address(path);
        let len = size_of_val(&address) as u32;
        // SAFETY: `address` is a local of `len` bytes.
        let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self(socket)
    }

    pub fn listen(path: &Path) -> Self {
        let socket = raw_socket();
        let address = raw_address(path);
        let len = size_of_val(&address) as u32;
        // SAFETY: `address` is a local of `len` bytes.
        unsafe {
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len), 0);
            assert_eq!(libc::listen(socket.as_raw_fd(), 16), 0);
        }
        Self(socket)
    }

    pub fn accept(&self) -> Self {
        let none = std::ptr::null_mut();
        // SAFETY: null pointers mean that the address is not wanted; the descriptor is new.
        unsafe {
            let fd = libc::accept(self.0.as_raw_fd(), none, std::ptr::null_mut());
            assert!(fd >= 0);
            Self(OwnedFd::from_raw_fd(fd))
        }
    }

    /// Whether the packet was sent.
    pub fn send(&self, bytes: &[u8], fds: &[RawFd]) -> bool {
        let mut control = [0u64; 200];
        let mut iov =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: zero is a value of msghdr; all pointers are to locals that outlive the call and
        // `control` has room for the control message.
        unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &raw mut iov;
            header.msg_iovlen = 1;
            if !fds.is_empty() {
                let payload = size_of_val(fds) as u32;
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = libc::CMSG_SPACE(payload) as usize;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(payload) as usize;
                let data = libc::CMSG_DATA(first).cast::<RawFd>();
                for (at, fd) in fds.iter().enumerate() {
                    data.add(at).write_unaligned(*fd);
                }
            }
            let flags = libc::MSG_NOSIGNAL;
            libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) >= 0
        }
    }

    /// The next packet without its descriptors; empty when the other end has closed.
    pub fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; 65_536];
        // SAFETY: the kernel writes at most the buffer's length.
        let got =
            unsafe { libc::recv(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let waited = std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock;
        assert!(got >= 0 || !waited, "the other end neither answered nor closed");
        bytes.truncate(got.max(0) as usize);
        bytes
    }

    /// Reads until the other end closes.
    pub fn drain(&self) {
        while !self.receive().is_empty() {}
    }
}
