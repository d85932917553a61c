//! Files that only their owner may read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes it whole or not at all: half a key would keep every later start from starting.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut part = OsString::from(path);
    part.push(".part");
    let part = Path::new(&part);
    // One that is there is of a start that was cut off.
    let mut file = owned::replace(part, owned::PRIVATE)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(part, path)?;
    // The name outlives a loss of power as well.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_there_is_replaced_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.key");
        fs::write(dir.path().join("a.key.part"), "half").expect("written");
        fs::write(&path, "old").expect("written");
        write(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, owned::PRIVATE);
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        assert!(write(&dir.path().join("none/a.key"), "new").is_err());
        std::os::unix::fs::symlink(&path, dir.path().join("a.key.part")).expect("linked");
        let refused = write(&path, "newer").expect_err("somebody has prepared it").to_string();
        assert!(refused.contains("a.key.part is a symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
    }
}
