//! The text of anomalies.

use std::fmt::Write as _;

use super::graph::{Step, Why};
use super::{Anomaly, End, History, Item, Kind, Left, Op, Over, Transaction};

/// The most steps of one transaction that are shown.
const OPS_SHOWN_MAX: usize = 24;

impl Why {
    fn item(self) -> Option<Item> {
        match self {
            Self::Ww(item) | Self::Wr(item) | Self::Rw(item) => Some(item),
            Self::RangeWr(item) | Self::RangeRw(item) => Some(item),
            Self::Time => None,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Ww(item) => format!("wrote {item}, which was replaced by"),
            Self::Wr(item) => format!("wrote {item}, which was seen by"),
            Self::Rw(item) => format!("saw {item}, which was replaced by"),
            Self::RangeWr(item) => format!("took {item} out of a range that was scanned by"),
            Self::RangeRw(item) => format!("scanned a range into or within which {item} came by"),
            Self::Time => "had ended before the begin of".to_owned(),
        }
    }
}

fn state(left: Option<Left>) -> String {
    left.map_or("none".to_owned(), |left| format!("{} at {}", left.version, left.place))
}

fn op_words(op: &Op, items: &[Item]) -> String {
    match op {
        Op::Read { item, saw: Some(version) } => format!("read {item}: {version}"),
        Op::Read { item, saw: None } => format!("read {item}: none"),
        Op::Exists { item } => format!("was told that there is {item}"),
        Op::Write { item, before, after } => {
            let before = before.map_or("none".to_owned(), |version| version.to_string());
            format!("wrote {item}: {before} -> {}", state(*after))
        }
        Op::Scan { over, from, to, saw } => {
            let what = match over {
                Over::Key => "keys",
                Over::Place => "places",
            };
            let shown = saw.iter().filter(|(item, _)| items.contains(item));
            let shown: Vec<_> = shown.map(|(item, saw)| format!("{item}: {saw}")).collect();
            let rest = saw.len() - shown.len();
            format!("scanned {what} {from}..={to}: {} and {rest} others", shown.join(", "))
        }
    }
}

fn concerns(op: &Op, items: &[Item]) -> bool {
    match op {
        Op::Read { item, .. } | Op::Exists { item } | Op::Write { item, .. } => {
            items.contains(item)
        }
        Op::Scan { .. } => items.iter().any(|item| item.part == 0),
    }
}

/// The steps of a transaction that concern some items.
fn describe(out: &mut String, at: usize, one: &Transaction, items: &[Item]) {
    let end = match one.end {
        End::Committed => "committed",
        End::Aborted => "rolled back",
        End::Snapshot => "snapshot",
    };
    let Transaction { thread, began, ended, .. } = one;
    let _infallible = write!(out, "\n  T{at} (thread {thread}, {began}-{ended}, {end}): ");
    let shown: Vec<String> = one
        .ops
        .iter()
        .filter(|op| concerns(op, items))
        .take(OPS_SHOWN_MAX)
        .map(|op| op_words(op, items))
        .collect();
    let rest = one.ops.len() - shown.len();
    let _infallible = write!(out, "{}; {rest} other steps", shown.join("; "));
}

impl History {
    /// An anomaly with the steps of the transactions that concern the items.
    pub(super) fn tell(&self, kind: Kind, who: &[usize], items: &[Item], what: &str) -> Anomaly {
        let mut text = what.to_owned();
        let mut told: Vec<usize> = Vec::new();
        for at in who.iter().copied() {
            if !told.contains(&at) {
                describe(&mut text, at, &self.transactions[at], items);
                told.push(at);
            }
        }
        Anomaly { kind, items: items.to_vec(), text }
    }

    /// The anomaly for a cycle.
    pub(super) fn tell_cycle(&self, steps: &[Step]) -> Anomaly {
        let mut items: Vec<Item> = steps.iter().filter_map(|step| step.why.item()).collect();
        items.sort_unstable();
        items.dedup();
        let who: Vec<usize> = steps.iter().map(|step| step.from).collect();
        let mut what = format!("a cycle of {} transactions", steps.len());
        for Step { from, to, why } in steps {
            let _infallible = write!(what, "\n  T{from} {} T{to}", why.words());
        }
        self.tell(self.name(steps), &who, &items, &what)
    }

    fn writes(&self, at: usize) -> bool {
        self.transactions[at].ops.iter().any(|op| matches!(op, Op::Write { .. }))
    }

    fn name(&self, steps: &[Step]) -> Kind {
        let count = |is: fn(&Why) -> bool| steps.iter().filter(|step| is(&step.why)).count();
        let time = count(|why| matches!(why, Why::Time));
        let ranges = count(|why| matches!(why, Why::RangeRw(_) | Why::RangeWr(_)));
        let antis = count(|why| matches!(why, Why::Rw(_) | Why::RangeRw(_)));
        let same_item = steps.len() == 2 && steps[0].why.item() == steps[1].why.item();
        if time > 0 {
            return Kind::RealTime;
        }
        if ranges > 0 {
            return Kind::Phantom;
        }
        match antis {
            0 if count(|why| matches!(why, Why::Ww(_))) == steps.len() => Kind::DirtyWrite,
            0 => Kind::CircularFlow,
            1 if same_item && count(|why| matches!(why, Why::Ww(_))) == 1 => Kind::LostUpdate,
            1 if same_item => Kind::NonRepeatableRead,
            1 => Kind::ReadSkew,
            _ if steps.iter().any(|step| !self.writes(step.from)) => Kind::ReadOnly,
            _ if same_item => Kind::LostUpdate,
            _ => Kind::WriteSkew,
        }
    }
}
