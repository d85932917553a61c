//! How the programs reach a server.

use std::{error::Error, path::Path};

use base64::Engine;
use http::Uri;
use kube::Config;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Returns how a server is reached: its URL, a token, a file with its authority.
pub(crate) fn config(server: &Uri, token: Option<&str>, authority: Option<&Path>) -> Result<Config> {
    let mut config = Config::new(server.clone());
    config.auth_info.token = token.map(|token| token.to_owned().into());
    if let Some(path) = authority {
        config.root_cert = Some(vec![pem_to_der(&std::fs::read_to_string(path)?)?]);
    }
    Ok(config)
}

/// The first certificate of a PEM file.
fn pem_to_der(pem: &str) -> Result<Vec<u8>> {
    let body: String =
        pem.lines().skip_while(|l| !l.starts_with("-----BEGIN")).skip(1).take_while(|l| !l.starts_with("-----END")).collect();
    Ok(base64::engine::general_purpose::STANDARD.decode(body)?)
}
