//! A few connections beyond the limit, so that whoever looks after a full server hears from it, and
//! others hear that it is full (I11). Each gets one answer, and has a moment to ask for it; then
//! the oldest makes way: those that say nothing keep nobody out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::watch::{Order, Watch};

/// How many.
pub(crate) const MOST: u64 = 32;
/// How many are open at most, those included that were told to close and have not come to it yet:
/// a crowd would be accepted faster than it is turned away, and each is an open file.
pub(crate) const MOST_OPEN: u64 = 2 * MOST;

/// How long none of them has to make way for another.
pub(crate) const TIME_TO_ASK: Duration = Duration::from_millis(100);

/// The connections beyond the limit, oldest first, by number.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    connections: Mutex<VecDeque<(u64, Arc<Watch>)>>,
}

/// A place in the reserve, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    reserve: Arc<Reserve>,
    number: u64,
}

impl Reserve {
    /// Takes a connection in.
    pub fn take(self: &Arc<Self>, number: u64, watch: &Arc<Watch>) -> Reserved {
        self.lock().push_back((number, Arc::clone(watch)));
        self.make_way();
        Reserved { reserve: Arc::clone(self), number }
    }

    /// Closes the oldest ones of too many, if they had the time to ask.
    pub fn make_way(&self) {
        let mut connections = self.lock();
        let too_many = u64::try_from(connections.len()).unwrap_or(u64::MAX).saturating_sub(MOST);
        for _ in 0..too_many {
            let has_had_time =
                connections.front().is_some_and(|(_, oldest)| oldest.is_older_than(TIME_TO_ASK));
            if !has_had_time {
                break;
            }
            if let Some((_, oldest)) = connections.pop_front() {
                oldest.give(Order::Close);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<Watch>)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.reserve.lock().retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_too_many_is_closed_once_it_had_time_and_whoever_ends_makes_room() {
        let reserve = Arc::new(Reserve::default());
        let watches: Vec<Arc<Watch>> = (0..MOST + 2).map(|_| Arc::default()).collect();
        let take = |at: u64| reserve.take(at, &watches[usize::try_from(at).unwrap()]);
        let closed =
            || watches.iter().filter(|watch| watch.order(Waker::noop()) == Order::Close).count();
        let mut places: Vec<Reserved> = (0..MOST).map(take).collect();
        assert_eq!(closed(), 0);
        places.remove(5);
        places.push(take(MOST));
        assert_eq!(closed(), 0);
        places.push(take(MOST + 1));
        assert_eq!(closed(), 0, "it may be about to ask");
        tokio::time::advance(TIME_TO_ASK).await;
        reserve.make_way();
        assert_eq!(closed(), 1);
        assert_eq!(watches[0].order(Waker::noop()), Order::Close);
        drop(places);
        assert!(reserve.lock().is_empty());
    }
}
