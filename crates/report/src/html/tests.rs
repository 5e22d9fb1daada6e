//! Claims about the page: what stands on it, and that nothing on it can act.

use std::collections::BTreeSet;

use super::*;
use crate::data::StopReason;
use crate::results::CaseStatus;
use crate::sample;

const PAYLOAD: &str = "</title></style></svg><script>alert('1')</script><img src=x onerror=\"a\">";

fn pages() -> Vec<String> {
    [sample::run(), sample::refused_run(), sample::killed_run()]
        .iter()
        .map(|(data, results)| report_html(data, results))
        .collect()
}

/// Values of an attribute, in order.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_page_asks_for_nothing_and_runs_nothing() {
    for page in pages() {
        for unwanted in
            ["<script", "http:", "https:", "<link", "<img", "<iframe", "@import", "url(", " src="]
        {
            assert!(!page.contains(unwanted), "{unwanted}");
        }
        assert!(values(&page, "href").iter().all(|to| to.starts_with('#')));
    }
}

#[test]
fn the_page_has_its_landmarks_and_every_heading_can_be_linked() {
    for page in pages() {
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
        assert_eq!(page.matches("<main>").count(), 1);
        assert_eq!(page.matches("<h1 ").count(), 1);
        for heading in ["<h1", "<h2", "<h3"] {
            let all = page.matches(heading).count();
            assert_eq!(all, page.matches(&format!("{heading} id=\"")).count(), "{heading}");
        }
        let ids = values(&page, "id");
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(ids.len(), unique.len(), "{ids:?}");
        for to in values(&page, "href") {
            assert!(unique.contains(&&to[1..]), "{to} leads nowhere");
        }
        for svg in page.split("<svg ").skip(1) {
            assert!(svg.split('>').nth(1).unwrap().starts_with("<title "), "{}", &svg[..200]);
        }
    }
}

#[test]
fn elements_are_closed() {
    for page in pages() {
        for name in ["table", "tr", "td", "th", "div", "section", "figure", "svg", "ul", "li", "dl"]
        {
            let opened = page.matches(&format!("<{name}>")).count()
                + page.matches(&format!("<{name} ")).count();
            assert_eq!(opened, page.matches(&format!("</{name}>")).count(), "{name}");
        }
    }
}

#[test]
fn sections_stand_in_the_order_of_a_readers_questions() {
    let page = &pages()[0];
    let order = [
        "question",
        "answer",
        "path",
        "systems",
        "numbers",
        "receipts",
        "plots",
        "attribution",
        "comparisons",
        "fits",
        "method",
        "machine",
        "limits",
        "problems",
        "command",
    ];
    let at = order.map(|id| page.find(&format!(" id=\"{id}\"")).unwrap_or_else(|| panic!("{id}")));
    assert!(at.is_sorted(), "{at:?}");
}

#[test]
fn every_case_is_there_and_a_missing_number_is_a_dash_with_its_reason() {
    let (data, results) = sample::run();
    let page = report_html(&data, &results);
    for case in &results.cases {
        assert!(page.contains(&escape(&case.label)), "{}", case.label);
        if case.status != CaseStatus::Measured {
            let reason = escape(case.reason.as_ref().unwrap());
            assert!(page.contains(&reason), "{reason}");
            let row = page.split("<tr>").find(|row| row.contains(&escape(&case.label))).unwrap();
            assert!(row.contains(">–<"), "{row}");
        }
    }
}

#[test]
fn the_answer_shows_numbers_path_gain_and_thresholds() {
    let (data, results) = sample::run();
    let page = report_html(&data, &results);
    let advice = results.advice.unwrap();
    for headline in &advice.headline {
        assert!(page.contains(&typographic(&headline.value)), "{}", headline.value);
        assert!(page.contains(&headline.label), "{}", headline.label);
    }
    for system in &advice.systems {
        assert!(page.contains(&escape(&system.system)));
        assert!(system.settings.iter().all(|setting| page.contains(&escape(&setting.setting))));
    }
    assert!(page.contains("<span class=\"badge good\">pass</span>"));
    assert!(page.contains("<span class=\"badge bad\">fail</span>"));
    assert!(page.contains("What durability costs: "));
    // A percentile without the number of its samples is worth little.
    let held = advice.systems.iter().filter(|system| !system.thresholds.is_empty());
    for system in held {
        let case = results.cases.iter().find(|case| Some(&case.id) == system.case_id.as_ref());
        let n = case.unwrap().commit.as_ref().unwrap().n;
        assert!(
            page.contains(&format!(" over {} commits", highwater_stats::units::count(n))),
            "{n}"
        );
    }
}

#[test]
fn a_refused_verdict_stands_in_the_place_of_the_answer() {
    let (data, results) = sample::refused_run();
    let page = report_html(&data, &results);
    assert!(page.contains("No verdict"));
    for reason in &results.advice.as_ref().unwrap().refused {
        assert!(page.contains(&escape(reason)), "{reason}");
    }
    assert!(!page.contains("class=\"cards\"") && !page.contains("id=\"path\""));
}

#[test]
fn a_killed_run_says_so_and_shows_what_it_has() {
    let (data, results) = sample::killed_run();
    let page = report_html(&data, &results);
    assert!(page.contains("stopped before its end"));
    assert!(page.contains("could not be read"), "it has no end");
}

#[test]
fn text_from_a_run_is_never_markup() {
    let (mut data, mut results) = sample::run();
    let evil = || PAYLOAD.to_owned();
    let manifest = &mut data.manifest;
    for text in [
        &mut manifest.name,
        &mut manifest.preset,
        &mut manifest.question,
        &mut manifest.started,
        &mut manifest.directory,
        &mut manifest.highwater_version,
        &mut manifest.machine.filesystem.kind,
    ] {
        *text = evil();
    }
    manifest.command.push(evil());
    for group in &mut manifest.groups {
        for case in results.cases.iter_mut().filter(|case| case.group == group.id) {
            case.group = format!("{}{PAYLOAD}", group.id);
        }
        (group.id, group.title) = (format!("{}{PAYLOAD}", group.id), evil());
    }
    results.machine.kernel = evil();
    results.machine.virtualisation = Some(evil());
    results.machine.io_limits.push(evil());
    for device in &mut results.machine.devices {
        (device.name, device.model) = (evil(), Some(evil()));
    }
    for case in &mut results.cases {
        case.label = format!("{} {PAYLOAD}", case.label);
        case.reason = case.reason.as_ref().map(|_| evil());
        if let Some(receipt) = &mut case.receipt {
            receipt.reasons.push(evil());
            receipt.top.as_mut().unwrap().device = evil();
        }
    }
    for fit in &mut results.fits {
        (fit.label, fit.unit) = (evil(), evil());
    }
    results.warnings[0].seen = evil();
    results.warnings[0].next_step = evil();
    let advice = results.advice.as_mut().unwrap();
    advice.reasons.push(evil());
    advice.headline[0].value = evil();
    advice.systems[0].system = evil();
    advice.systems[0].thresholds[0].source = evil();
    data.outcome.as_mut().unwrap().stopped.insert(evil(), StopReason::Failed(evil()));
    let page = report_html(&data, &results);
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;"));
    let tags = page.split('<').skip(1).map(|tag| tag.split('>').next().unwrap());
    assert!(
        tags.clone().all(|tag| !tag.contains(" onerror=\"a")),
        "an attribute was broken out of"
    );
}

#[test]
fn escape_covers_text_and_attributes() {
    assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
}
