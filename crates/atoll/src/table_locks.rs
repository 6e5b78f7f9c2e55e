//! Locks of tables: transactions use a table together, and a definition has it alone.
//!
//! A transaction that uses a table announces the table's number in a list of its own, which stays
//! until the transaction ends. A definition, which drops or alters a table, first becomes its
//! *definer*, so that no other transaction begins to use it, and then waits until no other list has
//! the table. So a use writes to no cache line that other transactions write, and it is the
//! definition that looks at all lists.
//!
//! - `USE-1`: a transaction announces a table before it reads the table's definer; a definition
//!   becomes definer before it reads the lists, with a barrier on all threads between
//!   (`MEMBARRIER-1`). So the transaction sees the definer, or the definition sees the use.
//! - `USE-2`: the version of a table changes only while a definition has the table alone. A handle
//!   of another version is refused, so an operation never sees a table that changes under it.
//! - `USE-3`: the transaction that closes a cycle of waits for tables and names is told that it is
//!   in a deadlock. A cycle that leads through waits for rows is not seen, but assumed if what
//!   stands in the way waits for rows without end, see [`ROWS_POLLS`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_machine::{Native, membarrier};
use atoll_txn::registry::TxnContext;

/// Numbers of a list that need no latch.
const FEW: usize = 8;
/// Parts of the register of lists, so that transactions which begin do not wait for each other.
const SHARDS: usize = 16;
/// A wait looks again after this time: a transaction that ends wakes those that wait for it only if
/// it sees them, and it has no fence to be sure.
const POLL: Duration = Duration::from_millis(5);
/// A transaction that holds tables takes itself to be in a deadlock if, in a part of so many polls,
/// what it waits for waits for rows itself: after about a second. The part is small, because one
/// that waits for a row looks at it now and then.
const ROWS_POLLS: u32 = 200;
const ROWS_PART: u32 = 4;
/// The version of a table that was dropped.
const GONE: u64 = u64::MAX;

/// What handles and transactions share of a table.
#[derive(Debug)]
pub(crate) struct TableLock {
    /// Unique in the process, and greater than those of older tables.
    number: u64,
    /// The transaction that defines the table or waits to do so; 0 if there is none.
    definer: AtomicU64,
    /// See `USE-2`.
    version: AtomicU64,
}

impl TableLock {
    /// For a new table.
    pub(crate) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, definer: AtomicU64::new(0), version: AtomicU64::new(0) })
    }

    /// Orders tables by their creation.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the table was dropped.
    pub(crate) fn is_gone(&self) -> bool {
        self.version() == GONE
    }

    /// A version that no table has had.
    pub(crate) fn next_version() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// The version that a handle needs.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes all handles of the table useless that are of an earlier version. The caller has it
    /// alone.
    pub(crate) fn set_version(&self, version: u64) {
        self.version.store(version, Ordering::Release);
    }

    /// Makes all handles of the table useless: it has been dropped. The caller has it alone.
    pub(crate) fn set_gone(&self) {
        self.version.store(GONE, Ordering::Release);
    }
}

/// The tables that a transaction uses, as definitions see them.
pub(crate) struct Uses {
    /// The transaction.
    number: u64,
    context: Arc<TxnContext<Native>>,
    /// Numbers of tables; 0 is none. Only the transaction stores here.
    few: [AtomicU64; FEW],
    more: Mutex<Vec<u64>>,
}

impl Uses {
    pub(crate) fn new(number: u64, context: Arc<TxnContext<Native>>) -> Arc<Self> {
        let (few, more) = ([const { AtomicU64::new(0) }; FEW], Mutex::default());
        Arc::new(Self { number, context, few, more })
    }

    fn announce(&self, table: u64) {
        let is_free = |place: &&AtomicU64| place.load(Ordering::Relaxed) == 0;
        match self.few.iter().find(is_free) {
            Some(place) => place.store(table, Ordering::Release),
            None => lock(&self.more).push(table),
        }
    }

    fn withdraw(&self, table: u64) {
        match self.few.iter().find(|place| place.load(Ordering::Relaxed) == table) {
            Some(place) => place.store(0, Ordering::Release),
            None => lock(&self.more).retain(|other| *other != table),
        }
    }

