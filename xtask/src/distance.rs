//! How far apart two processors are: what a cache line takes from one to the other and back.
//!
//! On a virtual machine the host may move its processors while something is measured, between cores
//! that share a cache and cores that do not, and what two of them do together then costs more. So
//! figures of a server on one and its clients on the other are told apart by what this says beside
//! them.

use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Times there and back in a reading.
const TURNS: u32 = 200_000;
/// Processors that share a cache are nearer than this.
const NEAR_NS: f64 = 110.0;
/// Those that do not are farther.
const FAR_NS: f64 = 200.0;

/// Alone in its line, and in the one that is fetched with it.
#[repr(align(128))]
struct Line(AtomicU32);

/// Prints a reading at a time, and what they come to.
pub fn print(processors: [u32; 2], readings: u32) -> Result<()> {
    let mut all = Vec::new();
    for _ in 0..readings {
        let ns = reading(processors)?;
        println!("{ns:4.0} ns {}", kind(ns));
        all.push(ns);
    }
    all.sort_by(f64::total_cmp);
    let count = |name| all.iter().filter(|&&ns| kind(ns) == name).count();
    if let [lowest, .., highest] = all.as_slice() {
        println!(
            "processors {} and {}: {lowest:.0} to {highest:.0} ns there and back, median {:.0}; \
             of {readings} readings {} near, {} far, {} between",
            processors[0],
            processors[1],
            all[all.len() / 2],
            count("near"),
            count("far"),
            count("between"),
        );
    }
    Ok(())
}

/// Reads which two are meant.
pub fn pair(text: &str) -> Result<[u32; 2]> {
    let (one, other) = text.split_once(',').context("two processors, as in 0,1")?;
    let pair = [one.trim().parse()?, other.trim().parse()?];
    ensure!(pair[0] != pair[1], "these are one processor");
    Ok(pair)
}

fn kind(ns: f64) -> &'static str {
    match ns {
        _ if ns < NEAR_NS => "near",
        _ if ns > FAR_NS => "far",
        _ => "between",
    }
}

/// Hands a line to and fro; gives the time for once there and back, in ns.
fn reading(processors: [u32; 2]) -> Result<f64> {
    let line = Line(AtomicU32::new(0));
    let (begin, are_put) = (Barrier::new(2), AtomicBool::new(true));
    let hand_to_and_fro = |side: usize| -> Result<Duration> {
        let put = stay_on(processors[side]);
        are_put.fetch_and(put.is_ok(), Ordering::SeqCst);
        begin.wait();
        put?;
        let start = Instant::now();
        // Alone it would wait for ever.
        if are_put.load(Ordering::SeqCst) {
            (0..TURNS).for_each(|turn| hand_on(&line, 2 * turn + u32::from(side == 1)));
        }
        Ok(start.elapsed())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| hand_to_and_fro(1));
        let took = scope.spawn(|| hand_to_and_fro(0)).join().expect("it does not panic");
        other.join().expect("it does not panic")?;
        Ok(took?.as_secs_f64() * 1e9 / f64::from(TURNS))
    })
}

/// Waits until it is this one's turn, and makes it the other's.
fn hand_on(line: &Line, turn: u32) {
    while line.0.load(Ordering::SeqCst) != turn {
        std::hint::spin_loop();
    }
    line.0.store(turn + 1, Ordering::SeqCst);
}

/// Keeps this thread on a processor.
fn stay_on(processor: u32) -> Result<()> {
    let thread = std::fs::read_link("/proc/thread-self").context("this thread's number")?;
    let thread = thread.file_name().context("a thread without a number")?;
    let output = Command::new("taskset")
        .args(["--cpu-list", "--pid", &processor.to_string()])
        .arg(thread)
        .output()
        .context("taskset (of util-linux) cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "no thread can be kept on processor {processor}: {said}");
    Ok(())
}
