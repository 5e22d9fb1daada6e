//! The closed loop: writers that append, wait for the acknowledgement, and append again.
//!
//! A writer is a thread, or a future on one of a few reactors: both take the same steps. What they
//! record goes through a small buffer of each writer into one histogram, so that 256 writers do not
//! hold 256 histograms in the caches.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use highwater_stats::LatencyHistogram;
use highwater_sys::time::{nanos, sleep};

use crate::case::{Ack, Case};
use crate::executor;
use crate::random::Random;
use crate::subject::{SubjectError, SubjectResult};

/// Payloads are taken from this many random bytes, so that no compression finds anything.
const PAYLOAD_POOL_BYTES: usize = 256 << 10;
/// Samples that a writer keeps before it adds them to the histogram.
const BUFFERED_SAMPLES: usize = 64;
/// How long a writer waits after it was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Appends after which a future lets others run, should none of them have had to wait.
const APPENDS_PER_TURN: u32 = 32;

const WARM_UP: u8 = 0;
const TIMED: u8 = 1;
const ENDED: u8 = 2;

/// A load, and what it has measured.
pub struct Load {
    case: Case,
    seed: u64,
    phase: AtomicU8,
    pool: Vec<u8>,
    tally: Mutex<Tally>,
}

/// What the writers did.
#[derive(Debug, Default)]
pub struct Tally {
    /// Latencies of the timed appends.
    pub latency: LatencyHistogram,
    /// Appends in all, warm-up included.
    pub all_appends: u64,
    /// Times that an append was refused and tried again, while timed.
    pub refused: u64,
    /// The first failure: it ended the load.
    pub failure: Option<String>,
}

impl Load {
    /// Prepares a load; it begins with its warm-up.
    pub fn new(case: &Case, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let len = PAYLOAD_POOL_BYTES + usize::try_from(case.payload_bytes).expect("32 bits fit");
        let pool = std::iter::repeat_with(|| random.byte()).take(len).collect();
        let phase = AtomicU8::new(WARM_UP);
        Self { case: case.clone(), seed, phase, pool, tally: Mutex::default() }
    }

    /// From now on appends are timed.
    pub fn begin_timing(&self) {
        self.change(WARM_UP, TIMED);
    }

    /// From now on they are not, until timing begins again.
    pub fn pause_timing(&self) {
        self.change(TIMED, WARM_UP);
    }

    /// Goes from one phase to another, unless the load has ended.
    fn change(&self, from: u8, to: u8) {
        let changed = self.phase.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        assert!(changed.is_ok() || self.has_ended(), "timing begins and pauses in turn");
    }

    /// Ends the load: every writer stops after the append it is at.
    pub fn end(&self) {
        self.phase.store(ENDED, Ordering::SeqCst);
    }

    /// Whether it has ended: a failure ends it too.
    pub fn has_ended(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == ENDED
    }

