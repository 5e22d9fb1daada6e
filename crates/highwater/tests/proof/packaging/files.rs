//! Takes the files of `packaging/` apart, and runs the program as they do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Answer, PROGRAM, read};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file of the repository.
#[track_caller]
pub fn file(path: &str) -> String {
    read(&root().join(path))
}

/// Runs the program in a directory, with these variables and no others of its own.
pub fn run(directory: &Path, variables: &[(String, String)], arguments: &[&str]) -> Answer {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HIGHWATER_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.current_dir(directory).args(arguments).output().expect("the program starts").into()
}

/// Values of the settings that were printed.
pub fn settings(printed: &str) -> BTreeMap<String, toml::Value> {
    let table: toml::Table = printed.parse().expect("what is printed is a configuration file");
    table.into_iter().collect()
}

/// A Dockerfile: instructions with what stands behind them, in order.
#[derive(Debug)]
pub struct Dockerfile(Vec<(String, String)>);

impl Dockerfile {
    /// Reads the project's.
    pub fn read() -> Self {
        let text = file("packaging/Dockerfile");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let joined = lines.join("\n").replace("\\\n", " ");
        let instructions = joined.lines().filter_map(|line| line.split_once(' '));
        let instructions =
            instructions.map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()));
        Self(instructions.collect())
    }

    /// What stands behind each instruction of a kind.
    pub fn all(&self, word: &str) -> Vec<&str> {
        let found = self.0.iter().filter(|(found, _)| found == word);
        found.map(|(_, rest)| rest.as_str()).collect()
    }

    /// What stands behind the only instruction of a kind.
    #[track_caller]
    pub fn only(&self, word: &str) -> &str {
        let all = self.all(word);
        assert_eq!(all.len(), 1, "{word}: {all:?}");
        all[0]
    }

    /// Words of an instruction that is a JSON list.
    #[track_caller]
    pub fn words(&self, word: &str) -> Vec<String> {
        serde_json::from_str(self.only(word)).expect("a list of words")
    }

    /// What the image puts into the environment.
    pub fn variables(&self) -> Vec<(String, String)> {
        let pairs = self.all("ENV").into_iter().flat_map(str::split_whitespace);
        let pairs = pairs.map(|pair| pair.split_once('=').expect("NAME=VALUE"));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// A unit of systemd: names with their values, in order.
#[derive(Debug)]
pub struct Unit(Vec<(String, String)>);

impl Unit {
    /// Reads the project's.
    pub fn read() -> Self {
        let text = file("packaging/highwater.service");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The only value of a name.
    #[track_caller]
    pub fn only(&self, name: &str) -> &str {
        let found: Vec<&str> =
            self.0.iter().filter(|(found, _)| found == name).map(|(_, value)| &**value).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    }
}
