//! What a handshake asks of a client's certificate: that the client holds its key. Whether it is trusted is decided after the handshake.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};

use super::certificate::{Certificate, Curve, Key};
use super::chain::RSA_BITS_MIN;
use super::der::Reader;

/// Why a certificate ends a handshake.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn refused(why: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Refused(why)))))
}

/// Returns why a handshake has failed, if that was the client's certificate.
#[must_use]
pub fn refused_certificate(error: &Error) -> Option<String> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => Some(why.to_string()),
        Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    }
}

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

/// Whether a handshake can be made with this certificate.
fn acceptable(certificate: &Certificate<'_>) -> Result<(), String> {
    match certificate.key {
        Key::Rsa(_, bits) if bits < RSA_BITS_MIN => Err(format!("its RSA key has {bits} bits, and needs {RSA_BITS_MIN}")),
        Key::Ec(Curve::P224, _) | Key::Other => {
            Err(format!("its key is {}; RSA, ECDSA with P-256, P-384 or P-521, and Ed25519 can be used", certificate.key.kind()))
        }
        Key::Rsa(..) | Key::Ec(..) | Key::Ed25519(_) => Ok(()),
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
        let read = |bytes| Certificate::read(bytes).map_err(|why| refused(format!("it cannot be parsed: {why}")));
        acceptable(&read(leaf)?).map_err(refused)?;
        rest.iter().try_for_each(|other| read(other).map(|_| ()))?;
        Ok(ClientCertVerified::assertion())
    }

    /// TLS 1.2 names a hash and a kind of key, so each curve is tried.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::read(certificate).map_err(|why| refused(why.to_owned()))?;
        let mut key_info = Reader::new(certificate.key_info).sequence().ok_or(CertificateError::BadEncoding)?;
        let (Some(algorithm), Some((key, _))) = (key_info.sequence(), key_info.bits()) else {
            return Err(CertificateError::BadEncoding.into());
        };
        let all = self.schemes.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme).map_or(&[][..], |(_, all)| all);
        let fitting = all.iter().find(|candidate| candidate.public_key_alg_id().as_ref() == algorithm.rest());
        let fitting = fitting.ok_or_else(|| refused(format!("its key does not fit the signature {:?}", signed.scheme)))?;
        match fitting.verify_signature(key, message, signed.signature()) {
            Ok(()) => Ok(HandshakeSignatureValid::assertion()),
            Err(_) => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::read(certificate).map_err(|why| refused(why.to_owned()))?;
        let key_info = SubjectPublicKeyInfoDer::from(certificate.key_info);
        verify_tls13_signature_with_raw_key(message, &key_info, signed, &self.schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.supported_schemes()
    }
}
