//! Files that are not what was written.

use super::crash_tests::{Jobs, job, new_disk, saver, saves, state, states};
use super::database::{self, Failure};
use super::record;
use super::simulated_disk::Disk;
use super::{JobStore, StoreError, files};
use pvmd_core::SavedJob;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// redb's, of a page.
const PAGE: usize = 4096;

/// The bytes of a file after all saves and many jobs more, of a daemon that has ended well and of one that was killed.
fn written(has_ended_well: bool) -> (Vec<u8>, Jobs) {
    let disk = new_disk();
    let mut saver = saver(&disk);
    let mut saves = saves();
    saves.push((1000..1300).map(|number| (number, Some(job(number, 0)))).collect());
    // Every third again: its earlier state is somewhere in the file.
    saves.push((1000..1300).step_by(3).map(|number| (number, Some(job(number, 1)))).collect());
    for changes in &saves {
        saver.save(changes, None).unwrap();
    }
    let killed = disk.bytes();
    drop(saver);
    (if has_ended_well { disk.bytes() } else { killed }, states(&saves).pop().unwrap())
}

/// A generator of numbers below a limit.
fn numbers(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |limit| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % limit
    }
}

#[test]
fn no_byte_that_changes_makes_another_job() {
    let mut random = numbers(1);
    for has_ended_well in [true, false] {
        let (bytes, jobs) = written(has_ended_well);
        let last = jobs.iter().map(|job| &job[..]).collect::<BTreeSet<_>>();
        let (mut good, mut before, mut damaged, mut worst) = (0, 0, 0, 0);
        // All of the header, which is small and on which the most depends, and every third page.
        let header = (0..320).map(|at| (at, 1));
        let pages = (PAGE..bytes.len()).step_by(3 * PAGE).flat_map(|page| [(page, 1), (page, PAGE)]);
        for (at, length) in header.chain(pages) {
            let mut other = bytes.clone();
            if length == 1 {
                other[if at < PAGE { at } else { at + random(PAGE) }] ^= 1 << random(8);
            } else {
                other[at..at + length].fill(0);
            }
            match database::open(Disk::of(other.clone())) {
                Ok(opened) if opened.jobs.iter().map(|job| &job.bytes.0[..]).eq(jobs.iter()) => good += 1,
                // redb takes it for a save that was under way when the daemon was killed, and undoes it.
                Ok(opened) if !has_ended_well => {
                    before += 1;
                    assert!(opened.jobs.len() == jobs.len(), "{at}");
                }
                Ok(_) => panic!("byte {at} has changed other jobs"),
                Err(Failure::Damaged(_)) => {
                    damaged += 1;
                    if at < PAGE {
                        // No job is there.
                        continue;
                    }
                    let found = record::find_all(&other);
                    let whole = found.values().filter(|record| last.contains(record.job)).count();
                    worst = worst.max(jobs.len() - whole);
                }
                Err(failure) => panic!("byte {at}: {failure:?}"),
            }
        }
        eprintln!(
            "ended well: {has_ended_well}, {} jobs: {good} harmless, {before} undo the last save, {damaged} damaged, \
             {worst} jobs lost at most or found as they were before",
            jobs.len()
        );
        assert!(good > 0 && damaged > 30 && worst < 20, "{good} {damaged} {worst}");
    }
}

/// What remains of a file in this state, and what the daemon says.
struct Case {
    folder: tempfile::TempDir,
    path: PathBuf,
    damaged: Vec<u8>,
}

impl Case {
    fn of(damaged: Vec<u8>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.a.redb");
        fs::write(&path, &damaged).unwrap();
        Self { folder, path, damaged }
    }

    fn read(&self) -> Result<Vec<SavedJob>, StoreError> {
        let (store, saved) = JobStore::read(self.path.clone(), mpsc::channel(1).0)?;
        store.finish();
        Ok(saved.jobs)
    }

