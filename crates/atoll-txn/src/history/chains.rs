//! The chain of states of each item, in order.
//!
//! A lifetime of an item begins with an insert, or at the beginning of the history, continues with
//! the versions that replaced each other, and ends with a delete, or at the end of the history.
//! Lifetimes are ordered as far as their order is known: the one from the beginning is the first,
//! the one that was not ended is the last.

use std::collections::{BTreeMap, HashMap};

use super::{Anomaly, End, History, Item, Kind, Left, Op, Over, Version};

/// Up to this many lifetimes, the check tries all orders; of more, it only swaps neighbours.
const FEW: usize = 4;

/// A state and the transaction that created it; `None` for the initial state.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) left: Option<Left>,
    pub(super) by: Option<usize>,
}

/// The states of an item in order.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) states: Vec<State>,
    /// The lifetimes with an unknown order, see [`Chain::orders`].
    lives: Vec<Vec<State>>,
    /// If there are many lifetimes: those that may have begun after the next one.
    swaps: Vec<usize>,
    is_settled: bool,
    first: Vec<State>,
    last: Vec<State>,
}

/// Successive states of a chain that a reader may have seen, from the first to the last.
pub(super) type Run = (usize, usize);

/// What a reader learned about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Told {
    /// Its version, or that it does not exist.
    State(Option<Version>),
    /// That it exists.
    Exists,
    /// That it is not in this range.
    Outside(OverKey, i64, i64),
}

/// [`Over`] as a part of hash keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OverKey {
    Key,
    Place,
}

impl From<Over> for OverKey {
    fn from(over: Over) -> Self {
        match over {
            Over::Key => Self::Key,
            Over::Place => Self::Place,
        }
    }
}

/// Whether a row in this state is within the bounds.
pub(super) fn is_in_range(item: Item, left: Left, over: OverKey, from: i64, to: i64) -> bool {
    let at = match over {
        OverKey::Key => item.key,
        OverKey::Place => left.place,
    };
    item.part == 0 && (from..=to).contains(&at)
}

fn fits(told: Told, item: Item, state: State) -> bool {
    match (told, state.left) {
        (Told::State(saw), left) => saw == left.map(|left| left.version),
        (Told::Exists, left) => left.is_some(),
        (Told::Outside(over, from, to), Some(left)) => !is_in_range(item, left, over, from, to),
        (Told::Outside(..), None) => true,
    }
}

impl Chain {
    /// The runs of states that fit what a reader has learned.
    pub(super) fn runs(&self, item: Item, told: Told) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        // Two absences are never in one run: a lifetime is between them.
        for (at, state) in self.states.iter().enumerate() {
            if !fits(told, item, *state) {
                continue;
            }
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == at => *last = at,
                _ => runs.push((at, at)),
            }
        }
        runs
    }

    /// The number of orders of its lifetimes to try.
    pub(super) fn orders(&self) -> usize {
        match self.lives.len() {
            few @ 0..=FEW => (1..=few).product(),
            _ => 1 + self.swaps.len(),
        }
    }

    /// Whether there is another order to try.
    pub(super) fn has_orders(&self) -> bool {
        !self.is_settled && self.orders() > 1
    }

    /// Makes the current order final.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Arranges the states in order `number` of [`Chain::orders`]; 0 is the likely one.
    pub(super) fn arrange(&mut self, mut number: usize) {
        self.states.clone_from(&self.first);
        let mut rest: Vec<&Vec<State>> = self.lives.iter().collect();
        if rest.len() > FEW {
            if let Some(at) = number.checked_sub(1).and_then(|at| self.swaps.get(at)) {
                rest.swap(*at, *at + 1);
            }
            number = 0;
        }
        while !rest.is_empty() {
            let at = number % rest.len();
            number /= rest.len();
            self.states.extend(rest.remove(at));
        }
        self.states.extend(&self.last);
    }
}

/// The net effect of a transaction on an item: the version that it replaced, and the state in which
/// it left the item in the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Net {
    pub(super) before: Option<Version>,
    pub(super) after: Option<Left>,
}

/// The net effects of all transactions on one item.
type Writes<'n> = Vec<(usize, &'n Net)>;

/// The moment by which each transaction had certainly committed: its recorded end, or that of a
/// transaction that has seen its writes. A thread that was descheduled right after a commit records
/// the end much later.
fn committed_by(history: &History) -> Vec<u64> {
    let all = || history.transactions.iter().enumerate().filter(|(_, one)| one.end != End::Aborted);
    let mut makers: HashMap<(Item, Version), usize> = HashMap::new();
    let mut seen: Vec<(usize, Item, Version)> = Vec::new();
    for (at, one) in all() {
        for op in &one.ops {
            match op {
                Op::Read { item, saw: Some(version) } => seen.push((at, *item, *version)),
                Op::Scan { saw, .. } => {
                    seen.extend(saw.iter().map(|(item, saw)| (at, *item, *saw)))
                }
                Op::Write { item, before, after } => {
                    seen.extend(before.map(|version| (at, *item, version)));
                    makers.extend(after.map(|left| ((*item, left.version), at)));
                }
                Op::Read { .. } | Op::Exists { .. } => {}
            }
        }
    }
    let of_others: Vec<(usize, usize)> = seen
        .into_iter()
        .filter_map(|(by, item, version)| Some((by, *makers.get(&(item, version))?)))
        .collect();
    let mut known: Vec<u64> = history.transactions.iter().map(|one| one.ended).collect();
    loop {
        let mut is_news = false;
        for (by, maker) in &of_others {
            if known[*by] < known[*maker] {
                known[*maker] = known[*by];
                is_news = true;
            }
        }
        if !is_news {
            return known;
        }
    }
}

