//! Actors: an actor runs plans on one thread and records what its transactions read and wrote.
//!
//! An actor retries a plan that a conflict rolled back, up to a limit. Each attempt is a
//! transaction of the history, because no transaction may see what a failed attempt wrote.

use std::sync::Arc;

use atoll::machine::Machine;
use atoll_txn::history::{End, Item, Left, Op, Over, Transaction};

use super::hands::{AMOUNT, Halt, Hands, How, ID, MARK, NAME, NAMED, PLACE, Row, STAMP, VERSION};
use super::scene::Scene;
use super::truths::{
    AMOUNT_ZERO, Fault, amount, amount_of, amount_word, check_key, check_order, check_row,
    check_rows, check_twins, mark, name_item, name_word,
};
use super::workload::{
    AMOUNT_AT_FIRST, FLOOD, Look, NAMES, PAIRS_END, PLACES, PURGE, Plan, Step, TWINS_END, Walk,
    own_name, pair_of,
};

/// Most attempts at a plan.
const ATTEMPTS_MAX: u32 = 10;
/// Most turns, as a power of two, for which a hurried transaction waits before its next attempt.
const TURNS_BITS_MAX: u32 = 6;

/// A thread of a run.
pub struct Actor<M: Machine> {
    scene: Arc<Scene<M>>,
    hands: Hands<M>,
    thread: u32,
    now: Transaction,
    /// Faults of the current attempt; they count if it commits.
    faults: Vec<Fault>,
}

impl<M: Machine> Actor<M> {
    /// An actor for thread number `thread`.
    ///
    /// # Errors
    /// An error of the engine.
    pub fn new(scene: &Arc<Scene<M>>, thread: u32) -> Result<Self, String> {
        let hands = scene.ground.hands()?;
        let now = scene.recorder.begin(thread);
        Ok(Self { scene: Arc::clone(scene), hands, thread, now, faults: Vec::new() })
    }

    /// Runs plans, and collects garbage between some of them.
    pub fn run_all(&mut self, plans: &[Plan]) {
        for (number, plan) in (self.thread as usize..).zip(plans) {
            self.run(plan);
            if number % 3 == 0 {
                self.hands.collect_garbage(1 << (number % 8));
            }
        }
    }

    /// Runs a plan.
    pub fn run(&mut self, plan: &Plan) {
        for attempt in 0..ATTEMPTS_MAX {
            self.faults.clear();
            self.now = self.scene.recorder.begin(self.thread);
            let end = self.attempt(plan);
            let now = std::mem::replace(&mut self.now, self.scene.recorder.begin(self.thread));
            match end {
                Ok(end) => {
                    self.scene.recorder.end(now, end);
                    let committed = u64::from(end == End::Committed);
                    self.scene.count(|tally| {
                        tally.committed += committed;
                        tally.rolled_back += 1 - committed;
                    });
                    self.faults.drain(..).for_each(|fault| self.scene.fault(fault));
                    return;
                }
                Err(Halt::Conflict) => {
                    self.scene.recorder.end(now, End::Aborted);
                    self.scene.count(|tally| tally.aborted += 1);
                    if self.scene.readers_never_abort && plan.read_only {
                        let text = format!("attempt {attempt} of {plan:?} was rolled back");
                        return self.scene.fault(Fault { kind: "reader aborted".to_owned(), text });
                    }
                    // A hurried transaction waits for more turns after each attempt, as in lanes.
                    let turns = if plan.hurried { 1 << attempt.min(TURNS_BITS_MAX) } else { 1 };
                    (0..turns).for_each(|_| M::wait(attempt));
                }
                Err(Halt::Taken) => {
                    self.scene.recorder.end(now, End::Committed);
                    self.scene.count(|tally| tally.refused += 1);
                    self.faults.drain(..).for_each(|fault| self.scene.fault(fault));
                    return;
                }
                Err(Halt::Error(text)) => {
                    self.hands.roll_back();
                    self.scene.recorder.end(now, End::Aborted);
                    return self.scene.fault(Fault { kind: "error".to_owned(), text });
                }
            }
        }
    }

