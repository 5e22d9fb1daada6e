//! What is measured: cases on subjects, and scenes; and how much that writes at most.

use std::sync::Arc;
use std::time::Duration;

use crate::case::{Ack, Case};
use crate::measure::Limits;
use crate::scene::Scene;
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
const MOST_PAYLOAD_BYTES: u32 = 1 << 20;

/// Name of the cases that vary the writers.
pub const WRITERS: &str = "writers";
/// Name of the cases that vary the streams.
pub const STREAMS: &str = "streams";

/// What a run does.
pub struct Plan {
    /// Cases, each with the subjects that it is measured on.
    pub cases: Vec<PlannedCase>,
    /// Scenes.
    pub scenes: Vec<Arc<dyn Scene>>,
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
    /// Lists of values; the whole product is measured.
    pub product: Product,
    /// Only parts and subjects of these names; all where there is none of its kind.
    pub only: Vec<String>,
    /// Measured time of each case in each round.
    pub measured: Duration,
    /// Rounds.
    pub rounds: u32,
    /// Seed.
    pub seed: u64,
}

/// Lists of values; an empty one stands for the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Product {
    /// Numbers of writers.
    pub writers: Vec<u32>,
    /// Numbers of streams.
    pub streams: Vec<u32>,
    /// Bytes of an append.
    pub payload: Vec<u32>,
    /// What an acknowledgement waits for.
    pub acks: Vec<Ack>,
}

/// What is there to choose from.
pub struct Choice {
    /// Subjects; the first one that is measured is the baseline.
    pub subjects: Vec<Arc<dyn Subject>>,
    /// Scenes.
    pub scenes: Vec<Arc<dyn Scene>>,
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
    /// Makes a plan of what is wished for, out of what there is.
    ///
    /// # Errors
    /// A [`BadWish`] that names the setting.
    pub fn new(wishes: &Wishes, choice: &Choice) -> Result<Self, BadWish> {
        check(wishes)?;
        let subject_names: Vec<&str> = choice.subjects.iter().map(|s| s.name()).collect();
        let mut part_names = vec![WRITERS, STREAMS];
        part_names.extend(choice.scenes.iter().map(|scene| scene.name()));
        let is_known = |name: &&String| {
            subject_names.contains(&name.as_str()) || part_names.contains(&name.as_str())
        };
        if let Some(bad) = wishes.only.iter().find(|name| !is_known(name)) {
            let (parts, subjects) = (part_names.join(", "), subject_names.join(", "));
            return Err(BadWish(format!("{bad}: not among {parts}, {subjects}")));
        }
        let is_wanted = |name: &str, kind: &[&str]| {
            let mut of_kind = wishes.only.iter().filter(|only| kind.contains(&only.as_str()));
            of_kind.clone().next().is_none() || of_kind.any(|only| only == name)
        };
        let subjects: Vec<Arc<dyn Subject>> = choice
            .subjects
            .iter()
            .filter(|subject| is_wanted(subject.name(), &subject_names))
            .cloned()
            .collect();
        let scenes = choice.scenes.iter().filter(|scene| is_wanted(scene.name(), &part_names));
        let mut cases = Vec::new();
        for (part, case) in wishes.product.cases() {
            if is_wanted(part, &part_names) {
                add_case(&mut cases, case, &subjects);
            }
        }
        let baseline = subjects.first().map_or("", |subject| subject.name());
        Ok(Self {
            cases,
            scenes: scenes.cloned().collect(),
            rounds: wishes.rounds,
            limits: limits(wishes),
            baseline,
        })
    }

    /// Measurements in a round.
    pub fn measurements(&self) -> usize {
        let on_subjects: usize = self.cases.iter().map(|planned| planned.subjects.len()).sum();
        on_subjects + self.scenes.len()
    }

    /// Bytes that the run writes at most.
    pub fn total_bytes(&self) -> u64 {
        let of_cases = self.cases.iter().map(|planned| {
            let subjects = u64::try_from(planned.subjects.len()).unwrap_or(u64::MAX);
            self.case_bytes(&planned.case).saturating_mul(subjects)
        });
        let of_scenes = self.scenes.iter().map(|scene| scene.most_bytes(&self.limits));
        let per_round = of_cases.chain(of_scenes).fold(0, u64::saturating_add);
        per_round.saturating_mul(u64::from(self.rounds))
    }

    /// Bytes that are there at once at most.
    pub fn peak_bytes(&self) -> u64 {
        let of_cases = self.cases.iter().map(|planned| self.case_bytes(&planned.case));
        let of_scenes = self.scenes.iter().map(|scene| scene.most_bytes(&self.limits));
        of_cases.chain(of_scenes).max().unwrap_or(0)
    }

    /// What a case writes at most: while it is driven, and once more when it settles.
    fn case_bytes(&self, case: &Case) -> u64 {
        let streams = u64::from(case.streams).saturating_mul(MOST_BYTES_PER_STREAM);
        self.limits.most_bytes.saturating_mul(2) + streams + MOST_BYTES_PER_STORE
    }
}

