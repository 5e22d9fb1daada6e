//! Searches for bytes that break what `highwater_fuzz::entry` claims.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_fuzz::entry(data));
