//! The run directory: where a run's data is kept, and read back from.
//!
//! Data files are created once and never rewritten; derived files may be rebuilt. `rounds.csv`
//! grows row by row, so a run that is killed keeps what it has measured. Nothing here is synced:
//! a power cut may take the run with it, and the next run is a new measurement anyway.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

#[cfg(doc)]
use crate::data::{Manifest, RoundRow};
use crate::data::{Outcome, RunData, Samples, SeriesRow};
pub use crate::run_error::RunError;
use crate::run_load;

/// File of the [`Manifest`].
pub const MANIFEST: &str = "manifest.json";
/// File of the [`RoundRow`]s.
pub const ROUNDS: &str = "rounds.csv";
/// File of the [`SeriesRow`]s.
pub const SERIES: &str = "series.csv";
/// Directory of the [`Samples`].
pub const SAMPLES: &str = "samples";
/// File of the [`Outcome`].
pub const OUTCOME: &str = "outcome.json";
/// Derived: what the data says.
pub const RESULTS: &str = "results.json";
/// Derived: the report page.
pub const REPORT: &str = "report.html";
/// Derived: the advised write path, for programs.
pub const PROFILE: &str = "profile.toml";

const NAME_MAX_BYTES: usize = 64;
const SAME_NAME_MAX: u32 = 1000;

/// One run's directory.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    rows: BTreeMap<&'static str, csv::Writer<File>>,
}

