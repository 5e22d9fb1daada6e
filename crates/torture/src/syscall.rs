//! Calls of the system that fail: the n-th call of a kind gives an error, or is the last thing that
//! the process does.
//!
//! The process (see [`crate::real`]) runs under `strace`, which plants the fault: the real program,
//! the real calls. Each thread has its own count, so several may be hit. After a fault the process
//! goes on rightly, or refuses; once a write or barrier of a lane's log has failed, nothing that is
//! asked of that lane is acknowledged (I10); and no worker waits for ever. Then the store is judged
//! without faults.
//!
//! Kinds of fault come in turn, with the first calls one after the other and later ones by chance.

use std::path::Path;
use std::time::Duration;

use crate::campaign::{Campaign, CampaignError, Stop};
use crate::dice::Dice;
use crate::real::{Disk, Heard, Kind, Life, PATIENCE, Report, Subject, WORKERS};
use crate::verdict::{Layer, Verdict};
use crate::yard::{Yard, run as run_tool};

/// Longest life of a process at work.
const LONGEST_LIFE_MS: u64 = 400;
/// Most lives of a store.
const MOST_LIVES: u64 = 6;
/// Calls that are hit one after the other before chance chooses.
const IN_ORDER: u64 = 10;
/// Last call that chance may choose.
const LAST: u64 = 250;

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Error(&'static str),
    /// The process is killed as it enters the call.
    Kill,
}

const EIO: Effect = Effect::Error("EIO");
const ENOSPC: Effect = Effect::Error("ENOSPC");
const EMFILE: Effect = Effect::Error("EMFILE");

