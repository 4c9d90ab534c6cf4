//! `cargo +nightly fuzz run --features libfuzzer unpack`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::unpack::read(bytes));
