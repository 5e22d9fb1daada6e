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

    /// Reads and adds up the counters of several devices; `None` when any cannot be read.
    pub fn read_sum<P: AsRef<Path>>(sysfs_dirs: &[P]) -> Option<Self> {
        let mut dirs = sysfs_dirs.iter();
        let first = Self::read(dirs.next()?.as_ref())?;
        dirs.try_fold(first, |sum, dir| Some(sum.plus(Self::read(dir.as_ref())?)))
    }

    /// What was counted since `earlier`. `in_flight` stays as it is now.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.combine(earlier, u64::wrapping_sub, self.in_flight)
    }

    fn plus(self, other: Self) -> Self {
        self.combine(other, u64::wrapping_add, self.in_flight + other.in_flight)
    }

    fn combine(self, other: Self, op: fn(u64, u64) -> u64, in_flight: u64) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(op(a?, b?));
        Self {
            reads: op(self.reads, other.reads),
            writes: op(self.writes, other.writes),
            sectors: op(self.sectors, other.sectors),
            write_ms: op(self.write_ms, other.write_ms),
            in_flight,
            queue_ms: op(self.queue_ms, other.queue_ms),
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
}
