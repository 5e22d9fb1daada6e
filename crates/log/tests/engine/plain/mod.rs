//! Sequences of operations, each done before the next begins, against a map that says what they
//! should come to. What fails is made as short as it can be.

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use highwater_disk::sim::{SimClock, SimDisk};
use highwater_log::Log;
use highwater_log::error::{LogError, LogResult};
use highwater_log::ids::Offset;
use highwater_log::lane::Watch;
use highwater_log::lane::commit::Ticket;
use highwater_log::lane::waiters::Waiter;
use highwater_log::options::Options;
use highwater_log::request::{
    Append, AppendOutcome, Appended, Config, Create, CreateOutcome, Created, End, Expiry, Fork,
    Producer,
};
use proptest::prelude::*;

use crate::support::*;
use model::{Add, MAX_PRODUCERS, Model, New, Novelty, Outcome};

const NAMES: [&str; 4] = ["a", "b", "b/c", "d"];
/// A use is logged when it is an eighth of this later than the last: at every second that passes.
const TTL_MS: u64 = 8000;

/// A producer's place among a few, its epoch, and how far its number is from the right one.
type Claim = (usize, u64, i64);

#[derive(Debug, Clone)]
enum Step {
    Create { name: usize, len: usize, expiry: u8, closes: bool },
    Fork { name: usize, source: usize, offset: Option<u16>, len: usize },
    Append { name: usize, len: usize, closes: bool, claim: Option<Claim>, sequence: u8 },
    Delete { name: usize },
    Touch { name: usize },
    Pass { seconds: u64 },
    Read { name: usize, from: u16, max_bytes: u64 },
    List { prefix: usize, after: usize, limit: usize },
    Checkpoint,
    Maintain,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let len = || prop_oneof![Just(0_usize), 1..50_usize, 1000..8000_usize];
    let claim = prop::option::of((0..3_usize, 0..2_u64, -1..2_i64));
    prop_oneof![
        3 => (name(), len(), 0..6_u8, prop::bool::weighted(0.1))
            .prop_map(|(name, len, expiry, closes)| Step::Create { name, len, expiry, closes }),
        3 => (name(), name(), prop::option::of(any::<u16>()), len())
            .prop_map(|(name, source, offset, len)| Step::Fork { name, source, offset, len }),
        6 => (name(), len(), prop::bool::weighted(0.1), claim, 0..8_u8).prop_map(
            |(name, len, closes, claim, sequence)| Step::Append {
                name, len, closes, claim, sequence,
            }
        ),
        3 => name().prop_map(|name| Step::Delete { name }),
        2 => name().prop_map(|name| Step::Touch { name }),
        2 => (1..7_u64).prop_map(|seconds| Step::Pass { seconds }),
        2 => (name(), any::<u16>(), 1..9000_u64)
            .prop_map(|(name, from, max_bytes)| Step::Read { name, from, max_bytes }),
        1 => (name(), name(), 1..5_usize)
            .prop_map(|(prefix, after, limit)| Step::List { prefix, after, limit }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Maintain),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream that is watched, as it was, and whether anything has come.
type Watched = (&'static str, model::Stream, Arc<Bell>, Watch);

/// A log and its model.
struct Pair {
    disk: SimDisk,
    clock: SimClock,
    options: Options,
    log: Option<Log>,
    model: Model,
    /// Distinguishes payloads.
    steps: u8,
}

impl Pair {
    fn new(lanes: u16) -> Self {
        let max_producers = u32::try_from(MAX_PRODUCERS).unwrap();
        let options = Options { lanes, max_producers, ..small() };
        let (disk, clock) = (disk(7), SimClock::new());
        clock.set_wall(Duration::from_secs(1000));
        let log = Some(open_at(&disk, &options, &clock).unwrap());
        let model = Model::at(1_000_000);
        Self { disk, clock, options, log, model, steps: 0 }
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("it is open")
    }

    fn payload(&self, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at % 251).unwrap() ^ self.steps).collect()
    }

    /// Everything is committed, and what is over has ended.
    fn settle(&self) {
        while self.log().step() {}
    }

    fn act(&mut self, step: &Step) {
        self.steps = self.steps.wrapping_add(1);
        match *step {
            Step::Create { name, len, expiry, closes } => {
                let payload = self.payload(len);
                let new = self.new_stream((name, expiry), &payload, closes);
                let told = made(self.ask_create(&new));
                assert_eq!(told, self.model.create(new));
            }
            Step::Fork { name, source, offset, len } => {
                let payload = self.payload(len);
                let new = self.new_stream((name, 0), &payload, false);
                let tail = self.model.find(NAMES[source]).map_or(0, |stream| stream.content.len());
                // Now and then beyond the tail.
                let offset = offset.map(|offset| u64::from(offset) % (to_u64(tail) + 3));
                let told = made(self.ask_fork(&new, NAMES[source], offset));
                assert_eq!(told, self.model.fork(new, NAMES[source], offset));
            }
            Step::Append { name, len, closes, claim, sequence } => {
                let payload = self.payload(len);
                let name = NAMES[name];
                let claim = claim.map(|(id, epoch, ahead)| {
                    let next = self.model.find(name).map_or(0, |stream| stream.next_of(id_of(id)));
                    (id_of(id), epoch, next.saturating_add_signed(ahead))
                });
                let sequence = Some(sequence).filter(|sequence| *sequence > 4);
                let add = Add { name, payload: &payload, closes, claim, sequence };
                let told = appended(self.ask_append(&add));
                assert_eq!(told, self.model.append(add));
            }
            Step::Delete { name } => {
                let told = plain(self.log().delete(NAMES[name]).and_then(Ticket::wait));
                assert_eq!(told, self.model.delete(NAMES[name]));
            }
            Step::Touch { name } => {
                let told = plain(self.log().touch(NAMES[name]));
                assert_eq!(told, self.model.touch(NAMES[name]));
            }
            Step::Pass { seconds } => {
                self.clock.advance(Duration::from_secs(seconds));
                self.model.pass(seconds * 1000);
            }
            Step::Read { name, from, max_bytes } => self.read(NAMES[name], from, max_bytes),
            Step::List { prefix, after, limit } => {
                let (prefix, after) = (&NAMES[prefix][..1], NAMES[after]);
                let listed = self.log().list(prefix, Some(after), limit);
                let names = self.model.names();
                let names = names.filter(|name| name.starts_with(prefix) && *name > after);
                assert_eq!(listed, names.take(limit).collect::<Vec<_>>());
            }
            Step::Checkpoint => drop(self.log().checkpoint().unwrap()),
            Step::Maintain => self.log().maintain(),
            Step::Reopen => {
                self.log = None;
                self.log = Some(open_at(&self.disk, &self.options, &self.clock).unwrap());
            }
        }
        self.settle();
    }

    fn new_stream<'a>(
        &self,
        (name, expiry): (usize, u8),
        payload: &'a [u8],
        closes: bool,
    ) -> New<'a> {
        let expiry = match expiry {
            1 | 2 => Some(Expiry::Sliding { ttl_ms: TTL_MS }),
            3 => Some(Expiry::Absolute { at_ms: self.model.now_ms + 5000 }),
            _ => None,
        };
        New { name: NAMES[name], expiry, payload, closes }
    }

    fn ask_create(&self, new: &New<'_>) -> LogResult<Ticket<Created>> {
        let (config, end) = (config(new), end(new.closes));
        let request = Create { name: new.name, config: &config, payload: new.payload, end };
        self.log().create(&request)
    }

    fn ask_fork(
        &self,
        new: &New<'_>,
        source: &str,
        offset: Option<u64>,
    ) -> LogResult<Ticket<Created>> {
        let (config, end, offset) = (config(new), end(new.closes), offset.map(Offset));
        let (name, payload) = (new.name, new.payload);
        self.log().fork(&Fork {
            name,
            source,
            offset,
            source_id: None,
            config: &config,
            payload,
            end,
        })
    }

    fn ask_append(&self, add: &Add<'_>) -> LogResult<Ticket<Appended>> {
        let sequence = add.sequence.map(|sequence| [sequence]);
        let producer = add.claim.map(|(id, epoch, sequence)| Producer { id, epoch, sequence });
        self.log().append(&Append {
            name: add.name,
            payload: add.payload,
            end: end(add.closes),
            content_type: None,
            producer,
            sequence: sequence.as_ref().map(|sequence| &sequence[..]),
        })
    }

    fn read(&self, name: &str, from: u16, max_bytes: u64) {
        let stream = self.model.find(name);
        let tail = stream.as_ref().map_or(0, |stream| stream.content.len());
        let from = usize::from(from) % (tail + 3);
        let told = self.log().read(name, Offset(to_u64(from)), max_bytes);
        match (stream, told) {
            (Ok(stream), Ok(answer)) => {
                let bytes = answer.to_vec();
                assert!(from <= tail);
                assert_eq!(bytes[..], stream.content[from..from + bytes.len()]);
                assert!(to_u64(bytes.len()) <= max_bytes);
                assert!(!bytes.is_empty() || from == tail);
                assert_eq!(answer.next.0, to_u64(from + bytes.len()));
                assert_eq!((answer.tail.0, answer.is_closed), (to_u64(tail), stream.is_closed));
            }
            (Ok(_), Err(_)) => assert!(from > tail),
            (Err(expected), told) => assert_eq!(plain(told.map(drop)), Err(expected)),
        }
    }

    /// Every name is what the model says.
    fn compare(&self) {
        assert_eq!(self.log().list("", None, 100), self.model.names().collect::<Vec<_>>());
        for name in NAMES {
            let stream = match self.model.find(name) {
                Ok(stream) => stream,
                Err(rejection) => {
                    let told = self.log().read(name, Offset(0), 1).map(drop);
                    assert_eq!(plain(told), Err(rejection), "{name}");
                    assert_eq!(self.log().info(name), None, "{name}");
                    continue;
                }
            };
            assert!(read_all(self.log(), name).unwrap() == stream.content, "{name}");
            let info = self.log().info(name).unwrap();
            assert_eq!(info.tail.0, to_u64(stream.content.len()));
            assert_eq!((info.is_closed, info.config.expiry), (stream.is_closed, stream.expiry));
            assert_eq!(info.fork.map(|fork| fork.offset.0), stream.shared());
        }
    }

    /// Watches every stream at its tail.
    fn watches(&self) -> Vec<Watched> {
        let open = self.model.names().filter(|name| !self.model.find(name).unwrap().is_closed);
        let watch = |name| {
            let bell = Arc::new(Bell::default());
            let stream = self.model.find(name).unwrap().clone();
            let tail = Offset(to_u64(stream.content.len()));
            let waiter = Waiter::Task(Arc::clone(&bell).into());
            let watch = self.log().watch(name, tail, waiter).unwrap();
            (name, stream, bell, watch.expect("nothing has come yet"))
        };
        open.map(watch).collect()
    }
}

