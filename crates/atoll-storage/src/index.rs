//! The hash index of a primary key: it maps the hash of a key to rows that may have the key.
//!
//! The index stores no keys. An entry is one word, 28 bits of the hash (the tag) and 36 bits of row
//! id, so a bucket of 8 entries is one cache line. A lookup reads one line here and one of the row,
//! to verify the row's key. The home bucket of an entry follows from the same 28 bits, so a part
//! grows without reading the keys of its rows.
//!
//! The hash selects one of 64 parts; each part is an open-addressed table of buckets that doubles
//! independently of the others. Lookups take no latch. Inserts and removals latch a bucket by a bit
//! in the line that they change anyway, so threads that insert into one table share nothing else.
//!
//! Invariants
//! - `INDEX-1`: an entry never moves within a table; a thread that grows a part fills a new table
//!   before it publishes that table. A lookup that misses repeats if the part's current table is
//!   not the one that it has searched.
//! - `INDEX-2`: old tables keep their addresses until the index is dropped, but their memory goes
//!   back to the system once the next table is published. A lookup in an old table may find it
//!   empty; a lookup that sees this also sees that the next table is published.
//! - `INDEX-3`: a thread changes the words of a bucket only under the bucket's latch. An insert or
//!   removal holds the latch of the entry's home bucket, so two inserts of one key exclude each
//!   other. While it holds a latch it never waits for another one: it unlatches and retries.
//! - `INDEX-4`: a thread that grows a part first latches all buckets of the current table. So a
//!   thread that holds a latch of the current table holds a latch of the current table until it
//!   unlatches. A latch of an old table protects nothing.
//! - `INDEX-5`: `arrays` leads to the current table of a part. That table is stored in `tables`
//!   before, and its generation in `current` afterwards, so `current` is at most one generation
//!   behind.
//! - `INDEX-6`: an entry is in the first bucket, from its home bucket on, that had a free word. A
//!   word that has been used never becomes empty again while its table is current. So no entry is
//!   beyond a bucket of the current table that has an empty word.
//!
//! All shared words except those of `BucketArrays`, which are pointers, are words of [`Machine`].

use std::hint::cold_path;
use std::ptr;
use std::sync::OnceLock;

use atoll_machine::huge_pages::{self, Array};
use atoll_machine::{Machine, Ordering, Word, WordLine};

use crate::bucket_arrays::BucketArrays;
use crate::layout::RowId;

const PARTS_BITS: u32 = 6;
const PARTS: usize = 1 << PARTS_BITS;
const BUCKET: usize = 8;
const FIRST_BUCKETS_BITS: u32 = 1;
const GROWTHS: usize = 40;

const EMPTY: u64 = 0;
/// A tombstone: lookups continue past it, inserts may reuse it. No row id has this value.
const TOMBSTONE: u64 = !LATCHED;
const TAG_BITS: u32 = 28;
const TAG_MASK: u64 = !0 << (64 - TAG_BITS);
/// In the first word of a bucket: a thread has latched the bucket.
const LATCHED: u64 = 1 << (63 - TAG_BITS);
const ROW_MASK: u64 = LATCHED - 1;
const _: () = assert!(crate::layout::SEGMENTS_MAX << crate::layout::SLOT_BITS < ROW_MASK);
/// Number of buckets that an insert probes before the part grows. A part that is nearly empty (many
/// keys of one hash) doubles this number instead.
const PROBES_FIRST: usize = 4;

/// See the module.
pub struct HashIndex<M: Machine> {
    /// The current table of each part: all that nearly every lookup needs.
    arrays: BucketArrays<WordLine<M::Word>, PARTS>,
    parts: Box<[Part<M>; PARTS]>,
}

#[repr(align(64))]
struct Part<M: Machine> {
    growing: M::Word,
    /// Generation of the current table, its position in `tables`, or the generation before
    /// (`INDEX-5`).
    current: M::Word,
    tables: [OnceLock<Buckets<M>>; GROWTHS],
}

struct Buckets<M: Machine> {
    buckets: Array<WordLine<M::Word>>,
    bits: u32,
    probes: usize,
}

struct Bucket<'t, M: Machine>(&'t WordLine<M::Word>);

