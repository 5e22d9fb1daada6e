//! Searches for bytes that break what `highwater_fuzz::segment` claims.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_fuzz::segment(data));
