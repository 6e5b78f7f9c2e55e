//! The first packets of a connection: encryption, the client's name for itself, and proof of it.
//!
//! `STARTUP-1`: until a client is known it has a limited time, and no packet of it is longer than
//! [`SMALL_MAX`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::auth::scram::{Exchange, MECHANISM, ScramError};
use crate::auth::{Role, name_of, own_user};
use crate::clients::Client;
use crate::link::{Gone, Wire};
use crate::log;
use crate::metrics::add;
use crate::shared::Shared;
use crate::socket::{Came, Socket};
use crate::tls::Tls;
use crate::wire::fields::Fields;
use crate::wire::frames::Frame;
use crate::wire::out::Report;

/// Time between two looks whether the server ends.
const PERIOD: Duration = Duration::from_millis(200);
/// Codes in the place of a version.
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// What TLS begins with, which is the first byte of no packet.
const TLS_HANDSHAKE: u8 = 0x16;
/// Connections that are kept for superusers.
const RESERVED: usize = 3;

/// What a client says of itself.
struct Introduction {
    /// The minor version of the protocol.
    minor: u32,
    user: String,
    database: String,
    /// Settings of the session.
    settings: Vec<(String, String)>,
}

fn fatal(state: &'static str, message: impl Into<String>) -> Gone {
    Gone::Told(Report { state, message: message.into(), ..Report::default() })
}

/// A client that is let in.
pub(crate) struct Admitted {
    pub(crate) client: Arc<Client>,
    pub(crate) wire: Wire,
    pub(crate) role: String,
    /// Settings that it begins with.
    pub(crate) settings: Vec<(String, String)>,
}

/// Lets a client in; `None` if it is not, or wanted something else.
pub(crate) fn greet(
    mut wire: Wire,
    shared: &Arc<Shared>,
    socket: &Arc<Socket>,
) -> Option<Admitted> {
    let deadline = Instant::now() + shared.options.authentication_time;
    let mut greeting = Greeting { wire: &mut wire, shared, deadline };
    let known = match greeting.introduction() {
        Ok(Some(said)) => match greeting.prove(&said, socket) {
            Ok(role) => Ok(Some((said, role))),
            Err(gone) => Err((said.user, gone)),
        },
        Ok(None) => Ok(None),
        Err(gone) => Err((String::new(), gone)),
    };
    match known {
        Ok(Some((said, role))) => admit(wire, shared, socket, said, &role),
        Ok(None) => None,
        Err((user, gone)) => {
            refuse(wire, shared, socket, &user, gone);
            None
        }
    }
}

/// Tells a client why it is not let in.
fn refuse(mut wire: Wire, shared: &Shared, socket: &Socket, user: &str, gone: Gone) {
    add(&shared.metrics.refused);
    log::refused(user, &socket.address(), &gone);
    wire.end(gone);
}

struct Greeting<'g> {
    wire: &'g mut Wire,
    shared: &'g Arc<Shared>,
    deadline: Instant,
}

