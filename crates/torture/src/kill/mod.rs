//! A process that is killed: does what it acknowledged survive, and do retries add nothing twice?
//!
//! Each cycle starts a child (`child`) on the same real directory. Its producers append records
//! that say what they are (`records`) and report each acknowledgement on a pipe. At a random
//! moment the child is killed with SIGKILL; the parent reads the pipe to its end, opens the
//! directory itself, and compares. The next child goes on from what was reported, so that whatever
//! was not is tried again (I1, I3, I4).
//!
//! A killed process loses nothing that the kernel has: this finds what is wrong in the program, not
//! in its barriers. `sim` loses power.

pub mod child;
mod records;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::options::Options;
use highwater_log::{Driver, Log, Machine};

use crate::dice::Dice;
use crate::oracle::look;
use crate::verdict::{Layer, Verdict};
use child::Orders;

/// Producers of a child.
pub(crate) const PRODUCERS: u64 = 4;
/// Name of the stream that all producers share.
const SHARED: &str = "shared";
/// Longest life of a child.
const LONGEST_LIFE_MS: u64 = 120;

/// How to start a child: the program, and what makes it call [`child::run`].
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Why a campaign could not run.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// Starting, feeding or reading the child.
    #[error("the child: {0}")]
    Child(#[from] std::io::Error),
}

/// Runs cycles in a directory, which must be empty or of an earlier campaign of the same kind.
///
/// # Errors
/// When a child cannot be started or read.
pub fn run(
    program: &Program,
    dir: &Path,
    (seed, cycles): (u64, u64),
    mut progress: impl FnMut(u64),
) -> Result<Verdict, KillError> {
    let mut verdict = Verdict::new(Layer::Kill);
    let mut dice = Dice::new(seed);
    let mut reported = BTreeMap::new();
    for _ in 0..cycles {
        verdict.runs += 1;
        let life = Duration::from_millis(1 + dice.below(LONGEST_LIFE_MS));
        let orders = Orders { dir: dir.to_owned(), next: reported.clone() };
        let ended = cycle(program, &orders, life, &mut reported)?;
        let found = ended.and_then(|()| judge(dir, &reported));
        match found {
            Ok(records) => verdict.count("records checked", records),
            Err(what) => {
                let what = format!("cycle {}: {what}; the directory is kept", verdict.runs);
                let again = format!("--cycles {cycles} --seed {seed} --dir DIR");
                verdict.fail(what, &again);
                break;
            }
        }
        progress(verdict.runs);
    }
    verdict.count("acknowledged", reported.values().sum());
    Ok(verdict)
}

/// The settings of parent and child: small segments and a busy checkpoint.
pub(crate) fn open(dir: &Path, driver: Driver) -> Result<Log, String> {
    let options = Options {
        segment_bytes: 256 << 10,
        max_payload_bytes: 16 << 10,
        frame_bytes: 32 << 10,
        max_staged_bytes: 256 << 10,
        checkpoint_wal_bytes: 512 << 10,
        max_wal_bytes: 8 << 20,
        max_open_files: 2,
        ..Options::default()
    };
    let disk = RealDisk::open(dir).map_err(|error| error.to_string())?;
    let machine = Machine {
        disk: Arc::new(disk),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    Log::open(machine, &options, driver).map_err(|error| format!("it does not open: {error}"))
}

/// The stream of a producer's own records.
pub(crate) fn own(producer: u64) -> String {
    format!("own/{producer}")
}

/// One child's life. `reported` gets what it reported, up to its last whole line. Gives how the
/// child ended, if not by being killed.
fn cycle(
    program: &Program,
    orders: &Orders,
    life: Duration,
    reported: &mut BTreeMap<u64, u64>,
) -> Result<Result<(), String>, KillError> {
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let told = tell(&mut child, orders);
    let lines = read_lines(child.stdout.take().expect("it is piped"));
    let first = lines.recv();
    // Its life begins when it begins to work: an opening takes longer than most lives.
    let begun = Instant::now();
    let mut all: Vec<String> = first.into_iter().collect();
    loop {
        let left = life.saturating_sub(begun.elapsed());
        match lines.recv_timeout(left) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    child.kill()?;
    let status = child.wait()?;
    all.extend(lines.iter());
    told?;
    for (producer, sequence) in all.iter().filter_map(|line| child::parse_report(line)) {
        let next = reported.entry(producer).or_insert(0);
        *next = (*next).max(sequence + 1);
    }
    match status.signal() {
        Some(_) => Ok(Ok(())),
        None => Ok(Err(format!("the child ended by itself: {status}"))),
    }
}

fn tell(child: &mut Child, orders: &Orders) -> std::io::Result<()> {
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(orders.to_line().as_bytes())
}

/// Reads whole lines in a thread of their own, until the pipe ends.
fn read_lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|len| len > 0) {
            // A line that was cut off reports nothing.
            if !line.ends_with('\n') || sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Compares what is there with what was reported; gives the number of records.
fn judge(dir: &Path, reported: &BTreeMap<u64, u64>) -> Result<u64, String> {
    let log = open(dir, Driver::Caller)?;
    let mut checked = 0;
    let content = |name: &str| match look(&log, name) {
        Ok(seen) => Ok(seen.map(|seen| seen.content).unwrap_or_default()),
        Err(error) => Err(format!("{name}: {error}")),
    };
    let shared = records::sequences(&content(SHARED)?).map_err(|why| format!("{SHARED}: {why}"))?;
    for producer in 0..PRODUCERS {
        let acked = reported.get(&producer).copied().unwrap_or_default();
        let name = own(producer);
        let own = records::sequences(&content(&name)?).map_err(|why| format!("{name}: {why}"))?;
        if own.keys().any(|other| *other != producer) {
            return Err(format!("{name} has another producer's records"));
        }
        // Even sequence numbers go to the producer's own stream, odd ones to the shared one.
        let (evens, odds) = (acked.div_ceil(2), acked / 2);
        for (place, found, acked) in [
            (&*name, own.get(&producer).copied().unwrap_or_default(), evens),
            (SHARED, shared.get(&producer).copied().unwrap_or_default(), odds),
        ] {
            checked += found;
            // One more may be there: it was taken in, and the report was cut off.
            if found < acked || found > acked + 1 {
                return Err(format!(
                    "{place} has {found} records of producer {producer}, {acked} were acknowledged"
                ));
            }
        }
    }
    Ok(checked)
}
