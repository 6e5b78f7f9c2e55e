//! A store without a database: the node of each page after each step.

use std::sync::Arc;

use atoll::machine::{NodeId, Topology, bind_memory, page_bytes, pin_current_thread};
use atoll::{Database, DatabaseOptions, Error};
use atoll_memory::{Access, CHUNK_BYTES, Residency, Store, StoreOptions, View};

use crate::{COLD, DRAM, Outcome, ensure, mapped_on, memory_bytes, pages_on, pass};

const CHUNKS: u64 = 24;
const BUDGET_BYTES: u64 = 6 * CHUNK_BYTES;
/// Most rounds for an effect that needs a few.
const ROUNDS: usize = 400;
/// Bytes that stay free on a node that is filled.
const LEFT_BYTES: u64 = 8 << 20;

pub(crate) fn check() -> Outcome {
    refused()?;
    away_and_back()?;
    mapped_elsewhere()?;
    full()
}

fn refused() -> Outcome {
    let options = DatabaseOptions {
        memory_budget_bytes: Some(32 << 20),
        cold_node: Some(NodeId(3)),
        ..DatabaseOptions::default()
    };
    match Database::create(options) {
        Err(Error::NoColdNode { node: NodeId(3), with_memory }) => {
            ensure(with_memory == [DRAM[0], DRAM[1], COLD], || format!("{with_memory:?}"))?;
        }
        other => return Err(format!("{:?}", other.err()).into()),
    }
    pass("a node that is not there is refused");
    Ok(())
}

/// A store in which every page contains its offset, filled by a thread on this node.
struct Filled {
    store: Arc<Store>,
    access: Access,
    residency: Residency,
}

impl Filled {
    fn new(on: NodeId) -> Result<Self, Box<dyn std::error::Error>> {
        let topology = Topology::discover()?;
        pin_current_thread(&topology.node(on).ok_or("the node is gone")?.cpus)?;
        let bytes = (CHUNKS + 1) * CHUNK_BYTES;
        let options = StoreOptions { capacity_bytes: bytes, limit_bytes: bytes, huge_pages: true };
        let store = Arc::new(Store::create_moving("test", &options)?);
        store.commit(CHUNK_BYTES, CHUNKS * CHUNK_BYTES)?;
        let access = Access::new(Arc::clone(&store));
        words(1..CHUNKS + 1).for_each(|at| access.store_u64(at, at));
        pin_current_thread(&topology.cpus())?;
        let residency = Residency::on_node(Arc::clone(&store), BUDGET_BYTES, COLD, DRAM.to_vec())?;
        Ok(Self { store, access, residency })
    }

    fn addresses(&self, chunks: std::ops::Range<u64>) -> Vec<*const u8> {
        let base = self.store.base();
        words(chunks).map(|at| base.wrapping_add(at as usize)).collect()
    }

    /// Tends the store until a condition holds.
    fn tend_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&Self) -> Result<bool, Box<dyn std::error::Error>>,
    ) -> Outcome {
        for _ in 0..ROUNDS {
            if holds(self)? {
                return Ok(());
            }
            self.residency.tend(|| false)?;
        }
        Err(format!("{what}: {} bytes are in DRAM", self.residency.resident_bytes()?).into())
    }

    fn keeps_to_its_budget(&self) -> Outcome {
        self.tend_until("it passes its budget", |it| {
            Ok(it.residency.resident_bytes()? <= BUDGET_BYTES)
        })
    }

    fn is_dense(&self) -> Outcome {
        let is_dense = words(1..CHUNKS + 1).all(|at| self.access.load_u64(at) == at);
        ensure(is_dense, || "pages have lost what they held".to_owned())
    }
}

fn words(chunks: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    (chunks.start * CHUNK_BYTES..chunks.end * CHUNK_BYTES).step_by(page_bytes())
}

fn away_and_back() -> Outcome {
    for home in DRAM {
        let filled = Filled::new(home)?;
        let all = filled.addresses(1..CHUNKS + 1);
        ensure(pages_on(home, &all) == all.len(), || format!("it is not all on node {home}"))?;
        filled.keeps_to_its_budget()?;
        let in_dram = all.len() - pages_on(COLD, &all);
        let budget = BUDGET_BYTES as usize / page_bytes();
        ensure(in_dram <= budget, || format!("{in_dram} pages of {budget} are in DRAM"))?;
        filled.is_dense()?;
        // Some pages are used between any two steps, others never again.
        let mut chunks = (1..CHUNKS - 2).map(|first| first..first + 3);
        let is_cold = |chunks: &std::ops::Range<u64>| {
            let pages = filled.addresses(chunks.clone());
            pages_on(COLD, &pages) == pages.len()
        };
        let chunks = chunks.find(is_cold).ok_or("no three chunks in a row are cold")?;
        let hot = filled.addresses(chunks.clone());
        filled.tend_until("what is used does not come back", |it| {
            words(chunks.clone()).for_each(|at| assert_eq!(it.access.load_u64(at), at));
            Ok(mapped_on(home, &hot)? == hot.len())
        })?;
        let in_dram = filled.residency.resident_bytes()?;
        ensure(in_dram <= BUDGET_BYTES, || format!("{in_dram} bytes in DRAM"))?;
        ensure(filled.residency.returned_bytes() > 0, || "nothing was brought back".to_owned())?;
        filled.is_dense()?;
    }
    pass("pages wait on the cold node and return to where they were");
    Ok(())
}

fn mapped_elsewhere() -> Outcome {
    let filled = Filled::new(DRAM[0])?;
    // To the kernel, another mapping is the same as another process.
    let reader = View::new(Arc::new(Store::attach(filled.store.read_only_fd()?)?));
    words(1..CHUNKS + 1).for_each(|at| assert_eq!(reader.load_u64(at), at));
    for _ in 0..20 {
        filled.residency.tend(|| false)?;
    }
    let all = filled.addresses(1..CHUNKS + 1);
    let stayed = pages_on(DRAM[0], &all);
    ensure(stayed == all.len(), || format!("{stayed} of {} pages stayed", all.len()))?;
    reader.store().let_go();
    filled.keeps_to_its_budget()?;
    let in_dram = (all.len() - pages_on(COLD, &all)) * page_bytes();
    ensure(in_dram as u64 <= BUDGET_BYTES, || format!("{in_dram} bytes are in DRAM"))?;
    pass("what is mapped elsewhere stays until it is let go");
    Ok(())
}

fn full() -> Outcome {
    let mut hog = Hog::new()?;
    hog.fill()?;
    let filled = Filled::new(DRAM[1])?;
    for _ in 0..5 {
        filled.residency.tend(|| false)?;
    }
    let in_dram = filled.residency.resident_bytes()?;
    ensure(in_dram > BUDGET_BYTES, || "there was room, so this has shown nothing".to_owned())?;
    filled.is_dense()?;
    drop(hog);
    filled.keeps_to_its_budget()?;
    filled.is_dense()?;
    pass("a full cold node costs nothing but the budget");
    Ok(())
}

/// Allocates the memory of the cold node except for a small rest.
struct Hog(Vec<u8>);

impl Hog {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let bytes = memory_bytes(COLD, "MemFree:")?.saturating_sub(LEFT_BYTES);
        Ok(Self(vec![0; bytes as usize]))
    }

    fn fill(&mut self) -> Outcome {
        let lead = self.0.as_ptr().align_offset(page_bytes());
        let pages = &mut self.0[lead..];
        let _ = bind_memory(pages.as_mut_ptr(), pages.len(), COLD)?;
        pages.iter_mut().step_by(page_bytes()).for_each(|byte| *byte = 1);
        Ok(())
    }
}