impl<M: Machine> Clone for Bucket<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Bucket<'_, M> {}

impl<'t, M: Machine> Bucket<'t, M> {
    #[inline]
    fn words(self) -> &'t [M::Word; BUCKET] {
        &self.0.0
    }

    #[inline]
    fn is(self, other: Self) -> bool {
        ptr::eq(self.0, other.0)
    }

    /// The first row for which `is_it` holds, among entries with the tag of `wanted`; otherwise
    /// whether the search continues in the next bucket.
    #[inline]
    fn find(self, wanted: u64, is_it: &mut impl FnMut(RowId) -> bool) -> Result<RowId, bool> {
        const TAG: u32 = (TAG_MASK >> 32) as u32;
        // Compares the whole bucket at once: the position at which a loop would stop cannot be
        // predicted.
        let mut like = M::Word::upper_like(self.words(), (wanted >> 32) as u32, TAG);
        while like != 0 {
            let word = self.word(like.trailing_zeros() as usize % BUCKET, Ordering::Acquire);
            let row = RowId((word & ROW_MASK).wrapping_sub(1));
            // Another thread may have replaced the entry since the comparison.
            if is_entry(word) && (word ^ wanted) & TAG_MASK == 0 && is_it(row) {
                return Ok(row);
            }
            like &= like - 1;
        }
        // Inserts use the first free word, so the last word is the last to be used (INDEX-6).
        Err(self.words()[BUCKET - 1].load(Ordering::Acquire) != EMPTY)
    }

    /// A word, without the latch bit.
    #[inline]
    fn word(self, at: usize, order: Ordering) -> u64 {
        self.words()[at].load(order) & !LATCHED
    }

    #[inline]
    fn try_latch(self) -> Option<Latched<'t, M>> {
        let [first, ..] = self.words();
        let now = first.load(Ordering::Relaxed);
        let latched = now & LATCHED == 0
            && first
                .compare_exchange(now, now | LATCHED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Not `then_some`: that would make a `Latched` in any case, and dropping it would unlatch.
        latched.then(|| Latched { bucket: self, first: now })
    }

    /// Latches the bucket and never unlatches it: the table is about to be replaced (INDEX-4).
    fn latch_for_growth(self) {
        let mut round = 0;
        loop {
            match self.try_latch() {
                Some(latched) => return std::mem::forget(latched),
                None => M::wait(round),
            }
            round = round.saturating_add(1);
        }
    }
}

/// Another thread holds the latch of a bucket, and may be waiting for another one.
struct Busy;

/// A latched bucket; dropping it unlatches.
struct Latched<'b, M: Machine> {
    bucket: Bucket<'b, M>,
    /// The value that unlatching stores in the first word.
    first: u64,
}

impl<M: Machine> Latched<'_, M> {
    /// Position of the first word that satisfies `is_it`.
    fn position(&self, is_it: impl Fn(u64) -> bool) -> Option<usize> {
        (0..BUCKET).find(|at| is_it(self.bucket.word(*at, Ordering::Relaxed)))
    }

    fn put(&mut self, at: usize, word: u64) {
        if at == 0 {
            self.first = word;
        } else {
            self.bucket.words()[at].store(word, Ordering::Release);
        }
    }
}

impl<M: Machine> Drop for Latched<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.words()[0].store(self.first, Ordering::Release);
    }
}

fn is_entry(word: u64) -> bool {
    !is_free(word)
}

fn is_free(word: u64) -> bool {
    matches!(word, EMPTY | TOMBSTONE)
}

/// The home bucket of a hash. If the index has grown since, the bucket belongs to an old table and
/// may look empty.
pub struct BucketRef<'i, M: Machine>(Bucket<'i, M>);

impl<M: Machine> Clone for BucketRef<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for BucketRef<'_, M> {}

impl<M: Machine> BucketRef<'_, M> {
    /// Address of the first cache line that a lookup reads.
    #[inline]
    pub fn line(self) -> *const u8 {
        ptr::from_ref(self.0.0).cast()
    }

    /// The row of the bucket's first entry with the tag of the hash: a guess that is almost always
    /// right.
    #[inline]
    pub fn candidate(self, hash: u64) -> Option<RowId> {
        self.0.find(hash, &mut |_| true).ok()
    }
}

