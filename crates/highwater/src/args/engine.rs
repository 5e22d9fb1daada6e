//! What can be typed for `bench --preset engine` alone.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use highwater_engine_bench::case::Ack;
use highwater_engine_bench::plan::Wishes;

use super::BenchArgs;

/// Settings of the preset `engine`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of the preset engine")]
pub struct EngineArgs {
    /// Streams that exist and are appended to [default: 1000]
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
    /// Measure only these: bare, threads, futures
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub only: Vec<String>,
    /// Threads that the writers of `futures` share [default: 1]
    #[arg(long, value_name = "N")]
    pub reactors: Option<u32>,
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
    }
}

impl BenchArgs {
    /// Refuses the engine's settings where another preset runs.
    pub fn check_other_preset(&self) -> Result<()> {
        ensure!(
            !self.engine.is_used(),
            "--streams, --payload, --ack, --seconds, --only and --reactors are for --preset engine"
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
        let or = |values: &[u32], default: &[u32]| {
            if values.is_empty() { default.to_vec() } else { values.to_vec() }
        };
        let acks: Vec<Ack> = self.engine.ack.iter().map(|ack| Ack::from(*ack)).collect();
        Ok(Wishes {
            writers: or(&self.writers, &[1, 64, 256]),
            streams: or(&self.engine.streams, &[1000]),
            payload: or(&self.engine.payload, &[256]),
            acks: if acks.is_empty() { vec![Ack::Barrier] } else { acks },
            only: self.engine.only.clone(),
            measured,
            rounds: self.rounds.unwrap_or(3),
            reactors: self.engine.reactors.unwrap_or(1),
            seed: self.run.seed,
        })
    }
}
