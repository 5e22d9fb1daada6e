//! What can be typed. Shell completions and man pages are generated from these definitions.

mod engine;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use highwater_engine_bench::session;
use highwater_probe::analyse::compare::Measure;
use highwater_probe::preset::{Overrides, Preset, Product};
use highwater_report::case::{Arrival, Barrier, Every, FileState, IoMode, Sharing};
use highwater_stats::units;
use highwater_torture::{FileSystem, Layer};

pub use crate::commands::serve::ServeArgs;
pub use engine::EngineArgs;

/// Know what a durable write costs, then never pay more than that.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done; 1 a case failed, compare found something slower, or \
    check found damage; 2 error; 3 check found a torn tail; 4 torture cannot run here; 130 stopped \
    by Ctrl-C, with what was measured kept.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The words.
#[expect(clippy::large_enum_variant, reason = "made once per process, and never moved after")]
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a directory's disk for a minute and say which write path to use
    Probe(ProbeArgs),
    /// Measure named slices of the matrix of write paths, or any product of its dimensions
    Bench(BenchArgs),
    /// Set two runs side by side; exit code 1 when the second is slower
    Compare(CompareArgs),
    /// Rebuild a run's results.json, report.html and profile.toml from its data
    Report(ReportArgs),
    /// Serve durable streams over HTTP, with the data in a directory
    #[command(after_help = crate::args::SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Read a store that nobody has open, and say whether it is as it was written
    Check(CheckArgs),
    /// Try to break the log: crashes, lost power, failing calls, full disks, flipped bits
    Torture(TortureArgs),
    /// What the layers of `torture` on real directories end
    #[command(hide = true)]
    TortureChild,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  highwater completions bash > \
        ~/.local/share/bash-completion/completions/highwater")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages, one file per command
    #[command(after_help = "Example:\n  highwater man ~/.local/share/man/man1")]
    Man {
        /// An existing directory; files in it are not overwritten
        directory: PathBuf,
    },
}

const SERVE_EXAMPLES: &str = "Examples:
  highwater serve
  highwater serve --data-dir /var/lib/highwater --durability relaxed=200ms
  highwater serve --listen 0.0.0.0:4437 --auth tokens.toml --tls-cert a.pem --tls-key a.key
  highwater serve --config highwater.toml --print-config

Each flag is also a name in the file of --config and an environment variable, as in
HIGHWATER_DATA_DIR. Flags are above the environment, which is above the file.
SIGHUP reads tokens and certificates again; SIGINT and SIGTERM stop, in bounded time.

Exit code: 0 stopped; 1 the disk failed; 2 not started, the message says why; 130 ended at
once by a second signal.";

/// `highwater probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater probe .                     a minute in this directory's file system
  highwater probe /var/lib/db --seconds 300
  highwater probe /mnt/new --json > new.json

Nothing that exists is written to: files are made in a new directory and removed at the end.")]
pub struct ProbeArgs {
    /// Directory to measure in; its file system and disk are what is measured
    pub directory: PathBuf,
    /// Length of the tour, seconds; takes longer where trying each path and 4 rounds do
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    pub seconds: f64,
    /// Settings common to all runs.
    #[command(flatten)]
    pub run: RunArgs,
}

/// `highwater bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Presets:
  commit    3 file states x fsync, fdatasync, none; buffered, 16 KiB
  wal       3 file states x buffered, direct x fsync, fdatasync; 16 KiB
  sizes     the same from 32 KiB to 1 MiB
  batch     a barrier every 1, 10, 100, 1000 writes of 4 KiB; also direct, also fsync
  interval  1 GiB with a barrier every 16 KiB to 100 MiB, at the end, never; time per trial
  barriers  every barrier x state x I/O mode, 4 KiB
  group     1 to 256 writers on one file with group commit, closed and open loop
  files     10 to 100 000 small files, by fdatasync each, by 8 threads, or by one syncfs
            (more than ten minutes with its largest numbers; --files 10,100,1000 is quick)
  engine    the log in this process: 1, 64 and 256 writers, by threads and by futures, beside a bare
            write + fdatasync; appends/s, latency, CPU, memory, device bytes
  custom    append + fsync, for lists of your own

Lists are separated by commas and replace the preset's values; the whole product is run.

Examples:
  highwater bench --preset wal /var/lib/db
  highwater bench --preset batch --every 1,4,16,64KiB .
  highwater bench --preset group --writers 1,8 --arrival closed,open:2000 .
  highwater bench --preset engine --writers 64 --streams 1000,100000 /var/lib/db
  highwater bench --state initialised --io direct --barrier fdatasync,rwf_dsync --block 4K,16K .")]
