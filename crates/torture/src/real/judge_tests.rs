//! What the judge takes for lost, and what not.

use super::*;
use crate::real::settings::Nature;
use crate::real::{Kind, Report};

/// Its worker 2 makes a stream in step 302 and deletes it in step 303.
const NATURE: Nature = Nature { kind: Kind::Serve, seed: 0x8ce7_b910, planted: None };
/// Where all workers were at the opening before.
const BASE: u64 = 300;

/// A store as it is after a step of each worker.
struct Kept(Vec<Plan>);

impl Kept {
    fn after(steps: [u64; 4]) -> Self {
        let plan = |(worker, step)| Plan::at(NATURE.seed, worker, step + 1);
        Self((0..).zip(steps).map(plan).collect())
    }

    fn shared(&self, stream: usize) -> Vec<u8> {
        let records = |(worker, plan): (u64, &Plan)| {
            let numbers = plan.shared(stream).to_vec();
            numbers.into_iter().flat_map(move |number| records::record(worker, number))
        };
        (0..).zip(&self.0).flat_map(records).collect()
    }
}

impl Shelf for Kept {
    fn names(&mut self) -> Result<Vec<String>, String> {
        let own = self.0.iter().flat_map(|plan| plan.streams.keys().cloned());
        Ok(own.chain((0..SHARED).map(shared_name)).collect())
    }

    fn look(&mut self, name: &str) -> Result<Option<Seen>, String> {
        let seen = |made, content, is_closed| Seen {
            id: 0,
            made,
            content_type: String::new(),
            expiry: None,
            fork: None,
            content,
            is_closed,
        };
        if let Some(stream) = (0..SHARED).find(|stream| shared_name(*stream) == name) {
            return Ok(Some(seen(0, self.shared(stream), false)));
        }
        let worker = worker_of(name).ok_or("nobody's")?;
        let stream = &self.0[index(worker)].streams[name];
        Ok(Some(seen(stream.made, stream.content(worker), stream.is_closed)))
    }
}

/// Judges a store of whose worker 2 the steps up to one were acknowledged, before step 300 of
/// worker 3 was, who asked for the next one then; that is there.
fn judge(acked: u64, is_there: u64) -> Result<(), String> {
    let mut ledger = Ledger::new(NATURE);
    assert!(!ledger.is_vouched_for(), "it is acknowledged before it is durable");
    for (worker, book) in (0..).zip(&mut ledger.books) {
        (book.base, book.acked) = (Plan::at(NATURE.seed, worker, BASE), BASE);
    }
    for number in BASE..=acked {
        ledger.hear(&Report::Acked { worker: 2, number })?;
    }
    ledger.hear(&Report::Acked { worker: 3, number: BASE })?;
    ledger.judge(&mut Kept::after([BASE - 1, BASE - 1, is_there, BASE + 1]))
}

/// I3.
#[test]
fn what_leaves_no_trace_beside_what_was_asked_for_next_is_not_taken_for_lost() {
    assert_eq!(judge(302, 302), Ok(()));
    assert_eq!(judge(302, 303), Ok(()), "made and deleted, the second without an answer");
    assert_eq!(judge(303, 303), Ok(()));
    let lost = judge(302, 300).unwrap_err();
    assert!(lost.starts_with("I3: step 301 of worker 2 is lost"), "{lost}");
    let lost = judge(304, 303).unwrap_err();
    assert!(lost.starts_with("I3: step 304 of worker 2 is lost"), "{lost}");
}