    fn attempt(&mut self, plan: &Plan) -> Result<End, Halt> {
        let keys: Option<Vec<Vec<i64>>> = plan.steps.iter().map(|step| step.keys()).collect();
        let keys = keys.map(|keys| keys.concat());
        // The row that has a name may be in any partition.
        let names = self.scene.cast.named && plan.steps.iter().any(|step| step.names());
        let keys = keys.filter(|_| !names);
        self.hands.begin(keys.as_deref(), plan)?;
        for (at, step) in plan.steps.iter().enumerate() {
            if at % 2 == 1 {
                // The next step may run on another worker.
                self.hands.park();
            }
            self.step(*step)?;
        }
        if plan.rolls_back {
            self.hands.roll_back();
            self.faults.clear();
            return Ok(End::Aborted);
        }
        self.hands.commit()?;
        Ok(End::Committed)
    }

    fn step(&mut self, step: Step) -> Result<(), Halt> {
        match step {
            Step::Read(key) => self.read(key).map(|_| ()),
            Step::Edit(key) => self.edit(key),
            Step::ReadAndUpdate(key) => self.update(key, None),
            Step::OwnAndUpdate(key) => {
                let is_twin = (PAIRS_END..TWINS_END).contains(&key);
                if !is_twin && !self.hands.update(key, &[(STAMP, 1)])? {
                    self.now.read(Item::row(key), None);
                }
                self.update(key, None)
            }
            Step::Move(key, place) => self.update(key, Some(place)),
            Step::Insert(key, place, name) => self.insert(key, place, name),
            Step::Delete(key) => self.delete(key),
            Step::Replace(key, place, name) => {
                self.delete(key)?;
                self.insert(key, place, name)
            }
            Step::Rename(key, name) => self.rename(key, name),
            Step::ScanKeys(walk) => self.scan(Over::Key, &walk).map(|_| ()),
            Step::ScanPlaces(walk) => self.scan(Over::Place, &walk).map(|_| ()),
            Step::ScanNames(walk) => self.scan_names(&walk),
            Step::ScanHeap => self.scan_heap(),
            Step::Transfer(from, to) => self.transfer(from, to),
            Step::Withdraw(key) => self.withdraw(key),
            Step::Deposit(key) => self.deposit(key),
            Step::Stamp(first) => self.stamp(first),
            Step::ReadTwins => {
                let one = self.read(PAIRS_END)?.map(|row| row[STAMP]);
                let two = self.read(PAIRS_END + 1)?.map(|row| row[STAMP]);
                self.faults.extend(check_twins([one, two]));
                Ok(())
            }
            Step::Audit => {
                let walk = Walk { from: 0, to: i64::MAX, descending: false, limit: usize::MAX };
                let rows = self.scan(Over::Key, &walk)?;
                let rows = rows.into_iter().map(|row| (row[ID], row)).collect();
                self.faults.extend(check_rows(&rows));
                Ok(())
            }
            Step::Visit(looks) => self.visit(&looks).map(|_| ()),
            Step::Apply(looks) => self.apply(&looks),
            Step::Tour(end, look) => self.tour(end, look),
            Step::Flood(key, place) => self.flood(key, place),
            Step::Purge(key) => (0..PURGE).try_for_each(|more| self.delete(key + more)),
            Step::Rest => {
                M::wait(u32::MAX); // natively, lets another thread have the CPU
                Ok(())
            }
        }
    }

    fn saw(&mut self, row: &Row) {
        self.faults.extend(check_row(row));
        self.now.read(Item::row(row[ID]), Some(row[VERSION] as u64));
        self.now.read(amount_of(row[ID]), Some(row[AMOUNT] as u64));
        if let Some(name) = name_item(row[NAME]) {
            self.now.read(name, Some(row[NAMED] as u64));
        }
    }

    fn read(&mut self, key: i64) -> Result<Option<Row>, Halt> {
        let row = self.hands.read(key)?;
        match &row {
            Some(row) => {
                self.faults.extend(check_key(key, row));
                self.saw(row);
            }
            None => self.now.read(Item::row(key), None),
        }
        Ok(row)
    }

    fn edit(&mut self, key: i64) -> Result<(), Halt> {
        let version = self.scene.recorder.version();
        let before = self.hands.edit(key, |row| {
            vec![(VERSION, version as i64), (MARK, mark(version as i64, row[PLACE]))]
        })?;
        let Some(row) = before else {
            self.now.read(Item::row(key), None);
            return Ok(());
        };
        self.saw(&row);
        let after = Some(Left { version, place: row[PLACE] });
        self.now.wrote(Item::row(key), Some(row[VERSION] as u64), after);
        Ok(())
    }

