//! Starts the task manager.
fn main() {}
