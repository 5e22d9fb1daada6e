//! Searches for bytes that break what `streams::subscription` claims.

#![no_main]

#[expect(dead_code, reason = "each target is a program of its own")]
#[path = "../src/streams.rs"]
mod streams;

libfuzzer_sys::fuzz_target!(|data: &[u8]| streams::subscription(data));
