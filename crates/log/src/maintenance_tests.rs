//! Claims about the keeper: when checkpoints run, and what becomes of their failures.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use highwater_disk::DiskResult;
use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};

use super::*;
use crate::home::{Absorb, Extent, Lent};
use crate::ids::{LaneId, Offset, StreamId};
use crate::lane::commit::Ticket;
use crate::options::Durability;
use crate::request::{Append, Appended, Config, Create, End};
use crate::{Driver, Log, Machine};

const SEGMENT: u64 = 64 << 10;

/// A home that notes whose bytes it takes, and fails as told.
#[derive(Debug)]
struct Told {
    inner: Option<Arc<dyn Home>>,
    fails: Fails,
    absorbed: Mutex<Vec<LaneId>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    Never,
    WithoutSpace,
    ByPanic,
}

impl Told {
    fn new(inner: &Arc<dyn Home>, fails: Fails) -> Arc<Self> {
        Arc::new(Self { inner: Some(Arc::clone(inner)), fails, absorbed: Mutex::default() })
    }

    fn inner(&self) -> &dyn Home {
        &**self.inner.as_ref().expect("it is over a home")
    }

    fn take_absorbed(&self) -> Vec<LaneId> {
        let mut lanes = std::mem::take(&mut *self.absorbed.lock().unwrap());
        lanes.dedup();
        lanes
    }
}

impl Home for Told {
    fn absorb(&self, group: &[Absorb]) -> DiskResult<Vec<u32>> {
        self.absorbed.lock().unwrap().extend(group.iter().map(|absorb| absorb.stream.lane()));
        match self.fails {
            Fails::Never => self.inner().absorb(group),
            Fails::ByPanic => panic!("a home that panics"),
            Fails::WithoutSpace => {
                let disk = SimDisk::new(SimOptions { capacity_bytes: 0, ..SimOptions::seeded(1) });
                let file =
                    highwater_disk::Disk::create(&disk, "f", highwater_disk::Access::Buffered)?;
                file.write_at(&[1], 0).map(|()| Vec::new())
            }
        }
    }

    fn barrier(&self) -> DiskResult<()> {
        self.inner().barrier()
    }

    fn check(&self) -> DiskResult<()> {
        self.inner().check()
    }

    fn read(&self, extent: Extent, from: Offset, into: &mut [u8]) -> LogResult<()> {
        self.inner().read(extent, from, into)
    }

    fn lend(&self, extent: Extent, from: Offset, to: Offset) -> LogResult<Option<Lent>> {
        self.inner().lend(extent, from, to)
    }

    fn remove(&self, stream: StreamId) -> DiskResult<()> {
        self.inner().remove(stream)
    }

    fn streams(&self) -> DiskResult<Vec<StreamId>> {
        self.inner().streams()
    }
}

fn options(lanes: u16) -> Options {
    Options {
        lanes,
        segment_bytes: SEGMENT,
        max_payload_bytes: 8 << 10,
        frame_bytes: 16 << 10,
        max_staged_bytes: 256 << 10,
        checkpoint_wal_bytes: 4 * SEGMENT,
        max_wal_bytes: 16 * SEGMENT,
        ..Options::default()
    }
}

/// A log with a stream in each of its lanes.
fn open(options: &Options, clock: &SimClock) -> (Log, Vec<String>) {
    let machine = Machine {
        disk: Arc::new(SimDisk::new(SimOptions::seeded(1))),
        clock: Arc::new(clock.clone()),
        rng: Box::new(SimRng::new(1)),
    };
    let log = Log::open(machine, options, Driver::Caller).unwrap();
    let in_lane = |lane| {
        let names = (0..).map(|number| format!("s{number}"));
        names.into_iter().find(|name| crate::recover::lane_of(name, options.lanes) == lane)
    };
    let names: Vec<String> =
        (0..options.lanes).map(|lane| in_lane(LaneId(lane)).unwrap()).collect();
    for name in &names {
        let config = Config::default();
        let request = Create { name, config: &config, payload: b"", end: End::Open };
        log.create(&request).unwrap().wait().unwrap();
    }
    (log, names)
}

fn append(log: &Log, name: &str) -> LogResult<Ticket<Appended>> {
    log.append(&Append {
        name,
        payload: &[7; 8000],
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    })
}

fn keeper(log: &Log, home: Arc<dyn Home>, (options, clock): (&Options, &SimClock)) -> Keeper {
    Keeper::new(Kept { home, ..log.kept(Arc::new(clock.clone())) }, options)
}

fn is_done(ticket: &mut Ticket<Appended>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(ticket).poll(&mut context) {
        Poll::Pending => false,
        Poll::Ready(done) => done.is_ok(),
    }
}

