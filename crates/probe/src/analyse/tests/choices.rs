//! What may be set against what: advice, fits and comparisons never mix dimensions, and say little
//! where the rounds say little.

use highwater_report::case::Arrival;
use highwater_report::results::Advice;
use proptest::prelude::*;

use super::*;

impl MadeUp {
    /// Changes the planned case added last.
    fn planned(mut self, change: impl Fn(&mut PlannedCase)) -> Self {
        change(self.data.manifest.cases.last_mut().expect("a case"));
        self
    }

    /// Changes the rows of the case added last.
    fn rows(mut self, change: impl Fn(&mut RoundRow)) -> Self {
        let id = self.data.manifest.cases.last().expect("a case").id.clone();
        self.data.rounds.iter_mut().filter(|row| row.case_id == id).for_each(change);
        self
    }

    fn kind(mut self, kind: GroupKind) -> Self {
        self.data.manifest.groups[0].kind = kind;
        self
    }

    /// Adds a section of batches along a path, with their knee at `knee` records.
    fn batches(mut self, path: Case, knee: u64) -> Self {
        let id = "batch".to_owned();
        let has = |group: &Group| group.id == id;
        if !self.data.manifest.groups.iter().any(has) {
            let group = Group { id, title: String::new(), kind: GroupKind::Batch };
            self.data.manifest.groups.push(group);
        }
        for batch in [1, 10, 100, 1000] {
            let case = Case { every: Every::Writes(batch), ..path };
            self = self
                .case(case, 2 * knee + 2 * batch, 1.0)
                .planned(|planned| "batch".clone_into(&mut planned.group))
                .rows(|row| row.writes = COMMITS * batch);
        }
        self
    }

    fn advice(&self) -> Advice {
        self.results().advice.expect("advice")
    }
}

fn sized(case: Case, block: u64) -> Case {
    Case { block, ..case }
}

const DIRECT: Case = Case {
    state: FileState::Initialised,
    io: IoMode::Direct,
    barrier: Barrier::Fdatasync,
    ..APPEND_FSYNC
};

/// Case of an id.
fn case_of(run: &MadeUp, id: &str) -> Case {
    run.data.manifest.cases.iter().find(|planned| planned.id == id).expect("a case").case
}

#[test]
fn advice_and_gain_stay_within_one_block_size() {
    // The smallest blocks are the fastest and the simplest: an unfair race.
    let run = MadeUp::new()
        .case(sized(initialised(IoMode::Buffered, Barrier::Fdatasync), 512), 10, 1.0)
        .case(sized(DIRECT, 512), 10, 1.0)
        .case(APPEND_FSYNC, 300, 1.0)
        .case(DIRECT, 100, 1.0)
        .case(sized(APPEND_FSYNC, 65536), 900, 1.0)
        .case(sized(DIRECT, 65536), 800, 1.0);
    let advice = run.advice();
    assert_eq!(case_of(&run, &advice.path.unwrap().case_id), DIRECT);
    assert_eq!(case_of(&run, &advice.gain.unwrap().baseline), APPEND_FSYNC);
}

