//! Holds what readers see, and what comes back after a restart, against what was asked.

use std::collections::{BTreeMap, BTreeSet};

use highwater_log::Log;
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;

use super::lane::Lane;
use super::{Acked, Oracle, Seen, look};
use crate::model::{Is, Op, State, Stream, There};
use crate::verdict::Violation;

/// Some of a stream, as a reader sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) from: usize,
    pub(crate) bytes: &'a [u8],
    pub(crate) tail: u64,
    pub(crate) is_closed: bool,
}

/// What is seen of a name after a restart.
#[derive(Debug)]
enum Sight {
    /// A stream.
    Stream(Seen),
    /// That it is kept for its forks.
    Kept,
    /// Nothing.
    Nothing,
}

/// What decides whether a stream fits what is seen of it after a restart.
struct Context<'a> {
    forked: &'a BTreeSet<u64>,
    over: &'a BTreeSet<u64>,
    numbers: &'a BTreeMap<u64, u64>,
    max_producers: usize,
    now_ms: u64,
}

impl Oracle {
    /// A reader was shown this of a name: it must be what is public or something beyond it, and
    /// becomes public.
    pub(crate) fn shown(
        &mut self,
        name: &str,
        seen: Option<&Seen>,
        now_ms: u64,
    ) -> Result<(), Violation> {
        let Some(seen) = seen else { return self.unseen(name, now_ms) };
        if !self.homes.contains_key(name) {
            return Err(Violation::new("I5", format!("{name} is there, never made")));
        }
        let id = self.alive(name, now_ms)?;
        if id != seen.made {
            let what = format!("{name} is stream {}, and should be {id}", seen.made);
            return Err(Violation::new("I5", what));
        }
        let numbers = self.numbers.clone();
        let known = |number| numbers.get(&number).copied();
        if !self.find(name, |stream| seen.is(stream, known)) {
            return Err(misfit("I1, I2", name, Some(seen), self.lane(name)));
        }
        self.number(seen.id, id)
    }

    /// A reader was shown some of a stream, which was public when it was asked for.
    pub(crate) fn shown_part(
        &mut self,
        name: &str,
        part: Part<'_>,
        now_ms: u64,
    ) -> Result<(), Violation> {
        self.alive(name, now_ms)?;
        let Part { from, bytes, tail, is_closed } = part;
        let fits = |stream: &Stream| {
            Some(bytes) == stream.content.get(from..from + bytes.len())
                && tail == to_u64(stream.content.len())
                && is_closed == stream.is_closed
        };
        if self.find(name, fits) {
            return Ok(());
        }
        let what = format!(
            "{name}: other bytes than these {} from {from} on, or another end than {tail}",
            bytes.len()
        );
        Err(Violation::new("I1, I2", what))
    }

    /// The stream of a name that readers see something of.
    fn alive(&mut self, name: &str, now_ms: u64) -> Result<u64, Violation> {
        let what = match self.there(name, now_ms) {
            There::Stream(stream) if self.over.contains(&stream.id) => "was over",
            There::Stream(stream) => {
                let id = stream.id;
                self.settle(name, false, now_ms);
                return Ok(id);
            }
            There::Free => "is deleted or over",
            There::Hidden | There::HiddenOrFree => "is kept for its forks only",
        };
        Err(Violation::new("I2, I5", format!("{name} {what}, and is shown")))
    }

    /// Finds the first state, from the public one on, in which a stream fits, and makes it public.
    fn find(&mut self, name: &str, fits: impl Fn(&Stream) -> bool) -> bool {
        let max_producers = self.max_producers;
        let Some(number) = self.homes.get(name).copied() else { return false };
        let lane = &self.lanes[&number];
        let fits = |state: &State| state.streams.get(name).is_some_and(&fits);
        let mut state = lane.public.clone();
        let mut found = fits(&state).then_some(lane.next_public);
        for (op, named) in lane.beyond_public() {
            if found.is_some() {
                break;
            }
            state.apply(named, max_producers);
            found = (named.name == name && fits(&state)).then_some(op + 1);
        }
        if let Some(next) = found {
            self.publish(number, next);
        }
        found.is_some()
    }

    /// A name may be unseen while it is not public, while its deletion is under way, or when its
    /// time is over.
    fn unseen(&mut self, name: &str, now_ms: u64) -> Result<(), Violation> {
        let Some(public) = self.public(name) else { return Ok(()) };
        let Some(stream) = self.stream(name).filter(|stream| stream.id == public.id) else {
            return Ok(());
        };
        if stream.is_hidden {
            return Ok(());
        }
        if stream.is_over(stream.used, now_ms) == Is::Not {
            return Err(misfit("I1, I5", name, None, self.lane(name)));
        }
        self.settle(name, true, now_ms);
        Ok(())
    }

