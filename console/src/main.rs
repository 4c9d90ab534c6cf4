//! The `pvm` command.
fn main() {}
