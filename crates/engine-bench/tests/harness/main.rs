//! The harness, with subjects made up for it: what it counts, and how it ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use highwater_engine_bench::case::Case;
use highwater_engine_bench::data::Row;
use highwater_engine_bench::plan::{Choice, Plan, Product, Wishes};
use highwater_engine_bench::reload;
use highwater_engine_bench::results::Results;
use highwater_engine_bench::runner::{Observer, Step};
use highwater_engine_bench::session::{Ended, Session, Title};
use highwater_engine_bench::subject::{Counts, Store, Subject, SubjectError, SubjectResult};
use highwater_probe::site::Site;

/// A subject that does as it is told.
#[derive(Clone)]
struct Puppet {
    name: &'static str,
    behaviour: Behaviour,
    /// Stores that were opened, and that were closed.
    opened: Arc<AtomicU64>,
    closed: Arc<AtomicU64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Every append is done at once.
    Works,
    /// It cannot be opened here.
    IsNotOffered,
    /// The hundredth append fails.
    Fails,
    /// Each append is refused once.
    Refuses,
    /// The hundredth append panics.
    Panics,
}

struct PuppetStore {
    puppet: Puppet,
    calls: AtomicU64,
    done: AtomicU64,
}

impl Puppet {
    fn new(name: &'static str, behaviour: Behaviour) -> Self {
        Self { name, behaviour, opened: Arc::default(), closed: Arc::default() }
    }

    fn count(counter: &Arc<AtomicU64>) -> u64 {
        counter.load(Ordering::SeqCst)
    }
}

impl Subject for Puppet {
    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&self, dir: &Path, _case: &Case) -> SubjectResult<Box<dyn Store>> {
        if self.behaviour == Behaviour::IsNotOffered {
            return Err(SubjectError::Unsupported("no such thing".to_owned()));
        }
        std::fs::write(dir.join("any name"), b"x").expect("a store's file");
        self.opened.fetch_add(1, Ordering::SeqCst);
        let (calls, done) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Box::new(PuppetStore { puppet: self.clone(), calls, done }))
    }
}

impl Store for PuppetStore {
    fn create_streams(&self, _count: u32) -> SubjectResult<()> {
        Ok(())
    }