    /// A stream was seen alive, or over: from then on it stays so.
    pub(crate) fn settle(&mut self, name: &str, is_over: bool, now_ms: u64) {
        let Some(id) = self.stream(name).map(|stream| stream.id) else { return };
        if is_over {
            self.over.insert(id);
        }
        let lane = self.homes.get(name).and_then(|number| self.lanes.get_mut(number));
        lane.expect("a name with a stream has a lane").seen(name, is_over, now_ms);
    }

    /// A reader was turned away: by the right words?
    pub(crate) fn turned_away(
        &mut self,
        name: &str,
        rejection: &Rejection,
        now_ms: u64,
    ) -> Result<(), Violation> {
        if self.is_unsure(name, now_ms) {
            self.settle(name, true, now_ms);
        }
        let is_public = |id| self.public(name).is_some_and(|public| public.id == id);
        let fits = match (self.there(name, now_ms), rejection) {
            (There::Free | There::HiddenOrFree, Rejection::NotFound)
            | (There::Hidden | There::HiddenOrFree, Rejection::SoftDeleted) => true,
            (There::Stream(stream), Rejection::NotFound) => {
                !is_public(stream.id) || stream.is_over(stream.used, now_ms) != Is::Not
            }
            _ => false,
        };
        if !fits {
            let what = format!("a reader of {name} is told: {rejection}");
            return Err(Violation::new("I1, I5, I8", what));
        }
        self.unseen(name, now_ms)
    }

    /// A stream keeps the number it was seen with, and no other ever has it.
    fn number(&mut self, number: u64, stream: u64) -> Result<(), Violation> {
        match *self.numbers.entry(number).or_insert(stream) {
            known if known == stream => Ok(()),
            _ => Err(Violation::new("I5", format!("number {number:#x} is given a second time"))),
        }
    }

    /// After a restart: finds the operation up to which each lane came back, and goes on from
    /// there.
    pub(crate) fn recovered(&mut self, log: &Log, now_ms: u64) -> Result<(), Violation> {
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        let mut seen = BTreeMap::new();
        for name in names {
            let sight = sight(log, &name)?;
            seen.insert(name, sight);
        }
        let listed = log.list("", None, 1000);
        let is_shown = |sight: &Sight| matches!(sight, Sight::Stream(_));
        let visible = seen.iter().filter(|(_, sight)| is_shown(sight)).map(|(name, _)| name);
        if !visible.eq(&listed) {
            return Err(Violation::new("I5", format!("the list after a restart is {listed:?}")));
        }
        if self.acked == Acked::Written {
            // A stream that a power cut took may have left its number to another.
            self.numbers.clear();
        }
        let context = Context {
            forked: &self.forked,
            over: &self.over,
            numbers: &self.numbers,
            max_producers: self.max_producers,
            now_ms,
        };
        for (number, lane) in &mut self.lanes {
            let is_here = |name: &String| self.homes[name] == *number;
            let of_lane: BTreeMap<&str, &Sight> = seen
                .iter()
                .filter(|(name, _)| is_here(name))
                .map(|(name, sight)| (name.as_str(), sight))
                .collect();
            lane.came_back(&of_lane, &context)?;
        }
        for (name, sight) in &seen {
            match sight {
                Sight::Stream(seen) => self.shown(name, Some(seen), now_ms)?,
                Sight::Kept => self.turned_away(name, &Rejection::SoftDeleted, now_ms)?,
                Sight::Nothing => self.turned_away(name, &Rejection::NotFound, now_ms)?,
            }
        }
        Ok(())
    }

    /// A name that is not shown is refused to its readers, too, and by the right words.
    pub(crate) fn is_turned_away(
        &mut self,
        log: &Log,
        name: &str,
        now_ms: u64,
    ) -> Result<(), Violation> {
        let rejection = refusal(log, name)?;
        self.turned_away(name, &rejection, now_ms)
    }
}

/// Looks at a name.
fn sight(log: &Log, name: &str) -> Result<Sight, Violation> {
    if let Some(seen) = look(log, name).map_err(|error| unreadable(name, &error))? {
        return Ok(Sight::Stream(seen));
    }
    match refusal(log, name)? {
        Rejection::NotFound => Ok(Sight::Nothing),
        Rejection::SoftDeleted => Ok(Sight::Kept),
        other => Err(Violation::new("I5", format!("a reader of {name} is told: {other}"))),
    }
}

/// Why a name that is not shown is refused to its readers.
fn refusal(log: &Log, name: &str) -> Result<Rejection, Violation> {
    match log.read(name, Offset(0), 1) {
        Err(LogError::Rejected(rejection)) => Ok(rejection),
        Ok(_) => Err(Violation::new("I5", format!("{name} is read, and has no info"))),
        Err(error) => Err(unreadable(name, &error)),
    }
}

