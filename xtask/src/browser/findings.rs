//! Reads what the browser reported and what the page measured: pure functions over JSON.

use std::fmt;

use serde_json::Value;

/// What can be wrong with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It warned or complained on the console.
    Console,
    /// A script of it failed.
    PageError,
    /// It asked for something beyond itself.
    Request,
    /// It is wider than the screen.
    Overflow,
    /// It shows text too small to read.
    SmallText,
    /// A drawing cuts text off at its edge.
    CutOff,
    /// It is not laid out for the screen's width.
    Viewport,
    /// Its text has the wrong brightness for the reader's colour scheme.
    Scheme,
}

impl Fault {
    /// Every fault; each has a planted page.
    #[cfg(test)]
    pub(super) const ALL: [Self; 8] = [
        Self::Console,
        Self::PageError,
        Self::Request,
        Self::Overflow,
        Self::SmallText,
        Self::CutOff,
        Self::Viewport,
        Self::Scheme,
    ];
}

/// One fault and where it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What is wrong.
    pub(super) fault: Fault,
    /// Where, and by how much.
    pub(super) detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.fault, self.detail)
    }
}

impl Finding {
    /// Makes a finding.
    fn new(fault: Fault, detail: impl Into<String>) -> Self {
        Self { fault, detail: detail.into() }
    }
}

/// Reads the events of a page whose own address is `url`.
pub(super) fn from_events(events: &[Value], url: &str) -> Vec<Finding> {
    events.iter().filter_map(|event| from_event(event, url)).collect()
}

/// Reads one event; most are no fault.
fn from_event(event: &Value, url: &str) -> Option<Finding> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.consoleAPICalled" => {
            let is_fault = matches!(params["type"].as_str()?, "error" | "warning" | "assert");
            let text = || params["args"].as_array().into_iter().flatten().map(argument_text);
            is_fault.then(|| Finding::new(Fault::Console, text().collect::<Vec<_>>().join(" ")))
        }
        "Log.entryAdded" => {
            let is_fault = matches!(params["entry"]["level"].as_str()?, "error" | "warning");
            let text = params["entry"]["text"].as_str().unwrap_or_default();
            is_fault.then(|| Finding::new(Fault::Console, text))
        }
        "Runtime.exceptionThrown" => {
            let details = &params["exceptionDetails"];
            let text = details["exception"]["description"].as_str();
            let text = text.or_else(|| details["text"].as_str()).unwrap_or_default();
            Some(Finding::new(Fault::PageError, text))
        }
        "Network.requestWillBeSent" => {
            let asked = params["request"]["url"].as_str()?;
            let inline = asked == url || asked.starts_with("data:");
            (!inline).then(|| Finding::new(Fault::Request, asked))
        }
        _ => None,
    }
}

/// A console argument in words.
fn argument_text(argument: &Value) -> String {
    let text = argument["value"].as_str().or_else(|| argument["description"].as_str());
    text.map_or_else(|| argument["value"].to_string(), ToOwned::to_owned)
}

/// Reads what `measure.js` returned for a screen of this width and colour scheme.
pub(super) fn from_measures(measured: &Value, width: u32, scheme: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let client = measured["client_px"].as_f64();
    if client != Some(f64::from(width)) {
        let detail = format!("laid out for {client:?} px, the screen has {width}");
        findings.push(Finding::new(Fault::Viewport, detail));
    }
    let scroll = measured["scroll_px"].as_f64();
    let is_wide = measured["wide"].as_array().is_none_or(|places| !places.is_empty());
    if scroll.is_none() || scroll > client || is_wide {
        let detail = format!("{scroll:?} px wide: {}", listed(&measured["wide"]));
        findings.push(Finding::new(Fault::Overflow, detail));
    }
    for (key, fault) in [("small", Fault::SmallText), ("cut_off", Fault::CutOff)] {
        if measured[key].as_array().is_none_or(|places| !places.is_empty()) {
            findings.push(Finding::new(fault, listed(&measured[key])));
        }
    }
    let brightness = measured["text_brightness"].as_f64();
    let suits = brightness.is_some_and(|value| (value > 0.5) == (scheme == "dark"));
    if !suits {
        let detail = format!("text brightness {brightness:?} of 0 to 1 on a {scheme} page");
        findings.push(Finding::new(Fault::Scheme, detail));
    }
    findings
}

/// Places in a row, the first few.
fn listed(places: &Value) -> String {
    let Some(places) = places.as_array() else { return "not measured".to_owned() };
    let shown = places.iter().take(5).filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    if places.len() > 5 { format!("{shown} and {} more", places.len() - 5) } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(findings: &[Finding]) -> Vec<Fault> {
        findings.iter().map(|finding| finding.fault).collect()
    }

    fn sound() -> Value {
        json!({ "client_px": 390, "scroll_px": 390, "wide": [], "small": [], "cut_off": [],
                "text_brightness": 0.1 })
    }

    #[test]
    fn a_sound_page_has_no_findings() {
        let own = json!({ "method": "Network.requestWillBeSent",
                          "params": { "request": { "url": "file:///a.html" } } });
        assert_eq!(from_events(&[own], "file:///a.html"), []);
        assert_eq!(from_measures(&sound(), 390, "light"), []);
    }

    #[test]
    fn what_was_not_measured_is_a_fault() {
        let found = faults(&from_measures(&json!({}), 390, "light"));
        let expected =
            [Fault::Viewport, Fault::Overflow, Fault::SmallText, Fault::CutOff, Fault::Scheme];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_measure_is_held_against_the_view() {
        let mut wide = sound();
        wide["scroll_px"] = json!(391);
        assert_eq!(faults(&from_measures(&wide, 390, "light")), [Fault::Overflow]);
        let mut cut = sound();
        cut["wide"] = json!(["table"]);
        assert_eq!(faults(&from_measures(&cut, 390, "light")), [Fault::Overflow]);
        assert_eq!(faults(&from_measures(&sound(), 390, "dark")), [Fault::Scheme]);
        assert_eq!(faults(&from_measures(&sound(), 400, "light")), [Fault::Viewport]);
    }

    #[test]
    fn complaints_requests_and_errors_are_faults_and_logs_are_not() {
        let event = |method: &str, params: Value| json!({ "method": method, "params": params });
        let say =
            |kind: &str| event("Runtime.consoleAPICalled", json!({ "type": kind, "args": [] }));
        let log = |level: &str| event("Log.entryAdded", json!({ "entry": { "level": level } }));
        let ask = event(
            "Network.requestWillBeSent",
            json!({ "request": { "url": "https://example.org/a.css" } }),
        );
        let fail = event("Runtime.exceptionThrown", json!({ "exceptionDetails": {} }));
        let events = [say("log"), say("warning"), log("error"), log("verbose"), ask, fail];
        let expected = [Fault::Console, Fault::Console, Fault::Request, Fault::PageError];
        assert_eq!(faults(&from_events(&events, "file:///a.html")), expected);
    }
}
