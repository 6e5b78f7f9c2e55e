//! Whether a recorded history is serializable: its direct serialization graph has no cycle.
//!
//! Every version has a number of its own and every write knows the version it replaced, so the
//! order of versions is known and nothing is guessed. Edges: who wrote a version before who read it
//! (wr), before who replaced it (ww), who read it before who replaced it (rw), also where "it" is
//! that a key was absent. A transaction that had ended before another began comes before it, too.

use std::collections::HashMap;

/// A key's state: a version's number, or absent.
pub type State = Option<u64>;

/// What a committed transaction, or a snapshot, did.
#[derive(Debug, Default, Clone)]
pub struct Done {
    /// Moments from one counter: before its first and after its last operation.
    pub began: u64,
    pub ended: u64,
    pub reads: Vec<(i64, State)>,
    /// Key, what it replaced, what it left.
    pub writes: Vec<(i64, State, State)>,
}

/// The anomaly of a history, if it has one. States that no transaction wrote are the initial ones
/// of `initial`.
pub fn anomaly(done: &[Done], initial: impl Fn(i64) -> State) -> Option<String> {
    let mut writer: HashMap<(i64, State), usize> = HashMap::new();
    let mut replaced: HashMap<(i64, State), Vec<usize>> = HashMap::new();
    for (at, one) in done.iter().enumerate() {
        for (key, before, after) in &one.writes {
            if let Some(other) = writer.insert((*key, *after), at) {
                return Some(format!("{other} and {at} both left {after:?} at key {key}"));
            }
            replaced.entry((*key, *before)).or_default().push(at);
        }
    }
    let mut graph = Graph::over(done);
    for (at, one) in done.iter().enumerate() {
        let replaces = one.writes.iter().map(|(key, before, _)| (*key, *before));
        for (key, state) in one.reads.iter().copied().chain(replaces) {
            match writer.get(&(key, state)) {
                Some(writer) => graph.add(*writer, at),
                None if state == initial(key) => {}
                None => return Some(format!("{at} read {state:?} at key {key}: nobody left that")),
            }
            for later in replaced.get(&(key, state)).into_iter().flatten() {
                graph.add(at, *later);
            }
        }
    }
    graph.cycle().map(|cycle| {
        let cycle: Vec<_> = cycle.iter().filter(|at| **at < done.len()).collect();
        format!("a cycle through {cycle:?}, the first being {:?}", done[*cycle[0]])
    })
}

/// Transactions, then a chain of moments through which "ended before it began" goes.
struct Graph(Vec<Vec<usize>>);

impl Graph {
    fn over(done: &[Done]) -> Self {
        let mut moments: Vec<(u64, usize, bool)> = Vec::new();
        for (at, one) in done.iter().enumerate() {
            moments.extend([(one.began, at, true), (one.ended, at, false)]);
        }
        moments.sort_unstable();
        let mut graph = Self(vec![Vec::new(); done.len() + moments.len()]);
        for (index, (_, at, begins)) in moments.into_iter().enumerate() {
            let moment = done.len() + index;
            if index > 0 {
                graph.add(moment - 1, moment);
            }
            if begins { graph.add(moment, at) } else { graph.add(at, moment) }
        }
        graph
    }

    fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.0[from].push(to);
        }
    }

    /// Takes away what has no predecessor until nothing is left, or only cycles and what they
    /// reach.
    fn cycle(&self) -> Option<Vec<usize>> {
        let mut before = vec![0usize; self.0.len()];
        self.0.iter().flatten().for_each(|to| before[*to] += 1);
        let mut ready: Vec<usize> = (0..before.len()).filter(|at| before[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            for to in &self.0[at] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    ready.push(*to);
                }
            }
        }
        // What is left has a predecessor that is left: walking back must come round.
        let mut at = before.iter().position(|count| *count > 0)?;
        let mut path: Vec<usize> = Vec::new();
        loop {
            if let Some(start) = path.iter().position(|seen| *seen == at) {
                return Some(path.split_off(start));
            }
            path.push(at);
            at = (0..self.0.len()).find(|from| before[*from] > 0 && self.0[*from].contains(&at))?;
        }
    }
}
