//! The labels of an enum: its name, and its labels in their order.
//!
//! - `LABELS-1`: a value of an enum is stored as the place of its label, from 0. So values have the
//!   order of the labels, and are the keys of an Arrow dictionary of the labels.
//! - `LABELS-2`: equal definitions are one in a process: they are compared by their address, and a
//!   [`Labels`] is as small as that. A definition is kept for as long as the process lives; there
//!   are as many as there were types, and forms that one had after another.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// Longest name of a table, a column or a type, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest label, in bytes, as in PostgreSQL.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest definition as a text, in bytes.
pub const LABELS_BYTES_MAX: usize = 64 << 10;
/// Stands between the name and the labels in a text.
const SEPARATOR: char = '\u{1}';

/// See the module.
#[derive(Clone, Copy)]
pub struct Labels(&'static Definition);

struct Definition {
    /// The name, and behind it each label with a separator before it.
    text: String,
    name: String,
    labels: Vec<String>,
    codes: HashMap<String, i32>,
    /// Another definition, the next in the chain of all.
    next: OnceLock<&'static Definition>,
}

/// The first of all definitions.
static FIRST: OnceLock<&'static Definition> = OnceLock::new();

impl Labels {
    /// An enum.
    ///
    /// # Errors
    /// A clause that says which name or label is none, or is there twice.
    pub fn new(name: &str, labels: &[String]) -> Result<Self, String> {
        let is_name = |one: &str, most| one.len() <= most && !one.chars().any(char::is_control);
        if name.is_empty() || !is_name(name, NAME_BYTES_MAX) {
            return Err(format!("\"{}\" is not a type name", name.escape_debug()));
        }
        let mut codes = HashMap::with_capacity(labels.len());
        for (code, label) in (0..).zip(labels) {
            if !is_name(label, LABEL_BYTES_MAX) {
                return Err(format!("invalid enum label \"{}\"", label.escape_debug()));
            }
            if codes.insert(label.clone(), code).is_some() {
                return Err(format!("the enum label \"{label}\" is used more than once"));
            }
        }
        let mut text = name.to_owned();
        for label in labels {
            text.push(SEPARATOR);
            text.push_str(label);
        }
        if text.len() > LABELS_BYTES_MAX {
            return Err(format!("the labels of a type take {LABELS_BYTES_MAX} bytes at most"));
        }
        let (name, labels) = (name.to_owned(), labels.to_vec());
        Ok(Self::shared(Definition { text, name, labels, codes, next: OnceLock::new() }))
    }

    /// The enum of a text that [`Labels::text`] has returned.
    pub fn of_text(text: &str) -> Option<Self> {
        if let Some(known) = chain().find(|known| known.text == text) {
            return Some(Self(known));
        }
        let mut parts = text.split(SEPARATOR);
        let name = parts.next()?;
        let labels: Vec<String> = parts.map(str::to_owned).collect();
        Self::new(name, &labels).ok()
    }

    /// The definition that all share (`LABELS-2`).
    fn shared(definition: Definition) -> Self {
        let mut new = Some(definition);
        let mut place = &FIRST;
        loop {
            // Another thread may put one here meanwhile; then this one looks further.
            let found = *place.get_or_init(|| match new.take() {
                Some(definition) => Box::leak(Box::new(definition)),
                None => unreachable!("a definition is put into one place"),
            });
            match &new {
                None => return Self(found),
                Some(wanted) if wanted.text == found.text => return Self(found),
                Some(_) => place = &found.next,
            }
        }
    }

    /// The name of the type.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// The name as SQL writes it: in quotes where it would mean another one without them.
    pub fn shown(self) -> String {
        let name = &self.0.name;
        let is_letter = |c: char| c.is_ascii_lowercase() || c == '_' || !c.is_ascii();
        let is_plain = |part: &str| {
            part.starts_with(is_letter) && part.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        };
        // With a dot before it stands the schema.
        if name.split('.').all(is_plain) {
            name.clone()
        } else {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
    }

    /// The labels in their order.
    pub fn labels(self) -> &'static [String] {
        &self.0.labels
    }

    /// The label of a stored value.
    pub fn label(self, code: i32) -> Option<&'static str> {
        let at = usize::try_from(code).ok()?;
        self.0.labels.get(at).map(String::as_str)
    }

    /// The stored value of a label.
    pub fn code(self, label: &str) -> Option<i32> {
        self.0.codes.get(label).copied()
    }

    /// Name and labels as one text.
    pub fn text(self) -> &'static str {
        &self.0.text
    }

    /// Whether values of an enum with those labels are the same values of this one, which may have
    /// more labels behind them, and other names for all.
    pub fn continues(self, before: Self) -> bool {
        before.0.labels.len() <= self.0.labels.len()
    }
}

/// All definitions.
fn chain() -> impl Iterator<Item = &'static Definition> {
    std::iter::successors(FIRST.get().copied(), |one| one.next.get().copied())
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.0.name).field(&self.0.labels).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of(name: &str, labels: &[&str]) -> Result<Labels, String> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        Labels::new(name, &labels)
    }

    #[test]
    fn labels_have_their_places_and_a_text() {
        let mood = of("mood", &["sad", "", "happy"]).unwrap();
        assert_eq!((mood.code("happy"), mood.code(""), mood.code("x")), (Some(2), Some(1), None));
        assert_eq!((mood.label(0), mood.label(3), mood.label(-1)), (Some("sad"), None, None));
        assert_eq!(Labels::of_text(mood.text()), Some(mood));
        let none = of("none", &[]).unwrap();
        assert_eq!(Labels::of_text(none.text()).unwrap().labels().len(), 0);
        assert_ne!(none, of("none", &[""]).unwrap());
    }

    #[test]
    fn equal_definitions_are_one_in_all_threads() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let one = |at: usize| of(&format!("type{}", at % 50), &["a", "b"]).unwrap();
                    (0..1000).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut made = threads.into_iter().map(|thread| thread.join().unwrap());
        let first = made.next().unwrap();
        assert!(made.all(|other| other == first));
        assert!((50..1000).all(|at| first[at] == first[at % 50]));
        assert_ne!(first[0], first[1]);
    }

    #[test]
    fn what_is_no_label_is_refused() {
        assert!(of("t", &["a", "b", "a"]).unwrap_err().contains("more than once"));
        assert!(of("t", &[&"x".repeat(64)]).unwrap_err().contains("invalid enum label"));
        assert!(of("t", &["a\u{1}b"]).is_err());
        assert!(of("", &["a"]).is_err());
        assert!(Labels::of_text("t\u{1}a\u{1}a").is_none());
    }
}
