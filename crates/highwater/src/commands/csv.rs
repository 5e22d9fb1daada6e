//! `--csv`: the rows of a run in a file of the user's choice.
//!
//! The file is made before anything is measured, so that a name that cannot be used costs no time,
//! and removed again when there is nothing to keep in it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use highwater_report::results::CaseStatus;
use highwater_report::run_dir::ROUNDS;

use super::measured::Ran;
use crate::output;

/// A new file; removed when dropped without having been filled.
pub struct NewCsv {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl NewCsv {
    /// Makes the file; one that exists is not overwritten.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create_new(path).map_err(|error| {
            let exists = error.kind() == ErrorKind::AlreadyExists;
            let hint = if exists { "exists, and is not overwritten" } else { "cannot be made" };
            let what = format!("{} {hint}: name a new file for --csv", path.display());
            anyhow::Error::new(error).context(what)
        })?;
        Ok(Self { path: path.to_owned(), file, is_kept: false })
    }

    /// Copies the rows of cases that have results.
    pub fn fill(mut self, ran: &Ran) -> Result<()> {
        let from = ran.run_dir.path().join(ROUNDS);
        let rows = match std::fs::read_to_string(&from) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", from.display()))?,
        };
        let measured: BTreeSet<&str> = ran
            .results
            .cases
            .iter()
            .filter(|case| case.status == CaseStatus::Measured)
            .map(|case| case.id.as_str())
            .collect();
        if measured.is_empty() {
            output::say(&format!("nothing was measured: {} is not kept", self.path.display()));
            return Ok(());
        }
        self.is_kept = true;
        self.file
            .write_all(rows_of(&rows, &measured).as_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for NewCsv {
    fn drop(&mut self) {
        if !self.is_kept {
            // An empty file that stays behind is not worth hiding the first error.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// The header, and the rows of these cases: ids stand first, and are never quoted.
fn rows_of(text: &str, ids: &BTreeSet<&str>) -> String {
    let mut lines = text.split_inclusive('\n');
    let header = lines.next().unwrap_or_default();
    let mut is_kept = false;
    let mut is_quoted = false;
    let kept = lines.filter(|line| {
        // A line that begins inside quotes goes on with the row before it.
        if !is_quoted {
            is_kept = line.split(',').next().is_some_and(|id| ids.contains(id));
        }
        is_quoted ^= line.matches('"').count() % 2 == 1;
        is_kept
    });
    std::iter::once(header).chain(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_the_cases_are_kept_whatever_their_fields_hold() {
        let text = "case_id,round,process\nc1,0,\"77 (a\nc2,b)\"\nc2,0,\"say \"\"hi\"\"\"\nc1,1,\n";
        let kept = rows_of(text, &BTreeSet::from(["c1"]));
        assert_eq!(kept, "case_id,round,process\nc1,0,\"77 (a\nc2,b)\"\nc1,1,\n");
        let other = rows_of(text, &BTreeSet::from(["c2"]));
        assert_eq!(other, "case_id,round,process\nc2,0,\"say \"\"hi\"\"\"\n");
        assert_eq!(rows_of("", &BTreeSet::from(["c1"])), "");
    }

    #[test]
    fn a_file_that_was_not_filled_is_removed_and_one_that_exists_is_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        drop(NewCsv::create(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert!(NewCsv::create(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