impl<M: Machine> Default for HashIndex<M> {
    fn default() -> Self {
        let parts: Box<[_]> = (0..PARTS).map(|_| Part::default()).collect();
        Self {
            arrays: BucketArrays::default(),
            parts: parts.try_into().ok().expect("there are `PARTS` parts"),
        }
    }
}

impl<M: Machine> Default for Part<M> {
    fn default() -> Self {
        Self {
            growing: M::Word::new(0),
            current: M::Word::new(0),
            tables: [const { OnceLock::new() }; GROWTHS],
        }
    }
}

/// The word of an entry. It stores the row id plus 1, so that no entry equals [`EMPTY`].
fn entry(hash: u64, row: RowId) -> u64 {
    hash & TAG_MASK | (row.0 + 1)
}

impl<M: Machine> HashIndex<M> {
    fn part(&self, hash: u64) -> PartOf<'_, M> {
        let number = hash as usize % PARTS;
        PartOf { arrays: &self.arrays, number, part: &self.parts[number] }
    }

    /// The home bucket of `hash`, where a lookup begins and nearly always ends.
    #[inline]
    pub fn bucket(&self, hash: u64) -> BucketRef<'_, M> {
        let bucket = self.arrays.of(hash as usize % PARTS, hash);
        BucketRef(bucket.map_or_else(|| self.first_bucket(hash), Bucket))
    }

    /// Whether this is still the home bucket of the hash in the current table.
    #[inline]
    fn is_current(&self, bucket: Bucket<'_, M>, hash: u64) -> bool {
        bucket.is(self.bucket(hash).0)
    }

    /// True only if no row has this hash: the home bucket has no entry with its tag, and no entry
    /// can be beyond that bucket (`INDEX-6`). False says nothing; the caller has to search.
    #[inline]
    pub fn lacks(&self, hash: u64) -> bool {
        let BucketRef(bucket) = self.bucket(hash);
        bucket.find(hash, &mut |_| true) == Err(false) && self.is_current(bucket, hash)
    }

    #[cold]
    fn first_bucket(&self, hash: u64) -> Bucket<'_, M> {
        self.part(hash).table(hash).bucket(hash, 0)
    }

    /// The first row with this hash for which `is_it` holds. Takes no latch; may or may not find a
    /// row that another thread inserts or removes during the call.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let mut bucket = self.bucket(hash);
        loop {
            let found = match bucket.0.find(hash, &mut is_it) {
                Ok(row) => Some(row),
                Err(true) => self.part(hash).find_beyond(bucket, hash, &mut is_it),
                Err(false) => None,
            };
            let now = self.bucket(hash);
            if found.is_some() || now.0.is(bucket.0) {
                return found;
            }
            bucket = now; // INDEX-1
        }
    }

    /// Inserts a row, unless the index has a row with the same hash for which `is_it` holds; then
    /// returns that row. Concurrent inserts of one key exclude each other here. `adding` is called
    /// when the insert is certain and before another thread can find the row.
    pub fn insert(
        &self,
        hash: u64,
        row: RowId,
        mut is_it: impl FnMut(RowId) -> bool,
        mut adding: impl FnMut(),
    ) -> Option<RowId> {
        let mut round = 0;
        loop {
            let mut latched = self.latch(hash, &mut round);
            let mut add = || {
                adding();
                entry(hash, row)
            };
            let mut is_it = |row| {
                cold_path();
                is_it(row)
            };
            let place = latched.position(is_free);
            let other = match latched.bucket.find(hash, &mut is_it) {
                Ok(other) => Some(other),
                Err(true) => {
                    self.part(hash).find_beyond(BucketRef(latched.bucket), hash, &mut is_it)
                }
                Err(false) => None,
            };
            if other.is_some() {
                return other;
            }
            if let Some(place) = place {
                latched.put(place, add());
                return None;
            }
            cold_path();
            let part = self.part(hash);
            let table = part.table(hash); // INDEX-4: the table of the latched home bucket
            match table.replace_beyond(hash, is_free, add) {
                Ok(true) => return None,
                Ok(false) => {
                    drop(latched);
                    part.grow(table);
                }
                Err(Busy) => {
                    drop(latched);
                    M::wait(round);
                    round = round.saturating_add(1);
                }
            }
        }
    }

    /// Latches the home bucket of a hash in the current table of its part.
    #[inline]
    fn latch(&self, hash: u64, round: &mut u32) -> Latched<'_, M> {
        loop {
            if let Some(latched) = self.bucket(hash).0.try_latch()
                && self.is_current(latched.bucket, hash)
            {
                return latched; // INDEX-4
            }
            M::wait(*round);
            *round = round.saturating_add(1);
        }
    }

    /// Grows all parts in advance so that they hold `rows` rows.
    pub fn reserve(&self, rows: u64) {
        let entries = rows.div_ceil(1 << PARTS_BITS) * 4 / 3;
        let bits = (entries as usize / BUCKET).max(1).next_power_of_two().ilog2();
        (0..PARTS as u64).for_each(|part| self.part(part).grow_to(bits));
    }

    /// Removes a row; returns whether the index had it.
    pub fn remove(&self, hash: u64, row: RowId) -> bool {
        let mut round = 0;
        loop {
            let mut latched = self.latch(hash, &mut round);
            let is_it = |word| word == entry(hash, row);
            if let Some(place) = latched.position(is_it) {
                latched.put(place, TOMBSTONE);
                return true;
            }
            // INDEX-4: the table of the latched home bucket.
            let table = self.part(hash).table(hash);
            if let Ok(was_there) = table.replace_beyond(hash, is_it, || TOMBSTONE) {
                return was_there;
            }
            drop(latched);
            M::wait(round);
            round = round.saturating_add(1);
        }
    }
}

