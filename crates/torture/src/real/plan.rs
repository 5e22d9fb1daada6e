//! What a worker does, step by step, and what its streams are then.
//!
//! All of it follows from the store's seed and the worker's number. So the process that does the
//! steps and the one that judges it have to agree on one number only: how far it came.

use std::collections::BTreeMap;

use super::records;
use crate::dice::Dice;

/// Workers of a process.
pub(crate) const WORKERS: u64 = 4;
/// Streams that all workers append to.
pub(crate) const SHARED: usize = 2;
/// Streams that a worker has at once.
const SLOTS: usize = 5;
/// Length from which a stream is closed or deleted, bytes: some three regions of a home's file.
const LONG: u64 = 200_000;
/// Most records of a burst.
const LONGEST_BURST: u64 = 12;

/// An idempotent producer's claim; the producer is the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// How long a stream lives without being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until a moment, ms from when it is asked for.
    Until(u64),
    /// For so long after its last use, ms.
    Unused(u64),
}

/// What is asked of the log. Payloads are the step's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Create {
        name: String,
        closes: bool,
    },
    Append {
        name: String,
        claim: Option<Claim>,
        closes: bool,
    },
    Shared {
        stream: usize,
        claim: Claim,
    },
    Close {
        name: String,
    },
    Delete {
        name: String,
    },
    Fork {
        name: String,
        source: String,
        offset: u64,
    },
    /// A stream that ends by itself, and that nobody uses again.
    Timed {
        name: String,
        life: Life,
    },
    /// A stream that may be deleted when the log is full.
    Spare {
        name: String,
    },
}

/// A step and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) step: Step,
}

/// A stream of a worker's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// The step that made it.
    pub(crate) made: u64,
    /// Records, each with how much of it is there: a fork may begin in the middle of one.
    pieces: Vec<(u64, u64)>,
    pub(crate) len: u64,
    pub(crate) is_closed: bool,
    claim: Option<Claim>,
    was_forked: bool,
}

impl Stream {
    fn new(made: u64) -> Self {
        Self { made, ..Self::default() }
    }

    fn push(&mut self, number: u64, len: u64) {
        self.pieces.push((number, len));
        self.len += len;
    }

    /// Its bytes.
    pub(crate) fn content(&self, worker: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, len) in &self.pieces {
            let len = usize::try_from(*len).expect("u64 fits usize");
            bytes.extend_from_slice(&records::record(worker, *number)[..len]);
        }
        bytes
    }

    /// Where the last record ends that ends at an offset or before it.
    pub(crate) fn record_end_before(&self, offset: u64) -> u64 {
        let ends = self.pieces.iter().scan(0, |end, (_, len)| {
            *end += len;
            Some(*end)
        });
        ends.take_while(|end| *end <= offset).last().unwrap_or(0)
    }

    /// What a fork of it begins with.
    fn prefix(&self, made: u64, offset: u64) -> Self {
        let mut fork = Self::new(made);
        for (number, len) in &self.pieces {
            let left = offset - fork.len;
            if left == 0 {
                break;
            }
            fork.push(*number, (*len).min(left));
        }
        fork
    }
}

/// A worker's part in a stream that all append to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Share {
    claim: Option<Claim>,
    numbers: Vec<u64>,
}

/// What comes next for a worker, and what came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    seed: u64,
    worker: u64,
    next: u64,
    /// First step of the burst that the last step belongs to.
    began: u64,
    burst: Option<(String, u64)>,
    /// How often the name of a slot was given up for good.
    given_up: [u64; SLOTS],
    /// Its own streams, but for those that end by themselves.
    pub(crate) streams: BTreeMap<String, Stream>,
    shares: [Share; SHARED],
    /// Streams that end by themselves: name and the step that made it.
    pub(crate) timed: BTreeMap<String, u64>,
}

impl Plan {
    /// Begins with step 0 of a store.
    pub(crate) fn new(seed: u64, worker: u64) -> Self {
        Self {
            seed,
            worker,
            next: 0,
            began: 0,
            burst: None,
            given_up: [0; SLOTS],
            streams: BTreeMap::new(),
            shares: std::array::from_fn(|_| Share::default()),
            timed: BTreeMap::new(),
        }
    }

    /// Begins at a later step.
    pub(crate) fn at(seed: u64, worker: u64, step: u64) -> Self {
        let mut plan = Self::new(seed, worker);
        while plan.next < step {
            plan.advance();
        }
        plan
    }

    /// Number of the next step.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// First step of the burst that the last step was part of: everything before it was
    /// acknowledged when the burst was asked for.
    pub(crate) const fn began(&self) -> u64 {
        self.began
    }

