//! Decides what becomes of an append, from the state of its stream. Changes nothing.
//!
//! The order of the questions is part of the contract: closed comes before content type, content
//! type before producer, and producer before sequence.

use super::rare::{ClosedBy, Rare};
use super::slot::{Flags, Slot};
use crate::error::Rejection;
use crate::ids::{Lsn, Offset};
use crate::request::{Append, AppendOutcome, Config, End, Producer};

/// What is to be done about an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Stage it.
    Stage,
    /// Nothing: it was taken in before. Its acknowledgement waits until the log is durable to here.
    Known {
        /// What to answer.
        outcome: AppendOutcome,
        /// Where the original is.
        at: Lsn,
        /// Tail to answer.
        tail: Offset,
    },
}

/// Decides.
///
/// # Errors
/// The [`Rejection`] that says what does not fit.
pub fn append(
    (slot, config): (&Slot, &Config),
    rare: Option<&Rare>,
    request: &Append<'_>,
) -> Result<Decision, Rejection> {
    if slot.flags.has(Flags::SOFT_DELETED) {
        return Err(Rejection::SoftDeleted);
    }
    let is_empty = request.payload.is_empty();
    if is_empty && request.end == End::Open {
        return Err(Rejection::Empty("the payload"));
    }
    if slot.flags.has(Flags::CLOSED) {
        return on_closed(slot, rare, request, is_empty);
    }
    if let Some(asked) = request.content_type
        && !is_empty
        && asked != config.content_type
    {
        return Err(Rejection::ContentType { stored: config.content_type.clone() });
    }
    if let Some(producer) = &request.producer
        && let Some(known) = judge_producer(slot, rare, producer)?
    {
        return Ok(known);
    }
    if let Some(sequence) = request.sequence
        && let Some(last) = rare.and_then(|rare| rare.sequence.as_deref())
        && sequence <= last
    {
        return Err(Rejection::Sequence);
    }
    Ok(Decision::Stage)
}

/// A closed stream takes nothing, but knows again what closed it. It does not look at what else its
/// producers sent before: it is closed to that as to anything else (protocol, section 5.2.1).
fn on_closed(
    slot: &Slot,
    rare: Option<&Rare>,
    request: &Append<'_>,
    is_empty: bool,
) -> Result<Decision, Rejection> {
    let at = slot.last.map_or(Lsn(0), super::slot::Position::lsn);
    let known = |outcome| Decision::Known { outcome, at, tail: slot.tail };
    let closed_by = rare.and_then(|rare| rare.closed_by.as_ref());
    if let (Some(producer), Some(closed_by)) = (&request.producer, closed_by)
        && is_same(producer, closed_by)
    {
        return Ok(known(AppendOutcome::Duplicate { highest: producer.sequence }));
    }
    if is_empty && request.producer.is_none() {
        return Ok(known(AppendOutcome::AlreadyClosed));
    }
    Err(Rejection::Closed { tail: slot.tail })
}

fn is_same(producer: &Producer<'_>, closed_by: &ClosedBy) -> bool {
    producer.id == &*closed_by.id
        && producer.epoch == closed_by.epoch
        && producer.sequence == closed_by.sequence
}

