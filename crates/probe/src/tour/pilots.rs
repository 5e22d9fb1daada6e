//! Tries each case of a tour once, briefly: how long it takes, and whether it works at all.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use highwater_report::data::{PlannedCase, StopReason};

use crate::error::{CaseError, ProbeError};
use crate::plan::Plan;
use crate::site::Site;
use crate::trial::{self, Measured, Surroundings};
use crate::work_dir::WorkDir;

/// What trying a case found.
#[derive(Debug)]
pub struct Pilot {
    /// Time outside the measured interval.
    pub overhead: Duration,
    /// Measured time per write.
    pub per_write: Duration,
}

/// What trying all cases found, by case id.
#[derive(Debug, Default)]
pub struct Tried {
    /// Cases that work.
    pub pilots: BTreeMap<String, Pilot>,
    /// Cases that do not.
    pub stopped: BTreeMap<String, StopReason>,
}

/// Runs each case once. The first failure ends it: the disk's word has lost its worth (M1).
///
/// # Errors
/// When the working directory cannot be made or removed.
pub fn run(plan: &Plan, site: &Site, stop: &AtomicBool) -> Result<Tried, ProbeError> {
    let mut work = WorkDir::create(&site.dir)?;
    let around = Surroundings {
        chain: &site.chain,
        stop,
        seed: plan.settings.seed,
        memory_align: site.memory_align(),
    };
    let tried = each(plan, |planned| match work.case_dir() {
        Ok(dir) => trial::run(planned, &dir, &around),
        Err(error) => Err(CaseError::Failed(error.to_string())),
    });
    // After a failure the directory may not go either; the failure is what must be told.
    match work.close() {
        Err(error) if !has_failed(&tried) => Err(error),
        _ => Ok(tried),
    }
}

fn has_failed(tried: &Tried) -> bool {
    tried.stopped.values().any(|reason| matches!(reason, StopReason::Failed(_)))
}

fn each(
    plan: &Plan,
    mut attempt: impl FnMut(&PlannedCase) -> Result<Measured, CaseError>,
) -> Tried {
    let mut tried = Tried::default();
    for planned in plan.runnable() {
        let began = Instant::now();
        let reason = match attempt(planned) {
            Ok(measured) => {
                tried.pilots.insert(planned.id.clone(), pilot(planned, &measured, began.elapsed()));
                continue;
            }
            Err(CaseError::Interrupted) => break,
            Err(CaseError::Unsupported(reason)) => StopReason::Unsupported(reason),
            Err(CaseError::Failed(reason)) => StopReason::Failed(reason),
        };
        tried.stopped.insert(planned.id.clone(), reason);
        if has_failed(&tried) {
            break;
        }
    }
    tried
}

fn pilot(planned: &PlannedCase, measured: &Measured, whole: Duration) -> Pilot {
    let inside = Duration::from_nanos(measured.trace.elapsed_ns);
    let writes = u32::try_from(planned.iterations).unwrap_or(u32::MAX).max(1);
    Pilot { overhead: whole.saturating_sub(inside), per_write: inside / writes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tour;
    use highwater_report::data::Settings;

    #[test]
    fn a_failure_is_carried_out_with_its_case_and_ends_the_trying() {
        // M1
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let site = Site::open(dir.path()).unwrap();
        let settings = Settings { rounds: 0, seconds: None, seed: 1, max_bytes: None };
        let draft = tour::draft(&site, 5.0, &settings).unwrap();
        let ids: Vec<String> = draft.plan.runnable().map(|case| case.id.clone()).collect();
        let mut attempts = 0;
        let tried = each(&draft.plan, |planned| {
            attempts += 1;
            Err(if planned.id == ids[3] {
                CaseError::Failed("fdatasync: EIO".to_owned())
            } else {
                CaseError::Unsupported("not here".to_owned())
            })
        });
        assert_eq!(attempts, 4);
        let failed = StopReason::Failed("fdatasync: EIO".to_owned());
        assert_eq!(tried.stopped.get(&ids[3]), Some(&failed));
        assert_eq!(tried.stopped.len(), 4, "{:?}", tried.stopped);
        assert!(has_failed(&tried) && tried.pilots.is_empty());
    }

    #[test]
    fn an_interrupt_stops_no_case() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let site = Site::open(dir.path()).unwrap();
        let settings = Settings { rounds: 0, seconds: None, seed: 1, max_bytes: None };
        let draft = tour::draft(&site, 5.0, &settings).unwrap();
        let tried = each(&draft.plan, |_| Err(CaseError::Interrupted));
        assert!(tried.stopped.is_empty() && tried.pilots.is_empty());
    }
}
