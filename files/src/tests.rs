use super::*;
use rustix::fs::{chownat, mknodat};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    (folder, path)
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Only root can; the tests of the whole system try it with another user's files in any case.
fn give_away(path: &Path) -> bool {
    let nobody = fs::Uid::from_raw(65534);
    chownat(CWD, path, Some(nobody), None, fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[test]
fn own_regular_files_are_read_up_to_a_limit() {
    let (_folder, path) = folder();
    assert!(read(&path, 5).unwrap_err().is_not_found());
    std::fs::write(&path, "12345").unwrap();
    assert_eq!(read(&path, 5).unwrap(), b"12345");
    assert!(matches!(read(&path, 4), Err(FileError::TooLong { most: 4, .. })));
}

#[test]
fn other_kinds_of_files_are_refused_at_once() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 5] = [
        ("a FIFO", fifo),
        ("a symbolic link", |path| symlink("/dev/zero", path).unwrap()),
        ("a symbolic link", |path| symlink("/etc/hostname", path).unwrap()),
        ("a folder", |path| std::fs::create_dir(path).unwrap()),
        ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ];
    for (kind, plant) in plants {
        let (_folder, path) = folder();
        plant(&path);
        for result in [read(&path, 10).map(drop), create(&path).map(drop), mark(&path, b"x")] {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(kind) && text.contains("PVM_TMP"), "{text}");
        }
    }
}

#[test]
fn files_of_other_users_are_refused_by_name() {
    let (_folder, path) = folder();
    std::fs::write(&path, "1").unwrap();
    if !give_away(&path) {
        return eprintln!("not checked: files of other users (this is not root)");
    }
    for result in [read(&path, 10).map(drop), create(&path).map(drop), mark(&path, b"x")] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(path.to_str().unwrap()) && text.contains("belongs to uid 65534"), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"1");
}

#[test]
fn a_file_with_a_second_name_is_not_written() {
    let (folder, path) = folder();
    let other = folder.path().join("precious");
    std::fs::write(&other, "").unwrap();
    std::fs::hard_link(&other, &path).unwrap();
    assert!(matches!(create(&path), Err(FileError::Linked { .. })));
    assert!(matches!(mark(&path, b"x"), Err(FileError::Linked { .. })));
    assert_eq!(std::fs::read(&other).unwrap(), b"");
}

#[test]
fn only_empty_files_are_marked() {
    let (_folder, path) = folder();
    std::fs::write(&path, "").unwrap();
    mark(&path, b"/").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"/");
    assert!(mark(&path, b"/").is_err());
}

#[test]
fn own_sockets_in_the_folder_itself_are_removed_and_nothing_else() {
    let (temporary, _) = folder();
    let place = temporary.path().join("place");
    std::fs::create_dir(&place).unwrap();
    symlink(temporary.path(), place.join("pvmtmp")).unwrap();
    let folder = Folder::open(&place).unwrap();
    let outside = temporary.path().join("socket");
    drop(UnixListener::bind(&outside).unwrap());
    std::fs::write(place.join("file"), "").unwrap();
    for path in [outside.clone(), place.join("pvmtmp/socket"), place.join("file"), place.join("../socket")] {
        assert!(!folder.remove_socket(&path), "{}", path.display());
        assert!(path.exists());
    }
    let own = place.join("socket");
    drop(UnixListener::bind(&own).unwrap());
    check_socket(&own).unwrap();
    if give_away(&own) {
        assert!(!folder.remove_socket(&own));
        assert!(check_socket(&own).unwrap_err().to_string().contains("uid 65534"));
        std::fs::remove_file(&own).unwrap();
        drop(UnixListener::bind(&own).unwrap());
    }
    assert!(folder.remove_socket(&own));
    assert!(!own.exists());
}

#[test]
fn a_private_folder_publishes_takes_back_and_leaves_nothing() {
    let (temporary, _) = folder();
    let folder = Folder::open(temporary.path()).unwrap();
    let private = folder.private("x").unwrap();
    assert_eq!(private.take("public", "old").unwrap(), None);
    private.write("new", b"text").unwrap();
    assert!(private.publish("new", "public").unwrap());
    assert!(!private.publish("new", "public").unwrap(), "it is taken");
    let (text, identity) = folder.read("public", 10).unwrap();
    assert_eq!(text, b"text");
    assert_eq!(private.take("public", "old").unwrap(), Some(identity));
    private.remove("old");
    private.remove("new");
    drop(private);
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn folders_in_which_others_remove_files_are_known() {
    use std::os::unix::fs::PermissionsExt;
    let (temporary, _) = folder();
    let folder = Folder::open(temporary.path()).unwrap();
    for (mode, open) in [(0o700, false), (0o755, false), (0o1777, false), (0o777, true), (0o775, true)] {
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(folder.is_open_to_all(), open, "{mode:o}");
    }
    if give_away(temporary.path()) {
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(folder.is_open_to_all(), "its owner can do as he likes");
    }
}
