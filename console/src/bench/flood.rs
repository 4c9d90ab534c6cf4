//! Short messages one way, many before there is an answer, by PVM and by TCP.

use super::line::{Line, Stop};
use super::order::{FLOOD, Half, Pair};
use super::pingpong::{Talk, check, content, timed, warm_up};
use pvm3::Tid;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes that the receiver of a connection reads at a time.
const BUFFER: usize = 64 * 1024;

/// This worker's half by PVM; returns the time of all floods but the first ones.
pub fn by_pvm(line: &mut Line, pair: &Pair, tag: i32) -> Result<Duration, Stop> {
    let mut talk = Talk::new(line, Tid::from_raw(pair.peer), tag, pair.bytes);
    if pair.half == Half::Follows {
        for _ in 0..warm_up(pair.count) + pair.count {
            for _ in 0..FLOOD {
                talk.receive()?;
            }
            talk.answer()?;
        }
        talk.check()?;
        return Ok(Duration::ZERO);
    }
    timed(pair.count, || {
        for _ in 0..FLOOD {
            talk.send()?;
        }
        talk.await_answer()
    })
}

/// The same by TCP: a system call for each message that is sent.
pub fn by_tcp(stream: &mut TcpStream, pair: &Pair) -> Result<Duration, Stop> {
    let data = content(pair.bytes);
    if pair.half == Half::Follows {
        return drain(stream, &data, warm_up(pair.count) + pair.count);
    }
    timed(pair.count, || {
        for _ in 0..FLOOD {
            stream.write_all(&data)?;
        }
        Ok(stream.read_exact(&mut [0])?)
    })
}

fn drain(stream: &TcpStream, data: &[u8], floods: u64) -> Result<Duration, Stop> {
    let mut came = vec![0; data.len()];
    // Nothing stays in the buffer: the sender waits for the answer.
    let mut buffer = BufReader::with_capacity(BUFFER, stream);
    for _ in 0..floods {
        for _ in 0..FLOOD {
            buffer.read_exact(&mut came)?;
        }
        (&*stream).write_all(&[0])?;
    }
    check(data, &came)?;
    Ok(Duration::ZERO)
}