impl Lane {
    fn came_back(
        &mut self,
        seen: &BTreeMap<&str, &Sight>,
        context: &Context<'_>,
    ) -> Result<(), Violation> {
        let mut state = self.safe.clone();
        let mut beyond = self.beyond_safe();
        while !context.fits(&state, seen) {
            let Some(named) = beyond.next() else { return Err(self.explain(seen, context)) };
            state.apply(named, context.max_producers);
        }
        // Of operations that nobody can see, it is left open whether they came back.
        for named in beyond {
            let mut next = state.clone();
            next.apply(named, context.max_producers);
            let before = state.streams.get(&named.name).map(|stream| stream.kept.least_ms);
            if let (Op::Touch { .. }, Some(least_ms)) = (&named.op, before)
                && let Some(stream) = next.streams.get_mut(&named.name)
            {
                stream.kept.least_ms = least_ms;
            }
            if !context.fits(&next, seen) {
                break;
            }
            state = next;
        }
        for stream in state.streams.values_mut() {
            stream.used = stream.kept;
        }
        self.is_now(state);
        Ok(())
    }

    /// Says of which stream the safe state was not kept.
    fn explain(&self, seen: &BTreeMap<&str, &Sight>, context: &Context<'_>) -> Violation {
        let is_changed = |name: &str| self.beyond_safe().any(|op| op.name == *name);
        let shown = |name: &str| match seen.get(name) {
            Some(Sight::Stream(seen)) => Some(seen),
            _ => None,
        };
        for (name, sight) in seen {
            if !context.fits_one(self.safe.streams.get(*name), sight) && !is_changed(name) {
                return misfit("I1, I5, I8", name, shown(name), Some(self));
            }
        }
        let names = self.beyond_safe().map(|op| op.name.as_str());
        let mut parts: Vec<String> =
            names.map(|name| misfit("", name, shown(name), Some(self)).what).collect();
        parts.sort();
        parts.dedup();
        Violation::new("I3", format!("no prefix of what was asked: {}", parts.join("; ")))
    }
}

impl Context<'_> {
    /// Whether a lane's streams are these: of every name that it ever had, this is seen.
    fn fits(&self, state: &State, seen: &BTreeMap<&str, &Sight>) -> bool {
        seen.iter().all(|(name, sight)| self.fits_one(state.streams.get(*name), sight))
    }

    fn fits_one(&self, stream: Option<&Stream>, sight: &Sight) -> bool {
        let Some(stream) = stream else { return matches!(sight, Sight::Nothing) };
        let is_over = stream.is_over(stream.kept, self.now_ms);
        match sight {
            Sight::Nothing => stream.is_hidden || is_over != Is::Not,
            Sight::Kept => {
                stream.is_hidden || is_over != Is::Not && self.forked.contains(&stream.id)
            }
            Sight::Stream(seen) => {
                !stream.is_hidden
                    && is_over != Is::So
                    && !self.over.contains(&stream.id)
                    && seen.is(stream, |number| self.numbers.get(&number).copied())
            }
        }
    }
}

fn misfit(
    invariant: &'static str,
    name: &str,
    seen: Option<&Seen>,
    lane: Option<&Lane>,
) -> Violation {
    let Some(lane) = lane else { return Violation::new(invariant, format!("{name} is unknown")) };
    let expected = |state: &State| state.streams.get(name).map_or("nothing".to_owned(), brief);
    let (least, most) = (expected(&lane.safe), expected(&lane.taken));
    let differs = |seen: &Seen| {
        let stream = lane.taken.streams.get(name).or(lane.safe.streams.get(name))?;
        seen.content.iter().zip(&stream.content).position(|(a, b)| a != b)
    };
    let place =
        seen.and_then(differs).map_or(String::new(), |at| format!(", wrong from byte {at}"));
    let seen = seen.map_or("nothing".to_owned(), |seen| {
        let end = if seen.is_closed { ", closed" } else { "" };
        format!("stream {}, {} bytes{end}", seen.made, seen.content.len())
    });
    Violation::new(invariant, format!("{name} is {seen}{place}; at least {least}, at most {most}"))
}

fn brief(stream: &Stream) -> String {
    let end = if stream.is_closed { ", closed" } else { "" };
    let hidden = if stream.is_hidden { ", hidden" } else { "" };
    let (id, len) = (stream.id, stream.content.len());
    let used = stream.config.expiry.map_or(String::new(), |expiry| {
        format!(", {expiry:?} used {:?} kept {:?}", stream.used, stream.kept)
    });
    format!("stream {id}, {len} bytes{end}{hidden}{used}")
}

fn unreadable(name: &str, error: &LogError) -> Violation {
    Violation::new("I1, I8", format!("{name} cannot be read: {error}"))
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
