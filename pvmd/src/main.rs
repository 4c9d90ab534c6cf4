//! The daemon as a program of its own.
fn main() {}
