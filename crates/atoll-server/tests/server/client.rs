//! A client that sends and shows messages as they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

pub struct Client {
    pub socket: Box<dyn Socket>,
    /// The number and the key of the connection.
    pub key: Vec<u8>,
    /// What the server has told of its settings.
    pub settings: Vec<(String, String)>,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: char,
    pub body: Vec<u8>,
}

impl Message {
    /// A field of an error or a notice.
    pub fn field(&self, code: char) -> Option<String> {
        let fields = self.body.split(|byte| *byte == 0);
        let found = fields.filter_map(|field| field.split_first());
        let mut found = found.filter(|(kind, _)| char::from(**kind) == code);
        found.next().map(|(_, text)| String::from_utf8(text.to_vec()).unwrap())
    }

    /// The values of a row, as texts.
    pub fn values(&self) -> Vec<Option<String>> {
        let raw = self.raw_values().into_iter();
        raw.map(|value| value.map(|bytes| String::from_utf8(bytes).unwrap())).collect()
    }

    pub fn raw_values(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, 'D');
        let (count, mut rest) = self.body.split_first_chunk::<2>().unwrap();
        let mut values = Vec::new();
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, behind) = rest.split_first_chunk::<4>().unwrap();
            rest = behind;
            values.push(usize::try_from(i32::from_be_bytes(*length)).ok().map(|length| {
                let (value, behind) = rest.split_at(length);
                rest = behind;
                value.to_vec()
            }));
        }
        assert!(rest.is_empty());
        values
    }

    /// The message in short: its kind, and what matters of it.
    pub fn show(&self) -> String {
        match self.kind {
            'C' => String::from_utf8_lossy(&self.body[..self.body.len() - 1]).into_owned(),
            'E' | 'N' => format!("{} {}", self.kind, self.field('C').unwrap()),
            'D' => {
                let shown = self.values();
                let shown: Vec<_> =
                    shown.iter().map(|one| one.as_deref().unwrap_or("NULL")).collect();
                format!("D {}", shown.join("|"))
            }
            'Z' => format!("Z{}", char::from(self.body[0])),
            other => other.to_string(),
        }
    }
}

impl Client {
    pub fn login(path: &Path) -> Self {
        Self::login_as(path, &user(), "bank", &[])
    }

    pub fn login_as(path: &Path, user: &str, database: &str, more: &[(&str, &str)]) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Self::on(Box::new(socket));
        client.introduce(3 << 16, user, database, more);
        client.welcomed();
        client
    }

    pub fn tcp(port: u16) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self::on(Box::new(socket))
    }

    pub fn on(socket: Box<dyn Socket>) -> Self {
        Self { socket, key: Vec::new(), settings: Vec::new() }
    }

    pub fn introduce(&mut self, version: u32, user: &str, database: &str, more: &[(&str, &str)]) {
        let mut body = version.to_be_bytes().to_vec();
        for (name, value) in [("user", user), ("database", database)].iter().chain(more) {
            body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.socket.write_all(&[&length[..], &body].concat()).unwrap();
    }

    /// Reads up to the first ReadyForQuery.
    pub fn welcomed(&mut self) {
        for message in self.until_ready() {
            match message.kind {
                'K' => self.key = message.body,
                'S' => {
                    let text = String::from_utf8(message.body).unwrap();
                    let mut parts = text.split('\0');
                    let (name, value) = (parts.next().unwrap(), parts.next().unwrap());
                    self.settings.push((name.to_owned(), value.to_owned()));
                }
                'R' | 'Z' => {}
                _ => panic!("{}: {:?}", message.show(), message.field('M')),
            }
        }
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) {
        self.socket.write_all(&frame(kind, body)).unwrap();
    }

    /// A message, or `None` at the end.
    pub fn receive(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        if self.socket.read_exact(&mut head).is_err() {
            return None;
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body).ok()?;
        Some(Message { kind: head[0].into(), body })
    }

    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.receive() {
            let is_last = message.kind == 'Z';
            messages.push(message);
            if is_last {
                return messages;
            }
        }
        messages
    }

    /// Sends a Query and shows the answers in short, without descriptions.
    pub fn query(&mut self, sql: &str) -> Vec<String> {
        self.send(b'Q', &[sql.as_bytes(), &[0]].concat());
        let answers = self.until_ready();
        answers.iter().filter(|one| one.kind != 'T').map(Message::show).collect()
    }

    /// The answers to messages that end with a Sync, in short.
    pub fn answers(&mut self, messages: &[Vec<u8>]) -> Vec<String> {
        self.socket.write_all(&messages.concat()).unwrap();
        self.until_ready().iter().map(Message::show).collect()
    }
}

pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = format!("{name}\0{sql}\0").into_bytes();
    body.extend_from_slice(&(types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    frame(b'P', &body)
}

/// A Bind with values as texts.
pub fn bind(portal: &str, statement: &str, values: &[Option<&str>], formats: &[i16]) -> Vec<u8> {
    let values: Vec<_> = values.iter().map(|value| value.map(str::as_bytes)).collect();
    bind_raw((portal, statement), &[], &values, formats)
}

pub fn bind_raw(
    (portal, statement): (&str, &str),
    parameter_formats: &[i16],
    values: &[Option<&[u8]>],
    formats: &[i16],
) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0").into_bytes();
    let put_formats = |formats: &[i16], body: &mut Vec<u8>| {
        body.extend_from_slice(&(formats.len() as u16).to_be_bytes());
        formats.iter().for_each(|format| body.extend_from_slice(&format.to_be_bytes()));
    };
    put_formats(parameter_formats, &mut body);
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            Some(bytes) => {
                body.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                body.extend_from_slice(bytes);
            }
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    put_formats(formats, &mut body);
    frame(b'B', &body)
}

pub fn describe(what: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[&[what], name.as_bytes(), &[0]].concat())
}

pub fn close(what: u8, name: &str) -> Vec<u8> {
    frame(b'C', &[&[what], name.as_bytes(), &[0]].concat())
}

pub fn execute(portal: &str, most: u32) -> Vec<u8> {
    frame(b'E', &[portal.as_bytes(), &[0], &most.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    frame(b'S', &[])
}

pub fn flush() -> Vec<u8> {
    frame(b'H', &[])
}

/// The user of this process.
pub fn user() -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let own = own.split_whitespace().nth(1).unwrap();
    let line = list.lines().find(|line| line.split(':').nth(2) == Some(own)).unwrap();
    line.split(':').next().unwrap().to_owned()
}