/// `None`: the producer's next record.
fn judge_producer(
    slot: &Slot,
    rare: Option<&Rare>,
    producer: &Producer<'_>,
) -> Result<Option<Decision>, Rejection> {
    let known = rare.and_then(|rare| rare.producers.get(producer.id));
    let received = producer.sequence;
    let Some(known) = known else {
        return if received == 0 {
            Ok(None)
        } else {
            Err(Rejection::ProducerGap { expected: 0, received })
        };
    };
    if producer.epoch < known.epoch {
        return Err(Rejection::ProducerFenced { current: known.epoch });
    }
    if producer.epoch > known.epoch {
        return if received == 0 { Ok(None) } else { Err(Rejection::ProducerEpochStart) };
    }
    if received <= known.sequence {
        let outcome = AppendOutcome::Duplicate { highest: known.sequence };
        return Ok(Some(Decision::Known { outcome, at: known.at, tail: slot.tail }));
    }
    let expected = known.sequence + 1;
    if received == expected { Ok(None) } else { Err(Rejection::ProducerGap { expected, received }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LaneId, StreamId};
    use crate::table::configs::ConfigNo;
    use crate::table::rare::ProducerState;

    fn slot() -> Slot {
        Slot::new(StreamId::new(LaneId(0), 1), ConfigNo::NONE)
    }

    fn append(
        slot: &Slot,
        rare: Option<&Rare>,
        request: &Append<'_>,
    ) -> Result<Decision, Rejection> {
        let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
        super::append((slot, &config), rare, request)
    }

    fn rare(epoch: u64, sequence: u64) -> Rare {
        let mut rare = Rare::default();
        rare.producers.insert("p".into(), ProducerState { epoch, sequence, at: Lsn(77) });
        rare
    }

    const DATA: Append<'_> = Append {
        name: "s",
        payload: b"x",
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    };

    fn from(epoch: u64, sequence: u64) -> Append<'static> {
        Append { producer: Some(Producer { id: "p", epoch, sequence }), ..DATA }
    }

    #[test]
    fn a_producer_is_met_with_every_answer_of_the_protocol() {
        let known = rare(2, 5);
        let ask = |epoch, sequence| append(&slot(), Some(&known), &from(epoch, sequence));
        assert_eq!(ask(2, 6), Ok(Decision::Stage));
        assert_eq!(ask(3, 0), Ok(Decision::Stage));
        let outcome = AppendOutcome::Duplicate { highest: 5 };
        let duplicate = Decision::Known { outcome, at: Lsn(77), tail: Offset(0) };
        assert_eq!(ask(2, 5), Ok(duplicate));
        assert_eq!(ask(2, 0), Ok(duplicate));
        assert_eq!(ask(2, 8), Err(Rejection::ProducerGap { expected: 6, received: 8 }));
        assert_eq!(ask(1, 6), Err(Rejection::ProducerFenced { current: 2 }));
        assert_eq!(ask(3, 1), Err(Rejection::ProducerEpochStart));
        let first = |sequence| append(&slot(), None, &from(9, sequence));
        assert_eq!(first(0), Ok(Decision::Stage));
        assert_eq!(first(1), Err(Rejection::ProducerGap { expected: 0, received: 1 }));
    }

    #[test]
    fn closed_comes_before_type_and_type_before_producer_and_producer_before_sequence() {
        let mut closed = slot();
        closed.flags.set(Flags::CLOSED);
        let mut known = rare(1, 0);
        known.sequence = Some((*b"m").into());
        let all_wrong =
            Append { content_type: Some("application/json"), sequence: Some(b"a"), ..from(1, 9) };
        let rejected =
            |slot: &Slot, request: &Append<'_>| append(slot, Some(&known), request).unwrap_err();
        let open = slot();
        assert_eq!(
            rejected(&closed, &Append { producer: None, ..all_wrong }),
            Rejection::Closed { tail: Offset(0) }
        );
        assert!(matches!(rejected(&open, &all_wrong), Rejection::ContentType { .. }));
        let right_type = Append { content_type: Some("text/plain"), ..all_wrong };
        assert!(matches!(rejected(&open, &right_type), Rejection::ProducerGap { .. }));
        let right_producer = Append { sequence: Some(b"a"), ..from(1, 1) };
        assert_eq!(rejected(&open, &right_producer), Rejection::Sequence);
        let equal = Append { sequence: Some(b"m"), ..DATA };
        assert_eq!(rejected(&open, &equal), Rejection::Sequence);
        let greater = Append { sequence: Some(b"ma"), ..DATA };
        assert_eq!(append(&open, Some(&known), &greater), Ok(Decision::Stage));
    }

    #[test]
    fn only_what_closed_a_stream_is_known_again() {
        let mut closed = slot();
        closed.flags.set(Flags::CLOSED);
        let mut known = rare(1, 4);
        known.closed_by = Some(ClosedBy { id: "p".into(), epoch: 1, sequence: 4 });
        let ask = |request: &Append<'_>| append(&closed, Some(&known), request);
        let close = |request: Append<'static>| Append { end: End::Close, ..request };
        assert!(matches!(ask(&close(from(1, 4))), Ok(Decision::Known { .. })));
        assert!(matches!(ask(&from(1, 4)), Ok(Decision::Known { .. })));
        for (epoch, sequence) in [(1, 3), (1, 5), (1, 9), (0, 0), (2, 1)] {
            assert!(matches!(ask(&from(epoch, sequence)), Err(Rejection::Closed { .. })));
        }
        assert!(matches!(ask(&close(from(1, 5))), Err(Rejection::Closed { .. })));
        assert!(matches!(ask(&close(DATA)), Err(Rejection::Closed { .. })));
        let only_close = Append { payload: b"", ..close(DATA) };
        assert!(matches!(
            ask(&only_close),
            Ok(Decision::Known { outcome: AppendOutcome::AlreadyClosed, .. })
        ));
    }

    #[test]
    fn an_empty_append_and_a_soft_deleted_stream_are_refused() {
        let empty = Append { payload: b"", ..DATA };
        assert!(matches!(append(&slot(), None, &empty), Err(Rejection::Empty(_))));
        let mut deleted = slot();
        deleted.flags.set(Flags::SOFT_DELETED);
        assert_eq!(append(&deleted, None, &DATA), Err(Rejection::SoftDeleted));
    }
}
