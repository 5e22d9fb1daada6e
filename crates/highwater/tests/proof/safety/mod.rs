//! What a run never touches, and what it leaves behind however it ends.

mod full;
mod killed;
mod refused;
mod stopped;
mod untouched;

/// A run that goes on until it is stopped: short rounds, more of them than anybody waits for.
const ENDLESS: &str = "bench --state append,allocated,initialised --barrier fdatasync,none \
                       --iterations 40 --warmup 5 --rounds 1000000 --max-bytes 1024TiB";
