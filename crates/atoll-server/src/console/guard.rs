//! What every request passes before anything else, and what every response says.
//!
//! - `REQUEST-1`: the host of a request is the address that the browser has connected to, localhost
//!   on this machine, or a name that the server was given. So a page of another site reaches
//!   nothing, even if its name leads to this address.
//! - `REQUEST-2`: a POST says that it comes from a page of the same host, and carries JSON, which a
//!   form of another page cannot send.
//! - `REQUEST-3`: a page loads and runs nothing but the files of the console, and no other page
//!   shows it in a frame.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Refusal;
use super::{Peer, Site};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets a request through that may pass.
pub(super) async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match check(&site, &request) {
        Ok(()) => next.run(request).await,
        Err(why) => Refusal::new(StatusCode::FORBIDDEN, why).into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(site: &Site, request: &Request) -> Result<(), &'static str> {
    let headers = request.headers();
    let local = request.extensions().get::<Peer>().map(|peer| peer.local);
    let host = only(headers, &header::HOST).ok_or("the request names no host, or several")?;
    if !local.is_some_and(|local| is_own(host, local, site.tls.is_some(), &site.hosts)) {
        return Err("the console is not known under this name: see --console-host");
    }
    if request.uri().path().starts_with("/api/")
        && headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin")
    {
        return Err("the request comes from another page");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let origin = only(headers, &header::ORIGIN);
        if !origin.is_some_and(|origin| is_same(origin, host, site.tls.is_some())) {
            return Err(
                "the request comes from a page of another origin, or does not say from which",
            );
        }
        let kind = only(headers, &header::CONTENT_TYPE);
        if kind != Some("application/json") {
            return Err("the request is not application/json");
        }
    }
    Ok(())
}

/// The value of a header that is there once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a host is that of the console, which was reached at an address.
fn is_own(host: &str, local: SocketAddr, is_encrypted: bool, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if host.contains('@') {
        return false;
    }
    let name = authority.host();
    // The port may be that of a proxy.
    if names.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return true;
    }
    let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let ip = local.ip().to_canonical();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_here = match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical() == ip,
        Err(_) => ip.is_loopback() && name.eq_ignore_ascii_case("localhost"),
    };
    is_here && port == local.port()
}

/// Whether an origin is that of the host of a request.
fn is_same(origin: &str, host: &str, is_encrypted: bool) -> bool {
    let of = match origin.split_once("://") {
        Some(("https", of)) => of,
        // A proxy before the console may encrypt.
        Some(("http", of)) if !is_encrypted => of,
        _ => return false,
    };
    of.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn hosts_are_the_address_localhost_and_given_names() {
        let names = ["db.example.org".to_owned()];
        let local: SocketAddr = "127.0.0.1:8432".parse().unwrap();
        for (host, wanted) in [
            ("127.0.0.1:8432", true),
            ("localhost:8432", true),
            ("LocalHost:8432", true),
            ("db.example.org", true),
            ("DB.example.org:9000", true),
            ("127.0.0.1", false),
            ("127.0.0.2:8432", false),
            ("localhost:8433", false),
            ("evil.example:8432", false),
            ("localhost.evil.example:8432", false),
            ("user@localhost:8432", false),
            ("[::1]:8432", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_own(host, local, false, &names), wanted, "{host}");
        }
        let far: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
        assert!(is_own("[2001:db8::1]", far, true, &[]));
        assert!(is_own("[2001:DB8:0::1]:443", far, true, &[]));
        assert!(!is_own("localhost:443", far, true, &[]));
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:443".parse().unwrap();
        assert!(is_own("10.0.0.1", mapped, true, &[]));
    }

    #[test]
    fn an_origin_is_that_of_the_host() {
        assert!(is_same("http://localhost:8432", "localhost:8432", false));
        assert!(is_same("https://localhost:8432", "localhost:8432", true));
        for origin in ["null", "", "http://localhost", "http://evil.example:8432", "localhost:8432"]
        {
            assert!(!is_same(origin, "localhost:8432", false), "{origin}");
        }
        assert!(!is_same("http://localhost:8432", "localhost:8432", true));
    }
}
