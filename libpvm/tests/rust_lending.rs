//! Long messages by the daemon, whose bodies are lent and not copied through the socket, on every daemon there is; the original's
//! borrows nothing.

mod rust_support;

use pvm3::Pack;
use rust_support::{Test, check_numbered, kill, numbered, process_of, spawn_on, with_hosts, with_parent};
use std::process::ExitCode;

const TESTS: &[Test] = &[
    ("bodies_come_through_whole", bodies_come_through_whole),
    ("order_of_lent_and_written", order_of_lent_and_written),
    ("a_receiver_that_takes_nothing_is_waited_for", a_receiver_that_takes_nothing_is_waited_for),
    ("receivers_that_are_killed", receivers_that_are_killed),
];

const ROLES: &[Test] = &[("echo", echo), ("checker", checker), ("sleeper", sleeper), ("hoarder", hoarder)];

/// Tags of the tests' messages.
const WORK: i32 = 1;
const DONE: i32 = 2;
const ENDED: i32 = 3;

fn main() -> ExitCode {
    rust_support::main(TESTS, ROLES)
}

/// Segments that this process has mapped: its own, and others' that it reads.
fn segments() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("/memfd:pvm (deleted)")).count()
}

/// Sends everything back.
fn echo() {
    let (mut task, parent) = with_parent();
    loop {
        let mut message = task.recv(parent, pvm3::Any).unwrap();
        if message.tag() == DONE {
            return;
        }
        let (words, bytes) = (message.get_one::<i32>().unwrap(), message.get_one::<i32>().unwrap());
        let words: Vec<i32> = message.get(words as usize).unwrap();
        let bytes: Vec<u8> = message.get(bytes as usize).unwrap();
        task.send(parent, WORK, &packed(Pack::new(), &words, &bytes)).unwrap();
    }
}

fn packed(mut pack: Pack, words: &[i32], bytes: &[u8]) -> Pack {
    pack.put_one(words.len() as i32).unwrap().put_one(bytes.len() as i32).unwrap();
    pack.put(words).unwrap().put(bytes).unwrap();
    pack
}

fn bodies_come_through_whole() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    assert_eq!(segments(), 0, "nothing is shared before it is of use");
    let peer = spawn_on(&mut task, "echo", "far");
    for length in [0, 1, 5000, 16_384, 32_767, 32_768, 65_000, 65_536, 300_001, 3_000_000, 20_000_000] {
        let words: Vec<i32> = (0..length / 8).map(|number| number * 77).collect();
        let bytes: Vec<u8> = (0..length / 2).map(|number| (number % 251) as u8).collect();
        for pack in [Pack::new(), Pack::raw()] {
            task.send(peer, WORK, &packed(pack, &words, &bytes)).unwrap();
            let mut message = task.recv(peer, WORK).unwrap();
            assert_eq!(message.get_one::<i32>().unwrap() as usize, words.len());
            assert_eq!(message.get_one::<i32>().unwrap() as usize, bytes.len());
            assert!(message.get::<i32>(words.len()).unwrap() == words, "{length} bytes");
            assert!(message.get::<u8>(bytes.len()).unwrap() == bytes, "{length} bytes");
        }
    }
    assert_eq!(segments(), 2, "its own and the daemon's");
    task.send(peer, DONE, &Pack::new()).unwrap();
}

/// Takes numbered messages until one has no number.
fn checker() {
    let (mut task, parent) = with_parent();
    let mut kept = Vec::new();
    for number in 0.. {
        let mut message = task.recv(parent, WORK).unwrap();
        if message.is_empty() {
            break;
        }
        check_numbered(&mut message, number);
        if number % 5 == 0 {
            kept.push(message);
        }
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
}

fn order_of_lent_and_written() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let peer = spawn_on(&mut task, "checker", "far");
    let lengths = [0, 100_000, 7, 20_000, 5000, 700_000];
    (0..300).for_each(|number| task.send(peer, WORK, &numbered(number, &lengths)).unwrap());
    task.send(peer, WORK, &Pack::new()).unwrap();
    task.recv(peer, DONE).unwrap();
}

/// Takes nothing for a while, then all.
fn sleeper() {
    let (mut task, parent) = with_parent();
    task.send(parent, DONE, &Pack::new()).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    for number in 0..100 {
        let mut message = task.recv(parent, WORK).unwrap();
        assert!(message.get::<u8>(1 << 20).unwrap().iter().all(|&byte| byte == number), "{number}");
    }
    task.send(parent, DONE, &Pack::new()).unwrap();
}

fn a_receiver_that_takes_nothing_is_waited_for() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let peer = spawn_on(&mut task, "sleeper", "far");
    task.recv(peer, DONE).unwrap();
    for number in 0..100_u8 {
        let mut pack = Pack::raw();
        pack.put(&vec![number; 1 << 20]).unwrap();
        task.send(peer, WORK, &pack).unwrap();
        // 16 MiB at each end of the way, what is under way between them, and what is read ahead.
        let used = shared_memory();
        assert!(used < 48 << 20, "{used} bytes are lent");
    }
    task.recv(peer, DONE).unwrap();
}

/// Bytes of this process's own segment that have memory.
fn shared_memory() -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = all.lines();
    let mut sum = 0;
    while let Some(line) = lines.next() {
        if line.contains("/memfd:pvm (deleted)") {
            let pages = lines.by_ref().find_map(|line| line.strip_prefix("Rss:")).unwrap();
            sum += pages.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
        }
    }
    sum
}

/// Keeps what it gets until it is killed.
fn hoarder() {
    let (mut task, parent) = with_parent();
    let kept: Vec<_> = (0..8).map(|_| task.recv(parent, WORK).unwrap()).collect();
    task.send(parent, DONE, &Pack::new()).unwrap();
    task.recv(parent, WORK).unwrap();
    drop(kept);
}

fn receivers_that_are_killed() {
    let Some(mut task) = with_hosts(&["far via=local"]) else { return };
    let mut pack = Pack::raw();
    pack.put(&vec![7_u8; 3 << 20]).unwrap();
    for _ in 0..12 {
        let peer = spawn_on(&mut task, "hoarder", "far");
        task.notify_exit(&[peer], ENDED).unwrap();
        (0..8).for_each(|_| task.send(peer, WORK, &pack).unwrap());
        task.recv(peer, DONE).unwrap();
        kill(process_of(&mut task, peer));
        task.recv(pvm3::Any, ENDED).unwrap();
    }
    // A quarter of a gigabyte, which is half of what it may fill, would not be there if the daemon had kept what it had lent to them.
    let peer = spawn_on(&mut task, "echo", "far");
    let bytes = vec![9; 1 << 20];
    task.send(peer, WORK, &packed(Pack::new(), &[], &bytes)).unwrap();
    assert_eq!(task.recv(peer, WORK).unwrap().len(), 8 + bytes.len());
    task.send(peer, DONE, &Pack::new()).unwrap();
}
