//! The channel to its daemon that a task inherits.
//!
//! What our daemon starts has one end of a connection open, in which the enrolment's answer lies already
//! ([`crate::calls::enrolment::EnrolReply`], without any header). Only the very process that was started may use it, and only after
//! it has read that. Another that enrols in its place, as a script's program does, reads it and connects to the daemon's socket.

use crate::codes::EXTENSION_VERSION;

/// What a process is told of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its descriptor.
    pub descriptor: i32,
    /// The number of the file that is open there: programs close descriptors, and open others in their places.
    pub file: u64,
    /// The daemon's process, the parent of whom the channel is for.
    pub daemon: i32,
}

impl Channel {
    /// The value of the variable.
    pub fn encode(&self) -> String {
        format!("{EXTENSION_VERSION}:{}:{}:{}", self.descriptor, self.file, self.daemon)
    }

    /// What such a value says, if this version has written it.
    pub fn decode(value: &str) -> Option<Self> {
        let mut numbers = value.split(':');
        let version: i32 = numbers.next()?.parse().ok()?;
        let (descriptor, file, daemon) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let channel = Self {
            descriptor: descriptor.parse().ok()?,
            file: file.parse().ok()?,
            daemon: daemon.parse().ok()?,
        };
        (version == EXTENSION_VERSION && channel.descriptor >= 0 && numbers.next().is_none())
            .then_some(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_which_channel() {
        let channel = Channel { descriptor: 3, file: 1 << 40, daemon: 4711 };
        assert_eq!(Channel::decode(&channel.encode()), Some(channel));
        let other = channel.encode().replacen(&EXTENSION_VERSION.to_string(), "1", 1);
        for value in [other.as_str(), "", "6", "6:3:4", "6:-1:4:5", "6:3:4:5:6", "6:3:x:5"] {
            assert_eq!(Channel::decode(value), None, "{value}");
        }
    }
}
