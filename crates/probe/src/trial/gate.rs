//! Threads that begin together, or not at all.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use crate::error::CaseError;

/// Where the threads of one loop wait for each other.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    /// Absent while the gate is shut.
    opened: Option<Start>,
}

/// What a thread is told at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Begin: the gate was opened at this moment.
    Go(Instant),
    /// Somebody is missing: end without a word.
    Abort,
}

/// Runs jobs at the same time, each in a thread of its own, and gives what they gave.
///
/// A job first makes itself ready, then its second half runs when all are: it is given the moment
/// at which the gate was opened for everybody.
///
/// # Errors
/// The first failure of a job; [`CaseError::Failed`] when a thread cannot be had, in which case no
/// job has begun.
pub fn together<R, B, T>(jobs: Vec<R>) -> Result<Vec<T>, CaseError>
where
    R: FnOnce() -> Result<B, CaseError> + Send,
    B: FnOnce(Instant) -> Result<T, CaseError>,
    T: Send,
{
    let gate = Gate::default();
    let count = jobs.len();
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(count);
        for job in jobs {
            let gate = &gate;
            let thread = move || {
                let begin = job();
                match gate.wait() {
                    Start::Go(opened) => begin?(opened),
                    Start::Abort => Err(CaseError::Interrupted),
                }
            };
            match std::thread::Builder::new().spawn_scoped(scope, thread) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.open(Start::Abort);
                    return Err(CaseError::Failed(format!(
                        "set-up: thread {} of {count} cannot be started: {error}; use fewer \
                         --writers, or raise the limit of processes (ulimit -u, pids.max)",
                        threads.len() + 1
                    )));
                }
            }
        }
        gate.open_when_all_have_come(count);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
        let ended: Vec<_> =
            threads.into_iter().map(|thread| join(thread).expect("a job does not panic")).collect();
        all_or_worst(ended)
    })
}

/// Everything, or the failure that tells most: a path that is not offered makes other writers fail
/// too, and who fails makes others stop.
fn all_or_worst<T>(results: Vec<Result<T, CaseError>>) -> Result<Vec<T>, CaseError> {
    let rank = |error: &CaseError| match error {
        CaseError::Unsupported(_) => 0,
        CaseError::Failed(_) => 1,
        CaseError::Interrupted => 2,
    };
    let mut given = Vec::with_capacity(results.len());
    let mut worst: Option<CaseError> = None;
    for result in results {
        match result {
            Ok(value) => given.push(value),
            Err(error) if worst.as_ref().is_none_or(|known| rank(&error) < rank(known)) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(given), Err)
}

impl Gate {
    fn wait(&self) -> Start {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        loop {
            if let Some(start) = state.opened {
                return start;
            }
            state = self.changed.wait(state).expect("nobody panics with the lock held");
        }
    }

    fn open_when_all_have_come(&self, count: usize) {
        let mut state = self.lock();
        while state.arrived < count {
            state = self.changed.wait(state).expect("nobody panics with the lock held");
        }
        drop(state);
        self.open(Start::Go(Instant::now()));
    }

    fn open(&self, start: Start) {
        self.lock().opened = Some(start);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the lock held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_job_begins_before_all_are_ready_and_all_count_from_one_moment() {
        let ready = AtomicUsize::new(0);
        let jobs: Vec<_> = (0..8)
            .map(|_| {
                || {
                    ready.fetch_add(1, Ordering::SeqCst);
                    Ok(|opened: Instant| Ok((ready.load(Ordering::SeqCst), opened)))
                }
            })
            .collect();
        let given = together(jobs).unwrap();
        assert!(given.iter().all(|(ready, opened)| (*ready, *opened) == (8, given[0].1)));
    }

    #[test]
    fn threads_that_wait_are_let_go_when_another_is_not_to_be_had() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.wait())).collect();
            gate.open(Start::Abort);
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == Start::Abort));
        });
    }

    #[test]
    fn a_job_that_fails_in_its_first_half_keeps_nobody_waiting() {
        let job = |index: u32| {
            move || match index {
                1 => Err(CaseError::Failed("not ready".to_owned())),
                _ => Ok(move |_: Instant| Ok(index)),
            }
        };
        let error = together(vec![job(0), job(1), job(2)]).unwrap_err();
        assert_eq!(error, CaseError::Failed("not ready".to_owned()));
    }

    #[test]
    fn of_several_failures_the_one_that_tells_most_is_kept() {
        let failed = || CaseError::Failed("EIO".to_owned());
        let unsupported = || CaseError::Unsupported("EINVAL".to_owned());
        for (results, worst) in [
            (vec![Ok(1), Err(CaseError::Interrupted), Err(failed())], failed()),
            (vec![Err(failed()), Err(unsupported()), Ok(1)], unsupported()),
            (vec![Err(CaseError::Interrupted)], CaseError::Interrupted),
        ] {
            assert_eq!(all_or_worst(results), Err(worst));
        }
        assert_eq!(all_or_worst(vec![Ok(1), Ok(2)]), Ok(vec![1, 2]));
    }
}
