//! What a TLS handshake asks of a peer's certificate besides its chain: that it can be used, and that the peer holds its key.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError};

use crate::certificate::Certificate;
use crate::der::Reader;
use crate::key::{Curve, Key};
use crate::signature::RSA_BITS_MIN;

/// Bits of the longest RSA key that a handshake takes, as in Go.
const RSA_BITS_MAX: usize = 8_192;

/// Why a certificate ends a handshake.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Returns the error that ends a handshake for this reason.
#[must_use]
pub fn refused(why: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Refused(why)))))
}

/// Returns why a handshake has failed, if that was the peer's certificate.
#[must_use]
pub fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => Some(why.to_string()),
        Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    }
}

/// Reads the certificates that a peer has sent: its own, and what it has sent along.
///
/// # Errors
/// One cannot be read, or a handshake cannot be made with it.
pub fn read<'d>(leaf: &'d [u8], others: impl IntoIterator<Item = &'d [u8]>) -> Result<(Certificate<'d>, Vec<Certificate<'d>>), Error> {
    let read = |bytes: &'d [u8]| {
        let certificate = Certificate::read(bytes).map_err(|why| refused(format!("it cannot be parsed: {why}")))?;
        match &certificate.key {
            Key::Rsa(key) if key.bits() > RSA_BITS_MAX => {
                Err(refused(format!("its RSA key has {} bits, more than {RSA_BITS_MAX}", key.bits())))
            }
            _ => Ok(certificate),
        }
    };
    let leaf = read(leaf)?;
    let others = others.into_iter().map(read).collect::<Result<_, _>>()?;
    confirm_usable(&leaf.key).map_err(refused)?;
    Ok((leaf, others))
}

/// Whether a handshake can be made with this key.
fn confirm_usable(key: &Key<'_>) -> Result<(), String> {
    match key {
        Key::Rsa(rsa) if rsa.bits() < RSA_BITS_MIN => Err(format!("its RSA key has {} bits, and needs {RSA_BITS_MIN}", rsa.bits())),
        Key::Ec(Curve::P224, _) | Key::Dsa | Key::Other => {
            Err(format!("its key is {}; RSA, ECDSA with P-256, P-384 or P-521, and Ed25519 can be used", key.kind()))
        }
        Key::Rsa(_) | Key::Ec(..) | Key::Ed25519(_) => Ok(()),
    }
}

/// Checks a signature of TLS 1.2, which names a hash and a kind of key, so each curve is tried.
///
/// # Errors
/// It is none by this certificate's key.
pub fn check_tls12(
    schemes: &WebPkiSupportedAlgorithms,
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = Certificate::read(certificate).map_err(|why| refused(why.into_owned()))?;
    let mut key_info = Reader::new(certificate.key_info).sequence().ok_or(CertificateError::BadEncoding)?;
    let (Some(algorithm), Some((key, _))) = (key_info.sequence(), key_info.bits()) else {
        return Err(CertificateError::BadEncoding.into());
    };
    let all = schemes.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme).map_or(&[][..], |(_, all)| all);
    let fitting = all.iter().find(|candidate| candidate.public_key_alg_id().as_ref() == algorithm.rest());
    let fitting = fitting.ok_or_else(|| refused(format!("its key does not fit the signature {:?}", signed.scheme)))?;
    match fitting.verify_signature(key, message, signed.signature()) {
        Ok(()) => Ok(HandshakeSignatureValid::assertion()),
        Err(_) => Err(CertificateError::BadSignature.into()),
    }
}

/// Checks a signature of TLS 1.3.
///
/// # Errors
/// It is none by this certificate's key.
pub fn check_tls13(
    schemes: &WebPkiSupportedAlgorithms,
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = Certificate::read(certificate).map_err(|why| refused(why.into_owned()))?;
    let key_info = SubjectPublicKeyInfoDer::from(certificate.key_info);
    verify_tls13_signature_with_raw_key(message, &key_info, signed, schemes)
}
