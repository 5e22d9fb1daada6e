//! Claims about the plots: that each is drawn, and what is drawn stays inside.

use highwater_stats::LatencyHistogram;

use super::*;
use crate::case::{Barrier, FileState, IoMode};
use crate::data::Samples;
use crate::sample;

fn all_figures(data: &RunData, results: &Results) -> Vec<Figure> {
    let groups = data.manifest.groups.iter();
    groups.flat_map(|group| group_figures(data, results, group)).collect()
}

#[test]
fn every_kind_of_section_is_drawn_and_can_be_read() {
    let (data, results) = sample::run();
    let figures = all_figures(&data, &results);
    let keys: Vec<&str> = figures.iter().map(|figure| figure.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "bars-paths",
            "ecdf-paths",
            "series-paths",
            "time-sizes-0",
            "time-batch-0",
            "trials-interval",
            "rate-writers-0",
            "tail-writers-0",
            "time-files-0",
        ]
    );
    for figure in figures {
        for svg in [&figure.wide, &figure.narrow] {
            assert!(svg.contains("role=\"img\"") && svg.contains("<title "), "{svg}");
            assert!(svg.contains("viewBox=\"0 0 ") && !svg.contains("NaN"), "{}", figure.key);
        }
    }
}

#[test]
fn stalls_and_drift_are_drawn_in_the_colour_of_alarm() {
    let (data, results) = sample::run();
    let figures = all_figures(&data, &results);
    let series = figures.iter().find(|figure| figure.key == "series-paths").unwrap();
    assert!(series.wide.contains("fill=\"#B42318\""), "a stall");
    assert!(series.wide.contains("stroke=\"#B42318\""), "a drift");
}

#[test]
fn a_killed_run_is_drawn_without_samples_and_series() {
    let (data, results) = sample::killed_run();
    let figures = all_figures(&data, &results);
    assert!(figures.iter().all(|figure| !figure.key.starts_with("ecdf")));
    assert!(figures.iter().any(|figure| figure.key.starts_with("bars")));
}

#[test]
fn nothing_measured_draws_nothing() {
    let (data, mut results) = sample::run();
    for case in &mut results.cases {
        case.status = CaseStatus::NotRun;
    }
    assert!(all_figures(&data, &results).is_empty());
}

#[test]
fn long_labels_and_many_cases_never_overlap_and_what_is_left_out_is_said() {
    let (mut data, mut results) = sample::run();
    let model = results.cases[0].clone();
    results.cases.retain(|case| case.group != "paths" && case.group != "sizes");
    let barriers = [Barrier::Fsync, Barrier::Fdatasync, Barrier::Syncfs, Barrier::Uring];
    let mut number = 0;
    for group in ["paths", "sizes"] {
        for state in FileState::ALL {
            for io in IoMode::ALL {
                for barrier in barriers {
                    let mut case = model.clone();
                    number += 1;
                    case.id = format!("x{number}");
                    case.group = group.to_owned();
                    case.label =
                        format!("{} {state} {io} {barrier}", "a very long label".repeat(5));
                    (case.case.state, case.case.io, case.case.barrier) = (*state, *io, barrier);
                    let mut samples = Samples::default();
                    samples.commit.record_n(100_000 + number, 10);
                    case.commit = samples.commit.summary();
                    data.samples.insert(case.id.clone(), samples);
                    results.cases.push(case);
                }
            }
        }
    }
    let figures = all_figures(&data, &results);
    let ecdf = figures.iter().find(|figure| figure.key == "ecdf-paths").unwrap();
    assert!(ecdf.caption.contains("The 8 fastest of 24 cases"), "{}", ecdf.caption);
    let sizes = figures.iter().filter(|figure| figure.key.contains("-sizes-")).count();
    assert_eq!(sizes, barriers.len(), "a plot for each barrier");
}

#[test]
fn samples_of_one_value_or_none_are_drawn_or_left_out() {
    let (mut data, mut results) = sample::run();
    results.cases.truncate(2);
    let mut one = LatencyHistogram::new();
    one.record(5);
    data.samples.clear();
    data.samples.insert("c01".into(), Samples { commit: one, ..Samples::default() });
    data.samples.insert("c02".into(), Samples::default());
    let figures = all_figures(&data, &results);
    assert!(figures.iter().any(|figure| figure.key == "ecdf-paths"));
}
