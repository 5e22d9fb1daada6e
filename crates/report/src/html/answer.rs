//! The top of the page: the question, and the answer in three numbers.

use highwater_stats::units;
use maud::{Markup, html};

use super::section;
use crate::data::RunData;
use crate::format::{number, typographic, whole};
use crate::results::{Advice, Comparison, Results, SystemAdvice, Threshold, WritePath};
use crate::table::{label_of, verdict_words};

pub(super) fn header(data: &RunData) -> Markup {
    let manifest = &data.manifest;
    let machine = &manifest.machine;
    let device = machine.leaf().and_then(|leaf| leaf.model.as_deref());
    html! {
        header {
            p.kicker { "Highwater " (manifest.preset) " report" }
            h1 id="question" { (manifest.question) }
            p.byline {
                span { b { (manifest.name) } }
                span { (day_and_time(&manifest.started)) }
                span {
                    (machine.filesystem.kind) " on "
                    (device.unwrap_or(&machine.filesystem.source))
                }
                span { "kernel " (machine.kernel) }
            }
        }
    }
}

/// `2026-11-30 08:15 UTC` of an RFC 3339 time; what is not one is shown as it is.
fn day_and_time(started: &str) -> String {
    match started.parse::<jiff::Timestamp>() {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => started.to_owned(),
    }
}

pub(super) fn answer(data: &RunData, results: &Results) -> Markup {
    let unfinished = data.outcome.is_none() || results.interrupted;
    html! {
        @if unfinished {
            div.banner role="note" {
                p { b { "This run was stopped before its end. " }
                    "What was measured until then is shown; cases without numbers say so." }
            }
        }
        @match &results.advice {
            Some(advice) if !advice.refused.is_empty() => (refused(advice)),
            Some(advice) => (advised(results, advice)),
            None => (section("answer", "Answer", &html! {
                p.lead { "This run gives no advice. Its numbers are below; "
                    code { "highwater probe" } " answers what to do." }
            })),
        }
    }
}

fn refused(advice: &Advice) -> Markup {
    html! {
        section.refused aria-labelledby="answer" {
            h2 id="answer" { "No verdict" }
            p.lead { "The numbers below were measured, but nothing may be concluded from them \
                about durable writes:" }
            ul { @for reason in &advice.refused { li { (typographic(reason)) } } }
        }
    }
}

fn advised(results: &Results, advice: &Advice) -> Markup {
    let body = html! {
        @if !advice.headline.is_empty() {
            div.cards { @for number in &advice.headline {
                div.card {
                    p.value { (typographic(&number.value)) }
                    p.label { (number.label) }
                    p.detail { (typographic(&number.detail)) }
                }
            } }
        }
        @if let Some(path) = &advice.path { (write_path(path)) }
        @if let Some(gain) = &advice.gain { p { (effect(results, gain)) } }
        @if let Some(cost) = &advice.durability_cost {
            p { b { "What durability costs: " } (effect(results, cost)) }
        }
        @if !advice.reasons.is_empty() {
            h3 id="reasons" { "Why" }
            ul.reasons { @for reason in &advice.reasons { li { (typographic(reason)) } } }
        }
    };
    html! {
        (section("answer", "Answer", &body))
        @if !advice.systems.is_empty() {
            (section("systems", "What it means for systems you may run", &html! {
                div.systems { @for (number, system) in advice.systems.iter().enumerate() {
                    (system_card(results, system, number + 1))
                } }
            }))
        }
    }
}

fn write_path(path: &WritePath) -> Markup {
    html! {
        h3 id="path" { "The write path to use" }
        dl.path {
            div { dt { "file" } dd { (path.state) } }
            div { dt { "I/O" } dd { (path.io) } }
            div { dt { "barrier" } dd { (path.barrier) } }
            div { dt { "align to" } dd { (units::bytes_human(path.align_bytes.into())) } }
            div { dt { "batch" } dd {
                @match path.knee_records {
                    Some(knee) => { "about " (whole(knee.max(1.0))) " records" }
                    None => "–",
                }
            } }
            div { dt { "p50" } dd { (typographic(&units::duration_ns(path.p50_ns))) } }
            div { dt { "p99" } dd { (typographic(&units::duration_ns(path.p99_ns))) } }
        }
    }
}

/// A comparison as a sentence.
fn effect(results: &Results, comparison: &Comparison) -> Markup {
    let ratio = &comparison.ratio;
    html! {
        b { (label_of(results, &comparison.candidate)) }
        " takes " b.figure { (number(ratio.ratio)) "×" }
        " the time of " b { (label_of(results, &comparison.baseline)) }
        " (" (comparison.measure) "; " (format!("{:.0}", ratio.confidence * 100.0)) " % interval "
        (number(ratio.low)) "× to " (number(ratio.high)) "×, " (ratio.pairs) " paired rounds): "
        (verdict_words(comparison.verdict)) "."
    }
}

fn system_card(results: &Results, system: &SystemAdvice, number: usize) -> Markup {
    html! {
        article.system {
            h3 id={ "system-" (number) } { (system.system) }
            p.muted { (system.writes) }
            @if let Some((p50, p99)) = system.p50_p99_ns {
                p.figure-line {
                    "p50 " b { (typographic(&units::duration_ns(p50))) }
                    ", p99 " b { (typographic(&units::duration_ns(p99))) }
                    @if let Some(id) = &system.case_id {
                        span.muted { " measured as " (label_of(results, id)) }
                    }
                }
            } @else {
                p.figure-line.muted { "– no case of this run stands for it" }
            }
            @if !system.settings.is_empty() {
                ul.settings { @for setting in &system.settings {
                    li { code { (setting.setting) } span { (typographic(&setting.why)) } }
                } }
            }
            @let samples = samples_of(results, system);
            @for threshold in &system.thresholds { (held_against(threshold, samples)) }
        }
    }
}

/// Commits of the case that stands for a system.
fn samples_of(results: &Results, system: &SystemAdvice) -> Option<u64> {
    let id = system.case_id.as_ref()?;
    let case = results.cases.iter().find(|case| case.id == *id)?;
    case.commit.as_ref().map(|commit| commit.n)
}

fn held_against(threshold: &Threshold, samples: Option<u64>) -> Markup {
    let time = |ns: u64| typographic(&units::duration_ns(ns));
    html! {
        p.threshold {
            @if threshold.pass { span.badge.good { "pass" } } @else { span.badge.bad { "fail" } }
            " " span {
                (threshold.name) " at most " (time(threshold.limit_ns)) ", measured "
                (time(threshold.measured_ns))
                @if let Some(n) = samples { " over " (units::count(n)) " commits" }
                span.muted { " (" (threshold.source) ")" }
            }
        }
    }
}
