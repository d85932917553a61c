//! The keys that sign and verify tokens: read from PEM, identified by the digest of their DER, verified with AWS-LC.

mod documents;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize, PublicKeyComponents};
use aws_lc_rs::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, UnparsedPublicKey, VerificationAlgorithm};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{PemObject, SectionKind};
use sha2::{Digest, Sha256};
use thiserror::Error;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey as Parsed;

use super::RAW_URL;
use super::jwt::Algorithm;

pub use documents::{Discovery, DocumentError};

/// Bits of the shortest RSA key; kube-apiserver takes 1,024, which nobody should.
const RSA_BITS_MIN: usize = 2048;
/// Bits of the longest RSA key; AWS-LC goes no further.
const RSA_BITS_MAX: usize = 8192;

/// Why there is no key. One line each.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// The file has no public key that we can use.
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKey,
    /// The file has no private key that we can use.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    /// The file is no PEM.
    #[error("data is not PEM")]
    NoPem,
    /// An RSA key is too short or too long.
    #[error("an RSA key has less than {RSA_BITS_MIN} or more than {RSA_BITS_MAX} bits")]
    Length,
    /// The library of cryptography failed.
    #[error("the key could not be made or used")]
    Failed,
}

/// A key that vouches for tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kid: String,
    /// SubjectPublicKeyInfo in the one form that Go writes.
    der: Vec<u8>,
    numbers: Numbers,
}

/// What a JWK tells of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    /// Without leading zeroes.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// Both of the curve's length.
    Ec { curve: Curve, x: Vec<u8>, y: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    const ALL: [Curve; 3] = [Curve::P256, Curve::P384, Curve::P521];

    fn oid(self) -> &'static str {
        match self {
            Curve::P256 => "1.2.840.10045.3.1.7",
            Curve::P384 => "1.3.132.0.34",
            Curve::P521 => "1.3.132.0.35",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
        }
    }

    /// Bytes of a coordinate.
    fn bytes(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Curve::P256 => Algorithm::Es256,
            Curve::P384 => Algorithm::Es384,
            Curve::P521 => Algorithm::Es512,
        }
    }

    fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
        }
    }
}

impl PublicKey {
    /// Every key in a PEM file: public keys, the public halves of private ones, keys of certificates. Other blocks are passed over.
    ///
    /// # Errors
    /// When there is none, or one that we do not use.
    pub fn from_pem(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
        let mut keys = Vec::new();
        for block in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) = block.map_err(|_| KeyError::NoPem)?;
            match kind {
                SectionKind::PublicKey => keys.push(PublicKey::from_der(&der)?),
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| KeyError::NoPublicKey)?;
                    keys.push(PublicKey::from_der(certificate.public_key().raw)?);
                }
                SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => {
                    keys.push(SigningKey::from_der(kind, &der)?.public);
                }
                _ => {}
            }
        }
        if keys.is_empty() { Err(KeyError::NoPublicKey) } else { Ok(keys) }
    }

    /// A SubjectPublicKeyInfo.
    fn from_der(der: &[u8]) -> Result<PublicKey, KeyError> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::NoPublicKey)?;
        match info.parsed() {
            Ok(Parsed::RSA(key)) if rest.is_empty() => PublicKey::rsa(key.modulus, key.exponent),
            Ok(Parsed::EC(point)) if rest.is_empty() => {
                let curve =
                    info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok()).map(|oid| oid.to_id_string());
                let curve = Curve::ALL.into_iter().find(|known| curve.as_deref() == Some(known.oid())).ok_or(KeyError::NoPublicKey)?;
                let coordinates = point.data().strip_prefix(&[4]).filter(|rest| rest.len() == 2 * curve.bytes());
                let (x, y) = coordinates.ok_or(KeyError::NoPublicKey)?.split_at(curve.bytes());
                PublicKey::ec(curve, x, y)
            }
            _ => Err(KeyError::NoPublicKey),
        }
    }

    /// A key of these numbers, big end first; zeroes may lead.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<PublicKey, KeyError> {
        let [modulus, exponent] = [modulus, exponent].map(|number| {
            let zeroes = number.iter().take_while(|byte| **byte == 0).count();
            number[zeroes..].to_vec()
        });
        let bits = modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize);
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(KeyError::Length);
        }
        let components = PublicKeyComponents { n: &modulus, e: &exponent };
        let der: PublicKeyX509Der<'_> = components.as_der().map_err(|_| KeyError::NoPublicKey)?;
        let der = der.as_ref().to_vec();
        Ok(PublicKey { kid: kid(&der), der, numbers: Numbers::Rsa { modulus, exponent } })
    }

    fn ec(curve: Curve, x: &[u8], y: &[u8]) -> Result<PublicKey, KeyError> {
        let point = [&[4], x, y].concat();
        let parsed = signature::ParsedPublicKey::new(verification(curve.algorithm()), &point).map_err(|_| KeyError::NoPublicKey)?;
        let der: PublicKeyX509Der<'_> = parsed.as_der().map_err(|_| KeyError::NoPublicKey)?;
        let der = der.as_ref().to_vec();
        Ok(PublicKey { kid: kid(&der), der, numbers: Numbers::Ec { curve, x: x.to_vec(), y: y.to_vec() } })
    }

    /// A point of the curve that is called so in JWKs.
    pub(super) fn on_curve(name: &str, x: &[u8], y: &[u8]) -> Result<PublicKey, KeyError> {
        let curve = Curve::ALL.into_iter().find(|curve| curve.name() == name).ok_or(KeyError::NoPublicKey)?;
        if x.len() != curve.bytes() || y.len() != curve.bytes() {
            return Err(KeyError::NoPublicKey);
        }
        PublicKey::ec(curve, x, y)
    }

    /// Its name: SHA-256 of its DER in base64.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// What kube-apiserver signs with when it has this key.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match &self.numbers {
            Numbers::Rsa { .. } => Algorithm::Rs256,
            Numbers::Ec { curve, .. } => curve.algorithm(),
        }
    }

    /// Whether the algorithm is one of this key, and the signature one of its owner.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &str, signature: &[u8]) -> bool {
        let suits = match (&self.numbers, algorithm) {
            (Numbers::Rsa { .. }, algorithm) => !matches!(algorithm, Algorithm::Es256 | Algorithm::Es384 | Algorithm::Es512),
            (Numbers::Ec { curve, .. }, algorithm) => curve.algorithm() == algorithm,
        };
        suits && UnparsedPublicKey::new(verification(algorithm), &self.der).verify(message.as_bytes(), signature).is_ok()
    }
}

