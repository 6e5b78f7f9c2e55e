//! One statement for a server of this machine, over its Unix socket, where the system says which
//! role asks: what commands such as `atoll backup` do.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::auth::{name_of, own_user};

/// The most bytes of a message that is read; errors are far shorter.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Version 3.0 of the protocol.
const VERSION: u32 = 3 << 16;

/// Why a server has not carried out a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It cannot be reached, or is gone.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// It has refused.
    #[error("{message}")]
    Refused {
        /// The SQLSTATE.
        state: String,
        /// What was wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

/// Has the server at `socket` carry out a statement without rows, as the role of this process's
/// user, and waits for its end.
///
/// # Errors
/// The server cannot be reached, lets the role not in, or refuses the statement.
pub fn ask(socket: &Path, database: &str, sql: &str) -> Result<(), AskError> {
    let mut stream = UnixStream::connect(socket)?;
    let user = name_of(own_user()).unwrap_or_else(|| own_user().to_string());
    let mut startup = VERSION.to_be_bytes().to_vec();
    for text in ["user", &user, "database", database, "application_name", "atoll"] {
        startup.extend(text.bytes().chain([0]));
    }
    startup.push(0);
    send(&mut stream, None, &startup)?;
    until_ready(&mut stream)?;
    let query: Vec<u8> = sql.bytes().chain([0]).collect();
    send(&mut stream, Some(b'Q'), &query)?;
    until_ready(&mut stream)?;
    Ok(send(&mut stream, Some(b'X'), &[])?)
}

fn send(stream: &mut UnixStream, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 4).map_err(io::Error::other)?;
    let message = kind.into_iter().chain(length.to_be_bytes()).chain(body.iter().copied());
    stream.write_all(&message.collect::<Vec<u8>>())
}

/// Reads messages until the server waits for a statement; the first error is returned then.
fn until_ready(stream: &mut UnixStream) -> Result<(), AskError> {
    let mut refused = None;
    loop {
        let (kind, body) = match receive(stream) {
            // A server that refuses a client says why, and closes the connection.
            Err(error) => return Err(refused.unwrap_or(AskError::Connection(error))),
            Ok(message) => message,
        };
        match kind {
            b'Z' => return refused.map_or(Ok(()), Err),
            b'E' => drop(refused.get_or_insert_with(|| error_of(&body))),
            b'R' if body != [0; 4] => {
                let message = "the server asks for a password on its Unix socket";
                return Err(AskError::Connection(io::Error::other(message)));
            }
            _ => {}
        }
    }
}

fn receive(stream: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = (u32::from_be_bytes(length) as usize).checked_sub(4);
    let length = length.filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("this is no server of PostgreSQL"))?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((kind, body))
}

/// An error from its fields: each a letter and a text that ends with zero.
fn error_of(body: &[u8]) -> AskError {
    let field = |letter: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find(|field| field.first() == Some(&letter))?;
        Some(String::from_utf8_lossy(&found[1..]).into_owned())
    };
    AskError::Refused {
        state: field(b'C').unwrap_or_default(),
        message: field(b'M').unwrap_or_default(),
        hint: field(b'H'),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// What one sees of a server that answers so and closes the connection.
    fn answered(bytes: &'static [u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut startup = [0; 4];
            stream.read_exact(&mut startup).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let error = ask(&path, "bank", "BACKUP TO '/b'").unwrap_err();
        server.join().unwrap();
        error.to_string()
    }

    #[test]
    fn a_server_that_refuses_or_talks_garbage_is_told() {
        let refused = b"E\0\0\0\x1bSFATAL\0C57P03\0Mnot yet\0\0";
        assert_eq!(answered(refused), "not yet");
        assert!(answered(b"R\0\0\0\x08\0\0\0\x0a").contains("password"));
        assert!(answered(b"HTTP/1.1 400 Bad Request").contains("no server"));
        assert!(answered(b"Z\0\0\0\0").contains("no server"));
        assert!(!answered(b"").is_empty());
    }
}
