//! Judges the evidence of what reached the device.
//!
//! What is not refuted is not called safe: a drive or hypervisor can still lie.

use highwater_report::case::{Barrier, Case, IoMode, Sharing};
use highwater_report::data::{PlannedCase, RoundRow, RunData};
use highwater_report::machine::Device;
use highwater_report::results::{DeviceReceipt, ExtentReceipt, Receipt, ReceiptVerdict};
use highwater_stats::units;

use crate::disk::chain::{COUNTS_FLUSHES, FILE_SYSTEM};

/// Fewer flushes per barrier than this, and barriers went missing on the way.
const ALL: f64 = 0.9;
/// Others' writes beyond this share of the case's own spoil the counts.
const OTHERS_SHARE: f64 = 0.05;
/// Below this many bytes others' writes are not worth a word.
const OTHERS_FLOOR_BYTES: u64 = 256 << 10;

/// Sums of one device's counters over rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    flushes: f64,
    flush_ms: f64,
    writes: f64,
    write_ms: f64,
    sectors: f64,
    reads: f64,
    queue_ms: f64,
}

/// Judges one measured case.
pub fn judge(data: &RunData, planned: &PlannedCase, rows: &[&RoundRow]) -> Receipt {
    let machine = &data.manifest.machine;
    let per = units_counted(rows);
    let elapsed_ms = rows.iter().map(|row| row.elapsed_ns as f64).sum::<f64>() / 1e6;
    let receipt = |end| {
        let name = name_of(&machine.devices, end);
        sums(rows, end).map(|sums| sums.receipt(name, per, elapsed_ms))
    };
    let (top, leaf) = (receipt(End::Top), receipt(End::Leaf));
    let uncounted = |end| uncounted(&machine.devices, end);
    let evidence = Evidence {
        planned,
        rows,
        leaf_devices: machine.leaves().collect(),
        top: Count { receipt: top.as_ref(), uncounted: uncounted(End::Top) },
        leaf: Count { receipt: leaf.as_ref(), uncounted: uncounted(End::Leaf) },
    };
    let (verdict, reasons) = evidence.verdict();
    // A count that is always 0 would be read as one: no row is better than that one.
    let top = top.filter(|_| uncounted(End::Top).is_none());
    let leaf = leaf.filter(|_| uncounted(End::Leaf).is_none());
    let is_same = top.as_ref().map(|top| &top.device) == leaf.as_ref().map(|leaf| &leaf.device);
    Receipt { verdict, reasons, top, leaf: leaf.filter(|_| !is_same), extents: extents(rows) }
}

/// Barriers asked for; writes where the case asks for none.
fn units_counted(rows: &[&RoundRow]) -> f64 {
    let barriers: u64 = rows.iter().map(|row| row.barriers).sum();
    let writes: u64 = rows.iter().map(|row| row.writes).sum();
    if barriers > 0 { barriers as f64 } else { writes.max(1) as f64 }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Top,
    Leaf,
}

/// The devices at one end of the chain, partitions by their whole disk.
fn devices_at(devices: &[Device], end: End) -> Vec<&Device> {
    let whole =
        devices.iter().filter(|device| !["partition", FILE_SYSTEM].contains(&&*device.kind));
    match end {
        End::Top => whole.take(1).collect(),
        End::Leaf => whole.filter(|device| device.leaf).collect(),
    }
}

fn name_of(devices: &[Device], end: End) -> String {
    let names = devices_at(devices, end).into_iter().map(|device| device.name.as_str());
    names.collect::<Vec<_>>().join("+")
}

/// The first device at one end for which the kernel counts no flushes, whatever it is sent.
fn uncounted(devices: &[Device], end: End) -> Option<&Device> {
    devices_at(devices, end).into_iter().find(|device| !COUNTS_FLUSHES.contains(&&*device.kind))
}

