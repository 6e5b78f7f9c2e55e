//! What Prometheus is told: a thread that answers `GET /metrics` over HTTP/1.1, one request after
//! the other.
//!
//! `ENDPOINT-1`: a client has a short time and a few bytes for its request, so that one that says
//! nothing keeps others waiting for no longer than that.

mod text;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::shared::Shared;

/// Time for a request, and for its answer.
const REQUEST_TIME: Duration = Duration::from_secs(2);
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Time between two looks whether the server ends.
const PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The endpoint, until the server ends.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Listens on an address.
    ///
    /// # Errors
    /// It is taken, or none of this machine.
    pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers on a socket that listens.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::clone(shared);
        let thread =
            Builder::new().name("atoll-metrics".into()).spawn(move || serve(&listener, &shared))?;
        Ok(Self { address, thread: Some(thread) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, shared: &Shared) {
    while !shared.is_ending() {
        let mut waits = [PollFd::new(listener, PollFlags::IN)];
        // A wait that ends early is one more look.
        let _ = poll(&mut waits, Some(&PERIOD));
        match listener.accept() {
            // What a client does wrong is its own affair.
            Ok((socket, _)) => drop(answer(socket, shared)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn answer(mut socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(Some(REQUEST_TIME))?;
    let request = request(&mut socket)?;
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", text::all(shared)),
        ("GET" | "HEAD", _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    if method != "HEAD" {
        socket.write_all(body.as_bytes())?;
    }
    Ok(())
}

/// The head of a request.
fn request(socket: &mut TcpStream) -> io::Result<String> {
    let end = Instant::now() + REQUEST_TIME;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
