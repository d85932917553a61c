//! What a handshake asks of a client's certificate: that the client holds its key. Whether it is trusted is decided after the handshake.

use ::x509::handshake;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

pub use ::x509::handshake::refusal as refused_certificate;

/// Takes any certificate that Go would take in a handshake, if the client holds its key.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    schemes: WebPkiSupportedAlgorithms,
    /// Subjects of all authorities.
    hints: Vec<DistinguishedName>,
}

impl AnyCertificate {
    /// Tells clients that these authorities are known.
    pub(super) fn new(hints: Vec<DistinguishedName>) -> Self {
        Self { schemes: aws_lc_rs::default_provider().signature_verification_algorithms, hints }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        handshake::read(leaf, rest.iter().map(AsRef::as_ref))?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::check_tls12(&self.schemes, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake::check_tls13(&self.schemes, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.supported_schemes()
    }
}
