//! HTTP/1.1 on the socket of a browser: requests with all their bytes, one after the other.
//!
//! - `HTTP-1`: a request has a limited size, and a limited time from its first byte on; a
//!   connection without requests ends after a while.
//! - `HTTP-2`: a body is as long as its head says. A request with a transfer coding, or with two
//!   lengths, is refused and the connection ends, so that nothing hides behind a request.

use std::io;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::Response;
use futures::executor::block_on;

use crate::socket::{Came, Stream};

const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const BODY_BYTES_MAX: usize = 256 << 10;
/// Time for a request, and for the browser to take the response.
const REQUEST_TIME: Duration = Duration::from_secs(10);
const RESPONSE_TIME: Duration = Duration::from_secs(30);
/// Time that a connection may do nothing.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Time, and bytes, for which the rest of a refused request is read.
const DRAIN_TIME: Duration = Duration::from_secs(1);
const DRAINED_BYTES_MAX: usize = 1 << 20;
/// Time between two looks whether the server ends.
const PERIOD: Duration = Duration::from_millis(200);

/// A connection.
pub(super) struct Http {
    stream: Stream,
    /// What has come and was not read.
    unread: Vec<u8>,
    goes_on: Box<dyn Fn() -> bool>,
}

/// What came next.
pub(super) enum Next {
    Request(Box<Request<Body>>),
    /// A request that is not read any further.
    Refused(StatusCode),
    End,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    with_body: bool,
    closes: bool,
}

impl How {
    pub(super) fn of(request: &Request<Body>) -> Self {
        let closes = request.headers().get_all(CONNECTION).iter().any(|value| {
            let words = value.to_str().unwrap_or_default().split(',');
            words.map(str::trim).any(|word| word.eq_ignore_ascii_case("close"))
        });
        Self { with_body: request.method() != Method::HEAD, closes }
    }
}

/// Why there is no request.
enum Broken {
    Refused(StatusCode),
    End,
    Io(io::Error),
}

impl From<StatusCode> for Broken {
    fn from(status: StatusCode) -> Self {
        Self::Refused(status)
    }
}

impl Http {
    pub(super) fn new(stream: Stream, goes_on: impl Fn() -> bool + 'static) -> Self {
        Self { stream, unread: Vec::new(), goes_on: Box::new(goes_on) }
    }

    /// Waits for the next request.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        match self.request() {
            Ok(request) => Ok(Next::Request(Box::new(request))),
            Err(Broken::Refused(status)) => Ok(Next::Refused(status)),
            Err(Broken::End) => Ok(Next::End),
            Err(Broken::Io(error)) => Err(error),
        }
    }

    fn request(&mut self) -> Result<Request<Body>, Broken> {
        if self.unread.is_empty() {
            self.fill(Instant::now() + IDLE_TIME).map_err(|broken| match broken {
                Broken::Refused(_) => Broken::End,
                other => other,
            })?;
        }
        let end = Instant::now() + REQUEST_TIME;
        let (mut request, length) = loop {
            if let Some((request, read)) = head(&self.unread)? {
                self.unread.drain(..read);
                let length = body_length(&request)?;
                break (request, length);
            }
            if self.unread.len() >= HEAD_BYTES_MAX {
                return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into());
            }
            self.fill(end)?;
        };
        while self.unread.len() < length {
            self.fill(end)?;
        }
        let rest = self.unread.split_off(length);
        let body = std::mem::replace(&mut self.unread, rest);
        *request.body_mut() = Body::from(body);
        Ok(request)
    }

    /// Reads more, until it is too late.
    fn fill(&mut self, end: Instant) -> Result<(), Broken> {
        let mut piece = [0; 8 << 10];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StatusCode::REQUEST_TIMEOUT.into());
            }
            match self.stream.read(&mut piece, left.min(PERIOD)).map_err(Broken::Io)? {
                Came::Bytes(count) => {
                    self.unread.extend_from_slice(&piece[..count]);
                    return Ok(());
                }
                Came::Nothing if (self.goes_on)() => {}
                Came::Nothing | Came::Closed => return Err(Broken::End),
            }
        }
    }

    /// Sends a response; false if the connection ends with it.
    ///
    /// # Errors
    /// Those of the socket, and of a browser that does not read.
    pub(super) fn respond(&mut self, response: Response, how: How) -> io::Result<bool> {
        let (parts, body) = response.into_parts();
        // Every body here is in memory already.
        let body = block_on(to_bytes(body, usize::MAX)).map_err(io::Error::other)?;
        let closes = how.closes || !(self.goes_on)();
        let reason = parts.status.canonical_reason().unwrap_or_default();
        let mut sent = format!("HTTP/1.1 {} {reason}\r\n", parts.status.as_u16()).into_bytes();
        for (name, value) in &parts.headers {
            // The length of what a HEAD would have got is not known.
            if name == CONTENT_LENGTH {
                continue;
            }
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                sent.extend_from_slice(part);
            }
        }
        if how.with_body {
            sent.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        let connection: &[u8] = if closes { b"connection: close\r\n\r\n" } else { b"\r\n" };
        sent.extend_from_slice(connection);
        if how.with_body {
            sent.extend_from_slice(&body);
        }
        let end = Instant::now() + RESPONSE_TIME;
        self.stream.write(&sent, &|| Instant::now() < end)?;
        if closes {
            self.stream.close();
        }
        Ok(!closes)
    }

    /// Refuses a request that is not read, and ends the connection.
    ///
    /// # Errors
    /// As above.
    pub(super) fn refuse(&mut self, status: StatusCode) -> io::Result<()> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        self.respond(response, How { with_body: true, closes: true })?;
        // A socket that is closed with bytes unread takes the response back.
        self.stream.socket.end_writes();
        let end = Instant::now() + DRAIN_TIME;
        let mut left = DRAINED_BYTES_MAX;
        let mut piece = [0; 8 << 10];
        while left > 0 && Instant::now() < end {
            match self.stream.read(&mut piece, PERIOD)? {
                Came::Bytes(count) => left = left.saturating_sub(count),
                Came::Nothing => {}
                Came::Closed => break,
            }
        }
        Ok(())
    }
}