    /// Gives what was measured.
    pub fn into_tally(self) -> Tally {
        self.tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the load on `append` by a thread per writer.
    pub fn drive_threads(&self, append: &(impl Fn(u32, &[u8]) -> SubjectResult<()> + Sync)) {
        std::thread::scope(|scope| {
            for index in 0..self.case.writers {
                let body = move || {
                    let mut writer = Writer::new(self, index);
                    while let Some((stream, payload)) = writer.next() {
                        let answer = append(stream, payload);
                        writer.done(&answer);
                    }
                };
                let spawned = std::thread::Builder::new().spawn_scoped(scope, body);
                if let Err(error) = spawned {
                    self.fail(&format!("cannot start writer {index}: {error}"));
                    return;
                }
            }
        });
    }

    /// Puts the load on `append` by a future per writer, on so many threads.
    pub fn drive_tasks<'a, F, A>(&'a self, reactors: u32, append: &F)
    where
        F: Fn(u32, &'a [u8]) -> A + Sync,
        A: Future<Output = SubjectResult<()>>,
    {
        let reactors = reactors.clamp(1, self.case.writers);
        std::thread::scope(|scope| {
            for reactor in 0..reactors {
                scope.spawn(move || {
                    let own = (0..self.case.writers).filter(|index| index % reactors == reactor);
                    executor::run(own.map(|index| self.task(index, append)));
                });
            }
        });
    }

    async fn task<'a, F, A>(&'a self, index: u32, append: &F)
    where
        F: Fn(u32, &'a [u8]) -> A,
        A: Future<Output = SubjectResult<()>>,
    {
        let mut writer = Writer::new(self, index);
        let mut turn = 0;
        while let Some((stream, payload)) = writer.next() {
            let answer = append(stream, payload).await;
            writer.done(&answer);
            turn += 1;
            if turn == APPENDS_PER_TURN {
                turn = 0;
                let_others_run().await;
            }
        }
    }

    fn fail(&self, why: &str) {
        self.tally().failure.get_or_insert_with(|| why.to_owned());
        self.end();
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures what the loop itself costs per append, ns: the same loop over appends that do nothing.
pub fn own_cost_ns(payload_bytes: u32, seed: u64) -> f64 {
    const APPENDS: u32 = 200_000;
    let case = Case { writers: 1, streams: 1000, payload_bytes, ack: Ack::Barrier };
    let load = Load::new(&case, seed);
    load.begin_timing();
    let left = AtomicU32::new(APPENDS);
    let begun = Instant::now();
    load.drive_threads(&|stream, payload| {
        std::hint::black_box((stream, payload));
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            load.end();
        }
        Ok(())
    });
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(APPENDS)
}

/// One writer between two appends.
struct Writer<'a> {
    load: &'a Load,
    index: u32,
    random: Random,
    /// When the append under way began.
    begun: Instant,
    /// What to append again, after a refusal.
    refused: Option<(u32, &'a [u8])>,
    at: (u32, &'a [u8]),
    samples: Vec<u64>,
    all_appends: u64,
    refusals: u64,
}

impl<'a> Writer<'a> {
    fn new(load: &'a Load, index: u32) -> Self {
        Self {
            load,
            index,
            random: Random::new(load.seed ^ (u64::from(index) + 1).wrapping_mul(0x9e37_79b9)),
            begun: Instant::now(),
            refused: None,
            at: (0, &[]),
            samples: Vec::with_capacity(BUFFERED_SAMPLES),
            all_appends: 0,
            refusals: 0,
        }
    }

    /// What to append next; `None` at the end.
    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        if self.load.phase.load(Ordering::Relaxed) == ENDED {
            return None;
        }
        self.at = match self.refused.take() {
            Some(again) => again,
            None => (self.stream(), self.payload()),
        };
        Some(self.at)
    }

    /// A stream of this writer's own, where there are enough of them.
    fn stream(&mut self) -> u32 {
        let Case { writers, streams, .. } = self.load.case;
        if streams < writers {
            return self.index % streams;
        }
        let own = (streams - self.index).div_ceil(writers);
        self.index + self.random.below(own) * writers
    }

    fn payload(&mut self) -> &'a [u8] {
        let room = u32::try_from(PAYLOAD_POOL_BYTES).expect("a small constant");
        let start = usize::try_from(self.random.below(room)).expect("32 bits fit");
        let len = usize::try_from(self.load.case.payload_bytes).expect("32 bits fit");
        &self.load.pool[start..start + len]
    }

    /// Takes an answer in.
    fn done(&mut self, answer: &SubjectResult<()>) {
        let is_timed = self.load.phase.load(Ordering::Relaxed) == TIMED;
        match answer {
            Ok(()) => {
                let now = Instant::now();
                self.all_appends += 1;
                if is_timed {
                    self.samples.push(nanos(now - self.begun));
                    if self.samples.len() == BUFFERED_SAMPLES {
                        self.hand_over();
                    }
                }
                self.begun = now;
            }
            Err(SubjectError::Refused(_)) => {
                self.refusals += u64::from(is_timed);
                self.refused = Some(self.at);
                sleep(REFUSED_PAUSE);
            }
            Err(error) => self.load.fail(&error.to_string()),
        }
    }

    fn hand_over(&mut self) {
        let mut tally = self.load.tally();
        for sample in self.samples.drain(..) {
            tally.latency.record(sample);
        }
        tally.all_appends += std::mem::take(&mut self.all_appends);
        tally.refused += std::mem::take(&mut self.refusals);
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Gives up one turn.
async fn let_others_run() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn case(writers: u32, streams: u32) -> Case {
        Case { writers, streams, payload_bytes: 100, ack: Ack::Barrier }
    }

    #[test]
    fn each_stream_has_one_writer_and_every_stream_is_reached() {
        let load = Load::new(&case(7, 31), 1);
        let mut seen = BTreeSet::new();
        for index in 0..7 {
            let mut writer = Writer::new(&load, index);
            for _ in 0..500 {
                let (stream, payload) = writer.next().unwrap();
                assert_eq!((stream % 7, payload.len()), (index, 100));
                seen.insert(stream);
            }
        }
        assert_eq!(seen, (0..31).collect());
    }

    #[test]
    fn threads_and_futures_count_exactly_what_was_acknowledged_while_timed() {
        for reactors in [None, Some(1), Some(2)] {
            let load = Load::new(&case(5, 10), 1);
            let done = AtomicU64::new(0);
            let step = || {
                if done.fetch_add(1, Ordering::SeqCst) == 1000 {
                    load.begin_timing();
                }
                if done.load(Ordering::SeqCst) >= 3000 {
                    load.end();
                }
            };
            match reactors {
                None => load.drive_threads(&|_, _| {
                    step();
                    Ok(())
                }),
                Some(reactors) => load.drive_tasks(reactors, &|_, _| async {
                    let_others_run().await;
                    step();
                    Ok(())
                }),
            }
            let tally = load.into_tally();
            assert_eq!(tally.failure, None);
            assert_eq!(tally.all_appends, done.load(Ordering::SeqCst));
            assert!((1900..=2100).contains(&tally.latency.len()), "{}", tally.latency.len());
        }
    }

    #[test]
    fn the_loop_itself_costs_something_and_its_counter_ends_it() {
        assert!(own_cost_ns(256, 1) > 0.0);
    }

    #[test]
    fn what_is_refused_is_tried_again_and_a_failure_ends_the_load() {
        let load = Load::new(&case(1, 100), 1);
        load.begin_timing();
        let calls = AtomicU64::new(0);
        let asked = Mutex::new(Vec::new());
        load.drive_threads(&|stream, _| {
            asked.lock().unwrap().push(stream);
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Err(SubjectError::Refused("full".to_owned())),
                2 => Ok(()),
                _ => Err(SubjectError::Failed("broken".to_owned())),
            }
        });
        let tally = load.into_tally();
        assert_eq!((tally.refused, tally.latency.len(), tally.all_appends), (2, 1, 1));
        assert_eq!(tally.failure.as_deref(), Some("broken"));
        let asked = asked.into_inner().unwrap();
        assert!(asked[..3].iter().all(|stream| *stream == asked[0]));
    }
}
