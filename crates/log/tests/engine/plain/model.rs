//! What a log is, when every operation is done before the next begins and nothing fails: a map.

use std::collections::BTreeMap;

use highwater_log::error::Rejection;
use highwater_log::ids::Offset;
use highwater_log::request::Expiry;

/// What a request comes to: the tail, and whether anything was new.
pub type Outcome = Result<(u64, Novelty), Rejection>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    New,
    Known,
}

/// A producer's claim: its id, epoch and sequence number.
pub type Claim = (&'static str, u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    pub content: Vec<u8>,
    pub expiry: Option<Expiry>,
    pub is_closed: bool,
    is_hidden: bool,
    /// Which stream it is, and which one it was forked from and where.
    number: u64,
    fork: Option<(u64, u64)>,
    used_ms: u64,
    /// The one unused for longest first.
    producers: Vec<Claim>,
    closed_by: Option<Claim>,
    sequence: Option<u8>,
}

#[derive(Debug, Default)]
pub struct Model {
    streams: BTreeMap<&'static str, Stream>,
    made: u64,
    pub now_ms: u64,
}

/// Producers that a stream remembers.
pub const MAX_PRODUCERS: usize = 2;

/// A stream to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct New<'a> {
    pub name: &'static str,
    pub expiry: Option<Expiry>,
    pub payload: &'a [u8],
    pub closes: bool,
}

/// An append, a close, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Add<'a> {
    pub name: &'static str,
    pub payload: &'a [u8],
    pub closes: bool,
    pub claim: Option<Claim>,
    pub sequence: Option<u8>,
}

impl Model {
    /// Begins at a time.
    pub fn at(now_ms: u64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    /// The stream of a name, or why there is none.
    pub fn find(&self, name: &str) -> Result<&Stream, Rejection> {
        match self.streams.get(name) {
            None => Err(Rejection::NotFound),
            Some(stream) if stream.is_hidden => Err(Rejection::SoftDeleted),
            Some(stream) => Ok(stream),
        }
    }

    /// Names that can be seen.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.streams.iter().filter(|(_, stream)| !stream.is_hidden).map(|(name, _)| *name)
    }

    pub fn create(&mut self, new: New<'_>) -> Outcome {
        self.make(new, None)
    }

    pub fn fork(&mut self, new: New<'_>, source: &str, offset: Option<u64>) -> Outcome {
        let source = self.find(source).map_err(|error| match error {
            Rejection::SoftDeleted => Rejection::SourceDeleted,
            other => other,
        })?;
        let tail = to_u64(source.content.len());
        let at = offset.unwrap_or(tail);
        if at > tail {
            return Err(Rejection::BeyondTail { offset: Offset(at), tail: Offset(tail) });
        }
        let shared = source.content[..usize::try_from(at).unwrap()].to_vec();
        let fork = (source.number, at, offset.is_none());
        self.make(new, Some((fork, shared)))
    }

    fn make(&mut self, new: New<'_>, fork: Option<((u64, u64, bool), Vec<u8>)>) -> Outcome {
        if let Some(there) = self.streams.get(new.name) {
            let is_same_fork = match (&fork, there.fork) {
                (None, None) => true,
                (Some(((source, at, anywhere), _)), Some((of, offset))) => {
                    *source == of && (*anywhere || *at == offset)
                }
                _ => false,
            };
            return match there {
                there if there.is_hidden => Err(Rejection::SoftDeleted),
                there
                    if is_same_fork
                        && there.expiry == new.expiry
                        && there.is_closed == new.closes =>
                {
                    Ok((to_u64(there.content.len()), Novelty::Known))
                }
                _ => Err(Rejection::Exists),
            };
        }
        self.made += 1;
        let (fork, mut content) = match fork {
            Some(((source, at, _), shared)) => (Some((source, at)), shared),
            None => (None, Vec::new()),
        };
        content.extend_from_slice(new.payload);
        let tail = to_u64(content.len());
        let stream = Stream {
            content,
            expiry: new.expiry,
            is_closed: new.closes,
            is_hidden: false,
            number: self.made,
            fork,
            used_ms: self.now_ms,
            producers: Vec::new(),
            closed_by: None,
            sequence: None,
        };
        self.streams.insert(new.name, stream);
        Ok((tail, Novelty::New))
    }

