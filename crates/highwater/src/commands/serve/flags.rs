//! Flags of `serve`: one for each setting, made from the list of settings.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use highwater_server::settings::{ALIASES, KEYS, Key, REMOVED, Settings, ValueKind};

/// What was typed behind `serve`.
#[derive(Debug, Clone, Default)]
pub struct ServeArgs {
    /// Settings, by name, as they were typed.
    pub flags: Vec<(&'static str, String)>,
    /// Removed settings that were typed.
    pub removed: Vec<&'static str>,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Whether settings are to be printed, and nothing else done.
    pub print_config: bool,
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("File of settings, TOML: one `name = value` for each, named like the flags");
        let print = Arg::new("print-config")
            .long("print-config")
            .action(ArgAction::SetTrue)
            .help("Print every setting with its value and where it comes from, and end");
        let defaults = Settings::default();
        let command = command.arg(config).arg(print);
        let command = KEYS.iter().fold(command, |command, key| command.arg(flag(key, &defaults)));
        let hidden = |name: &'static str| Arg::new(name).long(name).hide(true);
        let command =
            ALIASES.iter().fold(command, |command, alias| command.arg(hidden(alias.name)));
        REMOVED.iter().fold(command, |command, removed| {
            command.arg(hidden(removed.name).num_args(0..=1).default_missing_value(""))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Makes the flag of a setting.
fn flag(key: &'static Key, defaults: &Settings) -> Arg {
    let help = key.help.trim().trim_end_matches('.');
    let help = match key.get(defaults).as_str() {
        "" => help.to_owned(),
        default => format!("{help} [default: {default}]"),
    };
    let flag =
        Arg::new(key.name).long(key.name).value_name(key.unit).help(help).help_heading(key.group);
    if key.kind == ValueKind::Bare && key.unit == "true|false" {
        return flag.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    flag
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |name: &'static str| matches.get_one::<String>(name).map(|text| (name, text.clone()));
        let aliases = ALIASES.iter().filter_map(|alias| given(alias.name));
        Ok(Self {
            flags: aliases.chain(KEYS.iter().filter_map(|key| given(key.name))).collect(),
            removed: REMOVED
                .iter()
                .map(|removed| removed.name)
                .filter(|name| matches.get_one::<String>(name).is_some())
                .collect(),
            config: matches.get_one::<PathBuf>("config").cloned(),
            print_config: matches.get_flag("print-config"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