    fn tour(&mut self, end: i64, change: Look) -> Result<(), Halt> {
        let look = |key| if key == change.key { change } else { Look::at(key) };
        let looks: Vec<Look> = (0..end).map(look).collect();
        let rows = self.visit(&looks)?.into_iter().flatten();
        let rows = rows.map(|row| (row[ID], row)).collect();
        self.faults.extend(check_rows(&rows));
        Ok(())
    }

    fn visit(&mut self, looks: &[Look]) -> Result<Vec<Option<Row>>, Halt> {
        let keys: Vec<i64> = looks.iter().map(|look| look.key).collect();
        let versions: Vec<u64> = looks.iter().map(|_| self.scene.recorder.version()).collect();
        let seen = self.hands.visit(
            &keys,
            |at| looks[at].changes,
            |at, row| {
                let to = looks[at].place.unwrap_or(row[PLACE]);
                let version = versions[at] as i64;
                let mut numbers = vec![(VERSION, version), (MARK, mark(version, to))];
                numbers.extend(looks[at].place.map(|place| (PLACE, place)));
                numbers
            },
        )?;
        self.looked(looks, &versions, &seen);
        Ok(seen)
    }

    fn apply(&mut self, looks: &[Look]) -> Result<(), Halt> {
        let keys: Vec<i64> = looks.iter().map(|look| look.key).collect();
        let versions: Vec<u64> = looks.iter().map(|_| self.scene.recorder.version()).collect();
        let how = match versions.first().map_or(0, |version| version % 3) {
            0 => How::Together,
            1 => How::Alone,
            _ => How::OneByOne,
        };
        let seen = self.hands.apply(&keys, how, |at| {
            let version = versions[at] as i64;
            let to = looks[at].place.into_iter();
            to.flat_map(|to| [(VERSION, version), (PLACE, to), (MARK, mark(version, to))]).collect()
        })?;
        match seen {
            Ok(seen) => self.looked(looks, &versions, &seen),
            Err(text) => self.faults.push(Fault { kind: "torn row".to_owned(), text }),
        }
        Ok(())
    }

    /// Records what was read of rows that were visited together, and the changes to them.
    fn looked(&mut self, looks: &[Look], versions: &[u64], seen: &[Option<Row>]) {
        for ((look, version), row) in looks.iter().zip(versions).zip(seen) {
            let Some(row) = row else {
                self.now.read(Item::row(look.key), None);
                continue;
            };
            self.faults.extend(check_key(look.key, row));
            self.saw(row);
            if look.changes {
                let to = look.place.unwrap_or(row[PLACE]);
                let after = Some(Left { version: *version, place: to });
                self.now.wrote(Item::row(look.key), Some(row[VERSION] as u64), after);
            }
        }
    }

    fn update(&mut self, key: i64, place: Option<i64>) -> Result<(), Halt> {
        let Some(row) = self.read(key)? else { return Ok(()) };
        let version = self.scene.recorder.version();
        let to = place.unwrap_or(row[PLACE]);
        let mut changes = vec![(VERSION, version as i64), (MARK, mark(version as i64, to))];
        changes.extend(place.map(|place| (PLACE, place)));
        if self.hands.update(key, &changes)? {
            let after = Some(Left { version, place: to });
            self.now.wrote(Item::row(key), Some(row[VERSION] as u64), after);
        } else {
            self.now.read(Item::row(key), None);
        }
        Ok(())
    }

    fn insert(&mut self, key: i64, place: i64, name: i64) -> Result<(), Halt> {
        let row = self.new_row(key, place, name);
        let inserted = self.hands.insert(&row).map_err(|halt| self.refused(name, halt))?;
        self.inserted(&row, inserted);
        Ok(())
    }

