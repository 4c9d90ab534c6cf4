//! `cargo +nightly fuzz run --features libfuzzer task_socket`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pvm_fuzz::task_socket::read(bytes));
