//! The power is cut after each operation of the disk. Then the jobs are those of the last save that was reported, or of the one that
//! was under way.

use super::database::{self, Changes};
use super::saver::Saver;
use super::simulated_disk::{Disk, Lost, Operation, after_cut};
use pvm_wire::daemon::Blob;
use pvm_wire::jobs::Stamp;
use pvmd_core::SavedState;
use std::collections::BTreeMap;

/// What is lost of the same operations: nothing, all that can be, and some.
const LOSSES: [Lost; 6] =
    [Lost::None, Lost::Unsynced, Lost::Some(1), Lost::Some(2), Lost::Some(3), Lost::Some(4)];
const BEGUN: &str = "begun";
const REPORTED: &str = "reported";

/// Jobs in the order of their numbers, which their text begins with.
pub(super) type Jobs = Vec<Vec<u8>>;

/// A job of this number in some state.
pub(super) fn job(number: u64, state: u64) -> Blob {
    let length = 250 + (number * 37 + state * 61) % 150;
    let mut text = format!("{number:06} in state {state} ").into_bytes();
    text.extend((0..length).map(|n| (n * number + state) as u8));
    Blob(text.into())
}

/// Saves that insert, change and remove, of one job and of many, and one of a large job.
pub(super) fn saves() -> Vec<Changes> {
    let set = |number, state| (number, Some(job(number, state)));
    let large = Blob(vec![b'9'; 20_000].into());
    vec![
        vec![set(1, 0)],
        (2..40).map(|number| set(number, 0)).collect(),
        vec![set(7, 1), set(8, 1), set(41, 0)],
        vec![(3, None), set(9, 1)],
        (1..30).map(|number| if number % 3 == 0 { (number, None) } else { set(number, 2) }).collect(),
        vec![(999_999, Some(large))],
        vec![set(40, 0)],
        (40..200).map(|number| set(number, 1)).collect(),
        (2..190).map(|number| (number, None)).collect(),
        vec![set(200, 3)],
    ]
}

/// The jobs after each number of saves.
pub(super) fn states(saves: &[Changes]) -> Vec<Jobs> {
    let mut jobs = BTreeMap::new();
    let mut states = vec![Jobs::new()];
    for changes in saves {
        for (number, job) in changes {
            match job {
                Some(job) => drop(jobs.insert(*number, job.0.to_vec())),
                None => drop(jobs.remove(number)),
            }
        }
        states.push(jobs.values().cloned().collect());
    }
    states
}

pub(super) fn read(disk: &Disk) -> Jobs {
    let opened = database::open(disk.clone()).expect("what is written can be read");
    assert!(opened.jobs.iter().all(|job| !job.is_doubtful));
    opened.jobs.into_iter().map(|job| job.bytes.0.to_vec()).collect()
}

/// What is saved beside the jobs.
pub(super) fn state(run: u64) -> SavedState {
    SavedState {
        stamp: Stamp { machine: 7, run, reign: 1 },
        is_closed: false,
        deputies: vec!["a".to_owned()],
    }
}

/// A disk with a file that has no jobs yet.
pub(super) fn new_disk() -> Disk {
    let disk = Disk::default();
    drop(database::open(disk.clone()).unwrap());
    Disk::of(disk.bytes())
}

pub(super) fn saver(disk: &Disk) -> Saver {
    let disk = disk.clone();
    Saver::new(None, Box::new(move || database::open(disk.clone()).map_err(|failure| format!("{failure:?}"))))
}

/// What a machine does to the disk that saves all of it and ends.
fn run(disk: &Disk) -> Vec<Operation> {
    let mut saver = saver(disk);
    for (run, changes) in (1..).zip(saves()) {
        disk.note(BEGUN);
        saver.save(&changes, Some(&state(run))).unwrap();
        disk.note(REPORTED);
    }
    drop(saver);
    disk.operations()
}

fn count(operations: &[Operation], what: &str) -> usize {
    operations.iter().filter(|operation| matches!(operation, Operation::Note(note) if *note == what)).count()
}

#[test]
fn a_cut_of_the_power_loses_nothing_that_was_reported_and_halves_no_save() {
    let disk = new_disk();
    let start = disk.bytes();
    let operations = run(&disk);
    let states = states(&saves());
    assert_eq!(&read(&disk), states.last().unwrap());
    let (mut cuts, mut undone, mut done) = (0, 0, 0);
    for end in 0..=operations.len() {
        let (before, _) = operations.split_at(end);
        if matches!(before.last(), Some(Operation::Note(_))) {
            continue;
        }
        let (reported, begun) = (count(before, REPORTED), count(before, BEGUN));
        for lost in LOSSES {
            let jobs = read(&Disk::of(after_cut(&start, before, lost)));
            let found = if jobs == states[reported] { reported } else { begun };
            assert!(jobs == states[found], "after {end} operations, {lost:?}: {before:?}");
            let disk = Disk::of(after_cut(&start, before, lost));
            let opened = database::open(disk).expect("what is written can be read");
            assert_eq!(
                opened.state.map_or(0, |state| state.stamp.run),
                found as u64,
                "what is said beside the jobs"
            );
            cuts += 1;
            undone += usize::from(found < begun);
            done += usize::from(found > reported);
        }
    }
    eprintln!("{} operations, {cuts} cuts: {undone} saves undone, {done} done unreported", operations.len());
    assert!(cuts > 500 && undone > 20 && done > 5, "{cuts} {undone} {done}");
}

#[test]
fn a_cut_of_the_power_while_the_file_is_opened_after_one_changes_nothing() {
    let disk = new_disk();
    let start = disk.bytes();
    let operations = run(&disk);
    let mut cuts = 0;
    // Each time in the middle of something else.
    for end in (0..operations.len()).step_by(7) {
        let lost = LOSSES[end % LOSSES.len()];
        let first = after_cut(&start, &operations[..end], lost);
        let again = Disk::of(first.clone());
        let jobs = read(&again);
        let opening = again.operations();
        for end in 0..opening.len() {
            for lost in [Lost::None, Lost::Unsynced, Lost::Some(5), Lost::Some(6)] {
                let jobs_then = read(&Disk::of(after_cut(&first, &opening[..end], lost)));
                assert!(jobs_then == jobs, "after {end} operations of the opening, {lost:?}");
                cuts += 1;
            }
        }
    }
    eprintln!("{cuts} cuts");
    assert!(cuts > 100, "{cuts}");
}
