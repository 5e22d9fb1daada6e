//! Every preset, run small: all its cases give numbers whose structure makes sense.

use highwater_report::case::{Arrival, Barrier, Every, FileState};
use highwater_report::data::RoundRow;
use highwater_report::results::CaseResult;

use crate::program::{Measured, Place};

/// Runs a preset on the build's disk; every case that is not refused must be measured.
#[track_caller]
fn small(words: &str) -> Measured {
    let measured = Place::new().measure(&format!("bench {words}"));
    measured.expect_all_measured();
    assert!(!measured.results.interrupted);
    for case in &measured.results.cases {
        assert_sane(case, &measured.rounds_of(case));
    }
    measured
}

/// What holds of every measured case.
#[track_caller]
fn assert_sane(case: &CaseResult, rows: &[&RoundRow]) {
    let label = &case.label;
    assert_eq!(usize::try_from(case.rounds), Ok(rows.len()), "{label}");
    assert_eq!(case.trial_ms.len(), rows.len(), "{label}");
    let commits: u64 = rows.iter().map(|row| row.commits).sum();
    // M4: a commit is one sample.
    let commit = case.commit.as_ref().expect("a measured case has commits");
    assert_eq!(commit.n, commits, "{label}");
    let ordered = [commit.min_ns, commit.p50_ns, commit.p90_ns, commit.p99_ns, commit.p999_ns];
    // Percentiles carry three digits: each may lie a thousandth above the next.
    let falls = |pair: &[u64]| pair[0] > pair[1] + pair[1] / 500 + 1;
    assert!(!ordered.windows(2).any(falls), "{label}: {commit:?}");
    assert!(commit.min_ns > 0 && commit.max_ns >= commit.min_ns, "{label}: {commit:?}");
    assert!(case.commits_per_second.is_some_and(|rate| rate > 0.0), "{label}");
    match case.acks_per_barrier {
        Some(acks) => assert!(acks >= 1.0, "{label}: {acks} acks per barrier"),
        None => assert!(rows.iter().all(|row| row.barriers == 0), "{label}"),
    }
    let asks = case.case.barrier != Barrier::None && case.case.every != Every::Never;
    assert_eq!(asks, rows.iter().all(|row| row.barriers > 0), "{label}");
    assert_eq!(case.durable, case.case.promises_durability(), "{label}");
    for row in rows {
        assert!(row.elapsed_ns > 0 && row.writes > 0 && row.readback_records > 0, "{label}");
        assert_eq!(row.bytes, row.writes * case.case.block, "{label}");
        assert!(row.acks_per_barrier_max <= row.writes, "{label}: {row:?}");
    }
}

/// Cases of a run that fit.
fn cases<'m>(
    measured: &'m Measured,
    fits: impl Fn(&CaseResult) -> bool + 'm,
) -> impl Iterator<Item = &'m CaseResult> {
    measured.results.cases.iter().filter(move |case| fits(case))
}

#[test]
fn the_commit_preset_measures_three_states_by_three_barriers() {
    let run = small("--preset commit --iterations 12 --warmup 2 --rounds 4 --capacity 1M");
    assert_eq!(run.results.cases.len(), 9);
    for case in &run.results.cases {
        let durable = case.case.barrier != Barrier::None;
        assert_eq!(case.records_at_risk, Some(if durable { 0 } else { 12 }), "{}", case.label);
        assert_eq!(case.commit.as_ref().map(|commit| commit.n), Some(48), "{}", case.label);
        assert_eq!((case.case.block, case.durable), (16384, durable));
    }
    assert!(!run.results.comparisons.is_empty());
}

#[test]
fn a_commit_of_several_writes_is_one_sample_and_puts_as_many_records_at_risk() {
    let run =
        small("--preset commit --barrier fsync --sync-every 4,16KiB --iterations 10 --rounds 1");
    for case in &run.results.cases {
        // Ten writes are rounded up to whole commits of four; 16 KiB are one block.
        let (writes, per_commit) =
            if case.case.every == Every::Writes(4) { (12, 4) } else { (10, 1) };
        let [row] = run.rounds_of(case)[..] else { panic!("one round") };
        assert_eq!((row.writes, row.commits), (writes, writes / per_commit), "{}", case.label);
        assert_eq!(case.acks_per_barrier, Some(per_commit as f64), "{}", case.label);
        let at_risk = if per_commit > 1 { per_commit } else { 0 };
        assert_eq!(case.records_at_risk, Some(at_risk), "{}", case.label);
    }
}

