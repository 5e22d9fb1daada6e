//! The `highwater` binary: arguments in, exit code out.
//!
//! `args` says what can be typed, `commands` what each word does, `progress` and `output` how
//! people see it. Everything that measures or decides is in the libraries.

mod args;
mod commands;
mod output;
mod progress;
mod stop;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::commands::Ending;

fn main() -> ExitCode {
    let args = Args::parse();
    // Kept for people to read: a path that is no text is shown as far as it is one.
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let ended = match args.command {
        Command::Probe(probe) => commands::probe::run(&probe, typed),
        Command::Bench(bench) => commands::bench::run(&bench, typed),
        Command::Compare(compare) => commands::compare::run(&compare),
        Command::Report(report) => commands::report::run(&report),
        Command::Serve(serve) => commands::serve::run(&serve),
        Command::Check(check) => commands::check::run(&check),
        Command::Torture(torture) => commands::torture::run(&torture),
        Command::TortureChild => commands::torture::child(),
        Command::Completions { shell } => commands::generate::completions(shell),
        Command::Man { directory } => commands::generate::man_pages(&directory),
    };
    match ended {
        Ok(ending) => ending.into(),
        Err(error) => {
            output::say(&format!("highwater: {error:#}"));
            Ending::Error.into()
        }
    }
}
