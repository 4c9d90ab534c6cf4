//! Two workers that send messages to and fro, by PVM and by TCP.

use super::line::{Line, Stop};
use super::order::{Half, Pair};
use pvm3::{Pack, Tid};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Repetitions before the measured ones.
pub fn warm_up(count: u64) -> u64 {
    (count / 8).clamp(1, 1000)
}

/// Runs `once` to warm up, then `count` times more, and returns the time of the latter. Fails as `once` does.
pub fn timed(count: u64, mut once: impl FnMut() -> Result<(), Stop>) -> Result<Duration, Stop> {
    for _ in 0..warm_up(count) {
        once()?;
    }
    let start = Instant::now();
    for _ in 0..count {
        once()?;
    }
    Ok(start.elapsed())
}

/// Content of messages: bytes that differ from place to place.
pub fn content(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|place| (place * 31 % 251) as u8).collect()
}

/// A worker and the one that it talks to.
#[derive(Debug)]
pub struct Talk<'a> {
    line: &'a mut Line,
    peer: Tid,
    tag: i32,
    pack: Pack,
    /// What is sent.
    pub data: Vec<u8>,
    /// What was received.
    pub came: Vec<u8>,
}

impl<'a> Talk<'a> {
    /// With messages of this length, which must have been checked.
    pub fn new(line: &'a mut Line, peer: Tid, tag: i32, bytes: u64) -> Self {
        let data = content(bytes);
        let came = vec![0; data.len()];
        Self { line, peer, tag, pack: Pack::new(), data, came }
    }

    /// Packs and sends a message.
    pub fn send(&mut self) -> Result<(), Stop> {
        self.pack.clear();
        self.pack.put(&self.data)?;
        Ok(self.line.task.send(self.peer, self.tag, &self.pack)?)
    }

    /// Receives a message and unpacks it.
    pub fn receive(&mut self) -> Result<(), Stop> {
        Ok(self.line.next(self.peer, self.tag)?.get_into(&mut self.came)?)
    }

    /// Sends a message without content.
    pub fn answer(&mut self) -> Result<(), Stop> {
        Ok(self.line.task.send(self.peer, self.tag, &Pack::new())?)
    }

    /// Waits for one.
    pub fn await_answer(&mut self) -> Result<(), Stop> {
        self.line.next(self.peer, self.tag).map(drop)
    }

    /// Fails if what came is not what was sent.
    pub fn check(&self) -> Result<(), Stop> {
        check(&self.data, &self.came)
    }
}

/// Fails if what came is not what was sent.
pub fn check(data: &[u8], came: &[u8]) -> Result<(), Stop> {
    if data == came { Ok(()) } else { Err(Stop::Failed("what was received is not what was sent".into())) }
}

/// This worker's half by PVM; returns the time of all round trips but the first ones.
pub fn by_pvm(line: &mut Line, pair: &Pair, tag: i32) -> Result<Duration, Stop> {
    let mut talk = Talk::new(line, Tid::from_raw(pair.peer), tag, pair.bytes);
    if pair.half == Half::Follows {
        for _ in 0..warm_up(pair.count) + pair.count {
            talk.receive()?;
            std::mem::swap(&mut talk.data, &mut talk.came);
            talk.send()?;
        }
        return Ok(Duration::ZERO);
    }
    let took = timed(pair.count, || {
        talk.send()?;
        talk.receive()
    })?;
    talk.check()?;
    Ok(took)
}

/// The same by TCP.
pub fn by_tcp(stream: &mut TcpStream, pair: &Pair) -> Result<Duration, Stop> {
    let data = content(pair.bytes);
    let mut came = vec![0; data.len()];
    if pair.half == Half::Follows {
        for _ in 0..warm_up(pair.count) + pair.count {
            stream.read_exact(&mut came)?;
            stream.write_all(&came)?;
        }
        return Ok(Duration::ZERO);
    }
    let took = timed(pair.count, || {
        stream.write_all(&data)?;
        Ok(stream.read_exact(&mut came)?)
    })?;
    check(&data, &came)?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_repetitions_comes_before_the_measured_ones() {
        assert_eq!([1, 7, 80, 1_000_000].map(warm_up), [1, 1, 10, 1000]);
        assert_eq!(content(4), [0, 31, 62, 93]);
    }
}
