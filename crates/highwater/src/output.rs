//! What people read: the machine in four lines, tables, warnings, advice.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::{Context, Result};
use highwater_report::data::RunData;
use highwater_report::machine::Machine;
use highwater_report::results::{Advice, Comparison, ReceiptVerdict, Results, SystemAdvice};
use highwater_report::table;
use highwater_stats::units;

/// Writes to standard output; a reader that has gone is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
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

/// Everything a run says, as tables. Where advice is given it tells the comparisons that matter.
pub fn results(data: &RunData, results: &Results) -> String {
    let mut text = String::new();
    for group in &data.manifest.groups {
        section(&mut text, &group.title, &table::group_table(results, group));
    }
    section(
        &mut text,
        "Receipts: what reached the device, per barrier",
        &table::receipt_table(results),
    );
    if results.cases.iter().any(|case| {
        case.receipt.as_ref().is_some_and(|receipt| receipt.verdict == ReceiptVerdict::Issued)
    }) {
        text.push_str("`issued` is what the kernel sent: a drive or hypervisor can still lie.\n");
    }
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
pub fn advice(advice: &Advice) -> String {
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
            &format!("Durability itself: {}", against("the same write without any barrier", cost)),
        );
    }
    for reason in &advice.reasons {
        wrapped(&mut text, "- ", reason);
    }
    for system in &advice.systems {
        text.push_str(&system_advice(system));
    }
    text
}

fn against(baseline: &str, comparison: &Comparison) -> String {
    let ratio = &comparison.ratio;
    format!(
        "{:.1} times {baseline} ({:.0} % interval {:.1} to {:.1})",
        ratio.ratio,
        ratio.confidence * 100.0,
        ratio.low,
        ratio.high
    )
}

fn system_advice(system: &SystemAdvice) -> String {
    let mut text = String::new();
    let times = system.p50_p99_ns.map_or_else(
        || "its path was not measured".to_owned(),
        |(p50, p99)| {
            format!("here p50 {}, p99 {}", units::duration_ns(p50), units::duration_ns(p99))
        },
    );
    text.push('\n');
    wrapped(&mut text, "", &format!("{}: {}; {times}", system.system, system.writes));
    for threshold in &system.thresholds {
        let verdict = if threshold.pass { "PASS" } else { "FAIL" };
        let measured = units::duration_ns(threshold.measured_ns);
        wrapped(
            &mut text,
            "  ",
            &format!("{verdict} {} (measured {measured}; {})", threshold.name, threshold.source),
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
