//! Reads regions of a stream's file, and holds them against their checksums.

use highwater_disk::File;

use super::Extent;
use super::layout::{position, region_of, region_start, sum_position};
use crate::error::{LogError, LogResult};
use crate::format::{FormatError, Structure};
use crate::ids::Offset;
use crate::lane::segment::to_usize;

/// Bytes of a stream that one checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub number: u64,
    /// Where they begin: a fork's first region begins where the fork does.
    pub start: Offset,
    /// Behind the last of them that the home has.
    pub end: Offset,
}

impl Region {
    /// One region of what a home has of a stream.
    pub fn of(extent: Extent, number: u64) -> Self {
        let start = region_start(number).max(extent.start);
        let end = extent.end.min(region_start(number + 1));
        Self { number, start, end }
    }

    /// Those that have bytes of a range.
    pub fn all(extent: Extent, from: Offset, to: Offset) -> impl Iterator<Item = Self> {
        let last = region_of(Offset(to.0 - 1));
        (region_of(from)..=last).map(move |number| Self::of(extent, number))
    }

    /// Bytes in it.
    pub fn len(self) -> usize {
        to_usize(self.end.0 - self.start.0)
    }

    /// Reads it, all of it, and checks it. `path` is for what is said of damage.
    ///
    /// # Errors
    /// [`LogError::Damaged`], and the disk's.
    pub fn read(
        self,
        file: &dyn File,
        extent: Extent,
        into: &mut [u8],
        path: &str,
    ) -> LogResult<()> {
        assert_eq!(into.len(), self.len(), "a region is read as a whole");
        file.read_at(into, position(self.start))?;
        let stored = if self.end == region_start(self.number + 1) {
            let mut sum = [0; 4];
            file.read_at(&mut sum, sum_position(self.number))?;
            u32::from_le_bytes(sum)
        } else {
            extent.region_crc
        };
        let computed = crc32c::crc32c(into);
        if stored == computed {
            return Ok(());
        }
        let place = format!("{path} at {}", self.start);
        let structure = Structure::Record;
        let source = FormatError::WrongCrc { structure, stored, computed };
        Err(LogError::Damaged { place, source })
    }
}

/// Reads bytes from an offset on, checked: a region that is wanted as a whole goes where it is
/// wanted, of others a part is copied.
///
/// # Errors
/// As [`Region::read`].
pub fn read(
    file: &dyn File,
    extent: Extent,
    from: Offset,
    into: &mut [u8],
    path: &str,
) -> LogResult<()> {
    let to = Offset(from.0 + crate::lane::segment::to_u64(into.len()));
    let mut rest = into;
    let mut whole = Vec::new();
    for region in Region::all(extent, from, to) {
        let (first, last) = (region.start.max(from), region.end.min(to));
        let (part, behind) = rest.split_at_mut(to_usize(last.0 - first.0));
        rest = behind;
        if part.len() == region.len() {
            region.read(file, extent, part, path)?;
            continue;
        }
        whole.resize(region.len(), 0);
        region.read(file, extent, &mut whole, path)?;
        let skipped = to_usize(first.0 - region.start.0);
        part.copy_from_slice(&whole[skipped..skipped + part.len()]);
    }
    Ok(())
}
