//! A connection: the messages of a client, one after the other, on a session.
//!
//! - `CONN-1`: after an error in a message of the extended protocol, messages are passed over up to
//!   the next Sync.
//! - `CONN-2`: several statements of one Query message, or before one Sync, are one transaction,
//!   unless they say otherwise (`transaction`). A statement that is the only one is a transaction
//!   by itself, which costs less.
//! - `CONN-3`: portals end with the transaction, and at Sync where none is open; except for cursors
//!   WITH HOLD of transactions that have committed.

mod copy_in;
mod copy_out;
mod cursors;
mod extended;
mod kept;
pub(crate) mod kind;
mod observed;
pub(crate) mod report;
mod roles;
pub(crate) mod rows;
mod run;
mod simple;
mod statement;
mod transaction;
mod words;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use atoll_sql::{Literal, NoticeLevel, Notification, SqlSession, TransactionStatus, Waker};

use self::report::report;
use self::statement::{Life, Portal, Statement};
use crate::activity::Identity;
use crate::clients::Client;
use crate::link::{Fault, Gone, Wire};
use crate::log;
use crate::reactor::{Reactor, Rests};
use crate::shared::{Shared, Unknown};
use crate::socket::{Came, Socket, Stream};
use crate::startup::{self, Admitted};
use crate::wire::out::{Report, Severity};

/// See the module.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    client: Arc<Client>,
    wire: Wire,
    session: SqlSession,
    /// The role of the client.
    role: String,
    /// Settings that the client has begun with.
    settings: Vec<(String, String)>,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// Messages are passed over up to the next Sync.
    is_skipping: bool,
    /// The open transaction ends with the message, or at Sync.
    is_implicit: bool,
    /// What has been written is to be sent before more is read.
    wants_flush: bool,
    /// It has rested before.
    has_rested: bool,
    /// The client has not been told of the settings of this session.
    is_new_session: bool,
    /// Settings of which the client was told.
    told: Vec<(&'static str, String)>,
    /// When it began.
    began: Instant,
    /// The statement that has failed, for the log.
    failing: Option<(Arc<str>, Vec<Literal>)>,
    /// Rows that the running statement has returned or changed, and that it has begun here.
    counted: u64,
    /// Tells the reactor that there is something for the client.
    waker: Option<Arc<Waker>>,
}

/// What a connection does when nothing more has come.
enum After {
    Rest,
    End,
}

impl Rests for Connection {
    fn number(&self) -> u64 {
        self.client.number.unsigned_abs().into()
    }

    fn socket(&self) -> &dyn AsFd {
        &*self.client.socket
    }

    fn has_news(&self) -> bool {
        self.has_notifications() || self.client.is_terminated() || self.session.has_timed_out()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        log::disconnected(self.who(), self.began.elapsed());
        self.client.socket.shut_down();
        self.shared.clients.remove(self.client.number);
    }
}

/// Lets a client in that has connected.
pub(crate) fn begin(socket: Socket, shared: &Arc<Shared>, reactor: &Arc<Reactor<Connection>>) {
    let Some(place) = Unknown::of(shared, socket.is_unix()) else { return };
    let (socket, reactor) = (Arc::new(socket), Arc::clone(reactor));
    let shared = Arc::clone(shared);
    shared.pool.clone().run(move || {
        if socket.ready().is_err() {
            return;
        }
        let link = Wire::new(Stream::new(Arc::clone(&socket)));
        let admitted = startup::greet(link, &shared, &socket);
        drop(place);
        let Some(admitted) = admitted else { return };
        let mut connection = Connection::new(&shared, admitted);
        let (weak, number) = (Arc::downgrade(&reactor), connection.number());
        let waker: Arc<Waker> = Arc::new(move || {
            if let Some(reactor) = weak.upgrade() {
                reactor.wake(number);
            }
        });
        connection.client.set_waker(Arc::clone(&waker));
        connection.waker = Some(waker);
        match connection.welcome() {
            Ok(()) => work(connection, &reactor),
            Err(gone) => connection.end(gone),
        }
    });
}

