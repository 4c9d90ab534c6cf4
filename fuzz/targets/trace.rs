//! `cargo +nightly fuzz run --features libfuzzer trace`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::trace::read(bytes));
