//! Ends without closing the log, as a killed process does, and goes on where it was: each run finds
//! what the ones before were told is durable, and sends the last record once more without effect.
//!
//! `cargo run -p highwater-log --example recover -- DIR`, several times.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::LogError;
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{Append, AppendOutcome, Config, Create, End, Producer};
use highwater_log::{Driver, Log, Machine};

/// Appends a line; one that was taken in before is known again by its number.
fn append(log: &Log, sequence: u64) -> Result<AppendOutcome, LogError> {
    let line = format!("line {sequence}\n");
    let append = Append {
        name: "journal",
        payload: line.as_bytes(),
        end: End::Open,
        content_type: None,
        producer: Some(Producer { id: "recover", epoch: 0, sequence }),
        sequence: None,
    };
    Ok(log.append(&append)?.wait()?.outcome)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("name a directory for the log")?;
    std::fs::create_dir_all(&dir)?;
    let machine = Machine {
        disk: Arc::new(RealDisk::open(Path::new(&dir))?),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    let log = Log::open(machine, &Options::default(), Driver::Threads)?;
    let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
    let create = Create { name: "journal", config: &config, payload: b"", end: End::Open };
    let made = log.create(&create)?.wait()?;
    println!("{:?} stream, {} bytes", made.outcome, made.tail);

    let text = String::from_utf8(log.read("journal", Offset(0), 1 << 20)?.to_vec())?;
    print!("{text}");
    let lines = u64::try_from(text.lines().count())?;
    if let Some(last) = lines.checked_sub(1) {
        // Whoever does not know whether an append was acknowledged sends it again.
        println!("line {last} again: {:?}", append(&log, last)?);
    }
    println!("line {lines}: {:?}", append(&log, lines)?);
    // No destructor runs, and nothing is closed: what was acknowledged needs neither.
    std::process::exit(0);
}