    /// Inserts rows in one call, except those with a key that exists.
    fn flood(&mut self, first: i64, place: i64) -> Result<(), Halt> {
        let new = (first..first + FLOOD).zip(place..);
        let rows: Vec<Row> =
            new.map(|(key, place)| self.new_row(key, place % PLACES, own_name(key))).collect();
        let mut left = &rows[..];
        while !left.is_empty() {
            let count = self
                .hands
                .insert_rows(left)
                .map_err(|halt| self.refused(own_name(left[0][ID]), halt))?;
            left[..count].iter().for_each(|row| self.inserted(row, true));
            left[count..].iter().take(1).for_each(|row| self.inserted(row, false));
            left = left.get(count + 1..).unwrap_or_default();
        }
        Ok(())
    }

    fn new_row(&self, key: i64, place: i64, name: i64) -> Row {
        let version = self.scene.recorder.version();
        let (mark, word) = (mark(version as i64, place), amount_word(version, 0));
        [key, version as i64, place, mark, word, 0, name, name_word(version, name)]
    }

    /// Records that a row was inserted, or that its key existed.
    fn inserted(&mut self, row: &Row, is_new: bool) {
        let item = Item::row(row[ID]);
        if !is_new {
            return self.now.ops.push(Op::Exists { item });
        }
        self.now.wrote(item, None, Some(Left { version: row[VERSION] as u64, place: row[PLACE] }));
        let amount = Some(Left { version: row[AMOUNT] as u64, place: 0 });
        self.now.wrote(amount_of(row[ID]), None, amount);
        self.named(None, Some((row[NAME], row[NAMED])));
    }

    fn delete(&mut self, key: i64) -> Result<(), Halt> {
        let Some(row) = self.read(key)? else { return Ok(()) };
        if self.hands.delete(key)? {
            self.now.wrote(Item::row(key), Some(row[VERSION] as u64), None);
            self.now.wrote(amount_of(key), Some(row[AMOUNT] as u64), None);
            self.named(Some((row[NAME], row[NAMED])), None);
        } else {
            self.now.read(Item::row(key), None);
        }
        Ok(())
    }

    fn rename(&mut self, key: i64, name: i64) -> Result<(), Halt> {
        let Some(row) = self.read(key)? else { return Ok(()) };
        let named = name_word(self.scene.recorder.version(), name);
        let updated = self.hands.update(key, &[(NAME, name), (NAMED, named)]);
        if updated.map_err(|halt| self.refused(name, halt))? {
            self.named(Some((row[NAME], row[NAMED])), Some((name, named)));
        } else {
            self.now.read(Item::row(key), None);
        }
        Ok(())
    }

    /// Records that a row had one name before, and has another after.
    fn named(&mut self, before: Option<(i64, i64)>, after: Option<(i64, i64)>) {
        let is_same = before.map(|(name, _)| name) == after.map(|(name, _)| name);
        let left = |word: i64| Some(Left { version: word as u64, place: 0 });
        if let Some((name, word)) = before
            && let Some(item) = name_item(name)
        {
            let after = after.filter(|_| is_same).and_then(|(_, word)| left(word));
            self.now.wrote(item, Some(word as u64), after);
        }
        if let Some((name, word)) = after.filter(|_| !is_same)
            && let Some(item) = name_item(name)
        {
            self.now.wrote(item, None, left(word));
        }
    }

    /// Handles a rollback because another row has the name: the attempt becomes a transaction that
    /// only read, up to its first write, and that saw the name in use.
    fn refused(&mut self, name: i64, halt: Halt) -> Halt {
        if !matches!(halt, Halt::Taken) {
            return halt;
        }
        let item = name_item(name);
        let own = item.and_then(|item| self.now.own(item));
        let is_write = |op: &Op| matches!(op, Op::Write { .. });
        let reads = self.now.ops.iter().position(is_write).unwrap_or(self.now.ops.len());
        self.now.ops.truncate(reads);
        match (item, own) {
            (Some(item), None) => self.now.ops.push(Op::Exists { item }),
            (Some(_), Some(Some(_))) => {} // It has itself given the name to another row.
            _ => {
                let text = format!("name {name} was refused, which no other row can have");
                self.faults.push(Fault { kind: "name refused".to_owned(), text });
            }
        }
        halt
    }

    fn scan_names(&mut self, walk: &Walk) -> Result<(), Halt> {
        let rows = self.hands.scan(NAME, walk)?;
        let (from, to) = self.check_walk(NAME, walk, &rows);
        rows.iter().for_each(|row| self.saw(row));
        let names = (from.max(0)..=to.min(NAMES - 1)).filter_map(name_item);
        let is_missing = |name: &Item| !rows.iter().any(|row| row[NAME] == name.key);
        names.filter(is_missing).for_each(|name| self.now.read(name, None));
        Ok(())
    }

