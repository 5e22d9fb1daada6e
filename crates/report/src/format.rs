//! How numbers are written in tables and on axes, where the unit stands in the head.

use highwater_stats::units;

/// Writes a number with about three digits, thousands apart: `7 011`, `118`, `40.3`, `2.07`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let size = value.abs();
    if size >= 99.95 {
        whole(value)
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Writes nanoseconds as a number of microseconds.
pub fn as_us(ns: f64) -> String {
    number(ns / 1e3)
}

/// Writes nanoseconds as a number of milliseconds.
pub fn as_ms(ns: f64) -> String {
    number(ns / 1e6)
}

/// Writes a factor: `0.42x`.
pub fn factor(ratio: f64) -> String {
    format!("{}x", number(ratio))
}

/// Writes a share of one as per cent: `37 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 9.95 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Writes a p-value.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// Writes a time on an axis: `500 ns`, `20 µs`, `1 ms`, `2 s`.
pub(crate) fn time_tick(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 999.5 => (ns, "ns"),
        _ if ns < 999_500.0 => (ns / 1e3, "µs"),
        _ if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", short(value))
}

/// Writes a count on an axis: `500`, `20k`, `1M`.
pub(crate) fn count_tick(value: f64) -> String {
    match value {
        _ if value < 9_999.5 => short(value),
        _ if value < 999_950.0 => format!("{}k", short(value / 1e3)),
        _ => format!("{}M", short(value / 1e6)),
    }
}

/// Puts the sign for micro where plain text has `us`.
pub(crate) fn typographic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        match word.strip_prefix("us") {
            Some(rest) if rest.is_empty() || rest.starts_with([',', ';', '.', ')', ':', '/']) => {
                out.push_str("µs");
                out.push_str(rest);
            }
            _ => out.push_str(word),
        }
        if words.peek().is_some() {
            out.push(' ');
        }
    }
    out
}

/// A count of things held in memory, as a number to draw or divide with.
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// Writes a number rounded to a whole one, thousands apart.
pub fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    match digits.parse::<u64>() {
        Ok(value) => format!("{sign}{}", units::count(value)),
        Err(_) => format!("{value:.2e}"),
    }
}

/// Up to two decimals, none that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits() {
        let written = [0.0, 2.066, 9.999, 40.26, 99.97, 118.4, 7011.0, 1.5e6].map(number);
        assert_eq!(written, ["0.00", "2.07", "10.0", "40.3", "100", "118", "7 011", "1 500 000"]);
        assert_eq!(number(f64::NAN), "-");
        assert_eq!(number(1e300), "1.00e300");
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [500.0, 2e4, 1e6, 2e9].map(time_tick);
        assert_eq!(ticks, ["500 ns", "20 µs", "1 ms", "2 s"]);
        assert_eq!([1.0, 1e4, 2e6].map(count_tick), ["1", "10k", "2M"]);
    }

    #[test]
    fn only_the_unit_becomes_micro() {
        assert_eq!(typographic("118 us, was us and use"), "118 µs, was µs and use");
    }
}
