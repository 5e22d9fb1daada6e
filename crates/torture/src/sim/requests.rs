//! What is asked of the log: mostly what makes sense, sometimes what does not.

use std::fmt;

use highwater_log::request::{Append, Config as LogConfig, End, Expiry, Producer};

use super::setup::Taste;
use crate::dice::Dice;
use crate::model::{Claim, Config, ContentType, Op, Stream, There};
use crate::oracle::{OpNo, Oracle};

const NAMES: [&str; 8] = ["a", "b", "c", "d/1", "d/2", "e", "f", "g"];
const PRODUCERS: [&str; 4] = ["p", "q", "r", "s"];
const TYPES: [ContentType; 2] = ["text/plain", "application/json"];
/// Times to live of sliding expiries: below, near and above eight times what a use may lag.
const TTLS_MS: [u64; 5] = [900, 3000, 8000, 9000, 60_000];

/// Bytes from which on a stream is one that gets many more.
const BULK_BYTES: usize = 8 << 10;

/// A request.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Create(WishedStream),
    Fork { source: String, offset: Option<u64>, stream: WishedStream },
    Append(WishedAppend),
    Touch { name: String },
    Delete { name: String },
}

/// A stream to be made.
#[derive(Debug, Clone)]
pub(super) struct WishedStream {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) payload: Vec<u8>,
    pub(super) closes: bool,
}

/// An append, a close, or both.
#[derive(Debug, Clone)]
pub(super) struct WishedAppend {
    pub(super) name: String,
    pub(super) claim: Option<Claim>,
    pub(super) payload: Vec<u8>,
    closes: bool,
    content_type: Option<ContentType>,
    sequence: Option<Vec<u8>>,
}

impl Wish {
    /// Chooses one. `unacked` are producers' appends whose answer nobody has: they are tried again.
    pub(super) fn draw(
        dice: &mut Dice,
        taste: Taste,
        (oracle, now_ms): (&Oracle, u64),
        unacked: &[(u16, OpNo, WishedAppend)],
    ) -> Self {
        if taste != Taste::Plain && dice.one_in(2) {
            return Self::to_taste(dice, taste, (oracle, now_ms));
        }
        let name = dice.pick(&NAMES).to_owned();
        let stream = match oracle.there(&name, now_ms) {
            There::Stream(stream) => Some(stream),
            _ => None,
        };
        let is_there = stream.is_some();
        match dice.below(32) {
            0..=3 if !unacked.is_empty() => Self::Append(dice.pick(unacked).2),
            4 | 5 if is_there => Self::Delete { name },
            6 | 7 => Self::Create(WishedStream::draw(dice, name, stream, now_ms)),
            8 => Self::Append(WishedAppend::draw(dice, name, stream)),
            9..=12 => Self::fork(dice, name, (oracle, now_ms)),
            13 | 14 => Self::Touch { name },
            15 if dice.one_in(4) => Self::wrong(dice, name, stream, now_ms),
            _ if is_there => Self::Append(WishedAppend::draw(dice, name, stream)),
            _ => Self::Create(WishedStream::draw(dice, name, None, now_ms)),
        }
    }

    fn to_taste(dice: &mut Dice, taste: Taste, (oracle, now_ms): (&Oracle, u64)) -> Self {
        let is = |stream: &Stream| match taste {
            Taste::Plain => true,
            Taste::Families => stream.fork.is_some() || oracle.was_forked(stream.id),
            Taste::Times => matches!(stream.config.expiry, Some(Expiry::Sliding { .. })),
            Taste::Bulk => stream.content.len() > BULK_BYTES,
        };
        let there = |name: &&str| matches!(oracle.there(name, now_ms), There::Stream(s) if is(s));
        let names: Vec<&str> = oracle.names().filter(there).collect();
        let one = |dice: &mut Dice| match names.len() {
            0 => dice.pick(&NAMES).to_owned(),
            len => names[dice.index(len)].to_owned(),
        };
        match (taste, dice.below(4)) {
            (Taste::Families, 0 | 1) | (Taste::Plain, _) => {
                let name = dice.pick(&NAMES).to_owned();
                Self::fork(dice, name, (oracle, now_ms))
            }
            (Taste::Families, _) => Self::Delete { name: one(dice) },
            (Taste::Times, 0..=2) => Self::Touch { name: one(dice) },
            (Taste::Times, _) => {
                let name = one(dice);
                let mut stream = WishedStream::draw(dice, name, None, now_ms);
                stream.config.expiry = Some(Expiry::Sliding { ttl_ms: dice.pick(&TTLS_MS) });
                Self::Create(stream)
            }
            (Taste::Bulk, _) => {
                let payload = dice.bytes(8 << 10);
                Self::Append(WishedAppend::plain(&one(dice), payload))
            }
        }
    }