/// Sums of the counters at one end; `None` where a round has none.
fn sums(rows: &[&RoundRow], end: End) -> Option<Sums> {
    rows.iter().try_fold(Sums::default(), |sum, row| {
        let row = counted(row, end)?;
        Some(Sums {
            flushes: sum.flushes + row.flushes,
            flush_ms: sum.flush_ms + row.flush_ms,
            writes: sum.writes + row.writes,
            write_ms: sum.write_ms + row.write_ms,
            sectors: sum.sectors + row.sectors,
            reads: sum.reads + row.reads,
            queue_ms: sum.queue_ms + row.queue_ms,
        })
    })
}

fn counted(row: &RoundRow, end: End) -> Option<Sums> {
    let of = |top: Option<u64>, leaf: Option<u64>| {
        let value = if end == End::Top { top } else { leaf };
        value.map(|value| value as f64)
    };
    Some(Sums {
        flushes: of(row.top_flushes, row.leaf_flushes)?,
        flush_ms: of(row.top_flush_ms, row.leaf_flush_ms)?,
        writes: of(row.top_writes, row.leaf_writes)?,
        write_ms: of(row.top_write_ms, row.leaf_write_ms)?,
        sectors: of(row.top_sectors, row.leaf_sectors)?,
        reads: of(row.top_reads, row.leaf_reads)?,
        queue_ms: of(row.top_queue_ms, row.leaf_queue_ms)?,
    })
}

impl Sums {
    fn receipt(self, device: String, per: f64, elapsed_ms: f64) -> DeviceReceipt {
        let mean_us = |ms: f64, count: f64| (count > 0.0).then(|| ms * 1e3 / count);
        // The kernel books a flush's time as its own and with the request that carries it.
        let in_queue_ms = (self.queue_ms - self.flush_ms).max(0.0);
        DeviceReceipt {
            device,
            flushes: self.flushes / per,
            writes: self.writes / per,
            kib: self.sectors / 2.0 / per,
            reads: self.reads / per,
            queue_depth: if elapsed_ms > 0.0 { in_queue_ms / elapsed_ms } else { 0.0 },
            flush_us: mean_us(self.flush_ms, self.flushes),
            write_us: mean_us(self.write_ms, self.writes),
        }
    }
}

/// What was counted at one end of the chain.
#[derive(Clone, Copy)]
struct Count<'a> {
    receipt: Option<&'a DeviceReceipt>,
    /// A device there whose flushes the kernel does not count.
    uncounted: Option<&'a Device>,
}

/// What a verdict rests on.
struct Evidence<'a> {
    planned: &'a PlannedCase,
    rows: &'a [&'a RoundRow],
    leaf_devices: Vec<&'a Device>,
    top: Count<'a>,
    leaf: Count<'a>,
}

