//! What the core does about each event: it has the concerns decide, and carries out what follows.

mod carry_out;
mod hosts;
mod services;
