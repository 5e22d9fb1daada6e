//! What a log should answer, from the state of the stream: what is too large or empty first, closed
//! before content type, content type before producer, producer before sequence.

use highwater_log::error::Rejection;
use highwater_log::ids::Offset;
use highwater_log::request::{Append, AppendOutcome, Create, End, Fork, Producer};

use super::{ForkOf, Stream};

/// What should become of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected<T> {
    /// It is taken in.
    Taken,
    /// It was before.
    Known(T),
    /// It is turned down.
    Rejected(Rejection),
    /// It is turned down, or dealt with as if the name were free.
    RejectedUnlessFree(Rejection),
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum There<'a> {
    /// Nothing.
    Free,
    /// A stream.
    Stream(&'a Stream),
    /// A stream that is deleted or over, and kept for its forks.
    Hidden,
    /// The same, but its forks may all be gone.
    HiddenOrFree,
}

/// What requests have to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload.
    pub max_payload_bytes: u64,
}

/// Longest name, content type, producer's id and sequence.
const MAX_NAME: usize = 4096;
const MAX_TYPE: usize = 256;
const MAX_PRODUCER: usize = 256;
const MAX_SEQUENCE: usize = 1024;

/// Says what should become of a create.
pub fn create(there: There<'_>, request: &Create<'_>, limits: Limits) -> Expected<()> {
    let is_same = |stream: &Stream| {
        stream.fork.is_none()
            && is_configured(stream, request.config)
            && stream.is_closed == (request.end == End::Close)
    };
    let made = made(request.name, request.payload, &request.config.content_type, limits);
    on_name(there, is_same, made)
}

/// Says what should become of a fork whose source is there; `of` is what it forks.
pub fn fork(there: There<'_>, request: &Fork<'_>, of: ForkOf, limits: Limits) -> Expected<()> {
    let is_same = |stream: &Stream| {
        stream.fork.is_some_and(|fork| {
            fork.source == of.source && (request.offset.is_none() || fork.offset == of.offset)
        }) && is_configured(stream, request.config)
            && stream.is_closed == (request.end == End::Close)
    };
    let made = made(request.name, request.payload, &request.config.content_type, limits);
    on_name(there, is_same, made)
}

fn on_name(
    there: There<'_>,
    is_same: impl FnOnce(&Stream) -> bool,
    made: Expected<()>,
) -> Expected<()> {
    match there {
        There::Free => made,
        There::Stream(stream) if is_same(stream) => Expected::Known(()),
        There::Stream(_) => Expected::Rejected(Rejection::Exists),
        There::Hidden => Expected::Rejected(Rejection::SoftDeleted),
        There::HiddenOrFree => Expected::RejectedUnlessFree(Rejection::SoftDeleted),
    }
}

fn is_configured(stream: &Stream, config: &highwater_log::request::Config) -> bool {
    stream.config.content_type == config.content_type
        && stream.config.expiry == config.expiry
        && config.metadata == stream.id.to_le_bytes()
}

/// What becomes of a stream that is not there.
fn made(name: &str, payload: &[u8], content_type: &str, limits: Limits) -> Expected<()> {
    let judged =
        too_large(payload, limits).or_else(|| length("name", name.len(), MAX_NAME)).or_else(|| {
            // None is as good as an empty one.
            length("content type", content_type.len().max(1), MAX_TYPE)
        });
    judged.map_or(Expected::Taken, Expected::Rejected)
}

fn too_large(payload: &[u8], limits: Limits) -> Option<Rejection> {
    let (size, limit) = (to_u64(payload.len()), limits.max_payload_bytes);
    (size > limit).then_some(Rejection::TooLarge { what: "the payload", size, limit })
}

fn length(what: &'static str, len: usize, most: usize) -> Option<Rejection> {
    match len {
        0 => Some(Rejection::Empty(what)),
        len if len > most => {
            Some(Rejection::TooLarge { what, size: to_u64(len), limit: to_u64(most) })
        }
        _ => None,
    }
}

/// Says what should become of an append.
pub fn append(there: There<'_>, request: &Append<'_>, limits: Limits) -> Expected<AppendOutcome> {
    if let Some(rejection) = too_large(request.payload, limits) {
        return Expected::Rejected(rejection);
    }
    let stream = match there {
        There::Free => return Expected::Rejected(Rejection::NotFound),
        There::Hidden => return Expected::Rejected(Rejection::SoftDeleted),
        There::HiddenOrFree => return Expected::RejectedUnlessFree(Rejection::SoftDeleted),
        There::Stream(stream) => stream,
    };
    let is_empty = request.payload.is_empty();
    if is_empty && request.end == End::Open {
        return Expected::Rejected(Rejection::Empty("the payload"));
    }
    if stream.is_closed {
        return on_closed(stream, request);
    }
    if request.content_type.is_some_and(|asked| !is_empty && asked != stream.config.content_type) {
        let stored = stream.config.content_type.to_owned();
        return Expected::Rejected(Rejection::ContentType { stored });
    }
    if let Some(producer) = &request.producer {
        let judged = produced(stream, producer);
        if judged != Expected::Taken {
            return judged;
        }
    }
    if let (Some(asked), Some(last)) = (request.sequence, &stream.sequence)
        && asked <= &last[..]
    {
        return Expected::Rejected(Rejection::Sequence);
    }
    let producer = request.producer.as_ref();
    let judged =
        producer.and_then(|producer| length("producer", producer.id.len(), MAX_PRODUCER)).or_else(
            || request.sequence.and_then(|asked| length("sequence", asked.len(), MAX_SEQUENCE)),
        );
    judged.map_or(Expected::Taken, Expected::Rejected)
}

fn on_closed(stream: &Stream, request: &Append<'_>) -> Expected<AppendOutcome> {
    if let (Some(producer), Some(by)) = (&request.producer, &stream.closed_by)
        && (producer.id, producer.epoch, producer.sequence) == (&by.id, by.epoch, by.sequence)
    {
        return Expected::Known(AppendOutcome::Duplicate { highest: producer.sequence });
    }
    if request.payload.is_empty() && request.producer.is_none() {
        return Expected::Known(AppendOutcome::AlreadyClosed);
    }
    Expected::Rejected(Rejection::Closed { tail: Offset(to_u64(stream.content.len())) })
}

fn produced(stream: &Stream, producer: &Producer<'_>) -> Expected<AppendOutcome> {
    let received = producer.sequence;
    let Some(known) = stream.producers.iter().find(|known| known.id == producer.id) else {
        return match received {
            0 => Expected::Taken,
            _ => Expected::Rejected(Rejection::ProducerGap { expected: 0, received }),
        };
    };
    if producer.epoch < known.epoch {
        return Expected::Rejected(Rejection::ProducerFenced { current: known.epoch });
    }
    if producer.epoch > known.epoch {
        return match received {
            0 => Expected::Taken,
            _ => Expected::Rejected(Rejection::ProducerEpochStart),
        };
    }
    if received <= known.sequence {
        return Expected::Known(AppendOutcome::Duplicate { highest: known.sequence });
    }
    match known.sequence + 1 {
        expected if expected == received => Expected::Taken,
        expected => Expected::Rejected(Rejection::ProducerGap { expected, received }),
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
