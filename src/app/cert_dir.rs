//! `--cert-dir`: the certificate of the TLS listener that is made at the first start and kept.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::SystemTime;

use super::{admin, advertised, owner_file};
use crate::config::{Config, SelfSigned};

/// The mode of a directory that is made; kube-apiserver's.
const DIR_MODE: u32 = 0o755;

/// Makes certificate and key unless both are there.
///
/// # Errors
/// One line with the file.
pub(super) fn prepare(config: &Config) -> Result<(), String> {
    let Some(listener) = &config.listeners.secure else { return Ok(()) };
    let Some(made) = listener.self_signed.as_ref() else { return Ok(()) };
    if is_complete(made)? {
        return Ok(());
    }
    let host = advertised::find(config).address.unwrap_or_else(|| listener.address.ip()).to_string();
    make(made, &host)
}

/// Whether both files can be read; one alone is a mistake, in kube-apiserver's words.
fn is_complete(made: &SelfSigned) -> Result<bool, String> {
    let alone = |path: &Path| Err(format!("error reading {}, certificate and key must be supplied as a pair", path.display()));
    match (File::open(&made.cert_file).is_ok(), File::open(&made.key_file).is_ok()) {
        (false, true) => alone(&made.cert_file),
        (true, false) => alone(&made.key_file),
        (both, _) => Ok(both),
    }
}

fn make(made: &SelfSigned, host: &str) -> Result<(), String> {
    let mut names = vec![host.to_owned()];
    for name in &made.names {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let (authority, certificate, key) = admin::serving_names(host, &names, SystemTime::now())?;
    let at = |path: &Path, error: std::io::Error| format!("--cert-dir {}: {error}", path.display());
    let dir = made.cert_file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir).map_err(|error| at(dir, error))?;
    owner_file::write(&made.key_file, &key).map_err(|error| at(&made.key_file, error))?;
    // Clients that are to trust this server read it; the key above is its owner's alone.
    fs::write(&made.cert_file, certificate + &authority).map_err(|error| at(&made.cert_file, error))?;
    tracing::info!(file = %made.cert_file.display(), names = names.join(","), "a self-signed certificate is made");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn files(dir: &Path) -> SelfSigned {
        let names = ["kubernetes", "10.0.0.1", "127.0.0.1"].map(str::to_owned).to_vec();
        SelfSigned { cert_file: dir.join("c/apiserver.crt"), key_file: dir.join("c/apiserver.key"), names }
    }

    #[test]
    fn a_pair_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = files(dir.path());
        assert_eq!(is_complete(&made), Ok(false));
        make(&made, "127.0.0.1").expect("made");
        assert_eq!(is_complete(&made), Ok(true));
        let text = fs::read_to_string(&made.cert_file).expect("read");
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2, "the certificate, then its authority");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&made.key_file), 0o600);
        assert!(make(&files(Path::new("/dev/null")), "127.0.0.1").is_err());
    }

    #[test]
    fn half_a_pair_is_a_mistake() {
        let dir = tempfile::tempdir().expect("a directory");
        let made =
            SelfSigned { cert_file: dir.path().join("apiserver.crt"), key_file: dir.path().join("apiserver.key"), names: Vec::new() };
        fs::write(&made.key_file, "x").expect("written");
        let want = format!("error reading {}, certificate and key must be supplied as a pair", made.cert_file.display());
        assert_eq!(is_complete(&made), Err(want));
    }
}