    /// A fork of a stream that is there, mostly, at an offset that it has, mostly.
    fn fork(dice: &mut Dice, name: String, (oracle, now_ms): (&Oracle, u64)) -> Self {
        let living: Vec<&str> = oracle
            .names()
            .filter(|name| matches!(oracle.there(name, now_ms), There::Stream(_)))
            .collect();
        let source = match living.len() {
            0 => dice.pick(&NAMES).to_owned(),
            _ if dice.one_in(6) => dice.pick(&NAMES).to_owned(),
            len => living[dice.index(len)].to_owned(),
        };
        let len = oracle.public(&source).map_or(0, |stream| stream.content.len());
        let len = u64::try_from(len).expect("usize fits u64");
        let offset = match dice.below(8) {
            0..=2 => None,
            3 => Some(0),
            4 => Some(len),
            5 => Some(len + 1 + dice.below(5000)),
            _ => Some(dice.below(len + 1)),
        };
        let known = oracle.stream(&name).filter(|_| dice.one_in(2));
        Self::Fork { source, offset, stream: WishedStream::draw(dice, name, known, now_ms) }
    }

    /// Something that no log takes.
    fn wrong(dice: &mut Dice, name: String, stream: Option<&Stream>, now_ms: u64) -> Self {
        let append = |name: &str, payload| WishedAppend::plain(name, payload);
        let claim = |id: String| Some(Claim { id, epoch: 1, sequence: 0 });
        match dice.below(8) {
            0 => Self::Append(append(&name, Vec::new())),
            1 => Self::Append(append(&name, vec![7; (8 << 10) + 1])),
            2 => {
                Self::Append(WishedAppend { claim: claim(String::new()), ..append(&name, vec![1]) })
            }
            3 => Self::Append(WishedAppend {
                claim: claim("p".repeat(257)),
                ..append(&name, vec![1])
            }),
            4 => {
                let len = if dice.one_in(2) { 0 } else { 1025 };
                let sequence = Some(vec![b'~'; len]);
                Self::Append(WishedAppend { sequence, ..append(&name, vec![1]) })
            }
            5 => Self::Create(WishedStream::draw(dice, String::new(), None, now_ms)),
            6 => Self::Create(WishedStream::draw(dice, "n".repeat(4097), None, now_ms)),
            _ => {
                let payload = vec![7; (8 << 10) + 1];
                Self::Create(WishedStream {
                    payload,
                    ..WishedStream::draw(dice, name, stream, now_ms)
                })
            }
        }
    }

    /// The name it is for.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Create(stream) | Self::Fork { stream, .. } => &stream.name,
            Self::Append(append) => &append.name,
            Self::Touch { name } | Self::Delete { name } => name,
        }
    }

    /// Its name in the counts.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Create(_) => "creates",
            Self::Fork { .. } => "forks",
            Self::Append(append) if append.payload.is_empty() => "closes",
            Self::Append(append) if append.claim.is_some() => "appends of producers",
            Self::Append(_) => "appends",
            Self::Touch { .. } => "touches",
            Self::Delete { .. } => "deletes",
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(stream) => write!(to, "create {stream}"),
            Self::Fork { source, offset, stream } => {
                write!(to, "fork {source} at {offset:?} as {stream}")
            }
            Self::Touch { name } => write!(to, "touch {name}"),
            Self::Delete { name } => write!(to, "delete {name}"),
            Self::Append(append) => {
                let WishedAppend { name, claim, payload, closes, .. } = append;
                write!(to, "append {name} {} bytes, closes {closes}", payload.len())?;
                match claim {
                    Some(claim) => {
                        write!(to, " by {} {}:{}", claim.id, claim.epoch, claim.sequence)
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Display for WishedStream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, config, payload, closes } = self;
        write!(to, "{name} {config:?} {} bytes, closes {closes}", payload.len())
    }
}

impl WishedStream {
    /// One like `known`, mostly, where there is one: the same again is no change.
    fn draw(dice: &mut Dice, name: String, known: Option<&Stream>, now_ms: u64) -> Self {
        let payload = if dice.one_in(2) { Vec::new() } else { payload(dice) };
        let (config, closes) = match known {
            Some(known) if !dice.one_in(3) => (known.config, known.is_closed),
            _ => (config(dice, now_ms), dice.one_in(12)),
        };
        Self { name, config, payload, closes }
    }

    /// Open, without anything that is not said here.
    pub(super) fn plain(name: &str, payload: Vec<u8>) -> Self {
        let config = Config { content_type: "", expiry: None };
        Self { name: name.to_owned(), config, payload, closes: false }
    }

