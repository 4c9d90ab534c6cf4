//! The same seed gives the same bytes: on one thread and on several, and, as the sums are in the tree, on every machine,
//! with every build and every allocator. Who changes a model on purpose puts the new sums here.

use clap::Args;
use pvm_sim::experiments::{Runs, allocation, batch, coallocation, dasic, epochs};
use pvm_sim::report::Report;
use pvm_sim::settings::parse;

fn settings<S: Args>(line: &str) -> S {
    parse(line.split_whitespace()).expect("arguments")
}

/// FNV-1a over the names and the contents of all files of a report.
fn sum(report: &Report) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in report.write(folder.path()).expect("written") {
        let name = file.file_name().expect("a name").as_encoded_bytes().to_vec();
        for byte in name.into_iter().chain(std::fs::read(&file).expect("there")) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    sum
}

fn check(name: &str, expected: u64, run: impl Fn(&Runs) -> Report + Sync) {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| sum(&run(&Runs::quiet(7, 3))))
    };
    let (one, four) = (on(1), on(4));
    assert_eq!(one, four, "{name}: threads must not matter");
    assert_eq!(one, expected, "{name}: {one:#018x}");
}

#[test]
fn coallocation_is_the_same_everywhere() {
    let settings = settings("--jobs 60 --bwbn 1,200");
    check("coallocation", 0xf887_aa8e_74f7_14ee, |runs| {
        coallocation::run(&settings, runs).expect("a report")
    });
}

#[test]
fn dasic_is_the_same_everywhere() {
    let settings = settings("--teams 20 --workstations 12 --largest 6 --work 20 --idle 300");
    check("dasic", 0x5d2c_dc95_c21c_7ac2, |runs| dasic::run(&settings, runs).expect("a report"));
}

#[test]
fn epochs_are_the_same_everywhere() {
    let settings = settings("--nodes 4 --grain 1,10 --time 1");
    check("epochs", 0x093d_49b3_8b7d_3236, |runs| epochs::run(&settings, runs).expect("a report"));
}

#[test]
fn epochs_on_several_processors_are_the_same_everywhere() {
    let settings = settings("--nodes 2 --processors 2 --daemon 0.02 --grain 0.1,10 --time 0.3");
    check("epochs on several processors", 0xeede_71f6_3ee1_45f9, |runs| {
        epochs::run(&settings, runs).expect("a report")
    });
}

#[test]
fn allocation_is_the_same_everywhere() {
    let settings = settings("--hosts 5 --load 0.8 --load-hosts 40 --processes 2 --batch 4");
    check("allocation", 0xfe53_0bae_0763_84b0, |runs| allocation::run(&settings, runs).expect("a report"));
}

#[test]
fn batch_is_the_same_everywhere() {
    let settings = settings("--jobs 200 --nodes 64 --users 5 --load 0.5,0.8 --mtbf 100");
    check("batch", 0x9f2d_977e_7bac_2d61, |runs| batch::run(&settings, runs).expect("a report"));
}
