//! Shell completions and man pages, from the argument definitions.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Ending;
use crate::args::Args;
use crate::output;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "highwater", &mut script);
    output::print(&String::from_utf8(script).context("the script is not text")?)?;
    Ok(Ending::Done)
}

/// Writes `highwater.1` and a page for each word.
pub fn man_pages(directory: &Path) -> Result<Ending> {
    let mut command = Args::command();
    command.build();
    let mut written = vec![write_page(directory, &command, "highwater")?];
    for word in command.get_subcommands().filter(|word| !word.is_hide_set()) {
        written.push(write_page(directory, word, &format!("highwater-{}", word.get_name()))?);
    }
    output::say(&format!("wrote {}", written.join(", ")));
    Ok(Ending::Done)
}

fn write_page(directory: &Path, command: &clap::Command, name: &str) -> Result<String> {
    let mut page = Vec::new();
    // clap wants names that live as long as the program; there are a handful of them.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    clap_mangen::Man::new(command.clone().name(title)).render(&mut page)?;
    let path = directory.join(format!("{name}.1"));
    let mut file = std::fs::File::create_new(&path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    std::io::Write::write_all(&mut file, &page)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}
