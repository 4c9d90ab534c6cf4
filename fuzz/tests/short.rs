//! A short run of each target, without coverage to guide it: bytes of a seed, mixed from what the formats consist of.

use pvm_fuzz::TARGETS;
use std::time::{Duration, Instant};

/// How long each target runs.
const TIME: Duration = Duration::from_secs(2);

/// Pieces of what the targets read.
const WORDS: [&[u8]; 24] = [
    b"alias ",
    b"spawn -",
    b" -> ",
    b"\"",
    b"$",
    b"&",
    b"*",
    b" ep=",
    b" sp=",
    b" via=local",
    b"\\\n",
    b"\n",
    b"#",
    b"host",
    b"\0\0\0\x01",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\x04\0\x01",
    b"\x10\0\0\0",
    b"\0\0\0\x04abcd",
    b"\xfb",
    b"\xfd\xff\xff\xff\xff",
    b"\0",
];

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn bytes(mut seed: u64) -> Vec<u8> {
    let length = next(&mut seed) as usize % 600;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let choice = next(&mut seed);
        if choice.is_multiple_of(3) {
            bytes.extend_from_slice(WORDS[(choice >> 8) as usize % WORDS.len()]);
        } else {
            // Small numbers are lengths, tags and kinds more often than large ones.
            bytes.push((choice >> 8) as u8 >> ((choice >> 16) % 8));
        }
    }
    bytes
}

#[test]
fn nothing_that_can_be_read_does_harm() {
    for (name, read) in TARGETS {
        let begin = Instant::now();
        let mut seed = 0;
        while begin.elapsed() < TIME {
            let bytes = bytes(seed);
            if let Err(panic) = std::panic::catch_unwind(|| read(&bytes)) {
                eprintln!("{name} failed on the bytes of seed {seed}: {bytes:02x?}");
                std::panic::resume_unwind(panic);
            }
            seed += 1;
        }
        eprintln!("{name}: {seed} inputs");
        assert!(seed > 100, "{name} has read {seed} inputs in {TIME:?}");
    }
}
