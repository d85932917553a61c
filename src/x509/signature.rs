//! Signatures as Go's `crypto/x509` checks them.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, EcdsaVerificationAlgorithm, RsaParameters, UnparsedPublicKey};

use crate::asn1::{self, Field};
use crate::der;
use crate::key::{Curve, Key, RsaKey};

/// `sha256WithRSAEncryption` and its neighbours: 1.2.840.113549.1.1, before one more number.
const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// `sha1WithRSAEncryption` of ISO.
const ISO_SHA1_RSA: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1d];
/// `ecdsa-with-SHA256` and its neighbours: 1.2.840.10045.4.3, before one more number.
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// `ecdsa-with-SHA1`
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
/// `dsa-with-sha1`
const DSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x03];
/// `dsa-with-sha256`
const DSA_SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x02];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// `sha256` and its neighbours: 2.16.840.1.101.3.4.2, before one more number.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
/// `id-mgf1`
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08];

/// Bits of the shortest RSA key whose signature under a request is checked, as in Go.
const REQUEST_RSA_BITS_MIN: usize = 1024;
/// Bits of the shortest RSA key of an authority; Go takes 1,024, which nobody should.
pub(crate) const RSA_BITS_MIN: usize = 2048;
/// The largest exponent of an RSA key.
const EXPONENT_MAX: i64 = (1 << 31) - 1;

/// What a signature stands under, which decides how weak it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// A request, which shows no more than that its author has the key.
    Request,
    /// A certificate.
    Certificate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// An algorithm that Go has a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rsa(Hash),
    Pss(Hash),
    Dsa(Hash),
    Ecdsa(Hash),
    Ed25519,
}

impl Algorithm {
    /// Reads an algorithm identifier without its outer tag. Parameters count for RSA-PSS, and must be missing for Ed25519.
    fn read(identifier: &[u8]) -> Option<Algorithm> {
        let mut parts = asn1::Reader::new(identifier);
        let oid = parts.field(Field::OID).ok()?.contents;
        let parameters = parts.optional(Field::ANY.optional()).ok()?.map_or(&[][..], |parameters| parameters.whole);
        match oid {
            ED25519 => return parameters.is_empty().then_some(Algorithm::Ed25519),
            ISO_SHA1_RSA => return Some(Algorithm::Rsa(Hash::Sha1)),
            ECDSA_SHA1 => return Some(Algorithm::Ecdsa(Hash::Sha1)),
            DSA_SHA1 => return Some(Algorithm::Dsa(Hash::Sha1)),
            DSA_SHA256 => return Some(Algorithm::Dsa(Hash::Sha256)),
            _ => {}
        }
        if let Some([number]) = oid.strip_prefix(PKCS1) {
            return Some(match number {
                4 => Algorithm::Rsa(Hash::Md5),
                5 => Algorithm::Rsa(Hash::Sha1),
                10 => Algorithm::Pss(pss(parameters)?),
                11 => Algorithm::Rsa(Hash::Sha256),
                12 => Algorithm::Rsa(Hash::Sha384),
                13 => Algorithm::Rsa(Hash::Sha512),
                _ => return None,
            });
        }
        Some(Algorithm::Ecdsa(match oid.strip_prefix(ECDSA_SHA2)? {
            [2] => Hash::Sha256,
            [3] => Hash::Sha384,
            [4] => Hash::Sha512,
            _ => return None,
        }))
    }

    fn hash(self) -> Option<Hash> {
        match self {
            Algorithm::Rsa(hash) | Algorithm::Pss(hash) | Algorithm::Dsa(hash) | Algorithm::Ecdsa(hash) => Some(hash),
            Algorithm::Ed25519 => None,
        }
    }

