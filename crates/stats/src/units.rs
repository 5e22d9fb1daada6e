//! How sizes, times and rates are read and written.
//!
//! Sizes come in powers of 1024 (KiB, MiB, GiB, TiB; K, M, G, T for short), times and rates in
//! powers of 1000. What people read has three significant digits; what programs read back is exact.

use std::time::Duration;

use crate::error::UnitError;

/// Powers of 1024, greatest first.
const BINARY: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// What a measure that does not exist looks like.
const DASH: &str = "-";

/// Reads a size: digits alone or with `B` are bytes; `K`/`KiB`, `M`/`MiB`, `G`/`GiB`, `T`/`TiB`
/// are powers of 1024. Letter case does not matter, a space before the unit is allowed.
///
/// # Errors
/// No whole number at the start, an unknown unit, one of `KB`, `MB`, `GB`, `TB` (which mean 1000 to
/// some and 1024 to others), or more than 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    let text = || text.to_owned();
    if number.is_empty() {
        return Err(UnitError::NoNumber { text: text() });
    }
    let unit = unit.trim_start();
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        lower => {
            return Err(match binary_for(lower) {
                Some(binary) => {
                    UnitError::Ambiguous { text: text(), number: number.to_owned(), binary }
                }
                None if unit.starts_with(['.', ',', '_']) => UnitError::NoNumber { text: text() },
                None => UnitError::UnknownUnit { text: text(), unit: unit.to_owned() },
            });
        }
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    value.ok_or_else(|| UnitError::TooLarge { text: text() })
}

/// Writes a size exactly, in the largest unit that divides it: `4KiB`, `1000B`, `64MiB`.
/// [`parse_bytes`] reads it back.
pub fn bytes_exact(bytes: u64) -> String {
    let divides = |shift: u32| bytes > 0 && bytes.trailing_zeros() >= shift;
    match BINARY.into_iter().find(|(_, shift)| divides(*shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

/// Writes a size for people: `512 B`, `4 KiB`, `1.46 MiB`.
pub fn bytes_human(bytes: u64) -> String {
    let scales = BINARY.map(|(unit, shift)| (unit, (1_u64 << shift) as f64));
    scaled(bytes as f64, &scales, "B")
}

/// Writes a time for people: `24.3 ns`, `0.41 us`, `118 us`, `1.35 ms`, `2.4 s`; a dash for what is
/// not a finite number.
pub fn duration_ns(time: impl Nanoseconds) -> String {
    let ns = time.nanoseconds();
    // From 0.1 us on, so that a column of times just below and above 1 us keeps one unit.
    if (99.95..999.5).contains(&ns.abs()) {
        return format!("{} us", significant(ns / 1e3, 3));
    }
    scaled(ns, &[("s", 1e9), ("ms", 1e6), ("us", 1e3)], "ns")
}

/// Writes a rate per second: `7 011/s`, `3.25/s`; a dash for what is not a finite number.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() {
        return DASH.to_owned();
    }
    format!("{}/s", significant(per_second, decimals_for(per_second)))
}

/// Writes a count with its digits in groups of three: `7 011`.
pub fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// What counts as a time in nanoseconds.
pub trait Nanoseconds {
    /// Returns the number of nanoseconds.
    fn nanoseconds(self) -> f64;
}

impl Nanoseconds for f64 {
    fn nanoseconds(self) -> f64 {
        self
    }
}

impl Nanoseconds for u64 {
    fn nanoseconds(self) -> f64 {
        self as f64
    }
}

impl Nanoseconds for Duration {
    fn nanoseconds(self) -> f64 {
        self.as_secs_f64() * 1e9
    }
}

/// The unambiguous unit for one that is not.
fn binary_for(unit: &str) -> Option<&'static str> {
    match unit {
        "kb" => Some("KiB"),
        "mb" => Some("MiB"),
        "gb" => Some("GiB"),
        "tb" => Some("TiB"),
        _ => None,
    }
}

/// Writes three significant digits in the largest of the scales (greatest first) that the value
/// reaches, or in `unit`.
fn scaled(value: f64, scales: &[(&str, f64)], unit: &str) -> String {
    if !value.is_finite() {
        return DASH.to_owned();
    }
    // A value that rounds up to the next unit is written in that unit: 999.6 us is 1 ms.
    let reaches = |scale: f64| value.abs() >= scale * 0.9995;
    let found = scales.iter().find(|(_, scale)| reaches(*scale));
    let (unit, scale) = found.copied().unwrap_or((unit, 1.0));
    let value = value / scale;
    format!("{} {unit}", significant(value, decimals_for(value)))
}

/// The decimals that make three significant digits.
fn decimals_for(value: f64) -> usize {
    match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.09995 => 3,
        _ => 4,
    }
}

/// Writes a number with at most so many decimals, without trailing zeros, digits grouped.
fn significant(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if decimals == 0 { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    if whole == "-0" && fraction.is_empty() {
        return "0".to_owned();
    }
    format!("{}{fraction}", grouped(whole))
}

/// Puts a space between groups of three digits.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    let (sign, digits) = digits.split_at(usize::from(digits.starts_with('-')));
    text.push_str(sign);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
