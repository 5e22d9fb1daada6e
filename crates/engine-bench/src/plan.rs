//! Which cases are measured on which subjects, and how much that writes at most.

use std::sync::Arc;
use std::time::Duration;

use crate::case::{Ack, Case};
use crate::measure::Limits;
use crate::subject::Subject;
use crate::subjects::{Bare, LogSubject, Style};

/// Bytes that a case may write per second of its length: it ends early beyond.
const MOST_BYTES_PER_SECOND: u64 = 160 << 20;
/// Bytes that a stream takes at most besides what is appended to it: its record, its file's last
/// block and metadata, its entry in a table.
const MOST_BYTES_PER_STREAM: u64 = 16 << 10;
/// Bytes that any store may take for itself.
const MOST_BYTES_PER_STORE: u64 = 512 << 20;
const MOST_STREAMS: u32 = 10_000_000;
const MOST_WRITERS: u32 = 4096;

/// What a run does.
pub struct Plan {
    /// Cases, each with the subjects that it is measured on.
    pub cases: Vec<PlannedCase>,
    /// Rounds.
    pub rounds: u32,
    /// How long a case is measured.
    pub limits: Limits,
    /// Name of the subject that others are set against.
    pub baseline: &'static str,
}

/// A case and its subjects.
pub struct PlannedCase {
    /// The case.
    pub case: Case,
    /// On what.
    pub subjects: Vec<Arc<dyn Subject>>,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wishes {
    /// Numbers of writers.
    pub writers: Vec<u32>,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Bytes of an append.
    pub payload: Vec<u32>,
    /// What an acknowledgement waits for.
    pub acks: Vec<Ack>,
    /// Only subjects of these names; all where it is empty.
    pub only: Vec<String>,
    /// Measured time of each case in each round.
    pub measured: Duration,
    /// Rounds.
    pub rounds: u32,
    /// Threads that futures share.
    pub reactors: u32,
    /// Seed.
    pub seed: u64,
}

/// A wish that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWish(pub String);

/// The subjects of this crate, the baseline first.
pub fn own_subjects(reactors: u32) -> Vec<Arc<dyn Subject>> {
    vec![
        Arc::new(Bare),
        Arc::new(LogSubject::new("threads", Style::Threads)),
        Arc::new(LogSubject::new("futures", Style::Tasks { reactors })),
    ]
}

impl Plan {
    /// Makes the product of what is wished for, on subjects of which the first is the baseline.
    ///
    /// # Errors
    /// A [`BadWish`] that names the setting.
    pub fn new(wishes: &Wishes, subjects: &[Arc<dyn Subject>]) -> Result<Self, BadWish> {
        check(wishes, subjects)?;
        let is_wanted = |subject: &Arc<dyn Subject>| {
            wishes.only.is_empty() || wishes.only.iter().any(|name| name == subject.name())
        };
        let wanted: Vec<_> = subjects.iter().filter(|subject| is_wanted(subject)).collect();
        let mut cases = Vec::new();
        for case in product(wishes) {
            let fits = |subject: &&&Arc<dyn Subject>| subject.refuses(&case).is_none();
            let subjects: Vec<_> = wanted.iter().filter(fits).map(|s| Arc::clone(s)).collect();
            if !subjects.is_empty() {
                cases.push(PlannedCase { case, subjects });
            }
        }
        let seconds = wishes.measured.as_secs_f64().ceil();
        let limits = Limits {
            warm_up: (wishes.measured / 4).min(Duration::from_millis(500)),
            measured: wishes.measured,
            most_bytes: MOST_BYTES_PER_SECOND
                .saturating_mul(Duration::from_secs_f64(seconds).as_secs().max(1)),
            seed: wishes.seed,
        };
        let baseline = wanted.first().map_or("", |subject| subject.name());
        Ok(Self { cases, rounds: wishes.rounds, limits, baseline })
    }

    /// Measurements in a round.
    pub fn measurements(&self) -> usize {
        self.cases.iter().map(|planned| planned.subjects.len()).sum()
    }

    /// Bytes that the run writes at most.
    pub fn total_bytes(&self) -> u64 {
        let per_round = self.cases.iter().map(|planned| {
            let subjects = u64::try_from(planned.subjects.len()).unwrap_or(u64::MAX);
            self.case_bytes(&planned.case).saturating_mul(subjects)
        });
        per_round.fold(0, u64::saturating_add).saturating_mul(u64::from(self.rounds))
    }

    /// Bytes that are there at once at most.
    pub fn peak_bytes(&self) -> u64 {
        self.cases.iter().map(|planned| self.case_bytes(&planned.case)).max().unwrap_or(0)
    }

    /// What a case writes at most: while it is driven, and once more when it settles.
    fn case_bytes(&self, case: &Case) -> u64 {
        let streams = u64::from(case.streams).saturating_mul(MOST_BYTES_PER_STREAM);
        self.limits.most_bytes.saturating_mul(2) + streams + MOST_BYTES_PER_STORE
    }
}

fn product(wishes: &Wishes) -> Vec<Case> {
    let mut cases = Vec::new();
    for &ack in &wishes.acks {
        for &payload_bytes in &wishes.payload {
            for &streams in &wishes.streams {
                for &writers in &wishes.writers {
                    cases.push(Case { writers, streams, payload_bytes, ack });
                }
            }
        }
    }
    cases
}

fn check(wishes: &Wishes, subjects: &[Arc<dyn Subject>]) -> Result<(), BadWish> {
    let refuse = |text: String| Err(BadWish(text));
    for (setting, values, most) in [
        ("writers", &wishes.writers, MOST_WRITERS),
        ("streams", &wishes.streams, MOST_STREAMS),
        ("payload", &wishes.payload, 1 << 20),
    ] {
        if values.is_empty() {
            return refuse(format!("{setting}: at least one value"));
        }
        if let Some(bad) = values.iter().find(|value| **value == 0 || **value > most) {
            return refuse(format!("{setting}: 1 to {most}, not {bad}"));
        }
    }
    if wishes.rounds == 0 || wishes.measured.is_zero() {
        return refuse("rounds and seconds: more than 0".to_owned());
    }
    let known: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
    match wishes.only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => refuse(format!("{name}: not among {}", known.join(", "))),
        None => Ok(()),
    }
}
