//! Payloads that say what they are: length, producer, number, and bytes that follow from these.

use std::collections::BTreeMap;

use crate::dice::Dice;

const HEADER_LEN: usize = 24;
const MOST_FILL: usize = 3000;

/// Makes the n-th record of a producer in one stream.
pub(super) fn record(producer: u64, number: u64) -> Vec<u8> {
    let mut dice = Dice::new(producer << 48 | number);
    let len = HEADER_LEN + dice.index(MOST_FILL);
    let fill = dice.bytes(len - HEADER_LEN);
    let len = u64::try_from(len).expect("usize fits u64");
    let fields = [len, producer, number].map(u64::to_le_bytes);
    [&fields.concat()[..], &fill].concat()
}

/// Takes a stream apart; gives the number of records of each producer.
///
/// # Errors
/// When bytes are no record, or a producer's records are not 0, 1, 2 and so on, each once.
pub(super) fn sequences(mut bytes: &[u8]) -> Result<BTreeMap<u64, u64>, String> {
    let mut next = BTreeMap::new();
    while !bytes.is_empty() {
        let Some(header) = bytes.get(..HEADER_LEN) else {
            return Err(format!("{} bytes too many at its end", bytes.len()));
        };
        let field = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        let (producer, number) = (field(8), field(16));
        let expected = record(producer, number);
        if !bytes.starts_with(&expected) {
            return Err(format!("bytes that nobody wrote, as record {number} of {producer}"));
        }
        let due: &mut u64 = next.entry(producer).or_insert(0);
        if number != *due {
            return Err(format!("record {number} of producer {producer} where {due} was due"));
        }
        *due += 1;
        bytes = &bytes[expected.len()..];
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_and_a_second_or_missing_or_changed_one_is_found() {
        let stream = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| record(1, *number)).chain(record(2, 0)).collect()
        };
        assert_eq!(sequences(&stream(&[0, 1])), Ok(BTreeMap::from([(1, 2), (2, 1)])));
        assert!(sequences(&stream(&[0, 0])).unwrap_err().contains("where 1 was due"));
        assert!(sequences(&stream(&[1])).is_err());
        let mut changed = stream(&[0]);
        changed[40] ^= 1;
        assert!(sequences(&changed).is_err());
        assert!(sequences(&stream(&[0])[..30]).is_err());
    }
}
