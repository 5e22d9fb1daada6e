//! Decides whether durable writes are clearly faster: a pure function of samples.

use std::time::Duration;

use super::Reason;

/// Pairs without which nothing is decided.
const LEAST_PAIRS: usize = 8;
/// A durable write of one block has to take this share of the other path at most, per cent.
const CLEAR_PERCENT: u32 = 90;

/// One commit along each path, right after each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Write and `fdatasync`.
    pub fdatasync: Duration,
    /// Durable write.
    pub dsync: Duration,
}

/// What was measured, in pairs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Samples {
    /// Of one block: the commit of a lane that is idle.
    pub small: Vec<Pair>,
    /// Of many: the commit of one that is busy.
    pub large: Vec<Pair>,
}

/// What a durable write of one block gains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain {
    /// Median commit with `fdatasync`.
    pub fdatasync: Duration,
    /// Median durable write.
    pub dsync: Duration,
    /// Pairs measured.
    pub pairs: usize,
}

/// Decides between durable writes and `fdatasync`. Durable writes have to gain a tenth in the
/// median pair of small commits, win three of four of them, and not lose in the median pair of
/// large ones.
pub(super) fn choose(samples: &Samples) -> Reason {
    let Samples { small, large } = samples;
    if small.len() < LEAST_PAIRS || large.len() < LEAST_PAIRS {
        return Reason::TooSlowToTell;
    }
    let gain = Gain {
        fdatasync: median(small.iter().map(|pair| pair.fdatasync)),
        dsync: median(small.iter().map(|pair| pair.dsync)),
        pairs: small.len(),
    };
    let is_clear = |pair: &&Pair| pair.dsync * 100 <= pair.fdatasync * CLEAR_PERCENT;
    let wins = small.iter().filter(|pair| pair.dsync < pair.fdatasync).count();
    let clear = small.iter().filter(is_clear).count();
    let losses = large.iter().filter(|pair| pair.dsync > pair.fdatasync).count();
    let is_faster =
        clear * 2 > small.len() && wins * 4 >= small.len() * 3 && losses * 2 <= large.len();
    if is_faster { Reason::DsyncFaster(gain) } else { Reason::DsyncNotFaster(gain) }
}

fn median(values: impl Iterator<Item = Duration>) -> Duration {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(count: usize, fdatasync_us: u64, dsync_us: u64) -> Vec<Pair> {
        let fdatasync = Duration::from_micros(fdatasync_us);
        vec![Pair { fdatasync, dsync: Duration::from_micros(dsync_us) }; count]
    }

    fn is_faster(small: &[Pair], large: &[Pair]) -> bool {
        let samples = Samples { small: small.to_vec(), large: large.to_vec() };
        matches!(choose(&samples), Reason::DsyncFaster(_))
    }

    #[test]
    fn durable_writes_are_taken_only_where_they_are_clearly_faster() {
        let even = pairs(24, 150, 150);
        assert!(is_faster(&pairs(24, 100, 60), &even));
        assert!(is_faster(&pairs(24, 100, 90), &even));
        assert!(!is_faster(&pairs(24, 100, 91), &even));
        assert!(!is_faster(&pairs(24, 100, 100), &even));
        assert!(!is_faster(&pairs(24, 100, 200), &even));
    }

    #[test]
    fn what_slows_large_commits_down_is_not_taken() {
        assert!(!is_faster(&pairs(24, 100, 40), &pairs(24, 150, 151)));
    }

    #[test]
    fn a_few_outliers_decide_nothing() {
        // The mean of the first is dominated by three stalls.
        let mut slow = pairs(24, 100, 60);
        slow[..3].fill(pairs(1, 100, 50_000)[0]);
        assert!(is_faster(&slow, &pairs(24, 150, 140)));
        let mut lucky = pairs(24, 100, 99);
        lucky[..10].fill(pairs(1, 50_000, 60)[0]);
        assert!(!is_faster(&lucky, &pairs(24, 150, 140)));
    }

    #[test]
    fn too_few_pairs_decide_nothing() {
        let samples = Samples { small: pairs(7, 100, 10), large: pairs(24, 100, 10) };
        assert_eq!(choose(&samples), Reason::TooSlowToTell);
        assert_eq!(choose(&Samples::default()), Reason::TooSlowToTell);
    }

    #[test]
    fn a_clock_that_stands_still_decides_nothing() {
        assert!(!is_faster(&pairs(24, 0, 0), &pairs(24, 0, 0)));
    }

    proptest! {
        #[test]
        fn paths_that_are_the_same_but_for_noise_are_not_told_apart(
            noise in prop::collection::vec((900..1100_u64, 900..1100_u64), 24),
        ) {
            let pairs: Vec<Pair> = noise.iter().flat_map(|(a, b)| pairs(1, *a, *b)).collect();
            prop_assert!(!is_faster(&pairs, &pairs));
        }
    }
}