    fn append(&self, _stream: u32, payload: &[u8]) -> SubjectResult<()> {
        assert_eq!(payload.len(), 100);
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.puppet.behaviour {
            Behaviour::Fails if call == 99 => Err(SubjectError::Failed("it broke".to_owned())),
            Behaviour::Panics if call == 99 => panic!("as told"),
            Behaviour::Refuses if call.is_multiple_of(2) => {
                Err(SubjectError::Refused("full".to_owned()))
            }
            _ => {
                self.done.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        }
    }

    fn counts(&self) -> Option<Counts> {
        Some(Counts { commits: self.done.load(Ordering::SeqCst) / 2, ..Counts::default() })
    }

    fn close(self: Box<Self>) -> SubjectResult<()> {
        self.puppet.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// What the harness told.
#[derive(Default)]
struct Told {
    measured: Vec<String>,
    stopped: Vec<String>,
}

impl Observer for Told {
    fn started(&mut self, _step: &Step) {}

    fn measured(&mut self, step: &Step, row: Option<&Row>) {
        assert!(row.is_some());
        self.measured.push(format!("{} {}", step.round, step.label));
    }

    fn stopped(&mut self, step: &Step, why: &str) {
        self.stopped.push(format!("{} {}: {why}", step.round, step.label));
    }
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory beside the build")
}

/// Runs puppets in a new directory of the build's disk, which must be empty afterwards.
fn run(puppets: &[&Puppet], rounds: u32) -> (Ended, Told, tempfile::TempDir) {
    let dir = temporary();
    let runs = temporary();
    let subjects = puppets.iter().map(|puppet| Arc::new((*puppet).clone()) as Arc<dyn Subject>);
    let choice = Choice { subjects: subjects.collect(), scenes: Vec::new() };
    let product =
        Product { writers: vec![2], streams: vec![4], payload: vec![100], ..Product::default() };
    let measured = Duration::from_millis(60);
    let wishes = Wishes { product, only: Vec::new(), measured, rounds, seed: 1 };
    let plan = Plan::new(&wishes, &choice).expect("a plan");
    let site = Site::open(dir.path()).expect("a site");
    let stop = AtomicBool::new(false);
    let title = Title {
        name: "puppets".to_owned(),
        command: vec!["test".to_owned()],
        version: "0".to_owned(),
    };
    let session = Session { plan: &plan, site: &site, stop: &stop, title, runs: runs.path() };
    let mut told = Told::default();
    let ended = session.run(&mut told).expect("a run");
    assert_eq!(
        std::fs::read_dir(dir.path()).expect("the directory").count(),
        0,
        "stores are removed"
    );
    (ended, told, runs)
}

/// The rate, latency count and reason of each subject.
fn shape(results: &Results) -> Vec<(bool, u64, Option<&str>)> {
    let subjects = results.cases.iter().flat_map(|case| &case.subjects);
    let samples = |subject: &highwater_engine_bench::results::SubjectResult| {
        subject.latency.as_ref().map_or(0, |latency| latency.n)
    };
    subjects.map(|s| (s.appends_per_s.is_some(), samples(s).min(1), s.stopped.as_deref())).collect()
}

#[test]
fn every_subject_is_measured_in_every_round_and_a_kept_run_says_the_same_again() {
    let (a, b) = (Puppet::new("a", Behaviour::Works), Puppet::new("b", Behaviour::Refuses));
    let (ended, told, _runs) = run(&[&a, &b], 3);
    assert_eq!((told.measured.len(), told.stopped.len()), (6, 0));
    assert_eq!((Puppet::count(&a.opened), Puppet::count(&a.closed)), (3, 3));
    assert_eq!(shape(&ended.results), [(true, 1, None), (true, 1, None)]);
    let [first, second] = &ended.results.cases[0].subjects[..] else { panic!("two subjects") };
    let per_commit = first.appends_per_commit.unwrap().median;
    assert!((1.5..2.5).contains(&per_commit), "{per_commit}");
    assert_eq!(first.refused.unwrap().highest.to_bits(), 0.0_f64.to_bits());
    assert!(second.refused.unwrap().median > 0.5);
    assert!(first.rate_ratio.is_none() && second.rate_ratio.is_some());

    let kept = reload::load(&ended.path).unwrap();
    assert!(reload::is_ours(&ended.path));
    let again = highwater_engine_bench::results::results(&kept.manifest, &kept.data);
    assert_eq!(again, ended.results);
}

#[test]
fn what_is_not_offered_is_told_once_and_the_others_go_on() {
    let (a, b) = (Puppet::new("a", Behaviour::IsNotOffered), Puppet::new("b", Behaviour::Works));
    let (ended, told, _runs) = run(&[&a, &b], 2);
    assert_eq!(told.stopped, ["0 a, 2 writers, 4 streams, 100 B: not offered here: no such thing"]);
    assert_eq!((told.measured.len(), ended.has_failed), (2, false));
    let why = Some("not offered here: no such thing");
    assert_eq!(shape(&ended.results), [(false, 0, why), (true, 1, None)]);
}

#[test]
fn a_failed_append_or_a_panic_ends_the_run_without_a_number() {
    for (behaviour, word) in [(Behaviour::Fails, "it broke"), (Behaviour::Panics, "panicked")] {
        let (a, b) = (Puppet::new("a", behaviour), Puppet::new("b", Behaviour::Works));
        let (ended, told, _runs) = run(&[&a, &b], 2);
        assert!(ended.has_failed && told.measured.is_empty());
        assert!(told.stopped[0].contains(word), "{:?}", told.stopped);
        assert_eq!(Puppet::count(&b.opened), 0);
        assert!(ended.results.cases[0].subjects.iter().all(|s| s.latency.is_none()));
        assert!(reload::load(&ended.path).unwrap().data.has_failed);
    }
}