    fn clear(&self) {
        let mut is_full = true;
        for place in &self.few {
            match place.load(Ordering::Relaxed) {
                0 => is_full = false,
                _ => place.store(0, Ordering::Release),
            }
        }
        if is_full {
            lock(&self.more).clear();
        }
    }

    fn has(&self, table: u64) -> bool {
        self.few.iter().any(|place| place.load(Ordering::Acquire) == table)
            || lock(&self.more).contains(&table)
    }
}

/// Why a lock was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The one that waited was told to give up.
    GaveUp,
    /// `USE-3`.
    Deadlock,
}

/// Asked now and then whether to give up a wait; told whether the wait has just begun.
pub(crate) type Ask<'p> = &'p mut dyn FnMut(bool) -> bool;

/// See the module.
#[derive(Default)]
pub(crate) struct TableLocks {
    uses: [Mutex<HashMap<u64, Arc<Uses>>>; SHARDS],
    book: Mutex<Book>,
    changed: Condvar,
    /// Waits in progress.
    waits: AtomicUsize,
}

#[derive(Default)]
struct Book {
    /// Names that definitions have to themselves, and by which transaction.
    names: HashMap<String, u64>,
    /// What transactions wait for.
    waits: HashMap<u64, Wait>,
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The end of a transaction that defines.
    Definer(u64),
    /// The end of all others that use a table.
    Users(u64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between an announcement and the look at the definer (`USE-1`).
fn light_fence() {
    if membarrier::is_available() {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

impl TableLocks {
    fn shard(&self, transaction: u64) -> &Mutex<HashMap<u64, Arc<Uses>>> {
        &self.uses[transaction as usize % SHARDS]
    }

    /// Adds the list of a transaction.
    pub(crate) fn register(&self, uses: &Arc<Uses>) {
        lock(self.shard(uses.number)).insert(uses.number, Arc::clone(uses));
    }

    /// Removes it.
    pub(crate) fn unregister(&self, uses: &Uses) {
        lock(self.shard(uses.number)).remove(&uses.number);
        self.end(uses);
    }

    /// A transaction begins to use a table; it waits while another one defines the table. Returns
    /// whether it has not used it before.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn share(
        &self,
        by: &Uses,
        table: &TableLock,
        ask: Ask<'_>,
    ) -> Result<bool, Refused> {
        if by.has(table.number) {
            return Ok(false);
        }
        loop {
            by.announce(table.number);
            light_fence();
            let definer = table.definer.load(Ordering::Acquire);
            if definer == 0 || definer == by.number {
                return Ok(true);
            }
            by.withdraw(table.number);
            self.wake();
            self.wait(by, ask, |_| match table.definer.load(Ordering::Acquire) {
                0 => None,
                definer => Some(Wait::Definer(definer)),
            })?;
        }
    }

    /// A transaction does not use a table after all.
    pub(crate) fn unshare(&self, by: &Uses, table: &TableLock) {
        by.withdraw(table.number);
        self.wake();
    }

    /// A transaction ends: it uses no table any more.
    pub(crate) fn end(&self, by: &Uses) {
        by.clear();
        self.wake();
    }

    /// Gives a transaction a table alone, until [`TableLocks::release`].
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn define(&self, by: &Uses, table: &TableLock, ask: Ask<'_>) -> Result<(), Refused> {
        let had = table.definer.load(Ordering::Acquire) == by.number;
        let alone = self.wait(by, ask, |_| {
            let is_new = match table.definer.load(Ordering::Acquire) {
                0 => true,
                definer if definer == by.number => false,
                definer => return Some(Wait::Definer(definer)),
            };
            if is_new {
                // Others do so under the latch of the book, too.
                table.definer.store(by.number, Ordering::SeqCst);
                membarrier();
            }
            let in_use = self.users(table.number, by.number).next().is_some();
            in_use.then_some(Wait::Users(table.number))
        });
        if alone.is_err() && !had && table.definer.load(Ordering::Acquire) == by.number {
            self.release(by, [table], &[]);
        }
        alone
    }

    /// Gives a transaction a name to itself, until [`TableLocks::release`].
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn reserve(&self, by: &Uses, name: &str, ask: Ask<'_>) -> Result<(), Refused> {
        self.wait(by, ask, |book| match book.names.get(name) {
            Some(other) if *other != by.number => Some(Wait::Definer(*other)),
            _ => {
                book.names.insert(name.to_owned(), by.number);
                None
            }
        })
    }

    /// Ends definitions: others may use these tables and names.
    pub(crate) fn release<'t>(
        &self,
        by: &Uses,
        tables: impl IntoIterator<Item = &'t TableLock>,
        names: &[String],
    ) {
        let mut book = lock(&self.book);
        for table in tables {
            if table.definer.load(Ordering::Acquire) == by.number {
                table.definer.store(0, Ordering::Release);
            }
        }
        for name in names {
            book.names.remove(name);
        }
        drop(book);
        self.wake();
    }

    /// The transactions that use a table, without one.
    fn users(&self, table: u64, without: u64) -> impl Iterator<Item = Arc<Uses>> {
        self.uses.iter().flat_map(move |shard| {
            let shard = lock(shard);
            let others = shard.values().filter(|uses| uses.number != without && uses.has(table));
            others.cloned().collect::<Vec<_>>()
        })
    }

    /// Those that a transaction waits for.
    fn blockers(&self, by: u64, wait: Wait) -> Vec<Arc<Uses>> {
        match wait {
            Wait::Definer(other) => {
                lock(self.shard(other)).get(&other).cloned().into_iter().collect()
            }
            Wait::Users(table) => self.users(table, by).collect(),
        }
    }

    fn wake(&self) {
        if self.waits.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.book));
            self.changed.notify_all();
        }
    }

    /// Waits until `open` finds nothing that it has to wait for.
    fn wait(
        &self,
        by: &Uses,
        ask: Ask<'_>,
        mut open: impl FnMut(&mut Book) -> Option<Wait>,
    ) -> Result<(), Refused> {
        let mut book = lock(&self.book);
        let Some(mut wait) = open(&mut book) else { return Ok(()) };
        self.waits.fetch_add(1, Ordering::SeqCst);
        let (mut is_first, mut polls, mut stuck) = (true, 0, 0);
        let done = loop {
            book.waits.insert(by.number, wait);
            let blockers = self.blockers(by.number, wait);
            if self.is_cycle(&book, by.number, &blockers) {
                break Err(Refused::Deadlock);
            }
            polls += 1;
            stuck += u32::from(blockers.iter().any(|other| other.context.waits()));
            if polls == ROWS_POLLS {
                if stuck * ROWS_PART >= polls && self.holds_any(&book, by) {
                    break Err(Refused::Deadlock);
                }
                (polls, stuck) = (0, 0);
            }
            drop(blockers);
            let waited = self.changed.wait_timeout(book, POLL);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if ask(std::mem::take(&mut is_first)) {
                book = lock(&self.book);
                break Err(Refused::GaveUp);
            }
            book = lock(&self.book);
            match open(&mut book) {
                Some(next) => wait = next,
                None => break Ok(()),
            }
        };
        book.waits.remove(&by.number);
        drop(book);
        self.waits.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Whether others may be waiting for a transaction.
    fn holds_any(&self, book: &Book, by: &Uses) -> bool {
        by.few.iter().any(|place| place.load(Ordering::Relaxed) != 0)
            || book.names.values().any(|holder| *holder == by.number)
            || book.waits.values().any(|wait| matches!(wait, Wait::Definer(of) if *of == by.number))
    }

    /// Whether waits lead from these back to a transaction.
    fn is_cycle(&self, book: &Book, to: u64, from: &[Arc<Uses>]) -> bool {
        let mut seen: Vec<u64> = Vec::new();
        let mut next: Vec<u64> = from.iter().map(|uses| uses.number).collect();
        while let Some(one) = next.pop() {
            if one == to {
                return true;
            }
            if seen.contains(&one) {
                continue;
            }
            seen.push(one);
            if let Some(wait) = book.waits.get(&one) {
                next.extend(self.blockers(one, *wait).iter().map(|uses| uses.number));
            }
        }
        false
    }
}
