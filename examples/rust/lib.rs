//! Programs to copy from, in Rust.
#![forbid(unsafe_code)]

pub mod fractal;
