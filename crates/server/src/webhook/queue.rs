//! Whose webhook is sent next: places are few, and receivers that do not answer keep theirs long.
//!
//! Hosts take turns, each has some of the places at most, and those that were not answered before
//! have half of all together: so whatever a receiver does, others are sent theirs. What waits here
//! has no lease yet, and takes as much memory as its name and URL; a subscription waits once, also
//! one that was deleted and made again meanwhile.

use std::collections::{HashMap, VecDeque};

use highwater_streams::subscriptions::Due;

/// How many webhooks are sent at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// In all.
    pub all: usize,
    /// To one host and port.
    pub each: usize,
}

/// Those who wait, and the places in use.
#[derive(Debug)]
pub(super) struct Queue {
    places: Places,
    /// First attempts.
    first: Line,
    /// Others.
    again: Line,
    /// Where each subscription that waits does, by id.
    waiting: HashMap<String, (Attempt, String)>,
    /// Places in use, by host.
    sent: HashMap<String, usize>,
    /// Places in use.
    all: usize,
    /// Places in use by other than first attempts.
    retried: usize,
    last: Attempt,
}

/// A place in use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub due: Due,
    host: String,
    attempt: Attempt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    Again,
}

/// Those who wait, by host, and the hosts in the order of their turns.
#[derive(Debug, Default)]
struct Line {
    waiting: HashMap<String, VecDeque<Due>>,
    turns: VecDeque<String>,
}

impl Queue {
    /// Begins with nobody waiting.
    pub fn new(places: Places) -> Self {
        let (first, again) = (Line::default(), Line::default());
        let (waiting, sent, last) = (HashMap::new(), HashMap::new(), Attempt::Again);
        Self { places, first, again, waiting, sent, all: 0, retried: 0, last }
    }

    /// Lets one wait, in the place of what its subscription waited for before.
    pub fn push(&mut self, due: Due) {
        let attempt = if due.attempt == 0 { Attempt::First } else { Attempt::Again };
        let host = host_of(&due.url);
        let before = self.waiting.insert(due.id.clone(), (attempt, host.clone()));
        if let Some((attempt, host)) = before {
            self.line(attempt).remove(&host, &due.id);
        }
        self.line(attempt).push(host, due);
    }

    /// Takes the next one, where there is a place.
    pub fn next(&mut self) -> Option<Place> {
        if self.all >= self.places.all {
            return None;
        }
        // Neither kind waits for the other to be through.
        let order = match self.last {
            Attempt::First => [Attempt::Again, Attempt::First],
            Attempt::Again => [Attempt::First, Attempt::Again],
        };
        let (host, due, attempt) = order.into_iter().find_map(|attempt| {
            let is_free = attempt == Attempt::First || self.retried < self.places.all.div_ceil(2);
            let line = match attempt {
                Attempt::First => &mut self.first,
                Attempt::Again => &mut self.again,
            };
            let (sent, each) = (&self.sent, self.places.each);
            let takes = |host: &str| is_free && sent.get(host).is_none_or(|sent| *sent < each);
            line.next(takes).map(|(host, due)| (host, due, attempt))
        })?;
        self.waiting.remove(&due.id);
        self.last = attempt;
        self.all += 1;
        self.retried += usize::from(attempt == Attempt::Again);
        *self.sent.entry(host.clone()).or_default() += 1;
        Some(Place { due, host, attempt })
    }

    /// Gives a place back.
    pub fn done(&mut self, place: &Place) {
        self.all -= 1;
        self.retried -= usize::from(place.attempt == Attempt::Again);
        if let Some(sent) = self.sent.get_mut(&place.host) {
            *sent -= 1;
            if *sent == 0 {
                self.sent.remove(&place.host);
            }
        }
    }
}

impl Queue {
    fn line(&mut self, attempt: Attempt) -> &mut Line {
        match attempt {
            Attempt::First => &mut self.first,
            Attempt::Again => &mut self.again,
        }
    }
}

impl Line {
    fn push(&mut self, host: String, due: Due) {
        if let Some(waiting) = self.waiting.get_mut(&host) {
            waiting.push_back(due);
        } else {
            self.turns.push_back(host.clone());
            self.waiting.insert(host, VecDeque::from([due]));
        }
    }

    fn remove(&mut self, host: &str, id: &str) {
        let Some(waiting) = self.waiting.get_mut(host) else { return };
        waiting.retain(|due| due.id != id);
        if waiting.is_empty() {
            self.waiting.remove(host);
            self.turns.retain(|turn| turn != host);
        }
    }

