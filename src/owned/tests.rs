//! Each way to prepare a name, and each function that creates a file.

use std::io::Write;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, chown, mknodat};
use rustix::process::Uid;

use super::*;

type Create = fn(&Path) -> io::Result<()>;

/// All that may find something of somebody else.
const WAYS: [(&str, Create); 4] = [
    ("replace", |path| replace(path, PRIVATE).map(drop)),
    ("append", |path| append(path, PRIVATE).map(drop)),
    ("lock_file", |path| lock_file(path).map(drop)),
    ("left", |path| left(path).map(drop)),
];

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_name_that_was_prepared_is_refused_with_the_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let (target, path) = (dir.path().join("target"), dir.path().join("file"));
    fs::write(&target, "mine").expect("written");
    let prepare: [(&str, &dyn Fn()); 4] = [
        ("symbolic link", &|| symlink(&target, &path).expect("linked")),
        ("symbolic link", &|| symlink(dir.path().join("none"), &path).expect("linked")),
        ("FIFO", &|| mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("made")),
        ("hard link", &|| fs::hard_link(&target, &path).expect("linked")),
    ];
    for (what, prepare) in prepare {
        prepare();
        for (way, create) in WAYS.iter().filter(|(way, _)| what != "hard link" || *way != "lock_file") {
            let error = create(&path).expect_err(way).to_string();
            assert!(error.contains(what) && error.contains(&*path.to_string_lossy()), "{way}: {error}");
        }
        assert!(super::create(&path, PRIVATE).is_err());
        assert_eq!(fs::read_to_string(&target).expect("read"), "mine");
        assert!(!dir.path().join("none").exists());
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn a_file_of_another_user_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, "theirs").expect("written");
    // Only root can give a file to somebody else.
    if chown(&path, Some(Uid::from_raw(geteuid().as_raw() + 1)), None).is_err() {
        return;
    }
    for (way, create) in WAYS.iter().filter(|(way, _)| *way != "lock_file") {
        assert!(create(&path).expect_err(way).to_string().contains("another user"));
    }
    assert_eq!(fs::read_to_string(&path).expect("read"), "theirs");
}

#[test]
fn a_file_of_ours_that_others_may_use_is_not_written_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, "old").expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("set");
    let watched = File::open(&path).expect("opened");
    replace(&path, PRIVATE).expect("replaced").write_all(b"secret").expect("written");
    assert_eq!((mode_of(&path), fs::read_to_string(&path).expect("read")), (PRIVATE, "secret".to_owned()));
    assert_eq!(io::read_to_string(watched).expect("read"), "old");
}

#[test]
fn what_others_may_write_becomes_private_and_a_chosen_mode_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    for (before, after) in [(0o666, PRIVATE), (0o620, PRIVATE), (0o644, 0o644), (0o640, 0o640)] {
        fs::write(&path, "line\n").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(before)).expect("set");
        append(&path, PRIVATE).expect("opened").write_all(b"next\n").expect("written");
        assert_eq!((mode_of(&path), fs::read_to_string(&path).expect("read")), (after, "line\nnext\n".to_owned()));
    }
    fs::remove_file(&path).expect("removed");
    append(&path, 0o640).expect("created");
    assert_eq!(mode_of(&path), 0o640);
}
