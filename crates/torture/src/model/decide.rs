//! What a log should answer, from the state of the stream: closed before content type, content
//! type before producer, producer before sequence.

use highwater_log::error::Rejection;
use highwater_log::ids::Offset;
use highwater_log::request::{Append, AppendOutcome, Create, End, Producer};

use super::{State, Stream};

/// What should become of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected<T> {
    /// It is taken in.
    Taken,
    /// It was before.
    Known(T),
    /// It is turned down.
    Rejected(Rejection),
}

/// Says what should become of a create.
pub fn create(state: &State, request: &Create<'_>) -> Expected<()> {
    match state.streams.get(request.name) {
        None => Expected::Taken,
        Some(stream)
            if stream.content_type == request.config.content_type
                && request.config.metadata == stream.id.to_le_bytes()
                && stream.is_closed == (request.end == End::Close) =>
        {
            Expected::Known(())
        }
        Some(_) => Expected::Rejected(Rejection::Exists),
    }
}

/// Says what should become of an append.
pub fn append(state: &State, request: &Append<'_>) -> Expected<AppendOutcome> {
    let Some(stream) = state.streams.get(request.name) else {
        return Expected::Rejected(Rejection::NotFound);
    };
    if stream.is_closed {
        return on_closed(stream, request);
    }
    let is_empty = request.payload.is_empty();
    if request.content_type.is_some_and(|asked| !is_empty && asked != stream.content_type) {
        let stored = stream.content_type.to_owned();
        return Expected::Rejected(Rejection::ContentType { stored });
    }
    if let Some(producer) = &request.producer {
        let judged = produced(stream, producer);
        if judged != Expected::Taken {
            return judged;
        }
    }
    match (request.sequence, &stream.sequence) {
        (Some(asked), Some(last)) if asked <= &last[..] => Expected::Rejected(Rejection::Sequence),
        _ => Expected::Taken,
    }
}

fn on_closed(stream: &Stream, request: &Append<'_>) -> Expected<AppendOutcome> {
    if let (Some(producer), Some(by)) = (&request.producer, &stream.closed_by)
        && request.end == End::Close
        && (producer.id, producer.epoch, producer.sequence) == (&by.id, by.epoch, by.sequence)
    {
        return Expected::Known(AppendOutcome::Duplicate { highest: producer.sequence });
    }
    if request.payload.is_empty() && request.producer.is_none() {
        return Expected::Known(AppendOutcome::AlreadyClosed);
    }
    if let Some(producer) = &request.producer
        && request.end == End::Open
    {
        let judged = produced(stream, producer);
        if judged != Expected::Taken {
            return judged;
        }
    }
    let tail = u64::try_from(stream.content.len()).expect("usize fits u64");
    Expected::Rejected(Rejection::Closed { tail: Offset(tail) })
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