    fn scan_heap(&mut self) -> Result<(), Halt> {
        let mut rows = self.hands.scan_heap()?;
        // The rows of the crowd are in no history.
        rows.retain(|row| row[ID] >= 0);
        rows.sort_unstable_by_key(|row| row[ID]);
        if let Some(twice) = rows.windows(2).find(|two| two[0][ID] == two[1][ID]) {
            let text = format!("key {} was scanned twice", twice[0][ID]);
            self.faults.push(Fault { kind: "scanned twice".to_owned(), text });
        }
        let saw = rows.iter().map(|row| (Item::row(row[ID]), row[VERSION] as u64)).collect();
        self.now.ops.push(Op::Scan { over: Over::Key, from: 0, to: i64::MAX, saw });
        rows.iter().for_each(|row| self.saw(row));
        Ok(())
    }

    fn scan(&mut self, over: Over, walk: &Walk) -> Result<Vec<Row>, Halt> {
        let column = if over == Over::Key { ID } else { PLACE };
        let rows = self.hands.scan(column, walk)?;
        let (from, to) = self.check_walk(column, walk, &rows);
        let inside = rows.iter().filter(|row| (from..=to).contains(&row[column]));
        let saw = inside.map(|row| (Item::row(row[ID]), row[VERSION] as u64)).collect();
        self.now.ops.push(Op::Scan { over, from, to, saw });
        rows.iter().for_each(|row| self.saw(row));
        Ok(rows)
    }

    /// Checks the order of rows; returns the range that was read completely.
    fn check_walk(&mut self, column: usize, walk: &Walk, rows: &[Row]) -> (i64, i64) {
        self.faults.extend(check_order(column, walk, rows));
        let (mut from, mut to) = (walk.from, walk.to);
        if rows.len() >= walk.limit
            && let Some(last) = rows.last()
        {
            // The walk stopped at this row; further rows may have the same place.
            let rest = i64::from(column == PLACE);
            if walk.descending { from = last[column] + rest } else { to = last[column] - rest }
        }
        (from, to)
    }

    fn set_amount(&mut self, row: &Row, amount: i64) -> Result<(), Halt> {
        let word = amount_word(self.scene.recorder.version(), amount);
        if self.hands.update(row[ID], &[(AMOUNT, word)])? {
            let after = Some(Left { version: word as u64, place: 0 });
            self.now.wrote(amount_of(row[ID]), Some(row[AMOUNT] as u64), after);
        } else {
            self.now.read(Item::row(row[ID]), None);
        }
        Ok(())
    }

    fn transfer(&mut self, from: i64, to: i64) -> Result<(), Halt> {
        let (Some(one), Some(two)) = (self.read(from)?, self.read(to)?) else { return Ok(()) };
        if amount(&one) > 0 {
            self.set_amount(&one, amount(&one) - 1)?;
            self.set_amount(&two, amount(&two) + 1)?;
        }
        Ok(())
    }

    fn withdraw(&mut self, key: i64) -> Result<(), Halt> {
        let (Some(one), Some(two)) = (self.read(key)?, self.read(pair_of(key))?) else {
            return Ok(());
        };
        if amount(&one) + amount(&two) > 0 && amount(&one) > -AMOUNT_ZERO {
            self.set_amount(&one, amount(&one) - 1)?;
        }
        Ok(())
    }

    fn deposit(&mut self, key: i64) -> Result<(), Halt> {
        let Some(row) = self.read(key)? else { return Ok(()) };
        if amount(&row) < AMOUNT_AT_FIRST {
            self.set_amount(&row, amount(&row) + 1)?;
        }
        Ok(())
    }

    fn stamp(&mut self, first: bool) -> Result<(), Halt> {
        let stamp = self.scene.recorder.version() as i64;
        let (one, two) = (PAIRS_END + i64::from(first), PAIRS_END + i64::from(!first));
        for key in [one, two] {
            if !self.hands.update(key, &[(STAMP, stamp)])? {
                self.now.read(Item::row(key), None);
            }
        }
        Ok(())
    }
}
