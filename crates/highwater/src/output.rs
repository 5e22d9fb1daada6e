//! What people read: the machine in four lines, tables, warnings, advice.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};
use highwater_report::data::{GroupKind, RunData};
use highwater_report::machine::Machine;
use highwater_report::results::{
    Advice, CaseResult, Comparison, ReceiptVerdict, Results, SystemAdvice,
};
use highwater_report::table;
use highwater_stats::units;

/// How long a line waits for its reader.
const MOMENT: Duration = Duration::from_secs(1);

/// Writes to standard output; a reader that has gone is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error. Where nobody reads it any more, the run goes on all the same.
pub fn say(line: &str) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// Writes a line to standard error for a program that has other things to do: where nobody reads
/// it, it goes on after a moment.
pub fn say_in_passing(line: &str) {
    let line = format!("{line}\n");
    // Written or not: there is nobody else to tell.
    within_a_moment(move || drop(io::stderr().lock().write_all(line.as_bytes())));
}

/// Does something that may wait for a reader for ever, and waits for it no longer than a moment.
pub fn within_a_moment<T: Send + 'static>(write: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, done) = channel();
    let body = move || {
        // Nobody may wait any more.
        sender.send(write()).ok();
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(body).ok()?;
    done.recv_timeout(MOMENT).ok()
}

/// Results as JSON for machines.
pub fn json(results: &Results) -> Result<String> {
    Ok(serde_json::to_string_pretty(results)? + "\n")
}

/// The machine in four lines.
pub fn machine(machine: &Machine) -> String {
    let or_unknown = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
    let filesystem = &machine.filesystem;
    let mut text = String::new();
    let mut line = |label: &str, rest: String| {
        writeln!(text, "{label:<12}{rest}").expect("writing to a string does not fail");
    };
    line(
        "machine",
        format!(
            "{} CPUs, {}{}, kernel {}",
            machine.cpus,
            or_unknown(machine.cpu.as_deref()),
            machine.virtualisation.as_deref().map_or(String::new(), |v| format!(", {v}")),
            machine.kernel
        ),
    );
    let devices: Vec<String> = machine
        .devices
        .iter()
        .map(|device| match &device.model {
            Some(model) => format!("{} ({}, {model})", device.name, device.kind),
            None => format!("{} ({})", device.name, device.kind),
        })
        .collect();
    let devices =
        if devices.is_empty() { "no block device".to_owned() } else { devices.join(" on ") };
    let cache = machine.leaf().map(|leaf| {
        format!(
            ", {}, FUA {}",
            leaf.write_cache.as_deref().unwrap_or("cache unknown"),
            match leaf.fua {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            }
        )
    });
    line("disk", devices + &cache.unwrap_or_default());
    line(
        "file system",
        format!(
            "{} on {}, journal {}, {} free",
            filesystem.kind,
            filesystem.mount_point,
            filesystem.journal.as_deref().unwrap_or("unknown"),
            units::bytes_human(filesystem.free_bytes)
        ),
    );
    line(
        "clock",
        format!(
            "{}, {:.0} ns a reading; direct I/O aligned to {}",
            or_unknown(machine.clock_source.as_deref()),
            machine.timer_cost_ns,
            match filesystem.dio_offset_align {
                Some(0) => "nothing: refused".to_owned(),
                Some(align) => format!("{align} B"),
                None => "unknown".to_owned(),
            }
        ),
    );
    text
}

/// What a probe says at a glance. The page and `highwater report` show every column and case.
pub fn glance(data: &RunData, results: &Results) -> String {
    let mut text = String::new();
    for kind in [GroupKind::Paths, GroupKind::Batch, GroupKind::Writers, GroupKind::Sizes] {
        for group in data.manifest.groups.iter().filter(|group| group.kind == kind) {
            section(&mut text, &group.title, &table::brief_table(results, &group.id));
        }
    }
    section(&mut text, RECEIPTS, &table::brief_receipt_table(results));
    text.push_str(issued_note(results));
    text
}

const RECEIPTS: &str = "Receipts: what reached the device, per barrier";

fn issued_note(results: &Results) -> &'static str {
    let issued = results.cases.iter().any(|case| {
        case.receipt.as_ref().is_some_and(|receipt| receipt.verdict == ReceiptVerdict::Issued)
    });
    if issued {
        "`issued` is what the kernel sent: a drive or hypervisor can still lie.\n"
    } else {
        ""
    }
}

/// Everything a run says, as tables. Where advice is given it tells the comparisons that matter.
pub fn results(data: &RunData, results: &Results) -> String {
    let mut text = String::new();
    for group in &data.manifest.groups {
        section(&mut text, &group.title, &table::group_table(results, group));
    }
    section(&mut text, RECEIPTS, &table::receipt_table(results));
    text.push_str(issued_note(results));
    if data.manifest.preset != "probe" && !results.comparisons.is_empty() {
        section(&mut text, "Comparisons, paired by round", &table::comparison_table(results));
    }
    text
}