impl Product {
    /// All cases, each with the part that it belongs to.
    fn cases(&self) -> Vec<(&'static str, Case)> {
        let or = |values: &[u32], default: &[u32]| {
            if values.is_empty() { default.to_vec() } else { values.to_vec() }
        };
        let payload = or(&self.payload, &[256]);
        let acks = if self.acks.is_empty() { vec![Ack::Barrier] } else { self.acks.clone() };
        // Where nothing is asked for, streams are varied for one number of writers only.
        let is_default = self.writers.is_empty() && self.streams.is_empty();
        let mut pairs = Vec::new();
        for writers in
            or(&self.writers, if self.streams.is_empty() { &[1, 64, 256] } else { &[64] })
        {
            for streams in or(&self.streams, &[1000]) {
                let part = if self.streams.len() > 1 { STREAMS } else { WRITERS };
                pairs.push((part, writers, streams));
            }
        }
        if is_default {
            pairs.extend([(STREAMS, 64, 10_000), (STREAMS, 64, 100_000)]);
        }
        let mut cases = Vec::new();
        for ack in acks {
            for &payload_bytes in &payload {
                let case = |&(part, writers, streams)| {
                    (part, Case { writers, streams, payload_bytes, ack })
                };
                cases.extend(pairs.iter().map(case));
            }
        }
        cases
    }
}

/// Adds a case on all subjects that it says something about.
fn add_case(cases: &mut Vec<PlannedCase>, case: Case, subjects: &[Arc<dyn Subject>]) {
    let is_known_without_streams = cases.iter().any(|PlannedCase { case: other, .. }| {
        Case { streams: case.streams, ..other.clone() } == case
    });
    let says_something = |subject: &&Arc<dyn Subject>| {
        subject.refuses(&case).is_none() && (subject.knows_streams() || !is_known_without_streams)
    };
    let subjects: Vec<_> = subjects.iter().filter(says_something).cloned().collect();
    if !subjects.is_empty() {
        cases.push(PlannedCase { case, subjects });
    }
}

fn limits(wishes: &Wishes) -> Limits {
    let seconds = wishes.measured.as_secs() + u64::from(wishes.measured.subsec_nanos() > 0);
    Limits {
        warm_up: (wishes.measured / 4).min(Duration::from_millis(500)),
        measured: wishes.measured,
        most_bytes: MOST_BYTES_PER_SECOND.saturating_mul(seconds),
        seed: wishes.seed,
    }
}

fn check(wishes: &Wishes) -> Result<(), BadWish> {
    let refuse = |text: String| Err(BadWish(text));
    let Product { writers, streams, payload, .. } = &wishes.product;
    for (setting, values, most) in [
        ("writers", writers, MOST_WRITERS),
        ("streams", streams, MOST_STREAMS),
        ("payload", payload, MOST_PAYLOAD_BYTES),
    ] {
        if let Some(bad) = values.iter().find(|value| **value == 0 || **value > most) {
            return refuse(format!("{setting}: 1 to {most}, not {bad}"));
        }
    }
    if wishes.rounds == 0 || wishes.measured.is_zero() {
        return refuse("rounds and seconds: more than 0".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes;

    fn plan(product: Product, only: &[&str]) -> Result<Plan, BadWish> {
        let only = only.iter().map(|&name| name.to_owned()).collect();
        let measured = Duration::from_secs(2);
        let wishes = Wishes { product, only, measured, rounds: 3, seed: 1 };
        let (subjects, scenes) = (own_subjects(1), scenes::all(100_000, 1 << 28));
        Plan::new(&wishes, &Choice { subjects, scenes })
    }

    fn shape(plan: &Plan) -> Vec<(u32, u32, Vec<&'static str>)> {
        let names = |planned: &PlannedCase| planned.subjects.iter().map(|s| s.name()).collect();
        let shape =
            |planned: &PlannedCase| (planned.case.writers, planned.case.streams, names(planned));
        plan.cases.iter().map(shape).collect()
    }

    #[test]
    fn by_default_writers_and_streams_vary_one_at_a_time_and_the_bare_file_once() {
        let plan = plan(Product::default(), &[]).unwrap();
        let (all, log) = (vec!["bare", "threads", "futures"], vec!["threads", "futures"]);
        assert_eq!(
            shape(&plan),
            [
                (1, 1000, all.clone()),
                (64, 1000, all.clone()),
                (256, 1000, all),
                (64, 10_000, log.clone()),
                (64, 100_000, log)
            ]
        );
        assert_eq!((plan.scenes.len(), plan.baseline), (4, "bare"));
        assert_eq!(plan.measurements(), 3 * 3 + 2 * 2 + 4);
    }

    #[test]
    fn lists_make_a_product_and_only_takes_parts_and_subjects() {
        let lists = Product { writers: vec![2], streams: vec![5, 6], ..Product::default() };
        let product = plan(lists.clone(), &["streams", "futures"]).unwrap();
        assert_eq!(shape(&product), [(2, 5, vec!["futures"]), (2, 6, vec!["futures"])]);
        assert!(product.scenes.is_empty());
        let scene = plan(lists, &["replay"]).unwrap();
        assert_eq!((scene.cases.len(), scene.scenes.len()), (0, 1));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let bad = Product { writers: vec![0], ..Product::default() };
        assert!(plan(bad, &[]).err().unwrap().0.contains("writers"));
        assert!(plan(Product::default(), &["fast"]).err().unwrap().0.contains("replay, bare"));
    }

    #[test]
    fn the_bound_on_bytes_covers_every_measurement_of_every_round() {
        let all = plan(Product::default(), &[]).unwrap();
        let once = all.total_bytes() / 3;
        assert!(all.peak_bytes() <= once && once <= all.peak_bytes() * 17);
        assert!(all.total_bytes() < 200 << 30);
    }
}
