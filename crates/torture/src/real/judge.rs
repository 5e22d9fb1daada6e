//! Holds a store that was opened again against what is known of it: whoever can list its streams
//! and read them, from within a process or over a network, is a [`Shelf`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use highwater_log::Log;
use highwater_log::error::LogError;
use highwater_log::options::Durability;
use highwater_sys::time::wall_clock;

use super::ledger::{Event, Ledger, worker_of};
use super::plan::{Plan, SHARED, Step, WORKERS};
use super::{records, shared_name};
use crate::oracle::{Oracle, Seen, look};

/// A store as somebody who can only look at it has it.
pub(crate) trait Shelf {
    /// Names of all streams.
    fn names(&mut self) -> Result<Vec<String>, String>;

    /// Reads a stream; nothing where there is none.
    fn look(&mut self, name: &str) -> Result<Option<Seen>, String>;
}

impl Shelf for &Log {
    fn names(&mut self) -> Result<Vec<String>, String> {
        Ok(self.list("", None, usize::MAX))
    }

    fn look(&mut self, name: &str) -> Result<Option<Seen>, String> {
        match look(self, name) {
            // It has ended by itself meanwhile.
            Err(LogError::Rejected(_)) if name.starts_with('x') => Ok(None),
            looked => looked.map_err(|error| error.to_string()),
        }
    }
}

/// What was found in a store.
struct Found {
    /// Streams of each worker, by name.
    own: Vec<BTreeMap<String, Seen>>,
    /// Numbers of each worker's records, by shared stream.
    shared: [BTreeMap<u64, Vec<u64>>; SHARED],
    /// When reading began and ended, ms since 1970.
    from_ms: u64,
    to_ms: u64,
}

/// Up to which step a worker's streams came back. There may be several: a stream that has ended by
/// itself leaves no trace.
struct Place {
    least: Plan,
    /// The last of them, or the first that was not acknowledged.
    most: Plan,
}

impl Ledger {
    /// Judges, and goes on from what was found.
    ///
    /// # Errors
    /// What is not as it must be, with the number of the invariant.
    pub(crate) fn judge(&mut self, shelf: &mut dyn Shelf) -> Result<(), String> {
        let found = self.find(shelf)?;
        let mut places = Vec::new();
        for worker in 0..WORKERS {
            places.push(self.place(worker, &found)?);
        }
        self.check_order(&places)?;
        self.check_failed_lanes()?;
        for (worker, place) in (0..).zip(&places) {
            self.check_seen(worker, &place.most)?;
        }
        self.settle(&found, places);
        Ok(())
    }

    fn find(&mut self, shelf: &mut dyn Shelf) -> Result<Found, String> {
        let from_ms = now_ms();
        let mut own: Vec<BTreeMap<String, Seen>> = (0..WORKERS).map(|_| BTreeMap::new()).collect();
        let mut shared: [BTreeMap<u64, Vec<u64>>; SHARED] =
            std::array::from_fn(|_| BTreeMap::new());
        let mut lens = [None; SHARED];
        for name in shelf.names()? {
            let seen = match shelf.look(&name) {
                Ok(Some(seen)) => seen,
                // It has ended by itself meanwhile.
                Ok(None) if name.starts_with('x') => continue,
                Ok(None) => return Err(format!("I5: {name} is listed, and not there")),
                Err(error) => return Err(format!("I1: {name} cannot be read: {error}")),
            };
            self.count("streams compared", 1);
            let len = u64::try_from(seen.content.len()).expect("usize fits u64");
            self.count("bytes compared", len);
            if let Some(stream) = (0..SHARED).find(|stream| shared_name(*stream) == name) {
                let rest = records::split(&seen.content, &mut shared[stream]);
                let rest = rest.map_err(|what| format!("I1: {name}: {what}"))?;
                if !rest.is_empty() {
                    return Err(format!("I3: {name} ends in the middle of a record"));
                }
                lens[stream] = Some(len);
                continue;
            }
            let worker = worker_of(&name).and_then(|worker| usize::try_from(worker).ok());
            let streams = worker.and_then(|worker| own.get_mut(worker));
            let streams = streams.ok_or_else(|| format!("I5: {name} was never made"))?;
            streams.insert(name, seen);
        }
        for (stream, (len, seen)) in lens.iter().zip(self.saw_shared).enumerate() {
            let name = shared_name(stream);
            if len.is_none() && self.is_ready {
                return Err(format!("I5: {name} is gone"));
            }
            if len.unwrap_or(0) < seen {
                return Err(format!("I2: {name} has {len:?} bytes, a reader saw {seen}"));
            }
        }
        Ok(Found { own, shared, from_ms, to_ms: now_ms() })
    }

