//! What the outside knows of a log: what was asked, in order, and what it has vouched for.
//!
//! Per lane there is what is *safe*, the state that the log must never fall behind, whatever
//! happens to the machine; what is *public*, the state that readers see at least and that
//! survives the process; and the operations taken in beyond. A commit, an acknowledgement or an
//! answer to a reader raises them to the operation it speaks of. After a restart the lane must be
//! at what was safe or at some operation beyond it: whole operations, in order, none left out.
//!
//! Walk: `lane` keeps these, `look` reads a log, `judge` holds one against the other.

mod judge;
mod lane;
mod look;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Is, Named, Op, Stream, There};
pub(crate) use judge::Part;
use lane::Lane;
pub(crate) use look::{Seen, look};

/// Number of an operation within its lane.
pub(crate) type OpNo = u64;

/// How far each lane's operations reach at some moment.
pub(crate) type Marks = Vec<(u16, OpNo)>;

/// What an acknowledgement says of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acked {
    /// It was taken in.
    Staged,
    /// It survives the process.
    Written,
    /// It survives the machine.
    Durable,
}

/// What the outside knows.
#[derive(Debug, Clone)]
pub(crate) struct Oracle {
    lanes: BTreeMap<u16, Lane>,
    /// Lane of each name ever used; fixed for a store.
    homes: BTreeMap<String, u16>,
    /// The stream that the log gave each number to; a number is never used again.
    numbers: BTreeMap<u64, u64>,
    /// Streams that were ever forked.
    forked: BTreeSet<u64>,
    /// Streams whose time is over, as somebody was told.
    over: BTreeSet<u64>,
    made: u64,
    max_producers: usize,
    acked: Acked,
}

impl Oracle {
    /// Knows nothing yet.
    pub(crate) fn new(max_producers: usize, acked: Acked) -> Self {
        Self {
            lanes: BTreeMap::new(),
            homes: BTreeMap::new(),
            numbers: BTreeMap::new(),
            forked: BTreeSet::new(),
            over: BTreeSet::new(),
            made: 0,
            max_producers,
            acked,
        }
    }

