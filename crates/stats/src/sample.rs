//! Order statistics and means of plain numbers.

/// Computes the median; the mean of the middle two for an even count. `None` when empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_sorted(&sorted, 0.5)
}

/// Computes the geometric mean. `None` when empty or when a value is not above zero and finite.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| !is_positive(*value)) {
        return None;
    }
    Some(mean(values.iter().map(|value| value.ln())).exp())
}

/// Interpolates the quantile `q` of values sorted upwards (Hyndman and Fan's type 7). `q` is taken
/// as 0 below 0 and as 1 above 1. `None` when empty or when `q` is not a number.
pub fn quantile_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    if q.is_nan() {
        return None;
    }
    let position = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = floor_to_index(position);
    let Some(above) = sorted.get(below + 1) else { return Some(*last) };
    let below = sorted.get(below).unwrap_or(first);
    Some(below + (above - below) * position.fract())
}

/// Computes the mean of a sequence; NaN when it is empty.
pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Tells whether a value is a number above zero, and finite.
pub(crate) fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Rounds a number that is known not to be negative down to an index.
pub(crate) fn floor_to_index(value: f64) -> usize {
    debug_assert!(value >= 0.0, "an index cannot be negative: {value}");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounding down is the purpose, and float casts saturate"
    )]
    let index = value as usize;
    index
}
