//! What a timed loop records: reserved before it starts, so that pushing never allocates.

use std::time::{Duration, Instant};

use highwater_sys::time::nanos;

use super::Schedule;

/// One commit: one sample (M4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// When it ended, ns after the loop's start.
    pub at_ns: u64,
    /// How long it took, ns.
    pub took_ns: u64,
}

/// The record of a loop.
#[derive(Debug, Clone)]
pub struct Trace {
    /// When the measured interval began.
    pub started: Instant,
    /// The measured interval, ns.
    pub elapsed_ns: u64,
    /// Commits, in the order they ended.
    pub commits: Vec<Commit>,
    /// Time of each write call, ns.
    pub write_ns: Vec<u64>,
    /// Time of each barrier call, ns; empty where the barrier is part of the write.
    pub barrier_ns: Vec<u64>,
    /// Barriers asked for, those that are part of a write included.
    pub barriers: u64,
    /// Most records that one barrier acknowledged.
    pub acks_max: u64,
    /// Most records written but not covered, if each write is taken as its own ack.
    pub at_risk: u64,
    /// `files` cases: time to make the files dirty, ns.
    pub dirty_ns: Option<u64>,
    /// Time this trace's threads were ready but had no CPU, ns.
    pub run_delay_ns: Option<u64>,
}

impl Trace {
    /// Reserves room for a schedule.
    pub fn for_schedule(schedule: &Schedule) -> Self {
        let writes = to_usize(schedule.writes);
        let commits = to_usize(schedule.commits());
        let barriers = if schedule.ends_with_barrier { commits } else { 0 };
        Self::with_room(writes, commits, barriers)
    }

    /// Reserves room by numbers of writes, commits and barrier calls.
    pub fn with_room(writes: usize, commits: usize, barriers: usize) -> Self {
        Self {
            started: Instant::now(),
            elapsed_ns: 0,
            commits: touched(commits, Commit { at_ns: 0, took_ns: 0 }),
            write_ns: touched(writes, 0),
            barrier_ns: touched(barriers, 0),
            barriers: 0,
            acks_max: 0,
            at_risk: 0,
            dirty_ns: None,
            run_delay_ns: None,
        }
    }

    /// Room reserved for commits, writes and barriers.
    pub fn room(&self) -> [usize; 3] {
        [self.commits.capacity(), self.write_ns.capacity(), self.barrier_ns.capacity()]
    }

    /// Adds a commit that was due at `began` and ended at `ended`.
    #[inline]
    pub fn commit(&mut self, began: Instant, ended: Instant) {
        let at_ns = nanos(ended.saturating_duration_since(self.started));
        let took_ns = nanos(ended.saturating_duration_since(began));
        self.commits.push(Commit { at_ns, took_ns });
    }

    /// Joins the traces of threads that ran side by side: from the first start to the last end.
    pub fn join(parts: Vec<Self>) -> Self {
        let ended = |part: &Self| part.started + Duration::from_nanos(part.elapsed_ns);
        let mut whole = Self::with_room(0, 0, 0);
        let started = parts.iter().map(|part| part.started).min().unwrap_or(whole.started);
        let last = parts.iter().map(ended).max().unwrap_or(started);
        whole.started = started;
        whole.elapsed_ns = nanos(last.saturating_duration_since(started));
        for part in parts {
            let shift = nanos(part.started.saturating_duration_since(started));
            let shifted = part.commits.iter().map(|c| Commit { at_ns: c.at_ns + shift, ..*c });
            whole.commits.extend(shifted);
            whole.write_ns.extend(part.write_ns);
            whole.barrier_ns.extend(part.barrier_ns);
            whole.barriers += part.barriers;
            whole.acks_max = whole.acks_max.max(part.acks_max);
            whole.at_risk += part.at_risk;
            if let Some(delay) = part.run_delay_ns {
                *whole.run_delay_ns.get_or_insert(0) += delay;
            }
        }
        whole.commits.sort_by_key(|commit| commit.at_ns);
        whole
    }
}

/// An empty vector whose pages are present: the first push must not fault.
pub(super) fn touched<T: Copy>(capacity: usize, value: T) -> Vec<T> {
    let mut vector = Vec::with_capacity(capacity);
    // Written value by value: zeroed memory from the allocator would only be promised.
    vector.resize(capacity, std::hint::black_box(value));
    std::hint::black_box(vector.as_mut_slice());
    vector.clear();
    vector
}

/// Time this thread was ready but had no CPU, ns: `/proc/thread-self/schedstat`, second field.
pub fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(super) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that this thread had to be given so far without a disk (field 10 of its stat).
    fn minor_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = &stat[stat.rfind(')').unwrap() + 1..];
        fields.split_ascii_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn pushing_into_reserved_room_maps_no_page() {
        // M5: 32 MiB, 8192 pages.
        let mut vector = touched(4 << 20, 0_u64);
        let before = minor_faults();
        for value in 0..vector.capacity() as u64 {
            vector.push(value);
        }
        let faults = minor_faults() - before;
        assert!(faults < 100, "{faults} pages were missing");
        assert_eq!(std::hint::black_box(&vector).len(), 4 << 20);
    }

    #[test]
    fn a_joined_interval_goes_from_the_first_start_to_the_last_end() {
        let origin = Instant::now();
        let at = |start_ns: u64, elapsed_ns: u64| {
            let mut part = Trace::with_room(0, 1, 0);
            part.started = origin + Duration::from_nanos(start_ns);
            part.elapsed_ns = elapsed_ns;
            part.commits.push(Commit { at_ns: elapsed_ns, took_ns: 5 });
            part
        };
        // Set-up before the first start and joining after the last end are nobody's time.
        let whole = Trace::join(vec![at(300, 100), at(200, 50), at(250, 400)]);
        assert_eq!((whole.started, whole.elapsed_ns), (origin + Duration::from_nanos(200), 450));
        let ends: Vec<u64> = whole.commits.iter().map(|commit| commit.at_ns).collect();
        assert_eq!(ends, [50, 200, 450]);
    }
}
