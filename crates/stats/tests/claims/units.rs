//! Sizes, times and rates: read back as written, and written as people expect.

use std::time::Duration;

use highwater_stats::UnitError;
use highwater_stats::units::{bytes_exact, bytes_human, count, duration_ns, parse_bytes, rate};
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_exact_size_reads_back_as_itself(number: u64, shift in 0..64_u32) {
        for bytes in [number, number >> shift, (number >> shift) << shift] {
            let text = bytes_exact(bytes);
            prop_assert_eq!(parse_bytes(&text), Ok(bytes), "{}", text);
            prop_assert!(text.ends_with('B'));
            prop_assert!(!bytes_human(bytes).is_empty());
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,20}", number: u64, unit in "[a-zA-Z ]{0,4}") {
        drop(parse_bytes(&text));
        drop(parse_bytes(&format!("{number}{unit}")));
    }

    #[test]
    fn a_time_is_written_within_half_a_percent(ns in 1.0..1e12_f64) {
        let text = duration_ns(ns);
        let (number, unit) = text.rsplit_once(' ').unwrap();
        let scale = match unit {
            "ns" => 1.0,
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            other => panic!("unknown unit {other}"),
        };
        let written = number.replace(' ', "").parse::<f64>().unwrap() * scale;
        prop_assert!((written / ns - 1.0).abs() <= 0.005_01, "{} for {}", text, ns);
    }
}

#[test]
fn sizes_are_read_in_powers_of_1024_whatever_the_letter_case() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("1000B", 1000),
        ("16K", 16 << 10),
        ("16k", 16 << 10),
        ("16KiB", 16 << 10),
        ("16kib", 16 << 10),
        ("100 MiB", 100 << 20),
        (" 2g ", 2 << 30),
        ("1TiB", 1 << 40),
        ("16777215TiB", 16_777_215 << 40),
    ] {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused_and_the_message_says_what_to_write() {
    for (text, message) in [
        (
            "16KB",
            "`16KB` could mean powers of 1000 or of 1024: write 16KiB for powers of 1024, or the \
             plain number of bytes",
        ),
        ("", "`` is no size: write a whole number and a unit, as in 4096, 16KiB or 1GiB"),
        ("-1", "`-1` is no size: write a whole number and a unit, as in 4096, 16KiB or 1GiB"),
        ("1.5G", "`1.5G` is no size: write a whole number and a unit, as in 4096, 16KiB or 1GiB"),
        (
            "5 blocks",
            "`5 blocks` has the unknown unit `blocks`: write B, KiB, MiB, GiB or TiB (or K, M, G, \
             T)",
        ),
        ("16777216TiB", "`16777216TiB` is too large: the limit is 18446744073709551615 bytes"),
        (
            "99999999999999999999",
            "`99999999999999999999` is too large: the limit is 18446744073709551615 bytes",
        ),
    ] {
        assert_eq!(parse_bytes(text).unwrap_err().to_string(), message);
    }
    assert!(matches!(parse_bytes("3gb"), Err(UnitError::Ambiguous { binary: "GiB", .. })));
}

#[test]
fn sizes_are_written_in_the_unit_that_fits() {
    assert_eq!(bytes_exact(0), "0B");
    assert_eq!(bytes_exact(4096), "4KiB");
    assert_eq!(bytes_exact(1000), "1000B");
    assert_eq!(bytes_exact(1536), "1536B");
    assert_eq!(bytes_exact(64 << 20), "64MiB");
    assert_eq!(bytes_exact(2048 << 40), "2048TiB");
    assert_eq!(bytes_human(0), "0 B");
    assert_eq!(bytes_human(512), "512 B");
    assert_eq!(bytes_human(1000), "1 000 B");
    assert_eq!(bytes_human(1024), "1 KiB");
    assert_eq!(bytes_human(3 << 29), "1.5 GiB");
    assert_eq!(bytes_human((1 << 30) - 1), "1 GiB");
    assert_eq!(bytes_human(1_530_000), "1.46 MiB");
    assert_eq!(bytes_human(1023 << 10), "1 023 KiB");
}

#[test]
fn times_are_written_with_three_digits_in_the_unit_that_fits() {
    for (ns, text) in [
        (0.0, "0 ns"),
        (24.3, "24.3 ns"),
        (99.97, "0.1 us"),
        (410.0, "0.41 us"),
        (412.3, "0.412 us"),
        (999.7, "1 us"),
        (1000.0, "1 us"),
        (118_015.0, "118 us"),
        (999_600.0, "1 ms"),
        (1_350_000.0, "1.35 ms"),
        (2_400_000_000.0, "2.4 s"),
        (1_234_000_000_000.0, "1 234 s"),
        (-1500.0, "-1.5 us"),
        (f64::NAN, "-"),
        (f64::INFINITY, "-"),
    ] {
        assert_eq!(duration_ns(ns), text);
    }
    assert_eq!(duration_ns(118_000_u64), "118 us");
    assert_eq!(duration_ns(Duration::from_millis(20)), "20 ms");
}

#[test]
fn rates_and_counts_group_their_digits() {
    assert_eq!(rate(7011.4), "7 011/s");
    assert_eq!(rate(999.7), "1 000/s");
    assert_eq!(rate(12.34), "12.3/s");
    assert_eq!(rate(3.25), "3.25/s");
    assert_eq!(rate(0.0), "0/s");
    assert_eq!(rate(f64::NAN), "-");
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(7011), "7 011");
    assert_eq!(count(1_234_567), "1 234 567");
}