/// Calls, how many of each a process makes before it is itself, and what may happen to them.
const CALLS: [(&str, u64, &[Effect]); 11] = [
    ("pwrite64", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("fdatasync", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("fsync", 0, &[EIO, Effect::Kill]),
    ("syncfs", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("rename,renameat,renameat2", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("unlink,unlinkat", 0, &[EIO, Effect::Kill]),
    ("openat", 8, &[EIO, ENOSPC, EMFILE, Effect::Kill]),
    ("fallocate", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("mkdir,mkdirat", 0, &[EIO, ENOSPC, Effect::Kill]),
    ("pread64", 4, &[EIO, Effect::Kill]),
    ("getdents64", 0, &[EIO, Effect::Kill]),
];

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    calls: &'static str,
    effect: Effect,
    nth: u64,
    /// Whether all later calls fail too.
    lasts: bool,
}

/// Runs cycles.
///
/// # Errors
/// [`CampaignError::NotRun`] without `strace`, or where it may not trace; others when the machine
/// fails.
pub fn run(campaign: &mut Campaign<'_>) -> Result<Verdict, CampaignError> {
    run_tool("strace", &["-o", "/dev/null", "true"]).map_err(CampaignError::NotRun)?;
    let mut verdict = Verdict::new(Layer::Syscall);
    let mut dice = Dice::new(campaign.seed);
    let mut yard = Yard::make(campaign.dir, Layer::Syscall)?;
    let mut current: Option<(Subject, u64)> = None;
    let first = dice.bits();
    while verdict.runs < campaign.cycles && !campaign.is_stopped() {
        let fault = Fault::choose(first, verdict.runs, &mut dice);
        verdict.runs += 1;
        let (mut subject, lives) = if let Some(current) = current.take() {
            current
        } else {
            let nature = campaign.nature(Kind::Calls, &mut dice);
            (Subject::new(yard.path(), nature)?, 1 + dice.below(MOST_LIVES))
        };
        let span = Duration::from_millis(1 + dice.below(LONGEST_LIFE_MS));
        let outcome = cycle(campaign, yard.path(), (&mut subject, fault), span);
        verdict.count_all(&subject.take_counts());
        let outcome = outcome.map(|hit| verdict.count(hit.name(), 1));
        if !campaign.conclude(&mut verdict, &mut yard, outcome, "")? {
            break;
        }
        if lives == 1 {
            subject.remove()?;
        } else {
            current = Some((subject, lives - 1));
        }
    }
    Ok(verdict)
}

/// What became of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hit {
    Killed,
    Failed,
    Missed,
}

impl Hit {
    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "lives killed at a call",
            Self::Failed => "lives with a failed call",
            Self::Missed => "lives that ended before the call",
        }
    }
}

/// One life with a fault in it, and what that left.
fn cycle(
    campaign: &Campaign<'_>,
    yard: &Path,
    (subject, fault): (&mut Subject, Fault),
    span: Duration,
) -> Result<Hit, Stop> {
    let log = yard.join("calls");
    let through = fault.through(&log.display().to_string());
    let mut life = subject.start(campaign.program, &through)?;
    let told = |what: String| Stop::Wrong(format!("{}: {what}", fault.inject()));
    work(campaign, subject, &mut life, span).map_err(told)?;
    let status = subject.end(life, Disk::Fails)?;
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    let hit = if calls.contains("(INJECTED)") {
        Hit::Failed
    } else if fault.effect == Effect::Kill && calls.contains("killed by SIGKILL") {
        Hit::Killed
    } else {
        Hit::Missed
    };
    // A fault before the program's first line ends it badly; after that nothing may.
    let is_bad = status.code() == Some(PANIC_CODE)
        || (hit == Hit::Missed && status.code().is_some_and(|code| code != 0));
    if is_bad {
        return Err(told(format!("the process ended badly: {status}")));
    }
    subject.judge(1).map_err(told)?;
    Ok(hit)
}

/// Exit code of a program that panicked.
const PANIC_CODE: i32 = 101;

/// Listens while the process works; after a fault, until each worker has given a sign.
fn work(
    campaign: &Campaign<'_>,
    subject: &mut Subject,
    life: &mut Life,
    span: Duration,
) -> Result<(), String> {
    let mut has_failed = false;
    let mut note = |report: &Report| {
        has_failed |= matches!(report, Report::Trouble { .. } | Report::LaneFailed { .. });
    };
    let is_begun =
        |report: &Report| matches!(report, Report::Ready | Report::Refused { .. } | Report::Ended);
    let begun = subject.listen(life, PATIENCE, Disk::Fails, |report| {
        note(report);
        is_begun(report)
    })?;
    match begun {
        Heard::Report(Report::Ready) => {}
        Heard::Nothing => return Err("the process neither opens its store nor ends".to_owned()),
        _ => return Ok(()),
    }
    let heard = subject.listen(life, span, Disk::Fails, |report| {
        note(report);
        *report == Report::Ended || campaign.is_stopped()
    })?;
    if !matches!(heard, Heard::Nothing) || !has_failed {
        return Ok(());
    }
    let mut silent: Vec<u64> = (0..WORKERS).collect();
    let heard = subject.listen(life, PATIENCE, Disk::Fails, |report| {
        let sign = match report {
            Report::Acked { worker, .. }
            | Report::Full { worker, .. }
            | Report::Stopped { worker, .. } => Some(*worker),
            _ => None,
        };
        silent.retain(|worker| Some(*worker) != sign);
        silent.is_empty() || *report == Report::Ended || campaign.is_stopped()
    })?;
    match heard {
        Heard::Nothing => Err(format!("workers {silent:?} wait for ever after a failed call")),
        _ => Ok(()),
    }
}

impl Fault {
    /// Chooses the fault of a cycle.
    fn choose(first: u64, cycle: u64, dice: &mut Dice) -> Self {
        let all: Vec<(&str, u64, Effect)> = CALLS
            .iter()
            .flat_map(|(calls, before, effects)| {
                effects.iter().map(|effect| (*calls, *before, *effect))
            })
            .collect();
        let kinds = u64::try_from(all.len()).expect("usize fits u64");
        let turn = cycle.wrapping_add(first % kinds);
        let kind = usize::try_from(turn % kinds).expect("smaller than a usize");
        let (calls, before, effect) = all[kind];
        let round = cycle / kinds;
        let nth = if round < IN_ORDER { round } else { IN_ORDER + dice.below(LAST - IN_ORDER) };
        let lasts = effect != Effect::Kill && dice.one_in(4);
        Self { calls, effect, nth: 1 + before + nth, lasts }
    }

    /// As `strace` takes it.
    fn inject(self) -> String {
        let Self { calls, effect, nth, lasts } = self;
        let what = match effect {
            Effect::Error(name) => format!("error={name}"),
            Effect::Kill => "signal=KILL".to_owned(),
        };
        format!("{calls}:{what}:when={nth}{}", if lasts { "+" } else { "" })
    }

    /// What the process is started through.
    fn through(self, log: &str) -> Vec<String> {
        let mut words = vec!["strace", "--follow-forks", "--quiet=attach,personality"];
        // Much faster, and blind to what only delivers a signal.
        if self.effect != Effect::Kill {
            words.push("--seccomp-bpf");
        }
        let (trace, inject) = (format!("--trace={}", self.calls), self.inject());
        let inject = format!("--inject={inject}");
        words.extend([trace.as_str(), &inject, "--output", log]);
        words.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_fault_has_its_turn_and_the_first_calls_come_in_order() {
        let kinds: u64 = CALLS.iter().map(|(_, _, effects)| effects.len() as u64).sum();
        let mut dice = Dice::new(1);
        let round = |round: u64, dice: &mut Dice| -> Vec<Fault> {
            (0..kinds).map(|turn| Fault::choose(7, round * kinds + turn, dice)).collect()
        };
        let (first, second) = (round(0, &mut dice), round(1, &mut dice));
        for (a, b) in first.iter().zip(&second) {
            assert_eq!((a.calls, a.effect, a.nth + 1), (b.calls, b.effect, b.nth));
            let same = |other: &&Fault| (other.calls, other.effect) == (a.calls, a.effect);
            assert_eq!(first.iter().filter(same).count(), 1);
        }
        let later = round(IN_ORDER, &mut dice);
        assert!(later.iter().all(|fault| fault.nth > IN_ORDER && fault.nth <= LAST + 9));
    }
}