/// Goes on with a connection to which something has come.
pub(crate) fn resume(
    connection: Connection,
    shared: &Arc<Shared>,
    reactor: &Arc<Reactor<Connection>>,
) {
    let reactor = Arc::clone(reactor);
    shared.pool.run(move || work(connection, &reactor));
}

/// Does what a client asks for, until it asks for nothing more.
fn work(mut connection: Connection, reactor: &Reactor<Connection>) {
    loop {
        match connection.serve() {
            Ok(After::Rest) => {
                connection.wire.rest();
                let is_known = std::mem::replace(&mut connection.has_rested, true);
                match reactor.rest(connection, is_known) {
                    Ok(()) => return,
                    Err(back) => connection = back,
                }
                if connection.has_news() {
                    connection.has_rested = is_known;
                    continue;
                }
                // The server ends, and tells so.
                if !connection.client.is_terminated() {
                    return;
                }
            }
            Ok(After::End) => return,
            Err(gone) => {
                connection.end(gone);
                return;
            }
        }
    }
}

impl Connection {
    /// A connection of a client that was let in.
    fn new(shared: &Arc<Shared>, admitted: Admitted) -> Self {
        let Admitted { client, wire, role, settings } = admitted;
        Self {
            shared: Arc::clone(shared),
            client,
            wire,
            session: SqlSession::on_database(shared.db.clone()),
            role,
            settings,
            statements: HashMap::new(),
            portals: HashMap::new(),
            is_skipping: false,
            is_implicit: false,
            wants_flush: false,
            has_rested: false,
            is_new_session: true,
            told: Vec::new(),
            began: Instant::now(),
            failing: None,
            counted: 0,
            waker: None,
        }
    }

    /// Tells the client why its connection ends.
    fn end(&mut self, gone: Gone) {
        log::ended(self.who(), &gone);
        self.wire.end(gone);
    }

    /// Tells a client that it is let in.
    fn welcome(&mut self) -> Result<(), Gone> {
        let is_encrypted = self.wire.stream.is_encrypted();
        self.client.activity.identify(Identity { role: self.role.clone(), is_encrypted });
        log::connected(self.who(), &self.client.socket.address(), is_encrypted);
        self.wire.out.authentication(0, &[]);
        self.begin_session().map_err(Gone::Told)?;
        self.tell_settings();
        let out = &mut self.wire.out;
        let open = out.begin(b'K');
        out.i32(self.client.number);
        out.raw().extend_from_slice(&self.client.key);
        out.end(open);
        self.notices();
        self.ready();
        self.flush()
    }

    /// Carries out messages until none comes for a moment.
    fn serve(&mut self) -> Result<After, Gone> {
        self.notifications();
        loop {
            if self.session.has_timed_out() {
                let message = "terminating connection due to idle-in-transaction timeout";
                return Err(Gone::Told(report("25P03", message)));
            }
            while let Some(frame) = self.wire.next()? {
                if frame.kind == b'X' {
                    return Ok(After::End);
                }
                match self.message(frame.kind, &frame) {
                    Ok(()) => {}
                    Err(Fault::Error(report)) => self.fail_message(frame.kind, &report)?,
                    Err(Fault::Gone(gone)) => return Err(gone),
                }
            }
            if self.client.is_terminated() {
                let message = "terminating connection due to administrator command";
                return Err(Gone::Told(report("57P01", message)));
            }
            if std::mem::take(&mut self.wants_flush) {
                self.flush()?;
            }
            match self.wire.fill(self.shared.options.linger)? {
                Came::Bytes(_) => {}
                Came::Nothing => return Ok(After::Rest),
                Came::Closed => return Ok(After::End),
            }
        }
    }

    fn flush(&mut self) -> Result<(), Gone> {
        let client = Arc::clone(&self.client);
        self.wire.flush(&|| !client.is_terminated())?;
        self.wire.shrink();
        Ok(())
    }

