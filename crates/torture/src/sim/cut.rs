//! A short history that is spelt out, and cut off: what the layer `small` is made of.

use highwater_disk::sim::SimDisk;
use highwater_log::request::Expiry;

use super::Run;
use super::life::Life;
use super::requests::{Wish, WishedAppend, WishedStream};
use super::setup::{Setup, open};
use crate::dice::Dice;
use crate::verdict::Violation;

/// Time to live of the stream that ends by itself: a use is logged when an eighth of it has passed.
const TTL_MS: u64 = 8000;
/// What passes at a time: two of these are more than the time to live.
const PASSES_MS: u64 = 5000;

/// One step of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letter {
    /// Another stream is made, with some bytes.
    Create,
    /// Bytes are appended.
    Append,
    /// A producer appends.
    Produce,
    /// The stream is closed.
    Close,
    /// The stream is deleted; where it is forked, it is hidden.
    Delete,
    /// The stream is forked amid its bytes.
    Fork,
    /// The fork is deleted.
    DeleteFork,
    /// The stream that ends by itself is used.
    Touch,
    /// It is made, if it is over.
    Renew,
    /// Time passes.
    Pass,
    /// What is staged is committed.
    Commit,
    /// A checkpoint runs.
    Checkpoint,
}

impl Letter {
    pub(crate) const ALL: [Self; 12] = [
        Self::Create,
        Self::Append,
        Self::Produce,
        Self::Close,
        Self::Delete,
        Self::Fork,
        Self::DeleteFork,
        Self::Touch,
        Self::Renew,
        Self::Pass,
        Self::Commit,
        Self::Checkpoint,
    ];
}

/// A history and its disk.
pub(crate) struct Cut(Run);

impl Cut {
    /// A store with a stream with some bytes and a producer, and one that ends by itself.
    pub(crate) fn prepared(setup: &Setup) -> Self {
        let mut cut = Self(Run::new(setup.again(), Dice::new(1)));
        let work = |life: &mut Life<'_>| {
            life.wish(Wish::Create(WishedStream::plain("a", vec![1; 500])))?;
            let append = life.by_producer(vec![2; 700]);
            life.wish(append)?;
            life.wish(Wish::Create(short_lived()))?;
            life.commit()
        };
        cut.live(work).expect("nothing fails");
        cut.0.disk = cut.0.disk.crash_with(|_| true);
        cut
    }

    /// A copy, as if nothing had been done to it.
    pub(crate) fn again(&self) -> Self {
        let Run { setup, oracle, unacked, .. } = &self.0;
        let run = Run::new(setup.again(), Dice::new(1));
        let (oracle, unacked) = (oracle.clone(), unacked.clone());
        Self(Run { disk: self.0.disk.fork(), oracle, unacked, ..run })
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.0.disk
    }

    /// Runs a history, up to where the disk crashes.
    pub(crate) fn run(&mut self, letters: &[Letter]) -> Result<(), Violation> {
        self.live(|life| {
            letters.iter().try_for_each(|letter| life.spell(*letter))?;
            life.wait_for_all()
        })
    }

    /// Judges what came back, tries producers' appends again, and judges once more.
    pub(crate) fn judge(&self, survivor: &SimDisk) -> Result<(), Violation> {
        let mut run = self.again().0;
        run.disk = survivor.clone();
        let mut cut = Self(run);
        let unacked = std::mem::take(&mut cut.0.unacked);
        cut.live(|life| {
            for (_, _, wished) in unacked {
                life.wish(Wish::Append(wished))?;
            }
            life.wait_for_all()?;
            life.checkpoint()?;
            // A fork and then its source are ended by commits of their own.
            (0..3).try_for_each(|_| life.commit())
        })?;
        cut.live(|_| Ok(()))
    }

    fn live(
        &mut self,
        work: impl FnOnce(&mut Life<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let opened = match open(&self.0.disk, &self.0.setup, 1) {
            Ok(opened) => opened,
            Err(_) if self.0.disk.is_crashed() => return Ok(()),
            Err(error) => {
                return Err(Violation::new("I1, I7", format!("it does not open: {error}")));
            }
        };
        let now_ms = self.0.setup.now_ms();
        self.0.oracle.recovered(&opened.log, now_ms)?;
        let mut life = Life::new(&mut self.0, opened);
        work(&mut life)?;
        life.finish()
    }
}

impl Life<'_> {
    fn spell(&mut self, letter: Letter) -> Result<(), Violation> {
        let name = |name: &str| name.to_owned();
        match letter {
            Letter::Create => self.wish(Wish::Create(WishedStream::plain("b", vec![3; 600]))),
            Letter::Append => self.wish(Wish::Append(WishedAppend::plain("a", vec![4; 800]))),
            Letter::Produce => {
                let append = self.by_producer(vec![5; 400]);
                self.wish(append)
            }
            Letter::Close => self.wish(Wish::Append(WishedAppend::close("a"))),
            Letter::Delete => self.wish(Wish::Delete { name: name("a") }),
            Letter::Fork => {
                let stream = WishedStream::plain("f", vec![6; 300]);
                self.wish(Wish::Fork { source: name("a"), offset: Some(600), stream })
            }
            Letter::DeleteFork => self.wish(Wish::Delete { name: name("f") }),
            Letter::Touch => self.wish(Wish::Touch { name: name("t") }),
            Letter::Renew => self.wish(Wish::Create(short_lived())),
            Letter::Pass => {
                self.pass(PASSES_MS);
                Ok(())
            }
            Letter::Commit => self.commit(),
            Letter::Checkpoint => self.checkpoint(),
        }
    }
}

/// The stream that ends by itself.
fn short_lived() -> WishedStream {
    let mut stream = WishedStream::plain("t", vec![7; 200]);
    stream.config.expiry = Some(Expiry::Sliding { ttl_ms: TTL_MS });
    stream
}