    /// Whether the next step is asked for without waiting for the last one.
    pub(crate) const fn is_in_burst(&self) -> bool {
        self.burst.is_some()
    }

    /// Whether the steps from here to another can all be asked a second time, and are known then.
    pub(crate) fn can_be_repeated(mut self, until: u64) -> bool {
        let mut epochs: BTreeMap<String, u64> = BTreeMap::new();
        while self.next < until {
            let (name, claim) = match self.advance().step {
                Step::Append { claim: None, .. } | Step::Timed { .. } => return false,
                Step::Append { name, claim: Some(claim), .. } => (name, claim),
                Step::Shared { stream, claim } => (super::shared_name(stream), claim),
                _ => continue,
            };
            // A producer that has gone on to another epoch is turned away with the one before.
            if epochs.insert(name, claim.epoch).is_some_and(|epoch| epoch != claim.epoch) {
                return false;
            }
        }
        true
    }

    /// Numbers of this worker's records in a shared stream.
    pub(crate) fn shared(&self, stream: usize) -> &[u64] {
        &self.shares[stream].numbers
    }

    /// Takes the next step.
    pub(crate) fn advance(&mut self) -> Numbered {
        let number = self.next;
        let mixed =
            self.seed ^ (self.worker + 1) << 56 ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut dice = Dice::new(mixed);
        if self.burst.is_none() {
            self.began = number;
        }
        let step = self.choose(&mut dice);
        self.apply(number, &step);
        self.next += 1;
        Numbered { number, step }
    }

    fn choose(&mut self, dice: &mut Dice) -> Step {
        if let Some((name, left)) = self.burst.take() {
            if left > 1 {
                self.burst = Some((name.clone(), left - 1));
            }
            let claim = self.claim(dice, &name);
            return Step::Append { name, claim, closes: false };
        }
        let slot = dice.index(SLOTS);
        let name = self.name(slot);
        match dice.below(100) {
            0..=24 => self.to_shared(dice),
            25..=34 => self.fork(dice, name),
            35..=41 if self.streams.contains_key(&name) => Step::Delete { name },
            42..=47 if self.is_open(&name) => Step::Close { name },
            48..=51 => self.timed(dice),
            52..=55 => Step::Spare { name: format!("s{}/{}", self.worker, self.next) },
            _ => self.append(dice, name),
        }
    }

    fn append(&mut self, dice: &mut Dice, name: String) -> Step {
        let Some(stream) = self.streams.get(&name) else {
            return Step::Create { name, closes: dice.one_in(12) };
        };
        if stream.is_closed || stream.len > LONG {
            return match dice.below(3) {
                0 => Step::Delete { name },
                1 if !stream.is_closed => Step::Close { name },
                _ => self.to_shared(dice),
            };
        }
        let closes = dice.one_in(25);
        if !closes && dice.one_in(6) {
            self.burst = Some((name.clone(), 1 + dice.below(LONGEST_BURST - 1)));
        }
        let claim = self.claim(dice, &name);
        Step::Append { name, claim, closes }
    }

    fn to_shared(&self, dice: &mut Dice) -> Step {
        let stream = dice.index(SHARED);
        let claim = next_claim(dice, self.shares[stream].claim);
        Step::Shared { stream, claim }
    }

    fn fork(&mut self, dice: &mut Dice, name: String) -> Step {
        let mut free = (0..SLOTS).map(|slot| self.name(slot));
        let free = free.rfind(|name| !self.streams.contains_key(name));
        match (self.streams.get(&name), free) {
            (Some(source), Some(target)) => {
                let offset = dice.below(source.len + 1);
                Step::Fork { name: target, source: name, offset }
            }
            _ => self.append(dice, name),
        }
    }

    fn timed(&self, dice: &mut Dice) -> Step {
        let life = match dice.below(4) {
            0 => Life::Unused(3_600_000),
            1 => Life::Unused(20 + dice.below(300)),
            _ => Life::Until(1 + dice.below(300)),
        };
        Step::Timed { name: format!("x{}/{}", self.worker, self.next), life }
    }

    fn claim(&self, dice: &mut Dice, name: &str) -> Option<Claim> {
        if dice.one_in(3) {
            return None;
        }
        Some(next_claim(dice, self.streams.get(name).and_then(|stream| stream.claim)))
    }

    fn name(&self, slot: usize) -> String {
        format!("w{}/{slot}.{}", self.worker, self.given_up[slot])
    }

    fn is_open(&self, name: &str) -> bool {
        self.streams.get(name).is_some_and(|stream| !stream.is_closed)
    }

