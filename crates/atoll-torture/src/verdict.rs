//! The verdict on a run: a last look at everything, and the check of the history.

use std::sync::Arc;

use atoll::machine::Machine;
use atoll_txn::history;

use super::actor::Actor;
use super::rules::Rules;
use super::scene::{Scene, Tally};
use super::truths::Fault;
use super::workload::{FLOOD, Plan, Step, Walk};

impl<M: Machine> Scene<M> {
    /// Reads everything once more, by every index, and returns the first fault of the run.
    pub fn verdict(self: &Arc<Self>, rules: &Rules) -> (Tally, Option<Fault>) {
        let all = |end: i64| Walk { from: 0, to: end, descending: false, limit: usize::MAX };
        let mut steps = vec![Step::Audit, Step::ScanPlaces(all(i64::MAX))];
        if self.cast.named {
            steps.push(Step::ScanNames(all(i64::MAX)));
        }
        steps.extend((0..self.cast.keys_end + FLOOD).map(Step::Read));
        let plan = Plan { steps, read_only: true, hurried: false, rolls_back: false };
        match Actor::new(self, u32::MAX) {
            Ok(mut actor) => actor.run(&plan),
            Err(text) => self.fault(Fault { kind: "error".to_owned(), text }),
        }
        self.snapshot(u32::MAX, true, || ());
        let tally = self.tally();
        if rules.history
            && let Err(anomaly) = history::check(&self.history(), rules.strict)
        {
            let kind = anomaly.kind.to_string();
            return (tally, Some(Fault { kind, text: anomaly.text }));
        }
        let (bytes, leases) = self.ground.kept();
        if (bytes, leases) != (0, 0) {
            let text = format!("{leases} leases and {bytes} bytes are kept for no snapshot");
            self.fault(Fault { kind: "leak".to_owned(), text });
        }
        (tally, self.first_fault())
    }
}