/// Builds the chains of all items.
pub(super) fn build(
    history: &History,
    nets: &[BTreeMap<Item, Net>],
) -> Result<BTreeMap<Item, Chain>, Anomaly> {
    let mut writes: BTreeMap<Item, Writes<'_>> = BTreeMap::new();
    for item in history.initial.keys() {
        writes.entry(*item).or_default();
    }
    for (at, net) in nets.iter().enumerate() {
        for (item, net) in net {
            let all = writes.entry(*item).or_default();
            if net.before != net.after.map(|left| left.version) {
                all.push((at, net));
            }
        }
    }
    let known = committed_by(history);
    let chain = |(item, all)| Ok((item, chain(history, &known, item, &all)?));
    writes.into_iter().map(chain).collect()
}

fn chain(
    history: &History,
    known: &[u64],
    item: Item,
    writes: &Writes<'_>,
) -> Result<Chain, Anomaly> {
    let mut next: HashMap<Version, (usize, Option<Left>)> = HashMap::new();
    let mut inserts = Vec::new();
    for (at, net) in writes {
        match net.before {
            None => inserts.push((*at, net.after)),
            Some(before) => {
                if let Some((other, _)) = next.insert(before, (*at, net.after)) {
                    let text = format!("both replaced version {before} of {item}");
                    return Err(history.tell(Kind::LostUpdate, &[other, *at], &[item], &text));
                }
            }
        }
    }
    let mut placed = 0;
    let mut life = |start: State| {
        let mut states = vec![start];
        while let Some(left) = states.last().and_then(|state| state.left) {
            let Some((by, after)) = next.get(&left.version) else { break };
            states.push(State { left: *after, by: Some(*by) });
            placed += 1;
        }
        states
    };
    let initial = history.initial.get(&item).copied();
    let first = life(State { left: initial, by: None });
    let lives = inserts.iter().map(|(at, left)| life(State { left: *left, by: Some(*at) }));
    let mut lives: Vec<Vec<State>> = lives.collect();
    lives.sort_by_key(|life| life[0].by.map(|by| (known[by], history.transactions[by].began)));
    let (ended, mut open): (Vec<_>, Vec<_>) =
        lives.into_iter().partition(|life| life.last().is_some_and(|state| state.left.is_none()));
    if first.last().is_some_and(|state| state.left.is_some()) && !inserts.is_empty() {
        open.push(first.clone());
    }
    if let [one, two, ..] = &open[..] {
        let by = |life: &[State]| life.iter().find_map(|state| state.by);
        let makers: Vec<usize> = [one, two].into_iter().filter_map(|life| by(life)).collect();
        let text = format!("{item} was inserted while it was there");
        return Err(history.tell(Kind::DuplicateKey, &makers, &[item], &text));
    }
    if placed + inserts.len() < writes.len() {
        let makers: Vec<usize> = writes.iter().map(|(at, _)| *at).collect();
        let text = format!("versions of {item} replaced each other in a ring");
        return Err(history.tell(Kind::DirtyWrite, &makers, &[item], &text));
    }
    let last = open.pop().unwrap_or_default();
    // Lifetimes do not overlap, so the order of their ends is that of their begins.
    let is_before = |one: &[State], two: &[State]| {
        let both = [(one.first(), two.first()), (one.last(), two.last())];
        both.into_iter().any(|(one, two)| match (one.and_then(|s| s.by), two.and_then(|s| s.by)) {
            (Some(one), Some(two)) => known[one] < history.transactions[two].began,
            _ => false,
        })
    };
    let ended = in_order(ended, is_before);
    let pairs = ended.windows(2).enumerate();
    let swaps = pairs.filter(|(_, pair)| !is_before(&pair[0], &pair[1]));
    let swaps = swaps.map(|(at, _)| at).collect();
    let mut chain =
        Chain { states: Vec::new(), lives: ended, swaps, is_settled: false, first, last };
    chain.arrange(0);
    Ok(chain)
}

/// Sorts lifetimes by what is certain, and keeps the given order otherwise.
fn in_order(
    mut lives: Vec<Vec<State>>,
    is_before: impl Fn(&[State], &[State]) -> bool,
) -> Vec<Vec<State>> {
    let mut ordered = Vec::with_capacity(lives.len());
    while !lives.is_empty() {
        let is_next = |at: &usize| !lives.iter().any(|other| is_before(other, &lives[*at]));
        // There is no next one if lifetimes overlap, which is an anomaly in any order.
        let next = (0..lives.len()).find(is_next).unwrap_or(0);
        ordered.push(lives.remove(next));
    }
    ordered
}