    /// The name of its keys.
    fn keys(self) -> &'static str {
        match self {
            Algorithm::Rsa(_) | Algorithm::Pss(_) => "RSA",
            Algorithm::Dsa(_) => "DSA",
            Algorithm::Ecdsa(_) => "ECDSA",
            Algorithm::Ed25519 => "Ed25519",
        }
    }

    /// Its name, of those that are insecure.
    fn name(self) -> String {
        match self {
            Algorithm::Rsa(Hash::Md5) => "MD5-RSA".to_owned(),
            Algorithm::Ecdsa(_) => "ECDSA-SHA1".to_owned(),
            other => format!("SHA1-{}", other.keys()),
        }
    }
}

/// Checks a signature with this algorithm (an identifier without its outer tag) by this key.
///
/// # Errors
/// It is none, or an algorithm or a key must not be used, or the key is of another kind.
pub(crate) fn check(under: Under, identifier: &[u8], key: &Key<'_>, signed: &[u8], signature: &[u8]) -> Result<(), String> {
    let unimplemented = || "x509: cannot verify signature: algorithm unimplemented".to_owned();
    let algorithm = Algorithm::read(identifier).ok_or_else(unimplemented)?;
    let is_insecure = match algorithm.hash() {
        Some(Hash::Md5) => true,
        Some(Hash::Sha1) => under == Under::Certificate,
        _ => false,
    };
    if is_insecure {
        return Err(format!("x509: cannot verify signature: insecure algorithm {}", algorithm.name()));
    }
    match (key, algorithm) {
        (Key::Dsa | Key::Other, _) => Err(unimplemented()),
        (Key::Rsa(key), Algorithm::Rsa(_) | Algorithm::Pss(_)) => check_rsa(under, algorithm, key, signed, signature),
        (Key::Ec(curve, point), Algorithm::Ecdsa(hash)) => {
            let Some(algorithm) = ecdsa(*curve, hash) else {
                return Err(format!("x509: signatures of {} with {hash:?} are not checked by this server", key.kind()));
            };
            let checked = UnparsedPublicKey::new(algorithm, point).verify(signed, signature);
            checked.map_err(|_| "x509: ECDSA verification failure".to_owned())
        }
        (Key::Ed25519(bytes), Algorithm::Ed25519) => {
            let checked = UnparsedPublicKey::new(&signature::ED25519, bytes).verify(signed, signature);
            checked.map_err(|_| "x509: Ed25519 verification failure".to_owned())
        }
        (key, algorithm) => {
            let (wanted, found) = (algorithm.keys(), key.go_type());
            Err(format!("x509: signature algorithm specifies an {wanted} public key, but have public key of type {found}"))
        }
    }
}