/// A part of an index, with the array that leads to its current table.
struct PartOf<'i, M: Machine> {
    arrays: &'i BucketArrays<WordLine<M::Word>, PARTS>,
    number: usize,
    part: &'i Part<M>,
}

impl<'i, M: Machine> PartOf<'i, M> {
    fn at(&self, generation: u64) -> Option<&'i Buckets<M>> {
        self.part.tables.get(generation as usize)?.get()
    }

    /// The current table of the part; `hash` is any hash of the part.
    fn table(&self, hash: u64) -> &'i Buckets<M> {
        loop {
            let current = self.part.current.load(Ordering::Acquire);
            let Some(bucket) = self.arrays.of(self.number, hash) else {
                self.make_first();
                continue;
            };
            let is_named = |table: &&Buckets<M>| ptr::eq(bucket, table.bucket(hash, 0).0);
            let mut tables = [current, current + 1].into_iter().filter_map(|at| self.at(at));
            if let Some(table) = tables.find(is_named) {
                return table; // INDEX-5
            }
            // The part has grown twice since `current` was read.
        }
    }

    #[cold]
    fn make_first(&self) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if self.at(0).is_none() {
            self.name(0, Buckets::new(FIRST_BUCKETS_BITS, PROBES_FIRST));
        }
    }

    /// Makes a table current; called by the thread that grows the part.
    fn name(&self, generation: u64, table: Buckets<M>) {
        let place = &self.part.tables[generation as usize];
        assert!(place.set(table).is_ok(), "one thread grows a part at a time");
        let Some(table) = place.get() else { return };
        // The pointer in `arrays` is not a word of the machine, and a thread that reads it must see
        // the entries. (On the native machine the release store in `BucketArrays` already ensures
        // that.)
        M::fence(Ordering::Release);
        // SAFETY: INDEX-2; a table in `tables` is only shared until the index is dropped.
        unsafe { self.arrays.set(self.number, &table.buckets) };
    }

    /// As [`HashIndex::find`], beyond the home bucket; `None` if the bucket is no longer current.
    #[inline(never)]
    fn find_beyond(
        &self,
        BucketRef(bucket): BucketRef<'_, M>,
        hash: u64,
        is_it: &mut impl FnMut(RowId) -> bool,
    ) -> Option<RowId> {
        let table = self.table(hash);
        bucket.is(table.bucket(hash, 0)).then(|| table.find_beyond(hash, is_it)).flatten()
    }

    /// Replaces the table `full` by one with the same entries and more space, unless another thread
    /// has done so.
    #[cold]
    fn grow(&self, full: &Buckets<M>) {
        let _growing = Growing::<M>::begin(&self.part.growing);
        if !ptr::eq(full, self.table(0)) {
            return;
        }
        let is_full = full.entries().count() * 4 >= full.buckets.len() * BUCKET;
        if is_full {
            self.publish(full, full.bits + 1, PROBES_FIRST);
        } else {
            self.publish(full, full.bits, full.probes * 2);
        }
    }

    /// As [`PartOf::grow`], to a table of 2^`bits` buckets, unless the current one is as large.
    fn grow_to(&self, bits: u32) {
        self.table(0); // before `Growing`, which making the first table takes, too
        let _growing = Growing::<M>::begin(&self.part.growing);
        let table = self.table(0);
        if table.bits < bits {
            self.publish(table, bits, PROBES_FIRST);
        }
    }

    /// Publishes a table of 2^`bits` buckets with the entries of the current one and at least
    /// `probes` probes.
    fn publish(&self, old: &Buckets<M>, bits: u32, mut probes: usize) {
        // `current` is exact here: only a thread that holds `Growing` publishes, and it stores the
        // generation before it lets go.
        let next = self.part.current.load(Ordering::Relaxed) + 1;
        assert!((next as usize) < GROWTHS, "more keys of one hash than a part can hold");
        old.buckets.iter().map(Bucket::<M>).for_each(Bucket::latch_for_growth);
        let grown = loop {
            let grown = Buckets::new(bits, probes);
            if old.copy_to(&grown) {
                break grown;
            }
            M::Word::discard(&grown.buckets);
            probes *= 2;
        };
        self.name(next, grown);
        self.part.current.store(next, Ordering::Release); // INDEX-5
        M::Word::discard(&old.buckets); // INDEX-2
    }
}