#[test]
fn the_block_size_with_most_paths_is_advised_on_and_without_one_nothing_is() {
    let large = |run: MadeUp, block| {
        run.case(sized(APPEND_FSYNC, block), 300, 1.0).case(sized(DIRECT, block), 100, 1.0)
    };
    let tied = large(large(MadeUp::new(), 16384), 32768);
    assert_eq!(tied.results().advice, None);
    let fdatasync = initialised(IoMode::Buffered, Barrier::Fdatasync);
    let most = large(large(MadeUp::new(), 16384), 32768).case(sized(fdatasync, 32768), 90, 1.0);
    assert_eq!(case_of(&most, &most.advice().path.unwrap().case_id).block, 32768);
    let apart = MadeUp::new().case(APPEND_FSYNC, 300, 1.0).case(sized(DIRECT, 16384), 100, 1.0);
    assert_eq!(apart.results().advice, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_was_measured_no_advice_mixes_dimensions(
        points in prop::collection::vec((0..4_usize, 0..3_usize, 0..2_u32, 1..400_u64), 2..10),
    ) {
        let paths = [
            APPEND_FSYNC,
            DIRECT,
            initialised(IoMode::Buffered, Barrier::Fdatasync),
            initialised(IoMode::Buffered, Barrier::None),
        ];
        let mut run = MadeUp::new();
        for (path, block, writers, us) in points {
            let block = [4096, 16384, 65536][block];
            run = run.case(Case { block, writers: 1 + writers * 3, ..paths[path] }, us, 1.0);
        }
        if let Some(Advice { path: Some(path), gain, durability_cost, .. }) = run.results().advice {
            let chosen = case_of(&run, &path.case_id);
            for other in [gain, durability_cost].into_iter().flatten() {
                let baseline = case_of(&run, &other.baseline);
                prop_assert_eq!(
                    (baseline.block, baseline.writers),
                    (chosen.block, chosen.writers)
                );
            }
        }
    }
}

#[test]
fn a_line_is_fitted_through_cases_that_differ_in_nothing_else() {
    let run = MadeUp::new()
        .batches(APPEND_FSYNC, 50)
        .batches(sized(APPEND_FSYNC, 65536), 8)
        .batches(Case { writers: 4, ..APPEND_FSYNC }, 200)
        // No batch at all: it has no place on the line.
        .case(Case { every: Every::Never, ..APPEND_FSYNC }, 1, 0.0)
        .planned(|planned| "batch".clone_into(&mut planned.group));
    let fits = run.results().fits;
    let knees: Vec<f64> = fits.iter().map(|fit| fit.line.knee.unwrap()).collect();
    assert_eq!(knees.len(), 3, "{fits:?}");
    for (knee, expected) in knees.iter().zip([50.0, 8.0, 200.0]) {
        assert!((knee - expected).abs() < expected / 20.0 + 1.0, "{fits:?}");
    }
    assert!(fits[1].label.contains("64KiB") && fits[2].label.contains("4 own"), "{fits:?}");
}

#[test]
fn sizes_are_fitted_apart_for_each_batch_and_named_without_a_size() {
    let mut run = MadeUp::new().kind(GroupKind::Sizes);
    for every in [Every::Writes(1), Every::Writes(10)] {
        for kib in [4, 16, 64] {
            run = run.case(Case { block: kib << 10, every, ..DIRECT }, 100 + kib, 1.0);
        }
    }
    let labels: Vec<String> = run.results().fits.into_iter().map(|fit| fit.label).collect();
    assert_eq!(labels, ["initialised direct fdatasync", "initialised direct fdatasync every 10"]);
}

#[test]
fn too_few_rounds_give_no_advice_and_say_so() {
    let measured = || MadeUp::new().case(APPEND_FSYNC, 300, 1.0).case(DIRECT, 100, 1.0);
    for rounds in 1..=3 {
        let mut run = measured();
        // Ctrl-C came between the two cases of a round.
        run.data.rounds.retain(|row| row.round < rounds || row.case_id == "c001");
        let advice = run.advice();
        let refused = advice.refused.iter().any(|reason| reason.contains("too few rounds"));
        assert_eq!(refused, rounds < 3, "{:?}", advice.refused);
        assert_eq!(advice.path.is_none(), rounds < 3);
        assert_eq!(Profile::of(&run.data, &run.results()).is_none(), rounds < 3);
    }
}

/// A simple path beside a faster complex one: `ratio` times its time, scattered by `scatter`.
fn race(ratio: f64, scatter: f64) -> MadeUp {
    let simple = initialised(IoMode::Buffered, Barrier::Fdatasync);
    MadeUp::new()
        .case(initialised(IoMode::Direct, Barrier::RwfDsync), 1000, 1.0)
        .case(simple, 1000, 1.0)
        .rows(|row| {
            let sign = if row.round.is_multiple_of(2) { 1.0 } else { -1.0 };
            let ns = row.commit_mean_ns * ratio * (1.0 + sign * scatter);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            let whole = ns as u64;
            (row.commit_mean_ns, row.commit_p50_ns) = (ns, whole);
        })
}

#[test]
fn a_simpler_path_wins_unless_it_is_proven_or_plainly_slower() {
    for (ratio, scatter, simple_wins) in [
        (1.0, 0.0, true),
        (1.05, 0.3, true),
        (1.0, 0.5, true),
        // Proven: every round says the same.
        (1.05, 0.0, false),
        (1.3, 0.0, false),
        // Not proven, but too much to give away.
        (1.4, 0.5, false),
    ] {
        let path = race(ratio, scatter).advice().path.unwrap();
        let simple = path.barrier == Barrier::Fdatasync;
        assert_eq!(simple, simple_wins, "{ratio} scattered by {scatter}: {path:?}");
    }
}

#[test]
fn open_loops_are_compared_by_latency_and_only_with_open_loops() {
    let rate = |per_second| Arrival::Open { per_second };
    let mut run = MadeUp::new().kind(GroupKind::Writers);
    for arrival in [Arrival::Closed, rate(500), rate(1000)] {
        for (writers, us) in [(1, 100), (4, 400)] {
            run = run.case(Case { writers, arrival, ..DIRECT }, us, 1.0);
            if arrival != Arrival::Closed {
                // The rate is kept, whatever a commit takes.
                run = run.rows(|row| row.elapsed_ns = 1_000_000_000);
            }
        }
    }
    for kind in [
        GroupKind::Writers,
        GroupKind::Batch,
        GroupKind::Paths,
        GroupKind::Sizes,
        GroupKind::Interval,
    ] {
        let run = MadeUp { data: run.data.clone() }.kind(kind);
        let comparisons = run.results().comparisons;
        assert!(!comparisons.is_empty());
        for found in comparisons {
            let (a, b) = (case_of(&run, &found.baseline), case_of(&run, &found.candidate));
            assert_eq!(a.arrival, b.arrival, "{kind:?}: {a} and {b}");
            if b.arrival != Arrival::Closed {
                assert_eq!(found.measure, Measure::P50.as_str(), "{kind:?}");
                assert!((found.ratio.ratio - 4.0).abs() < 0.1, "{kind:?}: {found:?}");
            }
        }
    }
}

fn compared(
    a: &MadeUp,
    b: &MadeUp,
    by: Measure,
) -> Result<super::super::runs::RunComparison, String> {
    let (ra, rb) = (a.results(), b.results());
    let sides = (Side { data: &a.data, results: &ra }, Side { data: &b.data, results: &rb });
    compare(sides.0, sides.1, &Terms::by(by)).map_err(|error| error.to_string())
}

#[test]
fn runs_of_other_lengths_say_so_once_for_all_cases() {
    let run = |iterations, warmup, capacity| {
        let planned = |planned: &mut PlannedCase| {
            (planned.iterations, planned.warmup) = (iterations, warmup);
            planned.capacity = capacity;
        };
        MadeUp::new()
            .case(APPEND_FSYNC, 300, 1.0)
            .planned(planned)
            .case(DIRECT, 100, 1.0)
            .planned(planned)
    };
    let a = run(100, 10, 1 << 20);
    assert_eq!(compared(&a, &a, Measure::P50).unwrap().differences, Vec::<String>::new());
    for (b, said) in [
        (run(200, 10, 1 << 20), "writes per round: 100 against 200, in 2 cases"),
        (run(100, 20, 1 << 20), "warm-up writes: 10 against 20, in 2 cases"),
        (run(100, 10, 2 << 20), "prepared length: 1MiB against 2MiB, in 1 case"),
    ] {
        assert_eq!(compared(&a, &b, Measure::P50).unwrap().differences, [said]);
    }
}

#[test]
fn a_run_that_wrote_its_file_again_is_not_compared_with_one_that_did_not() {
    let run = |capacity| {
        let planned = |planned: &mut PlannedCase| planned.capacity = capacity;
        MadeUp::new().case(DIRECT, 100, 1.0).planned(planned)
    };
    let (once, again) = (run(COMMITS * 4096), run(COMMITS * 2048));
    for (a, b) in [(&once, &again), (&again, &once)] {
        let refused = compared(a, b, Measure::P50).unwrap_err();
        assert!(refused.contains("again from the start"), "{refused}");
    }
    assert!(compared(&again, &again, Measure::P50).is_ok());
}

#[test]
fn the_rate_of_an_open_loop_is_no_measure_of_it() {
    let arrival = Arrival::Open { per_second: 500 };
    let run = MadeUp::new().case(Case { arrival, ..DIRECT }, 100, 1.0);
    let refused = compared(&run, &run, Measure::TimePerRecord).unwrap_err();
    assert!(refused.contains("--measure p50"), "{refused}");
    assert!(compared(&run, &run, Measure::P50).is_ok());
}

#[test]
fn what_a_figure_was_measured_along_is_named_where_it_is_another_path() {
    let batched = initialised(IoMode::Buffered, Barrier::Fdatasync);
    let run = MadeUp::new()
        .case(APPEND_FSYNC, 300, 2.0)
        .case(DIRECT, 100, 1.0)
        .case(initialised(IoMode::Buffered, Barrier::None), 2, 0.0)
        .batches(batched, 30);
    let results = run.results();
    let advice = results.advice.as_ref().unwrap();
    let detail = |advice: &Advice| advice.headline.last().unwrap().detail.clone();
    assert!(detail(advice).contains("initialised buffered fdatasync 4KiB"), "{}", detail(advice));
    let profile = Profile::of(&run.data, &results).unwrap();
    let along = profile.write_path.knee_measured_on.as_deref();
    assert_eq!(along, Some("initialised buffered fdatasync 4KiB"));
    // Where the chosen path has batches and a baseline of its own, those are taken.
    let own = run.batches(DIRECT, 60).case(initialised(IoMode::Direct, Barrier::None), 4, 0.0);
    let results = own.results();
    let advice = results.advice.as_ref().unwrap();
    assert!(detail(advice).contains("initialised direct fdatasync 4KiB"), "{}", detail(advice));
    let baseline = &advice.durability_cost.as_ref().unwrap().baseline;
    assert_eq!(case_of(&own, baseline).io, IoMode::Direct);
    let profile = Profile::of(&own.data, &results).unwrap();
    assert_eq!(profile.write_path.knee_measured_on, None);
}

#[test]
fn a_system_whose_barriers_went_missing_passes_and_fails_nothing() {
    let run = |flushes| {
        MadeUp::new()
            .case(APPEND_FSYNC, 300, 2.0)
            .case(DIRECT, 100, 1.0)
            .case(path(FileState::Allocated, IoMode::Buffered, Barrier::Fdatasync), 90, flushes)
            .case(initialised(IoMode::Buffered, Barrier::Fdatasync), 50, flushes)
            .case(path(FileState::Append, IoMode::Buffered, Barrier::Fdatasync), 50, flushes)
            .case(initialised(IoMode::Buffered, Barrier::Fsync), 50, flushes)
    };
    assert!(run(1.0).advice().systems.iter().all(|system| system.p50_p99_ns.is_some()));
    for system in run(0.0).advice().systems {
        assert!(system.thresholds.is_empty(), "{system:?}");
        assert_eq!(system.p50_p99_ns, None, "{system:?}");
        assert!(system.writes.contains("reached no device"), "{system:?}");
        let effects = system.settings.iter().filter(|setting| setting.why.contains("ratio"));
        assert_eq!(effects.count(), 0, "{system:?}");
    }
}

#[test]
fn a_commit_delay_is_one_that_postgresql_takes() {
    for us in [1000, 100_000, 900_000] {
        let fdatasync = initialised(IoMode::Buffered, Barrier::Fdatasync);
        let run = MadeUp::new()
            .case(APPEND_FSYNC, us, 1.0)
            .case(fdatasync, us, 1.0)
            .batches(fdatasync, 30);
        let systems = run.advice().systems;
        let settings = systems.iter().flat_map(|system| &system.settings);
        let delays: Vec<u64> = settings
            .filter_map(|setting| setting.setting.strip_prefix("commit_delay = "))
            .map(|delay| delay.parse().unwrap())
            .collect();
        assert!(matches!(delays[..], [1..=100_000]), "{delays:?}");
    }
}

#[test]
fn a_reason_names_both_sides_in_full() {
    let run = MadeUp::new()
        .case(path(FileState::Append, IoMode::Direct, Barrier::Fdatasync), 300, 2.0)
        .case(DIRECT, 162, 1.0)
        .case(initialised(IoMode::Direct, Barrier::Fsync), 324, 1.0);
    let reasons = run.advice().reasons;
    let starts = [
        "An initialised file instead of an append file takes 46 % less (ratio 0.54",
        "`fdatasync` instead of `fsync` takes 50 % less (ratio 0.5",
    ];
    assert!(
        reasons.iter().zip(starts).all(|(reason, start)| reason.starts_with(start)),
        "{reasons:?}"
    );
    assert_eq!(reasons.len(), 2);
}

#[test]
fn a_gain_that_is_not_settled_is_not_announced_as_one() {
    let run = race(1.0, 0.5);
    let gain = |run: &MadeUp| run.advice().headline[1].value.clone();
    let mut rows = run.data.clone();
    // The same race against the common default.
    let default = rows.manifest.cases.iter_mut().find(|planned| planned.id == "c002").unwrap();
    default.case = APPEND_FSYNC;
    rows.rounds.iter_mut().filter(|row| row.case_id == "c002").for_each(|row| {
        row.commit_p50_ns += row.commit_p50_ns / 4 + 200_000;
    });
    assert_eq!(gain(&MadeUp { data: rows }), "not settled");
}
