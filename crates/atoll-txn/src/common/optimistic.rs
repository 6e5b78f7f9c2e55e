//! Optimistic transactions over one version for each row.
//!
//! A read adds the row's version to the read set and writes nothing shared. To commit, a
//! transaction locks its write set (in the order of places if it has to wait), checks that its read
//! set is unchanged, and stores. A scheme says what else happens when a transaction begins, reads
//! and has validated, and which version its rows get.

use atoll_machine::Machine;

use super::gap::Gap;
use super::read_set::ReadSet;
use super::version::{Look, PRESENT, Version};
use crate::scheme::{
    AbortReason, Conflict, Fetch, FetchOnce, Place, Scheme, Section, Seen, Start, States, StatesOf,
    Target, Writes,
};

/// See the module. `local` is the state of a transaction; its sets have been updated already.
pub trait Optimistic: Send + Sync + 'static {
    /// As [`Scheme::NAME`].
    const NAME: &'static str;
    /// The machine that it runs on. It is not a parameter, so that no other crate can make a scheme
    /// of this crate optimistic.
    type Machine: Machine;
    /// The state of a transaction, with its read set and write set.
    type Local: AsMut<ReadSet> + Send + 'static;

    /// As [`Scheme::local`].
    fn local_of(&self, number: u32) -> Self::Local;

    /// A transaction begins.
    fn begins(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// The transaction has read a row with this version word.
    ///
    /// # Errors
    /// The scheme does not grant the read.
    #[inline(always)]
    fn has_read(
        &self,
        local: &mut Self::Local,
        states: &impl States<Version<Self::Machine>, Gap<Self::Machine>>,
        word: u64,
    ) -> Result<(), Conflict> {
        let _ = (local, states, word);
        Ok(())
    }

    /// The transaction is going to lock its write set; called again after each wait.
    fn locks(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// The transaction is valid, and its write set is locked. Called for each section in which the
    /// transaction is validated; the last call is for the section in which it commits.
    fn is_valid(&self, local: &mut Self::Local) {
        let _ = local;
    }

    /// The version number of the rows that a committed transaction has written; greater than all
    /// versions that it has read or locked.
    fn number(&self, local: &mut Self::Local) -> u64;

    /// The transaction ends; its write set is still locked.
    fn ends(&self, local: &mut Self::Local) {
        let _ = local;
    }
}

impl<M: Machine, T: Optimistic<Machine = M>> Scheme<M> for T {
    const NAME: &'static str = <T as Optimistic>::NAME;
    const WRITES: Writes = Writes::AtCommit;
    type State = Version<M>;
    type Gap = Gap<M>;
    type Local = <T as Optimistic>::Local;

    fn local(&self, number: u32) -> Self::Local {
        self.local_of(number)
    }

    fn begin(&self, local: &mut Self::Local, _start: &Start<'_>) -> Result<(), Conflict> {
        local.as_mut().clear();
        self.begins(local);
        Ok(())
    }

    #[inline]
    fn read(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        Target { place, state }: Target<'_, Version<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let (seen, word) = state.read(true, fetch).ok_or(Conflict::WouldBlock(place))?;
        local.as_mut().read(place, word);
        self.has_read(local, states, word)?;
        Ok(seen)
    }

    #[inline(always)]
    fn read_once(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        Target { place, state }: Target<'_, Version<M>>,
        fetch: impl FetchOnce,
    ) -> Result<Option<Seen>, Conflict> {
        match state.look(true, fetch) {
            Look::At(seen, word) => {
                local.as_mut().read(place, word);
                self.has_read(local, states, word)?;
                Ok(Some(seen))
            }
            Look::Locked => Err(Conflict::WouldBlock(place)),
            Look::Overtaken => Ok(None),
        }
    }

    #[inline]
    fn update(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        Target { place, state }: Target<'_, Version<M>>,
        fetch: Fetch<'_>,
    ) -> Result<Seen, Conflict> {
        let (seen, word) = state.read(true, fetch).ok_or(Conflict::WouldBlock(place))?;
        local.as_mut().update_if_there(place, seen, word);
        self.has_read(local, states, word)?;
        Ok(seen)
    }

    #[inline]
    fn write(
        &self,
        local: &mut Self::Local,
        _states: &impl StatesOf<Self, M>,
        target: Target<'_, Version<M>>,
        present: bool,
    ) -> Result<(), Conflict> {
        local.as_mut().write(target.place, present);
        Ok(())
    }

    fn read_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Gap<M>,
    ) -> Result<(), Conflict> {
        local.as_mut().read_gap(place, gap);
        Ok(())
    }

    fn insert_into_gap(
        &self,
        local: &mut Self::Local,
        place: Place,
        gap: &Gap<M>,
    ) -> Result<(), Conflict> {
        local.as_mut().insert_into_gap(place, gap);
        Ok(())
    }

    fn split(&self, local: &mut Self::Local, old: (Place, &Gap<M>), new: (Place, &Gap<M>)) -> bool {
        local.as_mut().split(old, new);
        true
    }

    fn prepare(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
    ) -> Result<(), Conflict> {
        self.locks(local);
        local.as_mut().lock(states)
    }

    fn validate(
        &self,
        local: &mut Self::Local,
        states: &impl StatesOf<Self, M>,
        _section: Section,
    ) -> Result<(), AbortReason> {
        if local.as_mut().changed(states).is_some() {
            return Err(AbortReason::Changed);
        }
        self.is_valid(local);
        local.as_mut().validated();
        Ok(())
    }

    fn adopt(state: &Version<M>) {
        state.adopt();
    }

    fn end(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>, committed: bool) {
        self.ends(local);
        if committed {
            let number = self.number(local);
            let word = |present| if present { number | PRESENT } else { number };
            local.as_mut().unlock(states, |write| word(write.present));
        } else {
            // Less than the number of the row's next writer, which is greater than all versions
            // that the writer has locked.
            local.as_mut().roll_back(states, |write| write.before + 1);
        }
        local.as_mut().clear();
    }

    fn lock(&self, target: Target<'_, Version<M>>) -> Option<(Seen, u64)> {
        let (seen, _) = target.state.lock_outside()?;
        Some((seen, 0))
    }

    fn unlock(&self, target: Target<'_, Version<M>>, changed: bool) {
        target.state.unlock_outside(changed);
    }

    fn is_consistent(&self, local: &mut Self::Local, states: &impl StatesOf<Self, M>) -> bool {
        local.as_mut().is_unchanged(states)
    }
}
