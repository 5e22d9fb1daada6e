//! Many threads append at once: one barrier acknowledges whoever has written meanwhile.
//!
//! `cargo run --release -p highwater-log --example group_commit -- DIR`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::LogError;
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End};
use highwater_log::{Driver, Log, Machine};

const APPENDS_PER_THREAD: u32 = 200;

fn write(log: &Log, thread: u32) -> Result<(), LogError> {
    let name = format!("thread/{thread}");
    let config = Config::default();
    let create = Create { name: &name, config: &config, payload: b"", end: End::Open };
    log.create(&create)?.wait()?;
    for _ in 0..APPENDS_PER_THREAD {
        let append = Append {
            name: &name,
            payload: &[7; 256],
            end: End::Open,
            content_type: None,
            producer: None,
            sequence: None,
        };
        log.append(&append)?.wait()?;
    }
    log.delete(&name)?.wait()?;
    Ok(())
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
    for threads in [1, 4, 16, 64] {
        let begun = Instant::now();
        let results: Vec<Result<(), LogError>> = std::thread::scope(|scope| {
            let log = &log;
            let writers: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || write(log, thread))).collect();
            writers.into_iter().map(|w| w.join().expect("a writer does not panic")).collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        let appends = f64::from(threads * APPENDS_PER_THREAD);
        println!("{threads:>3} threads: {:.0} appends/s", appends / begun.elapsed().as_secs_f64());
    }
    Ok(())
}
