//! Where a byte of a stream stands in its file, and where its checksum does.
//!
//! A file is a row of groups: one block of checksums, then 1023 regions of 64 KiB. A region's
//! CRC-32C is written when the region is full; that of the unfinished last region is kept with the
//! stream. A small stream never writes its block of checksums: it stays a hole.

use crate::ids::Offset;

/// Bytes of a region: what one checksum covers.
pub const REGION_BYTES: u64 = 64 << 10;
/// Bytes of a block of checksums.
const SUMS_BYTES: u64 = 4096;
/// Bytes of a checksum.
pub const SUM_BYTES: u64 = 4;
/// Regions of a group: the block's first checksum's place stays empty.
const REGIONS_PER_GROUP: u64 = SUMS_BYTES / SUM_BYTES - 1;
const GROUP_BYTES: u64 = SUMS_BYTES + REGIONS_PER_GROUP * REGION_BYTES;
const _: () = assert!(REGIONS_PER_GROUP == 1023, "a group has 1023 regions");

/// A region, by number from the stream's start.
pub fn region_of(offset: Offset) -> u64 {
    offset.0 / REGION_BYTES
}

/// First byte of a region.
pub fn region_start(region: u64) -> Offset {
    Offset(region * REGION_BYTES)
}

/// Position in the file of a byte of the stream.
pub fn position(offset: Offset) -> u64 {
    let region = region_of(offset);
    let group = region / REGIONS_PER_GROUP;
    let in_group = region % REGIONS_PER_GROUP;
    group * GROUP_BYTES + SUMS_BYTES + in_group * REGION_BYTES + offset.0 % REGION_BYTES
}

/// Up to where the bytes behind this one lie right behind it in the file.
pub fn contiguous_end(offset: Offset) -> Offset {
    let group = region_of(offset) / REGIONS_PER_GROUP;
    region_start((group + 1) * REGIONS_PER_GROUP)
}

/// Position in the file of a full region's checksum.
pub fn sum_position(region: u64) -> u64 {
    let group = region / REGIONS_PER_GROUP;
    group * GROUP_BYTES + (region % REGIONS_PER_GROUP + 1) * SUM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_bytes_stand_behind_the_first_block() {
        assert_eq!(position(Offset(0)), 4096);
        assert_eq!(position(Offset(REGION_BYTES * 1023 - 1)), GROUP_BYTES - 1);
        assert_eq!(position(Offset(REGION_BYTES * 1023)), GROUP_BYTES + 4096);
        assert_eq!((sum_position(0), sum_position(1022)), (4, 4092));
        assert_eq!(sum_position(1023), GROUP_BYTES + 4);
    }

    proptest! {
        #[test]
        fn positions_rise_with_offsets_and_never_meet_a_checksum(
            a in 0..1_u64 << 40, step in 1..1_u64 << 30,
        ) {
            let (first, second) = (position(Offset(a)), position(Offset(a + step)));
            prop_assert!(second - first >= step);
            prop_assert!(first % GROUP_BYTES >= SUMS_BYTES);
            let end = contiguous_end(Offset(a));
            let is_next = second - first == step;
            prop_assert_eq!(is_next, a + step < end.0);
            let sum = sum_position(region_of(Offset(a)));
            prop_assert!(sum % GROUP_BYTES < SUMS_BYTES);
            prop_assert_eq!(sum / GROUP_BYTES, first / GROUP_BYTES);
        }
    }
}
