//! `cargo +nightly fuzz run --features libfuzzer daemon_messages`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::daemon_messages::read(bytes));
