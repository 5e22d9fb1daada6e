//! Reads a run directory, as far as the run came.
//!
//! A killed run has no outcome, perhaps no samples, and its last row may be torn: that much is
//! normal and is read without complaint. Damage anywhere else is an error.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use highwater_stats::LatencyHistogram;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::data::{Manifest, Outcome, PlannedCase, RunData, SCHEMA_VERSION, Samples};
use crate::run_dir::{MANIFEST, OUTCOME, ROUNDS, RunError, SAMPLES, SERIES, check_name};

/// Whether the run came to its end, so that every file must be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Finished,
    Killed,
}

/// The part of a manifest that every version has.
#[derive(Deserialize)]
struct Versions {
    schema_version: u32,
    highwater_version: Option<String>,
}

pub(crate) fn load(directory: &Path) -> Result<RunData, RunError> {
    let manifest = load_manifest(directory)?;
    let outcome = load_outcome(directory)?;
    let ending = if outcome.is_some() { Ending::Finished } else { Ending::Killed };
    Ok(RunData {
        rounds: load_rows(&directory.join(ROUNDS), ending)?,
        series: load_rows(&directory.join(SERIES), ending)?,
        samples: load_samples(directory, &manifest.cases, ending)?,
        manifest,
        outcome,
    })
}

fn load_manifest(directory: &Path) -> Result<Manifest, RunError> {
    let path = directory.join(MANIFEST);
    let Some(bytes) = read_if_there(&path)? else {
        return Err(RunError::NotARun(directory.to_owned()));
    };
    let versions: Versions = parse_json(&path, &bytes)?;
    if versions.schema_version > SCHEMA_VERSION {
        return Err(RunError::NewerSchema {
            path,
            found: versions.schema_version,
            known: SCHEMA_VERSION,
            written_by: versions.highwater_version,
        });
    }
    parse_json(&path, &bytes)
}

fn load_outcome(directory: &Path) -> Result<Option<Outcome>, RunError> {
    let path = directory.join(OUTCOME);
    let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(outcome) => Ok(Some(outcome)),
        // The file ends early: the run was killed while writing it.
        Err(e) if e.is_eof() => Ok(None),
        Err(e) => Err(json_error(&path, &e)),
    }
}

fn load_rows<T: DeserializeOwned>(path: &Path, ending: Ending) -> Result<Vec<T>, RunError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(Vec::new()) };
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() && ending == Ending::Finished {
        let line = bytes.split(|b| *b == b'\n').count();
        let line = u64::try_from(line).expect("a count of bytes in memory");
        return Err(RunError::malformed(path, line, &"the last line is cut short"));
    }
    // A number cut short is still a number, so a line without its end is never trusted.
    let mut reader = csv::Reader::from_reader(&bytes[..whole]);
    reader.deserialize().map(|row| row.map_err(|e| csv_error(path, &e))).collect()
}

fn csv_error(path: &Path, error: &csv::Error) -> RunError {
    let line = error.position().map_or(1, csv::Position::line);
    RunError::malformed(path, line, error)
}

fn load_samples(
    directory: &Path,
    cases: &[PlannedCase],
    ending: Ending,
) -> Result<BTreeMap<String, Samples>, RunError> {
    let mut all = BTreeMap::new();
    for case in cases {
        // The id comes from a file: it must not lead out of the directory.
        check_name(&case.id)?;
        let part = |part: &str| -> Result<Option<LatencyHistogram>, RunError> {
            let path = directory.join(SAMPLES).join(format!("{}.{part}.hdr", case.id));
            let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
            match LatencyHistogram::from_bytes(&bytes) {
                Ok(histogram) => Ok(Some(histogram)),
                Err(_) if ending == Ending::Killed => Ok(None),
                Err(e) => Err(RunError::malformed(&path, 1, &e)),
            }
        };
        if let Some(commit) = part("commit")? {
            let write = part("write")?.unwrap_or_default();
            let barrier = part("barrier")?.unwrap_or_default();
            all.insert(case.id.clone(), Samples { commit, write, barrier });
        }
    }
    Ok(all)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, RunError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(RunError::io("read", path, e)),
    }
}

fn parse_json<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, RunError> {
    serde_json::from_slice(bytes).map_err(|e| json_error(path, &e))
}

fn json_error(path: &Path, error: &serde_json::Error) -> RunError {
    let line = u64::try_from(error.line()).expect("a line number");
    RunError::malformed(path, line.max(1), error)
}