impl RunDir {
    /// Creates `<parent>/<date>-<name>`, or with `-2`, `-3` ... appended where that exists.
    ///
    /// # Errors
    /// A name or date that cannot be used, or a directory that cannot be created.
    pub fn create(parent: &Path, name: &str, date: &str) -> Result<Self, RunError> {
        check_name(name)?;
        check_date(date)?;
        fs::create_dir_all(parent).map_err(|e| RunError::io("create", parent, e))?;
        let mut path = parent.join(format!("{date}-{name}"));
        for number in 2..=SAME_NAME_MAX {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, rows: BTreeMap::new() }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    path = parent.join(format!("{date}-{name}-{number}"));
                }
                Err(e) => return Err(RunError::io("create", &path, e)),
            }
        }
        Err(RunError::io("create", &path, io::ErrorKind::AlreadyExists.into()))
    }

    /// Opens an existing run, to read it or to rebuild its derived files.
    ///
    /// # Errors
    /// The path holds no run.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if path.join(MANIFEST).is_file() {
            Ok(Self { path: path.to_owned(), rows: BTreeMap::new() })
        } else {
            Err(RunError::NotARun(path.to_owned()))
        }
    }

    /// Tells where the run is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the run's data, also of a run that was killed.
    ///
    /// # Errors
    /// A file that is damaged, or was written by a newer program.
    pub fn load(&self) -> Result<RunData, RunError> {
        run_load::load(&self.path)
    }

    /// Writes the manifest: a [`Manifest`], or what runs of another kind have for one.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn write_manifest(&self, manifest: &impl Serialize) -> Result<(), RunError> {
        self.write_new(MANIFEST, &to_json(manifest))
    }

    /// Appends a row to `rounds.csv` and hands it to the kernel: a [`RoundRow`], or what runs of
    /// another kind have for one.
    ///
    /// # Errors
    /// The file exists from another run or cannot be written.
    pub fn append_round(&mut self, row: &impl Serialize) -> Result<(), RunError> {
        self.append_row(ROUNDS, row)
    }

    /// Appends a row to a file of rows and hands it to the kernel.
    ///
    /// # Errors
    /// The file exists from another run or cannot be written.
    pub fn append_row(&mut self, name: &'static str, row: &impl Serialize) -> Result<(), RunError> {
        check_name(name)?;
        let path = self.path.join(name);
        let writer = match self.rows.entry(name) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(csv::Writer::from_writer(create_new(&path)?)),
        };
        writer.serialize(row).map_err(|e| RunError::io("write", &path, e.into()))?;
        writer.flush().map_err(|e| RunError::io("write", &path, e))
    }

    /// Writes what is known at the end; the outcome comes last, so its presence means all of it.
    ///
    /// # Errors
    /// A file that exists or cannot be written, or a case id that cannot be a file name.
    pub fn finish(
        &self,
        outcome: &Outcome,
        series: &[SeriesRow],
        samples: &BTreeMap<String, Samples>,
    ) -> Result<(), RunError> {
        let path = self.path.join(SERIES);
        let mut writer = csv::Writer::from_writer(create_new(&path)?);
        for row in series {
            writer.serialize(row).map_err(|e| RunError::io("write", &path, e.into()))?;
        }
        writer.flush().map_err(|e| RunError::io("write", &path, e))?;
        self.write_samples(samples)?;
        self.write_new(OUTCOME, &to_json(outcome))
    }

    fn write_samples(&self, samples: &BTreeMap<String, Samples>) -> Result<(), RunError> {
        let directory = self.path.join(SAMPLES);
        fs::create_dir(&directory).map_err(|e| RunError::io("create", &directory, e))?;
        for (id, samples) in samples {
            check_name(id)?;
            for (part, histogram) in parts(samples) {
                let name = format!("{SAMPLES}/{id}.{part}.hdr");
                self.write_new(&name, &histogram.to_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes a derived file that does not exist yet.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        check_name(name)?;
        self.write_new(name, bytes)
    }

    /// Writes a derived file anew, whether or not it exists; readers see the old or the new one.
    ///
    /// # Errors
    /// The name is that of a data file, or the file cannot be written.
    pub fn replace_derived(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        check_name(name)?;
        if [MANIFEST, ROUNDS, SERIES, SAMPLES, OUTCOME].contains(&name) {
            let problem = "is a data file, which is never rewritten";
            return Err(RunError::BadName { name: name.to_owned(), problem });
        }
        let temporary = format!(".{name}.{}.tmp", std::process::id());
        let from = self.path.join(&temporary);
        if let Err(error) = self.write_new(&temporary, bytes) {
            if !matches!(&error, RunError::Io { action: "create", .. }) {
                remove_quietly(&from);
            }
            return Err(error);
        }
        put_in_place(&from, &self.path.join(name)).inspect_err(|_| remove_quietly(&from))
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let path = self.path.join(name);
        let mut file = create_new(&path)?;
        file.write_all(bytes).map_err(|e| RunError::io("write", &path, e))
    }
}

/// The three histograms of a case with the name each has in its file.
pub(crate) fn parts(samples: &Samples) -> [(&'static str, &highwater_stats::LatencyHistogram); 3] {
    [("commit", &samples.commit), ("write", &samples.write), ("barrier", &samples.barrier)]
}

/// Checks that a name can be one component of a path, whoever chose it.
///
/// # Errors
/// It cannot.
pub fn check_name(name: &str) -> Result<(), RunError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > NAME_MAX_BYTES {
        "is too long"
    } else if name.starts_with('.') {
        "starts with a dot"
    } else if !name.chars().all(allowed) {
        "holds a character that is not allowed"
    } else {
        return Ok(());
    };
    Err(RunError::BadName { name: name.to_owned(), problem })
}

fn check_date(date: &str) -> Result<(), RunError> {
    let is_date = date.len() == 10 && date.parse::<jiff::civil::Date>().is_ok();
    if is_date { Ok(()) } else { Err(RunError::BadDate(date.to_owned())) }
}

fn create_new(path: &Path) -> Result<File, RunError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| RunError::io("create", path, e))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("keys are strings, so it is JSON");
    bytes.push(b'\n');
    bytes
}

#[expect(
    clippy::disallowed_methods,
    reason = "derived files need no durability: rebuilt from data"
)]
fn put_in_place(from: &Path, to: &Path) -> Result<(), RunError> {
    fs::rename(from, to).map_err(|e| RunError::io("replace", to, e))
}

/// Removes a temporary file; that it stays behind is not worth hiding the first error.
fn remove_quietly(path: &Path) {
    drop(fs::remove_file(path));
}

#[cfg(test)]
mod tests;
