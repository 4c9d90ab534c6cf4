//! `cargo +nightly fuzz run --features libfuzzer hostfile`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::hostfile::read(bytes));
