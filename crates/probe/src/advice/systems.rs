//! What the numbers mean for etcd, PostgreSQL, RocksDB, InnoDB and Redis.
//!
//! Each system is held against the case that writes as its log does by default; sources are each
//! project's own documentation. A threshold is shown only where the project publishes one.

use highwater_report::case::{Barrier, Case, FileState, IoMode};
use highwater_report::data::RunData;
use highwater_report::results::{
    CaseResult, Comparison, Results, SystemAdvice, SystemSetting, Threshold,
};
use highwater_stats::{Verdict, units};

use super::{Knee, path};
use crate::analyse::change;
use crate::analyse::compare::{Measure, Terms, pair};

/// The measured paths of one run.
struct Paths<'a> {
    data: &'a RunData,
    cases: &'a [&'a CaseResult],
    results: &'a Results,
}

/// The longest `commit_delay` that PostgreSQL takes, us.
const MOST_COMMIT_DELAY_US: u64 = 100_000;

/// Gives the advice for every system.
pub fn all(data: &RunData, cases: &[&CaseResult], results: &Results) -> Vec<SystemAdvice> {
    let paths = Paths { data, cases, results };
    vec![paths.etcd(), paths.postgresql(), paths.rocksdb(), paths.innodb(), paths.redis()]
}

impl<'a> Paths<'a> {
    fn find(&self, state: FileState, io: IoMode, barrier: Barrier) -> Option<&'a CaseResult> {
        let block = self.cases.first()?.case.block;
        let wanted = Case { state, io, barrier, block, ..Case::DEFAULT };
        self.cases.iter().copied().find(|case| case.case == wanted)
    }

    /// What changing from one path to another does, with its interval. Nothing where barriers of
    /// either went missing.
    fn effect(
        &self,
        from: Option<&CaseResult>,
        to: Option<&CaseResult>,
    ) -> Option<(Comparison, String)> {
        let (from, to) = (from.filter(|case| path::arrived(case))?, to?);
        if !path::arrived(to) {
            return None;
        }
        let found = pair(self.data, &from.id, &to.id, &Terms::by(Measure::P50))?;
        let ratio = &found.ratio;
        let interval = format!("{:.2} to {:.2}", ratio.low, ratio.high);
        let text = match found.verdict {
            Verdict::NoDifference => format!("no difference worth having here (ratio {interval})"),
            Verdict::Inconclusive => format!("not settled by this run (ratio {interval})"),
            Verdict::Faster | Verdict::Slower => {
                format!("{} per commit here (ratio {interval})", change(ratio.ratio))
            }
        };
        Some((found, text))
    }

    fn etcd(&self) -> SystemAdvice {
        let case = self.find(FileState::Allocated, IoMode::Buffered, Barrier::Fdatasync);
        let mut advice = system(
            "etcd",
            "WAL segments of 64 MB reserved with fallocate, page cache, fdatasync",
            case,
        );
        // Times of barriers that reached no device pass or fail nothing.
        if let Some(p99_ns) = advice.p50_p99_ns.map(|(_, p99_ns)| p99_ns) {
            let threshold = |name: &str, limit_ns, source: &str| Threshold {
                name: name.to_owned(),
                limit_ns,
                measured_ns: p99_ns,
                pass: p99_ns < limit_ns,
                source: source.to_owned(),
            };
            advice.thresholds = vec![
                threshold(
                    "p99 of WAL fsync",
                    10_000_000,
                    "etcd documentation, metrics: wal_fsync_duration_seconds",
                ),
                threshold(
                    "p99 of WAL fsync under heavy load",
                    2_000_000,
                    "etcd documentation, hardware: disks; 500 sequential IOPS",
                ),
            ];
        }
        let better = self.find(FileState::Initialised, IoMode::Buffered, Barrier::Fdatasync);
        if let Some((_, effect)) = self.effect(case, better) {
            advice.settings.push(setting(
                "--wal-dir on this disk",
                &format!(
                    "a disk of its own keeps other writers' flushes out of the tail. etcd reserves \
                     its segments and cannot be told to write them out; what that would do: \
                     {effect}"
                ),
            ));
        }
        advice
    }

    fn postgresql(&self) -> SystemAdvice {
        let case = self.find(FileState::Initialised, IoMode::Buffered, Barrier::Fdatasync);
        let mut advice = system(
            "PostgreSQL",
            "WAL segments of 16 MB, zeroed (wal_init_zero) and recycled, page cache, fdatasync",
            case,
        );
        let direct = self.find(FileState::Initialised, IoMode::Direct, Barrier::ODsync);
        let method = match self.effect(case, direct) {
            Some((found, text)) if found.verdict == Verdict::Faster => setting(
                "wal_sync_method = fdatasync",
                &format!(
                    "open_datasync would only pay with direct I/O ({text}), which debug_io_direct \
                     = wal offers for tests alone"
                ),
            ),
            Some((_, text)) => {
                setting("wal_sync_method = fdatasync", &format!("open_datasync: {text}"))
            }
            None => setting("wal_sync_method = fdatasync", "the default on Linux"),
        };
        advice.settings.push(method);
        let appended = self.find(FileState::Append, IoMode::Buffered, Barrier::Fdatasync);
        let kept = self.effect(case, appended).map_or_else(
            || "the defaults".to_owned(),
            |(_, text)| format!("growing files instead: {text}"),
        );
        advice.settings.push(setting("wal_init_zero = on, wal_recycle = on", &kept));
        let knee = case.and_then(|case| Knee::of(self.results, case));
        let batching = knee.filter(|knee| knee.records >= 2.0);
        if let (Some(knee), Some((p50_ns, _))) = (batching, advice.p50_p99_ns) {
            let half_us = (p50_ns / 2 / 1000).min(MOST_COMMIT_DELAY_US);
            advice.settings.push(setting(
                &format!("commit_delay = {half_us}"),
                &format!(
                    "half a flush, in us, {MOST_COMMIT_DELAY_US} at most, and only with \
                     commit_siblings met: batching pays up to about {:.0} commits per flush",
                    knee.records
                ),
            ));
        }
        advice
    }

    fn rocksdb(&self) -> SystemAdvice {
        let case = self.find(FileState::Append, IoMode::Buffered, Barrier::Fdatasync);
        let mut advice = system(
            "RocksDB",
            "a new WAL file that grows (fallocate keeps its size), page cache, fdatasync with sync \
             = true",
            case,
        );
        let recycled = self.find(FileState::Initialised, IoMode::Buffered, Barrier::Fdatasync);
        if let Some((_, effect)) = self.effect(case, recycled) {
            advice.settings.push(setting(
                "recycle_log_file_num = 4",
                &format!("writes into files that already have their length: {effect}"),
            ));
        }
        let fsync = self.find(FileState::Append, IoMode::Buffered, Barrier::Fsync);
        if let Some((_, effect)) = self.effect(case, fsync) {
            advice
                .settings
                .push(setting("use_fsync = false", &format!("the default; fsync: {effect}")));
        }
        advice
    }

    fn innodb(&self) -> SystemAdvice {
        let case = self.find(FileState::Initialised, IoMode::Buffered, Barrier::Fsync);
        let mut advice = system(
            "InnoDB",
            "redo log files of fixed length, written out, page cache, fsync with \
             innodb_flush_log_at_trx_commit = 1",
            case,
        );
        let fdatasync = self.find(FileState::Initialised, IoMode::Buffered, Barrier::Fdatasync);
        if let Some((_, effect)) = self.effect(case, fdatasync) {
            advice.settings.push(setting(
                "innodb_use_fdatasync = ON",
                &format!("fdatasync for fsync: {effect}"),
            ));
        }
        advice.settings.push(setting(
            "innodb_flush_log_at_trx_commit = 1",
            "2 or 0 acknowledge commits that a power cut takes",
        ));
        advice
    }

    fn redis(&self) -> SystemAdvice {
        let case = self.find(FileState::Append, IoMode::Buffered, Barrier::Fdatasync);
        let mut advice = system(
            "Redis",
            "an append-only file that grows, page cache, fdatasync with appendfsync always",
            case,
        );
        if let Some((p50_ns, _)) = advice.p50_p99_ns {
            advice.settings.push(setting(
                "appendfsync always",
                &format!(
                    "costs {} at the median for each event-loop turn with writes; pipelining \
                     shares it",
                    units::duration_ns(p50_ns)
                ),
            ));
        }
        advice.settings.push(setting(
            "appendfsync everysec",
            "acknowledges about a second of writes that a power cut takes",
        ));
        advice
    }
}

/// Holds a system against its case. Times of a case whose barriers went missing are not shown: they
/// are no times of commits.
fn system(name: &str, writes: &str, case: Option<&CaseResult>) -> SystemAdvice {
    let sound = case.filter(|case| path::arrived(case));
    let missing = if case.is_some() && sound.is_none() {
        "; its barriers reached no device here, so that no time of it counts"
    } else {
        ""
    };
    SystemAdvice {
        system: name.to_owned(),
        writes: format!("{writes}{missing}"),
        case_id: case.map(|case| case.id.clone()),
        p50_p99_ns: sound.and_then(|case| case.commit.as_ref()).map(|c| (c.p50_ns, c.p99_ns)),
        settings: Vec::new(),
        thresholds: Vec::new(),
    }
}

fn setting(setting: &str, why: &str) -> SystemSetting {
    SystemSetting { setting: setting.to_owned(), why: why.to_owned() }
}