    pub fn append(&mut self, add: Add<'_>) -> Outcome {
        let now_ms = self.now_ms;
        self.find(add.name)?;
        let stream = self.streams.get_mut(add.name).expect("it was found");
        let known = (to_u64(stream.content.len()), Novelty::Known);
        if add.payload.is_empty() && !add.closes {
            return Err(Rejection::Empty("the payload"));
        }
        if stream.is_closed {
            let is_again = add.claim.is_some() && add.claim == stream.closed_by;
            let is_nothing = add.payload.is_empty() && add.claim.is_none();
            if is_again || is_nothing {
                return Ok(known);
            }
            return Err(Rejection::Closed { tail: Offset(known.0) });
        }
        if let Some(claim) = add.claim
            && stream.judge(claim)? == Novelty::Known
        {
            return Ok(known);
        }
        if add.sequence.is_some() && add.sequence <= stream.sequence {
            return Err(Rejection::Sequence);
        }
        stream.content.extend_from_slice(add.payload);
        stream.is_closed = add.closes;
        stream.sequence = add.sequence.or(stream.sequence);
        stream.used_ms = now_ms;
        if let Some(claim) = add.claim {
            stream.remember(claim);
            stream.closed_by = add.closes.then_some(claim);
        }
        Ok((to_u64(stream.content.len()), Novelty::New))
    }

    pub fn delete(&mut self, name: &str) -> Result<(), Rejection> {
        self.find(name)?;
        self.end(name);
        Ok(())
    }

    pub fn touch(&mut self, name: &str) -> Result<(), Rejection> {
        self.find(name)?;
        let now_ms = self.now_ms;
        self.streams.get_mut(name).expect("it was found").used_ms = now_ms;
        Ok(())
    }

    /// Time passes, and ends what it ends.
    pub fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        let is_over = |stream: &Stream| match stream.expiry {
            None => false,
            Some(Expiry::Absolute { at_ms }) => at_ms <= self.now_ms,
            Some(Expiry::Sliding { ttl_ms }) => stream.used_ms + ttl_ms <= self.now_ms,
        };
        let living = self.streams.iter().filter(|(_, stream)| !stream.is_hidden);
        let over: Vec<&str> =
            living.filter(|(_, stream)| is_over(stream)).map(|(name, _)| *name).collect();
        for name in over {
            self.end(name);
        }
    }

    /// Takes a stream away, or hides it from all but its forks; a hidden source goes with its last.
    fn end(&mut self, name: &str) {
        let stream = &self.streams[name];
        let (number, parent) = (stream.number, stream.fork);
        let is_source = |of: u64, streams: &BTreeMap<&str, Stream>| {
            streams.values().any(|stream| stream.fork.is_some_and(|fork| fork.0 == of))
        };
        if is_source(number, &self.streams) {
            self.streams.get_mut(name).expect("it is there").is_hidden = true;
            return;
        }
        self.streams.remove(name);
        let Some((source, _)) = parent else { return };
        let hidden =
            self.streams.iter().find(|(_, other)| other.number == source && other.is_hidden);
        if let Some(name) = hidden.map(|(name, _)| *name)
            && !is_source(source, &self.streams)
        {
            self.end(name);
        }
    }
}

impl Stream {
    /// Length of what it shares with its source, where it is a fork.
    pub fn shared(&self) -> Option<u64> {
        self.fork.map(|(_, offset)| offset)
    }

    /// The sequence number that a producer should send next.
    pub fn next_of(&self, id: &str) -> u64 {
        self.producers.iter().find(|known| known.0 == id).map_or(0, |known| known.2 + 1)
    }

    /// Whether a producer's record is its next, or was there before.
    fn judge(&self, (id, epoch, sequence): Claim) -> Result<Novelty, Rejection> {
        let known = self.producers.iter().find(|known| known.0 == id);
        let (expected, known_epoch) = known.map_or((0, epoch), |known| (known.2 + 1, known.1));
        match () {
            () if epoch < known_epoch => Err(Rejection::ProducerFenced { current: known_epoch }),
            () if epoch > known_epoch && sequence > 0 => Err(Rejection::ProducerEpochStart),
            () if epoch > known_epoch || sequence == expected => Ok(Novelty::New),
            () if sequence < expected => Ok(Novelty::Known),
            () => Err(Rejection::ProducerGap { expected, received: sequence }),
        }
    }

    fn remember(&mut self, claim: Claim) {
        self.producers.retain(|known| known.0 != claim.0);
        if self.producers.len() == MAX_PRODUCERS {
            self.producers.remove(0);
        }
        self.producers.push(claim);
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
