//! What the outside knows of a log: what was asked, in order, and what it has vouched for.
//!
//! Per lane there is a *floor*, the state that the log must never fall behind, and the operations
//! taken in beyond it. An acknowledgement or an answer to a reader raises the floor to the
//! operation it speaks of. After a restart the lane must be at the floor or at some operation
//! beyond it: whole operations, in order, none left out.

use std::collections::{BTreeMap, VecDeque};

use highwater_log::Log;
use highwater_log::error::{LogError, LogResult};
use highwater_log::ids::Offset;

use crate::model::{Named, State, Stream};
use crate::verdict::Violation;

/// Bytes asked for at a time.
const READ_BYTES: u64 = 3000;

/// Number of an operation within its lane.
pub(crate) type OpNo = u64;

/// By what the log vouches for an operation, whatever happens to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// By nothing: what is acknowledged survives the process only.
    Nothing,
    /// By showing it to a reader.
    Shown,
    /// By an acknowledgement too.
    Acknowledged,
}

/// What the outside knows.
#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    lanes: BTreeMap<u16, Lane>,
    /// Lane of each name ever used; fixed for a store.
    homes: BTreeMap<String, u16>,
    /// The stream that the log gave each number to; a number is never used again.
    numbers: BTreeMap<u64, u64>,
    made: u64,
    max_producers: usize,
    trust: Trust,
}

#[derive(Debug, Clone, Default)]
struct Lane {
    floor: State,
    /// Number of the first operation beyond the floor.
    next_beyond: OpNo,
    beyond: VecDeque<Named>,
    /// Number behind the last operation acknowledged.
    acknowledged: OpNo,
    /// The floor with everything beyond it.
    taken: State,
}

/// A stream as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number in the log.
    pub(crate) id: u64,
    /// The oracle's number for it, from its metadata.
    pub(crate) made: u64,
    /// Its content type.
    pub(crate) content_type: String,
    /// Its bytes.
    pub(crate) content: Vec<u8>,
    /// Whether it is closed.
    pub(crate) is_closed: bool,
}

impl Seen {
    fn is(&self, stream: &Stream) -> bool {
        self.made == stream.id
            && self.is_closed == stream.is_closed
            && self.content_type == stream.content_type
            && self.content == stream.content
    }
}

impl Oracle {
    /// Knows nothing yet.
    pub(crate) fn new(max_producers: usize, trust: Trust) -> Self {
        let (lanes, homes, numbers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { lanes, homes, numbers, made: 0, max_producers, trust }
    }

    /// Names ever used.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.homes.keys().map(String::as_str)
    }

    /// The lane of a name, once it is known.
    pub(crate) fn lane_of(&self, name: &str) -> Option<u16> {
        self.homes.get(name).copied()
    }

    /// The state of a name's lane with everything taken in; an empty one for a new name.
    pub(crate) fn taken(&self, name: &str) -> &State {
        static NOTHING: State = State { streams: BTreeMap::new() };
        let lane = self.lane_of(name).and_then(|lane| self.lanes.get(&lane));
        lane.map_or(&NOTHING, |lane| &lane.taken)
    }

    /// The stream of a name as far as the log has vouched for it.
    pub(crate) fn vouched(&self, name: &str) -> Option<&Stream> {
        let lane = self.lanes.get(&self.lane_of(name)?)?;
        lane.floor.streams.get(name)
    }

