//! The check: finds an anomaly in a history, if there is one.
//!
//! Steps
//! 1. Check each transaction alone: it must see its own writes, and a single state of each item
//!    that it did not write. The result is what it saw of others, and its net effects ([`Net`]).
//! 2. Check that committed transactions have written what each transaction saw.
//! 3. Add edges for the order of each item's states ([`super::chains`]) and for real time.
//! 4. A transaction that found a row absent, or not in a range, may have seen one of several
//!    states. Exclude the states that would close a cycle, until nothing changes. If no state is
//!    left, that is an anomaly as well.

use std::collections::{BTreeMap, HashMap};

use super::chains::{self, Chain, Net, Run, Told, is_in_range};
use super::graph::{Graph, Reach, Why};
use super::look::{Sight, items, look_back};
use super::{Anomaly, End, History, Item, Kind, Left, Op, Transaction, Version};

/// Other orders of lifetimes that are tried before an anomaly is reported.
const TRIES_MAX: usize = 64;

/// The writer of a version.
#[derive(Debug, Clone, Copy)]
struct Writer {
    at: usize,
    left: Left,
    /// The writer did not replace the version itself.
    is_last: bool,
}

/// Checks whether a history is serializable or, if `strict`, strictly serializable: a transaction
/// that had ended before another one began must come before it.
///
/// # Errors
/// The anomaly.
pub fn check(history: &History, strict: bool) -> Result<(), Anomaly> {
    let writers = writers(history)?;
    let items = items(history);
    let mut sights: Vec<Vec<Sight>> = Vec::new();
    let mut nets: Vec<BTreeMap<Item, Net>> = Vec::new();
    for (at, one) in history.transactions.iter().enumerate() {
        let (saw, net) = match one.end {
            End::Aborted => Default::default(),
            _ => look_back(history, &items, at, one)?,
        };
        for (item, net) in &net {
            check_replaced(history, &writers, at, *item, net.before)?;
        }
        for sight in &saw {
            check_source(history, &writers, at, *sight)?;
        }
        if one.end != End::Aborted {
            check_bounds(history, &writers, at, one)?;
        }
        sights.push(saw);
        nets.push(net);
    }
    let mut chains = chains::build(history, &nets)?;
    let judge = |chains: &BTreeMap<Item, Chain>| judge(history, chains, &sights, strict);
    let mut anomaly = match judge(&chains) {
        Ok(()) => return Ok(()),
        Err(anomaly) => anomaly,
    };
    // HISTORY-2
    let first = anomaly.clone();
    let mut tries = TRIES_MAX;
    while let Some(item) = next_unsure(&anomaly, &chains) {
        let orders = chains[&item].orders();
        let better = (1..orders).take(tries).find_map(|number| {
            tries -= 1;
            chains.get_mut(&item)?.arrange(number);
            match judge(&chains) {
                Ok(()) => Some(None),
                Err(other) if !other.items.contains(&item) => Some(Some(other)),
                Err(_) => None,
            }
        });
        match better {
            None => break,
            Some(None) => return Ok(()),
            Some(Some(other)) => {
                chains.entry(item).or_default().settle();
                anomaly = other;
            }
        }
    }
    Err(first)
}

/// An item of the anomaly with other orders to try.
fn next_unsure(anomaly: &Anomaly, chains: &BTreeMap<Item, Chain>) -> Option<Item> {
    let mut items = anomaly.items.iter().copied();
    items.find(|item| chains.get(item).is_some_and(Chain::has_orders))
}

fn writers(history: &History) -> Result<HashMap<(Item, Version), Writer>, Anomaly> {
    let mut writers: HashMap<(Item, Version), Writer> = HashMap::new();
    for (at, one) in history.transactions.iter().enumerate() {
        let mut last: HashMap<Item, Version> = HashMap::new();
        for op in &one.ops {
            let Op::Write { item, after, .. } = op else { continue };
            if let Some(before) = last.remove(item)
                && let Some(writer) = writers.get_mut(&(*item, before))
            {
                writer.is_last = false;
            }
            let Some(left) = *after else { continue };
            let version = left.version;
            let writer = Writer { at, left, is_last: true };
            if let Some(other) = writers.insert((*item, version), writer) {
                let text = format!("both left version {version} at {item}");
                return Err(history.tell(Kind::OutOfNowhere, &[other.at, at], &[*item], &text));
            }
            last.insert(*item, version);
        }
    }
    Ok(writers)
}

