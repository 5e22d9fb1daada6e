//! Makes a stream, appends, closes the log, opens it again: everything acknowledged is there.
//!
//! `cargo run -p highwater-log --example append -- DIR`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End};
use highwater_log::{Driver, Log, Machine};

fn open(dir: &Path) -> Result<Log, Box<dyn Error>> {
    let machine = Machine {
        disk: Arc::new(RealDisk::open(dir)?),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    Ok(Log::open(machine, &Options::default(), Driver::Threads)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("name a directory for the log")?;
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    let log = open(dir)?;
    let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
    let create = Create { name: "greetings", config: &config, payload: b"", end: End::Open };
    log.create(&create)?.wait()?;
    for word in ["hello ", "durable ", "world"] {
        let append = Append {
            name: "greetings",
            payload: word.as_bytes(),
            end: End::Open,
            content_type: None,
            producer: None,
            sequence: None,
        };
        // Returns when the bytes are behind a barrier.
        let appended = log.append(&append)?.wait()?;
        println!("{word:?} ends at {}", appended.tail);
    }
    // In order: from now on damage even to the last commit is told from a torn end.
    log.close()?;
    drop(log);

    let log = open(dir)?;
    let answer = log.read("greetings", Offset(0), 1 << 20)?;
    println!("after opening again: {:?}", String::from_utf8(answer.to_vec())?);
    log.delete("greetings")?.wait()?;
    Ok(())
}
