//! A case: how many write, to how many streams, how much at a time, and what an acknowledgement
//! waits for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an acknowledgement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// The barrier: survives a power cut.
    Barrier,
    /// The write call: survives a killed process. NOT DURABLE.
    Write,
    /// The copy into memory; a barrier follows within 100 ms. NOT DURABLE.
    Staged,
}

/// One point in the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// Who append at the same time, each waiting for its acknowledgement before the next.
    pub writers: u32,
    /// Streams that exist and are appended to, in random order.
    pub streams: u32,
    /// Bytes of an append.
    pub payload_bytes: u32,
    /// What an acknowledgement waits for.
    pub ack: Ack,
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "barrier",
            Self::Write => "write, NOT DURABLE",
            Self::Staged => "staged, NOT DURABLE",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        let Self { writers, streams, payload_bytes, ack } = self;
        write!(
            f,
            "{writers} writer{}, {streams} stream{}, {payload_bytes} B",
            plural(*writers),
            plural(*streams)
        )?;
        if *ack == Ack::Barrier { Ok(()) } else { write!(f, ", {ack}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_a_barrier_says_so_wherever_it_is_named() {
        let case = Case { writers: 1, streams: 1000, payload_bytes: 256, ack: Ack::Barrier };
        assert_eq!(case.to_string(), "1 writer, 1000 streams, 256 B");
        for ack in [Ack::Write, Ack::Staged] {
            assert!(Case { ack, ..case.clone() }.to_string().contains("NOT DURABLE"));
        }
    }
}
