//! A short history that is spelt out, and cut off: what the layer `small` is made of.

use std::collections::BTreeMap;

use highwater_disk::sim::SimDisk;

use super::actions::Life;
use super::requests::{Wish, WishedAppend};
use super::setup::{Setup, Trouble, open};
use super::{Keep, Restart, Run, show_all};
use crate::dice::Dice;
use crate::oracle::Oracle;
use crate::verdict::Violation;

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
    /// The stream is deleted.
    Delete,
    /// What is staged is committed.
    Commit,
    /// A checkpoint runs.
    Checkpoint,
}

impl Letter {
    pub(crate) const ALL: [Self; 7] = [
        Self::Create,
        Self::Append,
        Self::Produce,
        Self::Close,
        Self::Delete,
        Self::Commit,
        Self::Checkpoint,
    ];
    pub(crate) const COUNT: u64 = 7;
}

/// A history and its disk.
pub(crate) struct Cut(Run);

impl Cut {
    /// A store with one stream, some bytes and a producer.
    pub(crate) fn prepared(setup: &Setup) -> Self {
        let run = Run {
            disk: setup.new_disk(),
            oracle: Oracle::new(setup.max_producers(), setup.trust()),
            setup: setup.clone(),
            dice: Dice::new(1),
            unacked: Vec::new(),
            counts: BTreeMap::new(),
            keep: Keep::Counts,
            actions: Vec::new(),
            restart: Restart::OfTheMachine,
        };
        let mut cut = Self(run);
        let create = Wish::Create {
            name: "a".to_owned(),
            content_type: "",
            payload: vec![1; 500],
            closes: false,
        };
        let work = |life: &mut Life<'_>| {
            life.wish(create)?;
            let append = life.by_producer(vec![2; 700]);
            life.wish(append)?;
            life.commit()
        };
        cut.live(work).expect("nothing fails");
        cut.0.disk = cut.0.disk.crash_with(|_| true);
        cut
    }

    /// A copy, as if nothing had been done to it.
    pub(crate) fn again(&self) -> Self {
        let Run { setup, oracle, unacked, .. } = &self.0;
        Self(Run {
            disk: self.0.disk.fork(),
            oracle: oracle.clone(),
            setup: setup.clone(),
            dice: Dice::new(1),
            unacked: unacked.clone(),
            counts: BTreeMap::new(),
            keep: Keep::Counts,
            actions: Vec::new(),
            restart: Restart::OfTheMachine,
        })
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.0.disk
    }

    /// Runs a history, up to where the disk crashes.
    pub(crate) fn run(&mut self, letters: &[Letter]) -> Result<(), Violation> {
        self.live(|life| {
            for letter in letters {
                match letter {
                    Letter::Create => {
                        let (name, payload) = ("b".to_owned(), vec![3; 600]);
                        let content_type = "";
                        life.wish(Wish::Create { name, content_type, payload, closes: false })?;
                    }
                    Letter::Append => {
                        life.wish(Wish::Append(WishedAppend::plain("a", vec![4; 800])))?;
                    }
                    Letter::Produce => {
                        let append = life.by_producer(vec![5; 400]);
                        life.wish(append)?;
                    }
                    Letter::Close => life.wish(Wish::Append(WishedAppend::close("a")))?,
                    Letter::Delete => life.wish(Wish::Delete { name: "a".to_owned() })?,
                    Letter::Commit => life.commit()?,
                    Letter::Checkpoint => life.checkpoint()?,
                }
            }
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
            life.checkpoint()
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
        self.0.oracle.recovered(&opened.log)?;
        show_all(&mut self.0.oracle, &opened.log)?;
        let mut life = Life::new(&mut self.0, opened, Trouble::Crash(0));
        work(&mut life)?;
        life.finish()
    }
}
