//! Reads, lists and watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::Answer;
use highwater_log::lane::waiters::Waiter;

use super::life::Life;
use crate::oracle::{Oracle, Part};
use crate::verdict::Violation;

/// Somebody who waits for a stream to go on.
pub(super) struct Watch {
    name: String,
    /// The oracle's number of the stream.
    id: u64,
    seen: Offset,
    woken: Arc<Bell>,
    /// Dropped with this.
    _kept: highwater_log::lane::Watch,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What is asked of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) max_bytes: u64,
}

impl Life<'_> {
    /// Reads a whole stream, or some of it from anywhere.
    pub(super) fn read(&mut self) -> Result<(), Violation> {
        let Some(name) = self.any_name() else { return Ok(()) };
        if self.run.dice.one_in(2) {
            return self.look(&name).map(drop);
        }
        let range = self.any_range(&name);
        let answer = self.opened.log.read(&name, Offset(range.from), range.max_bytes);
        self.run.note(|_| format!("read {name} {range:?}"));
        let now_ms = self.now_ms();
        match answer {
            Ok(answer) => {
                let bytes = Self::check_answer(&name, range, &answer)?;
                let part = Part {
                    from: to_usize(range.from),
                    bytes: &bytes,
                    tail: answer.tail.0,
                    is_closed: answer.is_closed,
                };
                self.run.oracle.shown_part(&name, part, now_ms)?;
                self.held.push((answer, bytes));
                Ok(())
            }
            Err(LogError::Rejected(Rejection::BeyondTail { offset, tail })) => {
                let (least, most) = self.run.oracle.tails(&name);
                if offset.0 == range.from && offset > tail && in_between(tail, least, most) {
                    return Ok(());
                }
                let what = format!("{name} is refused from {offset} on: its tail is {tail}");
                Err(Violation::new("I1, I2", what))
            }
            Err(LogError::Rejected(rejection)) => {
                self.run.oracle.turned_away(&name, &rejection, now_ms)
            }
            Err(_) if self.may_fail() => Ok(()),
            Err(error) => Err(Violation::new("I1, I8", format!("{name}: {error}"))),
        }
    }

    /// Somewhere in a stream, or a little behind.
    pub(super) fn any_range(&mut self, name: &str) -> Range {
        let len = self.run.oracle.public(name).map_or(0, |stream| stream.content.len());
        let len = u64::try_from(len).expect("usize fits u64");
        let dice = &mut self.run.dice;
        let from = if dice.one_in(12) { len + dice.below(3000) } else { dice.below(len + 1) };
        Range { from, max_bytes: 1 + dice.below(9000) }
    }

    /// An answer is what was asked for: something where there is something, and not too much.
    pub(super) fn check_answer(
        name: &str,
        Range { from, max_bytes }: Range,
        answer: &Answer,
    ) -> Result<Vec<u8>, Violation> {
        let bytes = answer.to_vec();
        let len = u64::try_from(bytes.len()).expect("usize fits u64");
        let fits = answer.next.0 == from + len
            && answer.next <= answer.tail
            && len <= max_bytes
            && (len > 0 || from == answer.tail.0);
        if fits {
            return Ok(bytes);
        }
        let (next, tail) = (answer.next, answer.tail);
        let what = format!(
            "{name} gives {len} bytes from {from} of {max_bytes} asked for, up to {next} of {tail}"
        );
        Err(Violation::new("I1", what))
    }

    /// Lists some names, and checks them one by one.
    pub(super) fn list(&mut self) -> Result<(), Violation> {
        self.run.count("lists");
        let prefix = self.run.dice.pick(&["", "", "d", "d/", "d/2", "x"]);
        let after = if self.run.dice.one_in(2) { self.any_name() } else { None };
        let limit = self.run.dice.pick(&[1, 2, 1000]);
        let listed = self.opened.log.list(prefix, after.as_deref(), limit);
        let names = self.run.oracle.names().filter(|name| name.starts_with(prefix));
        let behind = names.filter(|name| after.as_deref().is_none_or(|after| *name > after));
        let mut expected: Vec<&str> =
            behind.filter(|name| self.opened.log.info(name).is_some()).collect();
        expected.truncate(limit);
        if listed != expected {
            let what = format!("{limit} of {prefix:?} behind {after:?} are {listed:?}");
            return Err(Violation::new("I5", format!("{what}, and should be {expected:?}")));
        }
        for name in listed {
            self.look(&name)?;
        }
        Ok(())
    }

    /// Waits for a stream to go on: behind its tail, or where there is something already.
    pub(super) fn watch(&mut self) -> Result<(), Violation> {
        let Some(name) = self.any_name() else { return Ok(()) };
        let Some(seen) = self.look(&name)? else { return Ok(()) };
        let tail = u64::try_from(seen.content.len()).expect("usize fits u64");
        let from = if self.run.dice.one_in(4) { self.run.dice.below(tail + 1) } else { tail };
        let lane = Oracle::place(&name, self.run.setup.options.lanes);
        let woken = Arc::new(Bell::default());
        let waiter = Waiter::Task(Arc::clone(&woken).into());
        match self.opened.log.watch(&name, Offset(from), waiter) {
            Ok(Some(kept)) if from == tail && !seen.is_closed => {
                self.run.count("watches");
                let (id, seen) = (seen.made, Offset(from));
                self.watches.push(Watch { name, id, seen, woken, _kept: kept });
                Ok(())
            }
            Ok(None) if from < tail || seen.is_closed => Ok(()),
            Err(LogError::Poisoned(_)) if self.log_failed(lane) => Ok(()),
            other => {
                let what = format!("a watch of {name} from {from} of {tail} on gives {other:?}");
                Err(Violation::new("I2", what))
            }
        }
    }

    /// Whoever waits for something that readers can see by now has been woken.
    pub(super) fn check_watches(&mut self) -> Result<(), Violation> {
        let watches = std::mem::take(&mut self.watches);
        for watch in watches {
            if watch.woken.0.load(Ordering::Relaxed) {
                continue;
            }
            if self.has_gone_on(&watch) {
                return Err(asleep(&watch));
            }
            self.watches.push(watch);
        }
        Ok(())
    }

    /// As `check_watches`, when the log has had the time to end what is over. I11: it remembers
    /// nobody whose watch is over.
    pub(super) fn check_watches_at_rest(&mut self) -> Result<(), Violation> {
        self.check_watches()?;
        let kept: u64 = self.opened.log.metrics().iter().map(|lane| lane.watches).sum();
        let most = u64::try_from(self.watches.len()).expect("usize fits u64");
        if kept > most {
            let what = format!("the log keeps {kept} watches, and {most} are under way");
            return Err(Violation::new("I11", what));
        }
        let is_here = |watch: &Watch| self.opened.log.info(&watch.name).is_some();
        match self.watches.iter().find(|watch| !is_here(watch)) {
            Some(watch) => Err(asleep(watch)),
            None => Ok(()),
        }
    }

    fn has_gone_on(&self, watch: &Watch) -> bool {
        let stream = self.run.oracle.stream(&watch.name);
        if let Some(info) = self.opened.log.info(&watch.name) {
            let is_same = info.config.metadata == watch.id.to_le_bytes();
            return !is_same || info.tail > watch.seen || info.is_closed;
        }
        // The end of a stream that is over wakes its watchers when it is logged; anybody else's
        // deletion does at once.
        stream.is_none_or(|stream| stream.id == watch.id && stream.is_hidden)
    }

    pub(super) fn any_name(&mut self) -> Option<String> {
        let names: Vec<&str> = self.run.oracle.names().collect();
        if names.is_empty() {
            return None;
        }
        Some(names[self.run.dice.index(names.len())].to_owned())
    }
}

fn asleep(watch: &Watch) -> Violation {
    let what = format!("{} went on, or ended, and nobody woke its watcher", watch.name);
    Violation::new("I2", what)
}

fn in_between(tail: Offset, least: usize, most: usize) -> bool {
    (least..=most).contains(&to_usize(tail.0))
}

pub(super) fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("small numbers")
}
