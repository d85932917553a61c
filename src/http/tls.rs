//! Certificate and key files become what the TLS listener speaks with. Knows no socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::config::SecureListener;
use auth::authn::Authenticator;

/// Why the TLS listener cannot speak; one line that names the flag.
#[derive(Debug, Error)]
#[error("{flag} {}: {what}", path.display())]
pub struct TlsError {
    flag: &'static str,
    path: PathBuf,
    what: String,
}

/// TLS 1.2 and 1.3 with aws-lc, HTTP/2 preferred; client certificates as the authenticator wants them.
pub(super) fn server_config(listener: &SecureListener, authenticator: &Authenticator) -> Result<Arc<ServerConfig>, TlsError> {
    let certificate_error = |what: String| TlsError { flag: "--tls-cert-file", path: listener.cert_file.clone(), what };
    let key_error = |what: String| TlsError { flag: "--tls-private-key-file", path: listener.key_file.clone(), what };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(&listener.cert_file).map_err(certificate_error)?)
        .collect::<Result<_, _>>()
        .map_err(|error| certificate_error(format!("not PEM: {error}")))?;
    if chain.is_empty() {
        return Err(certificate_error("no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&listener.key_file).map_err(key_error)?)
        .map_err(|_| key_error("no private key in it".to_owned()))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| certificate_error(error.to_string()))?;
    let builder = match authenticator.handshake_verifier() {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| key_error(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}