fn verification(algorithm: Algorithm) -> &'static dyn VerificationAlgorithm {
    match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
        Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
        Algorithm::Es512 => &signature::ECDSA_P521_SHA512_FIXED,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
    }
}

fn kid(der: &[u8]) -> String {
    RAW_URL.encode(Sha256::digest(der))
}

/// The key that signs what we issue.
#[derive(Debug)]
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl SigningKey {
    /// The first private key in a PEM file: PKCS #1, PKCS #8 or SEC 1. Other blocks are passed over.
    ///
    /// # Errors
    /// When there is none, or one that we do not use.
    pub fn from_pem(pem: &[u8]) -> Result<SigningKey, KeyError> {
        for block in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) = block.map_err(|_| KeyError::NoPem)?;
            if matches!(kind, SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey) {
                return SigningKey::from_der(kind, &der);
            }
        }
        Err(KeyError::NoPrivateKey)
    }

    fn from_der(kind: SectionKind, der: &[u8]) -> Result<SigningKey, KeyError> {
        let rsa = match kind {
            SectionKind::RsaPrivateKey => Some(RsaKeyPair::from_der(der)),
            SectionKind::PrivateKey => Some(RsaKeyPair::from_pkcs8(der)),
            _ => None,
        };
        if let Some(Ok(pair)) = rsa {
            let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError::Failed)?;
            let public = PublicKey::from_der(public.as_ref())?;
            return Ok(SigningKey { pair: Pair::Rsa(pair), public });
        }
        let pair = Curve::ALL.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve.signing(), der).ok());
        let pair = pair.ok_or(KeyError::NoPrivateKey)?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError::Failed)?;
        let public = PublicKey::from_der(public.as_ref())?;
        Ok(SigningKey { pair: Pair::Ec(pair), public })
    }

    /// A new RSA key, as PEM: for a server that has none yet. Takes some tenths of a second.
    ///
    /// # Errors
    /// When the library of cryptography fails.
    pub fn generate_pem() -> Result<String, KeyError> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Failed)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Failed)?;
        let mut pem = "-----BEGIN PRIVATE KEY-----\n".to_owned();
        let text = STANDARD.encode(der.as_ref());
        for at in (0..text.len()).step_by(64) {
            pem.push_str(&text[at..text.len().min(at + 64)]);
            pem.push('\n');
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        Ok(pem)
    }

    /// Who may check what it signed.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A compact token of these claims, with the header of kube-apiserver.
    ///
    /// # Errors
    /// When the library of cryptography fails.
    pub fn sign(&self, claims: &str) -> Result<String, KeyError> {
        let header = format!(r#"{{"alg":"{}","kid":"{}"}}"#, self.public.algorithm().name(), self.public.kid);
        let text = format!("{}.{}", RAW_URL.encode(header), RAW_URL.encode(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).map_err(|_| KeyError::Failed)?;
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, text.as_bytes()).map_err(|_| KeyError::Failed)?.as_ref().to_vec(),
        };
        Ok(format!("{text}.{}", RAW_URL.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::recorded::{self, KEYS};
    use super::*;
    use crate::authn::jwt::Token;

    #[test]
    fn keys_are_named_as_kube_apiserver_names_them() {
        let kids = &recorded::all()["kids"];
        for name in KEYS {
            let private = SigningKey::from_pem(&recorded::file(&format!("{name}.pem"))).expect(name);
            let public = PublicKey::from_pem(&recorded::file(&format!("{name}.pub"))).expect(name);
            assert_eq!(public, [private.public().clone()], "{name}");
            assert_eq!(public[0].kid(), kids[name].as_str().expect("a text"), "{name}");
            assert_eq!(PublicKey::from_pem(&recorded::file(&format!("{name}.pem"))), Ok(public), "{name}");
        }
    }

    #[test]
    fn a_file_may_have_many_keys_and_other_blocks() {
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate").cert.pem();
        let files = KEYS.map(|name| recorded::file(&format!("{name}.pub"))).concat();
        let other = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        let pem = [other.as_slice(), &files, certificate.as_bytes()].concat();
        let keys = PublicKey::from_pem(&pem).expect("keys");
        assert_eq!(keys.iter().map(|key| key.algorithm().name()).collect::<Vec<_>>(), ["RS256", "ES256", "ES384", "ES512", "ES256"]);
        assert_eq!(PublicKey::from_pem(other), Err(KeyError::NoPublicKey));
        assert_eq!(PublicKey::from_pem(b""), Err(KeyError::NoPublicKey));
        assert_eq!(SigningKey::from_pem(&files).err(), Some(KeyError::NoPrivateKey));
        assert_eq!(PublicKey::from_pem(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), Err(KeyError::NoPublicKey));
        assert_eq!(PublicKey::from_pem(b"-----BEGIN PUBLIC KEY-----\nAAAA\n"), Err(KeyError::NoPem));
    }

    #[test]
    fn short_keys_and_points_beside_the_curve_are_refused() {
        assert_eq!(PublicKey::rsa(&[0xff; 128], &[1, 0, 1]), Err(KeyError::Length));
        assert_eq!(PublicKey::rsa(&[0xff; 1025], &[1, 0, 1]), Err(KeyError::Length));
        assert_eq!(PublicKey::rsa(&[], &[]), Err(KeyError::Length));
        assert_eq!(PublicKey::on_curve("P-256", &[1; 32], &[1; 32]), Err(KeyError::NoPublicKey));
        assert_eq!(PublicKey::on_curve("P-256", &[1; 31], &[1; 32]), Err(KeyError::NoPublicKey));
        assert_eq!(PublicKey::on_curve("secp256k1", &[1; 32], &[1; 32]), Err(KeyError::NoPublicKey));
    }

    #[test]
    fn what_one_key_signed_no_other_vouches_for() {
        let read = |name: &str| SigningKey::from_pem(&recorded::file(&format!("{name}.pem"))).expect(name);
        let mut keys: Vec<SigningKey> = KEYS.iter().map(|name| read(name)).collect();
        keys.push(SigningKey::from_pem(SigningKey::generate_pem().expect("made").as_bytes()).expect("a key"));
        for (signer, key) in keys.iter().enumerate() {
            let text = key.sign("{}").expect("signed");
            let token = Token::parse(&text).expect("a token");
            assert_eq!((token.kid(), token.algorithm()), (key.public().kid(), Some(key.public().algorithm())));
            for (other, verifier) in keys.iter().enumerate() {
                assert_eq!(token.verified([verifier.public()]).is_ok(), signer == other, "{signer} {other}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(kind in "(EC |RSA )?(PUBLIC|PRIVATE) KEY|CERTIFICATE", der in prop::collection::vec(any::<u8>(), 0..80)) {
            let pem = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
            let _ = PublicKey::from_pem(pem.as_bytes());
            let _ = SigningKey::from_pem(pem.as_bytes());
        }
    }
}