/// Warnings, each with its next step.
pub fn warnings(results: &Results) -> String {
    let mut text = String::new();
    if !results.warnings.is_empty() {
        text.push_str("\nWarnings\n");
    }
    for warning in &results.warnings {
        wrapped(&mut text, "! ", &format!("{} -> {}", warning.seen, warning.next_step));
    }
    text
}

/// The advice.
pub fn advice(advice: &Advice, results: &Results) -> String {
    let mut text = String::from("\nAdvice\n");
    if !advice.refused.is_empty() {
        text.push_str("No verdict is given here:\n");
        for reason in &advice.refused {
            wrapped(&mut text, "- ", reason);
        }
        return text;
    }
    if let Some(path) = &advice.path {
        wrapped(
            &mut text,
            "Use: ",
            &format!(
                "{} files, {} I/O, {}, aligned to {}: p50 {}, p99 {}",
                path.state,
                path.io,
                path.barrier,
                units::bytes_exact(u64::from(path.align_bytes)),
                units::duration_ns(path.p50_ns),
                units::duration_ns(path.p99_ns)
            ),
        );
    }
    for headline in &advice.headline {
        wrapped(
            &mut text,
            "",
            &format!("{} {} ({})", headline.value, headline.label, headline.detail),
        );
    }
    if let Some(cost) = &advice.durability_cost {
        wrapped(
            &mut text,
            "",
            &format!("Durability itself: {}", against(label_of(results, &cost.baseline), cost)),
        );
    }
    for reason in &advice.reasons {
        wrapped(&mut text, "- ", reason);
    }
    for system in &advice.systems {
        text.push_str(&system_advice(system, results));
    }
    text
}

fn against(baseline: &str, comparison: &Comparison) -> String {
    let ratio = &comparison.ratio;
    format!(
        "{:.1} times the time of {baseline} ({:.0} % interval {:.1} to {:.1})",
        ratio.ratio,
        ratio.confidence * 100.0,
        ratio.low,
        ratio.high
    )
}

fn case_of<'a>(results: &'a Results, id: &str) -> Option<&'a CaseResult> {
    results.cases.iter().find(|case| case.id == id)
}

fn label_of<'a>(results: &'a Results, id: &'a str) -> &'a str {
    case_of(results, id).map_or(id, |case| &case.label)
}

fn system_advice(system: &SystemAdvice, results: &Results) -> String {
    let mut text = String::new();
    let case = system.case_id.as_deref().and_then(|id| case_of(results, id));
    let samples = case.and_then(|case| case.commit.as_ref()).map_or(0, |commit| commit.n);
    let times = match (system.p50_p99_ns, case) {
        (Some((p50, p99)), _) => {
            format!("; here p50 {}, p99 {}", units::duration_ns(p50), units::duration_ns(p99))
        }
        // What it writes says why its times do not count.
        (None, Some(_)) => String::new(),
        (None, None) => "; its path was not measured".to_owned(),
    };
    text.push('\n');
    wrapped(&mut text, "", &format!("{}: {}{times}", system.system, system.writes));
    for threshold in &system.thresholds {
        let verdict = if threshold.pass { "PASS" } else { "FAIL" };
        wrapped(
            &mut text,
            "  ",
            &format!(
                "{verdict} {} below {} (measured {} over {} commits; {})",
                threshold.name,
                units::duration_ns(threshold.limit_ns),
                units::duration_ns(threshold.measured_ns),
                units::count(samples),
                threshold.source
            ),
        );
    }
    for setting in &system.settings {
        wrapped(&mut text, "  ", &format!("{}: {}", setting.setting, setting.why));
    }
    text
}

fn section(text: &mut String, title: &str, body: &str) {
    text.push('\n');
    text.push_str(title);
    text.push('\n');
    text.push_str(body);
    if !body.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds a paragraph of at most 100 columns, its later lines indented like its mark.
fn wrapped(text: &mut String, mark: &str, paragraph: &str) {
    const WIDTH: usize = 100;
    let indent = " ".repeat(mark.chars().count().max(2));
    let mut line = mark.to_owned();
    let mut is_empty = true;
    for word in paragraph.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line.clone_from(&indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_keep_to_the_width_and_lose_no_word() {
        let mut text = String::new();
        let paragraph = "word ".repeat(60);
        wrapped(&mut text, "- ", &paragraph);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        assert_eq!(text.matches("word").count(), 60);
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
    }

    #[test]
    fn the_machine_takes_four_lines() {
        assert_eq!(machine(&Machine::default()).lines().count(), 4);
    }
}
