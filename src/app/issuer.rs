//! The key that signs tokens of service accounts: from its file, or made in the data directory at the first start, so that `kubectl create token` works at
//! once.

use std::net::SocketAddr;

use ::reload::{FileError, Named, Reloaded};
use auth::authn::{Discovery, Issuer, PublicKey, SigningKey};

use super::owner_file;
use crate::config::{Config, TokenIssuer};

/// File of the key in the data directory.
const KEY_FILE: &str = "service-account.key";

/// Makes the key if there should be one and is none, and tells the authenticators of it.
///
/// # Errors
/// One line with the file.
pub(super) fn prepare(config: &mut Config) -> Result<(), String> {
    let Some(embedded) = config.embedded.as_ref().filter(|_| config.issuer.makes_key && config.issuer.key_file.is_none()) else {
        return Ok(());
    };
    let path = embedded.data_dir.join(KEY_FILE);
    if !path.exists() {
        let pem = SigningKey::generate_pem().map_err(|error| format!("{}: {error}", path.display()))?;
        owner_file::write(&path, &pem).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(accounts) = config.auth.accounts.as_mut().filter(|accounts| accounts.key_files.is_empty()) {
        accounts.key_files.push(path.clone());
    }
    config.issuer.key_file = Some(path);
    Ok(())
}

/// Who issues tokens; none without a key.
///
/// # Errors
/// One line with the flag and the file.
pub(super) fn issuer(config: &TokenIssuer) -> Result<Option<Issuer>, FileError> {
    let Some(path) = config.key_file.clone() else { return Ok(None) };
    let key = |files: &[Vec<u8>]| SigningKey::from_pem(&files.concat()).map_err(|error| (0, error.to_string()));
    let key = Reloaded::load(vec![Named { flag: "--service-account-signing-key-file", path }], key)?;
    let (name, audiences) = (config.name.clone(), config.audiences.clone());
    Ok(Some(Issuer { key, name, audiences, expiration_max: config.expiration_max, extends: config.extends }))
}

/// Where others find the keys; none, with a line in the log, when this issuer cannot be discovered.
pub(super) fn discovery(issuer: &TokenIssuer, address: SocketAddr, keys: &[PublicKey]) -> Option<Discovery> {
    match Discovery::new(&issuer.name, issuer.keys_url.as_deref(), &address.to_string(), keys) {
        Ok(discovery) => Some(discovery),
        Err(why) => {
            tracing::warn!(%why, "service account tokens cannot be verified by others: /.well-known/openid-configuration is not served");
            None
        }
    }
}
