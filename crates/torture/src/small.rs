//! Every history of up to three operations, every place where it can be cut off, and every subset
//! of what was not synced by then.
//!
//! The store has one stream with some bytes and a producer. A history is a row of letters of a
//! small alphabet. First come those of a store of one lane, then those of two lanes, of the letters
//! that reach across: the stream is in one, its fork in the other, and either may come back further
//! than the other. A history runs once per call that changes the disk, and is cut off before that
//! call (after the last one, too). Where more changes wait than can be tried in every combination,
//! some are tried, and the case is counted.

use highwater_disk::sim::{CrashSide, SimDisk, SimOptions};
use highwater_log::options::Options;

use crate::dice::Dice;
use crate::sim::{Cut, Letter, Setup};
use crate::verdict::{Layer, Verdict};

/// A store, and what is done to it.
struct World {
    lanes: u16,
    alphabet: &'static [Letter],
}

const WORLDS: [World; 2] = [
    World { lanes: 1, alphabet: &Letter::ALL },
    World {
        lanes: 2,
        alphabet: &[
            Letter::Append,
            Letter::Delete,
            Letter::Fork,
            Letter::DeleteFork,
            Letter::Commit,
            Letter::Checkpoint,
        ],
    },
];

/// Largest number of waiting changes of which every subset is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Longest history.
    pub letters: u32,
    /// Changes of which every subset is tried.
    pub pending: usize,
    /// Subsets tried where more changes wait.
    pub sampled: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { letters: 3, pending: 12, sampled: 64 }
    }
}

/// Runs histories from `first` on, at most so many.
pub fn run(first: u64, most: u64, bounds: Bounds, mut progress: impl FnMut(u64)) -> Verdict {
    let mut verdict = Verdict::new(Layer::Small);
    let bases = WORLDS.map(|world| Cut::prepared(&setup(world.lanes)));
    for number in
        (first..histories(bounds.letters)).take(usize::try_from(most).unwrap_or(usize::MAX))
    {
        let (world, letters) = letters(number, bounds.letters);
        verdict.count("histories", 1);
        if world > 0 {
            verdict.count("histories across lanes", 1);
        }
        if let Err(what) = history(&bases[world], &letters, bounds, &mut verdict) {
            verdict.fail(
                format!("history {number}, {letters:?}: {what}"),
                &format!("--seeds 1 --seed {number}"),
            );
        }
        progress(verdict.runs);
    }
    verdict
}

fn setup(lanes: u16) -> Setup {
    let options = Options {
        lanes,
        segment_bytes: 64 << 10,
        max_payload_bytes: 8 << 10,
        frame_bytes: 4 << 10,
        max_staged_bytes: 64 << 10,
        checkpoint_wal_bytes: 64 << 10,
        ..Options::default()
    };
    Setup::with(options, SimOptions::seeded(1), None)
}

/// Histories of at most so many letters.
pub fn histories(letters: u32) -> u64 {
    WORLDS.iter().map(|world| world.histories(letters)).sum()
}

impl World {
    fn size(&self) -> u64 {
        u64::try_from(self.alphabet.len()).expect("a small alphabet")
    }

    fn histories(&self, letters: u32) -> u64 {
        (1..=letters).map(|len| self.size().pow(len)).sum()
    }

    /// The letters of one of its histories: shorter ones come first.
    fn letters(&self, mut number: u64) -> Vec<Letter> {
        let (mut len, size) = (1, self.size());
        while number >= size.pow(len) {
            number -= size.pow(len);
            len += 1;
        }
        let mut letters = Vec::new();
        for _ in 0..len {
            let at = usize::try_from(number % size).expect("a small number");
            letters.push(self.alphabet[at]);
            number /= size;
        }
        letters
    }
}

/// The world of a history, and its letters.
fn letters(mut number: u64, most: u32) -> (usize, Vec<Letter>) {
    let mut world = 0;
    while number >= WORLDS[world].histories(most) {
        number -= WORLDS[world].histories(most);
        world += 1;
    }
    (world, WORLDS[world].letters(number))
}

fn history(
    base: &Cut,
    letters: &[Letter],
    bounds: Bounds,
    verdict: &mut Verdict,
) -> Result<(), String> {
    for cut_at in 1.. {
        let mut cut = base.again();
        cut.disk().crash_at(cut_at, CrashSide::Before);
        cut.run(letters).map_err(|found| format!("cut off before call {cut_at}: {found}"))?;
        let ended = !cut.disk().is_crashed();
        verdict.count("places to cut off", 1);
        let in_context = |(subset, what): (u64, String)| {
            format!("cut off before call {cut_at}, survivors {subset:#b}: {what}")
        };
        subsets(&cut, bounds, verdict).map_err(in_context)?;
        if ended {
            break;
        }
    }
    Ok(())
}

/// Judges what comes back for every subset of the changes that wait, or for some.
fn subsets(cut: &Cut, bounds: Bounds, verdict: &mut Verdict) -> Result<(), (u64, String)> {
    let pending = cut.disk().pending_count();
    let mut judge = |survivor: &SimDisk, subset: u64| {
        verdict.runs += 1;
        cut.judge(survivor).map_err(|found| (subset, found.to_string()))
    };
    if pending <= bounds.pending {
        for subset in 0..1_u64 << pending {
            judge(&cut.disk().crash_with(|change| subset & (1 << change) != 0), subset)?;
        }
        return Ok(());
    }
    judge(&cut.disk().crash_with(|_| true), u64::MAX)?;
    judge(&cut.disk().crash_with(|_| false), 0)?;
    for seed in 0..bounds.sampled {
        let mut dice = Dice::new(seed);
        judge(&cut.disk().crash_with(|_| dice.one_in(2)), seed)?;
    }
    verdict.count("places where only some subsets were tried", 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    #[test]
    fn a_fork_and_its_source_are_in_different_lanes_of_the_second_world() {
        let lanes = WORLDS[1].lanes;
        assert_ne!(Oracle::place("a", lanes), Oracle::place("f", lanes));
    }

    #[test]
    fn every_number_is_a_history_of_its_own() {
        let all: std::collections::BTreeSet<_> =
            (0..histories(2)).map(|number| format!("{:?}", letters(number, 2))).collect();
        assert_eq!(u64::try_from(all.len()), Ok(histories(2)));
    }
}