/// Step 2.
fn check_source(
    history: &History,
    writers: &HashMap<(Item, Version), Writer>,
    at: usize,
    sight: Sight,
) -> Result<(), Anomaly> {
    let Sight { item, told: Told::State(Some(version)) } = sight else { return Ok(()) };
    if history.initial.get(&item).is_some_and(|left| left.version == version) {
        return Ok(());
    }
    let Some(writer) = writers.get(&(item, version)) else {
        let text = format!("version {version} of {item} was seen, but no transaction wrote it");
        return Err(history.tell(Kind::OutOfNowhere, &[at], &[item], &text));
    };
    let what = if history.transactions[writer.at].end == End::Aborted {
        "its writer was rolled back"
    } else if !writer.is_last {
        "its writer went on to replace it"
    } else {
        return Ok(());
    };
    let text = format!("version {version} of {item} was seen, but {what}");
    Err(history.tell(Kind::DirtyRead, &[writer.at, at], &[item], &text))
}

/// Checks that a scan has found only rows within its bounds.
fn check_bounds(
    history: &History,
    writers: &HashMap<(Item, Version), Writer>,
    at: usize,
    one: &Transaction,
) -> Result<(), Anomaly> {
    for op in &one.ops {
        let Op::Scan { over, from, to, saw } = op else { continue };
        for (item, version) in saw {
            let first = history.initial.get(item).filter(|left| left.version == *version);
            let left = first.or(writers.get(&(*item, *version)).map(|writer| &writer.left));
            if !left.is_some_and(|left| is_in_range(*item, *left, (*over).into(), *from, *to)) {
                let text = format!("a scan found {item} outside its bounds");
                return Err(history.tell(Kind::OutOfNowhere, &[at], &[*item], &text));
            }
        }
    }
    Ok(())
}

fn check_replaced(
    history: &History,
    writers: &HashMap<(Item, Version), Writer>,
    at: usize,
    item: Item,
    before: Option<Version>,
) -> Result<(), Anomaly> {
    let told = Told::State(before);
    check_source(history, writers, at, Sight { item, told })
        .map_err(|anomaly| Anomaly { kind: Kind::DirtyWrite, ..anomaly })
}

/// A read of an item that may have seen one of several runs of states.
struct Open {
    at: usize,
    item: Item,
    runs: Vec<Run>,
    is_range: bool,
    low: usize,
    high: usize,
}

/// Steps 3 and 4.
fn judge(
    history: &History,
    chains: &BTreeMap<Item, Chain>,
    sights: &[Vec<Sight>],
    strict: bool,
) -> Result<(), Anomaly> {
    let mut graph = Graph::new(history.transactions.len());
    for (item, chain) in chains {
        for pair in chain.states.windows(2) {
            if let (Some(from), Some(to)) = (pair[0].by, pair[1].by) {
                graph.add(from, to, Why::Ww(*item));
            }
        }
    }
    let mut open = Vec::new();
    for (at, saw) in sights.iter().enumerate() {
        for Sight { item, told } in saw {
            let chain = chains.get(item);
            let mut runs = chain.map_or_else(Vec::new, |chain| chain.runs(*item, *told));
            // It saw states of others before it changed the item itself.
            runs.retain(|(first, _)| chains[item].states[*first].by != Some(at));
            if chain.is_none() && matches!(told, Told::State(None) | Told::Outside(..)) {
                continue; // never there
            }
            let is_range = matches!(told, Told::Outside(..));
            let Some(high) = runs.len().checked_sub(1) else {
                let text = format!("{item} was seen as it never was for others");
                let kind = if is_range { Kind::Phantom } else { Kind::OutOfNowhere };
                return Err(history.tell(kind, &[at], &[*item], &text));
            };
            let sight = Open { at, item: *item, runs, is_range, low: 0, high };
            sight.add(&mut graph, &chains[item]);
            if high > 0 {
                open.push(sight);
            }
        }
    }
    let fail = |graph: &Graph| match graph.cycle() {
        Some(steps) => Err(history.tell_cycle(&steps)),
        None => Ok(()),
    };
    // First without real time: an anomaly that shows even so has a more specific kind.
    narrow(&mut graph, &mut open, chains, &fail)?;
    add_time(history, &mut graph, strict);
    narrow(&mut graph, &mut open, chains, &fail)
}