impl<M: Machine> Buckets<M> {
    fn new(bits: u32, probes: usize) -> Self {
        let bucket = |_| WordLine(std::array::from_fn(|_| M::Word::new(EMPTY)));
        let buckets = huge_pages::collect_words(1usize << bits, bucket);
        Self { bits, probes: probes.min(buckets.len()), buckets }
    }

    /// The bucket at `distance` from the home bucket of an entry, which the top bits of the tag
    /// select.
    #[inline]
    fn bucket(&self, entry: u64, distance: usize) -> Bucket<'_, M> {
        let bucket = (entry >> (64 - self.bits)) as usize;
        Bucket(&self.buckets[(bucket + distance) & (self.buckets.len() - 1)])
    }

    /// The first row beyond the home bucket of an entry that has the entry's tag and for which
    /// `is_it` holds.
    fn find_beyond(&self, wanted: u64, is_it: &mut impl FnMut(RowId) -> bool) -> Option<RowId> {
        for distance in 1..self.probes {
            match self.bucket(wanted, distance).find(wanted, is_it) {
                Ok(row) => return Some(row),
                Err(true) => {}
                Err(false) => return None,
            }
        }
        None
    }

    /// Replaces the first word for which `is_it` holds beyond the home bucket of an entry, which
    /// the caller has latched; false if there is no such word.
    fn replace_beyond(
        &self,
        entry: u64,
        is_it: impl Fn(u64) -> bool,
        with: impl FnOnce() -> u64,
    ) -> Result<bool, Busy> {
        for distance in 1..self.probes {
            let mut next = self.bucket(entry, distance).try_latch().ok_or(Busy)?;
            if let Some(at) = next.position(&is_it) {
                next.put(at, with());
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies all entries to a table that no other thread can reach yet; false if an entry finds no
    /// free word within the probes.
    fn copy_to(&self, grown: &Self) -> bool {
        if grown.bits != self.bits + 1 {
            return self.entries().all(|word| grown.fill(word));
        }
        // Most entries are in their home bucket. When the table doubles, such a bucket is split
        // into two adjacent ones, which are filled from the first word on without a search. The
        // other entries follow afterwards.
        let mut others = Vec::new();
        for (bucket, words) in self.buckets.iter().enumerate() {
            let halves =
                [2 * bucket, 2 * bucket + 1].map(|at| Bucket::<M>(&grown.buckets[at]).words());
            let mut filled = [0; 2];
            for at in 0..BUCKET {
                let word = Bucket::<M>(words).word(at, Ordering::Relaxed);
                if !is_entry(word) {
                    continue;
                }
                let bucket_now = (word >> (64 - grown.bits)) as usize;
                let half = bucket_now % 2;
                if bucket_now / 2 != bucket {
                    others.push(word);
                    continue;
                }
                // One of the two buckets receives at most as many entries as the old one had.
                halves[half][filled[half]].store(word, Ordering::Relaxed);
                filled[half] += 1;
            }
        }
        others.into_iter().all(|word| grown.fill(word))
    }

    /// Puts an entry into a table that no other thread can reach yet; false if it finds no free
    /// word within the probes.
    fn fill(&self, entry: u64) -> bool {
        let mut near = (0..self.probes).flat_map(|distance| self.bucket(entry, distance).words());
        let place = near.find(|word| word.load(Ordering::Relaxed) == EMPTY);
        place.inspect(|word| word.store(entry, Ordering::Relaxed)).is_some()
    }

    fn entries(&self) -> impl Iterator<Item = u64> {
        let words = |line| {
            (0..BUCKET).map(move |at| Bucket::<M>::word(Bucket(line), at, Ordering::Relaxed))
        };
        self.buckets.iter().flat_map(words).filter(|word| is_entry(*word))
    }
}

/// The right to grow a part; one thread holds it at a time.
struct Growing<'w, M: Machine>(&'w M::Word);

impl<'w, M: Machine> Growing<'w, M> {
    fn begin(word: &'w M::Word) -> Self {
        let mut round = 0;
        while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::wait(round);
            round = round.saturating_add(1);
        }
        Self(word)
    }
}