pub struct BenchArgs {
    /// Directory to measure in; its file system and disk are what is measured
    pub directory: PathBuf,
    /// Named slice
    #[arg(long, default_value = "custom", value_parser = preset_parser())]
    pub preset: String,
    /// File states: append, allocated, initialised
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub state: Vec<FileState>,
    /// I/O modes: buffered, direct
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub io: Vec<IoMode>,
    /// Barriers: `fsync`, `fdatasync`, `syncfs`, `o_sync`, `o_dsync`, `rwf_dsync`, `uring`; NOT
    /// DURABLE: `sync_file_range`, `none`
    #[arg(long, value_delimiter = ',', value_name = "LIST", alias = "methods")]
    pub barrier: Vec<Barrier>,
    /// Bytes per write, as in 4K,64K
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = units::parse_bytes)]
    #[arg(alias = "block-sizes")]
    pub block: Vec<u64>,
    /// A barrier after so many writes (100), after so many bytes (64KiB), only at the `end`, or
    /// `never`
    #[arg(long, value_delimiter = ',', value_name = "LIST", alias = "sync-every")]
    pub every: Vec<Every>,
    /// Threads that write
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub writers: Vec<u32>,
    /// How several writers share files: own (a file each), shared (one file, group commit)
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub sharing: Vec<Sharing>,
    /// When operations start: closed, or open:RATE in operations per second
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub arrival: Vec<Arrival>,
    /// Small files made durable as one batch; --writers is then the number of syncing threads
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub files: Vec<u32>,
    /// Measured writes per case and round, over all writers
    #[arg(long, value_name = "N")]
    pub iterations: Option<u64>,
    /// Bytes per case and round, instead of a number of writes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    #[arg(conflicts_with = "iterations")]
    pub total: Option<u64>,
    /// Unmeasured writes before them
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Rounds; each case comes once in each
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// Length of prepared files [default: the preset's, or what the writes need]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, alias = "file-size")]
    pub capacity: Option<u64>,
    /// Also write the per-round rows to this new file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Settings of the preset `engine`.
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Settings common to all runs.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Settings common to all runs.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Most bytes the run may write
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub max_bytes: u64,
    /// Name of the run [default: probe, or the preset]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where run directories are kept
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub runs: PathBuf,
    /// Seed of the bytes written
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `highwater compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater compare runs/2026-11-30-probe runs/2026-12-01-probe
  highwater compare before after --measure p99 --threshold 10 --json

Exit code: 0 nothing slower, 1 something slower, 2 not comparable (the message says why).")]
pub struct CompareArgs {
    /// Run directory of the baseline
    pub baseline: PathBuf,
    /// Run directory of the candidate
    pub candidate: PathBuf,
    /// What to compare by
    #[arg(long, value_enum, default_value_t = MeasureArg::P50)]
    pub measure: MeasureArg,
    /// Smallest difference that matters, percent
    #[arg(long, default_value_t = 3.0, value_name = "PERCENT")]
    pub threshold: f64,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MeasureArg {
    /// Median commit of each round
    P50,
    /// Mean commit of each round
    Mean,
    /// 99th percentile of each round
    P99,
    /// Measured time per record: what throughput is made of
    Throughput,
}

/// `highwater report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater report runs/2026-11-30-probe
  highwater report runs/2026-11-30-probe --json | jq .advice.path")]
