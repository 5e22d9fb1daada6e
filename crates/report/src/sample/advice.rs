//! The advice of the sample.

use highwater_stats::{RatioInterval, Verdict, judge, units};

use crate::results::{
    Advice, CaseResult, Comparison, Headline, Results, SystemAdvice, SystemSetting, Threshold,
    WritePath,
};

const DEFAULT: &str = "c01";
const BEST: &str = "c05";
const UNSYNCED: &str = "c09";

fn case<'a>(results: &'a Results, id: &str) -> &'a CaseResult {
    results.cases.iter().find(|case| case.id == id).expect("the sample has it")
}

fn p50(results: &Results, id: &str) -> u64 {
    case(results, id).commit.as_ref().expect("it was measured").p50_ns
}

fn p99(results: &Results, id: &str) -> u64 {
    case(results, id).commit.as_ref().expect("it was measured").p99_ns
}

fn compare(results: &Results, candidate: &str, baseline: &str) -> Comparison {
    let ratio = p50(results, candidate) as f64 / p50(results, baseline) as f64;
    let (low, high) = (ratio * 0.965, ratio * 1.04);
    let ratio = RatioInterval { ratio, low, high, pairs: 5, confidence: 0.95 };
    let verdict = judge(&ratio, 0.05);
    let measure = "p50 of the commit".into();
    Comparison { baseline: baseline.into(), candidate: candidate.into(), measure, ratio, verdict }
}

pub(super) fn comparisons(results: &Results) -> Vec<Comparison> {
    let mut all: Vec<Comparison> =
        ["c02", "c03", "c04", "c05", "c06"].map(|id| compare(results, id, DEFAULT)).into();
    all[1].verdict = Verdict::Inconclusive;
    all
}

pub(super) fn advice(results: &Results) -> Advice {
    let gain = compare(results, BEST, DEFAULT);
    let cost = compare(results, BEST, UNSYNCED);
    let best = case(results, BEST);
    let us = |ns: u64| units::duration_ns(ns);
    let rate = best.commits_per_second.unwrap_or_default();
    Advice {
        refused: Vec::new(),
        path: Some(WritePath {
            case_id: BEST.into(),
            state: best.case.state,
            io: best.case.io,
            barrier: best.case.barrier,
            align_bytes: 4096,
            knee_records: Some(8.7),
            p50_ns: p50(results, BEST),
            p99_ns: p99(results, BEST),
        }),
        headline: vec![
            headline(
                us(p50(results, BEST)),
                "a durable commit, median",
                format!("4 KiB, n 2 000 in 5 rounds, p99 {}", us(p99(results, BEST))),
            ),
            headline(
                format!("{:.2}x", gain.ratio.ratio.recip()),
                "faster than append + fsync",
                "95 % interval 2.6x to 2.8x, 5 paired rounds".into(),
            ),
            headline(
                units::rate(rate * 8.7),
                "records at half the fixed cost",
                "batches of 9 records; one at a time: ".to_owned() + &units::rate(rate),
            ),
        ],
        gain: Some(gain),
        durability_cost: Some(cost),
        reasons: vec![
            "An initialised file makes fdatasync cost one flush instead of two: 0.44x the time of \
             append (interval 0.42x to 0.46x, 5 pairs)."
                .into(),
            "Direct I/O takes another 15 % off, since the page cache is not walked (interval 12 % \
             to 18 %, 5 pairs)."
                .into(),
            "o_dsync shows no difference to fdatasync here (0.98x to 1.06x); fdatasync covers \
             batches, so it is preferred."
                .into(),
        ],
        systems: systems(results),
    }
}

fn headline(value: String, label: &str, detail: String) -> Headline {
    Headline { value, label: label.into(), detail }
}

fn systems(results: &Results) -> Vec<SystemAdvice> {
    let setting =
        |setting: &str, why: &str| SystemSetting { setting: setting.into(), why: why.into() };
    let threshold = |name: &str, limit_ns: u64, id: &str, source: &str| Threshold {
        name: name.into(),
        limit_ns,
        measured_ns: p99(results, id),
        pass: p99(results, id) <= limit_ns,
        source: source.into(),
    };
    let system = |name: &str, writes: &str, id: &str| SystemAdvice {
        system: name.into(),
        writes: writes.into(),
        case_id: Some(id.into()),
        p50_p99_ns: Some((p50(results, id), p99(results, id))),
        settings: Vec::new(),
        thresholds: Vec::new(),
    };
    vec![
        SystemAdvice {
            thresholds: vec![
                threshold("p99 of a WAL fsync", 10_000_000, "c02", "etcd documentation"),
                threshold("p99 under heavy load", 2_000_000, "c02", "etcd hardware guide"),
            ],
            ..system("etcd", "append, page cache, fdatasync after each batch", "c02")
        },
        SystemAdvice {
            settings: vec![
                setting(
                    "wal_sync_method = fdatasync",
                    "the default; 0.44x of fsync on a recycled segment",
                ),
                setting(
                    "wal_recycle = on",
                    "a recycled segment is initialised: one flush instead of two",
                ),
                setting(
                    "commit_delay = 0",
                    "the knee is at 9 records: group commit reaches it by itself",
                ),
            ],
            ..system("PostgreSQL", "recycled segments, page cache, fdatasync", "c04")
        },
        SystemAdvice {
            settings: vec![setting(
                "recycle_log_file_num = 4",
                "an initialised log halves the cost of a commit here",
            )],
            ..system("RocksDB", "append, page cache, fdatasync when sync = true", "c02")
        },
        SystemAdvice {
            case_id: None,
            p50_p99_ns: None,
            settings: vec![setting("appendfsync everysec", "loses up to one second of writes")],
            ..system("Redis", "append, page cache, fdatasync by a background thread", "c02")
        },
    ]
}
