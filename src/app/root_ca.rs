//! The authorities that clients inside of a cluster find in `kube-root-ca.crt`: by them they recognize this server.

use std::{fs, path::Path};

use super::admin;
use crate::config::Admin;

/// Returns the text of the file, or the authority that was made and has signed the certificate of this server; none where it is not known who has.
///
/// # Errors
/// One line with the file.
pub(super) fn read(file: Option<&Path>, made: Option<&Admin>) -> Result<Option<String>, String> {
    match (file, made.filter(|admin| admin.makes_certificate)) {
        (Some(file), _) => {
            let text = fs::read_to_string(file).map_err(|error| format!("--root-ca-file {}: {error}", file.display()))?;
            match admin::block(&text, "CERTIFICATE").is_empty() {
                true => Err(format!("--root-ca-file {}: there is no certificate in it", file.display())),
                false => Ok(Some(text)),
            }
        }
        (None, Some(admin)) => admin::authority(admin),
        (None, None) => Ok(None),
    }
}
