//! Sockets that are waited for only for what somebody waits for. tokio's own are always waited for in both directions: whenever a
//! receiver takes what was sent, its sender is woken to hear that there is room, which there was before.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A socket that is waited for in these directions.
pub type Watched<T> = AsyncFd<T>;

/// Begins to watch it.
pub fn watch<T: AsFd + AsRawFd>(socket: T, interest: Interest) -> io::Result<Watched<T>> {
    #[expect(
        deprecated,
        reason = "sound for what owns or shares the descriptor that it shows, as all that is `AsFd` does"
    )]
    AsyncFd::with_interest(socket, interest)
}
