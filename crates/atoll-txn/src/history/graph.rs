//! The direct serialization graph. Its nodes are transactions, followed by moments, which form a
//! path in the order of real time.

use std::collections::VecDeque;

use super::Item;

/// Why one transaction comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It wrote what the other replaced.
    Ww(Item),
    /// It wrote what the other saw.
    Wr(Item),
    /// It saw what the other replaced.
    Rw(Item),
    /// It left a row outside a range, and the other scanned the range without the row.
    RangeWr(Item),
    /// It scanned a range without a row that the other put there.
    RangeRw(Item),
    /// It had ended when the other began.
    Time,
}

/// An edge of a cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) why: Why,
}

#[derive(Debug, Clone)]
pub(super) struct Graph {
    /// The number of transactions; the nodes after them are moments.
    count: usize,
    edges: Vec<Vec<(usize, Why)>>,
}

/// Which transactions each node comes before.
pub(super) struct Reach {
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    pub(super) fn is_before(&self, from: usize, to: usize) -> bool {
        self.bits[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }
}

impl Graph {
    pub(super) fn new(count: usize) -> Self {
        Self { count, edges: vec![Vec::new(); count] }
    }

    /// Adds an edge unless it exists or leads to its own start. Returns whether it was added.
    pub(super) fn add(&mut self, from: usize, to: usize, why: Why) -> bool {
        let is_new = from != to && !self.edges[from].contains(&(to, why));
        if is_new {
            self.edges[from].push((to, why));
        }
        is_new
    }

    /// Adds edges of real time: a transaction of `entering` comes before every transaction of
    /// `leaving` with a later moment.
    pub(super) fn add_time(
        &mut self,
        entering: impl Iterator<Item = (u64, usize)>,
        leaving: impl Iterator<Item = (u64, usize)>,
    ) {
        let mut moments: Vec<(u64, usize, bool)> = entering.map(|(m, at)| (m, at, true)).collect();
        moments.extend(leaving.map(|(moment, at)| (moment, at, false)));
        moments.sort_unstable();
        for (number, (_, at, enters)) in moments.into_iter().enumerate() {
            let moment = self.edges.len();
            self.edges.push(Vec::new());
            if number > 0 {
                self.edges[moment - 1].push((moment, Why::Time));
            }
            if enters {
                self.edges[at].push((moment, Why::Time));
            } else {
                self.edges[moment].push((at, Why::Time));
            }
        }
    }

    /// The nodes in topological order; nodes in or behind a cycle are missing.
    fn order(&self) -> Vec<usize> {
        let mut before = vec![0usize; self.edges.len()];
        self.edges.iter().flatten().for_each(|(to, _)| before[*to] += 1);
        let mut order: Vec<usize> = (0..before.len()).filter(|at| before[*at] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for (to, _) in &self.edges[order[next]] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    order.push(*to);
                }
            }
            next += 1;
        }
        order
    }

    /// The transitive closure; `None` if there is a cycle.
    pub(super) fn reach(&self) -> Option<Reach> {
        let order = self.order();
        if order.len() < self.edges.len() {
            return None;
        }
        let words = self.count.div_ceil(64);
        let mut bits = vec![0u64; words * self.edges.len()];
        for from in order.into_iter().rev() {
            for (to, _) in &self.edges[from] {
                for word in 0..words {
                    bits[from * words + word] |= bits[to * words + word];
                }
                if *to < self.count {
                    bits[from * words + to / 64] |= 1 << (to % 64);
                }
            }
        }
        Some(Reach { words, bits })
    }

    /// A cycle of as few transactions as possible, if there is any.
    pub(super) fn cycle(&self) -> Option<Vec<Step>> {
        let order = self.order();
        if order.len() == self.edges.len() {
            return None;
        }
        let mut is_left = vec![true; self.edges.len()];
        order.into_iter().for_each(|at| is_left[at] = false);
        let starts = (0..self.count).filter(|at| is_left[*at]);
        starts.filter_map(|start| self.back_to(start, &is_left)).min_by_key(Vec::len)
    }

    /// The shortest path from a transaction to itself. Edges into moments cost nothing.
    fn back_to(&self, start: usize, is_left: &[bool]) -> Option<Vec<Step>> {
        let mut came: Vec<Option<(usize, Why)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for (to, why) in &self.edges[at] {
                if !is_left[*to] || came[*to].is_some() {
                    continue;
                }
                came[*to] = Some((at, *why));
                if *to == start {
                    return Some(self.way(start, &came));
                }
                if *to < self.count { queue.push_back(*to) } else { queue.push_front(*to) }
            }
        }
        None
    }

    fn way(&self, start: usize, came: &[Option<(usize, Why)>]) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut at, mut to) = (start, start);
        loop {
            let (from, why) = came[at].expect("the search came from somewhere");
            if from < self.count {
                steps.push(Step { from, to, why });
                to = from;
            }
            at = from;
            if at == start {
                steps.reverse();
                return steps;
            }
        }
    }
}
