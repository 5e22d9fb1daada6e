//! Work that threads do, and stop in the middle of: before each call to the disk that the log makes
//! without a lane's lock. In between, anything else may happen, the machine's end too.
//!
//! Three things would wait for ever, and are left out: a lane is not waited for amid its commit; a
//! checkpoint does not go on to where it needs one that is amid; and one checkpoint runs at a
//! time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use highwater_log::Log;
use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::Answer;

use super::life::Life;
use super::readers::{Range, to_usize};
use crate::model::There;
use crate::oracle::Marks;
use crate::pause::{self, Leash};
use crate::verdict::Violation;

/// How long a thread may take from one stop to the next before it counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// What a thread does.
#[derive(Debug, Clone)]
enum Work {
    /// Commits all lanes' records.
    Commit,
    /// Moves bytes home.
    Checkpoint,
    /// Does what is due by itself.
    Maintain,
    /// Reads some of a stream.
    Read { name: String, range: Range },
}

/// What came of it.
#[derive(Debug)]
enum Done {
    Commit,
    Checkpoint(LogResult<bool>),
    Maintain,
    Read(LogResult<Answer>),
}

/// A thread that has stopped.
#[derive(Debug)]
pub(super) struct Job {
    work: Work,
    /// The path of the call before which it has stopped.
    at: String,
    stopped: Receiver<String>,
    go: Sender<()>,
    done: Receiver<std::thread::Result<Done>>,
    thread: JoinHandle<()>,
    /// How far the lanes reached when it began, but for those that were amid a commit.
    marks: Marks,
    /// The stream that it reads, and what was known of it.
    reads: Option<Known>,
}

/// What was known of a stream when its reader began.
#[derive(Debug)]
struct Known {
    id: u64,
    public: usize,
    content: Vec<u8>,
}

impl Job {
    /// Threads at once.
    pub(super) const MOST: usize = 4;

    fn start(log: &Arc<Log>, work: Work, marks: Marks, reads: Option<Known>) -> Self {
        let (tell, stopped) = channel();
        let (go, wait) = channel();
        let (end, done) = channel();
        let (log, job) = (Arc::clone(log), work.clone());
        let run = move || {
            pause::follow(Leash { stopped: tell, go: wait });
            let outcome = catch_unwind(AssertUnwindSafe(|| job.run(&log)));
            // The log is let go before anybody hears of the end.
            drop(log);
            pause::leave();
            end.send(outcome).ok();
        };
        let thread = std::thread::Builder::new().spawn(run).expect("a thread can be started");
        Self { work, at: String::new(), stopped, go, done, thread, marks, reads }
    }

    /// Whether it has stopped amid a commit of this lane.
    fn commits(&self, lane: u16) -> bool {
        self.is_amid() && self.at.starts_with(&format!("wal/{lane}/"))
    }

    /// Whether it has stopped amid a commit.
    fn is_amid(&self) -> bool {
        self.at.starts_with("wal/")
    }
}

impl Work {
    fn run(&self, log: &Log) -> Done {
        match self {
            Self::Commit => {
                log.step();
                Done::Commit
            }
            Self::Checkpoint => Done::Checkpoint(log.checkpoint()),
            Self::Maintain => {
                log.maintain();
                Done::Maintain
            }
            Self::Read { name, range } => {
                Done::Read(log.read(name, Offset(range.from), range.max_bytes))
            }
        }
    }
}

