//! Streams on a simulated disk, and short ways to ask for things.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};
use highwater_disk::{Disk, Rng};
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{End, Producer};
use highwater_log::{Driver, Log, Machine};
use highwater_streams::content::ContentType;
use highwater_streams::error::{Outcome, Problem};
use highwater_streams::etag::StoreTag;
use highwater_streams::fields::{ForkFrom, Lifetime};
use highwater_streams::offset::Place;
use highwater_streams::path::StreamPath;
use highwater_streams::service::{
    Append, Appended, Around, Chunk, Create, Created, Limits, Streams,
};

use crate::hooked::{Hooked, Meanwhile};

/// Small chunks, so that tests need several.
pub const LIMITS: Limits = Limits {
    chunk_bytes: 64,
    append_bytes: 8 << 10,
    ring_bytes: 1 << 10,
    answers_bytes: 256 << 20,
};

pub const TEXT: &str = "text/plain";
pub const JSON: &str = "application/json";
pub const BYTES: &str = "application/octet-stream";

/// A store and the streams in it.
pub struct Store {
    pub disk: SimDisk,
    pub clock: SimClock,
    pub options: Options,
    pub limits: Limits,
    pub log: Arc<Log>,
    pub streams: Streams,
}

impl Store {
    pub fn new(seed: u64) -> Self {
        let limits = LIMITS;
        Self::with(seed, limits, 1)
    }

    pub fn with(seed: u64, limits: Limits, lanes: u16) -> Self {
        let disk = SimDisk::new(SimOptions::seeded(seed));
        let options = Options {
            lanes,
            segment_bytes: 64 << 10,
            max_payload_bytes: 8 << 10,
            frame_bytes: 16 << 10,
            max_staged_bytes: 256 << 10,
            checkpoint_wal_bytes: 256 << 10,
            ..Options::default()
        };
        Self::open(disk, SimClock::new(), (options, Driver::Caller), limits)
    }

    /// A store with settings of its own.
    pub fn with_options(seed: u64, limits: Limits, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Self::new(seed).options;
        change(&mut options);
        let disk = SimDisk::new(SimOptions::seeded(seed));
        Self::open(disk, SimClock::new(), (options, Driver::Caller), limits)
    }

    /// A store whose log commits by itself.
    pub fn threaded(seed: u64) -> Self {
        let disk = SimDisk::new(SimOptions::seeded(seed));
        Self::open(disk, SimClock::new(), (Options::default(), Driver::Threads), LIMITS)
    }

    /// A store where something can happen while its home is read.
    pub fn with_meanwhile(seed: u64) -> (Self, Meanwhile) {
        let options = Self::new(seed).options;
        let (inner, meanwhile) = (SimDisk::new(SimOptions::seeded(seed)), Meanwhile::default());
        let hooked = Hooked { inner: inner.clone(), meanwhile: meanwhile.clone() };
        let (seam, way): (Arc<dyn Disk>, _) = (Arc::new(hooked), (options, Driver::Caller));
        (Self::open_through((inner, seam), SimClock::new(), way, LIMITS), meanwhile)
    }

    fn open(disk: SimDisk, clock: SimClock, way: (Options, Driver), limits: Limits) -> Self {
        let seam: Arc<dyn Disk> = Arc::new(disk.clone());
        Self::open_through((disk, seam), clock, way, limits)
    }

    fn open_through(
        (disk, seam): (SimDisk, Arc<dyn Disk>),
        clock: SimClock,
        (options, driver): (Options, Driver),
        limits: Limits,
    ) -> Self {
        let machine = Machine {
            disk: seam,
            clock: Arc::new(clock.clone()),
            rng: Box::new(SimRng::new(7)) as Box<dyn Rng>,
        };
        let log = Arc::new(Log::open(machine, &options, driver).unwrap());
        let around = Around {
            log: Arc::clone(&log),
            clock: Arc::new(clock.clone()),
            rng: Box::new(SimRng::new(8)),
        };
        let streams = Streams::new(around, limits, StoreTag(0xcafe));
        Self { disk, clock, options, limits, log, streams }
    }

