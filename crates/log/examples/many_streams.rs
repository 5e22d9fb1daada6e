//! Makes many idle streams, and shows what they cost: bytes in memory, bytes of a checkpoint, time
//! of an opening, and how long a checkpoint keeps others waiting.
//!
//! `cargo run --release -p highwater-log --example many_streams -- DIR make 1000000`, then
//! `cargo run --release -p highwater-log --example many_streams -- DIR open`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater_disk::Clock;
use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End};
use highwater_log::{Driver, Log, Machine};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut words = std::env::args_os().skip(1);
    let dir = words.next().ok_or("name a directory for the log")?;
    let what = words.next().ok_or("say make or open")?;
    let number = words.next().and_then(|word| word.to_str()?.parse().ok()).unwrap_or(1_000_000);
    let partition = std::env::args().nth(4).and_then(|word| word.parse().ok()).unwrap_or(2048);
    let options = Options {
        // What is read of the log at an opening is little, and little of it stays in memory.
        segment_bytes: 4 << 20,
        max_payload_bytes: 1 << 20,
        // A checkpoint runs when it is asked for.
        checkpoint_wal_bytes: 4 << 30,
        max_wal_bytes: 4 << 30,
        checkpoint_interval: Duration::from_secs(3600),
        partition_streams: partition,
        ..Options::default()
    };
    std::fs::create_dir_all(&dir)?;
    let dir = Path::new(&dir);
    if what == "make" { make(dir, &options, number) } else { reopen(dir, &options) }
}

fn open(dir: &Path, options: &Options) -> Outcome<Log> {
    let machine = Machine {
        disk: Arc::new(RealDisk::open(dir)?),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    Ok(Log::open(machine, options, Driver::Threads)?)
}

fn name(number: u64) -> String {
    format!("stream/{number:08}")
}

fn make(dir: &Path, options: &Options, streams: u64) -> Outcome<()> {
    let log = open(dir, options)?;
    let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
    let (begun, mut last) = (SystemClock::new(), None);
    for number in 0..streams {
        let name = name(number);
        let create = Create { name: &name, config: &config, payload: b"", end: End::Open };
        let ticket = loop {
            match log.create(&create) {
                Err(error) if error.is_lack_of_room() => std::thread::yield_now(),
                made => break made?,
            }
        };
        // One in so many is waited for, so that not too much is staged.
        if number % 10_000 == 0 || number + 1 == streams {
            last = Some(ticket.wait()?);
        }
    }
    let made = last.ok_or("no stream was asked for")?;
    println!("{streams} streams made in {:?}, the last is {}", begun.monotonic(), made.id);
    checkpoint(&log, dir, "all of them")?;
    for round in 0..3 {
        for number in (round..streams).step_by(usize::try_from(streams / 10)?) {
            let name = name(number);
            let (payload, end) = (&b"ten bytes."[..], End::Open);
            let (content_type, producer, sequence) = (None, None, None);
            let append = Append { name: &name, payload, end, content_type, producer, sequence };
            log.append(&append)?.wait()?;
        }
        checkpoint(&log, dir, "ten of them")?;
    }
    Ok(())
}

/// Runs a checkpoint, and asks for a stream's state all the while.
fn checkpoint(log: &Log, dir: &Path, of: &str) -> Outcome<()> {
    let (before, is_done) = (bytes_in(dir)?, AtomicBool::new(false));
    let begun = SystemClock::new();
    let (waits, done) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut waits = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let asked = SystemClock::new();
                log.info("stream/00000001");
                waits.push(asked.monotonic());
                std::thread::park_timeout(Duration::from_micros(50));
            }
            waits
        });
        let done = log.checkpoint();
        is_done.store(true, Ordering::Relaxed);
        (asking.join(), done)
    });
    done?;
    let mut waits = waits.map_err(|_| "the asking thread panicked")?;
    waits.sort_unstable();
    let longest = waits.last().copied().unwrap_or_default();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    println!(
        "checkpoint of {of}: {} bytes of tables after {before}, {:?}; others waited {longest:?} at \
         most, {p99:?} at the 99th percentile of {}",
        bytes_in(dir)?,
        begun.monotonic(),
        waits.len()
    );
    Ok(())
}

fn reopen(dir: &Path, options: &Options) -> Outcome<()> {
    let (before, begun) = (resident_bytes()?, SystemClock::new());
    let log = open(dir, options)?;
    let (opened, after) = (begun.monotonic(), resident_bytes()?);
    let streams = u64::try_from(log.list("", None, usize::MAX).len())?;
    println!("{streams} streams opened in {opened:?}");
    println!("{} bytes for each in memory", (after - before) / streams.max(1));
    Ok(())
}

/// Bytes in files of tables.
fn bytes_in(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir.join("tables"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Memory of this process that is there, bytes.
fn resident_bytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