impl Life<'_> {
    /// Lets a thread go on, or starts one.
    pub(super) fn drive(&mut self) -> Result<(), Violation> {
        if self.jobs.len() < Job::MOST && self.run.dice.one_in(3) {
            return self.start();
        }
        let ready: Vec<usize> = (0..self.jobs.len()).filter(|at| self.may_go_on(*at)).collect();
        if ready.is_empty() {
            return self.start();
        }
        let at = self.run.dice.pick(&ready);
        self.go_on(at)
    }

    /// Lets all threads come to their ends, in any order.
    pub(super) fn finish_jobs(&mut self) -> Result<(), Violation> {
        while !self.jobs.is_empty() {
            let ready: Vec<usize> = (0..self.jobs.len()).filter(|at| self.may_go_on(*at)).collect();
            let at = self.run.dice.pick(&ready);
            self.go_on(at)?;
        }
        Ok(())
    }

    /// Whether a thread has stopped amid a commit of a lane.
    pub(super) fn is_committing(&self, lane: u16) -> bool {
        self.jobs.iter().any(|job| job.commits(lane))
    }

    /// Whether a thread commits or moves bytes home.
    pub(super) fn is_busy(&self) -> bool {
        self.has(|work| !matches!(work, Work::Read { .. }))
    }

    /// How far the lanes reach now, but for those amid a commit.
    pub(super) fn free_marks(&self) -> Marks {
        let mut marks = self.run.oracle.marks();
        marks.retain(|(lane, _)| !self.is_committing(*lane));
        marks
    }

    fn has(&self, is_it: impl Fn(&Work) -> bool) -> bool {
        self.jobs.iter().any(|job| is_it(&job.work))
    }

    fn start(&mut self) -> Result<(), Violation> {
        let moves_home = |work: &Work| matches!(work, Work::Checkpoint | Work::Maintain);
        let mut reads = None;
        let work = match self.run.dice.below(6) {
            0 | 1 if !self.has(|work| matches!(work, Work::Commit)) => Work::Commit,
            2 | 3 if !self.has(moves_home) => Work::Checkpoint,
            4 if !self.has(moves_home) => Work::Maintain,
            _ => {
                let Some(name) = self.any_name() else { return Ok(()) };
                self.settle(&name);
                let now_ms = self.now_ms();
                let There::Stream(stream) = self.run.oracle.there(&name, now_ms) else {
                    return Ok(());
                };
                let public = self.run.oracle.public(&name).filter(|public| public.id == stream.id);
                let Some(public) = public.map(|public| public.content.len()) else {
                    return Ok(());
                };
                reads = Some(Known { id: stream.id, public, content: stream.content.clone() });
                let range = self.any_range(&name);
                Work::Read { name, range }
            }
        };
        self.run.note(|_| format!("a thread begins: {work:?}"));
        self.run.count("threads");
        let job = Job::start(&self.opened.log, work, self.free_marks(), reads);
        self.jobs.push(job);
        self.follow(self.jobs.len() - 1)
    }

    /// Whether nothing that a thread needs is held by another that has stopped.
    fn may_go_on(&self, at: usize) -> bool {
        let job = &self.jobs[at];
        // Behind its table a checkpoint waits until the lane has committed.
        let waits = job.at.starts_with("tables/") || job.at == "tables";
        let others = || self.jobs.iter().enumerate().filter(|(other, _)| *other != at);
        !(waits && others().any(|(_, other)| other.is_amid()))
    }

    fn go_on(&mut self, at: usize) -> Result<(), Violation> {
        self.run.count("stops");
        self.jobs[at].go.send(()).ok();
        self.follow(at)
    }

    /// Waits until a thread has stopped again, or ended.
    fn follow(&mut self, at: usize) -> Result<(), Violation> {
        let job = &mut self.jobs[at];
        match job.stopped.recv_timeout(STUCK_AFTER) {
            Ok(path) => {
                job.at = path;
                let (work, path) = (job.work.clone(), job.at.clone());
                self.run.note(|_| format!("a thread stops at {path}: {work:?}"));
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => {
                let what = format!("stuck behind {}: {:?}", job.at, job.work);
                Err(Violation::new("I11", what))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let job = self.jobs.swap_remove(at);
                self.ended(job)
            }
        }
    }

    fn ended(&mut self, job: Job) -> Result<(), Violation> {
        let done = job.done.recv().expect("a thread tells its outcome last");
        job.thread.join().ok();
        let done = done.map_err(|panic| Violation::of_panic(&*panic))?;
        self.run.note(|_| format!("a thread ends: {:?} {done:?}", job.work));
        match (done, job.work) {
            (Done::Commit, _) => {
                self.committed(&job.marks);
                Ok(())
            }
            (Done::Checkpoint(done), _) => self.checkpointed(&job.marks, &done),
            (Done::Maintain, _) => Ok(()),
            (Done::Read(answer), Work::Read { name, range }) => {
                let known = job.reads.expect("a reader knows what it reads");
                self.has_read(&name, range, &known, answer)
            }
            (Done::Read(_), _) => unreachable!("only readers read"),
        }
    }

    /// A read is judged by what was known when it began and when it ended: it may have happened at
    /// any time in between.
    fn has_read(
        &mut self,
        name: &str,
        range: Range,
        known: &Known,
        answer: LogResult<Answer>,
    ) -> Result<(), Violation> {
        let now_ms = self.now_ms();
        let stream = self.run.oracle.stream(name).filter(|stream| stream.id == known.id);
        let there = self.run.oracle.there(name, now_ms);
        let lives = matches!(there, There::Stream(stream) if stream.id == known.id);
        match answer {
            Ok(answer) => {
                let content = stream.map_or(&known.content[..], |stream| &stream.content[..]);
                let bytes = Self::check_answer(name, range, &answer)?;
                let from = to_usize(range.from);
                let fits = content.get(from..from + bytes.len()) == Some(&bytes[..])
                    && (known.public..=content.len()).contains(&to_usize(answer.tail.0));
                if !fits {
                    let what = format!("{name}: a slow reader gets other bytes from {from} on");
                    return Err(Violation::new("I1, I2", what));
                }
                self.held.push((answer, bytes));
                Ok(())
            }
            Err(LogError::Rejected(Rejection::BeyondTail { offset, tail }))
                if offset > tail && to_usize(tail.0) >= known.public =>
            {
                Ok(())
            }
            Err(LogError::Rejected(Rejection::NotFound | Rejection::SoftDeleted)) if !lives => {
                Ok(())
            }
            Err(_) if self.may_fail() => Ok(()),
            Err(error) => {
                let what = format!("{name}: a slow reader is told: {error}");
                Err(Violation::new("I1, I8", what))
            }
        }
    }
}
