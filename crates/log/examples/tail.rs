//! Follows a stream while others append to it: a reader sees durable bytes only, in order.
//!
//! `cargo run -p highwater-log --example tail -- DIR`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::ids::Offset;
use highwater_log::lane::waiters::Waiter;
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End};
use highwater_log::{Driver, Log, Machine};

fn append(log: &Log, payload: &[u8], end: End) -> Result<(), highwater_log::error::LogError> {
    let (name, content_type, producer, sequence) = ("tail", None, None, None);
    log.append(&Append { name, payload, end, content_type, producer, sequence })?.wait()?;
    Ok(())
}

/// Reads to the end of the stream, parking while there is nothing new.
fn follow(log: &Log) -> Result<Vec<u8>, highwater_log::error::LogError> {
    let (mut bytes, mut at) = (Vec::new(), Offset(0));
    loop {
        let answer = log.read("tail", at, 1 << 20)?;
        bytes.extend(answer.to_vec());
        at = answer.next;
        if answer.is_closed && at == answer.tail {
            return Ok(bytes);
        }
        if at == answer.tail {
            // Kept while this thread waits: dropped, it would wake nobody.
            let watch = log.watch("tail", at, Waiter::Thread(std::thread::current()))?;
            if watch.is_some() {
                std::thread::park();
            }
        }
    }
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
    let config = Config::default();
    let create = Create { name: "tail", config: &config, payload: b"", end: End::Open };
    log.create(&create)?.wait()?;
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let reader = scope.spawn(|| follow(&log));
        for number in 0..5 {
            append(&log, format!("line {number}\n").as_bytes(), End::Open)?;
        }
        append(&log, b"", End::Close)?;
        let bytes = reader.join().map_err(|_| "the reader panicked")??;
        print!("{}", String::from_utf8(bytes)?);
        Ok(())
    })?;
    log.delete("tail")?.wait()?;
    Ok(())
}
