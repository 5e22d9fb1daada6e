//! The presets hold exactly the slices they are named after.

use super::*;

/// Overrides of dimensions alone.
fn only(product: Product) -> Overrides {
    Overrides { product, ..Overrides::default() }
}

fn cases(name: &str, by: &Overrides) -> Vec<Case> {
    Preset::named(name).unwrap().cases(by).unwrap()
}

fn plan(name: &str, by: &Overrides) -> Plan {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::open(dir.path()).unwrap();
    Preset::named(name).unwrap().plan(by, &site).unwrap()
}

#[test]
fn every_name_is_a_preset_and_every_preset_has_cases() {
    let none = Overrides::default();
    let counts: Vec<usize> = Preset::NAMES.iter().map(|name| cases(name, &none).len()).collect();
    assert_eq!(counts, [9, 12, 72, 6, 11, 54, 10, 15, 1]);
    assert_eq!(Preset::named("other"), None);
}

#[test]
fn the_interval_ladder_is_complete() {
    let every: Vec<String> = cases("interval", &Overrides::default())
        .iter()
        .map(|case| case.every.to_string())
        .collect();
    let ladder = "never end 100MiB 10MiB 1MiB 512KiB 256KiB 128KiB 64KiB 32KiB 16KiB";
    assert_eq!(every.join(" "), ladder);
}

#[test]
fn an_overridden_dimension_replaces_the_presets_and_duplicates_fall_together() {
    let by = only(Product { every: vec![Every::Writes(5)], ..Product::default() });
    let found = cases("batch", &by);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|case| case.every == Every::Writes(5)));
}

#[test]
fn a_layout_that_does_not_fit_is_refused_before_anything_is_made() {
    let by = Overrides { capacity: Some(MIB), iterations: Some(1000), ..Overrides::default() };
    let refused = |plan: &Plan| -> Vec<String> {
        let refused = plan.cases.iter().filter(|planned| planned.refused.is_some());
        refused.map(|planned| planned.case.state.to_string()).collect()
    };
    // The log never wraps; the commit preset writes an initialised file again from its start.
    assert!(refused(&plan("wal", &by)).iter().all(|state| state != "append"));
    assert_eq!(refused(&plan("wal", &by)).len(), 8);
    assert_eq!(refused(&plan("commit", &by)), ["allocated"; 3]);
}

#[test]
fn a_fused_barrier_cannot_end_a_batch_and_group_commit_batches_by_itself() {
    let by = only(Product { every: vec![Every::Writes(4)], ..Product::default() });
    let barriers = plan("barriers", &by);
    for planned in &barriers.cases {
        let fused = planned.case.barrier.is_part_of_write();
        assert_eq!(planned.refused.is_some(), fused, "{}", planned.case);
    }
    let group = plan("group", &by);
    assert!(
        group.cases.iter().filter(|planned| planned.case.writers > 1).all(|p| p.refused.is_some())
    );
}

#[test]
fn unaligned_direct_blocks_are_refused_and_buffered_ones_are_not() {
    let by = only(Product { block: vec![1000], ..Product::default() });
    for planned in &plan("wal", &by).cases {
        assert_eq!(
            planned.refused.is_some(),
            planned.case.io == IoMode::Direct,
            "{}",
            planned.case
        );
    }
}

#[test]
fn planned_bytes_count_set_up_warm_up_and_every_round() {
    let product = Product {
        state: vec![FileState::Initialised],
        barrier: vec![Barrier::Fdatasync],
        io: vec![IoMode::Buffered],
        ..Product::default()
    };
    let by = Overrides {
        product,
        iterations: Some(100),
        warmup: Some(10),
        rounds: Some(3),
        capacity: Some(4 * MIB),
        ..Overrides::default()
    };
    let plan = plan("wal", &by);
    assert_eq!(plan.total_bytes(), 3 * (4 * MIB + 110 * 16 * KIB));
    assert_eq!(plan.peak_bytes(), 4 * MIB);
}