    /// Carries out a message.
    fn message(&mut self, kind: u8, frame: &crate::wire::frames::Frame) -> Result<(), Fault> {
        if self.is_skipping && kind != b'S' {
            return Ok(());
        }
        match kind {
            b'Q' => self.query(frame),
            b'P' => self.parse(frame),
            b'B' => self.bind(frame),
            b'D' => self.describe(frame),
            b'E' => self.execute(frame),
            b'C' => self.close(frame),
            b'H' => {
                self.wants_flush = true;
                Ok(())
            }
            b'S' => {
                self.is_skipping = false;
                self.sync()
            }
            // What is left of a COPY that has failed.
            b'd' | b'c' | b'f' => Ok(()),
            b'F' => {
                Err(report("0A000", "calls of functions by their numbers are not supported").into())
            }
            other => {
                let message = format!("invalid frontend message type {other}");
                Err(Gone::Told(report("08P01", message)).into())
            }
        }
    }

    /// Tells a client that a message has failed.
    fn fail_message(&mut self, kind: u8, report: &crate::wire::out::Report) -> Result<(), Gone> {
        self.notices();
        self.session.settle(false);
        self.log_failed(report);
        self.wire.out.report(Severity::Error, report);
        // A client that has caused it outside of a statement has still failed its transaction.
        if self.session.transaction_status() == TransactionStatus::Open
            && let Err(error) = self.session.fail_transaction()
        {
            let told = report::of_error(&error, "", 0);
            self.wire.out.report(Severity::Error, &told);
        }
        if matches!(kind, b'Q' | b'F') {
            return self.finish().map_err(|fault| match fault {
                Fault::Gone(gone) => gone,
                Fault::Error(report) => Gone::Told(report),
            });
        }
        // An error of Sync itself is told, and the client is ready.
        if kind == b'S' {
            self.ready();
            return Ok(());
        }
        self.is_skipping = true;
        // Clients that wait for this answer send the Sync behind it.
        self.wants_flush = true;
        Ok(())
    }

    /// Ends what a message, or those before a Sync, have begun.
    fn finish(&mut self) -> Result<(), Fault> {
        let ended = self.end_implicit();
        if let Err(Fault::Error(report)) = &ended {
            self.failing = Some(("COMMIT".into(), Vec::new()));
            self.log_failed(report);
            self.wire.out.report(Severity::Error, report);
        } else {
            ended?;
        }
        self.ready();
        Ok(())
    }

    /// Tells the client that it may send the next statement.
    fn ready(&mut self) {
        self.session.settle(true);
        let status = self.session.transaction_status();
        if status == TransactionStatus::Idle {
            self.portals.retain(|_, portal| portal.life == Life::Held);
            self.notifications();
        }
        self.tell_settings();
        self.client.activity.end(status);
        self.wire.out.ready(match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        });
        self.wants_flush = true;
    }

    fn has_notifications(&self) -> bool {
        self.session.has_notifications()
            && self.session.transaction_status() == TransactionStatus::Idle
    }

    /// Sends the notifications that have come, unless a transaction is open.
    fn notifications(&mut self) {
        if !self.has_notifications() {
            return;
        }
        for Notification { sender, channel, payload } in self.session.take_notifications() {
            let out = &mut self.wire.out;
            let open = out.begin(b'A');
            out.i32(sender);
            out.text(&channel);
            out.text(&payload);
            out.end(open);
        }
        self.wants_flush = true;
    }

    /// Sends what there is to tell of the statements that have run.
    fn notices(&mut self) {
        for notice in self.session.take_notices() {
            let severity = match notice.level() {
                NoticeLevel::Warning => Severity::Warning,
                NoticeLevel::Notice => Severity::Notice,
            };
            let detail = notice.detail().map(Into::into);
            let told = Report { detail, ..report(notice.sqlstate(), notice.message()) };
            self.wire.out.report(severity, &told);
        }
    }
}
