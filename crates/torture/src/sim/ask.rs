//! Makes requests, and holds the answers against the model.

use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::request::{Append, AppendOutcome, Appended, Create, CreateOutcome, Fork};

use super::life::Life;
use super::owed::Promise;
use super::requests::{Wish, WishedAppend, WishedStream, log_config};
use crate::model::{self, Expected, ForkOf, Limits, Named, Op, There};
use crate::oracle::Oracle;
use crate::verdict::Violation;

/// Bytes that a delete needs at most: a frame of its own, behind one that is open.
const DELETE_ROOM: u64 = 8 << 10;

/// What a request is about.
struct Place {
    name: String,
    lane: u16,
    now_ms: u64,
    payload: u64,
    may_be_full: bool,
}

impl Life<'_> {
    /// Asks for something.
    pub(super) fn wish(&mut self, wish: Wish) -> Result<(), Violation> {
        self.run.count(wish.kind());
        self.run.note(|_| wish.to_string());
        self.settle(wish.name());
        match wish {
            Wish::Create(stream) => self.create(&stream),
            Wish::Fork { source, offset, stream } => self.fork(&source, offset, &stream),
            Wish::Append(wished) => self.append(&wished),
            Wish::Touch { name } => self.touch(&name),
            Wish::Delete { name } => self.delete(&name),
        }
    }

    fn place(&self, name: &str, payload: usize) -> Place {
        let lane = Oracle::place(name, self.run.setup.options.lanes);
        let payload = to_u64(payload);
        let may_be_full = self.room.may_be_full(lane, payload, self.held.len());
        Place { name: name.to_owned(), lane, now_ms: self.now_ms(), payload, may_be_full }
    }

    /// As `place`, for a stream to be made.
    fn place_of_new(&self, wished: &WishedStream) -> Place {
        let place = self.place(&wished.name, wished.payload.len());
        let streams = self.run.oracle.taken_streams();
        let may_be_full = place.may_be_full || self.room.may_have_enough(streams);
        Place { may_be_full, ..place }
    }

    fn limits(&self) -> Limits {
        Limits { max_payload_bytes: self.run.setup.options.max_payload_bytes }
    }

    /// The number of the stream that is wished for: that of one that is there, often.
    fn number(&mut self, name: &str) -> u64 {
        let is_again = self.run.dice.one_in(2);
        match self.run.oracle.there(name, self.now_ms()) {
            There::Stream(known) if is_again => known.id,
            _ => self.run.oracle.next_stream(),
        }
    }

    fn create(&mut self, wished: &WishedStream) -> Result<(), Violation> {
        let place = self.place_of_new(wished);
        let id = self.number(&wished.name);
        let config = log_config(wished.config, id);
        let (name, payload, end) = (&wished.name[..], &wished.payload[..], wished.end());
        let request = Create { name, config: &config, payload, end };
        let decide = |there| model::create(there, &request, self.limits());
        let expected = decide(self.run.oracle.there(name, place.now_ms));
        let if_free = decide(There::Free);
        let answer = self.opened.log.create(&request);
        let content = wished.payload.clone();
        let new = New { id, fork: None, content, wished };
        self.made(place, new, (expected, if_free), answer)
    }

    fn fork(
        &mut self,
        source: &str,
        offset: Option<u64>,
        wished: &WishedStream,
    ) -> Result<(), Violation> {
        self.settle(source);
        let seen = self.look(source)?;
        if self.may_fail() {
            // What is there of the source is not known.
            return Ok(());
        }
        let place = self.place_of_new(wished);
        let id = self.number(&wished.name);
        let config = log_config(wished.config, id);
        let (name, payload, end) = (&wished.name[..], &wished.payload[..], wished.end());
        let request = Fork {
            name,
            source,
            offset: offset.map(Offset),
            source_id: None,
            config: &config,
            payload,
            end,
        };
        let there = self.run.oracle.there(source, place.now_ms);
        let refused = match (there, &seen) {
            (There::Stream(stream), Some(seen)) => {
                let tail = to_u64(seen.content.len());
                let offset = offset.unwrap_or(tail);
                if offset <= tail {
                    let of = ForkOf { source: stream.id, offset };
                    let decide = |there| model::fork(there, &request, of, self.limits());
                    let expected = decide(self.run.oracle.there(name, place.now_ms));
                    let if_free = decide(There::Free);
                    let answer = self.opened.log.fork(&request);
                    if answer.is_err() && self.log_failed(self.place(source, 0).lane) {
                        // What is read of another lane is put behind a barrier first.
                        return Ok(());
                    }
                    let shared = usize::try_from(offset).expect("no longer than what was read");
                    let content = [&seen.content[..shared], payload].concat();
                    let new = New { id, fork: Some(of), content, wished };
                    return self.made(place, new, (expected, if_free), answer);
                }
                vec![Rejection::BeyondTail { offset: Offset(offset), tail: Offset(tail) }]
            }
            (There::Stream(_) | There::Free, _) => vec![Rejection::NotFound],
            (There::Hidden, _) => vec![Rejection::SourceDeleted],
            (There::HiddenOrFree, _) => vec![Rejection::SourceDeleted, Rejection::NotFound],
        };
        match self.opened.log.fork(&request) {
            Ok(_) => Err(Violation::new("I8", format!("forked {source}: {refused:?} was due"))),
            Err(error) => self.refused(place.lane, &refused, &error, false),
        }
    }

    /// A create or a fork was answered.
    fn made(
        &mut self,
        place: Place,
        new: New<'_>,
        (expected, if_free): (Expected<()>, Expected<()>),
        answer: Result<super::owed::Made, LogError>,
    ) -> Result<(), Violation> {
        let expected = match (expected, &answer) {
            (Expected::RejectedUnlessFree(due), Err(LogError::Rejected(told))) if *told == due => {
                return Ok(());
            }
            (Expected::RejectedUnlessFree(_), _) => if_free,
            (expected, _) => expected,
        };
        match (expected, answer) {
            (Expected::Taken, Ok(ticket)) => {
                let tail = Offset(to_u64(new.content.len()));
                let op = Op::Create {
                    id: new.id,
                    config: new.wished.config,
                    fork: new.fork,
                    content: new.content,
                    closes: new.wished.closes,
                    at_ms: place.now_ms,
                };
                self.owe_new(place, op, Promise::Created(ticket, CreateOutcome::New, tail));
                Ok(())
            }
            (Expected::Known(()), Ok(ticket)) => {
                // A use may be logged later than what is vouched for.
                let is_made = |named: &Named| !matches!(named.op, Op::Touch { .. });
                let op = self.run.oracle.newest_beyond(&place.name, is_made);
                let tail = Offset(self.len_of(&place.name));
                let promise = Promise::Created(ticket, CreateOutcome::Existing, tail);
                self.owe_known(place.lane, op, promise);
                Ok(())
            }
            (expected, Err(error)) => {
                self.turned_down(place.lane, rejection(&expected), &error, place.may_be_full)
            }
            (expected, Ok(_)) => Err(taken_against(&expected)),
        }
    }

    fn append(&mut self, wished: &WishedAppend) -> Result<(), Violation> {
        let request: Append<'_> = wished.request();
        let place = self.place(request.name, request.payload.len());
        let there = self.run.oracle.there(request.name, place.now_ms);
        let expected = match model::append(there, &request, self.limits()) {
            Expected::RejectedUnlessFree(rejection) => Err([rejection, Rejection::NotFound]),
            expected => Ok(expected),
        };
        let answer = self.opened.log.append(&request);
        let expected = match (expected, &answer) {
            (Ok(expected), _) => expected,
            (Err(both), Err(error)) => return self.refused(place.lane, &both, error, false),
            (Err(both), Ok(_)) => return Err(taken_against(&both)),
        };
        match (expected, answer) {
            (Expected::Taken, Ok(ticket)) => {
                let tail = Offset(self.len_of(&place.name) + place.payload);
                let appended = Appended { tail, outcome: AppendOutcome::New };
                let (lane, op) = (place.lane, wished.op(place.now_ms));
                let op = self.owe_new(place, op, Promise::Appended(ticket, appended));
                if wished.claim.is_some() {
                    self.run.unacked.push((lane, op, wished.clone()));
                }
                Ok(())
            }
            (Expected::Known(outcome), Ok(ticket)) => {
                let is_same = |named: &Named| match (&named.op, &wished.claim) {
                    (Op::Append { claim: Some(claim), .. }, Some(wished)) => claim.id == wished.id,
                    (Op::Touch { .. }, _) => false,
                    _ => wished.claim.is_none(),
                };
                let op = self.run.oracle.newest_beyond(request.name, is_same);
                let tail = Offset(self.len_of(&place.name));
                let promise = Promise::Appended(ticket, Appended { tail, outcome });
                self.owe_known(place.lane, op, promise);
                Ok(())
            }
            (expected, Err(error)) => {
                self.turned_down(place.lane, rejection(&expected), &error, place.may_be_full)
            }
            (expected, Ok(_)) => Err(taken_against(&expected)),
        }
    }

    fn delete(&mut self, name: &str) -> Result<(), Violation> {
        let place = self.place(name, 0);
        let op = match self.run.oracle.there(name, place.now_ms) {
            There::Stream(stream) if self.run.oracle.was_forked(stream.id) => Ok(Op::Hide),
            There::Stream(_) => Ok(Op::Delete),
            There::Free => Err(vec![Rejection::NotFound]),
            There::Hidden => Err(vec![Rejection::SoftDeleted]),
            There::HiddenOrFree => Err(vec![Rejection::SoftDeleted, Rejection::NotFound]),
        };
        let usage = self.opened.log.usage().swap_remove(usize::from(place.lane));
        match (op, self.opened.log.delete(name)) {
            (Ok(op), Ok(ticket)) => {
                self.owe_new(place, op, Promise::Deleted(ticket));
                Ok(())
            }
            (Ok(_), Err(error)) => {
                let most_staged = self.run.setup.options.max_staged_bytes;
                let may_be_full = usage.relief_bytes < DELETE_ROOM
                    || usage.staged_bytes + DELETE_ROOM > most_staged;
                if error.is_lack_of_room() && !may_be_full {
                    let what = format!("a delete is refused with room for it: {error}; {usage:?}");
                    return Err(Violation::new("I5", what));
                }
                self.turned_down(place.lane, None, &error, place.may_be_full)
            }
            (Err(due), Err(error)) => self.refused(place.lane, &due, &error, place.may_be_full),
            (Err(due), Ok(_)) => Err(taken_against(&due)),
        }
    }

    fn touch(&mut self, name: &str) -> Result<(), Violation> {
        let place = self.place(name, 0);
        let (due, slides) = match self.run.oracle.there(name, place.now_ms) {
            There::Stream(stream) => {
                let public = self.run.oracle.public(name);
                let is_public = public.is_some_and(|public| public.id == stream.id);
                // What nobody can see yet may be there already.
                let due = if is_public { vec![] } else { vec![Rejection::NotFound] };
                (due, Some(stream.config.expiry))
            }
            There::Free => (vec![Rejection::NotFound], None),
            There::Hidden => (vec![Rejection::SoftDeleted], None),
            There::HiddenOrFree => (vec![Rejection::SoftDeleted, Rejection::NotFound], None),
        };
        match (slides, self.opened.log.touch(name)) {
            (Some(_), Ok(())) => {
                self.run.count("touched");
                let op = Op::Touch { at_ms: place.now_ms };
                self.room.staged(place.lane, 0);
                self.run.oracle.take(place.lane, Named { name: place.name, op });
                Ok(())
            }
            (None, Ok(())) => Err(taken_against(&due)),
            (_, Err(error)) => self.refused(place.lane, &due, &error, place.may_be_full),
        }
    }

    /// A request was turned down for one of these reasons, or for want of room or a disk.
    fn refused(
        &mut self,
        lane: u16,
        due: &[Rejection],
        error: &LogError,
        may_be_full: bool,
    ) -> Result<(), Violation> {
        let told = due.iter().find(|due| *error == LogError::Rejected((*due).clone()));
        self.turned_down(lane, told.or(due.first()), error, may_be_full)
    }

    fn len_of(&self, name: &str) -> u64 {
        let stream = self.run.oracle.stream(name).expect("a stream of this name was taken in");
        to_u64(stream.content.len())
    }

    /// Notes an operation that was taken in, and keeps its ticket.
    fn owe_new(&mut self, place: Place, op: Op, promise: Promise) -> u64 {
        self.room.staged(place.lane, place.payload);
        let op = self.run.oracle.take(place.lane, Named { name: place.name, op });
        self.owe(place.lane, op, promise);
        op
    }
}

/// A stream that the log was asked for.
struct New<'a> {
    id: u64,
    fork: Option<ForkOf>,
    content: Vec<u8>,
    wished: &'a WishedStream,
}

fn rejection<T>(expected: &Expected<T>) -> Option<&Rejection> {
    match expected {
        Expected::Rejected(rejection) => Some(rejection),
        _ => None,
    }
}

fn taken_against<T: std::fmt::Debug + ?Sized>(expected: &T) -> Violation {
    Violation::new("I4, I5", format!("taken in, where {expected:?} was due"))
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
