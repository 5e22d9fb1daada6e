//! What a timed loop records: reserved before it starts, so that pushing never allocates.

use std::time::Instant;

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

    /// Joins the traces of several threads that began together at `started`.
    pub fn join(started: Instant, ended: Instant, parts: Vec<Self>) -> Self {
        let mut whole = Self::with_room(0, 0, 0);
        whole.started = started;
        whole.elapsed_ns = nanos(ended.saturating_duration_since(started));
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
    let mut vector = vec![value; capacity];
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