    /// Finds the step up to which a worker's streams came back.
    fn place(&self, worker: u64, found: &Found) -> Result<Place, String> {
        let book = &self.books[index(worker)];
        let asked = book.asked();
        let mut plan = book.base.clone();
        if self.is_vouched_for() {
            while plan.next() < book.acked {
                plan.advance();
            }
        }
        let least = plan.clone();
        let mut place: Option<Place> = None;
        loop {
            if self.misfit(&plan, worker, found).is_none() {
                let least = place.map_or_else(|| plan.clone(), |place| place.least);
                place = Some(Place { least, most: plan.clone() });
            }
            let is_last = plan.next() >= asked.next();
            // Until there is one with all that was acknowledged. The last of that may leave no
            // trace beside what was asked for next: a stream is made and deleted.
            let has_all = place.as_ref().is_some_and(|place| place.most.next() >= book.acked);
            if is_last || has_all {
                break;
            }
            plan.advance();
        }
        if let Some(place) = place {
            return Ok(place);
        }
        let told = |plan: &Plan| {
            let misfit = self.misfit(plan, worker, found).unwrap_or_default();
            format!("after step {}: {misfit}", plan.next())
        };
        Err(format!(
            "I1, I3, I5: worker {worker} is after no step from {} ({} acknowledged) to {}; {}; {}",
            least.next(),
            book.acked,
            asked.next(),
            told(&least),
            told(&asked)
        ))
    }

    /// The first thing in which a worker's streams are not what they are at a step.
    fn misfit(&self, plan: &Plan, worker: u64, found: &Found) -> Option<String> {
        // What is cheap to compare comes first: there may be many steps to try.
        self.wrong_stream(plan, worker, found)
            .or_else(|| wrong_share(plan, worker, found))
            .or_else(|| self.wrong_end(plan, worker, found))
            .or_else(|| wrong_bytes(plan, worker, found))
    }

    fn wrong_stream(&self, plan: &Plan, worker: u64, found: &Found) -> Option<String> {
        let own = &found.own[index(worker)];
        for (name, stream) in &plan.streams {
            let Some(seen) = own.get(name) else {
                if self.dropped.contains(name) || self.dropping.contains(name) {
                    continue;
                }
                return Some(format!("{name} is gone"));
            };
            if self.dropped.contains(name) {
                return Some(format!("{name} was deleted, and is there"));
            }
            let len = u64::try_from(seen.content.len()).expect("usize fits u64");
            if seen.made != stream.made || seen.is_closed != stream.is_closed || len != stream.len {
                return Some(format!(
                    "{name} is of step {} with {len} bytes, closed: {}; due is step {} with {}, {}",
                    seen.made, seen.is_closed, stream.made, stream.len, stream.is_closed
                ));
            }
        }
        let is_due =
            |name: &&String| plan.streams.contains_key(*name) || plan.timed.contains_key(*name);
        let undue = own.keys().find(|name| !is_due(name))?;
        Some(format!("{undue} is there"))
    }

    /// A stream that ended early, or that should have.
    fn wrong_end(&self, plan: &Plan, worker: u64, found: &Found) -> Option<String> {
        for (name, number) in &plan.timed {
            let Some(ends) = self.ends.get(&(worker, *number)) else { continue };
            match found.own[index(worker)].get(name) {
                Some(_) if found.from_ms > ends.by_ms => {
                    return Some(format!("{name} has not ended"));
                }
                None if found.to_ms < ends.not_before_ms => {
                    return Some(format!("{name} ended early"));
                }
                _ => {}
            }
        }
        None
    }