    /// Takes one of the first host that is taken; it is its turn again behind all others.
    fn next(&mut self, takes: impl Fn(&str) -> bool) -> Option<(String, Due)> {
        let at = self.turns.iter().position(|host| takes(host))?;
        let host = self.turns.remove(at)?;
        let waiting = self.waiting.get_mut(&host)?;
        let due = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&host);
        } else {
            self.turns.push_back(host.clone());
        }
        Some((host, due))
    }
}

/// Host and port of a URL that was judged when its subscription was made.
fn host_of(url: &str) -> String {
    let Ok(uri) = url.parse::<http::Uri>() else { return url.to_owned() };
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    format!("{host}:{}", uri.port_u16().unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(id: &str, host: &str, attempt: u32) -> Due {
        Due::new(id, &format!("https://{host}/x"), attempt)
    }

    fn ids(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.next()).map(|place| place.due.id).collect()
    }

    /// A host that never answers takes its places, and no others.
    #[test]
    fn hosts_take_turns_and_none_takes_more_than_its_places() {
        let mut queue = Queue::new(Places { all: 6, each: 2 });
        for number in 0..100 {
            queue.push(due(&format!("hang{number}"), "slow.example", 0));
        }
        assert_eq!(ids(&mut queue), ["hang0", "hang1"]);
        queue.push(due("a0", "a.example", 0));
        queue.push(due("a1", "a.example", 0));
        queue.push(due("b0", "B.example:443", 0));
        assert_eq!(ids(&mut queue), ["a0", "b0", "a1"]);
        queue.push(due("b1", "b.example", 0));
        queue.push(due("b2", "b.example", 0));
        assert_eq!(ids(&mut queue), ["b1"], "a port that is not named is its scheme's");
    }

    /// Those that were not answered leave half of the places to others.
    #[test]
    fn what_is_sent_again_takes_half_of_the_places_at_most() {
        let mut queue = Queue::new(Places { all: 4, each: 4 });
        for number in 0..8 {
            queue.push(due(&format!("again{number}"), &format!("h{number}.example"), 3));
        }
        assert_eq!(ids(&mut queue), ["again0", "again1"]);
        for number in 0..3 {
            queue.push(due(&format!("first{number}"), "good.example", 0));
        }
        let first = queue.next().unwrap();
        assert_eq!(first.due.id, "first0");
        queue.done(&first);
        assert_eq!(ids(&mut queue), ["first1", "first2"]);
        assert_eq!(queue.next(), None, "all places are taken");
    }

    #[test]
    fn first_attempts_do_not_keep_others_waiting_and_places_come_back() {
        let mut queue = Queue::new(Places { all: 2, each: 2 });
        for number in 0..50 {
            queue.push(due(&format!("first{number}"), "busy.example", 0));
            queue.push(due(&format!("again{number}"), "busy.example", 1));
        }
        let mut sent = Vec::new();
        while let Some(place) = queue.next() {
            queue.done(&place);
            sent.push(place.due.id);
        }
        assert_eq!(sent.len(), 100);
        assert!(sent[..4].iter().any(|id| id.starts_with("again")), "{:?}", &sent[..4]);
        assert!(queue.sent.is_empty() && queue.all == 0 && queue.retried == 0);
        assert!(queue.first.waiting.is_empty() && queue.first.turns.is_empty());
        assert!(queue.waiting.is_empty());
    }

    /// I11: whoever deletes subscriptions and makes them again takes no memory with that.
    #[test]
    fn a_subscription_waits_once_however_often_it_is_made_again() {
        let mut queue = Queue::new(Places { all: 1, each: 1 });
        queue.push(due("other", "a.example", 0));
        for number in 0..100 {
            queue.push(due("s", "a.example", 0));
            queue.push(due("s", &format!("h{number}.example"), 1));
        }
        let all = |line: &Line| line.waiting.values().map(VecDeque::len).sum::<usize>();
        assert_eq!(all(&queue.first) + all(&queue.again), 2);
        assert_eq!(queue.first.turns.len() + queue.again.turns.len(), 2);
        queue.push(due("s", "a.example", 0));
        let mut sent = Vec::new();
        while let Some(place) = queue.next() {
            queue.done(&place);
            sent.push((place.due.id, place.due.attempt));
        }
        assert_eq!(sent, [("other".to_owned(), 0), ("s".to_owned(), 0)], "the newest counts");
        assert!(queue.waiting.is_empty() && queue.again.turns.is_empty());
    }
}
