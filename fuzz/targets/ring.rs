//! `cargo +nightly fuzz run --features libfuzzer ring`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::ring::read(bytes));
