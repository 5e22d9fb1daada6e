//! `highwater check`: whether a store is as it was written.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};

use anyhow::{Context, Result};
use highwater_disk::ReadOnly;
use highwater_log::check::{CheckReport, Damage, LaneReport, Reach, Seen, Verdict, check};
use highwater_stats::units;
use serde_json::{Value, json};

use super::Ending;
use crate::args::CheckArgs;
use crate::output;

/// Damages and left-over files that are printed one by one.
const LISTED: usize = 20;

/// Checks, prints, and tells by the exit code.
pub fn run(args: &CheckArgs) -> Result<Ending> {
    let place = args.directory.display();
    let disk = ReadOnly::open(&args.directory).with_context(|| format!("cannot read {place}"))?;
    let report = if args.dump {
        let mut dump = Dump { out: BufWriter::new(io::stdout().lock()), failed: None };
        let report = check(&disk, &mut |seen| dump.line(seen));
        dump.finish()?;
        report
    } else {
        check(&disk, &mut |_| {})
    };
    let report = report.with_context(|| format!("cannot check {place}"))?;
    let text = if args.json { as_json(&report)? } else { as_text(&report) };
    output::print(&text)?;
    Ok(match report.verdict() {
        Verdict::Clean => Ending::Done,
        Verdict::TornTail => Ending::TornTail,
        Verdict::Damaged => Ending::Failed,
    })
}

/// Lines as the check goes; what nobody reads is no error.
struct Dump<'a> {
    out: BufWriter<io::StdoutLock<'a>>,
    failed: Option<io::Error>,
}

impl Dump<'_> {
    fn line(&mut self, seen: &Seen<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{}", line(seen)).err();
        }
    }

    fn finish(mut self) -> Result<()> {
        match self.failed.take().map_or_else(|| self.out.flush(), Err) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to standard output"),
        }
    }
}

fn line(seen: &Seen<'_>) -> String {
    match seen {
        Seen::Segment { lane, number, file } => format!("segment {number} lane {lane} {file}"),
        Seen::Frame(frame) => format!(
            "frame {} lane {} epoch {} bytes {} records {} durable {} time_ms {}",
            frame.lsn,
            frame.lane,
            frame.epoch,
            frame.frame_len(),
            frame.record_count,
            frame.durable_lsn,
            frame.time_ms
        ),
        Seen::Record { at, record, name } => {
            let header = &record.header;
            let mut text = format!(
                "record {at} {} stream {} offset {} payload {} crc {:08x}",
                format!("{:?}", header.kind).to_lowercase(),
                header.stream,
                header.offset,
                header.payload_len,
                header.payload_crc
            );
            if header.closes {
                text.push_str(" closes");
            }
            if let Some(name) = name {
                write!(text, " name {name:?}").expect("writing to a string does not fail");
            }
            text
        }
    }
}

fn as_text(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut line = |label: &str, rest: String| {
        writeln!(text, "{label:<12}{rest}").expect("writing to a string does not fail");
    };
    if let Some(store) = &report.store {
        line(
            "store",
            format!(
                "{}, generation {}, manifest {}, segments of {}",
                id(&store.store_id.0),
                store.generation,
                store.manifest,
                units::bytes_human(store.segment_bytes)
            ),
        );
    }
    for lane in &report.lanes {
        line(&format!("lane {}", lane.lane), lane_text(lane));
    }
    for leftover in report.leftovers.iter().take(LISTED) {
        line("left over", format!("{}: {}", leftover.file, leftover.what));
    }
    more(&mut line, report.leftovers.len());
    for tail in report.lanes.iter().filter_map(|lane| lane.torn.as_ref()) {
        line(
            "torn tail",
            format!(
                "{} at {}, {} bytes: {}; nothing says that it was acknowledged, and the next \
                 opening cuts it off",
                tail.file, tail.offset, tail.len_bytes, tail.why
            ),
        );
    }
    for damage in report.damage.iter().take(LISTED) {
        line("DAMAGED", damage_text(damage));
        line("", format!("{}: {}", reach(damage), damage.advice));
    }
    more(&mut line, report.damage.len());
    line("verdict", verdict(report).to_owned());
    text
}

fn more(line: &mut impl FnMut(&str, String), count: usize) {
    if count > LISTED {
        line("", format!("and {} more: --json lists all", count - LISTED));
    }
}

fn lane_text(lane: &LaneReport) -> String {
    format!(
        "{} streams, {} at home; log {} to {}, epoch {}: {} in {} segments, {} frames, {} \
         records; {} spare segments; last commit {}vouched for",
        lane.streams,
        units::bytes_human(lane.home_bytes),
        lane.replay_from,
        lane.end,
        lane.epoch,
        units::bytes_human(lane.log_bytes),
        lane.segments,
        lane.frames,
        lane.records,
        lane.spares,
        if lane.is_vouched { "" } else { "not " }
    )
}

fn damage_text(damage: &Damage) -> String {
    match damage.len_bytes {
        0 => format!("{}: {}", damage.file, damage.what),
        len => format!("{} at {}, {len} bytes: {}", damage.file, damage.offset, damage.what),
    }
}

fn reach(damage: &Damage) -> &'static str {
    match damage.reach {
        Reach::Acknowledged => "reaches what was acknowledged",
        Reach::Nothing => "reaches nothing that was acknowledged",
    }
}

fn verdict(report: &CheckReport) -> &'static str {
    match report.verdict() {
        Verdict::Clean => "clean",
        Verdict::TornTail => "torn tail",
        Verdict::Damaged => "damaged",
    }
}

fn id(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

fn as_json(report: &CheckReport) -> Result<String> {
    let store = report.store.map(|store| {
        json!({
            "store_id": id(&store.store_id.0),
            "generation": store.generation,
            "manifest": store.manifest,
            "lanes": store.lanes,
            "segment_bytes": store.segment_bytes,
        })
    });
    let damage = report.damage.iter().map(|damage| {
        json!({
            "file": damage.file,
            "offset": damage.offset,
            "len_bytes": damage.len_bytes,
            "what": damage.what,
            "reaches_acknowledged": damage.reach == Reach::Acknowledged,
            "advice": damage.advice,
        })
    });
    let leftovers = report.leftovers.iter();
    let leftovers = leftovers.map(|left| json!({ "file": left.file, "what": left.what }));
    let value = json!({
        "verdict": verdict(report),
        "store": store,
        "lanes": report.lanes.iter().map(lane_json).collect::<Vec<_>>(),
        "damage": damage.collect::<Vec<_>>(),
        "leftovers": leftovers.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn lane_json(lane: &LaneReport) -> Value {
    let torn = lane.torn.as_ref().map(|tail| {
        json!({
            "file": tail.file,
            "offset": tail.offset,
            "len_bytes": tail.len_bytes,
            "why": tail.why,
        })
    });
    json!({
        "lane": lane.lane.0,
        "epoch": lane.epoch.0,
        "replay_from_lsn": lane.replay_from.0,
        "end_lsn": lane.end.0,
        "segments": lane.segments,
        "spare_segments": lane.spares,
        "frames": lane.frames,
        "records": lane.records,
        "streams": lane.streams,
        "log_bytes": lane.log_bytes,
        "home_bytes": lane.home_bytes,
        "is_vouched": lane.is_vouched,
        "torn_tail": torn,
    })
}
