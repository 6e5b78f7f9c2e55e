//! Messages of the server, written one behind the other into a buffer.

use atoll_sql::About;

/// What is told where a prepared statement would return other columns than it was described with.
/// By PostgreSQL's routine for it drivers tell that they have to prepare it anew.
pub(crate) const RESULT_CHANGED: &str = "cached plan must not change result type";

/// Fields of an error or a notice, without its severity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) state: &'static str,
    pub(crate) message: String,
    pub(crate) detail: Option<Box<str>>,
    pub(crate) hint: Option<String>,
    /// What the server did, and where in data.
    pub(crate) context: Option<Box<str>>,
    /// The character in the statement, from 1.
    pub(crate) position: Option<usize>,
    /// What the constraint is of that a row would break.
    pub(crate) about: Option<Box<About>>,
}

/// How much a report matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The connection ends.
    Fatal,
    Error,
    Warning,
    Notice,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

/// A buffer of messages.
#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
}

/// The beginning of a message of which the length is not written yet.
#[must_use]
pub(crate) struct Open(usize);

impl Out {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets what was sent, and keeps no more than so much memory.
    pub(crate) fn clear(&mut self, kept: usize) {
        self.bytes.clear();
        if self.bytes.capacity() > kept {
            self.bytes = Vec::new();
        }
    }

    /// Forgets what came behind this length.
    pub(crate) fn cut(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// The buffer itself, for values.
    pub(crate) fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn begin(&mut self, kind: u8) -> Open {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&[0; 4]);
        Open(self.bytes.len() - 4)
    }

    pub(crate) fn end(&mut self, open: Open) {
        // Rows are shorter than what a client may send, and what tables may hold.
        let length = (self.bytes.len() - open.0) as u32;
        self.bytes[open.0..open.0 + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn i16(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A text with its zero byte. A zero byte inside would end it too early, and no text has one.
    pub(crate) fn text(&mut self, text: &str) {
        let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
        self.bytes.extend_from_slice(&text.as_bytes()[..end]);
        self.bytes.push(0);
    }

    /// A message without fields.
    pub(crate) fn bare(&mut self, kind: u8) {
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 4]);
    }

    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        let open = self.begin(b'S');
        self.text(name);
        self.text(value);
        self.end(open);
    }

    pub(crate) fn ready(&mut self, status: u8) {
        self.bytes.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        let open = self.begin(b'C');
        self.text(tag);
        self.end(open);
    }

    /// A request to go on with the authentication: its code and data.
    pub(crate) fn authentication(&mut self, code: i32, data: &[u8]) {
        let open = self.begin(b'R');
        self.i32(code);
        self.bytes.extend_from_slice(data);
        self.end(open);
    }

    /// An error or a notice.
    pub(crate) fn report(&mut self, severity: Severity, report: &Report) {
        let is_error = matches!(severity, Severity::Fatal | Severity::Error);
        let open = self.begin(if is_error { b'E' } else { b'N' });
        let position = report.position.map(|position| position.to_string());
        let about = report.about.as_deref();
        let routine = (report.message == RESULT_CHANGED).then_some("RevalidateCachedQuery");
        let about =
            |part: fn(&About) -> &Option<String>| about.and_then(|one| part(one).as_deref());
        for (code, text) in [
            (b'S', Some(severity.name())),
            (b'V', Some(severity.name())),
            (b'C', Some(report.state)),
            (b'M', Some(report.message.as_str())),
            (b'D', report.detail.as_deref()),
            (b'H', report.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', report.context.as_deref()),
            (b's', about(|one| &one.schema)),
            (b't', about(|one| &one.table)),
            (b'c', about(|one| &one.column)),
            (b'n', about(|one| &one.constraint)),
            (b'R', routine),
        ] {
            if let Some(text) = text {
                self.bytes.push(code);
                self.text(text);
            }
        }
        self.bytes.push(0);
        self.end(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_length_of_its_fields() {
        let mut out = Out::default();
        out.complete("SELECT 1");
        out.ready(b'I');
        assert_eq!(out.bytes(), b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
    }

    #[test]
    fn a_report_has_the_fields_that_are_known() {
        let mut out = Out::default();
        let report = Report {
            state: "42601",
            message: "no".to_owned(),
            position: Some(12),
            ..Report::default()
        };
        out.report(Severity::Error, &report);
        assert_eq!(out.bytes(), b"E\0\0\0\x22SERROR\0VERROR\0C42601\0Mno\0P12\0\0");
    }
}
