//! A disk that is full: what fails leaves nothing, and when there is room again jobs are saved again.

use super::JobStore;
use super::crash_tests::{job, new_disk, read, saver, saves, state, states};
use super::database::Changes;
use super::simulated_disk::Disk;
use crate::io::driver::Input;
use pvm_tests::peers::{self, Peer};
use pvmd_core::event::Event;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::sync::mpsc;

#[test]
fn what_fails_on_a_full_disk_leaves_nothing_and_what_follows_is_saved() {
    let saves = saves();
    let states = states(&saves);
    let mut failed_at = vec![0; saves.len()];
    for room in 0.. {
        let disk = new_disk();
        let mut saver = saver(&disk);
        disk.set_room(Some(room));
        let Some(failed) = saves.iter().position(|changes| saver.save(changes, None).is_err()) else { break };
        failed_at[failed] += 1;
        let error = saver.save(&saves[failed], None).expect_err("the disk is full");
        assert!(error.contains("No space left on device"), "{error}");
        // The daemon might end now. What has failed may be there then as a whole: nothing could be written any more.
        let jobs = read(&Disk::of(disk.bytes()));
        assert!(jobs == states[failed] || jobs == states[failed + 1], "{room}");

        disk.set_room(None);
        let other = vec![(500_000, Some(job(500_000, 0)))];
        saver.save(&other, None).unwrap();
        let mut jobs = states[failed].clone();
        jobs.push(job(500_000, 0).0.to_vec());
        jobs.sort();
        assert!(read(&Disk::of(disk.bytes())) == jobs, "{room}: what has failed is not there");
        saver.save(&vec![(500_000, None)], None).unwrap();
        for changes in &saves[failed..] {
            saver.save(changes, None).unwrap();
        }
        drop(saver);
        assert_eq!(&read(&disk), states.last().unwrap(), "{room}");
    }
    eprintln!("failures in each save: {failed_at:?}");
    assert!(failed_at.iter().all(|&count| count > 0), "{failed_at:?}");
}

/// A file system of its own, of this size.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn over(folder: &Path, size: &str) -> Self {
        let options = format!("size={size},mode=700");
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).status();
        assert!(status.unwrap().success(), "a tmpfs can be mounted on {}", folder.display());
        Self(folder.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

async fn saved(store: &mut JobStore, events: &mut mpsc::Receiver<Input>, changes: Changes) -> Option<String> {
    store.save(1, changes, state(1));
    match events.recv().await {
        Some(Input::Event(Event::JobsSaved { failure, .. })) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_store_on_a_full_disk_goes_on_when_there_is_room() {
    if peers::require(&[Peer::Mount], "a full disk under the jobs").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::over(folder.path(), "3m");
    let path = folder.path().join("jobs.a.redb");
    let filler = folder.path().join("filler");
    let fill = || {
        let mut file = fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    };
    let (input, mut events) = mpsc::channel(9);
    let (mut store, _) = JobStore::read(path.clone(), input.clone()).unwrap();
    let many =
        |first: u64| (first..first + 1000).map(|number| (number, Some(job(number, 0)))).collect::<Changes>();

    fill();
    let failure = saved(&mut store, &mut events, many(1)).await;
    assert!(
        failure.is_some_and(|failure| failure.contains("No space left on device")),
        "no file can be made"
    );
    fs::remove_file(&filler).unwrap();
    assert_eq!(saved(&mut store, &mut events, many(1)).await, None);
    fill();
    let mut first = 1001;
    let failure = loop {
        match saved(&mut store, &mut events, many(first)).await {
            None => first += 1000,
            Some(failure) => break failure,
        }
    };
    assert!(failure.contains("No space left on device"), "{failure}");
    assert!(saved(&mut store, &mut events, many(first)).await.is_some(), "it is still full");
    fs::remove_file(&filler).unwrap();
    assert_eq!(saved(&mut store, &mut events, vec![(900_000, Some(job(900_000, 0)))]).await, None);
    store.finish();
    fill();
    let (store, saved) = JobStore::read(path, input).expect("jobs are read from a full disk");
    let jobs = saved.jobs.into_iter().map(|job| job.bytes).collect::<Vec<_>>();
    let expected = (1..first).chain([900_000]).map(|number| job(number, 0)).collect::<Vec<_>>();
    assert!(jobs == expected, "{} jobs instead of {}", jobs.len(), expected.len());
    store.finish();
    drop(disk);
}