    /// Names ever used.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.homes.keys().map(String::as_str)
    }

    /// Tells the lane of a name in a store with so many: as `docs/formats.md` has it.
    pub(crate) fn place(name: &str, lanes: u16) -> u16 {
        let hash = crc32c::crc32c(name.as_bytes());
        u16::try_from(hash % u32::from(lanes)).expect("smaller than the number of lanes")
    }

    fn lane(&self, name: &str) -> Option<&Lane> {
        self.lanes.get(self.homes.get(name)?)
    }

    /// The stream of a name with everything taken in, hidden or over or not.
    pub(crate) fn stream(&self, name: &str) -> Option<&Stream> {
        self.lane(name)?.taken.streams.get(name)
    }

    /// Streams that all lanes have taken in, those that are over too.
    pub(crate) fn taken_streams(&self) -> usize {
        self.lanes.values().map(|lane| lane.taken.streams.len()).sum()
    }

    /// The stream of a name as far as readers must see it.
    pub(crate) fn public(&self, name: &str) -> Option<&Stream> {
        self.lane(name)?.public.streams.get(name)
    }

    /// Least and most bytes that readers may see of the stream of a name.
    pub(crate) fn tails(&self, name: &str) -> (usize, usize) {
        let stream = self.stream(name);
        let public = self.public(name).filter(|public| stream.is_some_and(|s| s.id == public.id));
        let len = |stream: Option<&Stream>| stream.map_or(0, |stream| stream.content.len());
        (len(public), len(stream))
    }

    /// What a name stands for.
    pub(crate) fn there(&self, name: &str, now_ms: u64) -> There<'_> {
        let Some(stream) = self.stream(name) else { return There::Free };
        if !stream.is_hidden && stream.is_over(stream.used, now_ms) != Is::So {
            return There::Stream(stream);
        }
        if self.has_forks(stream.id, now_ms) {
            There::Hidden
        } else if stream.is_hidden || self.forked.contains(&stream.id) {
            There::HiddenOrFree
        } else {
            There::Free
        }
    }

    /// Whether it is not known if a stream is over: somebody has to look.
    pub(crate) fn is_unsure(&self, name: &str, now_ms: u64) -> bool {
        self.stream(name).is_some_and(|stream| stream.is_over(stream.used, now_ms) == Is::Unsure)
    }

    /// Whether a stream ever had a fork.
    pub(crate) fn was_forked(&self, id: u64) -> bool {
        self.forked.contains(&id)
    }

    /// Whether somebody reads a stream's bytes as its fork, for sure.
    pub(crate) fn has_forks(&self, id: u64, now_ms: u64) -> bool {
        let all = self.lanes.values().flat_map(|lane| lane.taken.streams.values());
        all.filter(|fork| fork.fork.is_some_and(|of| of.source == id)).any(|fork| {
            let lives = !fork.is_hidden && fork.is_over(fork.used, now_ms) == Is::Not;
            lives || self.has_forks(fork.id, now_ms)
        })
    }

    /// Streams of which the log has to keep something: those that can be read, and what their
    /// forks read.
    pub(crate) fn kept(&self, now_ms: u64) -> usize {
        let names = self.names();
        names
            .filter(|name| matches!(self.there(name, now_ms), There::Stream(_) | There::Hidden))
            .count()
    }

    /// Gives the next stream a number of the oracle's own.
    pub(crate) fn next_stream(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Notes an operation that was taken in; gives its number.
    pub(crate) fn take(&mut self, lane: u16, named: Named) -> OpNo {
        self.homes.insert(named.name.clone(), lane);
        if let Op::Create { fork: Some(of), .. } = &named.op {
            self.forked.insert(of.source);
        }
        self.lanes.entry(lane).or_default().take(named, self.max_producers)
    }

    /// Number of the newest operation beyond what is public that concerns this stream.
    pub(crate) fn newest_beyond(
        &self,
        name: &str,
        concerns: impl Fn(&Named) -> bool,
    ) -> Option<OpNo> {
        let lane = self.lane(name)?;
        let newest = lane.beyond_public().rfind(|(_, op)| op.name == name && concerns(op))?;
        Some(newest.0)
    }

    /// Whether the log has vouched for an operation.
    pub(crate) fn is_vouched(&self, lane: u16, op: OpNo) -> bool {
        self.lanes.get(&lane).is_some_and(|lane| op < lane.next_public)
    }

    /// An operation was acknowledged.
    pub(crate) fn acknowledged(&mut self, lane: u16, op: OpNo) {
        if self.acked != Acked::Staged {
            self.publish(lane, op + 1);
        }
    }

    /// How far the lanes' operations reach now.
    pub(crate) fn marks(&self) -> Marks {
        self.lanes.iter().map(|(number, lane)| (*number, lane.next())).collect()
    }

    /// Everything before was committed as the log commits.
    pub(crate) fn committed(&mut self, marks: &Marks) {
        for (lane, next) in marks {
            self.publish(*lane, *next);
        }
    }

    /// A checkpoint that began then is done: all is behind a barrier, however the log commits.
    pub(crate) fn checkpointed(&mut self, marks: &Marks) {
        self.committed(marks);
        for (lane, next) in marks {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.make_safe(*next, self.max_producers);
            }
        }
    }

    /// The process ended, and the machine goes on.
    pub(crate) fn only_the_process_ended(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.make_safe(lane.next_public, self.max_producers);
        }
    }

    /// Readers see everything before an operation.
    fn publish(&mut self, lane: u16, next: OpNo) {
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        lane.publish(next, self.max_producers);
        if self.acked != Acked::Written {
            lane.make_safe(next, self.max_producers);
        }
    }
}
