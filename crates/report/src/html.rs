//! The report page: one file that needs nothing else, readable without scripts.
//!
//! `answer` says what to do, `evidence` shows the numbers, `context` says how and where they were
//! taken and what they do not show. All text goes through `maud`, which escapes it; markup that
//! is not escaped is only the style sheet and the plots, whose own text is escaped as it is drawn.

mod answer;
mod context;
mod evidence;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::data::RunData;
use crate::format::typographic;
use crate::grid::{Align, Cell, Table, Tone};
use crate::plot::{Figure, dark_rules, group_figures};
use crate::results::Results;

const STYLE: &str = include_str!("html/style.css");

/// Sections worth a link.
const CONTENTS: [(&str, &str); 9] = [
    ("answer", "Answer"),
    ("numbers", "Numbers"),
    ("receipts", "Receipts"),
    ("plots", "Plots"),
    ("method", "Method"),
    ("machine", "Machine"),
    ("limits", "Limits"),
    ("problems", "Problems"),
    ("command", "Command"),
];

/// Renders the report of a run.
pub fn report_html(data: &RunData, results: &Results) -> String {
    let figures: Vec<(&str, Vec<Figure>)> = data
        .manifest
        .groups
        .iter()
        .map(|group| (group.title.as_str(), group_figures(data, results, group)))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    let title = format!("{} - what a durable write costs", data.manifest.name);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "highwater " (data.manifest.highwater_version) };
                title { (title) }
                style { (PreEscaped(style_sheet())) }
            }
            body {
                main {
                    (answer::header(data))
                    (contents(&figures))
                    (answer::answer(data, results))
                    (evidence::tables(data, results))
                    (evidence::receipts(results))
                    (evidence::plots(&figures))
                    (evidence::attribution(results))
                    (evidence::comparisons(results))
                    (evidence::fits(results))
                    (context::method(data))
                    (context::machine(&results.machine))
                    (context::limits())
                    (context::problems(results))
                    (context::reproduce(data))
                }
            }
        }
    }
    .into_string()
}

/// Links to the sections.
fn contents(figures: &[(&str, Vec<Figure>)]) -> Markup {
    let there = |(id, _): &&(&str, &str)| *id != "plots" || !figures.is_empty();
    html! {
        nav aria-label="Contents" {
            @for (id, name) in CONTENTS.iter().filter(there) { a href={ "#" (id) } { (name) } }
        }
    }
}

/// Escapes text for HTML and SVG.
pub fn escape(text: &str) -> String {
    html! { (text) }.into_string()
}

fn style_sheet() -> String {
    let dark = dark_rules();
    format!("{STYLE}\n@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n")
}

/// A section with its heading; the id is what links point at.
fn section(id: &str, heading: &str, body: &Markup) -> Markup {
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (heading) }
            (body)
        }
    }
}

/// A table that scrolls inside itself where the page is too narrow for it.
fn grid(table: &Table, name: &str) -> Markup {
    html! {
        div.scroll role="region" tabindex="0" aria-label=(name) {
            table {
                thead { tr {
                    @for column in &table.columns {
                        th scope="col" class=[align_class(column.align)] {
                            (column.name)
                            @if !column.unit.is_empty() {
                                " " span.unit { (typographic(column.unit)) }
                            }
                        }
                    }
                } }
                tbody {
                    @for row in &table.rows {
                        @let cells = row.iter().zip(&table.columns).enumerate();
                        tr { @for (index, (cell, column)) in cells {
                            @if index == 0 {
                                th scope="row" class=[tone_class(cell.tone)] { (cell_text(cell)) }
                            } @else {
                                td class=[align_class(column.align)] { (cell_body(cell)) }
                            }
                        } }
                    }
                }
            }
        }
        (notes(&table.notes))
    }
}

fn notes(notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            ul.notes { @for note in notes { li { (typographic(note)) } } }
        }
    }
}

fn cell_body(cell: &Cell) -> Markup {
    match tone_class(cell.tone) {
        Some(class) => html! { span class=(class) { (cell_text(cell)) } },
        None => cell_text(cell),
    }
}

fn cell_text(cell: &Cell) -> Markup {
    html! {
        @if cell.text == "-" { "–" } @else { (cell.text.replace(" > ", " → ").replace(" - ", "–")) }
        @if let Some(mark) = cell.mark { " " span.badge.suspect { (mark) } }
    }
}

const fn align_class(align: Align) -> Option<&'static str> {
    match align {
        Align::Left => None,
        Align::Right => Some("number"),
    }
}

const fn tone_class(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain => None,
        Tone::Muted => Some("muted"),
        Tone::Good => Some("badge good"),
        Tone::Suspect => Some("badge suspect"),
        Tone::Bad => Some("badge bad"),
    }
}

#[cfg(test)]
mod tests;