    fn apply(&mut self, number: u64, step: &Step) {
        let len = u64::try_from(records::len(self.worker, number)).expect("usize fits u64");
        match step {
            Step::Create { name, closes } => {
                let mut stream = Stream::new(number);
                stream.push(number, len);
                stream.is_closed = *closes;
                self.streams.insert(name.clone(), stream);
            }
            Step::Spare { name } => {
                let mut stream = Stream::new(number);
                stream.push(number, len);
                self.streams.insert(name.clone(), stream);
            }
            Step::Append { name, claim, closes } => {
                let stream = self.streams.get_mut(name).expect("it was chosen for being there");
                stream.push(number, len);
                stream.is_closed = *closes;
                stream.claim = claim.or(stream.claim);
            }
            Step::Shared { stream, claim } => {
                let share = &mut self.shares[*stream];
                share.claim = Some(*claim);
                share.numbers.push(number);
            }
            Step::Close { name } => {
                let stream = self.streams.get_mut(name).expect("it was chosen for being there");
                stream.is_closed = true;
            }
            Step::Delete { name } => self.delete(name),
            Step::Fork { name, source, offset } => {
                let source = self.streams.get_mut(source).expect("it was chosen for being there");
                source.was_forked = true;
                let mut fork = source.prefix(number, *offset);
                fork.push(number, len);
                self.streams.insert(name.clone(), fork);
            }
            Step::Timed { name, .. } => {
                self.timed.insert(name.clone(), number);
            }
        }
    }

    fn delete(&mut self, name: &str) {
        let stream = self.streams.remove(name).expect("it was chosen for being there");
        if stream.was_forked {
            // The log keeps it for its forks, and its name with it.
            let slot = (0..SLOTS).find(|slot| self.name(*slot) == name);
            self.given_up[slot.expect("only streams in slots are deleted")] += 1;
        }
    }
}

fn next_claim(dice: &mut Dice, last: Option<Claim>) -> Claim {
    match last {
        None => Claim { epoch: dice.below(2), sequence: 0 },
        Some(last) if dice.one_in(20) => Claim { epoch: last.epoch + 1, sequence: 0 },
        Some(last) => Claim { sequence: last.sequence + 1, ..last },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_same_wherever_it_is_begun_and_has_steps_of_every_kind() {
        let mut plan = Plan::new(7, 2);
        let mut kinds = BTreeMap::new();
        for number in 0..2000 {
            if number % 97 == 0 {
                assert_eq!(plan, Plan::at(7, 2, number));
            }
            let step = plan.advance();
            assert_eq!(step.number, number);
            let text = format!("{:?}", step.step);
            let kind = text.split(' ').next().unwrap_or_default().to_owned();
            *kinds.entry(kind).or_insert(0) += 1;
        }
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert!(kinds.values().all(|count| *count > 10), "{kinds:?}");
        assert_ne!(plan, Plan::at(8, 2, 2000));
    }

    #[test]
    fn records_without_a_producer_and_of_two_epochs_cannot_be_sent_again() {
        let steps = |from: u64, to: u64| -> Vec<Step> {
            let mut plan = Plan::at(5, 0, from);
            (from..to).map(|_| plan.advance().step).collect()
        };
        let mut kinds = [0; 3];
        for from in 0..2000 {
            let (a, b) = match &steps(from, from + 2)[..] {
                [Step::Append { claim: None, .. }, _] => (0, false),
                [
                    Step::Append { name: first, claim: Some(a), .. },
                    Step::Append { name: second, claim: Some(b), .. },
                ] if first == second => {
                    if a.epoch == b.epoch {
                        (1, true)
                    } else {
                        (2, false)
                    }
                }
                _ => continue,
            };
            kinds[a] += 1;
            assert_eq!(Plan::at(5, 0, from).can_be_repeated(from + 2), b, "from {from}");
        }
        assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    }

    #[test]
    fn a_stream_has_the_bytes_of_its_steps_and_a_fork_a_prefix_of_its_source() {
        let mut plan = Plan::new(3, 1);
        let mut forks = 0;
        for _ in 0..3000 {
            let before = plan.clone();
            let numbered = plan.advance();
            if let Step::Fork { name, source, offset } = numbered.step {
                let (fork, source) = (&plan.streams[&name], &before.streams[&source]);
                let offset = usize::try_from(offset).unwrap();
                let expected = [&source.content(1)[..offset], &records::record(1, numbered.number)];
                assert_eq!(fork.content(1), expected.concat());
                forks += 1;
            }
        }
        assert!(forks > 20);
        for stream in plan.streams.values() {
            assert_eq!(u64::try_from(stream.content(1).len()), Ok(stream.len));
        }
    }
}
