//! A packet socket for peers that violate the protocol; it uses no code of the crate.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, connect, listen, recv, sendmsg, socket_with,
};

/// A packet socket that can send anything.
pub struct Raw(OwnedFd);

/// A packet socket that waits at most 20 s for a packet, so that a broken test does not hang.
fn raw_socket() -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
    socket
}

impl Raw {
    pub fn connect(path: &Path) -> Self {
        let socket = raw_socket();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self(socket)
    }

    pub fn listen(path: &Path) -> Self {
        let socket = raw_socket();
        bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        listen(&socket, 16).unwrap();
        Self(socket)
    }

    pub fn accept(&self) -> Self {
        Self(accept(&self.0).unwrap())
    }

    /// Whether the packet was sent.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut control = [MaybeUninit::uninit(); cmsg_space!(ScmRights(400))];
        let mut control = SendAncillaryBuffer::new(&mut control);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next packet without its descriptors; empty when the other end has closed.
    pub fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; 65_536];
        let got = recv(&self.0, &mut bytes[..], RecvFlags::empty());
        assert!(got != Err(Errno::WOULDBLOCK), "the other end neither answered nor closed");
        bytes.truncate(got.map_or(0, |(_, got)| got));
        bytes
    }

    /// Reads until the other end closes.
    pub fn drain(&self) {
        while !self.receive().is_empty() {}
    }
}
