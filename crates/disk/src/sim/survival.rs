//! Which unsynced changes survive a crash: random choices that reach the rare outcomes.
//!
//! Independent coins alone would hardly ever keep a whole frame of many sectors, or lose all of
//! it. So each file, and the names, draw a manner first: all, none, in order up to a point, only
//! from a point on, whole calls by coin, or sectors by a biased coin.

use super::content::Effect;
use super::volume::Volume;
use crate::SECTOR_BYTES;
use crate::random::SplitMix64;

/// Which unsynced changes a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// Random subsets, chosen to reach rare outcomes as well.
    Random,
    /// None.
    LoseAllUnsynced,
    /// All.
    KeepAll,
    /// Those whose bit is set, in the order of `SimDisk::pending`; none from the 65th on.
    Explicit(u64),
}

/// Which unsynced names a random crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSurvival {
    /// Any subset: what the contract allows.
    Subset,
    /// The first few, in the order of the calls: what one journal does.
    Prefix,
}

/// Draws the survivors of a random crash. May shorten growths in the volume: a file may end
/// anywhere between its old and its new length.
pub(super) fn draw(volume: &mut Volume, names: NameSurvival, random: &mut SplitMix64) -> Vec<bool> {
    let overall = random.below(16);
    let name_calls: Vec<u64> = (0..).take(volume.pending_names.len()).collect();
    let mut kept = match (overall, names) {
        (0, _) => vec![false; name_calls.len()],
        (1, _) => vec![true; name_calls.len()],
        (_, NameSurvival::Prefix) => {
            let end = random.index_below(name_calls.len() + 1);
            (0..name_calls.len()).map(|index| index < end).collect()
        }
        (_, NameSurvival::Subset) => choose(&name_calls, random),
    };
    for file in volume.files.values_mut() {
        let calls: Vec<u64> = file.pending.iter().map(Effect::operation).collect();
        match overall {
            0 => kept.extend(calls.iter().map(|_| false)),
            1 => kept.extend(calls.iter().map(|_| true)),
            _ => {
                kept.extend(choose(&calls, random));
                shorten_growth(&mut file.pending, random);
            }
        }
    }
    kept
}

/// Chooses among changes, given the call that caused each.
fn choose(calls: &[u64], random: &mut SplitMix64) -> Vec<bool> {
    let (manner, count) = (random.below(6), calls.len());
    match manner {
        0 => vec![false; count],
        1 => vec![true; count],
        2 => {
            let end = random.index_below(count + 1);
            (0..count).map(|index| index < end).collect()
        }
        3 => {
            let start = random.index_below(count + 1);
            (0..count).map(|index| index >= start).collect()
        }
        4 => {
            let mut coin = false;
            let mut last = None;
            let whole_calls = calls.iter().map(|call| {
                if last.replace(*call) != Some(*call) {
                    coin = random.one_in(2);
                }
                coin
            });
            whole_calls.collect()
        }
        _ => {
            let bias = 1 + random.below(7);
            calls.iter().map(|_| random.below(8) < bias).collect()
        }
    }
}

fn shorten_growth(pending: &mut [Effect], random: &mut SplitMix64) {
    for effect in pending {
        if let Effect::Length { before, after, .. } = effect
            && *after > *before + SECTOR_BYTES
            && random.one_in(4)
        {
            let sectors = (*after - *before) / SECTOR_BYTES;
            let shorter = *before / SECTOR_BYTES + random.below(sectors) + 1;
            *after = (shorter * SECTOR_BYTES).min(*after);
        }
    }
}