#[test]
fn the_wal_preset_measures_both_io_modes() {
    let run = small("--preset wal --iterations 8 --warmup 1 --rounds 1 --capacity 1M");
    assert_eq!(run.results.cases.len(), 12);
    let at_risk = cases(&run, |case| case.records_at_risk != Some(0)).count();
    assert_eq!(at_risk, 0, "every write path of a log waits for its barrier");
}

#[test]
fn the_sizes_preset_fits_a_line_through_its_sizes() {
    let run = small("--preset sizes --block 32K,64K,128K --iterations 5 --warmup 1 --rounds 3");
    assert_eq!(run.results.cases.len(), 3 * 12);
    assert!(run.results.fits.iter().any(|fit| fit.unit == "KiB per write"));
}

#[test]
fn the_batch_preset_commits_after_each_batch() {
    let run = small("--preset batch --iterations 200 --warmup 10 --rounds 2");
    let every: Vec<Every> = run.results.cases.iter().map(|case| case.case.every).collect();
    assert!([1, 10, 100, 1000].iter().all(|n| every.contains(&Every::Writes(*n))), "{every:?}");
    for case in &run.results.cases {
        let Every::Writes(batch) = case.case.every else { panic!("batches of writes") };
        for row in run.rounds_of(case) {
            let writes = 200_u64.next_multiple_of(batch);
            assert_eq!((row.writes, row.commits), (writes, writes / batch), "{}", case.label);
            assert_eq!(row.barriers, row.commits);
            assert_eq!(row.acks_per_barrier_max, batch);
        }
        let at_risk = if batch > 1 { batch } else { 0 };
        assert_eq!(case.records_at_risk, Some(at_risk), "{}", case.label);
    }
    assert!(run.results.fits.iter().any(|fit| fit.unit == "writes per barrier"));
}

#[test]
fn the_interval_preset_times_each_trial() {
    let run = small("--preset interval --total 256K --rounds 3");
    for case in &run.results.cases {
        assert_eq!(case.trial_ms.len(), 3, "{}", case.label);
        let rows = run.rounds_of(case);
        let barriers = match case.case.every {
            Every::Never => 0,
            Every::End => 1,
            Every::Bytes(bytes) => (256_u64 << 10).div_ceil(bytes),
            Every::Writes(_) => panic!("intervals are in bytes"),
        };
        assert!(rows.iter().all(|row| row.barriers == barriers), "{}", case.label);
        assert!(rows.iter().all(|row| row.bytes == 256 << 10), "{}", case.label);
        let per_barrier = match case.case.every {
            Every::Bytes(bytes) => (bytes / 4096).min(64),
            _ => 64,
        };
        assert_eq!(case.records_at_risk, Some(per_barrier), "{}", case.label);
    }
    assert_eq!(run.results.cases.len(), 11);
}

#[test]
fn the_barriers_preset_measures_all_of_them() {
    let run = small("--preset barriers --iterations 5 --warmup 1 --rounds 1");
    assert_eq!(run.results.cases.len(), 3 * 2 * Barrier::ALL.len());
    let lose = cases(&run, |case| !case.durable).count();
    assert_eq!(lose, 3 * 2 * 2);
    assert!(cases(&run, |case| !case.durable).all(|case| case.records_at_risk == Some(5)));
    assert!(cases(&run, |case| !case.durable).all(|case| case.label.contains("NOT DURABLE")));
    for case in cases(&run, |case| case.case.barrier.is_part_of_write()) {
        assert!(case.barrier.is_none(), "{}: it has no barrier call to time", case.label);
    }
}