#[test]
fn the_users_limit_on_bytes_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::open(dir.path()).unwrap();
    let by = Overrides { max_bytes: Some(MIB), ..Overrides::default() };
    let plan = Preset::named("commit").unwrap().plan(&by, &site).unwrap();
    let error = plan.check(&site).unwrap_err().to_string();
    assert!(error.contains("--max-bytes"), "{error}");
}

#[test]
fn zero_rounds_and_endless_products_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::open(dir.path()).unwrap();
    let zero = Overrides { rounds: Some(0), ..Overrides::default() };
    assert!(Preset::named("wal").unwrap().plan(&zero, &site).is_err());
    let many = only(Product { block: (1..1000).map(|n| n * 512).collect(), ..Product::default() });
    assert!(Preset::named("barriers").unwrap().plan(&many, &site).is_err());
}

#[test]
fn a_barrier_that_every_write_carries_cannot_be_left_out() {
    let by = only(Product { every: vec![Every::Never], ..Product::default() });
    for planned in &plan("barriers", &by).cases {
        let barrier = planned.case.barrier;
        let carried = barrier.is_part_of_write() || barrier == Barrier::Uring;
        let refused = planned.refused.as_ref();
        let says = refused.is_some_and(|reason| reason.contains("--every never"));
        assert_eq!(says, carried, "{}: {refused:?}", planned.case);
    }
}

#[test]
fn files_of_which_there_is_one_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::open(dir.path()).unwrap();
    let answer = |files: &[u32]| {
        let by = only(Product { files: files.to_vec(), ..Product::default() });
        Preset::named("files").unwrap().plan(&by, &site)
    };
    for files in [&[1][..], &[0], &[10, 1]] {
        let error = answer(files).unwrap_err().to_string();
        assert!(error.contains("2 or more"), "{error}");
    }
    assert!(answer(&[2]).is_ok());
}

#[test]
fn small_files_take_a_block_of_the_file_system_each() {
    for (block, each) in [(256, 4096), (4096, 4096), (10_000, 10_000)] {
        let (files, blocks) = (vec![1000], vec![block]);
        let plan = plan("files", &only(Product { files, block: blocks, ..Product::default() }));
        assert_eq!(plan.peak_bytes(), 1000 * each);
    }
}

#[test]
fn more_writes_than_memory_holds_times_of_are_refused() {
    use crate::plan::MAX_WRITES;
    let refused = |iterations, warmup| {
        let by = Overrides {
            iterations: Some(iterations),
            warmup: Some(warmup),
            ..Overrides::default()
        };
        plan("custom", &by).cases[0].refused.clone().unwrap_or_default()
    };
    assert_eq!(refused(MAX_WRITES, 1), "");
    assert!(refused(MAX_WRITES + 1, 1).contains("--iterations"));
    assert!(refused(1, MAX_WRITES + 1).contains("memory"));
}

#[test]
fn more_open_files_than_the_process_may_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut site = Site::open(dir.path()).unwrap();
    site.open_files = 64 + 100;
    let by = only(Product {
        barrier: vec![Barrier::Fdatasync, Barrier::Uring],
        writers: vec![50, 99, 100, 101],
        sharing: vec![Sharing::Own, Sharing::Shared],
        ..Product::default()
    });
    let plan = Preset::named("custom").unwrap().plan(&by, &site).unwrap();
    for planned in &plan.cases {
        let case = planned.case;
        let most = match (case.sharing, case.barrier) {
            (Sharing::Own, Barrier::Uring) => 50,
            (Sharing::Own, _) => 100,
            // A ring for each, and the one file.
            (Sharing::Shared, Barrier::Uring) => 99,
            (Sharing::Shared, _) => u32::MAX,
        };
        assert_eq!(planned.refused.is_some(), case.writers > most, "{case}");
    }
}