impl<M: Machine> Drop for Growing<'_, M> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;

    use atoll_machine::Native;

    use super::*;
    use crate::key::mix;

    #[test]
    fn the_index_finds_what_was_inserted_and_not_removed() {
        let index = HashIndex::<Native>::default();
        let mut model = HashMap::new();
        for i in 0..200_000u64 {
            index.insert(mix(i), RowId(i * 7), |_| false, || ());
            model.insert(i, RowId(i * 7));
            if i % 3 == 0 {
                let removed = index.remove(mix(i / 2), RowId(i / 2 * 7));
                assert_eq!(removed, model.remove(&(i / 2)).is_some());
            }
        }
        for i in 0..200_000u64 {
            let found = index.find(mix(i), |row| row == RowId(i * 7));
            assert_eq!(found, model.get(&i).copied(), "key {i}");
        }
    }

    #[test]
    fn displaced_entries_are_found_after_growth_and_removed_ones_are_not() {
        // All keys are in one part, in clusters: more entries have one home bucket than it holds,
        // so the others are in the bucket behind it or behind the next.
        let key = |bucket: u64, number: u64| bucket << 60 | number << 40 | 7;
        let index = HashIndex::<Native>::default();
        let mut left = HashMap::new();
        let mut row = 0;
        for round in 0..40_u64 {
            for bucket in 0..16 {
                for number in round * 16..round * 16 + 9 + bucket % 5 {
                    row += 1;
                    index.insert(key(bucket, number), RowId(row), |_| false, || ());
                    left.insert(row, key(bucket, number));
                }
            }
            let gone: Vec<u64> = left.keys().copied().filter(|row| row % 7 == round % 7).collect();
            for row in gone {
                assert!(left.remove(&row).is_some_and(|hash| index.remove(hash, RowId(row))));
            }
            for one in 1..=row {
                let hash = left.get(&one).copied();
                let found = (0..16).flat_map(|bucket| (0..656).map(move |at| (bucket, at)));
                match hash {
                    Some(hash) => {
                        assert_eq!(index.find(hash, |row| row.0 == one), Some(RowId(one)));
                        assert!(!index.lacks(hash), "round {round}, row {one}");
                    }
                    None if one % 101 == 0 => {
                        let mut all = found.map(|(bucket, at)| key(bucket, at));
                        assert!(all.all(|hash| index.find(hash, |row| row.0 == one).is_none()));
                    }
                    None => {}
                }
            }
        }
        let tables = index.parts[7].current.load(Ordering::Relaxed);
        assert!(tables > 4, "it has grown {tables} times");
    }

    #[test]
    fn room_that_was_made_changes_nothing_else() {
        let index = HashIndex::<Native>::default();
        let add = |i| assert_eq!(index.insert(mix(i), RowId(i), |_| false, || ()), None);
        (0..100u64).for_each(add);
        for rows in [0, 1, 50_000, 10_000] {
            index.reserve(rows);
            assert!((0..100).all(|i| index.find(mix(i), |row| row == RowId(i)).is_some()));
        }
        let tables = |index: &HashIndex<Native>| -> u64 {
            index.parts.iter().map(|part| part.current.load(Ordering::Relaxed)).sum()
        };
        let before = tables(&index);
        (100..50_000u64).for_each(add);
        assert_eq!(tables(&index), before, "no part has grown");
        assert!((0..50_000).all(|i| index.find(mix(i), |row| row == RowId(i)).is_some()));
    }

    #[test]
    fn the_callback_of_an_insert_runs_before_the_row_can_be_found_and_only_if_it_is_added() {
        let index = HashIndex::<Native>::default();
        let mut calls = 0;
        let other = index.insert(
            7,
            RowId(1),
            |_| true,
            || {
                calls += 1;
                assert_eq!(index.find(7, |_| true), None);
            },
        );
        assert_eq!((other, calls), (None, 1));
        assert_eq!(index.insert(7, RowId(2), |_| true, || calls += 1), Some(RowId(1)));
        assert_eq!((index.find(7, |_| true), calls), (Some(RowId(1)), 1));
    }

    #[test]
    fn the_caller_distinguishes_rows_with_the_same_hash() {
        let index = HashIndex::<Native>::default();
        for i in 0..2000 {
            index.insert(42, RowId(i), |_| false, || ());
        }
        assert_eq!(index.find(42, |row| row == RowId(13)), Some(RowId(13)));
        assert_eq!(index.find(42, |_| false), None);
    }

    #[test]
    fn lookups_beside_rows_that_come_and_go_in_the_same_buckets_miss_nothing_that_was_there() {
        let index = HashIndex::<Native>::default();
        // All keys are in one part, and their tags differ in the last bit only, so they share a few
        // buckets.
        let hash = |key: u64| 0xabcd_0000_0000_0000 | (key % 2) << (64 - TAG_BITS);
        let add = |i: u64| {
            assert_eq!(index.insert(hash(i), RowId(i), |row| row == RowId(i), || ()), None);
        };
        (0..6).for_each(add);
        std::thread::scope(|scope| {
            let stays = scope.spawn(|| {
                for round in 0..400_000u64 {
                    let i = round % 6;
                    let found = index.find(hash(i), |row| {
                        assert_eq!(hash(row.0), hash(i), "an entry of another hash");
                        row == RowId(i)
                    });
                    assert_eq!(found, Some(RowId(i)));
                }
            });
            let mut i = 6;
            while !stays.is_finished() {
                (i..i + 4).for_each(add);
                (i..i + 4).for_each(|i| assert!(index.remove(hash(i), RowId(i))));
                i += 1;
            }
        });
    }

    #[test]
    fn a_latched_bucket_cannot_be_latched_again_and_can_be_read() {
        let line = WordLine(std::array::from_fn(|_| Word::new(EMPTY)));
        let bucket = Bucket::<Native>(&line);
        let mut latched = bucket.try_latch().unwrap();
        assert!((0..3).all(|_| bucket.try_latch().is_none()));
        for (at, row) in [(1, 7), (0, 5)] {
            assert_eq!(latched.position(|word| word == entry(1 << 60, RowId(row))), None);
            latched.put(at, entry(1 << 60, RowId(row)));
        }
        let found = |row| bucket.find(1 << 60, &mut |other| other == RowId(row));
        assert_eq!((found(7), found(5)), (Ok(RowId(7)), Err(false)), "the first word comes last");
        assert!((0..3).all(|_| bucket.try_latch().is_none()));
        drop(latched);
        assert_eq!((found(7), found(5)), (Ok(RowId(7)), Ok(RowId(5))));
        assert!(bucket.try_latch().is_some());
    }
}
