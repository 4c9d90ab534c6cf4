//! Programs to copy from, in Rust: [`mandelbrot`] is the one to open first; `hello.rs` is the shortest.
#![forbid(unsafe_code)]

pub mod fractal;
pub mod mandelbrot;