/// The head of a request, and how long it is; `None` if more of it is to come.
fn head(bytes: &[u8]) -> Result<Option<(Request<Body>, usize)>, StatusCode> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let read = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(read)) => read,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    if parsed.version != Some(1) {
        return Err(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    }
    let bad = |_| StatusCode::BAD_REQUEST;
    let target = parsed.path.unwrap_or_default();
    // Targets of proxies name a host, which would differ from that of the header.
    if !target.starts_with('/') {
        return Err(StatusCode::BAD_REQUEST);
    }
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = target.parse::<Uri>().map_err(|_| StatusCode::BAD_REQUEST)?;
    let method = parsed.method.unwrap_or_default();
    *request.method_mut() =
        Method::from_bytes(method.as_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let name = name.map_err(|_| StatusCode::BAD_REQUEST)?;
        let value = HeaderValue::from_bytes(header.value).map_err(bad)?;
        request.headers_mut().append(name, value);
    }
    Ok(Some((request, read)))
}

/// How long the body of a request is.
fn body_length(request: &Request<Body>) -> Result<usize, StatusCode> {
    let headers = request.headers();
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(StatusCode::LENGTH_REQUIRED);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(0) };
    let digits = length.to_str().unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if lengths.next().is_some() || !is_number {
        return Err(StatusCode::BAD_REQUEST);
    }
    match digits.parse() {
        Ok(length) if length <= BODY_BYTES_MAX => Ok(length),
        _ => Err(StatusCode::PAYLOAD_TOO_LARGE),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str) -> Result<Option<(String, usize)>, StatusCode> {
        let Some((request, read)) = head(text.as_bytes())? else { return Ok(None) };
        assert_eq!(read, text.len());
        Ok(Some((request.uri().path().to_owned(), body_length(&request)?)))
    }

    #[test]
    fn a_head_is_read_when_all_of_it_has_come() {
        let text = "POST /api/query HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n";
        for length in 0..text.len() {
            assert_eq!(read(&text[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(text), Ok(Some(("/api/query".to_owned(), 12))));
        assert_eq!(read("GET /a?b HTTP/1.1\r\n\r\n"), Ok(Some(("/a".to_owned(), 0))));
    }

    #[test]
    fn a_head_that_is_not_clear_is_refused() {
        let with = |headers: &str| read(&format!("POST / HTTP/1.1\r\n{headers}\r\n"));
        for (headers, status) in [
            ("Transfer-Encoding: chunked\r\n", 411),
            ("Content-Length: 1\r\nContent-Length: 1\r\n", 400),
            ("Content-Length: +1\r\n", 400),
            ("Content-Length: \r\n", 400),
            ("Content-Length: 99999999999999999999\r\n", 413),
            ("Content-Length: 262145\r\n", 413),
            ("A b: c\r\n", 400),
        ] {
            assert_eq!(with(headers).unwrap_err().as_u16(), status, "{headers}");
        }
        for (line, status) in [
            ("GET http://other/ HTTP/1.1", 400),
            ("GET / HTTP/1.0", 505),
            ("\u{1} / HTTP/1.1", 400),
        ] {
            let answer = read(&format!("{line}\r\n\r\n"));
            assert_eq!(answer.unwrap_err().as_u16(), status, "{line}");
        }
        assert_eq!(with(&"a: b\r\n".repeat(65)).unwrap_err().as_u16(), 431);
    }
}
