//! Step 1 of the check: each transaction by itself.

use std::collections::BTreeMap;

use super::chains::{Net, OverKey, Told, is_in_range};
use super::{Anomaly, History, Item, Kind, Op, Transaction, Version};

/// What a transaction learned about a state that another one has written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    pub(super) item: Item,
    pub(super) told: Told,
}

struct Looking<'h> {
    history: &'h History,
    items: &'h [Item],
    at: usize,
    own: BTreeMap<Item, Net>,
    /// Versions of other transactions that it has seen; `None` for an absent item.
    seen: BTreeMap<Item, Option<Version>>,
    sights: Vec<Sight>,
}

/// Returns what the transaction saw of others, and its net effects.
pub(super) fn look_back(
    history: &History,
    items: &[Item],
    at: usize,
    one: &Transaction,
) -> Result<(Vec<Sight>, BTreeMap<Item, Net>), Anomaly> {
    let mut looking = Looking {
        history,
        items,
        at,
        own: BTreeMap::new(),
        seen: BTreeMap::new(),
        sights: Vec::new(),
    };
    for op in &one.ops {
        match op {
            Op::Read { item, saw } => looking.saw(*item, *saw)?,
            Op::Exists { item } => looking.exists(*item)?,
            Op::Write { item, before, after } => {
                looking.saw(*item, *before)?;
                let net = looking.own.entry(*item).or_insert(Net { before: *before, after: None });
                net.after = *after;
            }
            Op::Scan { over, from, to, saw } => {
                looking.scanned((*over).into(), *from, *to, saw)?;
            }
        }
    }
    Ok((looking.sights, looking.own))
}

impl Looking<'_> {
    fn saw(&mut self, item: Item, saw: Option<Version>) -> Result<(), Anomaly> {
        if let Some(own) = self.own.get(&item) {
            let left = own.after.map(|left| left.version);
            return if left == saw { Ok(()) } else { Err(self.missed(item, left, saw)) };
        }
        match self.seen.insert(item, saw) {
            Some(before) if before == saw => Ok(()),
            Some(before) => {
                let [before, now] = [before, saw].map(words);
                let text = format!("one transaction saw {item} as {before}, then as {now}");
                Err(self.history.tell(Kind::NonRepeatableRead, &[self.at], &[item], &text))
            }
            None => {
                self.sights.push(Sight { item, told: Told::State(saw) });
                Ok(())
            }
        }
    }

    fn exists(&mut self, item: Item) -> Result<(), Anomaly> {
        match self.own.get(&item) {
            Some(Net { after: None, .. }) => {
                let text = format!("a transaction deleted {item} and was told that it is there");
                Err(self.history.tell(Kind::OwnWrite, &[self.at], &[item], &text))
            }
            Some(_) => Ok(()),
            None => {
                self.sights.push(Sight { item, told: Told::Exists });
                Ok(())
            }
        }
    }

    fn missed(&self, item: Item, left: Option<Version>, saw: Option<Version>) -> Anomaly {
        let [left, saw] = [left, saw].map(words);
        let text = format!("a transaction left {item} as {left} and saw it as {saw}");
        self.history.tell(Kind::OwnWrite, &[self.at], &[item], &text)
    }

    fn scanned(
        &mut self,
        over: OverKey,
        from: i64,
        to: i64,
        saw: &[(Item, Version)],
    ) -> Result<(), Anomaly> {
        let mut found: BTreeMap<Item, Version> = BTreeMap::new();
        for (item, version) in saw {
            if found.insert(*item, *version).is_some() {
                let text = format!("a scan found {item} twice");
                return Err(self.history.tell(Kind::Phantom, &[self.at], &[*item], &text));
            }
            self.saw(*item, Some(*version))?;
        }
        let own = self.own.iter().filter_map(|(item, net)| Some((*item, net.after?)));
        for (item, left) in own {
            if is_in_range(item, left, over, from, to) && !found.contains_key(&item) {
                return Err(self.missed(item, Some(left.version), None));
            }
        }
        // Items that no transaction has written are always absent; the others have chains.
        let told = Told::Outside(over, from, to);
        for item in self.items.iter().copied() {
            if !found.contains_key(&item) && !self.own.contains_key(&item) {
                self.sights.push(Sight { item, told });
            }
        }
        Ok(())
    }
}

/// Every row that existed at any time.
pub(super) fn items(history: &History) -> Vec<Item> {
    let mut items: Vec<Item> = history.initial.keys().copied().collect();
    for op in history.transactions.iter().flat_map(|one| &one.ops) {
        if let Op::Write { item, .. } = op {
            items.push(*item);
        }
    }
    items.sort_unstable();
    items.dedup();
    items.retain(|item| item.part == 0);
    items
}

fn words(state: Option<Version>) -> String {
    state.map_or("absent".to_owned(), |version| format!("version {version}"))
}
