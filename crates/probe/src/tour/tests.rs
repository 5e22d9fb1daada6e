//! Claims about the tour: what it holds, and that it keeps to its time and bytes.

use super::*;

fn site() -> (tempfile::TempDir, Site) {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let site = Site::open(dir.path()).unwrap();
    (dir, site)
}

fn settings(max_bytes: Option<u64>) -> Settings {
    Settings { rounds: 0, seconds: None, seed: 1, max_bytes }
}

#[test]
fn a_tour_has_every_path_a_baseline_and_fits_its_time() {
    let (dir, site) = site();
    let never = AtomicBool::new(false);
    let tour = draft(&site, 5.0, &settings(None)).unwrap().try_out(&site, &never).unwrap();
    let paths: Vec<&PlannedCase> =
        tour.plan.cases.iter().filter(|planned| planned.group == "paths").collect();
    assert_eq!(paths.len(), 16);
    assert!(paths.iter().any(|planned| planned.case.barrier == Barrier::None));
    assert!(tour.plan.runnable().all(|planned| planned.iterations > 0));
    assert!((FEWEST_ROUNDS..=MOST_ROUNDS).contains(&tour.plan.settings.rounds));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_time_that_cannot_be_meant_is_refused() {
    let (_dir, site) = site();
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        assert!(draft(&site, seconds, &settings(None)).is_err());
    }
}

#[test]
fn trying_and_touring_together_keep_to_the_bytes_allowed_or_refuse_with_a_flag_there_is() {
    let (_dir, site) = site();
    let never = AtomicBool::new(false);
    let mut fitted = 0;
    for max_bytes in [0, 1 << 20, 64 << 20, 300 << 20, 1 << 30] {
        match draft(&site, 3.0, &settings(Some(max_bytes))) {
            Ok(draft) => {
                fitted += 1;
                let tour = draft.try_out(&site, &never).unwrap();
                let bytes = tour.plan.total_bytes() + tour.tried_bytes;
                assert!(bytes <= max_bytes, "{bytes} of {max_bytes}");
                assert!(tour.plan.settings.rounds >= FEWEST_ROUNDS);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("--max-bytes") && !text.contains("--rounds"), "{text}");
            }
        }
    }
    assert!((1..5).contains(&fitted), "{fitted} limits were large enough");
}

#[test]
fn what_is_announced_first_bounds_the_tour_however_fast_the_disk_is() {
    let (_dir, site) = site();
    let never = AtomicBool::new(false);
    let draft = draft(&site, 3.0, &settings(None)).unwrap();
    let most = draft.most_bytes(&site);
    assert!(most < 100 << 30, "{most}");
    let instant = Pilot { overhead: Duration::ZERO, per_write: Duration::from_nanos(1) };
    let day = Duration::from_secs(86_400);
    let plan = draft.fitted(CASE_BYTES.1, &site, |case| sized(case, Some(&instant), day, &site));
    for planned in plan.runnable() {
        let commit = per_commit(&planned.case) * planned.case.block;
        let bytes = planned.iterations * planned.case.block;
        assert!(bytes <= CASE_BYTES.1.max(commit), "{}: {bytes}", planned.case);
    }
    let tour = draft.try_out(&site, &never).unwrap();
    assert!(tour.tried_bytes + tour.plan.total_bytes() <= most);
}