    /// Gives the next stream a number of the oracle's own.
    pub(crate) fn next_stream(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Notes an operation that was taken in; gives its number.
    pub(crate) fn take(&mut self, lane: u16, named: Named) -> OpNo {
        self.homes.insert(named.name.clone(), lane);
        let lane = self.lanes.entry(lane).or_default();
        lane.taken.apply(&named, self.max_producers);
        lane.beyond.push_back(named);
        lane.next_beyond + to_u64(lane.beyond.len()) - 1
    }

    /// Number of the newest operation beyond the floor that concerns this stream.
    pub(crate) fn newest_beyond(
        &self,
        name: &str,
        concerns: impl Fn(&Named) -> bool,
    ) -> Option<OpNo> {
        let lane = self.lanes.get(&self.lane_of(name)?)?;
        let newest = lane.beyond.iter().rposition(|op| op.name == name && concerns(op))?;
        Some(lane.next_beyond + to_u64(newest))
    }

    /// Whether the log has vouched for an operation.
    pub(crate) fn is_vouched(&self, lane: u16, op: OpNo) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| op < lane.next_beyond)
    }

    /// An operation was acknowledged.
    pub(crate) fn acknowledged(&mut self, lane: u16, op: OpNo) {
        if self.trust == Trust::Acknowledged {
            self.vouch(lane, op);
        } else if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.acknowledged = lane.acknowledged.max(op + 1);
        }
    }

    /// The process ended, and the machine goes on.
    pub(crate) fn only_the_process_ended(&mut self) {
        if self.trust == Trust::Nothing {
            let acknowledged: Vec<(u16, OpNo)> =
                self.lanes.iter().map(|(number, lane)| (*number, lane.acknowledged)).collect();
            for (lane, behind) in acknowledged {
                if behind > 0 {
                    self.vouch(lane, behind - 1);
                }
            }
        }
    }

    /// The log vouches for an operation, and so for all before it.
    fn vouch(&mut self, lane: u16, op: OpNo) {
        let max_producers = self.max_producers;
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        while lane.next_beyond <= op {
            let named = lane.beyond.pop_front().expect("an operation was taken in");
            lane.floor.apply(&named, max_producers);
            lane.next_beyond += 1;
        }
    }

    /// A reader was shown this of a name: it must be the floor or something beyond it, and becomes
    /// the floor.
    pub(crate) fn shown(&mut self, name: &str, seen: Option<&Seen>) -> Result<(), Violation> {
        let Some(number) = self.lane_of(name) else {
            return match seen {
                None => Ok(()),
                Some(_) => Err(Violation::new("I5", format!("{name} is there, never made"))),
            };
        };
        let max_producers = self.max_producers;
        let lane = self.lanes.get_mut(&number).expect("a lane of a name is known");
        if seen.is_none() {
            return absent(lane, name);
        }
        let matches = |state: &State| match (state.streams.get(name), seen) {
            (Some(stream), Some(seen)) => seen.is(stream),
            _ => false,
        };
        let mut state = lane.floor.clone();
        let mut found = matches(&state).then_some(0);
        for (named, place) in lane.beyond.iter().zip(1..) {
            if found.is_some() {
                break;
            }
            state.apply(named, max_producers);
            found = (named.name == name && matches(&state)).then_some(place);
        }
        let Some(place) = found else { return Err(misfit("I1, I2", name, seen, lane)) };
        let (next, stream) = (lane.next_beyond, state.streams[name].id);
        if place > 0 && self.trust > Trust::Nothing {
            self.vouch(number, next + place - 1);
        }
        self.number(seen.map(|seen| seen.id), stream)
    }

    /// A stream keeps the number it was seen with, and no other ever has it.
    fn number(&mut self, number: Option<u64>, stream: u64) -> Result<(), Violation> {
        let Some(number) = number.filter(|_| self.trust > Trust::Nothing) else { return Ok(()) };
        match *self.numbers.entry(number).or_insert(stream) {
            known if known == stream => Ok(()),
            _ => Err(Violation::new("I5", format!("number {number:#x} is given a second time"))),
        }
    }

    /// After a restart: finds the operation up to which each lane came back, and goes on from
    /// there.
    pub(crate) fn recovered(&mut self, log: &Log) -> Result<(), Violation> {
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        let mut seen = BTreeMap::new();
        for name in names {
            let stream = look(log, &name).map_err(|error| unreadable(&name, &error))?;
            seen.insert(name, stream);
        }
        let listed = log.list("", None, 1000);
        let visible = seen.iter().filter(|(_, stream)| stream.is_some()).map(|(name, _)| name);
        if !visible.eq(&listed) {
            return Err(Violation::new("I5", format!("the list after a restart is {listed:?}")));
        }
        for (number, lane) in &mut self.lanes {
            let of_lane: BTreeMap<&str, &Seen> = seen
                .iter()
                .filter(|(name, _)| self.homes[*name] == *number)
                .filter_map(|(name, stream)| Some((name.as_str(), stream.as_ref()?)))
                .collect();
            lane.came_back(&of_lane, self.max_producers)?;
        }
        for (name, stream) in seen.iter().filter_map(|(name, seen)| Some((name, seen.as_ref()?))) {
            let id = self.vouched(name).map(|vouched| vouched.id);
            self.number(Some(stream.id), id.expect("it was found there"))?;
        }
        Ok(())
    }

    /// The lane of a name in a store of so many lanes.
    pub(crate) fn place(name: &str, lanes: u16) -> u16 {
        let hash = crc32c::crc32c(name.as_bytes()) % u32::from(lanes);
        u16::try_from(hash).expect("smaller than the number of lanes")
    }
}

