//! Claims about the sample run: it holds every kind of thing a report can show.

use super::*;
use crate::results::ReceiptVerdict;

#[test]
fn the_sample_has_every_kind_of_section_and_of_case() {
    let (data, results) = run();
    assert_eq!(data.manifest.groups.len(), 6);
    for group in &data.manifest.groups {
        assert!(results.cases.iter().any(|case| case.group == group.id), "{}", group.id);
    }
    for status in
        [CaseStatus::Measured, CaseStatus::Refused, CaseStatus::Unsupported, CaseStatus::Failed]
    {
        assert!(results.cases.iter().any(|case| case.status == status), "{status:?}");
    }
    assert!(results.cases.iter().any(|case| !case.durable));
    let polluted = |case: &crate::results::CaseResult| {
        case.receipt.as_ref().is_some_and(|r| r.verdict == ReceiptVerdict::Polluted)
    };
    assert!(results.cases.iter().any(polluted));
}

#[test]
fn two_draws_are_the_same_run() {
    let ((a, b), (c, d)) = (draw(), draw());
    assert_eq!(b, d);
    assert_eq!(a.rounds, c.rounds);
    assert_eq!(a.series, c.series);
}
