//! What is packaged, and what the manual says: that files, flags, paths and ports which are named
//! there are those of the program. The image itself is built by hand; none of this needs an engine
//! for containers.

mod documents;
mod files;

use std::collections::BTreeSet;
use std::time::Duration;

use self::files::{Dockerfile, Unit, file, root, run, settings};
use crate::environment::{not_run, tool};
use crate::program::{PROGRAM, entries, highwater, temporary};

/// What `docker stop` waits for an end before it kills.
const DOCKER_WAITS: Duration = Duration::from_secs(10);

/// Reads `30s`, or `30` for seconds.
#[track_caller]
fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.trim_end_matches('s').parse().expect("whole seconds"))
}

#[test]
fn the_image_is_built_from_files_that_are_there_and_are_sent_to_the_builder() {
    let ignored = file(".dockerignore");
    let mut lines = ignored.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"), "what is not named is not sent");
    let sent: BTreeSet<&str> =
        lines.map(|line| line.strip_prefix('!').expect("only names follow")).collect();
    assert!(sent.iter().all(|name| root().join(name).exists()), "{sent:?}");
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let members = members.iter().map(|member| member.as_str().unwrap().trim_end_matches("/*"));
    for needed in members.chain(["Cargo.toml", "Cargo.lock"]) {
        assert!(sent.contains(needed), "{needed} is not sent to the builder");
    }
    let dockerfile = Dockerfile::read();
    let copies = dockerfile.all("COPY");
    let from_outside = copies.iter().filter(|copy| !copy.starts_with("--from"));
    for source in from_outside.flat_map(|copy| copy.split(' ').rev().skip(1)) {
        assert!(source == "." || sent.contains(source), "{source} is not sent to the builder");
    }
    let version = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let bases = dockerfile.all("FROM");
    assert!(bases[0].starts_with(&format!("rust:{version}-")), "{bases:?}; Rust {version}");
    // A program that is linked to one release's libraries runs with those.
    assert!(bases[0].contains("-slim-bookworm ") && bases[1].ends_with(":bookworm-slim"));
}

#[test]
fn the_image_serves_from_its_volume_at_its_port_and_wants_to_be_told_who_may_come_in() {
    let (dockerfile, folder) = (Dockerfile::read(), temporary());
    let variables = dockerfile.variables();
    let program = dockerfile.words("ENTRYPOINT");
    assert_eq!(program, ["highwater"]);
    assert!(dockerfile.all("COPY").iter().any(|copy| copy.ends_with(" /usr/bin/highwater")));
    let words = dockerfile.words("CMD");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(folder.path(), &variables, &words).expect_error(&[
        "listen=0.0.0.0:4437",
        "--auth FILE",
        "--insecure-no-auth",
    ]);
    assert_eq!(entries(folder.path()), [] as [std::path::PathBuf; 0]);
    let words = [&words[..], &["--insecure-no-auth", "--print-config"]].concat();
    let printed = run(folder.path(), &variables, &words).expect_code(0);
    assert_eq!(printed.stderr, "", "every variable is a setting");
    let settings = settings(&printed.stdout);
    let text = |name: &str| settings[name].as_str().unwrap();
    assert_eq!(text("listen"), format!("0.0.0.0:{}", dockerfile.only("EXPOSE")));
    assert_eq!(text("data-dir"), dockerfile.only("VOLUME"));
    assert!(seconds(text("shutdown-timeout")) <= DOCKER_WAITS / 2);
    assert!(dockerfile.only("USER").chars().all(|c| c == ':' || c.is_ascii_digit()));
}

#[test]
fn the_unit_starts_a_server_that_keeps_its_data_where_the_unit_lets_it() {
    let (unit, folder) = (Unit::read(), temporary());
    let command = unit.only("ExecStart");
    let path = "/usr/bin/highwater ";
    let words: Vec<&str> = command.strip_prefix(path).expect(path).split(' ').collect();
    let place = words.iter().position(|word| *word == "--config").expect("a file of settings");
    assert!(words[place + 1].starts_with("/etc/"), "{command}");
    let config = folder.path().join("highwater.toml");
    std::fs::write(&config, "").unwrap();
    let config = config.display().to_string();
    let mut words = words;
    words[place + 1] = &config;
    words.push("--print-config");
    let (name, value) = unit.only("Environment").split_once('=').unwrap();
    let variables = [(name.to_owned(), value.to_owned())];
    let printed = run(folder.path(), &variables, &words).expect_code(0);
    assert_eq!(printed.stderr, "", "every variable is a setting");
    let settings = settings(&printed.stdout);
    let state = format!("/var/lib/{}", unit.only("StateDirectory"));
    assert_eq!(settings["data-dir"].as_str(), Some(&*state));
    let waits = seconds(settings["shutdown-timeout"].as_str().unwrap());
    assert!(seconds(unit.only("TimeoutStopSec")) >= 2 * waits);
    // What it says of itself: see `serve`.
    assert_eq!(unit.only("Type"), "notify");
    // An error before it serves, such as damage that must not be written over.
    assert_eq!(unit.only("RestartPreventExitStatus"), "2");
    assert_eq!(unit.only("ExecReload"), "/bin/kill -HUP $MAINPID");
    let page = unit.only("Documentation").strip_prefix("man:").unwrap().replace("(1)", ".1");
    highwater(&format!("man {}", folder.path().display())).expect_code(0);
    assert!(folder.path().join(&page).is_file(), "{page}");
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    if let Err(why) = tool("systemd-analyze") {
        return not_run("the systemd unit", &why);
    }
    let folder = temporary();
    let unit = folder.path().join("highwater.service");
    // The program need not be installed for its unit to be read.
    let text = file("packaging/highwater.service").replace("/usr/bin/highwater", PROGRAM);
    std::fs::write(&unit, text).unwrap();
    let said = verify(&unit);
    assert_eq!(said, Ok(String::new()));
    let odd = file("packaging/highwater.service").replace("Restart=", "Restarts=");
    std::fs::write(&unit, odd.replace("/usr/bin/highwater", PROGRAM)).unwrap();
    assert_ne!(verify(&unit), Ok(String::new()), "a name that is none is found");
}

/// What systemd says of a unit: nothing, if it is one.
fn verify(unit: &std::path::Path) -> Result<String, String> {
    let unit = unit.display().to_string();
    // Some findings leave the exit code as it is: all of them are lines.
    let output = std::process::Command::new(tool("systemd-analyze")?)
        .args(["verify", "--man=no", "--recursive-errors=no", &unit])
        .output();
    let output = output.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}