    /// Whatever was acknowledged before something was asked for that is there, is there too.
    fn check_order(&self, places: &[Place]) -> Result<(), String> {
        let place_of = |of: u64, step: u64| {
            self.events.iter().position(|event| match event {
                Event::Acked { worker, number, .. } => (*worker, *number) == (of, step),
                Event::LaneFailed { .. } => false,
            })
        };
        let before = (0..).zip(places).filter_map(|(worker, Place { least: plan, .. })| {
            let is_beyond = plan.next() > self.books[index(worker)].base.next();
            let last_before = plan.began().checked_sub(1)?;
            is_beyond.then(|| place_of(worker, last_before)).flatten()
        });
        let Some(last) = before.max() else { return Ok(()) };
        for event in &self.events[..=last] {
            if let Event::Acked { worker, number, .. } = event
                && *number >= places[index(*worker)].most.next()
            {
                return Err(format!(
                    "I3: step {number} of worker {worker} is lost, and what was asked for after \
                     its acknowledgement is there"
                ));
            }
        }
        Ok(())
    }

    /// I10: after a lane's log has failed, it acknowledges nothing that was asked for then. What is
    /// acknowledged ahead of its barrier rests on none: there it goes on until whoever waited for
    /// the barrier has turned the lane down, and when a thread runs is the machine's affair. The
    /// simulation, where that is one step, holds it for those, too.
    fn check_failed_lanes(&self) -> Result<(), String> {
        if !self.is_vouched_for() {
            return Ok(());
        }
        if !self.events.iter().any(|event| matches!(event, Event::LaneFailed { .. })) {
            return Ok(());
        }
        let lanes = self.options().lanes;
        // Of each worker: the lane of each step from the base on, and the end of its burst.
        let mut steps: Vec<BTreeMap<u64, (u16, u64)>> = Vec::new();
        for book in &self.books {
            let asked = book.asked().next();
            let mut plan = book.base.clone();
            let (mut of_worker, mut burst) = (BTreeMap::new(), Vec::new());
            while plan.next() < asked {
                let numbered = plan.advance();
                let name = name_of(&numbered.step);
                burst.push((numbered.number, Oracle::place(&name, lanes)));
                if !plan.is_in_burst() {
                    let end = plan.next();
                    of_worker.extend(burst.drain(..).map(|(number, lane)| (number, (lane, end))));
                }
            }
            steps.push(of_worker);
        }
        let mut reached: Vec<u64> = self.books.iter().map(|book| book.base.next()).collect();
        let mut failed: BTreeMap<(u16, u64), u64> = BTreeMap::new();
        for event in &self.events {
            match event {
                Event::LaneFailed { lane } => {
                    for (worker, next) in (0..).zip(&reached) {
                        let end = steps[index(worker)].get(next).map_or(*next, |(_, end)| *end);
                        failed.entry((*lane, worker)).or_insert(end);
                    }
                }
                Event::Acked { worker, number, .. } => {
                    let lane = steps[index(*worker)].get(number).map(|(lane, _)| *lane);
                    let limit = lane.and_then(|lane| failed.get(&(lane, *worker)));
                    if limit.is_some_and(|limit| number >= limit) {
                        return Err(format!(
                            "I10: step {number} of worker {worker} was acknowledged after its \
                             lane's log had failed"
                        ));
                    }
                    reached[index(*worker)] = number + 1;
                }
            }
        }
        Ok(())
    }

    /// I2: what a reader saw of a stream is there, as long as the stream is.
    fn check_seen(&self, worker: u64, plan: &Plan) -> Result<(), String> {
        for ((_, made), saw) in self.saw.range((worker, 0)..=(worker, u64::MAX)) {
            let told = format!("I2: the stream of step {made} of worker {worker}");
            if *made >= plan.next() {
                return Err(format!("{told} is gone, a reader saw it"));
            }
            let mut streams = plan.streams.values();
            let Some(stream) = streams.find(|stream| stream.made == *made) else { continue };
            let content = stream.content(worker);
            let seen = usize::try_from(saw.len).ok().and_then(|len| content.get(..len));
            if seen.is_none_or(|seen| crc32c::crc32c(seen) != saw.crc) {
                let (len, saw) = (stream.len, saw.len);
                return Err(format!("{told} has {len} bytes, not the {saw} that a reader saw"));
            }
            if saw.is_closed && !stream.is_closed {
                return Err(format!("{told} is open, a reader saw its end"));
            }
        }
        Ok(())
    }

