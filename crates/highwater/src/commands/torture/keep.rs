//! What is kept of a campaign: one file, without a path of the machine it ran on.

use anyhow::{Context, Result};
use highwater_probe::machine::host;
use highwater_probe::timestamp;
use highwater_report::run_dir::{RunDir, check_name};
use highwater_torture::{Layer, Verdict};
use serde_json::{Value, json};

use super::{CYCLES, SEEDS, SEEDS_PER_BUG, STORES, is_real};
use crate::args::TortureArgs;
use crate::output;

/// Version of the file.
const SCHEMA_VERSION: u32 = 1;
/// Its name.
const FILE: &str = "torture.json";

/// A campaign to be kept.
pub(super) struct Kept {
    run_dir: RunDir,
    about: Value,
}

impl Kept {
    /// Makes its directory, if that was asked for.
    pub(super) fn begin(args: &TortureArgs, seed: u64) -> Result<Option<Self>> {
        let Some(runs) = &args.runs else { return Ok(None) };
        let default = || format!("torture-{}", args.layer.name());
        let name = args.name.clone().unwrap_or_else(default);
        check_name(&name)?;
        let started = timestamp();
        let run_dir = RunDir::create(runs, &name, started.get(..10).unwrap_or_default())?;
        let about = json!({
            "schema_version": SCHEMA_VERSION,
            "highwater_version": env!("CARGO_PKG_VERSION"),
            "build": if cfg!(debug_assertions) { "debug" } else { "release" },
            "command": command(args, seed),
            "seed": seed,
            "asked": asked(args),
            "file_system": file_system(args),
            "started": started,
            "machine": {
                "kernel": host::kernel(),
                "cpu": host::cpu_model(),
                "cpus": host::cpus(),
                "memory_bytes": host::memory_bytes(),
                "virtualisation": host::virtualisation(),
            },
        });
        Ok(Some(Self { run_dir, about }))
    }

    /// Writes the file.
    pub(super) fn end(mut self, verdict: &Verdict, stopped: bool) -> Result<()> {
        self.about["ended"] = timestamp().into();
        self.about["stopped_early"] = stopped.into();
        self.about["held"] = verdict.held().into();
        self.about["verdict"] = serde_json::to_value(verdict)?;
        let text = serde_json::to_string_pretty(&self.about)? + "\n";
        self.run_dir.write_derived(FILE, text.as_bytes()).context("cannot keep the verdict")?;
        output::say(&format!("kept in {}", self.run_dir.path().display()));
        Ok(())
    }
}

/// What repeats it, with its seed, and without the places that were typed.
fn command(args: &TortureArgs, seed: u64) -> String {
    let fs = match args.layer {
        Layer::Shutdown | Layer::Full => format!(" --fs {}", args.fs),
        _ => String::new(),
    };
    let (counted, dir) = if is_real(args.layer) { ("cycles", " --dir DIR") } else { ("seeds", "") };
    let asked = asked(args).map_or(String::new(), |asked| format!(" --{counted} {asked}"));
    format!("highwater torture --layer {}{fs}{asked} --seed {seed}{dir}", args.layer.name())
}

/// Lives or seeds, where it is not simply all.
fn asked(args: &TortureArgs) -> Option<u64> {
    let default = match args.layer {
        Layer::Sim => Some(SEEDS),
        Layer::Small => None,
        Layer::Flip => Some(STORES),
        Layer::Planted => Some(SEEDS_PER_BUG),
        Layer::Kill | Layer::Shutdown | Layer::Syscall | Layer::Full | Layer::Serve => Some(CYCLES),
    };
    args.cycles.or(args.seeds).or(default)
}

/// The file system that was tortured.
fn file_system(args: &TortureArgs) -> Option<String> {
    match args.layer {
        Layer::Shutdown | Layer::Full => Some(args.fs.name().to_owned()),
        Layer::Kill | Layer::Syscall | Layer::Serve => {
            let dir = args.dir.as_ref()?.canonicalize().ok()?;
            highwater_probe::disk::mounts::mount_of(&dir).map(|mount| mount.kind)
        }
        _ => None,
    }
}
