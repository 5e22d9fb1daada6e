//! How and where the numbers were taken, what they do not show, and what went wrong.

use highwater_stats::units;
use maud::{Markup, html};

use super::section;
use crate::data::RunData;
use crate::format::{as_us, number, p_value, typographic};
use crate::machine::{Device, Machine};
use crate::results::{CaseResult, ReceiptVerdict, Results};
use crate::table::missing_words;

pub(super) fn method(data: &RunData) -> Markup {
    let manifest = &data.manifest;
    let settings = &manifest.settings;
    section(
        "method",
        "Method",
        &html! {
            ul.prose {
                li { "A commit is one sample: its writes and their barrier, from the first call to \
                    the return of the last. Percentiles come from all samples of a case, with \
                    three digits; they are never averaged." }
                li { "Outside the measured interval: creating, preallocating and zeroing files, \
                    syncing directories, warm-up, draining the device, reading back, deleting. \
                    Every record is read back and compared." }
                li { "Cases take turns in rounds, in rotated order. Comparisons are ratios of \
                    paired rounds with a bootstrap interval, and may answer: no difference." }
                li { "A failed write or barrier ends its case; its numbers are dropped and it is \
                    listed below." }
            }
            dl.facts {
                (fact("method version", &manifest.method_version.to_string()))
                (fact("rounds planned", &settings.rounds.to_string()))
                @if let Some(seconds) = settings.seconds {
                    (fact("time given", &format!("{seconds} s")))
                }
                (fact("clock read", &format!("{:.0} ns each", manifest.machine.timer_cost_ns)))
                @if let Some(cost) = data.outcome.as_ref().and_then(|o| o.harness_cost_ns) {
                    (fact("harness", &format!("{cost:.0} ns per operation")))
                }
                (fact("bytes planned", &units::bytes_human(manifest.planned_bytes)))
            }
        },
    )
}

pub(super) fn machine(machine: &Machine) -> Markup {
    let fs = &machine.filesystem;
    let align = |bytes: Option<u32>| bytes.map(|n| units::bytes_human(n.into()));
    section(
        "machine",
        "Machine",
        &html! {
            dl.facts {
                (fact("kernel", &machine.kernel))
                (maybe("CPU", machine.cpu.clone()))
                (fact("CPUs usable", &machine.cpus.to_string()))
                (maybe("governor", machine.governor.clone()))
                (maybe("clock source", machine.clock_source.clone()))
                (maybe("memory", machine.memory_bytes.map(units::bytes_human)))
                (maybe("virtualisation", machine.virtualisation.clone()))
                (fact("file system", &format!("{} on {}", fs.kind, fs.source)))
                (fact("mounted at", &fs.mount_point))
                (fact("mount options", &fs.options.join(", ")))
                (maybe("journal", fs.journal.clone()))
                (fact("free", &units::bytes_human(fs.free_bytes)))
                (maybe("direct I/O memory align", align(fs.dio_memory_align)))
                (maybe("direct I/O offset align", align(fs.dio_offset_align)))
                @for device in &machine.devices { (fact(&device.name, &device_words(device))) }
                @for limit in &machine.io_limits { (fact("cgroup limit", limit)) }
                @for pressure in &machine.pressure { (fact("pressure at start", pressure)) }
                @for preload in &machine.preloads { (fact("preloaded", preload)) }
            }
        },
    )
}

fn device_words(device: &Device) -> String {
    let mut words = vec![device.kind.clone()];
    words.extend(device.model.clone());
    words.extend(device.size_bytes.map(units::bytes_human));
    words.extend(device.rotational.map(|r| if r { "rotational" } else { "not rotational" }.into()));
    words.extend(device.write_cache.as_ref().map(|cache| format!("cache {cache}")));
    words.extend(device.fua.map(|fua| if fua { "FUA" } else { "no FUA" }.into()));
    words.extend(device.scheduler.as_ref().map(|name| format!("scheduler {name}")));
    let blocks = device.logical_block.zip(device.physical_block);
    words.extend(blocks.map(|(logical, physical)| format!("blocks {logical}/{physical} B")));
    words.join(", ")
}

