//! What is asked of the log: mostly what makes sense, sometimes what does not.

use std::fmt;

use highwater_log::request::{Append, Config, Create, End, Producer};

use crate::dice::Dice;
use crate::model::{Claim, ContentType, Op, Stream};
use crate::oracle::{OpNo, Oracle};

const NAMES: [&str; 6] = ["a", "b", "c", "d/1", "d/2", "e"];
const PRODUCERS: [&str; 4] = ["p", "q", "r", "s"];
const TYPES: [ContentType; 2] = ["text/plain", "application/json"];

/// A request.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Create { name: String, content_type: ContentType, payload: Vec<u8>, closes: bool },
    Append(WishedAppend),
    Delete { name: String },
}

/// An append, a close, or both.
#[derive(Debug, Clone)]
pub(super) struct WishedAppend {
    pub(super) name: String,
    pub(super) claim: Option<Claim>,
    payload: Vec<u8>,
    closes: bool,
    content_type: Option<ContentType>,
    sequence: Option<Vec<u8>>,
}

impl Wish {
    /// Chooses one. `unacked` are producers' appends whose answer nobody has: they are tried again.
    pub(super) fn draw(
        dice: &mut Dice,
        oracle: &Oracle,
        unacked: &[(u16, OpNo, WishedAppend)],
    ) -> Self {
        let name = dice.pick(&NAMES).to_owned();
        let stream = oracle.taken(&name).streams.get(&name);
        let is_there = stream.is_some();
        match dice.below(24) {
            0..=3 if !unacked.is_empty() => Self::Append(dice.pick(unacked).2),
            4 if is_there => Self::Delete { name },
            5 | 6 => Self::create(dice, name),
            7 => Self::Append(WishedAppend::draw(dice, name, stream)),
            8 if is_there && dice.one_in(2) => Self::Delete { name },
            _ if is_there => Self::Append(WishedAppend::draw(dice, name, stream)),
            _ => Self::create(dice, name),
        }
    }

    fn create(dice: &mut Dice, name: String) -> Self {
        let payload = if dice.one_in(2) { Vec::new() } else { payload(dice) };
        let content_type = TYPES[usize::from(dice.one_in(5))];
        Self::Create { name, content_type, payload, closes: dice.one_in(12) }
    }

    /// Its name in the counts.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Create { .. } => "creates",
            Self::Append(append) if append.payload.is_empty() => "closes",
            Self::Append(append) if append.claim.is_some() => "appends of producers",
            Self::Append(_) => "appends",
            Self::Delete { .. } => "deletes",
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, content_type, payload, closes } => {
                write!(to, "create {name} {content_type} {} bytes, closes {closes}", payload.len())
            }
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
        let stream = oracle.taken(name).streams.get(name);
        let mut known = stream.iter().flat_map(|stream| &stream.producers);
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
            Some(stream) if !dice.one_in(4) => stream.content_type,
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
    pub(super) fn op(&self) -> Op {
        Op::Append {
            payload: self.payload.clone(),
            closes: self.closes,
            claim: self.claim.clone(),
            sequence: self.sequence.clone(),
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

/// A configuration with this content type, and the oracle's number of the stream: whatever is seen
/// of a stream says which one it is.
pub(super) fn config(content_type: ContentType, id: u64) -> Config {
    let metadata = id.to_le_bytes().to_vec();
    Config { content_type: content_type.to_owned(), metadata, ..Config::default() }
}

/// A create as the log takes it.
pub(super) fn create_request<'a>(
    name: &'a str,
    config: &'a Config,
    payload: &'a [u8],
    closes: bool,
) -> Create<'a> {
    Create { name, config, payload, end: end(closes) }
}

fn end(closes: bool) -> End {
    if closes { End::Close } else { End::Open }
}
