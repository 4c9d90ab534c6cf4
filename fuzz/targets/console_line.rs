//! `cargo +nightly fuzz run --features libfuzzer console_line`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::console_line::read(bytes));