fn fact(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn maybe(name: &str, value: Option<String>) -> Markup {
    html! {
        @match value {
            Some(value) => (fact(name, &value)),
            None => div { dt { (name) } dd.muted { "– could not be read" } },
        }
    }
}

pub(super) fn limits() -> Markup {
    section(
        "limits",
        "What this does not show",
        &html! {
            ul.prose {
                li { "Whether a hypervisor, a storage service or a drive keeps what it \
                    acknowledged. A receipt shows what the kernel asked for; only cutting the \
                    power shows the rest." }
                li { "Other disks, fill states and loads. The numbers hold for this disk as full, \
                    as worn and as busy as it was then." }
                li { "Long runs. Burst credits, cache exhaustion and throttling may set in after \
                    the time measured here." }
                li { "A whole system. A write path that costs less is not yet an application that \
                    is faster." }
            }
        },
    )
}

pub(super) fn problems(results: &Results) -> Markup {
    let missing: Vec<(&CaseResult, String)> =
        results.cases.iter().filter_map(|case| Some((case, missing_words(case)?))).collect();
    let suspect: Vec<(&str, String)> = results.cases.iter().flat_map(suspicions).collect();
    section(
        "problems",
        "Failed or suspect",
        &html! {
            @if missing.is_empty() && suspect.is_empty() && results.warnings.is_empty() {
                p { "Nothing failed and nothing looked suspicious." }
            }
            @if !missing.is_empty() {
                h3 id="missing" { "Cases without numbers" }
                dl.problems { @for (case, words) in &missing {
                    div { dt { (case.label) } dd { (typographic(words)) } }
                } }
            }
            @if !suspect.is_empty() {
                h3 id="suspect" { "Suspect cases" }
                dl.problems { @for (label, words) in &suspect {
                div { dt { (label) } dd { (typographic(words)) } }
            } }
            }
            @if !results.warnings.is_empty() {
                h3 id="warnings" { "Warnings" }
                dl.problems { @for warning in &results.warnings {
                    div {
                        dt { (typographic(&warning.seen)) }
                        dd { b { "Next step: " } (typographic(&warning.next_step)) }
                    }
                } }
            }
        },
    )
}

/// What a reader should know before trusting a measured case.
fn suspicions(case: &CaseResult) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    if let Some(receipt) = &case.receipt {
        let words = match receipt.verdict {
            ReceiptVerdict::Absent => Some("its barriers reached no device"),
            ReceiptVerdict::Polluted => Some("other I/O on the disk is in its counts"),
            ReceiptVerdict::Issued
            | ReceiptVerdict::Elided
            | ReceiptVerdict::FuaPossible
            | ReceiptVerdict::NoCounters
            | ReceiptVerdict::NotAsked => None,
        };
        found.extend(words.map(str::to_owned));
    }
    if let Some(drift) = &case.drift {
        found.push(format!(
            "its level changed {} s into the run: median {} us before and {} us after ({})",
            number(drift.at_ms / 1e3),
            as_us(drift.before_ns),
            as_us(drift.after_ns),
            p_value(drift.p_value),
        ));
    }
    found.into_iter().map(|words| (case.label.as_str(), words)).collect()
}

pub(super) fn reproduce(data: &RunData) -> Markup {
    let manifest = &data.manifest;
    section(
        "command",
        "Command",
        &html! {
            pre tabindex="0" { code { (command_line(&manifest.command)) } }
            dl.facts {
                (fact("highwater", &manifest.highwater_version))
                (fact("schema version", &manifest.schema_version.to_string()))
                (fact("directory", &manifest.directory))
                (fact("seed", &manifest.settings.seed.to_string()))
                (fact("started", &manifest.started))
                (maybe("ended", data.outcome.as_ref().map(|outcome| outcome.ended.clone())))
            }
        },
    )
}

/// Quotes arguments so that the line can be pasted into a shell.
fn command_line(arguments: &[String]) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quoted = |argument: &String| {
        if !argument.is_empty() && argument.chars().all(safe) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
