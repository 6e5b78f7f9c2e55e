//! The socket of a client, on which a thread waits, and TLS on it.
//!
//! `SOCKET-1`: every wait has an end: a read returns after the time that it was given, and a write
//! asks now and then whether to go on.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use rustls::ServerConnection;

/// Time between two questions whether a write is to go on.
const WRITE_PERIOD: Duration = Duration::from_millis(200);
/// Bytes that are given to TLS at once.
const TLS_BYTES: usize = 64 << 10;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match *self {
            Socket::Tcp(socket) => (&mut &*socket).read(into),
            Socket::Unix(socket) => (&mut &*socket).read(into),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match *self {
            Socket::Tcp(socket) => (&mut &*socket).write(bytes),
            Socket::Unix(socket) => (&mut &*socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket {
    /// Readies a socket that was accepted: its calls wait.
    pub(crate) fn ready(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(socket, true)?;
                socket.set_write_timeout(Some(WRITE_PERIOD))
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(false)?;
                socket.set_write_timeout(Some(WRITE_PERIOD))
            }
        }
    }

    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_read_timeout(Some(time)),
            Self::Unix(socket) => socket.set_read_timeout(Some(time)),
        }
    }

    /// Tells the client that the connection has ended, whatever else has the socket.
    pub(crate) fn shut_down(&self) {
        // One that the client has closed is shut down already.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Self::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    /// Whether the client has closed its side and nothing that it sent is left.
    pub(crate) fn is_closed(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(self, &mut [0u8; 1][..], flags) {
            Ok((_, count)) => count == 0,
            Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }

    /// Tells the client that nothing more is written.
    pub(crate) fn end_writes(&self) {
        // A client that has gone is told nothing.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }

    /// Whether it is on this machine and not on a network.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Whether the client is on this machine.
    pub(crate) fn is_near(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(socket) => socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()),
        }
    }

    /// Where the client is, for people.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Unix(_) => "local".to_owned(),
            Self::Tcp(socket) => {
                socket.peer_addr().map_or("unknown".to_owned(), |peer| peer.to_string())
            }
        }
    }

    /// The address and the port of a client that is not on a Unix socket.
    pub(crate) fn peer(&self) -> Option<(String, u16)> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(socket) => {
                let peer = socket.peer_addr().ok()?;
                Some((peer.ip().to_canonical().to_string(), peer.port()))
            }
        }
    }

    /// The user at the other end of a Unix socket.
    pub(crate) fn peer_user(&self) -> Option<u32> {
        match self {
            Self::Unix(socket) => {
                let credentials = rustix::net::sockopt::socket_peercred(socket).ok()?;
                Some(credentials.uid.as_raw())
            }
            Self::Tcp(_) => None,
        }
    }
}

/// What came of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Bytes(usize),
    /// Nothing, in the time that there was.
    Nothing,
    /// The client has closed its side.
    Closed,
}

/// A socket, and TLS on it if the client has asked for it.
pub(crate) struct Stream {
    pub(crate) socket: Arc<Socket>,
    tls: Option<Box<ServerConnection>>,
    read_timeout: Option<Duration>,
}

impl Stream {
    pub(crate) fn new(socket: Arc<Socket>) -> Self {
        Self { socket, tls: None, read_timeout: None }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Begins TLS, with bytes of it that have come already.
    ///
    /// # Errors
    /// The bytes are none of TLS.
    pub(crate) fn encrypt(&mut self, mut tls: ServerConnection, early: &[u8]) -> io::Result<()> {
        let mut early = early;
        while !early.is_empty() {
            if tls.read_tls(&mut early)? == 0 {
                break;
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        self.tls = Some(Box::new(tls));
        self.send_tls(&|| true)
    }

    /// Reads some bytes, and waits for them no longer than so.
    pub(crate) fn read(&mut self, into: &mut [u8], wait: Duration) -> io::Result<Came> {
        // A timeout of zero would be none.
        let wait = wait.max(Duration::from_millis(1));
        if self.read_timeout != Some(wait) {
            self.socket.set_read_timeout(wait)?;
            self.read_timeout = Some(wait);
        }
        if self.tls.is_some() {
            return self.read_encrypted(into);
        }
        came((&*self.socket).read(into))
    }

    fn read_encrypted(&mut self, into: &mut [u8]) -> io::Result<Came> {
        loop {
            let Some(tls) = &mut self.tls else { return Ok(Came::Closed) };
            match tls.reader().read(into) {
                Ok(count) => return came(Ok(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Came::Closed),
                Err(error) => return Err(error),
            }
            match came(tls.read_tls(&mut &*self.socket))? {
                Came::Bytes(_) => {}
                other => return Ok(other),
            }
            let processed = tls.process_new_packets();
            // An alert tells the client what was wrong.
            self.send_tls(&|| true)?;
            processed.map_err(io::Error::other)?;
        }
    }

    /// Writes all bytes; `goes_on` is asked while the client does not read.
    ///
    /// # Errors
    /// Those of the system; [`ErrorKind::TimedOut`] if it is not to go on.
    pub(crate) fn write(&mut self, bytes: &[u8], goes_on: &dyn Fn() -> bool) -> io::Result<()> {
        if self.tls.is_none() {
            return write_all(&self.socket, bytes, goes_on);
        }
        for part in bytes.chunks(TLS_BYTES) {
            let mut left = part;
            while !left.is_empty() {
                let Some(tls) = &mut self.tls else { return Ok(()) };
                let count = tls.writer().write(left)?;
                left = &left[count..];
                self.send_tls(goes_on)?;
            }
        }
        Ok(())
    }

    fn send_tls(&mut self, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(&mut &*self.socket) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) && goes_on() => {}
                Err(error) if is_timeout(&error) => return Err(ErrorKind::TimedOut.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the client that nothing follows.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The connection ends in any case.
            let _ = self.send_tls(&|| false);
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn came(read: io::Result<usize>) -> io::Result<Came> {
    match read {
        Ok(0) => Ok(Came::Closed),
        Ok(count) => Ok(Came::Bytes(count)),
        Err(error) if is_timeout(&error) => Ok(Came::Nothing),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Came::Nothing),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
            ) =>
        {
            Ok(Came::Closed)
        }
        Err(error) => Err(error),
    }
}

fn write_all(mut socket: &Socket, mut bytes: &[u8], goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_timeout(&error) && goes_on() => {}
            Err(error) if is_timeout(&error) => return Err(ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
