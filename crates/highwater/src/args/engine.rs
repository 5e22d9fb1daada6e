//! What can be typed for `bench --preset engine` alone.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use highwater_engine_bench::case::Ack;
use highwater_engine_bench::plan::{Choice, Product, Wishes, own_subjects};
use highwater_engine_bench::scenes;
use highwater_stats::units;

use super::BenchArgs;

const MANY_STREAMS: u32 = 100_000;
const RETAINED_BYTES: u64 = 256 << 20;

/// Settings of the preset `engine`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of the preset engine")]
pub struct EngineArgs {
    /// Streams that exist and are appended to [default: 1000; 10 000 and 100 000 for 64 writers]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub streams: Vec<u32>,
    /// Bytes of an append [default: 256]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub payload: Vec<u32>,
    /// What an acknowledgement waits for [default: barrier]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub ack: Vec<AckArg>,
    /// Measured time of each case in each round [default: 3]
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Measure only these parts (writers, streams, staging, checkpoint, table, replay) and these
    /// subjects (bare, threads, futures)
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub only: Vec<String>,
    /// Threads that the writers of `futures` share [default: 1]
    #[arg(long, value_name = "N")]
    pub reactors: Option<u32>,
    /// Streams of `staging` and `table` [default: the most of --streams, or 100 000]
    #[arg(long, value_name = "N")]
    pub many_streams: Option<u32>,
    /// Log that `replay` retains [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub retained: Option<u64>,
}

/// What an acknowledgement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AckArg {
    /// The barrier
    Barrier,
    /// The write. NOT DURABLE
    Write,
    /// The copy into memory. NOT DURABLE
    Staged,
}

impl From<AckArg> for Ack {
    fn from(ack: AckArg) -> Self {
        match ack {
            AckArg::Barrier => Self::Barrier,
            AckArg::Write => Self::Write,
            AckArg::Staged => Self::Staged,
        }
    }
}

impl EngineArgs {
    /// Whether any of them was typed.
    fn is_used(&self) -> bool {
        !self.streams.is_empty()
            || !self.payload.is_empty()
            || !self.ack.is_empty()
            || !self.only.is_empty()
            || self.seconds.is_some()
            || self.reactors.is_some()
            || self.many_streams.is_some()
            || self.retained.is_some()
    }
}

impl BenchArgs {
    /// Refuses the engine's settings where another preset runs.
    pub fn check_other_preset(&self) -> Result<()> {
        ensure!(
            !self.engine.is_used(),
            "the options under the heading of the preset engine are for --preset engine"
        );
        Ok(())
    }

    /// What was typed for the preset `engine`.
    pub fn wishes(&self) -> Result<Wishes> {
        let has_others = !(self.state.is_empty()
            && self.io.is_empty()
            && self.barrier.is_empty()
            && self.block.is_empty()
            && self.every.is_empty()
            && self.sharing.is_empty()
            && self.arrival.is_empty()
            && self.files.is_empty()
            && self.iterations.is_none()
            && self.total.is_none()
            && self.warmup.is_none()
            && self.capacity.is_none()
            && self.csv.is_none());
        ensure!(
            !has_others,
            "--preset engine takes --writers, --rounds and the options under its heading in \
             `highwater bench --help`"
        );
        let seconds = self.engine.seconds.unwrap_or(3.0);
        let measured = Duration::try_from_secs_f64(seconds)?;
        let acks = self.engine.ack.iter().map(|ack| Ack::from(*ack)).collect();
        Ok(Wishes {
            product: Product {
                writers: self.writers.clone(),
                streams: self.engine.streams.clone(),
                payload: self.engine.payload.clone(),
                acks,
            },
            only: self.engine.only.clone(),
            measured,
            rounds: self.rounds.unwrap_or(3),
            seed: self.run.seed,
        })
    }

    /// What there is to choose from.
    pub fn choice(&self) -> Choice {
        let engine = &self.engine;
        let most = engine.streams.iter().copied().max().unwrap_or(MANY_STREAMS);
        let retained = engine.retained.unwrap_or(RETAINED_BYTES);
        Choice {
            subjects: own_subjects(engine.reactors.unwrap_or(1)),
            scenes: scenes::all(engine.many_streams.unwrap_or(most), retained),
        }
    }
}
