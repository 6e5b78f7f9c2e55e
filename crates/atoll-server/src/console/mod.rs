//! The web console: a page for people that shows what the server does and runs statements.
//!
//! A browser's connection has a thread, as a client's does. It reads a request (`http`), which a
//! router of axum answers (`routes`), and writes the response. Futures of the router never wait for
//! anything but the thread itself, so no runtime is needed; reads and writes of the socket block,
//! each for a limited time.
//!
//! - `CONSOLE-1`: without TLS the console listens on addresses of this machine only.
//! - `CONSOLE-2`: a request that names another host, or that changes something and comes from a
//!   page of another origin, is refused before anything else is done (`guard`).
//! - `CONSOLE-3`: everything but the page itself needs a login (`logins`), and sees what the role
//!   of the login may see: it comes from SQL.
//! - `CONSOLE-4`: what a browser may ask for is limited: connections, bytes of a request, attempts
//!   to log in, statements at a time, their time, and the size of what they return.

mod answer;
mod guard;
mod http;
mod logins;
mod overview;
mod query;
mod routes;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::executor::block_on;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tower_service::Service;

use self::http::{Http, Next};
use self::logins::Logins;
use crate::shared::Shared;
use crate::socket::{Socket, Stream};
use crate::tls::Tls;

/// Most connections of browsers at a time.
const CONNECTIONS_MAX: usize = 64;
/// Time between two looks whether the server ends.
const PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What all connections of browsers share.
struct Site {
    shared: Arc<Shared>,
    logins: Logins,
    /// The name of its cookie, which differs between consoles of one host.
    cookie: String,
    tls: Option<Tls>,
    /// Names under which it is reached, besides its address.
    hosts: Vec<String>,
    connections: AtomicUsize,
    /// Statements that run.
    running: AtomicUsize,
}

/// A browser, as its connection sees it.
#[derive(Debug, Clone)]
struct Peer {
    socket: Arc<Socket>,
    address: SocketAddr,
    /// The address that it has connected to.
    local: SocketAddr,
}

/// The console, until the server ends.
pub(crate) struct Console {
    address: SocketAddr,
    site: Arc<Site>,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Listens on an address.
    ///
    /// # Errors
    /// It is taken, or none of this machine.
    pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Lets browsers in on a socket that listens.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let tls = shared.tls.as_ref().map(Tls::for_browsers);
        // Under TLS browsers hold cookies of this name to this host and to encryption.
        let prefix = if tls.is_some() { "__Host-" } else { "" };
        let site = Arc::new(Site {
            shared: Arc::clone(shared),
            logins: Logins::default(),
            cookie: format!("{prefix}atoll_console_{}", address.port()),
            tls,
            hosts: shared.options.console_hosts.clone(),
            connections: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&site);
        let work = move || accept(&listener, &accepting);
        let thread = Builder::new().name("atoll-console".into()).spawn(work)?;
        Ok(Self { address, site, thread: Some(thread) })
    }

    /// Where a browser of this machine finds it.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.site.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported.
            let _ = thread.join();
        }
        let end = Instant::now() + self.site.shared.options.shutdown_time;
        while self.site.connections.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A place that is counted, until it is dropped.
struct Place {
    site: Arc<Site>,
    counter: fn(&Site) -> &AtomicUsize,
}

impl Place {
    /// One of so many places, if one is free.
    fn of(site: &Arc<Site>, counter: fn(&Site) -> &AtomicUsize, most: usize) -> Option<Self> {
        let place = Self { site: Arc::clone(site), counter };
        let before = counter(site).fetch_add(1, Ordering::AcqRel);
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.counter)(&self.site).fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(listener: &TcpListener, site: &Arc<Site>) {
    let router = routes::router(site);
    while !site.shared.is_ending() {
        let mut waits = [PollFd::new(listener, PollFlags::IN)];
        // A wait that ends early is one more look.
        let _ = poll(&mut waits, Some(&PERIOD));
        match listener.accept() {
            Ok((socket, address)) => {
                // Browsers come again.
                let Some(place) = Place::of(site, |site| &site.connections, CONNECTIONS_MAX) else {
                    continue;
                };
                let (site, router) = (Arc::clone(site), router.clone());
                site.shared.pool.clone().run(move || {
                    // What a browser does wrong is its own affair.
                    let _ = talk(socket, address, &site, router);
                    drop(place);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Answers the requests of a connection, one after the other.
fn talk(
    socket: TcpStream,
    address: SocketAddr,
    site: &Arc<Site>,
    mut router: Router,
) -> io::Result<()> {
    let local = socket.local_addr()?;
    let socket = Arc::new(Socket::Tcp(socket));
    socket.ready()?;
    let mut stream = Stream::new(Arc::clone(&socket));
    if let Some(tls) = &site.tls {
        let tls = tls.connection().ok_or(io::ErrorKind::InvalidInput)?;
        stream.encrypt(tls, &[])?;
    }
    let peer = Peer { socket, address, local };
    let ending = Arc::clone(&site.shared);
    let mut http = Http::new(stream, move || !ending.is_ending());
    loop {
        match http.next()? {
            Next::Request(mut request) => {
                let how = http::How::of(&request);
                request.extensions_mut().insert(peer.clone());
                let response = block_on(answered(&mut router, *request));
                if !http.respond(response, how)? {
                    return Ok(());
                }
            }
            Next::Refused(status) => return http.refuse(status),
            Next::End => return Ok(()),
        }
    }
}

async fn answered(router: &mut Router, request: Request<Body>) -> axum::response::Response {
    match Service::<Request<Body>>::call(router, request).await {
        Ok(response) => response,
        Err(never) => match never as Infallible {},
    }
}
