//! A file, and the way records travel into it.

use highwater_report::case::{Barrier, Case, IoMode, Sharing};
use highwater_sys::SysResult;
use highwater_sys::buffer::AlignedBuf;
use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use highwater_sys::uring::LinkedWriter;

use super::single::Ops;

/// Bytes at the start of each record that tell its number.
const STAMP_LEN: usize = 8;

/// The bytes of records: random, and different for each record by its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Seed of the random bytes.
    pub seed: u64,
    /// Bytes per record.
    pub block: usize,
}

impl Pattern {
    /// Makes an aligned buffer filled with the pattern.
    pub fn buffer(self, align: u32) -> AlignedBuf {
        let align = usize::try_from(align).expect("u32 fits usize").max(512).next_power_of_two();
        let mut buffer = AlignedBuf::zeroed(self.block, align);
        fastrand::Rng::with_seed(self.seed).fill(&mut buffer);
        buffer
    }

    /// Marks a buffer as a record. Records shorter than a stamp carry what fits of it.
    #[inline]
    pub fn stamp(buffer: &mut [u8], record: u64) {
        let stamp = record.wrapping_add(1).to_le_bytes();
        let len = STAMP_LEN.min(buffer.len());
        buffer[..len].copy_from_slice(&stamp[..len]);
    }
}

/// Flags a case's file is opened with.
pub fn open_options(case: &Case) -> NewFile {
    NewFile {
        cache: match case.io {
            IoMode::Buffered => Cache::Buffered,
            IoMode::Direct => Cache::Direct,
        },
        write_sync: match case.barrier {
            Barrier::OSync => WriteSync::All,
            Barrier::ODsync => WriteSync::Data,
            _ => WriteSync::None,
        },
    }
}

/// One writer's way into a file.
pub struct Target<'f> {
    file: &'f File,
    way: Way,
    barrier: Barrier,
    block: u64,
    slots: u64,
    /// Bytes written since the last barrier: start and end. Others' writes are not in it.
    dirty: (u64, u64),
    /// Whether others write the same file, and one of them may ask for a barrier for all.
    writers: Writers,
}

/// Who writes a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    Alone,
    Several,
}

/// Where the bytes come from, and by which call they go.
enum Way {
    /// pwrite from a buffer.
    Plain(AlignedBuf),
    /// pwritev2 with `RWF_DSYNC`.
    Dsync(AlignedBuf),
    /// The last write of a commit is linked to its fdatasync.
    Linked(Box<LinkedWriter>),
}

impl<'f> Target<'f> {
    /// Takes a file that holds `slots` records; record n goes to slot n modulo `slots`.
    ///
    /// # Errors
    /// When `io_uring` is asked for and not offered.
    pub fn new(file: &'f File, case: &Case, buffer: AlignedBuf, slots: u64) -> SysResult<Self> {
        let way = match case.barrier {
            Barrier::Uring => Way::Linked(Box::new(LinkedWriter::new(buffer)?)),
            Barrier::RwfDsync => Way::Dsync(buffer),
            _ => Way::Plain(buffer),
        };
        let dirty = (u64::MAX, 0);
        let is_shared = case.writers > 1 && case.sharing == Sharing::Shared;
        let writers = if is_shared { Writers::Several } else { Writers::Alone };
        let (barrier, block, slots) = (case.barrier, case.block, slots.max(1));
        Ok(Self { file, way, barrier, block, slots, dirty, writers })
    }

    /// Offset and length that a ranged barrier has to cover now; length 0 is up to the end.
    fn take_dirty(&mut self) -> (u64, u64) {
        let (start, end) = std::mem::replace(&mut self.dirty, (u64::MAX, 0));
        match self.writers {
            Writers::Alone => (start, end.saturating_sub(start)),
            Writers::Several => (0, 0),
        }
    }
}

impl Ops for Target<'_> {
    #[inline]
    fn write(&mut self, record: u64, ends_commit: bool) -> SysResult<()> {
        let offset = (record % self.slots) * self.block;
        self.dirty = (self.dirty.0.min(offset), self.dirty.1.max(offset + self.block));
        match &mut self.way {
            Way::Plain(buffer) => {
                Pattern::stamp(buffer, record);
                self.file.write_at(buffer, offset)
            }
            Way::Dsync(buffer) => {
                Pattern::stamp(buffer, record);
                self.file.write_at_dsync(buffer, offset)
            }
            Way::Linked(ring) => {
                Pattern::stamp(ring.buffer_mut(), record);
                if ends_commit {
                    ring.write_and_sync(self.file, offset)
                } else {
                    self.file.write_at(ring.buffer_mut(), offset)
                }
            }
        }
    }

    #[inline]
    fn barrier(&mut self) -> SysResult<()> {
        let (start, len) = self.take_dirty();
        match self.barrier {
            Barrier::Fsync => self.file.fsync(),
            Barrier::Fdatasync => self.file.fdatasync(),
            Barrier::Syncfs => self.file.syncfs(),
            Barrier::SyncFileRange => self.file.sync_file_range(start, len),
            Barrier::OSync
            | Barrier::ODsync
            | Barrier::RwfDsync
            | Barrier::Uring
            | Barrier::None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_differ_by_their_stamp_and_repeat_by_their_seed() {
        let pattern = Pattern { seed: 7, block: 4096 };
        let (mut one, mut two) = (pattern.buffer(4096), pattern.buffer(4096));
        assert_eq!(one[..], two[..]);
        Pattern::stamp(&mut one, 0);
        Pattern::stamp(&mut two, 1);
        assert_ne!(one[..8], two[..8]);
        assert_eq!(one[8..], two[8..]);
        let other = Pattern { seed: 8, ..pattern }.buffer(4096);
        assert_ne!(one[8..], other[8..]);
    }

    #[test]
    fn a_leaders_ranged_barrier_covers_what_others_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let options = open_options(&Case::DEFAULT);
        let file = File::create_new(&dir.path().join("a"), options).unwrap();
        let range_after_two_writes = |case: Case| {
            let buffer = Pattern { seed: 1, block: 4096 }.buffer(512);
            let mut target = Target::new(&file, &case, buffer, 100).unwrap();
            target.write(3, false).unwrap();
            target.write(5, true).unwrap();
            target.take_dirty()
        };
        let one = Case { barrier: Barrier::SyncFileRange, ..Case::DEFAULT };
        let own = Case { writers: 4, sharing: Sharing::Own, ..one };
        assert_eq!(range_after_two_writes(one), (3 * 4096, 3 * 4096));
        assert_eq!(range_after_two_writes(own), (3 * 4096, 3 * 4096));
        assert_eq!(range_after_two_writes(Case { sharing: Sharing::Shared, ..own }), (0, 0));
    }
}
