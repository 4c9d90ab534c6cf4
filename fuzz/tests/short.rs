//! A short run of each target, without coverage to guide it: what long runs have found to lead somewhere new, as it is and
//! with mistakes, and bytes mixed from what the formats consist of.

use pvm_fuzz::TARGETS;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;
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

/// What is kept of the inputs by which long runs have reached all they have, for a target.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a folder can be read").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file can be read")).collect()
}

/// One of these with a few bytes wrong, or cut short.
fn mistaken(kept: &[Vec<u8>], mut seed: u64) -> Vec<u8> {
    let mut bytes = kept[next(&mut seed) as usize % kept.len()].clone();
    for _ in 0..next(&mut seed) % 4 {
        if let Some(at) = (next(&mut seed) as usize).checked_rem(bytes.len()) {
            bytes[at] ^= 1 << (next(&mut seed) % 8);
        }
    }
    if next(&mut seed).is_multiple_of(4) {
        bytes.truncate(next(&mut seed) as usize % (bytes.len() + 1));
    }
    bytes
}

fn try_on(target: &str, read: fn(&[u8]), bytes: &[u8]) {
    if let Err(panic) = catch_unwind(|| read(bytes)) {
        eprintln!("{target} failed on {bytes:02x?}");
        resume_unwind(panic);
    }
}

#[test]
fn nothing_that_can_be_read_does_harm() {
    for (name, read) in TARGETS {
        let kept = kept(name);
        assert!(!kept.is_empty(), "{name} has nothing to begin with");
        for bytes in &kept {
            try_on(name, read, bytes);
        }
        let begin = Instant::now();
        let mut seed = 0;
        while begin.elapsed() < TIME {
            try_on(name, read, &bytes(seed));
            try_on(name, read, &mistaken(&kept, seed));
            seed += 1;
        }
        eprintln!("{name}: {} inputs", kept.len() as u64 + 2 * seed);
        assert!(seed > 50, "{name} has read {} inputs in {TIME:?}", 2 * seed);
    }
}
