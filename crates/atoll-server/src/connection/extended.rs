//! The extended protocol: statements are prepared, bound to values, described and executed.

use std::sync::Arc;
use std::sync::OnceLock;

use atoll_sql::{Literal, PreparedStatement, SqlSession, TransactionStatus};

use super::Connection;
use super::cursors::declaration;
use super::kind::{Kind, statements};
use super::observed::Running;
use super::report::{of_error, report};
use super::rows::Stopped;
use super::run::Ran;
use super::statement::{Portal, Progress, Statement};
use crate::link::Fault;
use crate::socket::Came;
use crate::values::{Column, columns_of, format_of, oids, parameter, put_description, tell};
use crate::wire::fields::Fields;
use crate::wire::frames::Frame;

/// Time in which the rest of a packet is there that was sent in pieces.
const PIECE: std::time::Duration = std::time::Duration::from_millis(1);

impl Connection {
    /// A Parse message.
    pub(super) fn parse(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let name = fields.text()?.to_owned();
        let text: Arc<str> = fields.text()?.into();
        let count = fields.count(4)?;
        let declared = (0..count).map(|_| fields.u32()).collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(report("42P05", message).into());
        }
        self.statements.remove("");
        let statement = match self.prepared(&text, &declared) {
            Ok((kind, prepared, parameters)) => Statement {
                text,
                kind,
                prepared,
                parameters,
                columns: OnceLock::new(),
                totals: OnceLock::new(),
            },
            Err(fault) => {
                self.failing = Some((text, Vec::new()));
                return Err(fault);
            }
        };
        self.statements.insert(name, Arc::new(statement));
        self.wire.out.bare(b'1');
        Ok(())
    }

    /// The kind of a statement, the statement as the session has it, and the types of its
    /// parameters.
    fn prepared(
        &mut self,
        text: &str,
        declared: &[u32],
    ) -> Result<(Kind, Option<PreparedStatement>, Vec<u32>), Fault> {
        if statements(text).len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(report("42601", message).into());
        }
        let kind = Kind::of(text);
        self.check_failed(kind)?;
        let failed = |error| of_error(&error, text, 0);
        let (mut prepared, mut parameters) = (None, declared.to_vec());
        // The parameters of a cursor are those of its query.
        let query = match kind {
            Kind::Rows => Some(0),
            Kind::Declare => Some(declaration(text)?.query),
            _ => None,
        };
        if let Some(at) = query {
            let types: Vec<_> = declared.iter().map(|oid| oids::declared(*oid)).collect();
            let made = self.session.prepare_declared(&text[at..], &types).map_err(failed)?;
            let places = made.told_parameters();
            parameters.resize(declared.len().max(places.len()), 0);
            for (oid, place) in parameters.iter_mut().zip(&places) {
                if matches!(*oid, 0 | oids::UNKNOWN) {
                    let number_of = |labels| self.session.number_of_type(labels);
                    *oid = place.map_or(oids::TEXT, |place| oids::told(place, &number_of));
                }
            }
            prepared = Some(made).filter(|_| kind == Kind::Rows);
        } else if kind.is_parsed() {
            SqlSession::check_syntax(text).map_err(failed)?;
        }
        Ok((kind, prepared, parameters))
    }

    /// The statement of a name.
    fn statement(&self, name: &str) -> Result<Arc<Statement>, Fault> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            report("26000", message).into()
        })
    }

    /// A Bind message.
    pub(super) fn bind(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let (portal, name) = (fields.text()?, fields.text()?);
        let statement = self.statement(name)?;
        let count = fields.count(2)?;
        let formats = (0..count).map(|_| fields.i16()).collect::<Result<Vec<_>, _>>()?;
        let count = fields.count(4)?;
        let wanted = statement.parameters.len();
        if count != wanted {
            let message = format!(
                "bind message supplies {count} parameters, but prepared statement \"{name}\" \
                 requires {wanted}"
            );
            return Err(report("08P01", message).into());
        }
        if formats.len() > 1 && formats.len() != count {
            let message = format!(
                "bind message has {} parameter formats but {count} parameters",
                formats.len()
            );
            return Err(report("08P01", message).into());
        }
        check_formats(&formats)?;
        let mut values = Vec::with_capacity(count);
        for (at, oid) in statement.parameters.iter().enumerate() {
            values.push(match fields.value()? {
                Some(bytes) => parameter(bytes, format_of(&formats, at), *oid)?,
                None => atoll_sql::Literal::Null,
            });
        }
        let count = fields.count(2)?;
        let formats = (0..count).map(|_| fields.i16()).collect::<Result<Vec<_>, _>>()?;
        fields.end()?;
        check_formats(&formats)?;
        let portal = portal.to_owned();
        self.check_failed(statement.kind)?;
        if formats.len() > 1 {
            let columns = self.columns_of(&statement)?.len();
            if columns != formats.len() {
                let message = format!(
                    "bind message has {} result formats but query has {columns} columns",
                    formats.len()
                );
                return Err(report("08P01", message).into());
            }
        }
        if !portal.is_empty() && self.portals.contains_key(&portal) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(report("42P03", message).into());
        }
        self.portals.insert(portal, Portal::new(statement, values, formats));
        self.wire.out.bare(b'2');
        Ok(())
    }

    /// The columns of the result of a statement; none of one that returns no rows.
    fn columns_of(&mut self, statement: &Arc<Statement>) -> Result<Arc<[Column]>, Fault> {
        if let Some(known) = statement.columns.get() {
            return Ok(Arc::clone(known));
        }
        // Another cursor may have the name next time.
        if statement.kind == Kind::Fetch {
            return self.columns_of_fetch(&statement.text);
        }
        let Some(prepared) = &statement.prepared else { return Ok(Arc::from([])) };
        self.client.begin();
        let schema = self.session.columns_of_prepared(prepared);
        let schema = schema.map_err(|error| of_error(&error, &statement.text, 0))?;
        let columns = columns_of(&schema, &self.session);
        Ok(Arc::clone(statement.columns.get_or_init(|| as_told(columns, prepared))))
    }

    /// A Describe message.
    pub(super) fn describe(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let (what, name) = (fields.byte()?, fields.text()?);
        fields.end()?;
        match what {
            b'S' => {
                let statement = self.statement(name)?;
                self.check_failed(statement.kind)?;
                let columns = self.columns_of(&statement)?;
                let out = &mut self.wire.out;
                let open = out.begin(b't');
                out.i16(statement.parameters.len() as i16);
                statement.parameters.iter().for_each(|oid| out.u32(*oid));
                out.end(open);
                self.put_columns(&columns, &[]);
            }
            b'P' => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                if let Progress::Open { columns, .. } = &portal.progress {
                    let (columns, formats) = (Arc::clone(columns), portal.formats.clone());
                    self.put_columns(&columns, &formats);
                    return Ok(());
                }
                let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
                self.check_failed(statement.kind)?;
                let columns = self.columns_of(&statement)?;
                self.put_columns(&columns, &formats);
            }
            other => return Err(subtype("DESCRIBE", other)),
        }
        Ok(())
    }

    fn put_columns(&mut self, columns: &[Column], formats: &[i16]) {
        match columns {
            [] => self.wire.out.bare(b'n'),
            columns => put_description(columns, formats, &mut self.wire.out),
        }
    }

    /// An Execute message.
    pub(super) fn execute(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let name = fields.text()?.to_owned();
        let most = u64::try_from(fields.i32()?).unwrap_or(0);
        fields.end()?;
        // It is put back if it can go on, unless its transaction has ended.
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        // Once it has run it needs them no more.
        let values = std::mem::take(&mut portal.values);
        let statement = Arc::clone(&portal.statement);
        let totals = || self.shared.statements.of(&self.role, &statement.text);
        let totals = Arc::clone(statement.totals.get_or_init(totals));
        let said = Running { kind: statement.kind, text: &statement.text, totals: Some(totals) };
        self.observed(said, &values, |connection| {
            connection.execute_portal(name, portal, &values, most)
        })
    }

    fn execute_portal(
        &mut self,
        name: String,
        mut portal: Portal,
        values: &[Literal],
        most: u64,
    ) -> Result<(), Fault> {
        if let Progress::Ready = portal.progress {
            let statement = Arc::clone(&portal.statement);
            let kind = statement.kind;
            if !kind.is_control()
                && kind != Kind::Empty
                && self.session.transaction_status() == TransactionStatus::Idle
                && !self.sync_follows()?
            {
                self.begin_implicit()?;
            }
            let text = (&*statement.text, 0);
            let ran = match &statement.prepared {
                Some(prepared) => self.run(kind, text, prepared, values),
                None => self.run(kind, text, &*statement.text, values),
            };
            self.notices();
            match ran? {
                Ran::Empty => {
                    self.wire.out.bare(b'I');
                    return Ok(());
                }
                Ran::Done(tag) => {
                    self.complete(&tag);
                    if !kind.is_control() {
                        portal.progress = Progress::Done;
                        self.portals.insert(name, portal);
                    }
                    return Ok(());
                }
                Ran::Fetch { name: cursor, way, .. } => {
                    let tag = self.send_fetched(&cursor, way, Some(&portal.formats))?;
                    self.complete(&tag);
                    portal.progress = Progress::Done;
                    self.portals.insert(name, portal);
                    return Ok(());
                }
                Ran::Rows(rows) => {
                    let columns = match statement.columns.get() {
                        Some(columns) => Arc::clone(columns),
                        None => match &statement.prepared {
                            Some(prepared) => as_told(rows.columns(&self.session), prepared),
                            None => rows.columns(&self.session).into(),
                        },
                    };
                    portal.progress = Progress::Open { rows, columns };
                }
            }
        }
        let Progress::Open { rows, columns } = &mut portal.progress else {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(report("55000", message).into());
        };
        let client = Arc::clone(&self.client);
        let goes_on = || !client.is_terminated();
        self.session.enter_zone();
        let before = rows.sent();
        match rows.send(&mut self.wire, (columns, &portal.formats), most, &goes_on)? {
            Stopped::Limit => self.wire.out.bare(b's'),
            Stopped::End => {
                let tag = rows.tag(rows.sent() - before);
                self.complete(&tag);
            }
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Whether nothing else is to be executed before the next Sync.
    fn sync_follows(&mut self) -> Result<bool, Fault> {
        loop {
            match self.wire.frames.sync_follows() {
                Some(follows) => return Ok(follows),
                None => {
                    if !matches!(self.wire.fill(PIECE)?, Came::Bytes(_)) {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// A Sync message.
    pub(super) fn sync(&mut self) -> Result<(), Fault> {
        self.finish()
    }

    /// A Close message.
    pub(super) fn close(&mut self, frame: &Frame) -> Result<(), Fault> {
        let mut fields = Fields::new(self.wire.frames.body(frame));
        let (what, name) = (fields.byte()?, fields.text()?);
        fields.end()?;
        match what {
            b'S' => drop(self.statements.remove(name)),
            b'P' => drop(self.portals.remove(name)),
            other => return Err(subtype("CLOSE", other)),
        }
        self.wire.out.bare(b'3');
        Ok(())
    }
}

/// Columns with the types that the client of a prepared statement is told of.
fn as_told(mut columns: Vec<Column>, prepared: &PreparedStatement) -> Arc<[Column]> {
    let told = prepared.told_columns(columns.len());
    tell(&mut columns, &told);
    columns.into()
}

fn no_portal(name: &str) -> Fault {
    report("34000", format!("portal \"{name}\" does not exist")).into()
}

fn subtype(message: &str, found: u8) -> Fault {
    report("08P01", format!("invalid {message} message subtype {found}")).into()
}

fn check_formats(formats: &[i16]) -> Result<(), Fault> {
    match formats.iter().find(|format| !matches!(format, 0 | 1)) {
        Some(other) => Err(report("22023", format!("unsupported format code: {other}")).into()),
        None => Ok(()),
    }
}
