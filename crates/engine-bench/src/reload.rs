//! Reads a run directory again: what it says can be rebuilt from its data at any time.

use std::path::Path;

use highwater_report::run_dir::{MANIFEST, OUTCOME, ROUNDS, RunError};
use highwater_stats::LatencyHistogram;
use serde::de::DeserializeOwned;

use crate::data::{Manifest, Outcome, SCHEMA_VERSION};
use crate::runner::{Data, SCENES};
use crate::session::{PRESET, samples_name};

/// A run as it was kept.
#[derive(Debug)]
pub struct Kept {
    /// What it was going to do.
    pub manifest: Manifest,
    /// What it measured.
    pub data: Data,
}

/// Whether a directory holds a run of this kind.
pub fn is_ours(path: &Path) -> bool {
    let text = std::fs::read(path.join(MANIFEST)).unwrap_or_default();
    let manifest = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
    manifest["preset"] == PRESET
}

/// Reads a run; one that was killed has what it had measured, but no latencies.
///
/// # Errors
/// A file that is damaged, or was written by a newer program.
pub fn load(path: &Path) -> Result<Kept, RunError> {
    let manifest = json::<Manifest>(&path.join(MANIFEST))?
        .ok_or_else(|| RunError::NotARun(path.to_owned()))?;
    if manifest.schema_version > SCHEMA_VERSION {
        return Err(RunError::NewerSchema {
            path: path.join(MANIFEST),
            found: manifest.schema_version,
            known: SCHEMA_VERSION,
            written_by: Some(manifest.highwater_version),
        });
    }
    let mut data = Data {
        rows: rows(&path.join(ROUNDS))?,
        scene_rows: rows(&path.join(SCENES))?,
        ..Data::default()
    };
    if let Some(outcome) = json::<Outcome>(&path.join(OUTCOME))? {
        data.was_interrupted = outcome.interrupted;
        data.has_failed = outcome.has_failed;
        data.loop_cost_ns = outcome.loop_cost_ns;
        for stopped in outcome.stopped {
            data.stopped.insert((stopped.id, stopped.subject), stopped.reason);
        }
    }
    for planned in &manifest.cases {
        for subject in &planned.subjects {
            let key = (planned.id.clone(), subject.clone());
            let path = path.join(samples_name(&key));
            if let Some(bytes) = read(&path)? {
                let latency = LatencyHistogram::from_bytes(&bytes);
                data.latency.insert(key, latency.map_err(|error| bad(&path, &error))?);
            }
        }
    }
    Ok(Kept { manifest, data })
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, RunError> {
    let Some(bytes) = read(path)? else { return Ok(Vec::new()) };
    let rows: Result<Vec<T>, csv::Error> =
        csv::Reader::from_reader(bytes.as_slice()).deserialize().collect();
    rows.map_err(|error| bad(path, &error))
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RunError> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| bad(path, &error))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, RunError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RunError::Io {
            action: "read",
            path: path.to_owned(),
            source,
            next_step: "check who owns the directory",
        }),
    }
}

fn bad(path: &Path, problem: &impl ToString) -> RunError {
    RunError::Malformed { path: path.to_owned(), line: 0, problem: problem.to_string() }
}