pub struct ReportArgs {
    /// Run directory
    pub run: PathBuf,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `highwater check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  highwater check /var/lib/log
  highwater check /var/lib/log --json | jq .damage
  highwater check /var/lib/log --dump | grep 'stream 17 '

Exit code: 0 clean; 3 a torn tail, which the next opening cuts off; 1 damaged, with the files and
ranges; 2 not checked (no store, in use, or unreadable; the message says why). Nothing is ever
written. A store that a running log has open is refused: stop the log, or check a copy.")]
pub struct CheckArgs {
    /// The store's directory
    pub directory: PathBuf,
    /// Also print every segment, frame and record of the log, a line each
    #[arg(long, conflicts_with = "json")]
    pub dump: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `highwater torture`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Layers:
  sim      seeded histories on a simulated disk that crashes and fails
  small    every history of up to three operations, every crash, every subset of what survives it
  flip     a bit of every field of every file of a store, and every file cut short
  planted  bugs that sim has to catch
  kill     a process on a real directory, killed at random moments
  shutdown a process on ext4, XFS or btrfs in an image that loses power; needs root
  syscall  a process whose system calls fail or kill it, one kind after the other; needs strace
  full     a process on a small file system that fills up and gets room again; needs root
  serve    a server that is killed among clients, readers and subscribers, over HTTP

Examples:
  highwater torture --layer sim --seeds 2000
  highwater torture --layer sim --seeds 1 --seed 120
  highwater torture --layer small
  highwater torture --layer kill --cycles 200 --dir /var/tmp
  highwater torture --layer shutdown --fs xfs --cycles 200 --dir /var/tmp
  highwater torture --layer syscall --cycles 300 --dir /var/tmp --runs reports --name syscall
  highwater torture --layer full --fs ext4 --cycles 100 --dir /var/tmp
  highwater torture --layer serve --cycles 200 --dir /var/tmp

The last five layers work in a directory of their own below DIR, which has to lie on a disk. It is
taken down at the end, on Ctrl-C and after errors, mounts included; what a killed campaign leaves is
taken down by the next one in DIR. What failed is kept, and named.

Exit code: 0 every invariant held; 1 one did not, and the command that repeats it is printed;
2 error; 4 not run, since this machine lacks what the layer needs; 130 stopped by Ctrl-C.")]
pub struct TortureArgs {
    /// What to do
    #[arg(long, value_parser = layer_parser())]
    pub layer: Layer,
    /// Seeds (sim), histories (small), stores (flip), seeds per bug (planted)
    #[arg(long, value_name = "N", conflicts_with = "cycles")]
    pub seeds: Option<u64>,
    /// Lives of a process (kill, shutdown, syscall, serve), disks filled up (full)
    #[arg(long, value_name = "N")]
    pub cycles: Option<u64>,
    /// First seed; without it, sim and the layers with cycles draw one and print it
    #[arg(long, value_name = "K")]
    pub seed: Option<u64>,
    /// File system, for shutdown and full
    #[arg(long, value_name = "FS", default_value = "ext4", value_parser = file_system_parser())]
    pub fs: FileSystem,
    /// Existing directory in which kill, shutdown, syscall, full and serve make one of theirs
    #[arg(long, value_name = "DIR")]
    #[arg(required_if_eq_any([
        ("layer", "kill"), ("layer", "shutdown"), ("layer", "syscall"), ("layer", "full"),
        ("layer", "serve"),
    ]))]
    pub dir: Option<PathBuf>,
    /// Also keep the verdict in a new directory below this one
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Name of what is kept [default: torture and the layer]
    #[arg(long, value_name = "NAME", requires = "runs")]
    pub name: Option<String>,
    /// Print the verdict as JSON
    #[arg(long)]
    pub json: bool,
}

/// Reads a preset's name.
fn preset_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(Preset::NAMES.iter().copied().chain([session::PRESET]))
}

/// Reads a layer by its name.
fn layer_parser() -> impl TypedValueParser<Value = Layer> {
    PossibleValuesParser::new(Layer::NAMES).try_map(|name| name.parse::<Layer>())
}

/// Reads a file system by its name.
fn file_system_parser() -> impl TypedValueParser<Value = FileSystem> {
    PossibleValuesParser::new(FileSystem::NAMES).try_map(|name| name.parse::<FileSystem>())
}

impl From<MeasureArg> for Measure {
    fn from(measure: MeasureArg) -> Self {
        match measure {
            MeasureArg::P50 => Self::P50,
            MeasureArg::Mean => Self::Mean,
            MeasureArg::P99 => Self::P99,
            MeasureArg::Throughput => Self::TimePerRecord,
        }
    }
}

impl BenchArgs {
    /// What was typed, as the planner takes it.
    pub fn overrides(&self) -> Overrides {
        let product = Product {
            state: self.state.clone(),
            io: self.io.clone(),
            barrier: self.barrier.clone(),
            block: self.block.clone(),
            every: self.every.clone(),
            writers: self.writers.clone(),
            sharing: self.sharing.clone(),
            arrival: self.arrival.clone(),
            files: self.files.clone(),
        };
        Overrides {
            product,
            iterations: self.iterations,
            total: self.total,
            warmup: self.warmup,
            rounds: self.rounds,
            capacity: self.capacity,
            max_bytes: Some(self.run.max_bytes),
            seed: self.run.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn lists_are_separated_by_commas_and_old_names_are_understood() {
        let typed = "highwater bench --preset commit --methods fsync,none --block-sizes 4K,16KiB \
                     --sync-every 1,64KiB,end --file-size 64M --arrival closed,open:500 /d";
        let Command::Bench(bench) = Args::parse_from(typed.split_whitespace()).command else {
            panic!("not a bench");
        };
        assert_eq!(bench.barrier, [Barrier::Fsync, Barrier::None]);
        assert_eq!(bench.block, [4096, 16384]);
        assert_eq!(bench.every, [Every::Writes(1), Every::Bytes(65536), Every::End]);
        assert_eq!(bench.capacity, Some(64 << 20));
        assert_eq!(bench.arrival[1], Arrival::Open { per_second: 500 });
    }

    #[test]
    fn bad_values_name_the_choices() {
        let typed = ["highwater", "bench", "--barrier", "flush", "/d"];
        let error = Args::try_parse_from(typed).unwrap_err().to_string();
        assert!(error.contains("rwf_dsync"), "{error}");
        let unknown = ["highwater", "bench", "--preset", "all", "/d"];
        assert!(Args::try_parse_from(unknown).unwrap_err().to_string().contains("interval"));
    }
}
