//! Which files of tables are to be emptied, so that neither they nor their dead bytes pile up.
//!
//! A file is removed when no section in it counts any more. Small files are joined when there are
//! many: two of about the same size, so that a byte is copied a number of times that grows with the
//! logarithm of the table. Dead bytes are given back when they are more than what counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::Section;

/// Files of a lane beyond which some are joined.
const MANY_FILES: usize = 24;
/// Dead bytes that do not matter.
const FEW_BYTES: u64 = 4 << 20;

/// Chooses them. `files` are all with their lengths, `sections` all that count.
pub fn to_empty<'a>(
    files: &BTreeMap<u64, u64>,
    sections: impl Iterator<Item = &'a Section>,
) -> BTreeSet<u64> {
    let mut used: BTreeMap<u64, u64> = files.keys().map(|number| (*number, 0)).collect();
    for section in sections {
        // Those of the checkpoint under way are in none of them.
        if let Some(len) = used.get_mut(&section.number) {
            *len += u64::from(section.len);
        }
    }
    let mut chosen = BTreeSet::new();
    if files.len() > MANY_FILES {
        chosen.extend(alike(&used));
    }
    let (all, live): (u64, u64) = (files.values().sum(), used.values().sum());
    if all > 2 * live + FEW_BYTES {
        let dead = |number: &u64| files[number].saturating_sub(used[number]);
        chosen.extend(files.keys().copied().max_by_key(dead));
    }
    chosen
}

/// The two smallest files of about the same size; where there are none, the smallest.
fn alike(used: &BTreeMap<u64, u64>) -> Vec<u64> {
    let mut by_size: Vec<(u64, u64)> = used.iter().map(|(number, len)| (*len, *number)).collect();
    by_size.sort_unstable();
    let pair = by_size.windows(2).find(|pair| pair[1].0 <= 2 * pair[0].0);
    let pair = pair.unwrap_or(&by_size[..1]);
    pair.iter().map(|(_, number)| *number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SectionKind;
    use crate::ids::{LaneId, Lsn};

    fn section(number: u64, len: u32) -> Section {
        Section {
            number,
            position: 4096,
            lane: LaneId(0),
            first: 0,
            kind: SectionKind::Base,
            stamp: Lsn(0),
            entries: 1,
            len,
            crc: 0,
        }
    }

    #[test]
    fn few_files_with_few_dead_bytes_stay() {
        let files = BTreeMap::from([(1, 9 << 20), (2, 100)]);
        let sections = [section(1, 5 << 20), section(2, 50)];
        assert_eq!(to_empty(&files, sections.iter()), BTreeSet::new());
    }

    #[test]
    fn the_file_with_most_dead_bytes_goes_when_they_are_more_than_what_counts() {
        let files = BTreeMap::from([(1, 9 << 20), (2, 8 << 20)]);
        let sections = [section(1, 5 << 20), section(2, 1 << 20)];
        assert_eq!(to_empty(&files, sections.iter()), BTreeSet::from([2]));
    }

    #[test]
    fn many_files_are_joined_two_of_a_size_at_a_time() {
        let sizes = (0..25_u64).map(|number| (number, u32::try_from(100 << (number / 2)).unwrap()));
        let sections: Vec<Section> = sizes.map(|(number, len)| section(number, len)).collect();
        let files = sections.iter().map(|s| (s.number, u64::from(s.len))).collect();
        assert_eq!(to_empty(&files, sections.iter()), BTreeSet::from([0, 1]));
    }
}
