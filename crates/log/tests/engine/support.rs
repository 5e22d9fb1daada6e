//! A log on a simulated disk, and short ways to ask it for things.

use std::sync::Arc;

use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};
use highwater_disk::{Disk, Rng};
use highwater_log::error::{LogResult, OpenError};
use highwater_log::format::Label;
use highwater_log::ids::Offset;
use highwater_log::lane::commit::Ticket;
use highwater_log::options::Options;
use highwater_log::request::{Append, Appended, Config, Create, Created, End, Producer};
use highwater_log::{Driver, Log, Machine};

/// Small segments, so that tests roll over them.
pub fn small() -> Options {
    Options {
        segment_bytes: 64 << 10,
        max_payload_bytes: 8 << 10,
        frame_bytes: 16 << 10,
        max_staged_bytes: 256 << 10,
        checkpoint_wal_bytes: 256 << 10,
        ..Options::default()
    }
}

pub fn disk(seed: u64) -> SimDisk {
    SimDisk::new(SimOptions::seeded(seed))
}

/// Names in a directory of the log or the home, but for its label.
pub fn listed(disk: &SimDisk, dir: &str) -> Vec<String> {
    let names = disk.list(dir).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name != Label::NAME).collect()
}

pub fn open(disk: &SimDisk, options: &Options) -> Result<Log, OpenError> {
    open_with_seed(disk, options, 7)
}

/// A log whose clock the test moves.
pub fn open_at(disk: &SimDisk, options: &Options, clock: &SimClock) -> Result<Log, OpenError> {
    Log::open(machine(Arc::new(disk.clone()), clock, 7), options, Driver::Caller)
}

/// A log whose randomness is another's.
pub fn open_with_seed(disk: &SimDisk, options: &Options, seed: u64) -> Result<Log, OpenError> {
    Log::open(machine(Arc::new(disk.clone()), &SimClock::new(), seed), options, Driver::Caller)
}

/// A log on any disk.
pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Log, OpenError> {
    Log::open(machine(disk, &SimClock::new(), 7), options, Driver::Caller)
}

/// What a log stands on.
pub fn machine(disk: Arc<dyn Disk>, clock: &SimClock, seed: u64) -> Machine {
    let rng = Box::new(SimRng::new(seed)) as Box<dyn Rng>;
    Machine { disk, clock: Arc::new(clock.clone()), rng }
}

pub fn text() -> Config {
    Config { content_type: "text/plain".to_owned(), ..Config::default() }
}

pub fn create(log: &Log, name: &str) -> LogResult<Ticket<Created>> {
    log.create(&Create { name, config: &text(), payload: b"", end: End::Open })
}

/// An append of bytes and nothing else.
pub fn plain<'a>(name: &'a str, payload: &'a [u8]) -> Append<'a> {
    Append { name, payload, end: End::Open, content_type: None, producer: None, sequence: None }
}

pub fn append(log: &Log, name: &str, payload: &[u8]) -> LogResult<Ticket<Appended>> {
    log.append(&plain(name, payload))
}

pub fn produced<'a>(name: &'a str, payload: &'a [u8], epoch: u64, sequence: u64) -> Append<'a> {
    Append { producer: Some(Producer { id: "p", epoch, sequence }), ..plain(name, payload) }
}

/// Reads a whole stream, a little at a time.
pub fn read_all(log: &Log, name: &str) -> LogResult<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut from = Offset(0);
    loop {
        let answer = log.read(name, from, 3000)?;
        if answer.next == from {
            assert_eq!(answer.tail, from, "a reader stops at the tail only");
            return Ok(bytes);
        }
        bytes.extend(answer.to_vec());
        from = answer.next;
    }
}