#[test]
fn writers_that_share_a_file_share_barriers() {
    let run = small(
        "--preset group --writers 1,4 --arrival closed,open:2000 --iterations 400 --warmup 8 \
         --rounds 2",
    );
    assert_eq!(run.results.cases.len(), 4);
    for case in &run.results.cases {
        let rows = run.rounds_of(case);
        let writers = u64::from(case.case.writers);
        assert!(rows.iter().all(|row| row.writes == 400 && row.commits == 400), "{}", case.label);
        assert_eq!(case.records_at_risk, Some(0), "{}: each waits for its barrier", case.label);
        assert!(rows.iter().all(|row| row.acks_per_barrier_max <= writers), "{}", case.label);
        let barriers: u64 = rows.iter().map(|row| row.barriers).sum();
        if case.case.writers == 1 {
            assert_eq!(barriers, 800, "{}", case.label);
        } else if case.case.arrival == Arrival::Closed {
            assert!(barriers < 800, "{}: four writers never shared a barrier", case.label);
            assert!(case.acks_per_barrier.is_some_and(|acks| acks > 1.0), "{}", case.label);
        }
        let timed = case.barrier.as_ref().map(|barrier| barrier.n);
        assert_eq!(timed, Some(barriers), "{}: each barrier is timed once", case.label);
    }
}

#[test]
fn an_open_loop_keeps_its_rate_where_the_disk_can() {
    let run = small(
        "--preset group --writers 2 --arrival open:500 --iterations 100 --warmup 2 --rounds 1",
    );
    let [row] = &run.rounds[..] else { panic!("one round") };
    // The last of 100 arrivals is due 99 intervals of 2 ms after the first: no round is shorter.
    assert!(row.elapsed_ns >= 99 * 2_000_000, "{row:?}");
}

#[test]
fn writers_with_files_of_their_own_share_nothing() {
    let run = small(
        "--state append --barrier fdatasync --writers 3 --sharing own --iterations 10 --warmup 2 \
         --rounds 1",
    );
    let [row] = &run.rounds[..] else { panic!("one round") };
    // Ten writes are split evenly, rounded up; each file is warmed up and read back.
    assert_eq!((row.writes, row.barriers, row.commits), (12, 12, 12));
    assert_eq!((row.warmup_barriers, row.readback_records), (6, 18));
}

#[test]
fn the_files_preset_makes_each_batch_durable_in_one_commit() {
    let run = small("--preset files --files 10,20 --rounds 2");
    for case in &run.results.cases {
        let files = u64::from(case.case.files);
        assert_eq!(case.commit.as_ref().map(|commit| commit.n), Some(2), "{}", case.label);
        let barriers = if case.case.barrier == Barrier::Syncfs { 1 } else { files };
        for row in run.rounds_of(case) {
            assert_eq!((row.barriers, row.writes), (barriers, files), "{}", case.label);
            assert_eq!((row.readback_records, row.acks_per_barrier_max), (files, files));
            assert!(row.dirty_ns.is_some_and(|ns| ns > 0));
        }
        assert_eq!(case.case.state, FileState::Append);
        assert!(case.dirty_ms.is_some());
    }
}

#[test]
fn without_a_preset_lists_are_multiplied() {
    let run = small(
        "--state append,initialised --io buffered,direct --barrier fdatasync,rwf_dsync \
         --block 4K,8K --iterations 3 --warmup 1 --rounds 1",
    );
    assert_eq!(run.results.cases.len(), 16);
}

#[test]
fn a_probe_gives_advice_and_a_profile_that_agree() {
    let place = Place::new();
    let run = place.measure("probe --seconds 3");
    let advice = run.results.advice.as_ref().expect("a probe gives advice or says why not");
    let profile = place.newest_run().join("profile.toml");
    match &advice.path {
        Some(path) => {
            assert!(advice.refused.is_empty());
            let chosen =
                cases(&run, |case| case.id == path.case_id).next().expect("a measured case");
            assert_eq!((chosen.case.state, chosen.case.io), (path.state, path.io));
            assert_eq!((chosen.case.barrier, chosen.durable), (path.barrier, true));
            let text = crate::program::read(&profile);
            assert!(text.contains(path.barrier.as_str()) && text.contains(path.state.as_str()));
        }
        None => assert!(!advice.refused.is_empty() && !profile.exists()),
    }
}
