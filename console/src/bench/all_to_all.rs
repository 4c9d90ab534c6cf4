//! Workers of all hosts, each of which sends to each other one and receives from it, by PVM and by TCP.

use super::line::{Line, Stop};
use super::pingpong::{check, content, warm_up};
use pvm3::{Pack, Tid};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// This worker's part by PVM; returns the time of all exchanges but the first ones. Workers begin in different places, so that not all send
/// to the same one.
pub fn by_pvm(line: &mut Line, peers: &[Tid], tag: i32, bytes: u64, count: u64) -> Result<Duration, Stop> {
    let data = content(bytes);
    let mut came = vec![0; data.len()];
    let mut pack = Pack::new();
    let warm = warm_up(count);
    let own = line.task.tid();
    let behind = peers.iter().position(|&peer| peer > own).unwrap_or(0);
    let mut start = Instant::now();
    for number in 0..warm + count {
        if number == warm {
            start = Instant::now();
        }
        for &peer in peers[behind..].iter().chain(&peers[..behind]) {
            pack.clear();
            pack.put(&data)?;
            line.task.send(peer, tag, &pack)?;
        }
        for &peer in peers {
            line.next(peer, tag)?.get_into(&mut came)?;
        }
    }
    let took = start.elapsed();
    check(&data, &came)?;
    Ok(took)
}

/// The same by TCP: a thread for each direction of each connection.
pub fn by_tcp(streams: &[&TcpStream], bytes: u64, count: u64) -> Result<Duration, Stop> {
    exchange(streams, bytes, warm_up(count))?;
    let start = Instant::now();
    exchange(streams, bytes, count)?;
    Ok(start.elapsed())
}

fn exchange(streams: &[&TcpStream], bytes: u64, count: u64) -> Result<(), Stop> {
    let data = content(bytes);
    let data = data.as_slice();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for &stream in streams {
            let send = move || -> Result<(), Stop> {
                let mut stream = stream;
                (0..count).try_for_each(|_| Ok(stream.write_all(data)?))
            };
            let receive = move || -> Result<(), Stop> {
                let (mut stream, mut came) = (stream, vec![0; data.len()]);
                (0..count).try_for_each(|_| stream.read_exact(&mut came))?;
                check(data, &came)
            };
            threads.push(thread::Builder::new().spawn_scoped(scope, send)?);
            threads.push(thread::Builder::new().spawn_scoped(scope, receive)?);
        }
        let failed = |_| Err(Stop::Failed("a thread has failed".into()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(failed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn both_ends_of_connections_exchange_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        // More than the buffers of both ends hold.
        let bytes = 8 * 1024 * 1024;
        thread::scope(|scope| {
            let other = scope.spawn(|| by_tcp(&[&far], bytes, 2));
            assert!(by_tcp(&[&near], bytes, 2).unwrap() > Duration::ZERO);
            other.join().unwrap().unwrap();
        });
        drop(far);
        assert!(by_tcp(&[&near], bytes, 1).is_err(), "the other end is closed");
    }
}
