//! Settings from a file, the environment and flags, in rising order.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use highwater_server::settings::{
    ALIASES, KEYS, Key, REMOVED, Removed, Settings, SettingsError, ValueKind, key, text_of,
};

use super::flags::ServeArgs;

/// Beginning of the environment's names.
const PREFIX: &str = "HIGHWATER_";
/// The environment's name of the configuration file.
const CONFIG: &str = "HIGHWATER_CONFIG";

/// Settings, and where each comes from.
#[derive(Debug, Default)]
pub struct Merged {
    /// The settings; not checked yet.
    pub settings: Settings,
    /// Where those come from that are not defaults.
    pub sources: BTreeMap<&'static str, String>,
    /// What to tell the user.
    pub warnings: Vec<String>,
}

/// One place where settings are written: none of them twice, under whatever names.
#[derive(Debug)]
struct Source {
    /// What it is called.
    place: String,
    /// What relative paths in it are relative to, if not to the working directory.
    folder: Option<PathBuf>,
    /// Settings that it has, with the names that they have there.
    taken: BTreeMap<&'static str, String>,
}

impl Source {
    fn new(place: &str, folder: Option<PathBuf>) -> Self {
        Self { place: place.to_owned(), folder, taken: BTreeMap::new() }
    }

    /// Gives a path as it is from the working directory; text that is none stays as it is.
    fn resolved(&self, key: &Key, text: String) -> Result<String, SettingsError> {
        match &self.folder {
            Some(folder) if key.kind == ValueKind::Path && !text.is_empty() => {
                let whole = folder.join(text).into_os_string().into_string();
                whole.map_err(|whole| {
                    SettingsError::Refused(format!(
                        "{}: {}: the folder's name is no UTF-8, so no path can be relative to it; \
                         write the whole path",
                        self.place,
                        whole.display()
                    ))
                })
            }
            _ => Ok(text),
        }
    }
}