#[test]
fn a_panic_in_a_checkpoint_poisons_its_lane_and_leaves_nobody_waiting() {
    let (options, clock) = (options(2), SimClock::new());
    let (log, names) = open(&options, &clock);
    let kept = log.kept(Arc::new(clock.clone()));
    kept.lanes[0].hold(Hold::Begin);
    let mut tickets = Vec::new();
    for _ in 0..100 {
        tickets.push(append(&log, &names[0]).unwrap());
        while log.step() {}
    }
    assert!(!is_done(tickets.last_mut().unwrap()), "it waits for a checkpoint");
    let home = Told::new(&kept.home, Fails::ByPanic);
    let mut keeper = keeper(&log, home, (&options, &clock));
    keeper.look();
    assert!(is_done(tickets.last_mut().unwrap()), "it is durable, and nothing else will come");
    assert!(matches!(append(&log, &names[0]), Err(LogError::Poisoned(_))));
    assert!(matches!(log.checkpoint(), Err(LogError::Poisoned(_))), "and no deadlock");
    append(&log, &names[1]).unwrap().wait().unwrap();
    keeper.look();
    assert!(append(&log, &names[1]).is_ok(), "the other lane goes on");
}

#[test]
fn lanes_take_turns_within_an_interval_and_none_is_left_out() {
    let (options, clock) = (options(4), SimClock::new());
    let (log, names) = open(&options, &clock);
    let home = Told::new(&log.kept(Arc::new(clock.clone())).home, Fails::Never);
    let mut keeper = keeper(&log, Arc::clone(&home) as Arc<dyn Home>, (&options, &clock));
    for round in 0..3 {
        let mut turns = Vec::new();
        for _ in 0..8 {
            clock.advance(options.checkpoint_interval / 8);
            for name in &names {
                append(&log, name).unwrap().wait().unwrap();
            }
            keeper.look();
            let absorbed = home.take_absorbed();
            assert!(absorbed.len() <= 1, "round {round}: {absorbed:?} at once");
            turns.extend(absorbed);
        }
        assert_eq!(turns, (0..4).map(LaneId).collect::<Vec<_>>(), "round {round}");
    }
}

#[test]
fn lanes_that_grow_alike_do_not_reach_their_thresholds_all_at_once() {
    let (options, clock) = (options(4), SimClock::new());
    let (log, names) = open(&options, &clock);
    let home = Told::new(&log.kept(Arc::new(clock.clone())).home, Fails::Never);
    let mut keeper = keeper(&log, Arc::clone(&home) as Arc<dyn Home>, (&options, &clock));
    let mut looks = Vec::new();
    for _ in 0..120 {
        for name in &names {
            append(&log, name).unwrap().wait().unwrap();
        }
        keeper.look();
        looks.push(home.take_absorbed().len());
    }
    assert!(looks.iter().sum::<usize>() >= 12, "{looks:?}");
    let first: Vec<usize> = looks.into_iter().filter(|lanes| *lanes > 0).take(3).collect();
    assert!(first.iter().all(|lanes| *lanes <= 2), "{first:?}");
}

#[test]
fn a_checkpoint_without_space_is_tried_again_less_and_less_often_and_holds_nobody_up() {
    let (options, clock) = (options(1), SimClock::new());
    let (log, names) = open(&options, &clock);
    let kept = log.kept(Arc::new(clock.clone()));
    kept.lanes[0].hold(Hold::Begin);
    let home = Told::new(&kept.home, Fails::WithoutSpace);
    let mut keeper = keeper(&log, Arc::clone(&home) as Arc<dyn Home>, (&options, &clock));
    let mut tries = 0;
    for _ in 0..6000 {
        clock.advance(Duration::from_millis(10));
        if let Ok(mut ticket) = append(&log, &names[0]) {
            while log.step() {}
            keeper.look();
            assert!(is_done(&mut ticket), "no checkpoint comes that it could wait for");
        }
        keeper.look();
        tries += home.take_absorbed().len();
    }
    assert!((8..16).contains(&tries), "{tries} tries in a minute");
    assert!(log.usage()[0].read_only.is_none());
    assert!(matches!(append(&log, &names[0]), Err(LogError::Full(_))));
    log.checkpoint().unwrap();
    append(&log, &names[0]).unwrap().wait().unwrap();
}

#[test]
fn an_acknowledgement_far_beyond_where_checkpoints_begin_waits_for_one_and_not_for_more() {
    let (options, clock) = (options(1), SimClock::new());
    let (log, names) = open(&options, &clock);
    let kept = log.kept(Arc::new(clock.clone()));
    kept.lanes[0].hold(Hold::Begin);
    let mut tickets = Vec::new();
    while kept.lanes[0].wal_bytes() < 15 * SEGMENT {
        tickets.push(append(&log, &names[0]).unwrap());
        while log.step() {}
    }
    let done = tickets.iter_mut().map(is_done).filter(|done| *done).count();
    let begun = u64::try_from(done * 8000).unwrap();
    assert!(begun > options.delay_wal_bytes() * 3 / 4 && begun < options.delay_wal_bytes());
    let shown = log.info(&names[0]).unwrap().tail;
    assert_eq!(shown, Offset(u64::try_from(tickets.len() * 8000).unwrap()), "readers see it all");
    log.checkpoint().unwrap();
    assert!(tickets.drain(done..).all(|mut ticket| is_done(&mut ticket)));
    kept.lanes[0].hold(Hold::End);
}

