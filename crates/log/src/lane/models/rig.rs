//! What every model stands on: a log of one lane on a simulated disk, driven by loom's threads.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};
use highwater_disk::{Access, Disk};
use loom::thread::JoinHandle;

use crate::lane::Lane;
use crate::lane::commit::Ticket;
use crate::lane::segment::to_usize;
use crate::options::Options;
use crate::planted::Planted;
use crate::request::{Append, Appended, Config, Create, Created, End};
use crate::{Driver, Log, Machine};

const SEGMENT_BYTES: u64 = 64 << 10;

/// Words of the stack of each thread of a model.
const STACK_WORDS: usize = 1 << 16;

/// The stream that is there from the start, and empty.
pub(super) const STREAM: &str = "s";

/// Runs a model through every order of its threads with three preemptions at most: switches where
/// the thread could have gone on. Waiting costs none.
pub(super) fn explore(planted: Option<Planted>, model: fn(&Rig)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.max_branches = 20_000;
    builder.check(move || {
        // The thread that a model begins in has too small a stack to open a log.
        let all = start(move || {
            let rig = Rig::new(planted);
            model(&rig);
            rig.end();
        });
        all.join().expect("the model holds");
    });
}

fn start(run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = loom::thread::Builder::new().stack_size(STACK_WORDS);
    thread.spawn(run).expect("loom has room for another thread")
}

/// A log of one lane, the disk below, and nobody who commits.
pub(super) struct Rig {
    pub disk: SimDisk,
    pub lane: Arc<Lane>,
    /// Not dropped where a model fails: dropping takes locks, which a failed model no longer has.
    log: ManuallyDrop<Log>,
}

impl Rig {
    fn new(planted: Option<Planted>) -> Self {
        let options = Options {
            segment_bytes: SEGMENT_BYTES,
            max_payload_bytes: 8 << 10,
            frame_bytes: 4 << 10,
            max_staged_bytes: 64 << 10,
            checkpoint_wal_bytes: SEGMENT_BYTES,
            max_wal_bytes: 4 * SEGMENT_BYTES,
            planted,
            ..Options::default()
        };
        let (disk, clock) = (SimDisk::new(SimOptions::seeded(1)), Arc::new(SimClock::new()));
        let machine = Machine {
            disk: Arc::new(disk.clone()),
            clock: Arc::clone(&clock) as Arc<_>,
            rng: Box::new(SimRng::new(1)),
        };
        let log = Log::open(machine, &options, Driver::Caller).expect("a new disk takes a log");
        let lane = log.kept(clock).lanes.swap_remove(0);
        let rig = Self { disk, lane, log: ManuallyDrop::new(log) };
        create(&rig.lane, STREAM).wait().expect("a new log takes a stream");
        rig
    }

    fn end(self) {
        drop(ManuallyDrop::into_inner(self.log));
    }

    /// Starts a thread of the lane.
    pub fn spawn(&self, run: impl FnOnce(&Arc<Lane>) + Send + 'static) -> JoinHandle<()> {
        let lane = Arc::clone(&self.lane);
        start(move || run(&lane))
    }

    /// As `spawn`, for what looks at the disk, too.
    pub fn spawn_with(
        &self,
        run: impl FnOnce(&Arc<Lane>, &SimDisk) + Send + 'static,
    ) -> JoinHandle<()> {
        let disk = self.disk.clone();
        self.spawn(move |lane| run(lane, &disk))
    }

    /// Starts the lane's committer, and waits until the lane has one.
    pub fn spawn_committer(&self) -> JoinHandle<()> {
        self.lane.lock().committer = crate::lane::Committer::Awake;
        self.spawn(|lane| lane.run_committer())
    }

    /// Ends the committer.
    pub fn stop(&self, committer: JoinHandle<()>) {
        self.lane.stop();
        committer.join().expect("the committer ended well");
    }
}

/// Creates an empty stream.
pub(super) fn create(lane: &Arc<Lane>, name: &str) -> Ticket<Created> {
    let request = Create { name, config: &Config::default(), payload: b"", end: End::Open };
    lane.create(&request).expect("there is room")
}

/// Appends to the stream.
pub(super) fn append(lane: &Arc<Lane>, payload: &[u8]) -> Ticket<Appended> {
    let request = Append {
        name: STREAM,
        payload,
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    };
    lane.append(&request).expect("there is room")
}

/// Whether a power cut at this moment, which takes all that is not durable, would leave these bytes
/// in the lane's log.
pub(super) fn is_durable(disk: &SimDisk, payload: &[u8]) -> bool {
    let left = disk.fork().crash_with(|_| false);
    let is_segment = |name: &str| name.ends_with(".seg");
    let entries = left.list("wal/0").expect("the lane has a directory");
    entries.iter().filter(|entry| is_segment(&entry.name)).any(|entry| {
        let path = format!("wal/0/{}", entry.name);
        let file = left.open(&path, Access::Buffered).expect("it is listed");
        let mut bytes = vec![0; to_usize(file.len().expect("it is open"))];
        file.read_at(&mut bytes, 0).expect("it is that long");
        bytes.windows(payload.len()).any(|window| window == payload)
    })
}
