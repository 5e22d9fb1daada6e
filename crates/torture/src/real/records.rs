//! Payloads that say what they are: length, worker, number, and bytes that follow from these.

use std::collections::BTreeMap;

use crate::dice::Dice;

const HEADER_LEN: usize = 24;
const SMALL_FILL: usize = 200;
const MOST_FILL: usize = 3000;
/// Longest fill of all: with its header it is within every store's largest payload.
const HUGE_FILL: usize = 12_000;

/// Length of a worker's record.
pub(crate) fn len(worker: u64, number: u64) -> usize {
    HEADER_LEN + fill_len(&mut dice(worker, number))
}

/// Makes a worker's record.
pub(crate) fn record(worker: u64, number: u64) -> Vec<u8> {
    let mut dice = dice(worker, number);
    let fill = fill_len(&mut dice);
    let fill = dice.bytes(fill);
    let len = u64::try_from(HEADER_LEN + fill.len()).expect("usize fits u64");
    let fields = [len, worker, number].map(u64::to_le_bytes);
    [&fields.concat()[..], &fill].concat()
}

fn dice(worker: u64, number: u64) -> Dice {
    Dice::new(worker << 48 | number)
}

fn fill_len(dice: &mut Dice) -> usize {
    let most = match dice.below(40) {
        0 => HUGE_FILL,
        1..=20 => SMALL_FILL,
        _ => MOST_FILL,
    };
    dice.index(most)
}

/// Takes whole records from the front of a shared stream's bytes, and adds each one's number to
/// those of its worker; gives the bytes left over.
///
/// # Errors
/// When bytes are no record.
pub(crate) fn split<'a>(
    mut bytes: &'a [u8],
    numbers: &mut BTreeMap<u64, Vec<u64>>,
) -> Result<&'a [u8], String> {
    while let Some(header) = bytes.get(..HEADER_LEN) {
        let field = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        let (worker, number) = (field(8), field(16));
        let expected = record(worker, number);
        let is_whole = bytes.len() >= expected.len();
        let same =
            if is_whole { bytes.starts_with(&expected) } else { expected.starts_with(bytes) };
        if !same {
            return Err(format!("bytes that nobody wrote, as record {number} of worker {worker}"));
        }
        if !is_whole {
            break;
        }
        numbers.entry(worker).or_default().push(number);
        bytes = &bytes[expected.len()..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart_and_changed_or_cut_ones_are_found() {
        let stream = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| record(1, *number)).chain(record(2, 0)).collect()
        };
        let mut found = BTreeMap::new();
        assert_eq!(split(&stream(&[0, 5, 5]), &mut found), Ok(&[][..]));
        assert_eq!(found, BTreeMap::from([(1, vec![0, 5, 5]), (2, vec![0])]));
        let mut changed = stream(&[0]);
        changed[HEADER_LEN + 3] ^= 1;
        assert!(
            split(&changed, &mut BTreeMap::new()).unwrap_err().contains("record 0 of worker 1")
        );
        let cut = &stream(&[0, 1])[..len(1, 0) + 30];
        assert_eq!(split(cut, &mut BTreeMap::new()).unwrap().len(), 30);
    }

    #[test]
    fn a_records_length_is_known_without_making_it() {
        assert!((0..500).all(|number| record(3, number).len() == len(3, number)));
        assert!((0..500).any(|number| len(3, number) > MOST_FILL));
    }
}