fn narrow(
    graph: &mut Graph,
    open: &mut Vec<Open>,
    chains: &BTreeMap<Item, Chain>,
    fail: &impl Fn(&Graph) -> Result<(), Anomaly>,
) -> Result<(), Anomaly> {
    loop {
        let Some(reach) = graph.reach() else { return fail(graph) };
        let mut changed = false;
        for sight in open.iter_mut() {
            let chain = &chains[&sight.item];
            if !sight.narrow(chain, &reach) {
                // No state is left: any of them closes a cycle.
                sight.high = sight.low;
                sight.add(graph, chain);
                return fail(graph);
            }
            changed |= sight.add(graph, chain);
        }
        open.retain(|sight| sight.low < sight.high);
        if !changed {
            return Ok(());
        }
    }
}

fn add_time(history: &History, graph: &mut Graph, strict: bool) {
    let all = history.transactions.iter().enumerate();
    let all = all.filter(|(_, one)| one.end != End::Aborted);
    let is_snapshot = |(_, one): &(usize, &Transaction)| one.end == End::Snapshot;
    let began = |(at, one): (usize, &Transaction)| (one.began, at);
    let ended = |(at, one): (usize, &Transaction)| (one.ended, at);
    if strict {
        return graph.add_time(all.clone().map(ended), all.map(began));
    }
    graph.add_time(all.clone().map(ended), all.clone().filter(is_snapshot).map(began));
    graph.add_time(all.clone().filter(is_snapshot).map(ended), all.map(began));
}

impl Open {
    /// The transactions that created the first state of a run and replaced its last one.
    fn ends(&self, chain: &Chain, run: usize) -> (Option<usize>, Option<usize>) {
        let (first, last) = self.runs[run];
        (chain.states[first].by, chain.states.get(last + 1).and_then(|state| state.by))
    }

    /// Adds the edges that hold for every run that is left.
    fn add(&self, graph: &mut Graph, chain: &Chain) -> bool {
        let (item, at) = (self.item, self.at);
        let (after, before) = if self.is_range {
            (Why::RangeWr(item), Why::RangeRw(item))
        } else {
            (Why::Wr(item), Why::Rw(item))
        };
        let (made, _) = self.ends(chain, self.low);
        let (_, ended) = self.ends(chain, self.high);
        let one = made.is_some_and(|made| graph.add(made, at, after));
        let two = ended.is_some_and(|ended| graph.add(at, ended, before));
        one | two
    }

    /// Excludes runs at both ends. Returns false if none is left (`low` is then the last one
    /// tried).
    fn narrow(&mut self, chain: &Chain, reach: &Reach) -> bool {
        let is_too_early = |run| {
            let (_, ended) = self.ends(chain, run);
            ended.is_some_and(|ended| reach.is_before(ended, self.at))
        };
        let is_too_late = |run| {
            let (made, _) = self.ends(chain, run);
            made.is_some_and(|made| made == self.at || reach.is_before(self.at, made))
        };
        let (mut low, mut high) = (self.low, self.high);
        while low < high && is_too_early(low) {
            low += 1;
        }
        while low < high && is_too_late(high) {
            high -= 1;
        }
        let is_possible = low < high || !(is_too_early(low) || is_too_late(low));
        (self.low, self.high) = (low, high);
        is_possible
    }
}
