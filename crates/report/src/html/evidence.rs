//! The numbers: tables, receipts, plots, where the time went, comparisons, fits.

use maud::{Markup, PreEscaped, html};

use super::{grid, section};
use crate::data::RunData;
use crate::format::{as_us, number, percent};
use crate::grid::{Cell, Table};
use crate::plot::Figure;
use crate::results::{Attribution, CaseResult, Results};
use crate::table::{comparison_grid, group_grid, receipt_grid};

/// Parts of a commit's time: name, and how to find it. The order is that of the bars.
type Part = (&'static str, fn(&Attribution) -> f64);
const PARTS: [Part; 6] = [
    ("write call", |a| a.write_call_us),
    ("device write", |a| a.device_write_us),
    ("device flush", |a| a.device_flush_us),
    ("journal", |a| a.journal_us),
    ("run queue", |a| a.run_queue_us),
    ("unexplained", |a| a.unexplained_us),
];

pub(super) fn tables(data: &RunData, results: &Results) -> Markup {
    section(
        "numbers",
        "Numbers",
        &html! {
            @for (number, group) in data.manifest.groups.iter().enumerate() {
                @let table = group_grid(results, group);
                @if !table.rows.is_empty() {
                    h3 id={ "numbers-" (number + 1) } { (group.title) }
                    (grid(&table, &group.title))
                }
            }
        },
    )
}

pub(super) fn receipts(results: &Results) -> Markup {
    let table = receipt_grid(results);
    section(
        "receipts",
        "Receipts: what reached the device",
        &html! {
            @if table.rows.is_empty() {
                p { "– No receipts: this run read no device counters." }
            } @else {
                p.prose { "The block device's own counters over the measured interval. A flush for \
                    each barrier is evidence that the kernel asked; what the drive did is not \
                    visible." }
                (grid(&table, "Receipts"))
            }
        },
    )
}

pub(super) fn plots(groups: &[(&str, Vec<Figure>)]) -> Markup {
    html! {
        @if !groups.is_empty() {
            (section("plots", "Plots", &html! {
                @for (number, (title, figures)) in groups.iter().enumerate() {
                    h3 id={ "plots-" (number + 1) } { (title) }
                    @for figure in figures { (plot(figure)) }
                }
            }))
        }
    }
}

fn plot(figure: &Figure) -> Markup {
    html! {
        figure {
            p.plot-title { (figure.title) }
            (PreEscaped(&figure.wide))
            (PreEscaped(&figure.narrow))
            figcaption { (figure.caption) }
        }
    }
}

pub(super) fn attribution(results: &Results) -> Markup {
    let cases: Vec<(&CaseResult, &Attribution)> =
        results.cases.iter().filter_map(|c| Some((c, c.attribution.as_ref()?))).collect();
    let modes = modes_grid(results);
    html! {
        @if !cases.is_empty() || !modes.rows.is_empty() {
            (section("attribution", "Where the time went", &html! {
                @if !cases.is_empty() { (bars(&cases)) }
                @if !modes.rows.is_empty() {
                    h3 id="humps" { "Separate humps" }
                    p.prose { "Where commit times fall into more than one hump, their mean \
                        describes none of them." }
                    (grid(&modes, "Humps of the commit times"))
                }
            }))
        }
    }
}

fn bars(cases: &[(&CaseResult, &Attribution)]) -> Markup {
    let sum = |a: &Attribution| PARTS.iter().map(|(_, of)| of(a).max(0.0)).sum::<f64>();
    let longest = cases.iter().map(|(_, a)| sum(a)).fold(f64::MIN_POSITIVE, f64::max);
    let width = |us: f64| format!("width:{:.2}%", 100.0 * us.max(0.0) / longest);
    html! {
        p.prose { "A mean commit, taken apart by the device's counters. Journal is device work \
            beyond one data write and one flush; unexplained is what no counter accounts for." }
        ul.keys aria-hidden="true" { @for (index, (name, _)) in PARTS.iter().enumerate() {
            li { span class={ "swatch part" (index) } {} (name) }
        } }
        div.stacks aria-hidden="true" { @for (case, attribution) in cases {
            p.stack-label { (case.label) }
            div.stack { @for (index, (_, of)) in PARTS.iter().enumerate() {
                span class={ "part" (index) } style=(width(of(attribution))) {}
            } }
            p.stack-sum { (number(sum(attribution))) " µs" }
        } }
        (grid(&attribution_grid(cases), "Where the time of a mean commit went"))
    }
}

fn attribution_grid(cases: &[(&CaseResult, &Attribution)]) -> Table {
    let mut columns = vec![("case", "")];
    columns.extend(PARTS.iter().map(|(name, _)| (*name, "us")));
    let mut table = Table::new(&columns);
    for (case, attribution) in cases {
        let mut cells = vec![Cell::new(&case.label)];
        cells.extend(PARTS.iter().map(|(_, of)| Cell::new(number(of(attribution)))));
        table.row(cells);
    }
    table
}

fn modes_grid(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("hump", ""),
        ("centre", "us"),
        ("from", "us"),
        ("to", "us"),
        ("share", ""),
    ]);
    for case in results.cases.iter().filter(|case| case.modes.len() > 1) {
        for (index, mode) in case.modes.iter().enumerate() {
            table.row(vec![
                Cell::new(if index == 0 { case.label.as_str() } else { "" }),
                Cell::new((index + 1).to_string()),
                Cell::new(as_us(mode.centre_ns as f64)),
                Cell::new(as_us(mode.low_ns as f64)),
                Cell::new(as_us(mode.high_ns as f64)),
                Cell::new(percent(mode.share)),
            ]);
        }
    }
    table
}

pub(super) fn comparisons(results: &Results) -> Markup {
    html! {
        @if !results.comparisons.is_empty() {
            (section("comparisons", "Comparisons", &grid(
                &comparison_grid(results, &results.comparisons),
                "Comparisons of paired rounds",
            )))
        }
    }
}

pub(super) fn fits(results: &Results) -> Markup {
    let mut table = Table::new(&[
        ("fit", ""),
        ("fixed cost", "us"),
        ("each", "us"),
        ("unit", ""),
        ("knee", "units"),
        ("R²", ""),
        ("points", ""),
    ])
    .with_words_in(&[3]);
    for fit in &results.fits {
        table.row(vec![
            Cell::new(&fit.label),
            Cell::new(number(fit.line.intercept)),
            Cell::new(number(fit.line.slope)),
            Cell::new(&fit.unit),
            Cell::or_dash(fit.line.knee, number),
            Cell::new(format!("{:.4}", fit.line.r2)),
            Cell::new(fit.line.points.to_string()),
        ]);
        if fit.line.knee.is_none() {
            let why = "no knee: the fixed cost or the cost of each is not above zero";
            table.note(format!("{}: {why}", fit.label));
        }
    }
    html! {
        @if !results.fits.is_empty() {
            (section("fits", "Fixed cost and knee", &html! {
                p.prose { "Time per barrier as a line: a fixed cost and a cost for each unit. At \
                    the knee both are equal, so half of what one unit alone would pay is gone; \
                    beyond it larger batches buy little." }
                (grid(&table, "Fits"))
            }))
        }
    }
}
