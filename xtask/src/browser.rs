//! Loads report pages in headless Chromium and looks at how they come out.
//!
//! A page is loaded in every `View` (wide and narrow, light and dark, print). It must say nothing
//! to the console, ask the network for nothing, fit the width, show no tiny or cut-off text, and
//! follow the reader's colour scheme. Before that, planted pages prove that each fault is noticed:
//! a check that cannot fail proves nothing.

mod base64;
mod devtools;
mod findings;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

pub(crate) use self::devtools::find_program;

use self::devtools::Browser;
use self::findings::{Fault, Finding};
use crate::report::StepReport;
use crate::workspace::{self, Workspace};

/// How a page is shown.
#[derive(Debug, Clone, Copy)]
struct View {
    name: &'static str,
    width: u32,
    media: &'static str,
    scheme: &'static str,
}

/// Print is A4 with margins of 10 mm, at 96 dots per inch.
const VIEWS: [View; 5] = [
    View { name: "1280-light", width: 1280, media: "screen", scheme: "light" },
    View { name: "1280-dark", width: 1280, media: "screen", scheme: "dark" },
    View { name: "390-light", width: 390, media: "screen", scheme: "light" },
    View { name: "390-dark", width: 390, media: "screen", scheme: "dark" },
    View { name: "print", width: 718, media: "print", scheme: "light" },
];

/// The view that planted faults are shown in: narrow and dark, where most faults show.
const CANARY_VIEW: View = VIEWS[3];

/// Tallest picture that is taken, pixels; the graphics stack goes no further.
const TALLEST: f64 = 16_000.0;

/// Measures a page from within it.
const MEASURE: &str = include_str!("../browser/measure.js");