impl Greeting<'_> {
    /// Reads more, until it is too late.
    fn fill(&mut self) -> Result<(), Gone> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(fatal("08006", "the client took too long to authenticate"));
            }
            if self.shared.is_ending() {
                return Err(fatal("57P03", "the database system is shutting down"));
            }
            match self.wire.fill(left.min(PERIOD))? {
                Came::Bytes(_) => return Ok(()),
                Came::Nothing => {}
                Came::Closed => return Err(Gone::Left),
            }
        }
    }

    /// Begins TLS, perhaps with bytes of it that have come.
    fn encrypt(&mut self) -> Result<(), Gone> {
        let tls = self.shared.tls.as_ref().and_then(Tls::connection).ok_or(Gone::Left)?;
        let early = self.wire.frames.take();
        Ok(self.wire.stream.encrypt(tls, &early)?)
    }

    fn first(&mut self) -> Result<Frame, Gone> {
        loop {
            // Clients may begin with TLS, without a request.
            let begins_tls = self.wire.frames.unread().first() == Some(&TLS_HANDSHAKE);
            if begins_tls && !self.wire.stream.is_encrypted() && self.shared.tls.is_some() {
                self.encrypt()?;
            }
            if let Some(frame) = self.wire.frames.first()? {
                return Ok(frame);
            }
            self.fill()?;
        }
    }

    /// The introduction; `None` of a client that wanted to cancel something.
    fn introduction(&mut self) -> Result<Option<Introduction>, Gone> {
        let malformed = |_| fatal("08P01", "invalid startup packet layout");
        loop {
            let frame = self.first()?;
            let mut fields = Fields::new(self.wire.frames.body(&frame));
            match fields.u32().map_err(malformed)? {
                CANCEL => {
                    let number = fields.i32().map_err(malformed)?;
                    self.shared.clients.cancel(number, fields.rest());
                    return Ok(None);
                }
                SSL if !self.wire.stream.is_encrypted() && self.shared.tls.is_some() => {
                    // What follows in the clear may be of another than the client.
                    if !self.wire.frames.unread().is_empty() {
                        let message = "received unencrypted data after SSL request";
                        return Err(fatal("08P01", message));
                    }
                    self.wire.out.raw().push(b'S');
                    self.wire.flush(&|| true)?;
                    self.encrypt()?;
                }
                SSL | GSS => {
                    self.wire.out.raw().push(b'N');
                    self.wire.flush(&|| true)?;
                }
                version if version >> 16 == 3 => {
                    let (introduction, unknown) = introduction(fields, version & 0xffff)?;
                    self.check_encrypted()?;
                    self.negotiate(version & 0xffff, &unknown)?;
                    return Ok(Some(introduction));
                }
                version => {
                    let message = format!(
                        "unsupported frontend protocol {}.{}: server supports 3.0 to 3.2",
                        version >> 16,
                        version & 0xffff
                    );
                    return Err(fatal("0A000", message));
                }
            }
        }
    }

    /// Checks that clients of other machines are encrypted, where they can be.
    fn check_encrypted(&self) -> Result<(), Gone> {
        let is_near = self.wire.stream.socket.is_near();
        if self.shared.tls.is_some() && !is_near && !self.wire.stream.is_encrypted() {
            return Err(fatal("28000", "connections from other machines are encrypted here"));
        }
        Ok(())
    }

    /// Tells a client that asks for more than there is what there is.
    fn negotiate(&mut self, minor: u32, unknown: &[String]) -> Result<(), Gone> {
        if minor <= 2 && unknown.is_empty() {
            return Ok(());
        }
        let out = &mut self.wire.out;
        let open = out.begin(b'v');
        out.u32((3 << 16) | minor.min(2));
        out.i32(unknown.len() as i32);
        unknown.iter().for_each(|name| out.text(name));
        out.end(open);
        self.wire.flush(&|| true)
    }

    /// Finds out whether the client is the role that it says.
    fn prove(&mut self, said: &Introduction, socket: &Socket) -> Result<Role, Gone> {
        let role = self.shared.roles.get(&said.user);
        match socket.peer_user() {
            Some(user) if user == own_user() || name_of(user).as_deref() == Some(&said.user) => {}
            // On the Unix socket other users may prove it by a password, as on TCP.
            _ => self.exchange(said, role.as_ref())?,
        }
        let unknown = || fatal("28000", format!("role \"{}\" does not exist", said.user));
        let role = role.ok_or_else(unknown)?;
        if !role.may_login {
            let message = format!("role \"{}\" is not permitted to log in", said.user);
            return Err(fatal("28000", message));
        }
        Ok(role)
    }

    /// SCRAM-SHA-256.
    fn exchange(&mut self, said: &Introduction, role: Option<&Role>) -> Result<(), Gone> {
        let wrong =
            || fatal("28P01", format!("password authentication failed for user \"{}\"", said.user));
        let failed = |error| match error {
            ScramError::Wrong => wrong(),
            ScramError::NoRandomness => fatal("58000", "the system has no randomness"),
            ScramError::Malformed(why) => fatal("08P01", format!("malformed SCRAM message: {why}")),
        };
        let mut mechanisms = MECHANISM.as_bytes().to_vec();
        mechanisms.extend_from_slice(&[0, 0]);
        self.wire.out.authentication(10, &mechanisms);
        let malformed = |_| fatal("08P01", "malformed SCRAM message");
        let frame = self.password()?;
        let mut fields = Fields::new(self.wire.frames.body(&frame));
        let mechanism = fields.text().map_err(malformed)?;
        if mechanism != MECHANISM {
            return Err(fatal("08P01", "client selected an invalid SASL authentication mechanism"));
        }
        let first = fields.value().map_err(malformed)?.unwrap_or_default();
        let first = std::str::from_utf8(first).unwrap_or_default();
        let verifier = role.and_then(|role| role.verifier.clone());
        let secret = self.shared.roles.secret();
        let (exchange, answer) =
            Exchange::begin(first, &said.user, verifier, secret).map_err(failed)?;
        self.wire.out.authentication(11, answer.as_bytes());
        let frame = self.password()?;
        let last = std::str::from_utf8(self.wire.frames.body(&frame)).unwrap_or_default();
        let answer = exchange.end(last).map_err(failed)?;
        self.wire.out.authentication(12, answer.as_bytes());
        Ok(())
    }

    /// The next message of the authentication.
    fn password(&mut self) -> Result<Frame, Gone> {
        self.wire.flush(&|| true)?;
        loop {
            match self.wire.frames.next(false)? {
                Some(frame) if frame.kind == b'p' => return Ok(frame),
                Some(frame) => {
                    let message =
                        format!("expected SASL response, got message type {}", frame.kind);
                    return Err(fatal("08P01", message));
                }
                None => self.fill()?,
            }
        }
    }
}