    /// Counts what is lost although it was acknowledged longer ago than a relaxed log takes to make
    /// it durable. It may: a busy machine is late, and the log does not say.
    fn count_late(&mut self, places: &[Place]) {
        let Durability::Relaxed { within } = self.options().durability else { return };
        let end = self.end.take().unwrap_or_else(Instant::now);
        let is_late = |event: &&Event| match event {
            Event::Acked { worker, number, heard } => {
                *number >= places[index(*worker)].most.next()
                    && end.saturating_duration_since(*heard) > within
            }
            Event::LaneFailed { .. } => false,
        };
        let late = self.events.iter().filter(is_late).count();
        self.count(
            "lost in relaxed mode: older than promised",
            u64::try_from(late).unwrap_or(u64::MAX),
        );
    }

    /// What was found is what counts from now on.
    fn settle(&mut self, found: &Found, places: Vec<Place>) {
        self.count_late(&places);
        for (worker, Place { most: plan, .. }) in (0..).zip(places) {
            let (acked, next) = (self.books[index(worker)].acked, plan.next());
            self.count("steps found that nobody had acknowledged", next.saturating_sub(acked));
            self.count("lost in relaxed mode: acknowledged steps", acked.saturating_sub(next));
            let book = &mut self.books[index(worker)];
            // A step that is there, and that nobody acknowledged, is asked for again if it can be.
            let from = Plan::at(self.nature.seed, worker, acked.min(next));
            book.acked = if from.can_be_repeated(next) { acked.min(next) } else { next };
            book.base = plan;
            let gone = self.dropping.iter().filter(|name| worker_of(name) == Some(worker));
            let gone = gone.filter(|name| !found.own[index(worker)].contains_key(*name));
            self.dropped.extend(gone.cloned().collect::<BTreeSet<_>>());
        }
        self.dropping.clear();
        self.events.clear();
        // They are judged: a stream that is gone cannot be compared later.
        self.saw.clear();
    }
}

fn wrong_share(plan: &Plan, worker: u64, found: &Found) -> Option<String> {
    for (stream, numbers) in found.shared.iter().enumerate() {
        let there = numbers.get(&worker).map_or(&[][..], Vec::as_slice);
        let due = plan.shared(stream);
        if there != due {
            let name = shared_name(stream);
            let at = there.iter().zip(due).position(|(a, b)| a != b);
            let (there, due) = (there.len(), due.len());
            return Some(format!("{name} has {there} records, {due} due, wrong from {at:?}"));
        }
    }
    None
}

fn wrong_bytes(plan: &Plan, worker: u64, found: &Found) -> Option<String> {
    let wrong = found.own[index(worker)].iter().find(|(name, seen)| {
        let due = match (plan.streams.get(*name), plan.timed.get(*name)) {
            (Some(stream), _) => stream.content(worker),
            (None, Some(number)) => records::record(worker, *number),
            (None, None) => Vec::new(),
        };
        seen.content != due
    });
    wrong.map(|(name, _)| format!("{name} has bytes that nobody wrote there"))
}

/// Name of the stream that a step is about.
fn name_of(step: &Step) -> String {
    match step {
        Step::Create { name, .. }
        | Step::Append { name, .. }
        | Step::Close { name }
        | Step::Delete { name }
        | Step::Fork { name, .. }
        | Step::Timed { name, .. }
        | Step::Spare { name } => name.clone(),
        Step::Shared { stream, .. } => shared_name(*stream),
    }
}

fn index(worker: u64) -> usize {
    usize::try_from(worker).expect("there are few workers")
}

fn now_ms() -> u64 {
    u64::try_from(wall_clock().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
