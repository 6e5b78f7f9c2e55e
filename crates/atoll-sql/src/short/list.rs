//! Parameters that are lists: `id = ANY($1)`.

use std::cmp::Ordering;
use std::collections::HashSet;

use atoll::{DataType, Value};

use super::value::{self, GroupKey};

/// Elements among which another is looked for one by one.
const FEW: usize = 16;

/// The elements that a parameter has in one place of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ListSlot {
    /// Number of the parameter, from 0.
    pub(crate) number: usize,
    /// The type that its place gives its elements,
    pub(crate) data_type: DataType,
    /// and the one in which they are compared.
    pub(crate) compared: DataType,
}

/// The elements of a list that are not NULL, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    values: Vec<Value>,
    /// The same, if they are more than a few.
    set: HashSet<GroupKey>,
    has_null: bool,
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut list = Self::default();
        for value in values {
            match value {
                Value::Null => list.has_null = true,
                value if list.contains(&value) => {}
                value => list.add(value),
            }
        }
        list
    }
}

impl List {
    fn add(&mut self, value: Value) {
        if self.values.len() == FEW {
            self.set = self.values.iter().map(|value| GroupKey(vec![value.clone()])).collect();
        }
        if self.values.len() >= FEW {
            self.set.insert(GroupKey(vec![value.clone()]));
        }
        self.values.push(value);
    }

    /// Its elements.
    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether it has an element that is NULL.
    pub(super) fn has_null(&self) -> bool {
        self.has_null
    }

    /// Whether a value, which is not NULL, equals one of them.
    pub(super) fn contains(&self, value: &Value) -> bool {
        match self.set.is_empty() {
            true => self.values.iter().any(|one| value::compare(one, value) == Ordering::Equal),
            false => self.set.contains(&GroupKey(vec![value.clone()])),
        }
    }
}
