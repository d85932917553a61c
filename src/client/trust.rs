//! Which certificates of servers are trusted, as TLS settings.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that an authority of this machine has signed. `SSL_CERT_FILE` and `SSL_CERT_DIR` say where they are, as for Go.
    System,
    /// Those that one of these authorities has signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// Anyone's: `insecure-skip-tls-verify`.
    Anyone,
}

impl Trust {
    /// The authorities of a PEM bundle.
    ///
    /// # Errors
    /// When there is none in it.
    pub fn from_pem(pem: &[u8]) -> Result<Trust, String> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| format!("not PEM: {error}"))?;
        if found.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        Trust::Authorities(found).checked()
    }

    fn checked(self) -> Result<Trust, String> {
        self.roots().map(|_| self)
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match self {
            Trust::Anyone => {}
            Trust::System => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
            Trust::Authorities(all) => {
                for one in all {
                    roots.add(one.clone()).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(roots)
    }
}

/// The certificate that we show, and its key.
pub(crate) type Certificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Of PEM files.
pub(crate) fn certificate(certificates: &[u8], key: &[u8]) -> Result<Certificate, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if chain.is_empty() {
        return Err("no certificate in it".to_owned());
    }
    Ok((chain, PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("its key: {error}"))?))
}

/// The TLS settings of a client.
pub(crate) fn settings(trust: &Trust, certificate: Option<&Certificate>) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified { provider })),
        _ => builder.with_root_certificates(trust.roots()?),
    };
    match certificate {
        Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|error| error.to_string()),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Believes every certificate, but not that somebody has its key who has not.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
