//! Files that are moved aside, counted, aged and compressed.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

const ALL: Rotation = Rotation { bytes_max: 10, backups_max: 0, days_max: 0, compress: false };

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_full_file_is_moved_aside() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("audit.log");
    let mut file = RotatingFile::prepare(path.clone(), Some(ALL))?;
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640))?;
    for line in ["aaaa\n", "bbbb\n", "cccc\n", "dddd\n", "eeee\n"] {
        file.write_all(line.as_bytes())?;
    }
    let names = names(dir.path());
    assert_eq!(names.len(), 3, "{names:?}");
    let is_backup = |name: &String| name.strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".log")).is_some_and(is_stamp);
    assert_eq!(names.iter().filter(|name| is_backup(name)).count(), 2, "{names:?}");
    assert_eq!(fs::read_to_string(dir.path().join(&names[0]))?, "aaaa\nbbbb\n");
    assert_eq!((fs::read_to_string(&path)?, fs::metadata(&path)?.permissions().mode() & 0o777), ("eeee\n".to_owned(), 0o640));
    let error = file.write_all(b"more than ten bytes\n").expect_err("too long");
    assert_eq!(error.to_string(), "write length 20 exceeds maximum file size 10");
    Ok(())
}

#[test]
fn what_was_there_is_kept() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("audit.log");
    fs::write(&path, "old\n")?;
    RotatingFile::prepare(path.clone(), None)?.write_all(b"a line of more than ten bytes\n")?;
    assert_eq!(fs::read_to_string(&path)?, "old\na line of more than ten bytes\n");
    Ok(())
}

#[test]
fn old_files_go_by_number_and_age() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("audit.log");
    let now = UNIX_EPOCH + DAY * 20_000;
    let old = |days: u32| format!("audit-{}.log", stamp(now - DAY * days));
    let others = ["audit.log", "audit-x.log", "other-2026-01-01T00-00-00.000.log", "audit-2026-01-01T00-00-00.000.txt"];
    let put = || -> io::Result<()> {
        for name in others.map(str::to_owned).into_iter().chain((1..=5).map(old)) {
            fs::write(dir.path().join(name), "text")?;
        }
        Ok(())
    };
    let left = |rotation: Rotation| -> io::Result<Vec<u32>> {
        put()?;
        mill(&path, &rotation, now)?;
        let names = names(dir.path());
        assert!(others.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
        Ok((1..=5).filter(|days| names.contains(&old(*days))).collect())
    };
    assert_eq!(left(Rotation { backups_max: 2, ..ALL })?, [1, 2]);
    assert_eq!(left(Rotation { days_max: 3, ..ALL })?, [1, 2, 3]);
    assert_eq!(left(Rotation { days_max: 3, backups_max: 1, ..ALL })?, [1]);
    assert_eq!(left(ALL)?, [1, 2, 3, 4, 5]);
    assert_eq!(left(Rotation { compress: true, backups_max: 2, ..ALL })?, [0; 0]);
    let mut text = String::new();
    GzDecoder::new(File::open(dir.path().join(old(2) + GZ))?).read_to_string(&mut text)?;
    assert_eq!(text, "text");
    // Compressed ones count as what they were.
    mill(&path, &Rotation { backups_max: 1, ..ALL }, now)?;
    assert!(names(dir.path()).contains(&(old(1) + GZ)) && !names(dir.path()).contains(&(old(2) + GZ)));
    Ok(())
}
