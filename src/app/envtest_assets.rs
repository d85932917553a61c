//! `watchcache setup-envtest`: the folder for `KUBEBUILDER_ASSETS`, in which this program is etcd and kube-apiserver.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::config::EnvtestAssets;

/// The programs that this one stands in for.
const OURS: [&str; 2] = ["etcd", "kube-apiserver"];
/// The one that is taken from the path.
const KUBECTL: &str = "kubectl";

/// Makes the folder; answers its absolute path, and what the user should know.
///
/// # Errors
/// One line with the file.
pub fn make(assets: &EnvtestAssets) -> Result<(String, String), String> {
    let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&assets.dir).map_err(|error| at(&assets.dir, error))?;
    let dir = assets.dir.canonicalize().map_err(|error| at(&assets.dir, error))?;
    let program = env::current_exe().and_then(fs::canonicalize).map_err(|error| format!("this program cannot be found: {error}"))?;
    for name in OURS {
        let path = dir.join(name);
        put(&program, &path, assets.copies).map_err(|error| at(&path, error))?;
    }
    let notes = match found(KUBECTL, env::var_os("PATH").as_deref(), &dir) {
        Some(kubectl) => {
            let path = dir.join(KUBECTL);
            put(&kubectl, &path, false).map_err(|error| at(&path, error))?;
            String::new()
        }
        None if dir.join(KUBECTL).exists() => String::new(),
        None => "watchcache: no kubectl on the PATH: tools that want one in this folder will miss it\n".to_owned(),
    };
    Ok((dir.display().to_string(), notes))
}

/// Puts a program there, in the place of one that is there; whoever runs the old one goes on with it.
fn put(program: &Path, path: &Path, copies: bool) -> io::Result<()> {
    let part = path.with_extension("part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if copies {
        fs::copy(program, &part)?;
    } else {
        symlink(program, &part)?;
    }
    fs::rename(&part, path)
}

/// The first program of this name on the path, outside of the folder itself.
fn found(name: &str, path: Option<&OsStr>, except: &Path) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let candidates = env::split_paths(path?).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).filter(is_program);
    candidates.filter_map(|file| file.canonicalize().ok()).find(|file| file.parent() != Some(except))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_programs_under_both_names() {
        let home = tempfile::tempdir().expect("a directory");
        for copies in [false, true, false] {
            let assets = EnvtestAssets { dir: home.path().join("deep/assets"), copies };
            let (path, _) = make(&assets).expect("made");
            let own = fs::metadata(env::current_exe().expect("a program")).expect("there").len();
            for name in OURS {
                let file = Path::new(&path).join(name);
                assert_eq!(fs::metadata(&file).expect("there").len(), own);
                assert_eq!(fs::symlink_metadata(&file).expect("there").is_symlink(), !copies);
            }
            assert!(Path::new(&path).is_absolute() && fs::read_dir(&path).expect("a folder").count() <= 3);
        }
        fs::write(home.path().join("file"), "x").expect("written");
        assert!(make(&EnvtestAssets { dir: home.path().join("file"), copies: false }).is_err());
    }

    #[test]
    fn a_program_on_the_path_can_be_run_and_is_not_in_the_folder() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("a directory");
        let [none, plain, there] = ["none", "plain", "there"].map(|name| home.join(name));
        for (dir, mode) in [(&plain, 0o644), (&there, 0o755)] {
            fs::create_dir(dir).expect("made");
            fs::write(dir.join(KUBECTL), "x").expect("written");
            fs::set_permissions(dir.join(KUBECTL), fs::Permissions::from_mode(mode)).expect("set");
        }
        let path = env::join_paths([&none, &plain, &there]).expect("a path");
        assert_eq!(found(KUBECTL, Some(&path), &none), Some(there.join(KUBECTL)));
        assert_eq!(found(KUBECTL, Some(&path), &there), None);
        assert_eq!(found(KUBECTL, None, &none), None);
    }
}