impl Lane {
    fn came_back(
        &mut self,
        seen: &BTreeMap<&str, &Seen>,
        max_producers: usize,
    ) -> Result<(), Violation> {
        let mut state = self.floor.clone();
        let mut found = is_state(&state, seen).then_some(0);
        for (index, named) in self.beyond.iter().enumerate() {
            if found.is_some() {
                break;
            }
            state.apply(named, max_producers);
            found = is_state(&state, seen).then_some(index + 1);
        }
        let Some(_) = found else {
            return Err(self.explain(seen));
        };
        self.next_beyond += to_u64(self.beyond.len());
        self.acknowledged = 0;
        self.beyond.clear();
        self.taken.clone_from(&state);
        self.floor = state;
        Ok(())
    }

    /// Says of which stream the floor was not kept.
    fn explain(&self, seen: &BTreeMap<&str, &Seen>) -> Violation {
        for (name, stream) in &self.floor.streams {
            let found = seen.get(name.as_str());
            let is_touched = self.beyond.iter().any(|op| op.name == *name);
            if !found.is_some_and(|seen| seen.is(stream)) && !is_touched {
                return misfit("I1, I5", name, found.copied(), self);
            }
        }
        let grown = seen.keys().find(|name| {
            !self.floor.streams.contains_key(**name)
                && !self.beyond.iter().any(|op| op.name == **name)
        });
        if let Some(name) = grown {
            return misfit("I5", name, seen.get(name).copied(), self);
        }
        let names = self.beyond.iter().map(|op| op.name.as_str());
        let mut parts: Vec<String> =
            names.map(|name| misfit("", name, seen.get(name).copied(), self).what).collect();
        parts.sort();
        parts.dedup();
        Violation::new("I3", format!("no prefix of what was asked: {}", parts.join("; ")))
    }
}

fn is_state(state: &State, seen: &BTreeMap<&str, &Seen>) -> bool {
    let same = |((name, stream), (seen_name, seen)): ((&String, &Stream), (&&str, &&Seen))| {
        name == seen_name && seen.is(stream)
    };
    state.streams.len() == seen.len() && state.streams.iter().zip(seen).all(same)
}

/// A name may be unseen while it is not vouched for, or while its deletion is under way.
fn absent(lane: &Lane, name: &str) -> Result<(), Violation> {
    let vouched = lane.floor.streams.get(name);
    let taken = lane.taken.streams.get(name);
    match (vouched, taken) {
        (Some(vouched), Some(taken)) if vouched.id == taken.id => {
            Err(misfit("I5", name, None, lane))
        }
        _ => Ok(()),
    }
}

fn misfit(invariant: &'static str, name: &str, seen: Option<&Seen>, lane: &Lane) -> Violation {
    let expected = |state: &State| match state.streams.get(name) {
        None => "nothing".to_owned(),
        Some(stream) => brief(stream.content.len(), stream.is_closed),
    };
    let (least, most) = (expected(&lane.floor), expected(&lane.taken));
    let differs = |seen: &Seen| {
        let stream = lane.taken.streams.get(name).or(lane.floor.streams.get(name))?;
        seen.content.iter().zip(&stream.content).position(|(a, b)| a != b)
    };
    let place =
        seen.and_then(differs).map_or(String::new(), |at| format!(", wrong from byte {at}"));
    let seen = seen.map_or("nothing".to_owned(), |seen| brief(seen.content.len(), seen.is_closed));
    Violation::new(invariant, format!("{name} is {seen}{place}; at least {least}, at most {most}"))
}

fn brief(len: usize, is_closed: bool) -> String {
    let end = if is_closed { ", closed" } else { "" };
    format!("{len} bytes{end}")
}

fn unreadable(name: &str, error: &LogError) -> Violation {
    Violation::new("I1", format!("{name} cannot be read: {error}"))
}

/// Reads a whole stream; nothing where there is none.
pub(crate) fn look(log: &Log, name: &str) -> LogResult<Option<Seen>> {
    let Some(info) = log.info(name) else { return Ok(None) };
    let mut content = Vec::new();
    let mut from = Offset(0);
    let is_closed = loop {
        let answer = log.read(name, from, READ_BYTES)?;
        if answer.next == from {
            break answer.is_closed && answer.tail == from;
        }
        content.extend(answer.to_vec());
        from = answer.next;
    };
    let content_type = info.config.content_type.clone();
    let metadata = info.config.metadata.first_chunk();
    let made = metadata.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Ok(Some(Seen { id: info.id.0, made, content_type, content, is_closed }))
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