impl Evidence<'_> {
    fn verdict(&self) -> (ReceiptVerdict, Vec<String>) {
        let case = &self.planned.case;
        let mut reasons = self.pollution();
        let polluted = !reasons.is_empty();
        let (Some(top), Some(leaf)) = (self.top.receipt, self.leaf.receipt) else {
            reasons.push(
                "no device with flush counters was found below this file system: nothing shows \
                 what reached it"
                    .to_owned(),
            );
            return (ReceiptVerdict::NoCounters, reasons);
        };
        if let Some(device) = self.leaf.uncounted {
            reasons.push(format!(
                "the kernel counts no flushes of {} ({}): nothing shows what reached it",
                device.name, device.kind
            ));
            return (ReceiptVerdict::NoCounters, reasons);
        }
        if let Some(device) = self.top.uncounted {
            reasons.push(format!(
                "the kernel counts no flushes of {} ({}): {} below it is judged alone",
                device.name, device.kind, leaf.device
            ));
        }
        if !case.promises_durability() {
            reasons.push(
                "NOT DURABLE: this case asks for no barrier that flushes the device".to_owned(),
            );
            return (ReceiptVerdict::NotAsked, reasons);
        }
        let (verdict, reason) = self.flushes(top, leaf);
        reasons.extend(reason);
        // Too few flushes stay too few, whatever else was written.
        let judged_by_count = verdict == ReceiptVerdict::Absent;
        (if polluted && !judged_by_count { ReceiptVerdict::Polluted } else { verdict }, reasons)
    }

    fn pollution(&self) -> Vec<String> {
        let own: u64 = self.rows.iter().map(|row| row.bytes).sum();
        let others: u64 = self.rows.iter().filter_map(|row| row.other_bytes).sum();
        let limit = (own as f64 * OTHERS_SHARE).max(OTHERS_FLOOR_BYTES as f64);
        if others as f64 <= limit {
            return Vec::new();
        }
        let most = self.rows.iter().max_by_key(|row| row.other_bytes);
        let name =
            most.and_then(|row| row.other_process.clone()).unwrap_or_else(|| "others".to_owned());
        vec![format!(
            "other processes wrote {} meanwhile, to this disk or another, {name} most of it: stop \
             them and measure again",
            units::bytes_human(others)
        )]
    }

    fn flushes(
        &self,
        top: &DeviceReceipt,
        leaf: &DeviceReceipt,
    ) -> (ReceiptVerdict, Option<String>) {
        let seen = format!("{:.2} flushes per barrier on {}", leaf.flushes, leaf.device);
        let fewest = expected_at_least(&self.planned.case);
        let top_fits = self.top.uncounted.is_some() || top.flushes >= fewest;
        if leaf.flushes >= fewest && top_fits {
            // The counts stand in the table; there is nothing to explain.
            return (ReceiptVerdict::Issued, None);
        }
        if self.all_leaves(|device| device.write_cache.as_deref() == Some("write through")) {
            let reason = format!(
                "{seen}: the kernel takes {} for write-through and sends no flushes; safe only if \
                 that is true of the drive",
                leaf.device
            );
            return (ReceiptVerdict::Elided, Some(reason));
        }
        let fua = self.all_leaves(|device| device.fua == Some(true));
        if fua && may_use_fua(&self.planned.case) && leaf.writes >= fewest {
            return (
                ReceiptVerdict::FuaPossible,
                Some(format!(
                    "{seen}: the device offers FUA, and such writes carry it instead of a flush"
                )),
            );
        }
        let reason = format!(
            "{seen}, where at least {fewest:.2} would show that every barrier arrived: barriers \
             reached no device"
        );
        (ReceiptVerdict::Absent, Some(reason))
    }

    /// Whether every leaf disk is so: the weakest decides what a missing flush means.
    fn all_leaves(&self, is_so: impl Fn(&Device) -> bool) -> bool {
        !self.leaf_devices.is_empty() && self.leaf_devices.iter().all(|device| is_so(device))
    }
}

/// Fewest flushes per barrier that show that barriers arrived. Barriers of several threads may
/// share a flush: a device has one in flight, and whoever waits meanwhile is served by the next.
fn expected_at_least(case: &Case) -> f64 {
    let independent = case.writers > 1 && (case.sharing == Sharing::Own || case.files > 1);
    let group_of_fused = case.writers > 1 && !independent && case.barrier.is_part_of_write();
    if independent || group_of_fused || case.barrier == Barrier::Uring && case.writers > 1 {
        ALL / f64::from(case.writers)
    } else if case.files > 1 && case.barrier != Barrier::Syncfs {
        // A journal commit for one file can cover the next ones, whose fdatasync then has nothing
        // to do.
        1.0 / f64::from(case.files)
    } else {
        ALL
    }
}

fn may_use_fua(case: &Case) -> bool {
    case.barrier.is_part_of_write() && case.io == IoMode::Direct
}

/// The file's extents over the first round.
fn extents(rows: &[&RoundRow]) -> Option<ExtentReceipt> {
    let row = rows.first()?;
    let moved = match (row.first_block_before, row.first_block_after) {
        (Some(before), Some(after)) => Some(before == after),
        _ => None,
    };
    Some(ExtentReceipt {
        extents: (row.extents_before?, row.extents_after?),
        unwritten_bytes: (row.unwritten_before?, row.unwritten_after?),
        first_block_unmoved: moved,
        eof_fixed: row.eof_before == row.eof_after,
    })
}

#[cfg(test)]
#[path = "receipt_tests.rs"]
mod tests;
