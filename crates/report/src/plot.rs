//! Plots as SVG: which ones a section gets.
//!
//! `sketch` is a drawing as a list of marks and writes the SVG; `axis`, `legend` and `palette` are
//! what every plot shares; `ecdf`, `bars`, `lines` and `series` are the plots. Each plot is drawn
//! twice, for wide and for narrow pages, and the style sheet shows one of them.

mod axis;
mod bars;
mod ecdf;
mod legend;
mod lines;
mod palette;
mod series;
mod sketch;

use crate::data::{Group, GroupKind, RunData};
use crate::results::{CaseResult, CaseStatus, Results};
use crate::table::in_group;

pub(crate) use palette::dark_rules;
use sketch::{Layout, Sketch};

/// Most cases one plot shows apart.
const CASES_MAX: usize = palette::SERIES_MAX;

/// One plot in its two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Key, unique in the page.
    pub key: String,
    /// Title, plain text.
    pub title: String,
    /// What to see and how to read it, plain text.
    pub caption: String,
    /// SVG element for wide pages and paper.
    pub wide: String,
    /// SVG element for telephones.
    pub narrow: String,
}

impl Figure {
    fn new(key: String, title: &str, caption: String, draw: impl Fn(Layout) -> Sketch) -> Self {
        let [wide, narrow] = [Layout::Wide, Layout::Narrow].map(|layout| {
            let sketch = draw(layout);
            // Whatever a test draws, it also asks whether people could read it.
            #[cfg(test)]
            sketch::tests::assert_readable(&sketch);
            sketch.to_svg(&key, title)
        });
        Self { key, title: title.to_owned(), caption, wide, narrow }
    }
}

/// Draws the plots of a section; none where nothing was measured.
pub fn group_figures(data: &RunData, results: &Results, group: &Group) -> Vec<Figure> {
    let cases: Vec<&CaseResult> =
        in_group(results, &group.id).filter(|case| case.status == CaseStatus::Measured).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let advised = results.advice.as_ref().and_then(|a| a.path.as_ref()).map(|p| p.case_id.as_str());
    let mut figures = match group.kind {
        GroupKind::Paths => {
            let mut figures = vec![bars::percentiles(group, &cases, advised)];
            figures.extend(ecdf::figure(data, group, &cases));
            figures
        }
        GroupKind::Interval => bars::trials(group, &cases).into_iter().collect(),
        kind => lines::figures(kind, group, &cases, &results.fits),
    };
    figures.extend(series::figure(data, group, &cases));
    figures
}

/// Keeps as many cases as a plot can show apart: the fastest.
fn fastest<'a>(cases: &[&'a CaseResult]) -> Vec<&'a CaseResult> {
    let p50 = |case: &&CaseResult| case.commit.as_ref().map_or(u64::MAX, |commit| commit.p50_ns);
    let mut kept = cases.to_vec();
    if kept.len() > CASES_MAX {
        kept.sort_by_key(p50);
        kept.truncate(CASES_MAX);
    }
    kept
}

/// Says that a plot leaves cases out, where it does.
fn left_out_words(shown: usize, of: usize) -> String {
    if shown < of { format!(" The {shown} fastest of {of} cases.") } else { String::new() }
}

#[cfg(test)]
mod tests;
