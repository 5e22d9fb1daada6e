//! Searches for bytes that break what `highwater_fuzz::label` claims.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_fuzz::label(data));
