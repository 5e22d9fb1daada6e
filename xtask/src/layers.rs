//! Who may import whom, and who may use which outside library. Everything else is forbidden.
//!
//! The two tables are the rule; the rest reads `cargo metadata --no-deps` and compares.

use serde_json::Value;

/// Name that the packages of the workspace begin with.
const PREFIX: &str = "highwater-";

/// Each crate and what it may import. `log` and what stands on it reach the disk only through the
/// seam that the simulated disk replaces: for them, `sys` is out of reach. `torture` has it to shut
/// file systems down and to kill processes, and reaches its stores through the seam all the same.
const MAY_IMPORT: [(&str, &[&str]); 13] = [
    ("sys", &[]),
    ("disk", &["sys"]),
    ("log", &["disk"]),
    ("streams", &["disk", "log"]),
    ("server", &["disk", "log", "streams"]),
    ("stats", &[]),
    ("report", &["stats"]),
    ("probe", &["sys", "stats", "report"]),
    ("load", &["stats", "report"]),
    ("torture", &["sys", "stats", "report", "disk", "log", "streams"]),
    // It measures the machine as much as the log: the disk's counters, the process's own use.
    ("engine-bench", &["sys", "disk", "log", "stats", "report", "probe"]),
    (
        "highwater",
        &[
            "sys",
            "disk",
            "log",
            "streams",
            "server",
            "stats",
            "report",
            "probe",
            "load",
            "torture",
            "engine-bench",
        ],
    ),
    ("xtask", &[]),
];

/// A family of outside libraries with few homes.
struct Family {
    what: &'static str,
    /// Names; a name stands also for those that begin with it and a dash.
    libraries: &'static [&'static str],
    homes: &'static [&'static str],
}

const FAMILIES: [Family; 5] = [
    Family {
        what: "async code",
        libraries: &["tokio", "async-std", "smol", "futures"],
        homes: &["streams", "server", "load", "highwater"],
    },
    Family { what: "HTTP", libraries: &["hyper", "http", "rustls"], homes: &["server", "load"] },
    Family { what: "arguments", libraries: &["clap"], homes: &["highwater", "xtask"] },
    Family {
        what: "errors without a kind",
        libraries: &["anyhow", "eyre"],
        homes: &["highwater", "xtask"],
    },
    Family {
        what: "system calls",
        libraries: &["libc", "rustix", "io-uring", "nix"],
        homes: &["sys"],
    },
];

/// Checks every package that `cargo metadata --no-deps` lists.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let Some(packages) = metadata["packages"].as_array().filter(|list| !list.is_empty()) else {
        return vec!["cargo metadata lists no packages".to_owned()];
    };
    packages.iter().flat_map(check_package).collect()
}

/// Checks one package's dependencies, those of tests and build scripts too.
fn check_package(package: &Value) -> Vec<String> {
    let name = short_name(&package["name"]);
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name}: not in the table of crates (xtask/src/layers.rs)")];
    };
    let mut findings = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let other = short_name(&dependency["name"]);
        if dependency["source"].as_str().is_some_and(|source| source.starts_with("git+")) {
            findings.push(format!("{name} takes {other} from git: only released versions"));
        }
        if dependency["path"].is_string() && !allowed.contains(&other) {
            findings.push(format!("{name} imports {other}: it may import {}", listed(allowed)));
        }
        for family in FAMILIES.iter().filter(|family| family.has(other)) {
            if !family.homes.contains(&name) {
                let (what, homes) = (family.what, listed(family.homes));
                findings.push(format!("{name} uses {other}: {what} only in {homes}"));
            }
        }
    }
    findings
}

impl Family {
    /// Whether the library belongs here.
    fn has(&self, library: &str) -> bool {
        self.libraries.iter().any(|name| {
            library.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    }
}

/// A package's name without the project's.
fn short_name(name: &Value) -> &str {
    let name = name.as_str().unwrap_or_default();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Names in a row, for people.
fn listed(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, ours: &[&str], others: &[&str]) -> Value {
        let ours = ours.iter().map(|name| json!({ "name": name, "path": "/x", "source": null }));
        let others = others.iter().map(|name| json!({ "name": name, "source": "registry+x" }));
        json!({ "name": name, "dependencies": ours.chain(others).collect::<Vec<_>>() })
    }

    fn findings(packages: &[Value]) -> Vec<String> {
        check(&json!({ "packages": packages }))
    }

    #[test]
    fn imports_along_the_arrows_are_allowed() {
        let probe = package("highwater-probe", &["highwater-stats", "highwater-sys"], &["serde"]);
        let sys = package("highwater-sys", &[], &["libc", "rustix"]);
        let binary = package("highwater", &["highwater-probe"], &["clap", "clap_complete"]);
        assert_eq!(findings(&[probe, sys, binary]), Vec::<String>::new());
    }

    #[test]
    fn imports_against_the_arrows_are_found() {
        let against = [
            ("highwater-stats", "highwater-report"),
            ("highwater-log", "highwater-sys"),
            ("highwater-load", "highwater-server"),
            ("highwater-sys", "highwater-stats"),
        ];
        for (from, to) in against {
            assert_eq!(findings(&[package(from, &[to], &[])]).len(), 1, "{from} to {to}");
        }
    }

    #[test]
    fn libraries_outside_their_homes_are_found() {
        for (name, library) in [
            ("highwater-log", "tokio-util"),
            ("highwater-probe", "rustix"),
            ("highwater-report", "anyhow"),
            ("highwater-torture", "hyper"),
        ] {
            assert_eq!(findings(&[package(name, &[], &[library])]).len(), 1, "{name} {library}");
        }
        assert!(findings(&[package("highwater-stats", &[], &["libcruft"])]).is_empty());
    }

    #[test]
    fn an_unknown_crate_and_an_empty_list_are_found() {
        assert!(findings(&[package("highwater-misc", &[], &[])])[0].contains("not in the table"));
        assert_eq!(findings(&[]).len(), 1);
    }

    #[test]
    fn a_dependency_from_git_is_found() {
        let dependency = json!({ "name": "serde", "source": "git+https://example.org/serde" });
        let package = json!({ "name": "highwater-stats", "dependencies": [dependency] });
        assert!(findings(&[package])[0].contains("from git"));
    }
}