/// Reads what a client says of itself, and the options of the protocol that are not known.
fn introduction(mut fields: Fields<'_>, minor: u32) -> Result<(Introduction, Vec<String>), Gone> {
    let malformed = |_| fatal("08P01", "invalid startup packet layout");
    let (mut user, mut database) = (None, None);
    let (mut settings, mut unknown) = (Vec::new(), Vec::new());
    loop {
        let name = fields.text().map_err(malformed)?;
        if name.is_empty() {
            break;
        }
        let value = fields.text().map_err(malformed)?.to_owned();
        match name {
            "user" => user = Some(value),
            "database" => database = Some(value),
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => return Err(fatal("0A000", "replication is not supported")),
            "options" => settings.extend(options(&value)?),
            name if name.starts_with("_pq_.") => unknown.push(name.to_owned()),
            name => settings.push((name.to_owned(), value)),
        }
    }
    fields.end().map_err(malformed)?;
    let user = user.filter(|user| !user.is_empty());
    let user =
        user.ok_or_else(|| fatal("28000", "no PostgreSQL user name specified in startup packet"))?;
    let database = database.filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
    Ok((Introduction { minor, user, database, settings }, unknown))
}

/// The settings in `-c name=value --name=value`, where a backslash keeps a blank.
fn options(text: &str) -> Result<Vec<(String, String)>, Gone> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = words.len() - 1;
        match c {
            '\\' => words[last].extend(chars.next()),
            c if c.is_ascii_whitespace() => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.as_str() {
            "-c" => words.next().unwrap_or_default(),
            word => match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
                Some(setting) => setting.to_owned(),
                None => {
                    let message = format!("invalid command-line argument for server: {word}");
                    return Err(fatal("42601", message));
                }
            },
        };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(fatal("42601", format!("-c {setting} requires a value")));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// How many clients there may be for one of this role to be let in.
pub(crate) fn connections_for(shared: &Shared, role: &Role) -> usize {
    let all = shared.options.connections_max;
    if role.is_superuser { all } else { all.saturating_sub(RESERVED) }
}

/// Gives a client that is known a place.
fn admit(
    wire: Wire,
    shared: &Arc<Shared>,
    socket: &Arc<Socket>,
    said: Introduction,
    role: &Role,
) -> Option<Admitted> {
    let most = connections_for(shared, role);
    if said.database != shared.name {
        let message = format!("database \"{}\" does not exist", said.database);
        let hint = Some(format!("the name of the database is \"{}\"", shared.name));
        let report = Report { state: "3D000", message, hint, ..Report::default() };
        refuse(wire, shared, socket, &said.user, Gone::Told(report));
        return None;
    }
    let Some(client) = shared.clients.add(Arc::clone(socket), said.minor >= 2, most) else {
        let gone = fatal("53300", "sorry, too many clients already");
        refuse(wire, shared, socket, &said.user, gone);
        return None;
    };
    add(&shared.metrics.connections);
    Some(Admitted { client, wire, role: said.user, settings: said.settings })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn options_are_read_as_the_shell_of_postgresql_reads_them() {
        let pairs = |text| {
            let read = options(text).map_err(|_| ()).unwrap();
            read.into_iter().map(|(name, value)| format!("{name}|{value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            pairs("-c a=b  --search-path=x\\ y -cjit=off"),
            ["a|b", "search_path|x y", "jit|off"]
        );
        assert!(options("-d 5").is_err() && options("-c a").is_err());
        assert!(pairs("").is_empty());
    }

    #[test]
    fn an_introduction_names_its_user() {
        let read = |bytes: &[u8]| introduction(Fields::new(bytes), 0).map(|(said, _)| said);
        let said = read(b"user\0ann\0application_name\0x\0\0").map_err(|_| ()).unwrap();
        assert_eq!((said.user.as_str(), said.database.as_str()), ("ann", "ann"));
        assert_eq!(said.settings, [("application_name".to_owned(), "x".to_owned())]);
        for broken in [&b"user\0ann\0"[..], b"user\0", b"\0", b"user\0a\0\0x", b""] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }
}