impl Merged {
    fn set(
        &mut self,
        source: &mut Source,
        (key, name): (&'static Key, &str),
        text: String,
        place: &str,
    ) -> Result<(), SettingsError> {
        let text = source.resolved(key, text)?;
        if let Some(other) = source.taken.insert(key.name, name.to_owned()) {
            let place = &source.place;
            return Err(SettingsError::Refused(format!(
                "{place}: {other} and {name} are the same setting: leave one of them away"
            )));
        }
        key.set(&mut self.settings, &text)?;
        self.sources.insert(key.name, place.to_owned());
        Ok(())
    }

    fn warn(&mut self, removed: &Removed, place: &str) {
        self.warnings.push(format!("{place}: {} does nothing: {}", removed.name, removed.why));
    }

    /// Takes a setting under any of its names; `place` is where it stands, more closely.
    fn take(
        &mut self,
        source: &mut Source,
        name: &str,
        text: &str,
        place: &str,
    ) -> Result<(), SettingsError> {
        if let Some(key) = key(name) {
            return self.set(source, (key, name), text.to_owned(), place);
        }
        if let Some(alias) = ALIASES.iter().find(|alias| alias.name == name) {
            let key = key(alias.means).expect("an alias means a setting");
            let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
            if !alias.suffix.is_empty() && !is_bare {
                let (name, unit) = (alias.name, alias.suffix);
                return Err(SettingsError::Refused(format!(
                    "{place}: {name}: {text:?} is not a number of {unit}, without a unit"
                )));
            }
            return self.set(source, (key, name), format!("{text}{}", alias.suffix), place);
        }
        if let Some(removed) = REMOVED.iter().find(|removed| removed.name == name) {
            self.warn(removed, place);
            return Ok(());
        }
        Err(SettingsError::Unknown { place: place.to_owned(), name: name.to_owned() })
    }
}

/// Merges the settings.
pub fn merge(
    args: &ServeArgs,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Merged> {
    let mut merged = Merged::default();
    let mut variables = BTreeMap::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let Some(value) = value.to_str() else { bail!("{name}: the value is not UTF-8") };
        variables.insert(name.to_owned(), value.to_owned());
    }
    let from_environment = variables.remove(CONFIG).map(PathBuf::from);
    if let Some(path) = args.config.clone().or(from_environment) {
        file(&mut merged, &path)?;
    }
    let mut source = Source::new("the environment", None);
    for (name, text) in &variables {
        let known = KEYS.iter().find(|key| key.variable() == *name).map(|key| key.name);
        let plain = name.trim_start_matches(PREFIX).to_ascii_lowercase().replace('_', "-");
        match merged.take(&mut source, known.unwrap_or(&plain), text, name) {
            // Orchestrators put variables of their own there, named after a service.
            Err(unknown @ SettingsError::Unknown { .. }) => {
                merged.warnings.push(format!("{unknown}; the variable is not looked at"));
            }
            taken => taken?,
        }
    }
    let mut source = Source::new("flags", None);
    for (name, text) in &args.flags {
        merged.take(&mut source, name, text, &format!("--{name}"))?;
    }
    for name in &args.removed {
        let removed = REMOVED.iter().find(|removed| removed.name == *name);
        merged.warn(removed.expect("only removed settings are listed"), &format!("--{name}"));
    }
    Ok(merged)
}

/// Takes the settings of a file; relative paths in it are relative to it.
fn file(merged: &mut Merged, path: &Path) -> Result<()> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {place}"))?;
    let table: toml::Table = text.parse().with_context(|| format!("{place} is not TOML"))?;
    let mut source = Source::new(&place, path.parent().map(Path::to_owned));
    for (name, value) in &table {
        let Some(text) = text_of(value) else { bail!("{place}: {name} is no plain value") };
        merged.take(&mut source, name, &text, &place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn merged(
        file: &str,
        environment: &[(&str, &str)],
        flags: &[(&'static str, &str)],
    ) -> Result<Merged> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, file).unwrap();
        let flags = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        let args = ServeArgs { flags, config: Some(path), ..ServeArgs::default() };
        let variables = environment.iter().map(|(name, value)| (name.into(), value.into()));
        merge(&args, variables)
    }

    fn refused(file: &str, environment: &[(&str, &str)]) -> String {
        format!("{:#}", merged(file, environment, &[]).unwrap_err())
    }

    #[test]
    fn flags_are_above_the_environment_which_is_above_the_file() {
        let file = "long-poll-timeout = \"1s\"\nwal-lanes = 3\nmax-body-bytes = \"1MiB\"\n";
        let environment = [("HIGHWATER_LONG_POLL_TIMEOUT", "2s"), ("HIGHWATER_WAL_LANES", "4")];
        let merged = merged(file, &environment, &[("wal-lanes", "5")]).unwrap();
        assert_eq!(merged.settings.wal_lanes, 5);
        assert_eq!(merged.settings.long_poll_timeout.0, Duration::from_secs(2));
        assert_eq!(merged.settings.max_body_bytes.0, 1 << 20);
        assert_eq!(merged.sources["wal-lanes"], "--wal-lanes");
        assert_eq!(merged.sources["long-poll-timeout"], "HIGHWATER_LONG_POLL_TIMEOUT");
        assert!(merged.sources["max-body-bytes"].ends_with("config.toml"));
    }

    #[test]
    fn unknown_names_are_refused_in_the_file_and_warned_about_in_the_environment() {
        assert!(refused("data_dir = \"x\"", &[]).contains("did you mean \"data-dir\""));
        assert!(refused("[listen]\nport = 1", &[]).contains("plain value"));
        let odd = merged("", &[("HIGHWATER_LISTN", "x")], &[]).unwrap();
        assert!(odd.warnings[0].contains("HIGHWATER_LISTN"), "{:?}", odd.warnings);
        assert!(refused("listen = \"x\"", &[]).contains("an address and a port"));
        assert!(merged("", &[("OTHER_LISTN", "x")], &[]).is_ok());
    }

    #[test]
    fn names_of_other_servers_mean_what_they_mean_there_and_a_removed_one_is_a_warning() {
        let file = "wal-checkpoint-interval-ms = 1500\nwal-checkpoint-wal-bytes = 1048576\n";
        let merged = merged(file, &[("HIGHWATER_WAL_FSYNC_PARALLEL", "8")], &[]).unwrap();
        assert_eq!(merged.settings.checkpoint_interval.0, Duration::from_millis(1500));
        assert_eq!(merged.settings.checkpoint_wal_bytes.0, 1 << 20);
        assert_eq!(merged.warnings.len(), 1);
        assert!(merged.warnings[0].contains("wal-fsync-parallel does nothing"));
        let unit = refused("wal-checkpoint-interval-ms = \"1500ms\"\n", &[]);
        assert!(unit.contains("wal-checkpoint-interval-ms: \"1500ms\" is not a number"), "{unit}");
    }

    #[test]
    fn paths_of_a_file_are_relative_to_it_and_those_of_flags_and_the_environment_are_not() {
        let file = "auth = \"tokens.toml\"\ntls-cert = \"/etc/cert.pem\"\nprofile = \"\"\n\
                    public-url = \"https://a.org\"\ndata-dir = \"../data\"\n";
        let environment = [("HIGHWATER_AUTH_HS256", "secret")];
        let merged = merged(file, &environment, &[("auth-jwks", "jwks.json")]).unwrap();
        let folder = Path::new(&merged.sources["auth"]).parent().unwrap().to_owned();
        let Settings { auth, auth_jwks, auth_hs256, tls_cert, profile, .. } = &merged.settings;
        assert_eq!(auth.as_deref(), Some(&*folder.join("tokens.toml")));
        assert_eq!(merged.settings.data_dir, folder.join("../data"));
        assert_eq!(tls_cert.as_deref(), Some(Path::new("/etc/cert.pem")));
        assert_eq!(auth_hs256.as_deref(), Some(Path::new("secret")));
        assert_eq!(auth_jwks.as_deref(), Some(Path::new("jwks.json")));
        assert_eq!(*profile, None);
        assert_eq!(merged.settings.public_url.as_deref(), Some("https://a.org"));
    }

    #[test]
    fn a_setting_under_two_names_in_one_place_is_refused_and_in_two_places_is_not() {
        let file = "wal-checkpoint-interval-ms = 1500\n";
        let both = format!("{file}checkpoint-interval = \"2s\"\n");
        let said = refused(&both, &[]);
        assert!(said.contains("checkpoint-interval and wal-checkpoint-interval-ms"), "{said}");
        let variables = [
            ("HIGHWATER_CHECKPOINT_INTERVAL", "2s"),
            ("HIGHWATER_WAL_CHECKPOINT_INTERVAL_MS", "1500"),
        ];
        assert!(refused("", &variables).contains("the environment"));
        let flags = [("checkpoint-interval", "2s"), ("wal-checkpoint-interval-ms", "1500")];
        let said = merged("", &[], &flags).unwrap_err().to_string();
        assert!(said.contains("flags"), "{said}");
        let above = merged(file, &variables[..1], &[]).unwrap();
        assert_eq!(above.settings.checkpoint_interval.0, Duration::from_secs(2));
    }

    #[test]
    fn a_printed_configuration_is_one_that_can_be_used() {
        let merged = merged("wal-lanes = 3", &[], &[("auth", "tokens.toml")]).unwrap();
        let printed = super::super::announce::configuration(&merged);
        // Wherever it is put: its paths are whole.
        let again = self::merged(&printed, &[], &[]).unwrap();
        let whole = |path: &Path| std::path::absolute(path).unwrap();
        let data_dir = whole(&merged.settings.data_dir);
        let auth = merged.settings.auth.as_deref().map(whole);
        assert_eq!(again.settings, Settings { data_dir, auth, ..merged.settings.clone() });
        assert!(printed.contains("config.toml"), "{printed}");
    }
}
