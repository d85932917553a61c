//! The TLS door: where it is, and what it tells browsers.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::HeaderValue;

use super::args::ServeArgs;
use super::{Auth, both};

/// The TLS door.
#[derive(Clone, Debug)]
pub struct SecureDoor {
    /// Where it listens.
    pub address: SocketAddr,
    /// PEM file: certificate, then intermediates.
    pub cert_file: PathBuf,
    /// PEM file: private key.
    pub key_file: PathBuf,
    /// The header `Strict-Transport-Security` of its answers.
    pub strict_transport: Option<HeaderValue>,
}

/// The door that the flags ask for.
pub(super) fn check(args: &ServeArgs, auth: &Auth) -> Result<Option<SecureDoor>, String> {
    let files = both("--tls-cert-file", args.tls_cert_file.clone(), "--tls-private-key-file", args.tls_private_key_file.clone())?;
    let strict_transport = strict_transport(&args.strict_transport_security_directives)?;
    match (args.secure_port, files) {
        (0, None) if strict_transport.is_some() => {
            Err("--strict-transport-security-directives is for the TLS door: give --secure-port too".to_owned())
        }
        (0, None) => Ok(None),
        (0, Some(_)) => Err("--tls-cert-file is given, but --secure-port is not".to_owned()),
        (_, None) => Err("--secure-port needs --tls-cert-file and --tls-private-key-file".to_owned()),
        (_, Some(_)) if auth.client_ca_file.is_none() && auth.token_file.is_none() => {
            Err("--secure-port needs an authenticator: --client-ca-file or --token-auth-file".to_owned())
        }
        (port, Some((cert_file, key_file))) => {
            Ok(Some(SecureDoor { address: SocketAddr::new(args.bind_address, port), cert_file, key_file, strict_transport }))
        }
    }
}

/// kube-apiserver's rules and words.
fn strict_transport(directives: &[String]) -> Result<Option<HeaderValue>, String> {
    const WRONG: &str = "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see \
                         https://tools.ietf.org/html/rfc6797#section-6.1 for more information";
    if directives.is_empty() || directives == [""] {
        return Ok(None);
    }
    for directive in directives {
        let max_age = directive.strip_prefix("max-age=").filter(|time| !time.contains('='));
        if directive.trim().is_empty() {
            return Err("empty value in strict-transport-security-directives".to_owned());
        }
        if max_age.is_none() && !["includeSubDomains", "preload"].contains(&directive.as_str()) {
            return Err(WRONG.to_owned());
        }
    }
    HeaderValue::from_str(&directives.join("; ")).map(Some).map_err(|_| WRONG.to_owned())
}