    pub(super) const fn end(&self) -> End {
        end(self.closes)
    }
}

fn config(dice: &mut Dice, now_ms: u64) -> Config {
    let expiry = match dice.below(8) {
        0..=2 => Some(Expiry::Sliding { ttl_ms: dice.pick(&TTLS_MS) }),
        3 => Some(Expiry::Absolute { at_ms: now_ms + dice.below(20_000) }),
        _ => None,
    };
    Config { content_type: TYPES[usize::from(dice.one_in(5))], expiry }
}

impl WishedAppend {
    /// Bytes, and nothing else.
    pub(super) fn plain(name: &str, payload: Vec<u8>) -> Self {
        let name = name.to_owned();
        Self { name, claim: None, payload, closes: false, content_type: None, sequence: None }
    }

    /// An end, and nothing else.
    pub(super) fn close(name: &str) -> Self {
        Self { closes: true, ..Self::plain(name, Vec::new()) }
    }

    /// Bytes of a producer: its next.
    pub(super) fn next_of(producer: &str, oracle: &Oracle, name: &str, payload: Vec<u8>) -> Self {
        let mut known = oracle.stream(name).into_iter().flat_map(|stream| &stream.producers);
        let known = known.find(|known| known.id == producer);
        let sequence = known.map_or(0, |known| known.sequence + 1);
        let claim = Claim { id: producer.to_owned(), epoch: 1, sequence };
        Self { claim: Some(claim), ..Self::plain(name, payload) }
    }

    fn draw(dice: &mut Dice, name: String, stream: Option<&Stream>) -> Self {
        let closes = dice.one_in(15);
        let is_empty = closes && dice.one_in(2);
        let claim = dice.one_in(2).then(|| claim(dice, stream));
        let last = stream.and_then(|stream| stream.sequence.clone()).unwrap_or_default();
        let sequence = dice.one_in(8).then(|| match dice.below(3) {
            0 => vec![dice.pick(b"amz")],
            _ => [last, vec![b'1']].concat(),
        });
        let content_type = dice.one_in(4).then(|| match stream {
            Some(stream) if !dice.one_in(4) => stream.config.content_type,
            _ => dice.pick(&TYPES),
        });
        let payload = if is_empty { Vec::new() } else { payload(dice) };
        Self { name, claim, payload, closes, content_type, sequence }
    }

    /// As the log takes it.
    pub(super) fn request(&self) -> Append<'_> {
        let producer = self.claim.as_ref().map(|claim| Producer {
            id: &claim.id,
            epoch: claim.epoch,
            sequence: claim.sequence,
        });
        Append {
            name: &self.name,
            payload: &self.payload,
            end: end(self.closes),
            content_type: self.content_type,
            producer,
            sequence: self.sequence.as_deref(),
        }
    }

    /// As the model takes it.
    pub(super) fn op(&self, at_ms: u64) -> Op {
        Op::Append {
            payload: self.payload.clone(),
            closes: self.closes,
            claim: self.claim.clone(),
            sequence: self.sequence.clone(),
            at_ms,
        }
    }
}

/// A claim: the next, mostly; else one that is known, too far ahead, or of another epoch.
fn claim(dice: &mut Dice, stream: Option<&Stream>) -> Claim {
    let id = dice.pick(&PRODUCERS).to_owned();
    let known = stream.and_then(|stream| stream.producers.iter().find(|known| known.id == id));
    let (epoch, next) = known.map_or((1, 0), |known| (known.epoch, known.sequence + 1));
    let (epoch, sequence) = match dice.below(12) {
        0 => (epoch, next.saturating_sub(1)),
        1 => (epoch, 0),
        2 => (epoch, next + 1),
        3 => (epoch + 1, 0),
        4 => (epoch + 1, 1),
        5 => (epoch.saturating_sub(1), next),
        _ => (epoch, next),
    };
    Claim { id, epoch, sequence }
}

/// Small, mostly; sometimes just what fills a frame or a block; sometimes as large as may be.
fn payload(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.below(8) {
        0 => 8 << 10,
        1 => 4096 - 64 - 32,
        2 | 3 => 1 + dice.index(6000),
        _ => 1 + dice.index(300),
    };
    dice.bytes(len)
}

/// A configuration as the log takes it, with the oracle's number of the stream: whatever is seen of
/// a stream says which one it is.
pub(super) fn log_config(config: Config, id: u64) -> LogConfig {
    let metadata = id.to_le_bytes().to_vec();
    LogConfig { content_type: config.content_type.to_owned(), expiry: config.expiry, metadata }
}

const fn end(closes: bool) -> End {
    if closes { End::Close } else { End::Open }
}