fn check_rsa(under: Under, algorithm: Algorithm, key: &RsaKey, signed: &[u8], signature: &[u8]) -> Result<(), String> {
    let bits = key.bits();
    let bits_min = if under == Under::Request { REQUEST_RSA_BITS_MIN } else { RSA_BITS_MIN };
    if bits < bits_min {
        return Err(format!("crypto/rsa: {bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"));
    }
    let wrong = match key.exponent {
        _ if key.modulus.last().is_some_and(|last| last & 1 == 0) => Some("public modulus is even"),
        ..2 => Some("public exponent too small or negative"),
        exponent if exponent & 1 == 0 => Some("public exponent is even"),
        exponent if exponent > EXPONENT_MAX => Some("public exponent too large"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(format!("crypto/rsa: {wrong}"));
    }
    let Some(parameters) = rsa(algorithm, bits) else {
        return Err(format!("x509: signatures of RSA keys of {bits} bits with {algorithm:?} are not checked by this server"));
    };
    let exponent = key.exponent.to_be_bytes();
    let exponent = &exponent[exponent.iter().take_while(|byte| **byte == 0).count()..];
    let checked = PublicKeyComponents { n: &key.modulus[..], e: exponent }.verify(parameters, signed, signature);
    checked.map_err(|_| "crypto/rsa: verification error".to_owned())
}

fn rsa(algorithm: Algorithm, bits: usize) -> Option<&'static RsaParameters> {
    let is_short = bits < RSA_BITS_MIN;
    Some(match algorithm {
        Algorithm::Rsa(Hash::Sha1) => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Algorithm::Rsa(Hash::Sha256) if is_short => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Algorithm::Rsa(Hash::Sha512) if is_short => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        _ if is_short => return None,
        Algorithm::Rsa(Hash::Sha256) => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rsa(Hash::Sha384) => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rsa(Hash::Sha512) => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Pss(Hash::Sha256) => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Pss(Hash::Sha384) => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Pss(Hash::Sha512) => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn ecdsa(curve: Curve, hash: Hash) -> Option<&'static EcdsaVerificationAlgorithm> {
    Some(match (curve, hash) {
        (Curve::P256, Hash::Sha1) => &signature::ECDSA_P256_SHA1_ASN1,
        (Curve::P256, Hash::Sha256) => &signature::ECDSA_P256_SHA256_ASN1,
        (Curve::P256, Hash::Sha384) => &signature::ECDSA_P256_SHA384_ASN1,
        (Curve::P256, Hash::Sha512) => &signature::ECDSA_P256_SHA512_ASN1,
        (Curve::P384, Hash::Sha256) => &signature::ECDSA_P384_SHA256_ASN1,
        (Curve::P384, Hash::Sha384) => &signature::ECDSA_P384_SHA384_ASN1,
        (Curve::P384, Hash::Sha512) => &signature::ECDSA_P384_SHA512_ASN1,
        (Curve::P521, Hash::Sha1) => &signature::ECDSA_P521_SHA1_ASN1,
        (Curve::P521, Hash::Sha256) => &signature::ECDSA_P521_SHA256_ASN1,
        (Curve::P521, Hash::Sha384) => &signature::ECDSA_P521_SHA384_ASN1,
        (Curve::P521, Hash::Sha512) => &signature::ECDSA_P521_SHA512_ASN1,
        _ => return None,
    })
}

/// The hash of RSA-PSS, when all its parameters are of one hash and have their usual values.
fn pss(parameters: &[u8]) -> Option<Hash> {
    const IDENTIFIER: Field = Field::sequence("AlgorithmIdentifier");
    let sequence = asn1::Reader::new(parameters).field(Field::sequence("pssParameters")).ok()?;
    let mut members = asn1::Reader::new(sequence.contents);
    let hash = hash(members.field(IDENTIFIER.explicit(0)).ok()?.contents)?;
    let (mask, parameters) = identifier(members.field(IDENTIFIER.explicit(1)).ok()?.contents)?;
    let of_mask = asn1::Reader::new(parameters).field(IDENTIFIER).ok()?;
    if mask != MGF1 || self::hash(of_mask.contents)? != hash {
        return None;
    }
    let salt = asn1::int64(members.field(Field::INT.explicit(2)).ok()?.contents).ok()?;
    let trailer = match members.optional(Field::INT.explicit(3).optional()).ok()? {
        None => 1,
        Some(trailer) => asn1::int64(trailer.contents).ok()?,
    };
    let usual = match hash {
        Hash::Sha256 => 32,
        Hash::Sha384 => 48,
        _ => 64,
    };
    (salt == usual && trailer == 1).then_some(hash)
}

/// Algorithm and parameters, of which there may be none.
fn identifier(contents: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = asn1::Reader::new(contents);
    let oid = parts.field(Field::OID).ok()?.contents;
    let parameters = parts.optional(Field::ANY.optional()).ok()?;
    Some((oid, parameters.map_or(&[][..], |parameters| parameters.whole)))
}

/// The hash that an algorithm identifier names.
fn hash(contents: &[u8]) -> Option<Hash> {
    let (oid, parameters) = identifier(contents)?;
    let hash = match oid.strip_prefix(SHA2)? {
        [1] => Hash::Sha256,
        [2] => Hash::Sha384,
        [3] => Hash::Sha512,
        _ => return None,
    };
    (parameters.is_empty() || parameters == der::NULL).then_some(hash)
}
