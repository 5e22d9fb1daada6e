//! Turns the slices of a stream into few writes, and into the checksums of the regions they fill.

use highwater_disk::{DiskResult, File};

use super::Absorb;
use super::layout::{REGION_BYTES, contiguous_end, position, region_of};
use crate::ids::Offset;
use crate::lane::segment::{to_u64, to_usize};

/// Bytes that are gathered before they are written. What is as long by itself is written from where
/// it stands.
const GATHER_BYTES: usize = 256 << 10;

/// Writes bytes where they belong: what lies side by side in the file in few calls.
///
/// # Errors
/// The disk's.
pub fn write(file: &dyn File, absorb: &Absorb, buffer: &mut Vec<u8>) -> DiskResult<()> {
    buffer.clear();
    // Where the gathered bytes begin.
    let mut at = absorb.from;
    for (slice, number) in absorb.slices.iter().zip(1..) {
        let is_last = number == absorb.slices.len();
        let mut rest = slice.bytes();
        while !rest.is_empty() {
            let next = Offset(at.0 + to_u64(buffer.len()));
            let room = contiguous_end(next).0 - next.0;
            let (part, behind) = rest.split_at(rest.len().min(to_usize(room)));
            rest = behind;
            if buffer.is_empty() && (is_last || part.len() >= GATHER_BYTES) {
                file.write_at(part, position(at))?;
                at.0 += to_u64(part.len());
                continue;
            }
            buffer.extend_from_slice(part);
            if buffer.len() >= GATHER_BYTES || to_u64(part.len()) == room {
                flush(file, &mut at, buffer)?;
            }
        }
    }
    flush(file, &mut at, buffer)
}

fn flush(file: &dyn File, at: &mut Offset, buffer: &mut Vec<u8>) -> DiskResult<()> {
    if !buffer.is_empty() {
        file.write_at(buffer, position(*at))?;
        at.0 += to_u64(buffer.len());
        buffer.clear();
    }
    Ok(())
}

/// Gives the checksums of the regions that are full with these bytes, by number, and that of the
/// last one, which is not.
pub fn sums(absorb: &Absorb) -> (Vec<(u64, u32)>, u32) {
    let (mut full, mut crc, mut at) = (Vec::new(), absorb.region_crc, absorb.from);
    for slice in &absorb.slices {
        let mut rest = slice.bytes();
        while !rest.is_empty() {
            let left = REGION_BYTES - at.0 % REGION_BYTES;
            let (part, behind) = rest.split_at(rest.len().min(to_usize(left)));
            crc = crc32c::crc32c_append(crc, part);
            if to_u64(part.len()) == left {
                full.push((region_of(at), crc));
                crc = 0;
            }
            at.0 += to_u64(part.len());
            rest = behind;
        }
    }
    (full, crc)
}
