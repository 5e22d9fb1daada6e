//! Counters of block devices: `/sys/block/<name>/stat`.
//!
//! Source: the kernel's `Documentation/block/stat.rst`, 17 fields since Linux 5.5.

use std::path::Path;

/// Counters of one device, or the sum over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors: u64,
    /// Time in writes, ms.
    pub write_ms: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Weighted time in queue, ms.
    pub queue_ms: u64,
    /// Flush requests done; absent before Linux 5.5.
    pub flushes: Option<u64>,
    /// Time in flushes, ms.
    pub flush_ms: Option<u64>,
}

impl Counters {
    /// Reads a device's counters from its sysfs directory.
    pub fn read(sysfs_dir: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(sysfs_dir.join("stat")).ok()?)
    }

    /// Reads the counters of several devices; `None` when there is none, or any cannot be read.
    pub fn read_each<P: AsRef<Path>>(sysfs_dirs: &[P]) -> Option<Vec<Self>> {
        if sysfs_dirs.is_empty() {
            return None;
        }
        sysfs_dirs.iter().map(|dir| Self::read(dir.as_ref())).collect()
    }

    /// What several devices counted since earlier, in all: each for itself, since a counter that
    /// begins again does so alone.
    pub fn sum_since(now: &[Self], earlier: &[Self]) -> Option<Self> {
        if now.len() != earlier.len() {
            return None;
        }
        let each = now.iter().zip(earlier).map(|(now, earlier)| now.since(*earlier));
        each.reduce(Self::plus)
    }

    /// What was counted since `earlier`. `in_flight` stays as it is now.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let both =
            |now: Option<u64>, then: Option<u64>, op: fn(u64, u64) -> u64| Some(op(now?, then?));
        Self {
            reads: self.reads.wrapping_sub(earlier.reads),
            writes: self.writes.wrapping_sub(earlier.writes),
            sectors: self.sectors.wrapping_sub(earlier.sectors),
            write_ms: ms_since(self.write_ms, earlier.write_ms),
            in_flight: self.in_flight,
            queue_ms: ms_since(self.queue_ms, earlier.queue_ms),
            flushes: both(self.flushes, earlier.flushes, u64::wrapping_sub),
            flush_ms: both(self.flush_ms, earlier.flush_ms, ms_since),
        }
    }

    fn plus(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.wrapping_add(b?));
        Self {
            reads: self.reads.wrapping_add(other.reads),
            writes: self.writes.wrapping_add(other.writes),
            sectors: self.sectors.wrapping_add(other.sectors),
            write_ms: self.write_ms.wrapping_add(other.write_ms),
            in_flight: self.in_flight + other.in_flight,
            queue_ms: self.queue_ms.wrapping_add(other.queue_ms),
            flushes: both(self.flushes, other.flushes),
            flush_ms: both(self.flush_ms, other.flush_ms),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let fields: Option<Vec<u64>> =
            text.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
        let fields = fields?;
        let at = |index: usize| fields.get(index).copied();
        Some(Self {
            reads: at(0)?,
            writes: at(4)?,
            sectors: at(6)?,
            write_ms: at(7)?,
            in_flight: at(8)?,
            queue_ms: at(10)?,
            flushes: at(15),
            flush_ms: at(16),
        })
    }
}

/// Milliseconds between two readings: the kernel prints them as 32-bit numbers, which begin again
/// at 0 after 49.7 days of device time.
fn ms_since(now: u64, earlier: u64) -> u64 {
    now.wrapping_sub(earlier) & u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str =
        " 4519 2399 764858 2451 411 3213 252360 1836 2 1168 4491 3013 30 37624 203 6 5\n";
    const OLD: &str = "4519 2399 764858 2451 411 3213 252360 1836 0 1168 4491";

    #[test]
    fn seventeen_fields_give_flushes_and_eleven_do_not() {
        let new = Counters::parse(NEW).unwrap();
        assert_eq!((new.reads, new.writes, new.sectors, new.write_ms), (4519, 411, 252_360, 1836));
        assert_eq!((new.in_flight, new.queue_ms), (2, 4491));
        assert_eq!((new.flushes, new.flush_ms), (Some(6), Some(5)));
        let old = Counters::parse(OLD).unwrap();
        assert_eq!(old.flushes, None);
        assert_eq!(new.since(old).flushes, None);
        assert_eq!(
            new.since(new),
            Counters { in_flight: 2, flushes: Some(0), flush_ms: Some(0), ..Counters::default() }
        );
        assert_eq!(Counters::parse("1 2 3"), None);
        assert_eq!(Counters::parse("1 2 x"), None);
    }

    #[test]
    fn times_that_begin_again_at_32_bits_are_subtracted_per_device_before_they_are_summed() {
        let end = u64::from(u32::MAX);
        let at = |ms: u64, writes: u64| Counters {
            writes,
            write_ms: ms,
            queue_ms: ms,
            flushes: Some(writes),
            flush_ms: Some(ms),
            ..Counters::default()
        };
        // One of two devices passes the end of its 32 bits; the other does not.
        let earlier = [at(end - 9, 100), at(50, 7)];
        let now = [at(20, 130), at(65, 9)];
        let sum = Counters::sum_since(&now, &earlier).unwrap();
        assert_eq!((sum.writes, sum.flushes), (32, Some(32)));
        assert_eq!((sum.write_ms, sum.queue_ms, sum.flush_ms), (45, 45, Some(45)));
        assert_eq!(Counters::sum_since(&now, &earlier[..1]), None);
        assert_eq!(Counters::sum_since(&[], &[]), None);
    }
}
