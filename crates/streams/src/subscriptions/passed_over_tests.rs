//! Claims about subscriptions that are passed over while they are stale or to be deleted, and are
//! back after that.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};
use highwater_log::options::Options;
use highwater_log::request::{Config, Create, End};
use highwater_log::{Driver, Log, Machine};

use super::entry::{Entry, Standing};
use super::keys::Entropy;
use super::state::Room;
use super::url_policy::UrlPolicy;
use super::{Due, Settings, SubscriptionLimits, Subscriptions, open_keys};
use crate::etag::StoreTag;
use crate::path::StreamPath;
use crate::service::{Around, Expected, Limits, Observer as _, Streams};

const HOOK: &[u8] = br#"{"type":"webhook","pattern":"events/*",
    "webhook":{"url":"https://worker.example/"}}"#;

#[derive(Debug)]
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// A subscription, and a stream that is pending for it.
struct Rig {
    log: Arc<Log>,
    subs: Arc<Subscriptions>,
    entry: Arc<Entry>,
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(SimClock::new());
        let disk = Arc::new(SimDisk::new(SimOptions::seeded(1)));
        let machine = Machine { disk, clock: clock.clone(), rng: Box::new(SimRng::new(1)) };
        let log = Arc::new(Log::open(machine, &Options::default(), Driver::Caller).unwrap());
        let around = Around { log: Arc::clone(&log), clock, rng: Box::new(SimRng::new(2)) };
        let (chunk_bytes, append_bytes, ring_bytes, answers_bytes) = (64, 64, 64, 1 << 20);
        let limits = Limits { chunk_bytes, append_bytes, ring_bytes, answers_bytes };
        let streams = Streams::new(around, limits, StoreTag(1));
        let settings = Settings {
            keys: run(&log, open_keys(&log, &NoEntropy)).unwrap(),
            entropy: Arc::new(NoEntropy),
            policy: UrlPolicy::Production,
            limits: SubscriptionLimits::default(),
        };
        let subs = Subscriptions::open(streams, settings).unwrap();
        let config = subs.config(HOOK).unwrap();
        run(&log, subs.put("s", config, "http://127.0.0.1/v1/stream")).unwrap();
        let (config, payload, end) = (Config::default(), &b"1"[..], End::Open);
        let create = Create { name: "events/a", config: &config, payload, end };
        run(&log, log.create(&create).unwrap()).unwrap();
        subs.noted(&StreamPath::relative("events/a").unwrap(), Expected::Anything);
        subs.settle_now();
        let entry = subs.entry("s").unwrap();
        assert_eq!(entry.lock().subscription.pending.len(), 1);
        Self { log, subs, entry }
    }

    fn turn(&self) -> Vec<Due> {
        let (due, outcome) = run(&self.log, self.subs.turn());
        outcome.unwrap();
        due
    }
}

fn run<T>(log: &Log, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..50 {
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(value) = polled {
            return value;
        }
        log.step();
    }
    panic!("it is never done");
}

#[test]
fn what_was_searched_for_is_searched_again_when_a_search_met_a_subscription_that_was_not_there() {
    for is_stale in [true, false] {
        let rig = Rig::new();
        {
            let mut held = rig.entry.lock();
            // There was no room for it.
            held.subscription.observe("events/a", None, Room::Free);
            held.subscription.has_more = true;
        }
        let searched = Subscriptions::begin_search(vec![Arc::clone(&rig.entry)]);
        assert_eq!(searched.len(), 1);
        if is_stale {
            rig.entry.lock().standing = Standing::Stale;
            rig.subs.lock().stale.insert("s".to_owned());
        } else {
            rig.entry.lock().is_deleted = true;
        }
        rig.subs.walk_for(&searched);
        rig.subs.end_search(&searched);
        if !is_stale {
            rig.subs.keep(&rig.entry);
        }
        rig.subs.refresh().unwrap();
        assert!(rig.subs.wants_search(), "stale: {is_stale}");
        rig.subs.search();
        assert_eq!(rig.turn().len(), 1);
    }
}

#[test]
fn a_webhook_that_was_not_begun_since_its_subscription_was_to_be_deleted_is_due_again() {
    let rig = Rig::new();
    let due = rig.turn().pop().unwrap();
    rig.entry.lock().is_deleted = true;
    assert_eq!(run(&rig.log, rig.subs.begin(&due)), Ok(None));
    rig.subs.keep(&rig.entry);
    rig.subs.refresh().unwrap();
    rig.subs.search();
    let again = rig.turn().pop().expect("it is due again");
    assert!(run(&rig.log, rig.subs.begin(&again)).unwrap().is_some());
}
