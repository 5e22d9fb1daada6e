//! Histograms: close to the exact samples, the same merged or recorded, the same read back.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use highwater_stats::{HIGHEST_NS, LatencyHistogram, StatsError, Summary};
use proptest::prelude::*;

fn histogram(samples: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    for ns in samples {
        histogram.record(*ns);
    }
    histogram
}

/// Latencies of every magnitude, each magnitude as likely.
fn latency() -> impl Strategy<Value = u64> {
    (0..42_u32).prop_flat_map(|bits| (1_u64 << bits)..(2_u64 << bits))
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(latency().prop_map(|ns| ns.min(HIGHEST_NS)), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn quantiles_are_within_a_thousandth_of_the_exact_ones(
        mut samples in latencies(), q in 0.0..=1.0_f64
    ) {
        let histogram = histogram(&samples);
        samples.sort_unstable();
        let below = samples.iter().filter(|ns| **ns <= histogram.quantile(q)).count();
        prop_assert!(below as f64 >= q * samples.len() as f64 - 1e-9);
        let rank = (1..=samples.len()).find(|rank| *rank as f64 >= q * samples.len() as f64);
        let exact = samples[rank.unwrap() - 1] as f64;
        let stated = histogram.quantile(q) as f64;
        prop_assert!(stated >= exact && stated <= exact * 1.001, "{} is not {}", stated, exact);
    }

    #[test]
    fn moments_and_extremes_are_those_of_the_samples(samples in latencies()) {
        let Summary { n, mean_ns, min_ns, max_ns, .. } = histogram(&samples).summary().unwrap();
        let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
        prop_assert_eq!(n, samples.len() as u64);
        prop_assert!((mean_ns / mean - 1.0).abs() < 0.001);
        prop_assert_eq!(min_ns, *samples.iter().min().unwrap());
        prop_assert_eq!(max_ns, *samples.iter().max().unwrap());
    }

    #[test]
    fn merging_equals_recording_everything(a in latencies(), b in latencies()) {
        let mut merged = histogram(&a);
        merged.merge(&histogram(&b));
        let all = histogram(&[a, b].concat());
        prop_assert_eq!(&merged, &all);
        prop_assert_eq!(merged.summary(), all.summary());
        prop_assert_eq!(LatencyHistogram::from_bytes(&merged.to_bytes()).unwrap(), all);
    }

    #[test]
    fn bytes_read_back_as_the_same_histogram_which_goes_on_growing(
        samples in latencies(), more in latency()
    ) {
        let mut written = histogram(&samples);
        let mut read = LatencyHistogram::from_bytes(&written.to_bytes()).unwrap();
        prop_assert_eq!(&read, &written);
        prop_assert_eq!(read.summary(), written.summary());
        written.record(more);
        read.record(more);
        prop_assert_eq!(read, written);
    }

    #[test]
    fn the_distribution_rises_to_one_and_the_buckets_hold_every_sample(samples in latencies()) {
        let histogram = histogram(&samples);
        let (points, buckets) = (histogram.ecdf(), histogram.buckets());
        prop_assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        prop_assert_eq!(points.last().unwrap(), &(histogram.max(), 1.0));
        prop_assert_eq!(points.len(), buckets.len());
        prop_assert!(buckets.is_sorted_by(|a, b| a.1 < b.0));
        prop_assert_eq!(buckets[0].0, histogram.min());
        for (low_ns, high_ns, count) in buckets {
            let within = samples.iter().filter(|ns| (low_ns..=high_ns).contains(ns)).count();
            prop_assert_eq!(count, within as u64);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(LatencyHistogram::from_bytes(&bytes).is_err());
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        samples in latencies(), place: prop::sample::Index, byte: u8, cut: prop::sample::Index
    ) {
        let mut bytes = histogram(&samples).to_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(read) = LatencyHistogram::from_bytes(&bytes) {
            prop_assert!(read.summary().is_none_or(|summary| summary.min_ns <= summary.max_ns));
        }
        bytes.truncate(cut.index(bytes.len()));
        drop(LatencyHistogram::from_bytes(&bytes));
    }

    #[test]
    fn no_counts_behind_a_valid_header_make_the_reader_panic(
        counts in prop::collection::vec(any::<u8>(), 0..60), digits in 0..6_u32, high: u64
    ) {
        let bytes = compressed(digits, high, &counts);
        if let Ok(read) = LatencyHistogram::from_bytes(&bytes) {
            prop_assert!(read.summary().is_none_or(|summary| summary.p50_ns <= summary.max_ns));
        }
        let bytes = compressed(3, (1 << 42) - 1, &counts);
        if let Ok(read) = LatencyHistogram::from_bytes(&bytes) {
            prop_assert!(read.summary().is_none_or(|summary| summary.p50_ns <= summary.max_ns));
        }
    }
}

/// A compressed V2 histogram with these contents and correct lengths.
fn compressed(digits: u32, high: u64, counts: &[u8]) -> Vec<u8> {
    let mut plain = 0x1c84_9313_u32.to_be_bytes().to_vec();
    plain.extend(
        u32::try_from(counts.len()).expect("memory takes every byte, and few").to_be_bytes(),
    );
    plain.extend(0_u32.to_be_bytes());
    plain.extend(digits.to_be_bytes());
    plain.extend(1_u64.to_be_bytes());
    plain.extend(high.to_be_bytes());
    plain.extend(1_f64.to_be_bytes());
    plain.extend(counts);
    enclose(&plain)
}

fn enclose(plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut body = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    body.write_all(plain).expect("memory takes every byte, and few");
    let body = body.finish().expect("memory takes every byte, and few");
    let mut bytes = 0x1c84_9314_u32.to_be_bytes().to_vec();
    bytes
        .extend(u32::try_from(body.len()).expect("memory takes every byte, and few").to_be_bytes());
    bytes.extend(body);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    match LatencyHistogram::from_bytes(bytes) {
        Err(StatsError::BadEncoding { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn an_empty_histogram_says_so_everywhere() {
    let empty = LatencyHistogram::default();
    assert!(empty.is_empty());
    assert_eq!((empty.len(), empty.min(), empty.max(), empty.quantile(0.5)), (0, 0, 0, 0));
    assert_eq!(empty.mean().to_bits(), 0);
    assert_eq!(empty.summary(), None);
    assert!(empty.ecdf().is_empty() && empty.buckets().is_empty());
    assert_eq!(LatencyHistogram::from_bytes(&empty.to_bytes()).unwrap(), empty);
    let mut merged = histogram(&[7]);
    merged.merge(&empty);
    assert_eq!(merged, histogram(&[7]));
    let mut nothing = LatencyHistogram::new();
    nothing.record_n(5, 0);
    assert!(nothing.is_empty());
}

#[test]
fn values_out_of_range_count_at_its_ends_and_the_greatest_stays_exact() {
    let two_hours = 2 * HIGHEST_NS;
    let samples = histogram(&[0, two_hours, u64::MAX]);
    assert_eq!((samples.len(), samples.min(), samples.max()), (3, 1, u64::MAX));
    assert_eq!(LatencyHistogram::from_bytes(&samples.to_bytes()).unwrap(), samples);
    let only_beyond = histogram(&[two_hours]);
    let Summary { min_ns, p50_ns, max_ns, .. } = only_beyond.summary().unwrap();
    assert_eq!((min_ns, p50_ns, max_ns), (two_hours, two_hours, two_hours));
    assert_eq!(LatencyHistogram::from_bytes(&only_beyond.to_bytes()).unwrap(), only_beyond);
}

#[test]
fn equal_samples_have_their_value_as_every_figure() {
    let mut equal = LatencyHistogram::new();
    equal.record_n(123_456_789, 1000);
    let expected = concat!(
        r#"{"n":1000,"mean_ns":123456789.0,"stddev_ns":0.0,"min_ns":123456789,"#,
        r#""p50_ns":123456789,"p90_ns":123456789,"p99_ns":123456789,"p999_ns":123456789,"#,
        r#""max_ns":123456789}"#,
    );
    assert_eq!(serde_json::to_string(&equal.summary().unwrap()).unwrap(), expected);
}

#[test]
fn counts_beyond_the_limit_are_not_added() {
    let mut full = LatencyHistogram::new();
    full.record_n(1000, u64::MAX);
    full.record_n(2000, u64::MAX);
    assert_eq!(full.len(), 1 << 53);
    assert_eq!(full.quantile(1.0), 1000);
    let copy = full.clone();
    full.merge(&copy);
    assert_eq!(LatencyHistogram::from_bytes(&full.to_bytes()).unwrap(), full);
}

#[test]
fn other_hdr_tools_read_these_bytes_and_theirs_are_read_here() {
    let ours = histogram(&[100, 118_000, 118_000, 2_000_000_007]);
    let theirs: Histogram<u64> =
        Deserializer::new().deserialize(&mut ours.to_bytes().as_slice()).unwrap();
    assert_eq!(theirs.len(), 4);
    assert_eq!(theirs.value_at_quantile(0.5), ours.quantile(0.5));
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&theirs, &mut bytes).unwrap();
    let read = LatencyHistogram::from_bytes(&bytes).unwrap();
    assert_eq!(read.len(), 4);
    assert_eq!(read.max(), theirs.max());
}

#[test]
fn what_would_overflow_or_exhaust_memory_is_refused_with_the_reason() {
    let top = (1 << 42) - 1;
    assert_eq!(refusal(b""), "4 bytes expected, 0 left");
    assert!(refusal(b"GIF89a..").starts_with("cookie is "));
    assert_eq!(refusal(&compressed(2, top, &[])), "significant digits is 2, expected 3");
    assert!(refusal(&compressed(3, u64::MAX, &[])).starts_with("highest value is "));
    // A run of 2^63 empty buckets, whose negation overflows.
    assert!(refusal(&compressed(3, top, &[0xff; 9])).contains("out of range"));
    // A count of 2^63 - 1, then another: their sum overflows.
    let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    assert!(refusal(&compressed(3, top, &huge.repeat(3))).contains("out of range"));
    assert_eq!(refusal(&compressed(3, top, &[0x80])), "it ends within a count");
    // A bomb: a few KiB that would inflate to 4 MiB.
    assert!(refusal(&enclose(&vec![0; 4 << 20])).starts_with("it decompresses to more than"));
    // A trailer that contradicts the buckets.
    let mut bytes = histogram(&[1000]).to_bytes();
    let last = bytes.len() - 1;
    bytes[last] ^= 1 << 6;
    assert_eq!(refusal(&bytes), "the extremes do not lie in the outermost buckets");
    bytes.push(0);
    assert_eq!(refusal(&bytes), "length of the trailer is 25, expected 24");
}