fn id_of(id: usize) -> &'static str {
    ["p", "q", "r"][id]
}

fn config(new: &New<'_>) -> Config {
    Config { expiry: new.expiry, ..text() }
}

fn end(closes: bool) -> End {
    if closes { End::Close } else { End::Open }
}

fn made(told: LogResult<Ticket<Created>>) -> Outcome {
    let created = plain(told.and_then(Ticket::wait))?;
    let novelty = match created.outcome {
        CreateOutcome::New => Novelty::New,
        CreateOutcome::Existing => Novelty::Known,
    };
    Ok((created.tail.0, novelty))
}

fn appended(told: LogResult<Ticket<Appended>>) -> Outcome {
    let appended = plain(told.and_then(Ticket::wait))?;
    let is_new = appended.outcome == AppendOutcome::New;
    Ok((appended.tail.0, if is_new { Novelty::New } else { Novelty::Known }))
}

fn plain<T>(told: LogResult<T>) -> Result<T, highwater_log::error::Rejection> {
    told.map_err(|error| match error {
        LogError::Rejected(rejection) => rejection,
        other => panic!("nothing fails, and the log says {other}"),
    })
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_log_is_what_a_map_would_be(
        lanes in 1..4_u16, steps in prop::collection::vec(step(), 1..50),
    ) {
        // I1, I4, I5, I7, I8
        let mut pair = Pair::new(lanes);
        for step in &steps {
            let watches = pair.watches();
            let is_same_log = !matches!(step, Step::Reopen);
            pair.act(step);
            pair.compare();
            for (name, before, bell, _watch) in watches {
                // I2: whoever waits is woken by what it waits for, or by the end of the stream.
                let has_changed = pair.model.find(name).ok().is_none_or(|now| {
                    now.content != before.content || now.is_closed != before.is_closed
                });
                let rung = bell.0.load(Ordering::Relaxed);
                prop_assert!(rung || !has_changed || !is_same_log, "{} {:?}", name, step);
            }
        }
    }
}
