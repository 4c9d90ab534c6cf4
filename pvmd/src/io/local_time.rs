//! The time of day here, for the log and for hours of queues.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::sync::OnceLock;

/// The time now.
pub fn now() -> Zoned {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    Timestamp::now().to_zoned(ZONE.get_or_init(zone).clone())
}

/// `TZ`, or else the host's zone. That is read from its file: to find the zone's name, jiff reads the folders of all zones, which takes a
/// millisecond, and does so again every five minutes.
fn zone() -> TimeZone {
    let file = if std::env::var_os("TZ").is_none() { std::fs::read("/etc/localtime").ok() } else { None };
    file.and_then(|data| TimeZone::tzif("", &data).ok()).unwrap_or_else(TimeZone::system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_zone_is_as_the_library_finds_it() {
        let (ours, theirs) = (now(), Zoned::now());
        assert_eq!(ours.offset(), theirs.offset());
        assert!(theirs.duration_since(&ours).as_secs() < 60);
    }
}
