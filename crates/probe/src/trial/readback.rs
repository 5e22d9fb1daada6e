//! Reads every record back and compares content and position (M6).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use highwater_sys::file::File;

use super::Pattern;
use super::trace::to_usize;
use crate::error::CaseError;

/// Bytes read at a time, at least.
const CHUNK_BYTES: usize = 1 << 20;

/// What should stand in a file: `records` records, record n in slot n modulo `slots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Bytes of the records.
    pub pattern: Pattern,
    /// Records written.
    pub records: u64,
    /// Slots they went round in.
    pub slots: u64,
}

/// Reads a file and checks that each slot holds the last record written to it.
///
/// Gives the number of records found right. The page cache is dropped first, as far as its pages
/// are clean: what a barrier covered is read from the device.
///
/// # Errors
/// [`CaseError::Failed`] naming the record and byte that differ; [`CaseError::Interrupted`] when
/// asked to stop.
pub fn check(path: &Path, expected: &Expected, stop: &AtomicBool) -> Result<u64, CaseError> {
    let failed = |error: highwater_sys::SysError| CaseError::Failed(format!("readback: {error}"));
    let file = File::open_read(path).map_err(failed)?;
    file.drop_cache().map_err(failed)?;
    let block = expected.pattern.block;
    let mut wanted = expected.pattern.buffer(512);
    let per_chunk = (CHUNK_BYTES / block).max(1);
    let mut chunk = vec![0; per_chunk * block];
    let filled = expected.slots.min(expected.records);
    let mut slot = 0;
    while slot < filled {
        if stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
        let count = to_usize(filled - slot).min(per_chunk);
        let bytes = &mut chunk[..count * block];
        let offset = slot * u64::try_from(block).expect("usize fits u64");
        file.read_at(bytes, offset).map_err(failed)?;
        for found in bytes.chunks_exact(block) {
            let record = last_record_in(slot, expected);
            Pattern::stamp(&mut wanted, record);
            if let Some(at) = first_difference(found, &wanted) {
                return Err(CaseError::Failed(format!(
                    "readback: record {record} differs at byte {at} of its block in slot {slot}: \
                     the file system or device returned other bytes than were written"
                )));
            }
            slot += 1;
        }
    }
    Ok(filled)
}

/// The last record whose number is `slot` modulo the number of slots.
fn last_record_in(slot: u64, expected: &Expected) -> u64 {
    let last = expected.records - 1;
    let back = (last % expected.slots + expected.slots - slot) % expected.slots;
    last - back
}

fn first_difference(found: &[u8], wanted: &[u8]) -> Option<usize> {
    if found == wanted {
        return None;
    }
    found.iter().zip(wanted).position(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(expected: &Expected) -> Vec<u8> {
        let block = expected.pattern.block;
        let slots = to_usize(expected.slots);
        let mut bytes = vec![0; block * slots.min(to_usize(expected.records))];
        let mut buffer = expected.pattern.buffer(512);
        for record in 0..expected.records {
            Pattern::stamp(&mut buffer, record);
            let at = to_usize(record % expected.slots) * block;
            bytes[at..at + block].copy_from_slice(&buffer);
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        // M6
        #[test]
        fn what_was_written_is_accepted_and_any_flipped_bit_is_not(
            records in 1..40_u64, slots in 1..20_u64, flip in any::<prop::sample::Index>(),
        ) {
            let expected = Expected { pattern: Pattern { seed: 3, block: 64 }, records, slots };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let mut bytes = written(&expected);
            std::fs::write(&path, &bytes).unwrap();
            let check = |path: &Path| super::check(path, &expected, &AtomicBool::new(false));
            prop_assert_eq!(check(&path), Ok(slots.min(records)));
            let stopped = super::check(&path, &expected, &AtomicBool::new(true));
            prop_assert_eq!(stopped, Err(CaseError::Interrupted));
            let at = flip.index(bytes.len());
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(matches!(check(&path), Err(CaseError::Failed(_))));
            bytes.truncate(at);
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(check(&path).is_err());
        }
    }
}