    /// Cuts the power, and opens what is left.
    pub fn crash(self) -> Self {
        let disk = self.disk.crash();
        let (clock, options, limits) = (self.clock.clone(), self.options.clone(), self.limits);
        drop(self);
        Self::open(disk, clock, (options, Driver::Caller), limits)
    }

    /// What a power cut at this moment would leave.
    pub fn crash_copy(&self) -> Self {
        let (clock, options) = (self.clock.clone(), self.options.clone());
        Self::open(self.disk.crash(), clock, (options, Driver::Caller), self.limits)
    }

    /// Runs a future on a disk that may stop at any moment; nothing where it does not end.
    pub fn attempt<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..50 {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Some(value);
            }
            self.log.step();
        }
        None
    }

    /// Runs a future to its end, committing whatever it waits for.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10_000 {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            self.log.step();
        }
        panic!("the future waits for ever");
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        while self.log.step() {}
    }

    pub fn put(&self, name: &str, request: &Create<'_>) -> Outcome<Created> {
        self.run(self.streams.create(&path(name), request))
    }

    pub fn post(&self, name: &str, request: &Append<'_>) -> Outcome<Appended> {
        self.run(self.streams.append(&path(name), request))
    }

    pub fn delete(&self, name: &str) -> Outcome<()> {
        let deleted = self.run(self.streams.delete(&path(name)));
        while self.log.step() {}
        deleted
    }

    pub fn get(&self, name: &str, place: Place) -> Outcome<Chunk> {
        self.streams.read(&path(name), place)
    }

    /// Reads a whole stream, chunk by chunk, and gives the bodies.
    pub fn chunks(&self, name: &str) -> Vec<String> {
        let (mut place, mut bodies) = (Place::Start, Vec::new());
        loop {
            let chunk = self.get(name, place).unwrap();
            bodies.push(text_of(&chunk));
            if chunk.is_up_to_date {
                return bodies;
            }
            assert!(Place::At(chunk.next) != place, "a chunk that is not the last one has content");
            place = Place::At(chunk.next);
        }
    }

    pub fn all(&self, name: &str) -> String {
        self.chunks(name).concat()
    }
}

pub fn path(name: &str) -> StreamPath {
    StreamPath::relative(name).unwrap()
}

pub fn typed(text: &str) -> ContentType {
    ContentType::parse(text).unwrap()
}

pub fn text_of(chunk: &Chunk) -> String {
    String::from_utf8(chunk.body.to_bytes().to_vec()).unwrap()
}

/// A stream with first content.
pub fn create<'a>(content_type: &str, body: &'a str) -> Create<'a> {
    Create {
        content_type: Some(typed(content_type)),
        lifetime: Lifetime::Unsaid,
        end: End::Open,
        body: body.as_bytes(),
        fork: None,
    }
}

pub fn closed(create: Create<'_>) -> Create<'_> {
    Create { end: End::Close, ..create }
}

/// A fork that says nothing but its source.
pub fn fork(source: &str, offset: Option<u64>, sub_offset: u64) -> Create<'static> {
    let fork = ForkFrom { source: path(source), offset: offset.map(Offset), sub_offset };
    Create { content_type: None, fork: Some(fork), ..create(TEXT, "") }
}

pub fn append<'a>(content_type: &str, body: &'a str) -> Append<'a> {
    Append {
        content_type: Some(typed(content_type)),
        body: body.as_bytes(),
        end: End::Open,
        producer: None,
        sequence: None,
    }
}

pub fn closing(append: Append<'_>) -> Append<'_> {
    Append { end: End::Close, ..append }
}

pub fn close() -> Append<'static> {
    Append { content_type: None, ..closing(append(TEXT, "")) }
}

pub fn produced<'a>(append: Append<'a>, id: &'a str, epoch: u64, sequence: u64) -> Append<'a> {
    Append { producer: Some(Producer { id, epoch, sequence }), ..append }
}

pub fn ttl(seconds: u64) -> Lifetime {
    Lifetime::Ttl { seconds }
}

pub fn until(text: &str) -> Lifetime {
    Lifetime::parse(None, Some(text)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "what is given is an answer at hand")]
pub fn code<T: std::fmt::Debug>(outcome: Outcome<T>) -> &'static str {
    outcome.as_ref().map_err(Problem::code).expect_err("it went through")
}
