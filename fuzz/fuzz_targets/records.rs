//! Searches for bytes that break what `highwater_fuzz::records` claims.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| highwater_fuzz::records(data));
