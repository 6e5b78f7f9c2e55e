//! Answers `pgbench -b select-only` with replies that were written beforehand: what is left of a
//! server when it has no database. `scripts/server_peers.py --ceiling` runs it beside the others.
//!
//! ```text
//! atoll-canned SOCKET SCALE
//! ```
//!
//! It knows the messages that pgbench sends, and trusts it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const READ_BYTES: usize = 16 << 10;

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

/// Columns of four bytes.
fn columns(out: &mut Vec<u8>, names: &[&str]) {
    let mut body = (names.len() as u16).to_be_bytes().to_vec();
    for name in names {
        body.extend(name.bytes().chain([0]));
        // No table, int4, its length, no modifier, as text.
        body.extend([0; 6]);
        body.extend(23u32.to_be_bytes());
        body.extend(4u16.to_be_bytes());
        body.extend((-1i32).to_be_bytes());
        body.extend([0; 2]);
    }
    message(out, b'T', &body);
}

fn row(out: &mut Vec<u8>, values: &[Option<&str>]) {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
        body.extend(value.unwrap_or_default().bytes());
    }
    message(out, b'D', &body);
}

/// The answer to a query that pgbench asks before it begins.
fn query(out: &mut Vec<u8>, sql: &[u8], scale: &str) {
    if sql.starts_with(b"select count(*)") {
        columns(out, &["count"]);
        row(out, &[Some(scale)]);
    } else if sql.starts_with(b"select o.n") {
        columns(out, &["n", "partstrat", "count"]);
        row(out, &[Some("1"), None, Some("0")]);
    }
    message(out, b'C', b"SELECT 1\0");
    message(out, b'Z', b"I");
}

/// Answers a message.
fn answer(out: &mut Vec<u8>, kind: u8, body: &[u8], scale: &str) {
    match kind {
        b'Q' => query(out, body, scale),
        b'P' => message(out, b'1', &[]),
        b'B' => message(out, b'2', &[]),
        b'D' => columns(out, &["abalance"]),
        b'E' => {
            row(out, &[Some("0")]);
            message(out, b'C', b"SELECT 1\0");
        }
        b'S' => message(out, b'Z', b"I"),
        _ => {}
    }
}

async fn serve(mut stream: UnixStream, scale: String) -> io::Result<()> {
    let startup = stream.read_u32().await?.saturating_sub(4);
    let mut skipped = vec![0; startup as usize];
    stream.read_exact(&mut skipped).await?;
    let mut out = Vec::new();
    message(&mut out, b'R', &[0; 4]);
    for setting in ["server_version\x0015.0\0", "client_encoding\0UTF8\0"] {
        message(&mut out, b'S', setting.as_bytes());
    }
    message(&mut out, b'Z', b"I");
    stream.write_all(&out).await?;
    let mut input = Vec::with_capacity(READ_BYTES);
    loop {
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        out.clear();
        let mut rest = input.as_slice();
        while let [kind, a, b, c, d, more @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4;
            let Some(body) = more.get(..length) else { break };
            answer(&mut out, *kind, body, &scale);
            rest = &more[length..];
        }
        let read = input.len() - rest.len();
        input.drain(..read);
        stream.write_all(&out).await?;
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(scale)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: atoll-canned SOCKET SCALE");
        std::process::exit(2);
    };
    tokio::runtime::Builder::new_multi_thread().enable_io().build()?.block_on(async {
        let listener = UnixListener::bind(&socket)?;
        println!("listening on {socket}");
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream, scale.clone()));
        }
    })
}