/// A planted page, and the fault that it must be caught for.
type Canary = (&'static str, Option<Fault>);

/// The planted pages in `xtask/browser/`; the first has no fault and must not be accused.
const CANARIES: [Canary; 9] = [
    ("canary-sound.html", None),
    ("canary-overflow.html", Some(Fault::Overflow)),
    ("canary-console.html", Some(Fault::Console)),
    ("canary-error.html", Some(Fault::PageError)),
    ("canary-request.html", Some(Fault::Request)),
    ("canary-small-text.html", Some(Fault::SmallText)),
    ("canary-cut-off.html", Some(Fault::CutOff)),
    ("canary-viewport.html", Some(Fault::Viewport)),
    ("canary-scheme.html", Some(Fault::Scheme)),
];

/// Proves the check on planted pages, then checks every page in every view.
pub(crate) fn check(workspace: &Workspace, pages: &[PathBuf]) -> Result<StepReport> {
    let Some(program) = find_program() else {
        return Ok(StepReport::not_run("report pages in a browser: chromium is not installed"));
    };
    let shots = workspace.target.join("browser-shots");
    workspace::remove_folder(&shots)?;
    std::fs::create_dir_all(&shots).context("cannot create the folder for pictures")?;
    let mut browser = Browser::start(&program, &workspace.target)?;
    let mut problems = prove(&mut browser, &workspace.root.join("xtask/browser"))?;
    for page in pages {
        let page = std::path::absolute(page).context("page path")?;
        let stem = shot_stem(workspace, &page);
        for view in VIEWS {
            let shot = shots.join(format!("{stem}-{}.png", view.name));
            let findings = look(&mut browser, &page, view, Some(&shot))?;
            let place = format!("{} ({})", workspace.shown(&page), view.name);
            problems.extend(findings.iter().map(|finding| format!("{place}: {finding}")));
        }
    }
    let mut report = StepReport::from_findings(problems);
    let (pages, views, canaries) = (pages.len(), VIEWS.len(), CANARIES.len());
    report.notes.push(format!("{pages} pages in {views} views each, {canaries} planted pages"));
    report.notes.push(format!("pictures: {}", workspace.shown(&shots)));
    Ok(report)
}

/// Checks that each planted fault is noticed, and that none is seen where there is none.
fn prove(browser: &mut Browser, folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (name, planted) in CANARIES {
        let findings = look(browser, &folder.join(name), CANARY_VIEW, None)?;
        let seen = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match planted {
            None if !findings.is_empty() => {
                problems.push(format!("the check accuses a page without fault, {name}: {seen}"));
            }
            Some(fault) if !findings.iter().any(|finding| finding.fault == fault) => {
                problems
                    .push(format!("the check misses the planted {fault:?} in {name}: {seen:?}"));
            }
            _ => {}
        }
    }
    Ok(problems)
}

/// Names a page's pictures after its place below the target directory or the root.
fn shot_stem(workspace: &Workspace, page: &Path) -> String {
    let short = page.strip_prefix(&workspace.target);
    let short = short.or_else(|_| page.strip_prefix(&workspace.root)).unwrap_or(page);
    let stem = short.with_extension("").to_string_lossy().replace(['/', ' '], "-");
    stem.trim_start_matches('-').to_owned()
}

/// Loads one page in one view and tells what is wrong with it.
fn look(
    browser: &mut Browser,
    page: &Path,
    view: View,
    shot: Option<&Path>,
) -> Result<Vec<Finding>> {
    if !page.is_file() {
        bail!("{}: no such page", page.display());
    }
    let created = browser.call("", "Target.createTarget", &json!({ "url": "about:blank" }))?;
    let target = created["targetId"].clone();
    let attach = json!({ "targetId": target, "flatten": true });
    let attached = browser.call("", "Target.attachToTarget", &attach)?;
    let session = attached["sessionId"].as_str().context("no session of the page")?.to_owned();
    prepare(browser, &session, view)?;
    browser.take_events(&session);

    let url = file_url(page);
    let went = browser.call(&session, "Page.navigate", &json!({ "url": url }))?;
    if let Some(error) = went["errorText"].as_str() {
        bail!("{url}: {error}");
    }
    let loader = went["loaderId"].clone();
    browser.wait_for(&session, "load", |event| {
        event["method"] == "Page.lifecycleEvent"
            && event["params"]["name"] == "load"
            && event["params"]["loaderId"] == loader
    })?;
    let measured = evaluate(browser, &session, MEASURE)?;
    if let Some(shot) = shot {
        take_picture(browser, &session, shot)?;
    }
    let mut found = findings::from_events(&browser.take_events(&session), &url);
    found.extend(findings::from_measures(&measured, view.width, view.scheme));
    browser.call("", "Target.closeTarget", &json!({ "targetId": target }))?;
    Ok(found)
}

/// Sets size, medium and colour scheme, and asks for events.
fn prepare(browser: &mut Browser, session: &str, view: View) -> Result<()> {
    for domain in ["Page", "Runtime", "Log", "Network"] {
        browser.call(session, &format!("{domain}.enable"), &json!({}))?;
    }
    browser.call(session, "Page.setLifecycleEventsEnabled", &json!({ "enabled": true }))?;
    let size = json!({
        "width": view.width, "height": 900, "deviceScaleFactor": 1,
        // A phone lays out a page without a viewport line far wider than its screen.
        "mobile": view.width < 600,
    });
    browser.call(session, "Emulation.setDeviceMetricsOverride", &size)?;
    let scheme = json!([{ "name": "prefers-color-scheme", "value": view.scheme }]);
    let media = json!({ "media": view.media, "features": scheme });
    browser.call(session, "Emulation.setEmulatedMedia", &media)?;
    Ok(())
}

/// Runs a script in the page and returns its value.
fn evaluate(browser: &mut Browser, session: &str, script: &str) -> Result<Value> {
    let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
    let answer = browser.call(session, "Runtime.evaluate", &params)?;
    if answer["exceptionDetails"].is_object() {
        bail!("measuring the page failed: {}", answer["exceptionDetails"]);
    }
    Ok(answer["result"]["value"].clone())
}

/// Takes a picture of the whole page.
fn take_picture(browser: &mut Browser, session: &str, shot: &Path) -> Result<()> {
    let metrics = browser.call(session, "Page.getLayoutMetrics", &json!({}))?;
    let size = &metrics["cssContentSize"];
    let (width, height) = (size["width"].as_f64(), size["height"].as_f64());
    let (width, height) = width.zip(height).context("no size of the page")?;
    let height = height.min(TALLEST);
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
    let picture = browser.call(session, "Page.captureScreenshot", &params)?;
    let bytes = picture["data"].as_str().and_then(base64::decode);
    let bytes = bytes.context("the browser's picture is not base64")?;
    std::fs::write(shot, bytes).with_context(|| format!("cannot write {}", shot.display()))
}

/// Makes the address of a file.
fn file_url(path: &Path) -> String {
    let escaped = path
        .to_string_lossy()
        .bytes()
        .map(|byte| match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'+' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect::<String>();
    format!("file://{escaped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_address_is_escaped() {
        assert_eq!(file_url(Path::new("/a b/ä.html")), "file:///a%20b/%C3%A4.html");
    }

    #[test]
    fn every_fault_has_a_planted_page_and_one_page_has_none() {
        let planted: Vec<Fault> = CANARIES.iter().filter_map(|(_, fault)| *fault).collect();
        assert_eq!(planted.len() + 1, CANARIES.len());
        for fault in Fault::ALL {
            assert!(planted.contains(&fault), "{fault:?}");
        }
    }
}