    /// Jobs that were found, which are doubtful at the next start as well.
    fn expect_salvaged(&self) -> Vec<SavedJob> {
        let jobs = self.read().unwrap();
        assert!(jobs.iter().all(|job| job.is_doubtful));
        assert_eq!(self.read().unwrap(), jobs);
        let others = names(self.folder.path());
        assert_eq!(others.len(), 2, "{others:?}");
        let aside = others.iter().find(|name| name.starts_with("jobs.a.damaged-")).unwrap();
        assert!(fs::read(self.folder.path().join(aside)).unwrap().len() == self.damaged.len());
        jobs
    }
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn of_a_damaged_file_all_that_is_whole_is_kept() {
    for has_ended_well in [true, false] {
        let (bytes, jobs) = written(has_ended_well);
        let saved = |jobs: &[SavedJob]| jobs.iter().map(|job| job.bytes.0.to_vec()).collect::<BTreeSet<_>>();
        let all = jobs.iter().cloned().collect::<BTreeSet<_>>();
        let mut without_header = bytes.clone();
        without_header[..PAGE].fill(0);
        assert!(
            saved(&Case::of(without_header).expect_salvaged()).is_superset(&all),
            "no job is in the header"
        );
        for part in [2, 4, 8] {
            let damaged = Case::of(bytes[..bytes.len() / part].to_vec());
            let kept = saved(&damaged.expect_salvaged());
            eprintln!("1/{part} of the file: {} of {} jobs", kept.intersection(&all).count(), all.len());
        }
        let mut one = bytes.clone();
        let place = one.windows(40).rposition(|window| window == &jobs[200][..40]).unwrap();
        one[place + 50] ^= 4;
        let kept = saved(&Case::of(one).expect_salvaged());
        assert_eq!(all.difference(&kept).collect::<Vec<_>>(), [&jobs[200]], "the others are whole");
    }
}

#[test]
fn of_what_is_no_file_of_jobs_nothing_is_kept() {
    let (bytes, _) = written(true);
    for damaged in [
        Vec::new(),
        vec![0; 1],
        vec![0; 100_000],
        vec![7; 9000],
        b"text\n".repeat(5000),
        bytes[..100].to_vec(),
        bytes[..PAGE].to_vec(),
        bytes[..=PAGE].to_vec(),
    ] {
        assert!(Case::of(damaged).expect_salvaged().is_empty());
    }
}

#[test]
fn a_doubtful_job_is_not_doubtful_any_more_when_it_is_saved() {
    let (mut bytes, jobs) = written(true);
    bytes[..PAGE].fill(0);
    let case = Case::of(bytes);
    let found = case.expect_salvaged();
    let opened = files::open(&case.path).unwrap();
    database::write(&opened.database, opened.serial + 1, (&vec![(1000, Some(job(1000, 7)))], None)).unwrap();
    drop(opened);
    let now = case.read().unwrap();
    let sure = now.iter().filter(|job| !job.is_doubtful).collect::<Vec<_>>();
    assert!(now.len() == found.len() && now.len() >= jobs.len());
    assert_eq!(sure, [&SavedJob { bytes: job(1000, 7), is_doubtful: false }]);
}

#[test]
fn a_file_of_a_later_format_is_not_taken_for_damaged() {
    let (mut bytes, _) = written(true);
    [bytes[64], bytes[192]] = [4, 4];
    let case = Case::of(bytes);
    let error = case.read().unwrap_err();
    assert!(
        error.to_string().ends_with("has version 4, this daemon knows 3: use the pvmd that has written it")
    );
    assert_eq!(fs::read(&case.path).unwrap(), case.damaged);
    assert_eq!(names(case.folder.path()), ["jobs.a.redb"]);
}

#[test]
fn a_file_that_was_not_finished_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.a.redb");
    fs::write(path.with_extension("new"), [7; 5000]).unwrap();
    let (mut store, saved) = JobStore::read(path.clone(), mpsc::channel(9).0).unwrap();
    assert!(saved.jobs.is_empty());
    store.save(1, vec![(1, Some(job(1, 0)))], state(1));
    store.finish();
    assert_eq!(names(folder.path()), ["jobs.a.redb"]);
}