#[test]
fn memory_is_given_back_by_the_lane_that_has_most() {
    let all =
        Options { max_image_bytes: 16 * SEGMENT, checkpoint_wal_bytes: 16 * SEGMENT, ..options(2) };
    let clock = SimClock::new();
    let (log, names) = open(&all, &clock);
    let kept = log.kept(Arc::new(clock.clone()));
    let home = Told::new(&kept.home, Fails::Never);
    let mut keeper = keeper(&log, Arc::clone(&home) as Arc<dyn Home>, (&all, &clock));
    append(&log, &names[0]).unwrap().wait().unwrap();
    loop {
        append(&log, &names[1]).unwrap().wait().unwrap();
        if kept.images.bytes() > all.max_image_bytes / 2 {
            break;
        }
        keeper.look();
    }
    assert_eq!(home.take_absorbed(), [], "nothing was due");
    keeper.look();
    assert_eq!(home.take_absorbed(), [LaneId(1)]);
    assert!(kept.images.bytes() <= all.max_image_bytes / 2);
}

#[test]
fn what_is_staged_next_has_memory_before_it_is_staged_in_each_segment() {
    let (options, clock) = (options(1), SimClock::new());
    let (log, names) = open(&options, &clock);
    let kept = log.kept(Arc::new(clock.clone()));
    let (lane, clock) = (&kept.lanes[0], Arc::clone(&kept.clock));
    let mut supplier = crate::supplier::Supplier::new(&kept.lanes, clock, Arc::clone(&kept.asked));
    for _ in 0..3 {
        assert_eq!(lane.present_to(), 0, "nobody has seen to this segment yet");
        append(&log, &names[0]).unwrap().wait().unwrap();
        supplier.look();
        // The whole of a segment that is so small, or what this kernel does not do.
        assert_eq!(lane.present_to(), usize::try_from(SEGMENT).unwrap());
        let segments = log.metrics()[0].commits.segments;
        while log.metrics()[0].commits.segments == segments {
            append(&log, &names[0]).unwrap().wait().unwrap();
        }
    }
}

/// Commits whatever is asked for.
fn settle(log: &Log) {
    while log.step() {}
}

#[test]
fn what_waits_for_a_checkpoint_keeps_no_later_append_of_its_thread_from_being_committed() {
    let (options, clock) = (options(1), SimClock::new());
    let (log, names) = open(&options, &clock);
    log.kept(Arc::new(clock)).lanes[0].hold(Hold::Begin);
    let mut attends = crate::lane::reactor::attend(|context| context.waker().wake_by_ref());
    let mut attend = || {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut attends).poll(&mut context).is_pending());
    };
    attend();
    let (mut tickets, mut held) = (Vec::new(), 0);
    for number in 1.. {
        // Until the log can take no more.
        let Ok(mut ticket) = append(&log, &names[0]) else { break };
        // It asks, and whoever attends has it committed.
        is_done(&mut ticket);
        attend();
        held += u64::from(!is_done(&mut ticket));
        tickets.push(ticket);
        let shown = log.info(&names[0]).unwrap().tail.0;
        assert_eq!(shown, 8000 * number, "it can be read, whoever waits for what");
    }
    assert!(held > 0, "nothing was held up");
}

#[test]
fn a_reader_waits_for_what_was_acknowledged_and_not_for_what_is_held_up() {
    let within = Duration::from_secs(10);
    let options = Options { durability: Durability::Relaxed { within }, ..options(1) };
    let clock = SimClock::new();
    let (log, names) = open(&options, &clock);
    log.kept(Arc::new(clock)).lanes[0].hold(Hold::Begin);
    loop {
        let mut ticket = append(&log, &names[0]).unwrap();
        if !is_done(&mut ticket) {
            // The first that is held up, and nobody asks for it.
            std::mem::forget(ticket);
            break;
        }
        settle(&log);
    }
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    let mut context = Context::from_waker(&waker);
    if let Some(mut settled) = log.settle(&names[0]) {
        if Pin::new(&mut settled).poll(&mut context).is_pending() {
            settle(&log);
            assert!(flag.0.load(Ordering::SeqCst), "it is woken by the commit");
        }
        assert!(Pin::new(&mut settled).poll(&mut context).is_ready());
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
