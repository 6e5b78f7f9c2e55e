//! What systemd is told of a service (`sd_notify(3)`): a datagram to the socket that it names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells a state such as `READY=1`, if this process is a service of systemd that wants to know.
///
/// # Errors
/// The socket that the environment names cannot be reached.
pub(super) fn tell(state: &str) -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    tell_to(name.as_encoded_bytes(), state)
}

fn tell_to(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name {
        // One without a file.
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        path => {
            let path = std::str::from_utf8(path).map_err(io::Error::other)?;
            SocketAddr::from_pathname(path)?
        }
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_state_reaches_the_socket_that_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        tell_to(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        let mut told = [0; 32];
        let count = socket.recv(&mut told).unwrap();
        assert_eq!(&told[..count], b"READY=1");
        assert!(tell_to(b"/missing/notify", "READY=1").is_err());
    }
}
